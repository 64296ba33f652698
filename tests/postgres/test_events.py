"""Messages, signals, start events and workers on one real Postgres, with real instances and several engines."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, NamedTuple

import pytest
from sqlalchemy import text

from engine.bpmn.definition import TimerKind
from engine.cli.compose import now_us
from engine.cli.operational import Operational
from engine.deployments import Deployments
from engine.errors import Code, Rejected
from engine.keys import KeySource
from engine.linking import Programs
from engine.ownership import PostgresOwnership
from engine.records import EventReceived, Key, Tags
from engine.registry import Registry
from engine.run import Run
from engine.runtime import Runtime
from engine.settings import RuntimeSettings
from engine.store import leases
from engine.store.database import Database, connect
from engine.store.definitions import Definitions
from engine.store.event_log import EventLog
from engine.store.messages import Messages
from engine.store.postgres_journal import PostgresJournal
from engine.store.queries import Queries
from engine.store.signals import Signals
from engine.telemetry import Telemetry
from engine.uploads import Resource
from tests.audit_samples import eventually
from tests.builders import Diagram, message, signal, timer

pytestmark = pytest.mark.postgres

TTL_MS = 60_000


class Engine(NamedTuple):
    runtime: Runtime
    operational: Operational
    deployments: Deployments
    lease: leases.Lease

    async def deploy(self, *diagrams: Diagram) -> None:
        files = [Resource(f"{each.process_id}.bpmn", each.to_xml().encode()) for each in diagrams]
        await self.deployments.deploy(files, deployed_by="a test")

    async def start(self, process_id: str, **variables: Any) -> Run:
        run = self.runtime.start(
            self.deployments.serving(process_id), variables, tags=Tags(), request_id=str(uuid.uuid4())
        )
        await run.started()
        return run

    async def publish(self, name: str, correlation_key: str, ttl_ms: int = TTL_MS, **variables: Any) -> Key:
        return await self.operational.correlation.publish(name, correlation_key, ttl_ms=ttl_ms, variables=variables)


@asynccontextmanager
async def engine(url: str, database: Database) -> AsyncIterator[Engine]:
    """An engine whose lease outlives it: it ends as one that was killed."""
    lease = await leases.acquire(database, "test")
    keys = KeySource(lease.writer_id, lambda: now_us() // 1000, lease.not_before_ms)
    journal, programs = PostgresJournal(url, lease), Programs()
    await journal.start()
    deployments = Deployments(Definitions(database), programs, keys.mint, {})
    await deployments.refresh()
    operational = Operational(database, lease.epoch, keys, deployments, programs, now_us)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(journal.close)
        runtime = Runtime(
            journal=journal,
            keys=keys,
            registry=Registry(),
            resources=None,
            telemetry=Telemetry(),
            settings=RuntimeSettings(),
            now_us=now_us,
            engine_version="test",
            ownership=PostgresOwnership(database, lease, programs),
            waiting=operational,
        )
        following = asyncio.ensure_future(deployments.follow())
        try:
            await stack.enter_async_context(operational.listening(runtime))
            await stack.enter_async_context(runtime)
            await stack.enter_async_context(operational.starting())
            yield Engine(runtime, operational, deployments, lease)
        finally:
            following.cancel()
            with suppress(asyncio.CancelledError):
                await following


Scenario = Callable[[str, Database], Awaitable[None]]


def run(url: str, scenario: Scenario) -> None:
    async def main() -> None:
        database = await connect(url)
        try:
            async with asyncio.timeout(60):
                await scenario(url, database)
        finally:
            await database.close()

    asyncio.run(main())


async def died(database: Database, dead: Engine) -> None:
    async with database.begin() as connection:
        statement = "UPDATE engine_process SET leased_until = now() - interval '1 hour' WHERE epoch = :epoch"
        await connection.execute(text(statement), {"epoch": dead.lease.epoch})


async def instances(database: Database, process_id: str) -> list[Key]:
    query = text(
        "SELECT process_instance_key FROM record WHERE kind = 'instance_started' AND process_id = :id ORDER BY 1"
    )
    async with database.begin() as connection:
        return list(await connection.scalars(query, {"id": process_id}))


async def events(database: Database, key: Key) -> list[EventReceived]:
    stored = await Queries(database).load_instance(key)
    assert stored is not None
    return [each.command for each in stored.commands if isinstance(each.command, EventReceived)]


def paying(times: int = 1) -> Diagram:
    diagram = Diagram("order").start()
    names = [f"paid_{number}" for number in range(times)]
    for name in names:
        diagram.catch(name, message("paid", "=id"))
    return diagram.end().path("started", *names, "ended")


def test_a_message_published_in_one_engine_reaches_an_instance_of_another(audit_url: str) -> None:
    async def scenario(url: str, database: Database) -> None:
        async with engine(url, database) as first, engine(url, database) as second:
            await second.deploy(paying())
            order = await second.start("order", id="o1")
            key = await first.publish("paid", "o1", ttl_ms=0, amount=3)
            result = await order.result()
            assert result.outcome.variables["amount"] == 3
            (event,) = await events(database, order.key)
            assert event.event_key == key

    run(audit_url, scenario)


def test_a_message_waits_in_the_buffer_for_whoever_opens_first(audit_url: str) -> None:
    async def scenario(url: str, database: Database) -> None:
        async with engine(url, database) as first, engine(url, database) as second:
            await second.deploy(paying(2))
            keys = [await first.publish("paid", "o1", n=number) for number in range(2)]
            order = await second.start("order", id="o1")
            await order.result()
            assert [event.event_key for event in await events(database, order.key)] == keys

    run(audit_url, scenario)


def test_two_engines_give_each_message_to_one_instance(audit_url: str) -> None:
    async def scenario(url: str, database: Database) -> None:
        async with engine(url, database) as first, engine(url, database) as second:
            await first.deploy(paying())
            await second.deployments.refresh()
            orders = [await each.start("order", id="o1") for each in (first, second) * 10]
            keys = [await each.publish("paid", "o1", ttl_ms=0) for each in (second, first) * 10]
            await asyncio.gather(*(order.result() for order in orders))
            taken = [event.event_key for order in orders for event in await events(database, order.key)]
            assert sorted(taken) == sorted(keys)

    run(audit_url, scenario)


def test_correlating_answers_with_the_instance_wherever_it_is(audit_url: str) -> None:
    async def scenario(url: str, database: Database) -> None:
        async with engine(url, database) as first, engine(url, database) as second:
            await second.deploy(paying())
            order = await second.start("order", id="o1")
            correlation = first.operational.correlation
            _, got = await correlation.correlate("paid", "o1", {})
            assert got == order.key
            await order.result()
            with pytest.raises(Rejected, match="nothing waits") as refused:
                await correlation.correlate("paid", "o1", {})
            assert refused.value.code == Code.NOT_FOUND

    run(audit_url, scenario)


def test_the_heir_of_a_dead_engine_delivers_what_it_had_claimed(audit_url: str) -> None:
    async def scenario(url: str, database: Database) -> None:
        async with engine(url, database) as dead:
            await dead.deploy(paying())
            order = await dead.start("order", id="o1")
            instance = await dead.runtime.read(order.key)
            assert instance is not None
            (subscription,) = instance.open_subscriptions
            # Its last act: the claim was stored, and the instance never heard of it.
            messages = Messages(database)
            key = subscription.key + 1_000
            await messages.publish(key, "unheard", "o1", {}, ttl_ms=0)
            assert await messages.claim(key, "order", order.key, subscription.key)
        await died(database, dead)
        async with engine(url, database):

            async def delivered() -> bool:
                return [each.event_key for each in await events(database, order.key)] == [key]

            await eventually(delivered, within_s=40)

    run(audit_url, scenario)


def test_what_came_while_nobody_listened_is_found_when_somebody_does_again(audit_url: str) -> None:
    async def scenario(url: str, database: Database) -> None:
        async with engine(url, database) as first, engine(url, database) as second:
            await second.deploy(paying())
            order = await second.start("order", id="o1")
            listening = "FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN conch_s%'"

            async def both_listen() -> bool:
                async with database.begin() as connection:
                    return await connection.scalar(text(f"SELECT count(*) {listening}")) == 2

            await eventually(both_listen)
            async with database.begin() as connection:
                await connection.execute(text(f"SELECT pg_terminate_backend(pid) {listening}"))
            await first.publish("paid", "o1")
            await order.result()

    run(audit_url, scenario)


def test_the_records_say_what_nobody_followed_up(audit_url: str) -> None:
    async def scenario(url: str, database: Database) -> None:
        async with engine(url, database) as first:
            log, messages, signals = EventLog(database, first.lease.epoch), Messages(database), Signals(database)
            mint = first.operational._keys.mint_run
            await first.deploy(paying())
            order = await first.start("order", id="o1")
            instance = await first.runtime.read(order.key)
            assert instance is not None
            (subscription,) = instance.open_subscriptions
            never = mint()
            key, free, alarm = mint(), mint(), mint()
            await messages.publish(key, "unheard", "o1", {}, ttl_ms=TTL_MS)
            await messages.publish(free, "unheard", "o2", {}, ttl_ms=TTL_MS)
            await messages.claim(key, "order", order.key, subscription.key)
            await signals.broadcast(alarm, "unheard", {})
            await signals.claim_start(alarm, "brigade", never)

            assert not await log.others()
            assert await log.got(key) == order.key
            assert await log.got(free) is None
            assert not await log.withdraw(key)
            assert await log.withdraw(free)
            assert await log.began(order.key)
            assert not await log.began(never)
            assert [each.process_instance_key for each in await log.unstarted(0)] == [never]
            assert await log.unstarted(60) == []
            assert await log.stranded(0) == []
            paid = await first.publish("paid", "o1")
            await order.result()
            assert list(await log.received(order.key)) == [(subscription.key, paid)]

            async def only_that() -> bool:  # the other is confirmed at any moment
                return [(each.message.key, each.subscription_key) for each in await log.stranded(0)] == [
                    (key, subscription.key)
                ]

            await eventually(only_that)
            assert await log.stranded(60) == []
            async with engine(url, database):
                assert await log.others()

    run(audit_url, scenario)


def test_a_signal_reaches_everybody_in_every_engine_and_starts_what_it_starts(audit_url: str) -> None:
    async def scenario(url: str, database: Database) -> None:
        listener = Diagram("listener").start().catch("alarm", signal("fire")).end().path("started", "alarm", "ended")
        thrower = Diagram("thrower").start().throw("shout", signal("fire")).end().path("started", "shout", "ended")
        brigade = Diagram("brigade").start("called", signal("fire")).end().path("called", "ended")
        async with engine(url, database) as first, engine(url, database) as second:
            await first.deploy(listener, thrower, brigade)
            await second.deployments.refresh()
            listening = [await each.start("listener") for each in (first, second) * 3]
            await asyncio.gather(*[(await first.start("thrower")).result()])
            await asyncio.gather(*(each.result() for each in listening))

            async def started() -> bool:
                return len(await instances(database, "brigade")) == 1

            await eventually(started)

    run(audit_url, scenario)


def test_a_message_starts_one_instance_by_key_and_the_next_when_that_has_ended(audit_url: str) -> None:
    async def scenario(url: str, database: Database) -> None:
        process = Diagram("intake").start("placed", message("placed")).catch("done", message("done", "=id")).end()
        process.path("placed", "done", "ended")
        async with engine(url, database) as first, engine(url, database) as second:
            await first.deploy(process)
            await second.deployments.refresh()
            for number in range(2):
                await second.publish("placed", "o1", id="o1", number=number)

            async def started() -> int:
                return len(await instances(database, "intake"))

            async def one() -> bool:
                return await started() == 1

            async def two() -> bool:
                return await started() == 2

            await eventually(one)
            await second.publish("done", "o1")
            await eventually(two, within_s=40)
            await first.publish("done", "o1")

    run(audit_url, scenario)


def test_one_engine_fires_each_start_timer(audit_url: str) -> None:
    async def scenario(url: str, database: Database) -> None:
        process = Diagram("nightly").start("due", timer("R3/PT0.2S", TimerKind.CYCLE)).end().path("due", "ended")
        async with engine(url, database) as first, engine(url, database):
            await first.deploy(process)

            async def thrice() -> bool:
                return len(await instances(database, "nightly")) == 3

            await eventually(thrice)
            await first.deploy(process)
            await asyncio.sleep(0)
            assert await thrice()

    run(audit_url, scenario)


def test_a_worker_gets_a_job_over_a_takeover_and_answers_it(audit_url: str) -> None:
    async def scenario(url: str, database: Database) -> None:
        process = Diagram("packing").start().task("pack").end().path("started", "pack", "ended")
        options: dict[str, Any] = {"worker": "w", "timeout_ms": 60_000, "max_jobs": 5, "request_timeout_ms": 30_000}
        async with engine(url, database) as dead:
            await dead.deploy(process)
            await dead.start("packing", box=7)
            (before,) = await dead.operational.work.activate("pack", **options)
        await died(database, dead)
        async with engine(url, database) as heir:
            (job,) = await heir.operational.work.activate("pack", **options)
            assert (job.key, job.variables, job.definition.process_id) == (before.key, {"box": 7}, "packing")
            await heir.operational.work.complete(job.key, {"packed": True})
            stored = await Queries(database).load_instance(job.process_instance_key)
            assert stored is not None
            assert stored.facts[-1]["state"] == "completed"

    run(audit_url, scenario)
