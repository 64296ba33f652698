"""Owns what a figure depends on and has to be read with: machine, Python, Postgres settings, file system, disk.
Never judges a figure, but refuses a data folder in memory, on which durability costs nothing.
Called by the benchmarks.
"""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path
from statistics import median
from typing import Any

import psycopg

_IN_MEMORY = {"tmpfs", "ramfs"}
_SYNCS = 100
_LOOPS = 40
_SHOWN = ("server_version", "fsync", "synchronous_commit", "full_page_writes", "wal_sync_method")


class InMemory(Exception):
    """The data folder lies in memory."""


def describe() -> dict[str, Any]:
    """Machine and Python, as far as they matter here."""
    cpu = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [
            line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if line.startswith("model name")
        ]
        cpu = names[0] if names else cpu
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "memory_gib": round(memory_bytes / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load_average_at_start": round(os.getloadavg()[0], 2),
        **_reference_loop(),
    }


def _reference_loop() -> dict[str, float]:
    """How fast this core runs Python now, and how steadily: 1.0 is a core that nobody else uses."""
    took_ms = []
    for _ in range(_LOOPS):
        began = time.perf_counter()
        numbers = {number: str(number) for number in range(20_000)}
        sum(map(len, numbers.values()))
        took_ms.append((time.perf_counter() - began) * 1000)
    return {
        "reference_loop_ms": round(min(took_ms), 2),
        "reference_loop_median_to_best": round(median(took_ms) / min(took_ms), 2),
    }


def describe_storage(folder: Path, url: str) -> dict[str, Any]:
    """The file system below `folder`, what making a write durable costs there, and how Postgres at `url` does it.

    Raises InMemory.
    """
    kind = file_system(folder)
    if kind in _IN_MEMORY:
        raise InMemory(f"{folder} is on {kind}: durability would be measured at no cost; choose a folder on a disk")
    with psycopg.connect(url) as connection:
        settings = {name: connection.execute(f"SHOW {name}").fetchone() for name in _SHOWN}
    return {
        "file_system": kind,
        "fdatasync_us": round(fdatasync_us(folder)),
        **{f"postgres_{name}": value[0] if value else None for name, value in settings.items()},
    }


def file_system(folder: Path) -> str:
    """The type of the file system that `folder` is on (proc(5), mountinfo)."""
    path = str(folder.resolve())
    best, kind = "", "unknown"
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        point = left.split()[4]
        if len(point) >= len(best) and (path + "/").startswith(point.rstrip("/") + "/"):
            best, kind = point, right.split()[0]
    return kind


def fdatasync_us(folder: Path) -> float:
    """Median microseconds until 8 KiB appended to a file are durable."""
    path = folder / "fdatasync.probe"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        took_us = []
        for _ in range(_SYNCS):
            began = time.perf_counter()
            os.write(descriptor, bytes(8192))
            os.fdatasync(descriptor)
            took_us.append((time.perf_counter() - began) * 1e6)
        return median(took_us)
    finally:
        os.close(descriptor)
        path.unlink()
