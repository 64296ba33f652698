"""What was recorded once stays true: the same commands give the same rows, byte for byte, and the same steps."""

from __future__ import annotations

from difflib import unified_diff
from pathlib import Path

import pytest

from engine.store import json_text
from tests.golden import logs
from tests.golden.__main__ import record
from tests.golden.scripts import SCRIPTS

LOGS = logs.log_files()
FROZEN = "a golden log is never edited or removed: a change of behaviour is a new log beside it, and an ADR"


@pytest.mark.parametrize("log", LOGS, ids=logs.name_of)
def test_a_recorded_log_means_what_it_meant(log: Path) -> None:
    recorded, replayed = logs.recorded(log), logs.replayed(log)
    if recorded != replayed:
        difference = "\n".join(unified_diff(recorded, replayed, "recorded", "replayed", lineterm="", n=1))
        pytest.fail(f"{logs.name_of(log)} has another meaning now; {FROZEN}\n{difference[:5000]}")


def test_recorded_files_are_added_to_and_never_edited_or_removed() -> None:
    written = logs.MANIFEST.read_text(encoding="utf-8").splitlines()
    listed = {line.split("  ", 1)[1]: line for line in written}
    found = {line.split("  ", 1)[1]: line for line in logs.manifest()}

    assert len(listed) == len(written), "a file is in the manifest twice"
    problems = [f"removed: {name}" for name in listed if name not in found]
    problems += [f"edited: {name}" for name in listed if name in found and found[name] != listed[name]]
    assert not problems, f"{', '.join(problems)}; {FROZEN}"
    unlisted = sorted(found.keys() - listed.keys())
    assert not unlisted, f"not in the manifest: {', '.join(unlisted)}; record with `python -m tests.golden record`"


def test_a_log_is_what_its_name_says() -> None:
    for log in LOGS:
        head = json_text.loads(logs.recorded(log)[0])
        assert head["log"] == logs.name_of(log)
        assert set(head) == {"log", "says", "engine_version", "schema_version", "steps"}
        assert head["says"].endswith(".")


def test_every_script_is_recorded() -> None:
    assert set(SCRIPTS) <= {logs.name_of(log) for log in LOGS}


def test_a_recorded_log_cannot_be_recorded_again() -> None:
    before = sorted(logs.manifest())
    with pytest.raises(SystemExit, match="service-task/completed is recorded"):
        record("service-task/completed")
    assert sorted(logs.manifest()) == before


def test_a_change_of_any_byte_of_a_row_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    log = logs.FOLDER / "service-task" / "completed.jsonl"
    told = [
        line.replace('"result":1', '"result":2') if "job_completed" in line else line for line in logs.recorded(log)
    ]
    monkeypatch.setattr(logs, "recorded", lambda _: told)
    changed = [line for line, before in zip(logs.replayed(log), told, strict=True) if line != before]

    assert any('"variables":{"result":2}' in line for line in changed)
    assert any(line.startswith('{"end"') for line in changed)
