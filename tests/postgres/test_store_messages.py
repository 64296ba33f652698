"""Messages, signals and start timers in Postgres: what several engines at once may do, and what each finds later."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

import pytest
from sqlalchemy import text

from engine.errors import Code, Rejected
from engine.keys import KeySource
from engine.store import messages, signals
from engine.store.database import Database, connect, open_raw
from engine.store.messages import Messages
from engine.store.schedule import StartSchedule
from engine.store.signals import Signals
from tests.audit_samples import keys

pytestmark = pytest.mark.postgres

HOUR_MS = 3_600_000
ORDER = {"order": "7", "price": Decimal("0.10")}


class Engines(NamedTuple):
    """Two engines on one database."""

    url: str
    one: Database
    two: Database
    keys: KeySource

    async def execute(self, statement: str) -> None:
        async with self.one.begin() as connection:
            await connection.execute(text(statement))


@asynccontextmanager
async def engines(url: str) -> AsyncIterator[Engines]:
    one, two = await connect(url), await connect(url)
    try:
        yield Engines(url, one, two, keys())
    finally:
        await one.close()
        await two.close()


def running(url: str, scenario: Callable[[Engines], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(60), engines(url) as made:
            await scenario(made)

    asyncio.run(main())


# --- messages ---------------------------------------------------------------------------------------------------


def test_a_message_is_found_as_it_was_published_until_its_process_has_claimed_it(audit_url: str) -> None:
    async def scenario(on: Engines) -> None:
        store = Messages(on.one)
        published = await store.publish(on.keys.mint(), "paid", "7", ORDER, ttl_ms=HOUR_MS)
        assert await store.get(published.key) == published
        assert await store.buffered("paid", "7", "bill") == [published]
        assert published.variables == ORDER
        assert published.expires_at - published.published_at == timedelta(hours=1)
        assert await store.buffered("paid", "8", "bill") == []
        assert await store.buffered("paid", None, "bill") == [published]
        assert await store.claim(published.key, "bill", 100, 101)
        assert await store.buffered("paid", "7", "bill") == []
        assert await store.buffered("paid", "7", "other") == [published]

    running(audit_url, scenario)


def test_a_message_without_time_to_live_is_never_buffered(audit_url: str) -> None:
    async def scenario(on: Engines) -> None:
        published = await Messages(on.one).publish(on.keys.mint(), "paid", "7", {})
        assert await Messages(on.two).buffered("paid", "7", "bill") == []
        assert await Messages(on.two).claim(published.key, "bill", 100, 101)  # by who waited already

    running(audit_url, scenario)


def test_the_same_message_is_refused_while_the_first_is_buffered(audit_url: str) -> None:
    async def scenario(on: Engines) -> None:
        codes: set[str] = set()

        async def publish(
            database: Database, name: str = "paid", tenant: str = "default", ttl_ms: int = HOUR_MS
        ) -> bool:
            try:
                await Messages(database).publish(
                    on.keys.mint(), name, "7", {}, ttl_ms=ttl_ms, message_id="m-1", tenant=tenant
                )
            except Rejected as rejected:
                codes.add(rejected.code)
                return False
            return True

        assert sorted(await asyncio.gather(publish(on.one), publish(on.two))) == [False, True]
        assert await publish(on.one, name="shipped")
        assert await publish(on.one, tenant="acme")
        await on.execute("UPDATE message SET expires_at = now()")
        assert await publish(on.two)
        assert not await publish(on.one)
        await on.execute("DELETE FROM message")
        assert [await publish(on.one, ttl_ms=0) for _ in range(2)] == [True, True]
        assert codes == {Code.ALREADY_EXISTS}

    running(audit_url, scenario)


def test_publishing_again_after_a_lost_answer_publishes_once(audit_url: str) -> None:
    async def scenario(on: Engines) -> None:
        key = on.keys.mint()
        first, again = [
            await Messages(on.one).publish(key, "paid", "7", {}, ttl_ms=HOUR_MS, message_id="m-1") for _ in range(2)
        ]
        assert first == again

    running(audit_url, scenario)


@pytest.mark.parametrize(("name", "variables"), [("a\0", {}), ("a", {"b": ["\ud800"]})])
def test_a_text_that_postgres_cannot_hold_is_refused(audit_url: str, name: str, variables: dict[str, object]) -> None:
    async def scenario(on: Engines) -> None:
        with pytest.raises(Rejected, match="INVALID_ARGUMENT"):
            await Messages(on.one).publish(1, name, "", variables)
        with pytest.raises(Rejected, match="INVALID_ARGUMENT"):
            await Signals(on.one).broadcast(1, name, variables)

    running(audit_url, scenario)


def test_of_two_engines_that_claim_a_message_for_one_process_one_gets_it(audit_url: str) -> None:
    async def scenario(on: Engines) -> None:
        for _ in range(20):
            message = await Messages(on.one).publish(on.keys.mint(), "paid", "7", {}, ttl_ms=HOUR_MS)
            claimed = await asyncio.gather(
                Messages(on.one).claim(message.key, "bill", 100, 101),
                Messages(on.two).claim(message.key, "bill", 200, 201),
            )
            assert sorted(claimed) == [False, True]
            winner = (100, 101) if claimed[0] else (200, 201)
            assert await Messages(on.one).claim(message.key, "bill", *winner)  # again, after a lost answer
            assert await Messages(on.two).claim(message.key, "other", 300, 301)

    running(audit_url, scenario)


def test_one_instance_at_a_time_is_started_by_a_correlation_key(audit_url: str) -> None:
    async def scenario(on: Engines) -> None:
        one, two = Messages(on.one), Messages(on.two)
        first, second = [await one.publish(on.keys.mint(), "order", "7", {}, ttl_ms=HOUR_MS) for _ in range(2)]
        claimed = await asyncio.gather(
            one.claim(first.key, "bill", 100, None), two.claim(second.key, "bill", 200, None)
        )
        assert sorted(claimed) == [False, True]
        assert await one.claim(second.key if claimed[0] else first.key, "other", 300, None)
        free = [await one.publish(on.keys.mint(), "order", "", {}, ttl_ms=HOUR_MS) for _ in range(2)]
        assert [await one.claim(message.key, "bill", 400 + n, None) for n, message in enumerate(free)] == [True, True]

    running(audit_url, scenario)


def test_a_claim_is_told_to_who_takes_the_instance_over_until_it_is_delivered(audit_url: str) -> None:
    async def scenario(on: Engines) -> None:
        store = Messages(on.one)
        message = await store.publish(on.keys.mint(), "paid", "7", ORDER, ttl_ms=HOUR_MS)
        await store.claim(message.key, "bill", 100, 101)
        (claim,) = await Messages(on.two).claims_of(100)
        assert (claim.process_id, claim.process_instance_key, claim.subscription_key) == ("bill", 100, 101)
        assert claim.message == message
        await store.delivered([(message.key, "bill")])
        assert await store.claims_of(100) == []

    running(audit_url, scenario)


def test_a_claim_for_an_instance_that_never_began_is_an_orphan_and_can_be_given_back(audit_url: str) -> None:
    async def scenario(on: Engines) -> None:
        store = Messages(on.one)
        message = await store.publish(on.keys.mint(), "order", "7", {}, ttl_ms=HOUR_MS)
        await store.claim(message.key, "bill", on.keys.mint(), None)
        assert await store.orphans() == []
        (orphan,) = await store.orphans(older_than_s=0)
        await store.release(message.key, "bill", orphan.process_instance_key)
        assert await store.orphans(older_than_s=0) == []
        assert await store.buffered("order", "7", "bill") == [message]

    running(audit_url, scenario)


def test_expired_messages_go_once_nobody_waits_for_them(audit_url: str) -> None:
    async def scenario(on: Engines) -> None:
        store = Messages(on.one)
        kept = await store.publish(on.keys.mint(), "paid", "7", {}, ttl_ms=HOUR_MS)
        gone, claimed, done = [await store.publish(on.keys.mint(), "paid", "7", {}) for _ in range(3)]
        await store.claim(claimed.key, "bill", 100, 101)
        await store.claim(done.key, "bill", 200, 201)
        await store.delivered([(done.key, "bill")])
        assert await store.expire() == 0  # every engine shall have heard of them
        assert await store.expire(grace_s=0, limit=1) == 1
        assert await store.expire(grace_s=0) == 1
        assert [await store.get(each.key) is not None for each in (kept, gone, claimed, done)] == [
            *(True, False, True, False),
        ]

    running(audit_url, scenario)


# --- what every engine hears ------------------------------------------------------------------------------------


def test_engines_are_told_of_messages_and_signals_when_they_are_committed(audit_url: str) -> None:
    async def scenario(on: Engines) -> None:
        listener = await open_raw(on.url)
        for channel in (messages.CHANNEL, signals.CHANNEL):
            await listener.execute(f"LISTEN {channel}".encode())
        message = await Messages(on.one).publish(on.keys.mint(), "paid", "7", {}, ttl_ms=HOUR_MS)
        await Messages(on.one).claim(message.key, "bill", 100, 101)
        await Messages(on.one).release(message.key, "bill", 100)
        signal_key = on.keys.mint()
        await Signals(on.one).broadcast(signal_key, "stop", {})
        await Signals(on.one).broadcast(signal_key, "stop", {})
        told = [(each.channel, each.payload) async for each in listener.notifies(timeout=30, stop_after=3)]
        assert told == [
            (messages.CHANNEL, ""),  # published
            (messages.CHANNEL, str(message.key)),  # free again
            (signals.CHANNEL, str(signal_key)),
        ]
        await listener.close()

    running(audit_url, scenario)


def test_a_feed_gives_every_row_once_though_they_are_committed_out_of_order(audit_url: str) -> None:
    async def scenario(on: Engines) -> None:
        store = Messages(on.one)
        before = await store.publish(on.keys.mint(), "paid", "7", {}, ttl_ms=HOUR_MS)
        feed = Messages(on.two).feed()
        await feed.begin()
        early, late = on.keys.mint(), on.keys.mint()
        slow = await open_raw(on.url, autocommit=False)
        await slow.execute(
            "INSERT INTO message (key, name, correlation_key, tenant, variables, expires_at)"
            " VALUES (%s, 'paid', '7', 'default', '{}', now())",
            (early,),
        )
        await store.publish(late, "paid", "7", ORDER)
        assert [(each.key, each.variables) for each in await feed.unread()] == [(late, ORDER)]
        assert await feed.unread() == []
        await slow.commit()
        await slow.close()
        assert [each.key for each in await feed.unread()] == [early]
        more = [(await store.publish(on.keys.mint(), "paid", "7", {})).key for _ in range(5)]
        pages = [await feed.unread(limit=2) for _ in range(4)]
        assert [[each.key for each in page] for page in pages] == [more[:2], more[2:4], more[4:], []]
        assert before.key not in {each.key for page in pages for each in page}

    running(audit_url, scenario)


# --- signals ----------------------------------------------------------------------------------------------------


def test_a_signal_is_kept_for_who_has_not_heard_of_it_and_forgotten_later(audit_url: str) -> None:
    async def scenario(on: Engines) -> None:
        store = Signals(on.one)
        before = datetime.now(UTC) - timedelta(minutes=1)
        key, other = on.keys.mint(), on.keys.mint()
        await store.broadcast(key, "stop", ORDER, thrown_by=100)
        await store.broadcast(other, "go", {})
        (found,) = await Signals(on.two).since(["stop", "halt"], before)
        assert (found.key, found.name, found.variables, found.thrown_by) == (key, "stop", ORDER, 100)
        assert await store.since(["stop"], found.broadcast_at) == []
        assert await store.forget() == 0
        assert await store.forget(kept_s=0) == 2

    running(audit_url, scenario)


def test_a_signal_starts_one_instance_of_each_process(audit_url: str) -> None:
    async def scenario(on: Engines) -> None:
        key = on.keys.mint()
        await Signals(on.one).broadcast(key, "stop", {})
        claimed = await asyncio.gather(
            Signals(on.one).claim_start(key, "bill", 100), Signals(on.two).claim_start(key, "bill", 200)
        )
        assert sorted(claimed) == [False, True]
        assert await Signals(on.one).claim_start(key, "bill", 100 if claimed[0] else 200)
        assert await Signals(on.one).claim_start(key, "other", 300)

    running(audit_url, scenario)


# --- start timers -----------------------------------------------------------------------------------------------


def test_one_engine_fires_a_start_timer_and_sets_when_it_is_due_again(audit_url: str) -> None:
    async def scenario(on: Engines) -> None:
        one, two = StartSchedule(on.one), StartSchedule(on.two)
        now_us = time.time_ns() // 1000
        await one.arm(7, "daily", now_us, repetitions_left=2)
        await two.arm(7, "daily", now_us + 5, repetitions_left=9)  # armed already
        assert await one.next_due_at_us() == now_us
        assert await one.due(now_us - 1) == []
        (due,) = await one.due(now_us)
        assert (due.due_at_us, due.repetitions_left, due.claimed_key) == (now_us, 2, None)
        claimed = await asyncio.gather(one.claim(due, 100), two.claim(due, 200))
        assert sorted(claimed) == [False, True]
        winner = 100 if claimed[0] else 200
        assert await one.due(now_us) == []
        assert not await one.advance(due, 300, now_us + 10, 1)
        assert await one.advance(due, winner, now_us + 10, 1)
        (again,) = await one.due(now_us + 10)
        assert (again.due_at_us, again.repetitions_left, again.claimed_key) == (now_us + 10, 1, None)
        assert not await two.claim(due, 200)  # what was read before
        assert await two.claim(again, 200)
        assert await two.advance(again, 200, None)
        assert await one.armed() == []

    running(audit_url, scenario)


def test_a_claim_whose_engine_died_is_taken_over_by_one(audit_url: str) -> None:
    async def scenario(on: Engines) -> None:
        one, two = StartSchedule(on.one), StartSchedule(on.two)
        now_us = time.time_ns() // 1000
        await one.arm(7, "daily", now_us)
        (due,) = await one.due(now_us)
        assert await one.claim(due, 100)
        (stale,) = await two.due(now_us, stale_s=0)
        assert stale.claimed_key == 100
        assert sorted(await asyncio.gather(one.claim(stale, 200), two.claim(stale, 300))) == [False, True]
        assert not await one.advance(due, 100, None)
        await one.disarm([7])
        assert await two.armed() == []

    running(audit_url, scenario)
