"""Two engines on one real Postgres: what the first leaves open, the second closes; who is taken for dead stops."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from engine.bpmn import parse
from engine.bpmn.spiff import Program
from engine.errors import LeaseLost, Rejected
from engine.inference import InferenceCall, Operation
from engine.keys import KeySource
from engine.linking import DeployedDefinition
from engine.ownership import PostgresOwnership
from engine.records import Tags
from engine.run import Run
from engine.runtime import Runtime
from engine.settings import RuntimeSettings
from engine.store import leases
from engine.store.database import Database, connect, migrate
from engine.store.definitions import Definitions, Deployable
from engine.store.postgres_journal import PostgresJournal
from engine.store.queries import Queries
from engine.telemetry import Telemetry
from tests.audit_samples import eventually
from tests.simulation.world import DIAGRAM, Attempted, Script, scripted_registry

pytestmark = pytest.mark.postgres


def now_us() -> int:
    return time.time_ns() // 1000


class Engine:
    def __init__(self, runtime: Runtime, journal: PostgresJournal, lease: leases.Lease, definition: DeployedDefinition):
        self.runtime = runtime
        self.journal = journal
        self.lease = lease
        self.definition = definition

    def submit(self) -> Run:
        deadline = datetime.now(UTC) + timedelta(minutes=5)
        variables = {
            "operation": "infer",
            "model": "chat",
            "model_version": "",
            "request_bytes": 1,
            "streaming": False,
            "deadline_at": deadline.isoformat(),
            "error": None,
            "fallback_model": None,
            "degraded": False,
            "attempts": 0,
        }
        call = InferenceCall(Operation.INFER, "chat", "", "")
        return self.runtime.submit(self.definition, call, Tags(), variables, request_id=str(uuid.uuid4()))


async def deploy(database: Database, keys: KeySource) -> DeployedDefinition:
    xml = DIAGRAM.read_bytes()
    (process,) = parse(xml, DIAGRAM.name)
    deployable = Deployable(process.process_id, process.content_hash, DIAGRAM.name, xml)
    [deployed] = await Definitions(database).deploy([deployable], keys.mint, "test")
    return DeployedDefinition(deployed.ref, Program(process))


@asynccontextmanager
async def engine(url: str, database: Database, script: Script, lease_s: float = 15.0) -> AsyncIterator[Engine]:
    """An engine that never gives its lease back, as one that was killed."""
    lease = await leases.acquire(database, "test", lease_s=lease_s)
    keys = KeySource(lease.writer_id, lambda: now_us() // 1000, lease.not_before_ms)
    journal = PostgresJournal(url, lease)
    await journal.start()
    try:
        runtime = Runtime(
            journal=journal,
            keys=keys,
            registry=scripted_registry(),
            resources=script,
            telemetry=Telemetry(),
            settings=RuntimeSettings(),
            now_us=now_us,
            engine_version="test",
            ownership=PostgresOwnership(database, lease),
        )
        async with runtime:
            yield Engine(runtime, journal, lease, await deploy(database, keys))
    finally:
        await journal.close()


async def set_lease(database: Database, epoch: int, assignment: str) -> None:
    async with database.begin() as connection:
        await connection.execute(text(f"UPDATE engine_process SET {assignment} WHERE epoch = {epoch}"))


async def hangs(attempted: Attempted) -> None:
    if attempted.context.resources.calls > 1:
        await asyncio.get_running_loop().create_future()


def test_an_engine_closes_what_a_dead_one_left_open(database_url: str) -> None:
    async def main() -> None:
        await migrate(database_url)
        database = await connect(database_url)
        queries = Queries(database)
        async with engine(database_url, database, Script(hangs)) as first:
            answered = first.submit()
            assert (await answered.result()).outcome.error is None
            left = [first.submit() for _ in range(5)]
            for run in left:
                await run.started()
        await set_lease(database, first.lease.epoch, "leased_until = now() - interval '1 hour'")
        async with engine(database_url, database, Script()):

            async def recovered() -> bool:
                async with database.begin() as connection:
                    query = f"SELECT recovered_at IS NOT NULL FROM engine_process WHERE epoch = {first.lease.epoch}"
                    return bool(await connection.scalar(text(query)))

            await eventually(recovered)
        for run in left:
            stored = await queries.load_instance(run.key)
            assert stored is not None
            ended = stored.facts[-1]
            assert (ended["kind"], ended["state"], ended["error_code"]) == ("instance_ended", "aborted", "ABORTED")
        whole = await queries.load_instance(answered.key)
        assert whole is not None
        assert whole.facts[-1]["state"] == "completed"
        await database.close()

    asyncio.run(main())


def test_an_engine_that_was_taken_for_dead_ends_loudly(database_url: str) -> None:
    async def main() -> None:
        await migrate(database_url)
        database = await connect(database_url)
        with pytest.RaisesGroup(LeaseLost):
            async with engine(database_url, database, Script(hangs), lease_s=0.3) as dying:
                run = dying.submit()
                await run.result()
                run = dying.submit()
                await set_lease(database, dying.lease.epoch, "claimed_by = 99")
                with pytest.raises(Rejected, match="ABORTED"):
                    await run.result()
                await asyncio.get_running_loop().create_future()
        await database.close()

    asyncio.run(main())
