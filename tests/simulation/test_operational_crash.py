"""An engine may die after any row of an operational instance; the next loses nothing and does nothing twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from random import Random

import pytest

from engine.errors import Rejected
from engine.records import EventReceived, JobCompleted, JobFailed, Key, TimerFired
from engine.store.journal import JournalLimits
from tests.simulation.disk import CLAIM_S, Disk, FaultyJournal
from tests.simulation.outside import Outside, office, order
from tests.simulation.world import simulate

RECOVERY_S = 60.0  # a lease, its grace, and the next look
A_LIFE_S = 30.0  # of an order, with all that it waits for
ELEMENTS = Counter(("started", "price", "split", "pack", "dry", "paid", "join", "shipped", "sign", "ended"))


async def live_and_die(disk: Disk, epoch: int, crash_after: int | None, orders: int, **settings: int) -> set[Key]:
    """Run one engine until its machine dies; returns the instances that clients know to be started."""
    known: set[Key] = set()
    journal = FaultyJournal(disk, crash_after=crash_after, limits=JournalLimits(linger_s=0))
    async with office(disk, journal=journal, epoch=epoch, **settings) as engine:

        async def client() -> None:
            run = engine.start()
            with suppress(Rejected):
                await run.started()
                known.add(run.key)

        clients = [asyncio.create_task(client()) for _ in range(orders)]
        dying = asyncio.create_task(journal.crashed.wait())
        await asyncio.wait((dying,), timeout=A_LIFE_S + RECOVERY_S)
        engine.runtime.abort()
        dying.cancel()
        await asyncio.gather(*clients)
    return known


async def go_on(disk: Disk, epoch: int, **settings: int) -> Outside:
    """Let another engine take over everything, to the end."""
    async with office(disk, epoch=epoch, **settings) as heir:
        await asyncio.sleep(CLAIM_S + RECOVERY_S + A_LIFE_S)
        assert heir.runtime.left_open == 0
    return heir.outside


def check(disk: Disk, known: set[Key]) -> None:
    instances = disk.instances()
    assert known <= instances.keys(), "a client was told of an instance that is not durable"
    program = disk.programs[order().build().content_hash]
    for stored in instances.values():
        assert stored.end == "completed"
        assert stored.is_what_its_commands_mean(program)
        elements = Counter(fact.element_id for fact in stored.facts if fact.kind == "activity")
        assert elements == ELEMENTS
        commands = [logged.command for logged in stored.commands]
        results = Counter(each.job_key for each in commands if isinstance(each, JobCompleted | JobFailed))
        fired = Counter(each.timer_key for each in commands if isinstance(each, TimerFired))
        events = Counter(each.subscription_key for each in commands if isinstance(each, EventReceived))
        assert (results.total(), fired.total(), events.total()) == (3, 1, 1)
        assert {*results.values(), *fired.values(), *events.values()} == {1}


def rows_of_a_whole_life() -> int:
    disk = Disk()
    simulate(lambda: live_and_die(disk, 1, None, 1))
    check(disk, set())
    return len(disk.rows)


@pytest.mark.parametrize("park_after_ms", [0, 2_000, 3_600_000])
def test_a_crash_after_any_row_loses_nothing_and_does_nothing_twice(park_after_ms: int) -> None:
    rows = rows_of_a_whole_life()
    gone_on = 0
    for crash_after in range(rows + 1):
        disk = Disk()

        async def main(disk: Disk = disk, crash_after: int = crash_after) -> bool:
            known = await live_and_die(disk, 1, crash_after, 1, park_after_ms=park_after_ms)
            left = [key for key, stored in disk.instances().items() if stored.end is None]
            heir = await go_on(disk, 2, park_after_ms=park_after_ms)
            check(disk, known)
            if left and any(fact.element_id == "shipped" for fact in disk.instances()[left[0]].facts):
                assert heir.signals or heir.over
            return bool(left)

        gone_on += simulate(main)
    assert gone_on > rows / 2


@pytest.mark.parametrize("seed", range(6))
def test_orders_survive_one_crash_after_the_other(seed: int) -> None:
    print(f"seed {seed}")
    random = Random(seed)
    disk = Disk()

    async def main() -> None:
        known: set[Key] = set()
        park_after_ms = random.choice((0, 500, 2_000))
        for epoch in range(1, 5):
            crash_after = len(disk.rows) + random.randrange(60)
            known |= await live_and_die(disk, epoch, crash_after, 3, park_after_ms=park_after_ms)
            await asyncio.sleep(random.uniform(0, CLAIM_S))
        await go_on(disk, 5, park_after_ms=park_after_ms)
        check(disk, known)

    simulate(main)
