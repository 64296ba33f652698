"""An engine may die after any row of an operational instance; the next loses nothing and does nothing twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

import pytest

from engine.bpmn.spiff import Program
from engine.core.instance import ProcessInstance
from engine.errors import Rejected
from engine.records import EventReceived, JobCompleted, JobFailed, Key, TimerFired
from engine.store.journal import JournalLimits
from tests.simulation.disk import CLAIM_S, Disk, FaultyJournal, Stored
from tests.simulation.outside import office, order
from tests.simulation.world import simulate

RECOVERY_S = 60.0  # a lease, its grace, and the next look
A_LIFE_S = 30.0  # of an order, with all that it waits for
ELEMENTS = Counter(("started", "price", "split", "pack", "dry", "paid", "join", "shipped", "sign", "ended"))


@dataclass
class World:
    """What outlives engines: the disk, and what others have been told."""

    disk: Disk = field(default_factory=Disk)
    known: set[Key] = field(default_factory=set)  # instances that clients know to be started
    signals: set[Key] = field(default_factory=set)  # that were heard


async def live_and_die(
    outer: World, epoch: int, crash_after: int | None, orders: int, *, unheard: bool = False, **settings: int
) -> None:
    """Run one engine until its machine dies, with the last batch stored or not."""
    limits = JournalLimits(linger_s=0)
    journal = FaultyJournal(outer.disk, crash_after=crash_after, unheard=unheard, limits=limits)
    async with office(outer.disk, journal=journal, epoch=epoch, **settings) as engine:

        async def client() -> None:
            run = engine.start()
            with suppress(Rejected):
                await run.started()
                outer.known.add(run.key)

        clients = [asyncio.create_task(client()) for _ in range(orders)]
        dying = asyncio.create_task(journal.crashed.wait())
        await asyncio.wait((dying,), timeout=A_LIFE_S + RECOVERY_S)
        engine.runtime.abort()
        dying.cancel()
        await asyncio.gather(*clients)
    outer.signals.update(engine.outside.signals)


async def go_on(outer: World, epoch: int, **settings: int) -> None:
    """Let another engine take over everything, to the end."""
    async with office(outer.disk, epoch=epoch, **settings) as heir:
        await asyncio.sleep(CLAIM_S + RECOVERY_S + A_LIFE_S)
        assert heir.runtime.left_open == 0
    outer.signals.update(heir.outside.signals)


def check(outer: World) -> None:
    instances = outer.disk.instances()
    assert outer.known <= instances.keys(), "a client was told of an instance that is not durable"
    program = outer.disk.programs[order().build().content_hash]
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
        assert signals_of(program, stored) <= outer.signals


def signals_of(program: Program, stored: Stored) -> set[Key]:
    instance, thrown = ProcessInstance(program), set()
    for logged in stored.commands:
        thrown.update(signal.key for signal in instance.apply(logged.command, logged.at_us).broadcast)
    assert len(thrown) == 2
    return thrown


def rows_of_a_whole_life() -> int:
    outer = World()
    simulate(lambda: live_and_die(outer, 1, None, 1))
    check(outer)
    return len(outer.disk.rows)


@pytest.mark.parametrize("unheard", [False, True])
@pytest.mark.parametrize("park_after_ms", [0, 2_000, 3_600_000])
def test_a_crash_after_any_row_loses_nothing_and_does_nothing_twice(park_after_ms: int, unheard: bool) -> None:
    rows = rows_of_a_whole_life()
    gone_on = 0
    for crash_after in range(rows + 1):
        outer = World()

        async def main(outer: World = outer, crash_after: int = crash_after) -> int:
            await live_and_die(outer, 1, crash_after, 1, unheard=unheard, park_after_ms=park_after_ms)
            left = [key for key, stored in outer.disk.instances().items() if stored.end is None]
            await go_on(outer, 2, park_after_ms=park_after_ms)
            check(outer)
            return len(left)

        gone_on += simulate(main)
    assert gone_on > rows / 2


@pytest.mark.parametrize("seed", range(6))
def test_orders_survive_one_crash_after_the_other(seed: int) -> None:
    print(f"seed {seed}")
    random = Random(seed)
    outer = World()

    async def main() -> None:
        park_after_ms = random.choice((0, 500, 2_000))
        for epoch in range(1, 5):
            crash_after = len(outer.disk.rows) + random.randrange(60)
            unheard = random.random() < 0.5
            await live_and_die(outer, epoch, crash_after, 3, unheard=unheard, park_after_ms=park_after_ms)
            await asyncio.sleep(random.uniform(0, CLAIM_S))
        await go_on(outer, 5, park_after_ms=park_after_ms)
        check(outer)

    simulate(main)
