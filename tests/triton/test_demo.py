"""Owns the proof that `conch demo` keeps its promises: real parts, an honest report, nothing left behind.
Never runs without a real Triton and a real Postgres.
Called by pytest; each test starts whole demonstrations, so there are few.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.triton_fixtures import require_tritonserver

pytestmark = [pytest.mark.triton, pytest.mark.postgres]

ROOT = Path(__file__).parents[2]
LIMIT_S = 120.0
REQUESTS = 60


class Demo:
    """One `conch demo` as a user starts it; its standard error is read from a file."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.errors = folder.with_name(f"{folder.name}-{time.monotonic_ns()}.err")
        command = [sys.executable, "-m", "engine.cli", "demo", "--requests", str(REQUESTS), "--dir", str(folder)]
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [*command, *options], cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True
            )

    def said(self) -> str:
        return self.errors.read_text()

    def until_said(self, text: str) -> str:
        """Everything said so far, once `text` is part of it."""
        deadline_s = time.monotonic() + LIMIT_S
        while text not in (said := self.said()):
            assert self.process.poll() is None, said
            assert time.monotonic() < deadline_s, said
            time.sleep(0.02)
        return said

    def end(self, number: signal.Signals | None = None) -> tuple[int, str]:
        """The exit status and standard output, once it has ended, after a signal if one is given."""
        if number is not None:
            self.process.send_signal(number)
        output, _ = self.process.communicate(timeout=LIMIT_S)
        return self.process.returncode, output


@pytest.fixture
def folder(cluster_dir: Path, postgres_binaries: Path) -> Iterator[Path]:
    require_tritonserver()
    yield cluster_dir / "demo"
    for process in _processes_of(cluster_dir):
        os.kill(process, signal.SIGKILL)


def test_ctrl_c_in_the_middle_stops_every_process(folder: Path) -> None:
    demo = Demo(folder)
    demo.until_said("is killed (SIGKILL)")
    assert len(_processes_of(folder)) > 3
    assert demo.end(signal.SIGINT) == (130, ""), demo.said()
    assert _processes_of(folder) == []
    assert "Traceback" not in demo.said()


def test_a_kept_demo_shows_where_it_is_and_a_killed_one_is_cleaned_up_by_the_next(folder: Path) -> None:
    kept = Demo(folder, "--keep", "--seed", "1")
    said = kept.until_said("Ctrl-C")
    address = next(word for word in said.split() if word.startswith("http://") and word.endswith("/docs"))
    with urlopen(address, timeout=10) as page:  # a gateway of ours, on loopback
        assert page.status == 200

    second = Demo(folder)
    assert second.end() == (1, "")
    assert f"another demonstration (process {kept.process.pid}) uses {folder}" in second.said()
    assert "Traceback" not in second.said()

    kept.end(signal.SIGKILL)

    following = Demo(folder, "--json", "--seed", "2")
    status, output = following.end()
    assert status == 0, [output, following.said()]
    report = json.loads(output)
    _check_report(report)
    assert f"{REQUESTS}/{REQUESTS}" in following.said()
    assert _processes_of(folder) == []


def _check_report(report: dict[str, object]) -> None:
    assert report["requests"] == REQUESTS
    assert report["incomplete"] == 0
    assert report["answered"] == REQUESTS - int(str(report["failed"]))
    assert set(_mapping(report["failures"])) <= {"STREAM_BROKEN"}
    assert int(str(report["retried"])) > 0
    assert int(str(report["fell_back"])) > 0
    assert {"admit", "check_health", "route", "infer", "back_off", "fall_back", "settle"} <= set(
        _mapping(report["steps"])
    )
    told = _mapping(report["retried_request"])
    assert "gRPC UNAVAILABLE" in " ".join(map(str, told["story"])), told  # type: ignore[call-overload]


def _mapping(value: object) -> dict[str, object]:
    assert isinstance(value, dict)
    return value


def _processes_of(folder: Path) -> list[int]:
    """Live processes that name the folder on their command line, the demonstrations' own ones left out."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue  # it ended meanwhile
        if str(folder).encode() in b"\0".join(words) and b"demo" not in words:
            found.append(int(path.parent.name))
    return found
