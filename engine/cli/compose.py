"""Owns the composition of a running gateway: every part is opened here, in order, and closed in reverse.
Never serves HTTP or handles signals, and holds no behaviour of the parts.
Called by `conch serve`; the order is Postgres, schema, lease, journal, tasks, definitions, runtime, gateway.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import logging
import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import psycopg
from sqlalchemy.exc import SQLAlchemyError

from engine import __version__
from engine.api.gateway import Gateway
from engine.bpmn import check_paths, parse
from engine.bpmn.spiff import Program
from engine.errors import DefinitionInvalid, Problem
from engine.keys import KeySource
from engine.local.postgres import EmbeddedPostgres, PostgresConfig, RestartPolicy
from engine.recovery import PostgresOwnership
from engine.registry import REGISTRY
from engine.runtime import DeployedDefinition, Runtime
from engine.settings import JournalSettings, Settings
from engine.store import database as databases
from engine.store import leases, partitions
from engine.store.definitions import Definitions, Deployable
from engine.store.journal import JournalLimits
from engine.store.postgres_journal import PostgresJournal
from engine.store.queries import Queries
from engine.telemetry import Telemetry

log = logging.getLogger("conch.gateway")

PARTITIONS_EVERY_S = 3600.0

Say = Callable[[str], None]


class Opened(NamedTuple):
    """A gateway that is ready to serve."""

    gateway: Gateway
    runtime: Runtime


def now_us() -> int:
    """Microseconds since the Unix epoch."""
    return time.time_ns() // 1000


def now_ms() -> int:
    """Milliseconds since the Unix epoch."""
    return time.time_ns() // 1_000_000


@asynccontextmanager
async def open_gateway(settings: Settings, say: Say) -> AsyncIterator[Opened]:
    """Open every part of a gateway. Raises DefinitionInvalid or ConchError, with everything opened closed again."""
    tasks = importlib.import_module(settings.tasks)
    deployables = read_processes(settings)
    telemetry = Telemetry()
    runtimes: list[Runtime] = []
    async with AsyncExitStack() as stack:
        store = await _open_store(stack, settings, telemetry, runtimes, say)
        definitions = Definitions(store.database)
        await definitions.deploy(deployables, store.keys.mint, f"{socket.gethostname()}:{os.getpid()}")
        serving = await _serving(definitions, settings)
        resources = await stack.enter_async_context(tasks.open_resources(settings, telemetry, now_us))
        runtime = Runtime(
            journal=store.journal,
            keys=store.keys,
            registry=REGISTRY,
            resources=resources,
            telemetry=telemetry,
            settings=settings.runtime,
            now_us=now_us,
            engine_version=__version__,
            commit_timeout_s=settings.journal.commit_timeout_ms / 1000,
            ownership=PostgresOwnership(store.database, store.lease),
        )
        runtimes.append(runtime)
        await stack.enter_async_context(runtime)
        gateway = Gateway(
            settings=settings,
            version=__version__,
            runtime=runtime,
            journal=store.journal,
            keys=store.keys,
            queries=Queries(store.database),
            serving=serving,
            fleet=resources,
            telemetry=telemetry,
            now_us=now_us,
            lease_held=lambda: not store.lease.lapsed,
        )
        stack.callback(gateway.refusals.close)
        yield Opened(gateway, runtime)


class _Store(NamedTuple):
    database: databases.Database
    lease: leases.Lease
    keys: KeySource
    journal: PostgresJournal


async def _open_store(
    stack: AsyncExitStack, settings: Settings, telemetry: Telemetry, runtimes: list[Runtime], say: Say
) -> _Store:
    """Postgres with its schema, a lease, partitions and a journal that writes. `runtimes` will write to it."""
    url = await stack.enter_async_context(database_url(settings, say))
    await databases.migrate(url)
    database = await databases.connect(url, pool_size=settings.postgres.pool_size)
    stack.push_async_callback(database.close)
    keeping = await _keep_partitions(url)
    stack.callback(keeping.cancel)
    lease = await leases.acquire(database, __version__, lease_s=settings.runtime.lease_ms / 1000)
    keys = KeySource(lease.writer_id, now_ms, lease.not_before_ms)
    journal = PostgresJournal(
        url,
        lease,
        journal_limits(settings.journal),
        telemetry=telemetry,
        allow_unsafe=settings.postgres.allow_unsafe,
    )
    stack.push_async_callback(_leave, journal, lease, runtimes)
    await journal.start()
    return _Store(database, lease, keys, journal)


@asynccontextmanager
async def database_url(settings: Settings, say: Say) -> AsyncIterator[str]:
    """The configured database, or the embedded Postgres for as long as this is open."""
    if settings.postgres.url is not None:
        yield settings.postgres.url.get_secret_value()
        return
    embedded = EmbeddedPostgres(embedded_config(settings), on_progress=say, restart=RestartPolicy(), on_restart=say)
    async with embedded:
        yield embedded.url


def embedded_config(settings: Settings) -> PostgresConfig:
    """Where the embedded Postgres of these settings lives."""
    return PostgresConfig(settings.postgres.data_dir.resolve(), settings.postgres.binaries)


def read_processes(settings: Settings) -> list[Deployable]:
    """Every process of the processes folder. Raises DefinitionInvalid with every problem of every file."""
    folder = settings.processes
    found = check_paths([folder], REGISTRY.specs, serving={settings.process})
    problems = [problem for problem in found if problem.severity == "error"]
    deployables: list[Deployable] = []
    if not problems:
        for file in sorted(folder.rglob("*.bpmn")):
            xml = file.read_bytes()
            name = file.relative_to(folder).as_posix()
            deployables += [
                Deployable(process.process_id, hashlib.sha256(xml).hexdigest(), name, xml)
                for process in parse(xml, name)
            ]
        if settings.process not in {each.process_id for each in deployables}:
            problems.append(_process_missing(folder, settings.process))
    if problems:
        raise DefinitionInvalid(problems)
    return deployables


def _process_missing(folder: Path, process: str) -> Problem:
    message = f"no diagram in {folder} holds the process `{process}`, which the setting `process` names"
    remedy = "Add it, or name another process in conch.toml."
    return Problem(str(folder), "", "", "process-missing", message, remedy)


async def _serving(definitions: Definitions, settings: Settings) -> DeployedDefinition:
    latest = await definitions.latest(settings.process)
    assert latest is not None, "deployed a moment ago"
    return DeployedDefinition(latest.ref, program_of(latest.xml, latest.resource_name))


def program_of(xml: bytes, resource_name: str) -> Program:
    """The runnable form of a deployed file."""
    (definition,) = parse(xml, resource_name)
    return Program(definition)


async def _leave(journal: PostgresJournal, lease: leases.Lease, runtimes: Sequence[Runtime]) -> None:
    """Store what is still buffered, then give the lease back, saying whether somebody has to look after instances."""
    unstored = await journal.close()
    try:
        await lease.release(recovered=not unstored and not any(runtime.left_open for runtime in runtimes))
    except (SQLAlchemyError, OSError) as error:  # the lease runs out by itself
        log.warning("lease not released", extra={"reason": type(error).__name__})


async def _keep_partitions(url: str) -> asyncio.Task[None]:
    """Make the partitions of the days ahead now, and look again every hour for as long as the task lives."""

    async def make() -> None:
        connection = await databases.open_raw(databases.conninfo_of(url))
        try:
            await partitions.ensure_ahead(connection)
        finally:
            await connection.close()

    async def keep() -> None:
        while True:
            await asyncio.sleep(PARTITIONS_EVERY_S)
            try:
                await make()
            except (psycopg.Error, OSError) as error:  # the journal makes a missing one; the next hour tries again
                log.error("partitions not made ahead", extra={"reason": type(error).__name__})

    await make()
    return asyncio.create_task(keep(), name="partitions")


def journal_limits(settings: JournalSettings) -> JournalLimits:
    return JournalLimits(
        max_rows=settings.buffer_rows, max_bytes=settings.buffer_bytes, linger_s=settings.ride_ms / 1000
    )


def bind(settings: Settings) -> socket.socket:
    """The listening socket, bound before anything slow is started. Raises OSError with the address in its text."""
    host, port = settings.server.host, settings.server.port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise OSError(error.errno, f"cannot listen on {host}:{port}: {error.strerror}") from None
    return listener
