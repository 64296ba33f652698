"""Owns one child process: its account, process group, log file, signals and exit.
Never restarts a child and never knows what the child does.
Called by the Postgres supervisor and the Triton launcher.
"""

import asyncio
import contextlib
import os
import platform
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

# Runs in a fresh interpreter between fork and exec, so that nothing has to run in a fork of this (threaded)
# process. The death signal is set last: changing credentials clears it. The second look at the parent closes
# the gap in which the parent died before the death signal was armed.
_LAUNCHER = """
import ctypes, os, sys
parent, death_signal, uid, gid, name, *argv = sys.argv[1:]
os.setsid()
os.umask(0o077)
if int(uid) >= 0:
    os.initgroups(name, int(gid))
    os.setgid(int(gid))
    os.setuid(int(uid))
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, int(death_signal), 0, 0, 0)
if os.getppid() != int(parent):
    sys.exit("the parent process is gone")
try:
    os.execv(argv[0], argv)
except OSError as error:
    sys.exit(f"cannot execute {argv[0]}: {error}")
"""

# Answers with the access that an account really has, ACLs and mounts included; mode bits do not tell.
_ACCESS_PROBE = """
import os, sys
uid, gid, name, *paths = sys.argv[1:]
os.initgroups(name, int(gid))
os.setgid(int(gid))
os.setuid(int(uid))
print(*(int(os.access(path, os.R_OK | os.X_OK)) for path in paths))
"""

_LOG_CHECK_INTERVAL_S = 10.0
_ENDED_POLL_S = 0.05


@dataclass(frozen=True)
class Account:
    """An operating system account that a child runs under."""

    name: str
    uid: int
    gid: int


def launch_argv(
    argv: Sequence[str], account: Account | None = None, death_signal: signal.Signals = signal.SIGTERM
) -> list[str]:
    """The command line that becomes `argv` in its own session, as `account`, bound to this process's life.

    On Linux the kernel sends `death_signal` to the child when the thread that started it ends (prctl(2),
    PR_SET_PDEATHSIG). Elsewhere a child outlives a killed parent.
    """
    who = (str(account.uid), str(account.gid), account.name) if account else ("-1", "-1", "")
    return [
        sys.executable,
        *("-I", "-S", "-c", _LAUNCHER),
        *(str(os.getpid()), str(int(death_signal)), *who, *argv),
    ]


def can_reach(account: Account, *paths: Path) -> bool:
    """Whether `account` may read and enter or run every one of `paths`; needs root. Raises PermissionError."""
    who = [str(account.uid), str(account.gid), account.name]
    command = [sys.executable, "-I", "-S", "-c", _ACCESS_PROBE, *who]
    answer = subprocess.run([*command, *map(str, paths)], capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise PermissionError(f"cannot act as the account {account.name}: {answer.stderr.strip()}")
    return set(answer.stdout.split()) == {"1"}


def is_running(pid: int) -> bool:
    """Whether `pid` is a live process. A zombie has ended: nobody has collected its status yet."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return _state(pid) not in {"", "Z", "X"}


async def wait_ended(pids: Sequence[int], timeout_s: float) -> bool:
    """Wait until none of `pids`, processes that need not be ours, is running; False after `timeout_s`."""
    deadline_s = asyncio.get_running_loop().time() + timeout_s
    while any(map(is_running, pids)):
        if asyncio.get_running_loop().time() >= deadline_s:
            return False
        await asyncio.sleep(_ENDED_POLL_S)
    return True


def _state(pid: int) -> str:
    if platform.system() == "Linux":
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        except OSError:
            return ""
        return stat.rpartition(")")[2].split()[0]
    listed = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return listed.stdout.strip()[:1]


class ChildLog:
    """The file that takes a child's standard output and error, bounded to about twice `limit_bytes`.

    The child appends to the file itself, so it never blocks on a busy parent and its last words survive one.
    """

    def __init__(self, path: Path, limit_bytes: int = 16 * 1024 * 1024) -> None:
        self.path = path
        self._limit_bytes = limit_bytes
        self._begins_at = self._read_to = path.stat().st_size if path.exists() else 0
        self._partial = b""

    def open(self) -> int:
        """A file descriptor for the child; the caller closes it."""
        return os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def bound(self) -> None:
        """Keep the file under its limit: move the content to `<name>.1` and start over in place."""
        if self.path.exists() and self.path.stat().st_size > self._limit_bytes:
            shutil.copyfile(self.path, self.path.with_name(self.path.name + ".1"))
            os.truncate(self.path, 0)
            self._begins_at, self._read_to, self._partial = 0, 0, b""

    def new_lines(self) -> list[str]:
        """The complete lines written since the last call (since construction, for the first)."""
        if not self.path.exists():
            return []
        with self.path.open("rb") as file:
            file.seek(self._read_to)
            content = self._partial + file.read()
            self._read_to = file.tell()
        *complete, self._partial = content.split(b"\n")
        return [line.decode(errors="replace") for line in complete]

    def tail(self, lines: int = 20) -> str:
        """The last `lines` lines since construction, read from at most the last 64 KiB."""
        if not self.path.exists():
            return ""
        with self.path.open("rb") as file:
            file.seek(max(self._begins_at, file.seek(0, os.SEEK_END) - 65536))
            return "\n".join(file.read().decode(errors="replace").splitlines()[-lines:])


class ChildProcess:
    """A running child, leader of its own session and process group."""

    def __init__(self, process: asyncio.subprocess.Process, log: ChildLog) -> None:
        self._process = process
        self.log = log
        self._bounding = asyncio.create_task(self._bound_log())
        self._group_ended = False

    @classmethod
    async def start(
        cls,
        argv: Sequence[str],
        *,
        log: ChildLog,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        account: Account | None = None,
        death_signal: signal.Signals = signal.SIGTERM,
    ) -> Self:
        """Start `argv` (its first word an absolute path) with output to `log`.

        `env` replaces the environment; `account` needs root. The thread that calls this must live as long as
        the child should (see `launch_argv`). Raises OSError when the log or the working directory is
        unusable; a program that cannot be executed ends with status 1 and says so in the log.
        """
        log.bound()
        descriptor = log.open()
        try:
            process = await asyncio.create_subprocess_exec(
                *launch_argv(argv, account, death_signal),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=descriptor,
                stderr=descriptor,
                env=env,
                cwd=cwd,
            )
        finally:
            os.close(descriptor)
        return cls(process, log)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """None while it runs; the exit status; minus the signal number for a signal's victim."""
        return self._process.returncode

    async def wait(self) -> int:
        """Wait for the exit, end what is left of the process group, return `returncode`."""
        code = await self._process.wait()
        if not self._group_ended:
            # Once only: later on the number may belong to a stranger's group.
            self._group_ended = True
            self._bounding.cancel()
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        return code

    def send_signal(self, number: signal.Signals) -> None:
        """Signal the child alone; an ended one is ignored."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def end(self, *steps: tuple[signal.Signals, float]) -> int:
        """Send each signal and give it its grace (seconds), then SIGKILL. Returns `returncode`."""
        for number, grace_s in steps:
            self.send_signal(number)
            with contextlib.suppress(TimeoutError):
                return await asyncio.wait_for(self.wait(), grace_s)
        self.send_signal(signal.SIGKILL)
        return await self.wait()

    async def _bound_log(self) -> None:
        while True:
            await asyncio.sleep(_LOG_CHECK_INTERVAL_S)
            await asyncio.to_thread(self.log.bound)
