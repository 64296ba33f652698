"""Owns the name under which a process holds its lease, and the proof that such a process is gone.
Never guesses: a process on another machine, or one that this system cannot look up, is not known to be gone.
Called by the leases, so that a gateway that restarts after a crash need not wait for its own old lease to run out.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

_STARTED_AT_FIELD = 19  # of /proc/PID/stat behind the command name: start time in ticks since boot; see proc(5)


def this_process() -> str:
    """Host, boot, process namespace, process id and its start time."""
    return f"{_machine()}/{os.getpid()}/{_started_at(os.getpid()) or 'unknown'}"


def is_gone(owner: str) -> bool:
    """Whether `owner` ran on this machine, since its last boot, and runs no more."""
    machine, _, process = owner.partition("/")
    pid, _, started_at = process.partition("/")
    if machine != _machine() or not pid.isdigit() or started_at in ("", "unknown"):
        return False
    return _started_at(int(pid)) != started_at


def _machine() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        boot = namespace = "unknown"
    return f"{socket.gethostname()}|{boot}|{namespace}"


def _started_at(pid: int) -> str | None:
    """Null when there is no such process, or only what is left of one for its parent to collect."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in ("Z", "X") else fields[_STARTED_AT_FIELD]
