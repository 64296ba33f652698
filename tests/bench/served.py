"""Owns what the benchmarks over HTTP share: a gateway on its own database, load in another process, CPU and memory.
Never measures a gateway's speed.
Called by the benchmarks of inference requests and of operational instances.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import psycopg

from engine.demo.gateway import GatewayProcess, free_port
from engine.local.postgres import EmbeddedPostgres

ROOT = Path(__file__).parents[2]
_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
_LOAD_TIMEOUT_S = 120.0

_CONFIG = """\
processes = "{processes}"

[server]
port = {port}

[postgres]
url = "{database_url}"
"""


class NotAudited(Exception):
    """The audit does not hold what clients were answered: the figures would be worth nothing."""


@dataclass(frozen=True)
class Served:
    """A gateway under test and everything that its CPU time is compared with."""

    gateway: GatewayProcess
    port: int
    postgres_pid: int
    database_url: str
    grpc: str = ""
    replica_pids: Sequence[int] = ()


@asynccontextmanager
async def served(
    postgres: EmbeddedPostgres,
    folder: Path,
    name: str,
    settings: str = "",
    *,
    models: Sequence[str] = (),
    launch: Sequence[str] = ("-m", "engine.cli"),
) -> AsyncIterator[Served]:
    """A gateway on a database of its own. `settings` are sections of conch.toml; it is ready when `models` are."""
    database = f"bench_{name}"
    async with await psycopg.AsyncConnection.connect(postgres.url, autocommit=True) as connection:
        await connection.execute(f"CREATE DATABASE {database}".encode())
    database_url = postgres.url.replace("/conch?", f"/{database}?")
    port = free_port()
    config = folder / f"{name}.toml"
    config.write_text(_CONFIG.format(processes=ROOT / "processes", port=port, database_url=database_url) + settings)
    gateway = GatewayProcess(config, port, folder / f"{name}.log", models, launch)
    async with aiohttp.ClientSession() as http:
        await gateway.start(http)
    try:
        yield Served(gateway, port, postgres.pid, database_url)
    finally:
        await gateway.stop()


async def child(module: str, *arguments: str) -> dict[str, Any]:
    """Run a module in a process of its own; returns the JSON object that it prints."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, *arguments, cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(_LOAD_TIMEOUT_S):
            output, _ = await process.communicate()
    except BaseException:
        if process.returncode is None:
            process.kill()
            await process.wait()
        raise
    if process.returncode != 0:
        raise RuntimeError(f"{module} ended with status {process.returncode}")
    found: dict[str, Any] = json.loads(output)
    return found


def cpu_s(pid: int) -> float:
    """CPU seconds of a live process, all threads (proc(5), stat)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _CLOCK_TICKS


def children_cpu_s(pid: int) -> float:
    """CPU seconds of a process and of its children, ended and collected ones included."""
    total_s = 0.0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it ended meanwhile
        if int(fields[1]) == pid:
            total_s += (int(fields[11]) + int(fields[12])) / _CLOCK_TICKS
        elif int(stat.parent.name) == pid:
            total_s += sum(int(fields[at]) for at in (11, 12, 13, 14)) / _CLOCK_TICKS
    return total_s


def resident_bytes(pid: int) -> int:
    """Memory of a live process that is not shared with others (proc(5), smaps_rollup)."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private_"))
