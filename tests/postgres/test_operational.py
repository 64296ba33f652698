"""Operational instances on one real Postgres: they rest there, come back from there, and pass from engine to engine."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from sqlalchemy import text

from engine.bpmn import parse
from engine.core.replay import derive_records
from engine.keys import KeySource
from engine.linking import DeployedDefinition, Programs
from engine.ownership import PostgresOwnership
from engine.records import Job, JobCompleted, JobReport, Key, Signal, Subscription, Tags, TimerFired
from engine.registry import Registry, TaskContext, task
from engine.run import Run
from engine.runtime import Runtime
from engine.settings import RuntimeSettings
from engine.store import leases
from engine.store.database import Database, connect
from engine.store.definitions import PROCESS, Definitions, Deployable
from engine.store.leases import DeadProcess
from engine.store.postgres_journal import PostgresJournal
from engine.store.queries import Queries
from engine.telemetry import Telemetry
from tests.audit_samples import eventually
from tests.builders import Diagram

pytestmark = pytest.mark.postgres

XML = (
    Diagram("order")
    .start()
    .task("price")
    .task("pack")
    .wait("dry", "PT0.3S")
    .task("ship")
    .end()
    .path("started", "price", "pack", "dry", "ship", "ended")
    .to_xml()
    .encode()
)


def now_us() -> int:
    return time.time_ns() // 1000


@dataclass(frozen=True)
class Priced:
    usd: int


def registry() -> Registry:
    tasks = Registry()

    @task("price", registry=tasks)
    async def price(_: None, context: TaskContext[None]) -> Priced:
        return Priced(3)

    return tasks


@dataclass
class Desk:
    """Where offered jobs lie until somebody does them."""

    jobs: dict[Key, tuple[Key, Job]] = field(default_factory=dict)
    signals: list[Signal] = field(default_factory=list)
    ended_keys: set[Key] = field(default_factory=set)

    def offered(self, instance_key: Key, job: Job) -> None:
        self.jobs[job.key] = (instance_key, job)

    def withdrawn(self, job_key: Key) -> None:
        del self.jobs[job_key]

    def subscribed(self, instance_key: Key, subscription: Subscription) -> None: ...

    def unsubscribed(self, subscription_key: Key) -> None: ...

    def threw(self, instance_key: Key, signal: Signal) -> None: ...

    def ended(self, instance_key: Key) -> None:
        self.ended_keys.add(instance_key)

    def waiting_at(self, element_id: str) -> dict[Key, Key]:
        """Instances and their jobs of one element."""
        return {instance: key for key, (instance, job) in self.jobs.items() if job.element_id == element_id}


@dataclass
class Engine:
    runtime: Runtime
    desk: Desk
    lease: leases.Lease
    definition: DeployedDefinition

    def start(self) -> Run:
        return self.runtime.start(self.definition, {"id": "o1"}, tags=Tags(), request_id=str(uuid.uuid4()))

    async def waiting_at(self, element_id: str, instances: int) -> dict[Key, Key]:
        await eventually(lambda: len(self.desk.waiting_at(element_id)) == instances)
        return self.desk.waiting_at(element_id)

    async def complete(self, jobs: dict[Key, Key]) -> None:
        report = JobReport(now_us(), now_us(), now_us())
        await asyncio.gather(
            *(self.runtime.tell(instance, JobCompleted, job, {}, report) for instance, job in jobs.items())
        )


async def deploy(database: Database, keys: KeySource, programs: Programs) -> DeployedDefinition:
    (process,) = parse(XML, "order.bpmn")
    definitions = Definitions(database)
    await definitions.deploy(
        [Deployable(process.process_id, process.content_hash, "order.bpmn", XML)], keys.mint, "test"
    )
    async with definitions.reading() as catalog:
        stored = await catalog.latest(PROCESS, "order")
        assert stored is not None
        return await programs.link(catalog, stored)


@asynccontextmanager
async def engine(url: str, database: Database, *, release: bool = False, **settings: int) -> AsyncIterator[Engine]:
    """An engine that keeps its lease, as one that was killed, or hands everything on and releases it."""
    lease = await leases.acquire(database, "test")
    keys = KeySource(lease.writer_id, lambda: now_us() // 1000, lease.not_before_ms)
    journal, desk, programs = PostgresJournal(url, lease), Desk(), Programs()
    await journal.start()
    try:
        runtime = Runtime(
            journal=journal,
            keys=keys,
            registry=registry(),
            resources=None,
            telemetry=Telemetry(),
            settings=RuntimeSettings(**settings),
            now_us=now_us,
            engine_version="test",
            ownership=PostgresOwnership(database, lease, programs),
            waiting=desk,
        )
        async with runtime:
            yield Engine(runtime, desk, lease, await deploy(database, keys, programs))
            if release:
                await runtime.drain(10)
            left_open = runtime.left_open
    finally:
        await journal.close()
    if release:
        await lease.release(recovered=not left_open)


async def died(database: Database, dead: Engine) -> None:
    """Whatever lease it held ran out long ago."""
    async with database.begin() as connection:
        values = {"epoch": dead.lease.epoch}
        statement = "UPDATE engine_process SET leased_until = now() - interval '1 hour' WHERE epoch = :epoch"
        await connection.execute(text(statement), values)


async def owners(database: Database) -> Counter[int]:
    async with database.begin() as connection:
        return Counter(await connection.scalars(text("SELECT owner_epoch FROM open_instance")))


async def check(database: Database, keys: list[Key]) -> None:
    """Each has ended well, its rows are what its commands mean, and nothing was done twice."""
    queries, definitions = Queries(database), Definitions(database)
    for key in keys:
        stored = await queries.load_instance(key)
        assert stored is not None
        assert stored.facts[-1]["state"] == "completed"
        commands = [(logged.command, logged.at_us) for logged in stored.commands]
        program = await Programs().of_start(definitions, stored.start)
        meant = [record.position for record in derive_records(program, commands) if record.position > 0]
        assert meant == [fact["position"] for fact in stored.facts]
        results = Counter(each.job_key for each, _ in commands if isinstance(each, JobCompleted))
        fired = [each for each, _ in commands if isinstance(each, TimerFired)]
        assert (results.total(), set(results.values()), len(fired)) == (3, {1}, 1)
    assert await owners(database) == Counter()


def running(url: str, scenario: Callable[[Database], Awaitable[None]]) -> None:
    async def main() -> None:
        database = await connect(url)
        try:
            async with asyncio.timeout(60):
                await scenario(database)
        finally:
            await database.close()

    asyncio.run(main())


def test_instances_rest_in_postgres_and_come_back_for_what_happens(audit_url: str) -> None:
    async def scenario(database: Database) -> None:
        async with engine(audit_url, database, park_after_ms=0) as only:
            runs = [only.start() for _ in range(20)]
            packing = await only.waiting_at("pack", 20)
            await eventually(lambda: only.runtime.active == 0)
            assert await owners(database) == {only.lease.epoch: 20}
            instance = await only.runtime.read(runs[0].key)
            assert instance is not None
            assert instance.variables["usd"] == 3
            await only.complete(packing)
            shipping = await only.waiting_at("ship", 20)  # after the timer of each, which was parked too
            await only.complete(shipping)
            for run in runs:
                assert (await run.result()).outcome.state == "completed"
            assert only.runtime.left_open == 0
            await eventually(lambda: only.desk.ended_keys == {run.key for run in runs})
        await check(database, [run.key for run in runs])

    running(audit_url, scenario)


def test_what_a_dead_engine_left_waiting_goes_on_in_the_next_and_in_the_next_after_that(audit_url: str) -> None:
    async def scenario(database: Database) -> None:
        async with engine(audit_url, database) as first:
            keys = [first.start().key for _ in range(12)]
            packing = await first.waiting_at("pack", 12)
            await first.complete({key: packing[key] for key in keys[:4]})
            await first.waiting_at("ship", 4)
        await died(database, first)
        async with engine(audit_url, database, park_after_ms=0) as second:
            assert await second.waiting_at("ship", 4) == first.desk.waiting_at("ship")
            packing = await second.waiting_at("pack", 8)
            assert await owners(database) == {second.lease.epoch: 12}
            await second.complete({key: packing[key] for key in keys[4:8]})
        await died(database, second)
        async with engine(audit_url, database) as third:
            await third.complete(await third.waiting_at("pack", 4))
            await third.complete(await third.waiting_at("ship", 12))
            await eventually(lambda: third.runtime.left_open == 0)
            assert third.desk.ended_keys == set(keys)
        await check(database, keys)

    running(audit_url, scenario)


def test_a_restart_goes_on_at_once_with_what_was_handed_on(audit_url: str) -> None:
    async def scenario(database: Database) -> None:
        async with engine(audit_url, database, release=True) as first:
            keys = [first.start().key for _ in range(5)]
            await first.waiting_at("pack", 5)
        async with engine(audit_url, database, release=True) as second:
            await second.complete(await second.waiting_at("pack", 5))
            await second.complete(await second.waiting_at("ship", 5))
            await eventually(lambda: second.runtime.left_open == 0)
        async with database.begin() as connection:
            query = "SELECT bool_and(recovered_at IS NOT NULL) FROM engine_process"
            assert await connection.scalar(text(query))
        await check(database, keys)

    running(audit_url, scenario)


def test_two_engines_that_run_at_once_share_what_a_third_has_left(audit_url: str) -> None:
    async def scenario(database: Database) -> None:
        async with engine(audit_url, database) as first:
            keys = [first.start().key for _ in range(6)]
            await first.waiting_at("pack", 6)
        await died(database, first)
        async with engine(audit_url, database) as second, engine(audit_url, database) as third:
            both = (second, third)
            await eventually(lambda: sum(len(each.desk.waiting_at("pack")) for each in both) == 6)
            for step in ("pack", "ship"):
                for each in both:
                    jobs = await each.waiting_at(step, len(list(each.runtime.open_instances())))
                    await each.complete(jobs)
            await eventually(lambda: not any(each.runtime.left_open for each in both))
        await check(database, keys)

    running(audit_url, scenario)


def test_an_adoption_whose_answer_was_lost_is_asked_for_again(audit_url: str) -> None:
    async def scenario(database: Database) -> None:
        async with engine(audit_url, database) as first:
            key = first.start().key
            await first.waiting_at("pack", 1)
        heir = await leases.acquire(database, "test")
        dead = DeadProcess(first.lease.epoch, first.lease.writer_id, "")
        assert await leases.adopt(database, heir, dead) == [key]
        assert await leases.adopt(database, heir, dead) == [key]

    running(audit_url, scenario)


def test_the_commands_of_several_instances_are_read_with_one_question(audit_url: str) -> None:
    async def scenario(database: Database) -> None:
        async with engine(audit_url, database) as only:
            keys = [only.start().key for _ in range(3)]
            await only.waiting_at("pack", 3)
        queries = Queries(database)
        found = await queries.commands_of([*keys, 99])
        assert set(found) == set(keys)
        for key in keys:
            stored = await queries.load_instance(key)
            assert stored is not None
            unpacked: list[Any] = [each for row in found[key] for each in row.unpacked()]
            assert unpacked == list(stored.commands)

    running(audit_url, scenario)
