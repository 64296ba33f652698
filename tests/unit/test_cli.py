"""The `conch` command as a process: its exit status is what scripts and make act on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def conch(*arguments: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "engine.cli", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


def test_check_fails_for_a_diagram_that_would_be_refused() -> None:
    done = conch("check", "tests/diagrams/feel-syntax.bpmn")
    assert done.returncode == 1
    assert "feel-syntax" in done.stdout


def test_check_says_how_topics_are_left_to_workers() -> None:
    file = "tests/diagrams/elements/service-task.bpmn"
    assert "check with --workers" in conch("check", file).stderr
    assert conch("check", file, "--workers").returncode == 0


def test_check_passes_for_the_shipped_diagrams() -> None:
    assert conch("check", "processes/").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (("--help",), 0, "Commands:"),
        (("--version",), 0, "conch, version"),
        (("check", "--help"), 0, "Examples:"),
        (("explain", "no-key"), 2, "KEY"),
        (("no-such-command",), 2, "No such command"),
        (("serve", "--config", "no-such-file.toml"), 1, "cannot be read"),
    ],
)
def test_the_exit_status_tells_how_a_command_went(arguments: tuple[str, ...], status: int, told: str) -> None:
    done = conch(*arguments)
    assert done.returncode == status
    assert told in done.stdout + done.stderr


@pytest.mark.parametrize("command", ["explain", "replay"])
def test_a_command_that_reads_makes_no_database_where_there_is_none(command: str, tmp_path: Path) -> None:
    done = conch(command, "1", folder=tmp_path)
    assert done.returncode == 1
    assert f"there is no database in {tmp_path / '.conch' / 'postgres'}" in done.stderr
    assert not list(tmp_path.iterdir())
