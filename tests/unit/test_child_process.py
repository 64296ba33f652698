"""Holds the tests of child-process supervision: real processes, no Postgres and no Triton."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from engine.local.process import ChildLog, ChildProcess, wait_ended

T = TypeVar("T")

_OWNER = """
import asyncio, os
from pathlib import Path
from engine.local.process import ChildLog, ChildProcess

async def main():
    child = await ChildProcess.start(["/bin/sleep", "600"], log=ChildLog(Path(os.devnull)))
    print(child.pid, flush=True)
    await child.wait()

asyncio.run(main())
"""


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, 60))


async def start_shell(folder: Path, script: str) -> ChildProcess:
    """A shell that has printed its first line."""
    child = await ChildProcess.start(["/bin/sh", "-c", script], log=ChildLog(folder / "log"), cwd=folder)
    while not child.log.tail() and child.returncode is None:  # noqa: ASYNC110 (a file has no event to wait for)
        await asyncio.sleep(0.01)
    return child


def test_a_zombie_is_not_running() -> None:
    with subprocess.Popen(["/bin/true"]) as child:
        assert run(wait_ended([child.pid], 30))
        assert child.returncode is None


def test_a_child_that_ignores_the_polite_signal_is_killed_with_its_whole_group(tmp_path: Path) -> None:
    async def check() -> None:
        child = await start_shell(tmp_path, "trap '' TERM; sleep 600 & echo $!; while true; do sleep 0.1; done")
        helper = int(child.log.tail())
        assert os.getpgid(helper) == child.pid
        assert await child.end((signal.SIGTERM, 0.1)) == -signal.SIGKILL
        assert await wait_ended([child.pid, helper], 30)
        assert await child.end((signal.SIGTERM, 0.1)) == -signal.SIGKILL

    run(check())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends the children of a killed process")
def test_a_killed_process_takes_its_child_along() -> None:
    with subprocess.Popen([sys.executable, "-c", _OWNER], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout
        child = int(owner.stdout.readline())
        owner.kill()
        assert run(wait_ended([child], 30))


def test_a_polite_child_ends_with_its_own_status(tmp_path: Path) -> None:
    async def check() -> None:
        child = await start_shell(tmp_path, "trap 'exit 7' TERM; echo ready; while true; do sleep 0.05; done")
        assert await child.end((signal.SIGTERM, 30)) == 7

    run(check())


def test_a_program_that_cannot_be_run_says_so_in_the_log(tmp_path: Path) -> None:
    async def check() -> None:
        child = await ChildProcess.start([str(tmp_path / "missing")], log=ChildLog(tmp_path / "log"))
        assert await child.wait() == 1
        assert f"cannot execute {tmp_path / 'missing'}" in child.log.tail()

    run(check())


def test_a_log_gives_complete_lines_once_and_starts_over_when_it_is_full(tmp_path: Path) -> None:
    log = ChildLog(tmp_path / "log", limit_bytes=20)
    assert log.new_lines() == []
    assert log.tail() == ""
    descriptor = log.open()
    try:
        os.write(descriptor, b"first\nsec")
        assert log.new_lines() == ["first"]
        os.write(descriptor, b"ond\nthird line, long\n")
        assert log.new_lines() == ["second", "third line, long"]
        assert log.tail(1) == "third line, long"
        log.bound()
        os.write(descriptor, b"fourth\n")
        assert log.new_lines() == ["fourth"]
    finally:
        os.close(descriptor)
    assert log.path.read_bytes() == b"fourth\n"
    assert log.path.with_name("log.1").read_bytes() == b"first\nsecond\nthird line, long\n"
