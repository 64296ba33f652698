"""Owns the composition of a running gateway: every part is opened here, in order, and closed in reverse.
Never serves HTTP or handles signals, and holds no behaviour of the parts.
Called by `conch serve`; the order is Postgres, schema, lease, journal, tasks, definitions, runtime, gateway.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import NamedTuple, NoReturn

import psycopg
from sqlalchemy.exc import SQLAlchemyError

from engine import __version__
from engine.api.camunda.services import Services
from engine.api.gateway import Gateway
from engine.cli.operational import Operational
from engine.deployments import Deployments
from engine.errors import DefinitionInvalid, Problem
from engine.keys import KeySource
from engine.linking import Programs
from engine.local.postgres import EmbeddedPostgres, PostgresConfig, RestartPolicy
from engine.ownership import PostgresOwnership
from engine.registry import REGISTRY
from engine.runtime import Runtime
from engine.settings import JournalSettings, Settings
from engine.store import database as databases
from engine.store import leases, partitions
from engine.store.definitions import PROCESS, Definitions
from engine.store.journal import JournalLimits
from engine.store.postgres_journal import PostgresJournal
from engine.store.queries import Queries
from engine.telemetry import Telemetry
from engine.uploads import Judged, judge, read_folder

log = logging.getLogger("conch.gateway")

PARTITIONS_EVERY_S = 3600.0

Say = Callable[[str], None]


class Opened(NamedTuple):
    """A gateway that is ready to serve."""

    gateway: Gateway
    runtime: Runtime
    services: Services


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
    judged = read_processes(settings)
    telemetry = Telemetry()
    runtimes: list[Runtime] = []
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(database_url(settings, say))
        database = await _open_database(stack, settings, url)
        await _require_route(database, judged, settings)
        store = await _open_store(stack, settings, url, database, telemetry, runtimes)
        deployments = await _open_deployments(stack, store, judged, settings)
        resources = await stack.enter_async_context(tasks.open_resources(settings, telemetry, now_us))
        operational = Operational(database, store.lease.epoch, store.keys, deployments, store.programs, now_us)
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
            feel_limits=settings.feel.changes,
            ownership=PostgresOwnership(store.database, store.lease, store.programs),
            waiting=operational,
        )
        runtimes.append(runtime)
        await stack.enter_async_context(operational.listening(runtime))
        await stack.enter_async_context(runtime)
        await stack.enter_async_context(operational.starting())
        gateway = Gateway(
            settings=settings,
            version=__version__,
            runtime=runtime,
            journal=store.journal,
            keys=store.keys,
            queries=Queries(store.database),
            deployments=deployments,
            serving=lambda: deployments.serving(settings.process),
            fleet=resources,
            telemetry=telemetry,
            now_us=now_us,
            lease_held=lambda: not store.lease.lapsed,
        )
        stack.callback(gateway.refusals.close)
        yield Opened(gateway, runtime, operational.services(gateway))


class _Store(NamedTuple):
    database: databases.Database
    lease: leases.Lease
    keys: KeySource
    journal: PostgresJournal
    programs: Programs


async def _open_database(stack: AsyncExitStack, settings: Settings, url: str) -> databases.Database:
    """Postgres with its schema and the partitions of the days ahead."""
    await databases.migrate(url)
    database = await databases.connect(url, pool_size=settings.postgres.pool_size)
    stack.push_async_callback(database.close)
    keeping = await _keep_partitions(url)
    stack.callback(keeping.cancel)
    return database


async def _open_store(
    stack: AsyncExitStack,
    settings: Settings,
    url: str,
    database: databases.Database,
    telemetry: Telemetry,
    runtimes: list[Runtime],
) -> _Store:
    """A lease, and a journal that writes under it. `runtimes` will write to it."""
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
    return _Store(database, lease, keys, journal, Programs())


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


def read_processes(settings: Settings) -> Judged:
    """Every file of the processes folder. Raises DefinitionInvalid with every problem of every file."""
    folder = settings.processes
    if not folder.is_dir():
        remedy = "Correct the setting `processes`."
        raise DefinitionInvalid([Problem(str(folder), "", "", "no-such-folder", "there is no such folder", remedy)])
    resources = read_folder(folder)
    if not resources:
        return Judged((), (), (), ())
    judged = judge(resources, REGISTRY.specs, settings.process)
    try:
        judged.check()
    except DefinitionInvalid as invalid:
        raise DefinitionInvalid(each._replace(file=str(folder / each.file)) for each in invalid.problems) from None
    return judged


async def _require_route(database: databases.Database, judged: Judged, settings: Settings) -> None:
    """Raises DefinitionInvalid when the process of the inference route is neither in the folder nor deployed."""
    process = settings.process
    if any((each.kind, each.process_id) == (PROCESS, process) for each in judged.deployables):
        return
    async with Definitions(database).reading() as catalog:
        if await catalog.active(PROCESS, process) is not None:
            return
    message = f"the setting `process` names the process `{process}`, which is not deployed and in no file here"
    remedy = "Add its diagram, or name another process in conch.toml."
    raise DefinitionInvalid([Problem(str(settings.processes), "", "", "process-missing", message, remedy)])


async def _open_deployments(stack: AsyncExitStack, store: _Store, judged: Judged, settings: Settings) -> Deployments:
    """What serves, with what is new in the folder, following other gateways from now on.

    Raises DefinitionInvalid when the process of the inference route cannot be run.
    """
    deployments = Deployments(
        Definitions(store.database), store.programs, store.keys.mint, REGISTRY.specs, settings.process
    )
    await deployments.refresh()
    await deployments.deploy_unknown(judged, deployed_by=f"conch serve, {socket.gethostname()}:{os.getpid()}")
    deployments.serving(settings.process)
    following = asyncio.create_task(deployments.follow(), name="deployments")
    stack.push_async_callback(_end, following)
    return deployments


async def _end(task: asyncio.Task[NoReturn]) -> None:
    task.cancel()
    await asyncio.wait([task])


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
