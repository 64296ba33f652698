"""Owns the proof that `conch check` tells everything, in both forms, with the right exit status.
Never judges the rules themselves; they have their own tests.
Called by pytest.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from engine.cli import group
from tests.gateway_fixtures import conch

_ROOT = Path(__file__).parents[2]
_DIAGRAMS = sorted((_ROOT / "tests" / "diagrams").glob("*.bpmn"))


def check(*arguments: str | Path) -> Result:
    return CliRunner().invoke(group, ["check", *map(str, arguments)], catch_exceptions=False)


def test_the_shipped_diagrams_have_no_problem() -> None:
    done = check(_ROOT / "processes")
    assert (done.exit_code, done.stdout) == (0, "")
    assert "0 error(s), 0 warning(s)" in done.stderr
    assert json.loads(check(_ROOT / "processes", "--json").stdout) == {"errors": 0, "problems": []}


def test_all_problems_of_all_files_are_told_at_once_in_both_forms() -> None:
    done = check(*_DIAGRAMS)
    listed = json.loads(check(*_DIAGRAMS, "--json").stdout)
    assert done.exit_code == 1
    lines = [line for line in done.stdout.splitlines() if ": error: " in line or ": warning: " in line]
    assert len(lines) == len(listed["problems"])
    assert listed["errors"] == sum(problem["severity"] == "error" for problem in listed["problems"])
    wrong = {Path(problem["file"]).name for problem in listed["problems"]}
    assert len(wrong) >= 30
    for problem in listed["problems"]:
        assert set(problem) == {"file", "element_id", "element_name", "rule", "message", "remedy", "severity"}
        assert problem["rule"]
        assert problem["message"]
        assert problem["remedy"], problem
        assert problem["rule"] in done.stdout


def test_a_folder_with_one_bad_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "good.bpmn").write_bytes((_ROOT / "processes" / "inference-request.bpmn").read_bytes())
    assert check(tmp_path).exit_code == 0
    (tmp_path / "bad.bpmn").write_bytes((_ROOT / "tests" / "diagrams" / "not-xml.bpmn").read_bytes())
    done = check(tmp_path)
    assert done.exit_code == 1
    assert "bad.bpmn" in done.stdout
    assert "good.bpmn" not in done.stdout


def test_jobs_may_be_left_to_workers_except_where_requests_come_by(tmp_path: Path) -> None:
    (tmp_path / "order.bpmn").write_bytes((_ROOT / "tests" / "diagrams" / "id-is-topic.bpmn").read_bytes())
    assert check(tmp_path).exit_code == 1
    done = check(tmp_path, "--workers")
    assert done.exit_code == 0
    assert "warning: no task serves the topic `labour` [unknown-topic]" in done.stdout
    xml = (_ROOT / "processes" / "inference-request.bpmn").read_bytes()
    (tmp_path / "request.bpmn").write_bytes(xml.replace(b'type="infer"', b'type="conclude"'))
    done = check(tmp_path, "--workers")
    assert done.exit_code == 1
    assert "error: no task serves the topic `conclude` [unknown-topic]" in done.stdout


@pytest.mark.parametrize("arguments", [(), ("no-such-file.bpmn",)])
def test_without_a_file_it_is_a_usage_error(arguments: tuple[str, ...]) -> None:
    assert check(*arguments).exit_code == 2


def test_it_needs_no_database_and_no_settings_file(tmp_path: Path) -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("CONCH_")}
    done = conch("check", str(_ROOT / "processes"), environ={**environ, "HOME": str(tmp_path)})
    assert done.returncode == 0
