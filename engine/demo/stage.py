"""Owns the real parts of the demonstration and their order: Postgres, two Triton servers, the gateway before them.
Never sends an inference request or judges anything.
Called by the play.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import re
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import aiohttp
import psycopg

import engine
from engine.demo.errors import DemoError
from engine.demo.gateway import GatewayProcess, free_port
from engine.local.binaries import PostgresError
from engine.local.postgres import EmbeddedPostgres, PostgresConfig
from engine.local.triton import LocalTriton, LocalTritonError, TritonConfig

MODELS = ("embed", "chat", "chat-small")
VICTIM, SURVIVOR = "triton-a", "triton-b"
DATABASE = "conch_demo"
CONFIG_FILE = "conch.toml"

_CONFIG = """\
# Written by `conch demo`: two pools, so that a request can fall back from `chat` to `chat-small`.
processes = "{processes}"

[server]
port = {port}

[postgres]
url = "{database_url}"

[[replicas]]
name = "{victim.config.name}"
grpc = "{victim.grpc_url}"
pool = "large"

[[replicas]]
name = "{survivor.config.name}"
grpc = "{survivor.grpc_url}"
pool = "small"

[[models]]
name = "embed"
pools = ["large", "small"]
price = "embedding"

[[models]]
name = "chat"
pools = ["large"]
fallback = "chat-small"
price = "chat"

[[models]]
name = "chat-small"
pools = ["small"]
price = "chat-small"

[[prices]]
id = "embedding"
input_token_usd = "0.00000002"

[[prices]]
id = "chat"
input_token_usd = "0.0000025"
output_token_usd = "0.00001"

[[prices]]
id = "chat-small"
input_token_usd = "0.00000015"
output_token_usd = "0.0000006"
"""


@dataclass(frozen=True)
class Stage:
    """Everything that runs, ready for requests."""

    folder: Path
    gateway: GatewayProcess
    victim: LocalTriton
    survivor: LocalTriton
    database_url: str
    password_file: Path
    http: aiohttp.ClientSession

    @property
    def config(self) -> Path:
        return self.folder / CONFIG_FILE

    @property
    def psql_target(self) -> str:
        """The connection URL of the audit without its password."""
        return re.sub(r":[^:@/]*@", "@", self.database_url, count=1)


@contextlib.asynccontextmanager
async def open_stage(folder: Path, say: Callable[[str], None]) -> AsyncIterator[Stage]:
    """Start every part, side by side where possible, and end all of them on leaving, however that happens.

    What an earlier, killed demonstration left running or on disk is ended and replaced; the audit begins empty.
    Raises DemoError with the remedy: folder in use, part not installed, part that does not start.
    """
    processes = Path(engine.__file__).parent.parent / "processes"
    if not processes.is_dir():
        raise DemoError(f"the shipped diagrams are not in {processes}: run the demonstration from a checkout")
    async with contextlib.AsyncExitStack() as running:
        running.enter_context(_locked(folder))
        http = await running.enter_async_context(aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)))
        postgres = EmbeddedPostgres(PostgresConfig(folder / "postgres"), on_progress=say)
        victim, survivor = (
            LocalTriton(TritonConfig(name=name, work_dir=folder / "triton", models=MODELS, drain_timeout_s=1))
            for name in (VICTIM, SURVIVOR)
        )
        say("starting Postgres and two Triton servers")
        running.push_async_callback(_end_all, postgres, victim, survivor)
        await _start_all(postgres, victim, survivor)
        database_url = await _empty_database(postgres.url)
        port = free_port()
        _write_config(folder / CONFIG_FILE, processes, port, database_url, victim, survivor)
        gateway = GatewayProcess(folder / CONFIG_FILE, port, folder / "gateway.log", MODELS)
        say("starting the gateway")
        running.push_async_callback(gateway.stop)
        await gateway.start(http)
        yield Stage(folder, gateway, victim, survivor, database_url, postgres.home / "password", http)
        say("stopping everything")


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the folder for this demonstration; the kernel frees it however this process ends."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / "demo.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise DemoError(f"cannot use {folder}: {error.strerror}; choose another folder with --dir") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
            raise DemoError(
                f"another demonstration (process {holder}) uses {folder}: stop it, or choose another folder with --dir"
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


async def _start_all(postgres: EmbeddedPostgres, *tritons: LocalTriton) -> None:
    try:
        async with asyncio.TaskGroup() as starting:
            starting.create_task(postgres.start())
            for triton in tritons:
                starting.create_task(triton.start())
    except* (PostgresError, LocalTritonError) as failed:
        raise DemoError("\n".join(str(error) for error in failed.exceptions)) from failed


async def _end_all(postgres: EmbeddedPostgres, *tritons: LocalTriton) -> None:
    outcomes = await asyncio.gather(postgres.stop(), *(triton.stop() for triton in tritons), return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome


async def _empty_database(url: str) -> str:
    """The URL of a database of the demonstration's own, made afresh."""
    own = urlunsplit(urlsplit(url)._replace(path=f"/{DATABASE}"))
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute(f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)")
        await connection.execute(f"CREATE DATABASE {DATABASE}")
    return own


def _write_config(
    path: Path, processes: Path, port: int, database_url: str, victim: LocalTriton, survivor: LocalTriton
) -> None:
    text = _CONFIG.format(processes=processes, port=port, database_url=database_url, victim=victim, survivor=survivor)
    # It holds the database's password.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
