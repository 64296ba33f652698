"""An engine may die after any row. What it answered is complete; what it left open is closed by the next one."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from engine.errors import Code, Rejected
from engine.inference import Operation
from engine.ownership import Recorded, StoreAway
from engine.records import Key
from engine.run import RunResult
from engine.store.journal import JournalLimits
from engine.store.leases import GRACE_S, LEASE_S
from tests.loop import now_us
from tests.simulation.disk import CLAIM_S, Disk, FaultyJournal
from tests.simulation.world import SHIPPED, Attempted, Script, World, failure, simulate, world

RECOVERY_S = 60.0  # a lease, its grace, and the next look


async def falters(attempted: Attempted) -> None:
    """The first attempt fails, the second streams where it may, and answers."""
    await asyncio.sleep(0.01)
    if attempted.number == 1 and attempted.context.instance_key % 2:
        raise failure(Code.REPLICA_UNAVAILABLE, 1)
    for number in range(3):
        await attempted.emit(b"%d" % number)


async def client(engine: World, operation: Operation, answered: dict[Key, RunResult], begun: set[Key]) -> None:
    run = engine.submit(operation=operation)
    if operation is Operation.GENERATE_STREAM:
        async for _ in run.chunks():
            begun.add(run.key)
    result = await run.result()
    answered[run.key] = result


async def live_and_die(disk: Disk, crash_after: int | None, clients: int) -> tuple[dict[Key, RunResult], set[Key]]:
    """Run one engine until its machine dies after so many rows, or everything is answered; returns what clients saw."""
    answered: dict[Key, RunResult] = {}
    begun: set[Key] = set()
    journal = FaultyJournal(disk, crash_after=crash_after, limits=JournalLimits(linger_s=0))
    async with world(Script(falters), journal=journal) as engine:
        operations = [list(Operation)[number % 3] for number in range(clients)]
        waiting = [asyncio.create_task(client(engine, each, answered, begun)) for each in operations]
        everything = asyncio.gather(*waiting, return_exceptions=True)
        everything.add_done_callback(lambda _: journal.crashed.set())
        await journal.crashed.wait()
        engine.runtime.abort()
        await everything
    return answered, begun


async def succeed(disk: Disk) -> int:
    """Let another engine take over; returns how many instances it closed."""
    open_before = [key for key, stored in disk.instances().items() if stored.end is None]
    async with world(journal=FaultyJournal(disk), epoch=2) as engine:
        await asyncio.sleep(RECOVERY_S)
        assert (await engine.request()).outcome.error is None
    assert disk.processes[1].recovered
    return len(open_before)


def check(disk: Disk, answered: dict[Key, RunResult], begun: set[Key]) -> None:
    instances = disk.instances()
    for key, stored in instances.items():
        assert stored.end is not None, f"{key} is left running"
        assert stored.is_what_its_commands_mean(SHIPPED.program)
    for key, result in answered.items():
        assert instances[key].end == result.outcome.state
        assert result.outcome.error is None
        assert instances[key].kinds.count("attempt") == result.attempts
    assert begun <= instances.keys(), "a client has bytes of a stream whose Start is not durable"


def rows_of_a_whole_life(clients: int) -> int:
    disk = Disk()

    async def main() -> None:
        answered, _ = await live_and_die(disk, None, clients)
        assert len(answered) == clients

    simulate(main)
    return len(disk.rows)


def test_a_crash_after_any_row_leaves_no_answer_incomplete_and_nothing_running() -> None:
    aborted = 0
    for crash_after in range(rows_of_a_whole_life(3) + 1):
        disk = Disk()

        async def main(disk: Disk = disk, crash_after: int = crash_after) -> int:
            answered, begun = await live_and_die(disk, crash_after, 3)
            closed = await succeed(disk)
            check(disk, answered, begun)
            return closed

        aborted += simulate(main)
    assert aborted > 10


@pytest.mark.parametrize("seed", range(6))
def test_a_crash_among_many_requests(seed: int) -> None:
    print(f"seed {seed}")
    disk = Disk()

    async def main() -> None:
        answered, begun = await live_and_die(disk, Random(seed).randrange(600), 60)
        await succeed(disk)
        check(disk, answered, begun)

    simulate(main)


def test_an_engine_that_dies_while_it_recovers_another_is_recovered_itself() -> None:
    disk = Disk()

    async def main() -> None:
        answered, begun = await live_and_die(disk, 250, 30)
        assert any(stored.end is None for stored in disk.instances().values())
        journal = FaultyJournal(disk, crash_after=len(disk.rows) + 2)
        async with world(journal=journal, epoch=2):
            await asyncio.wait_for(journal.crashed.wait(), RECOVERY_S)
        async with world(journal=FaultyJournal(disk), epoch=3):
            await asyncio.sleep(CLAIM_S + RECOVERY_S)
        check(disk, answered, begun)

    simulate(main)


def test_an_engine_whose_clock_was_ahead_is_recovered_by_one_whose_clock_is_not() -> None:
    disk = Disk()

    async def infer(_: Attempted) -> None:
        await asyncio.sleep(3600)

    async def main() -> None:
        async with world(Script(infer), journal=FaultyJournal(disk), clock=lambda: now_us() + 3_600_000_000) as engine:
            run = engine.submit(deadline_ms=80_000_000)
            await asyncio.sleep(1)
        async with world(journal=FaultyJournal(disk), epoch=2):
            await asyncio.sleep(RECOVERY_S)
        stored = disk.instances()[run.key]
        assert stored.end == "aborted"
        assert stored.is_what_its_commands_mean(SHIPPED.program)

    simulate(main)


def test_a_store_that_goes_away_in_the_middle_delays_recovery_by_one_look() -> None:
    disk = Disk()

    async def main() -> None:
        answered, begun = await live_and_die(disk, 250, 30)
        async with world(journal=FaultyJournal(disk, write_s=0), epoch=2) as engine:
            await asyncio.sleep(LEASE_S + GRACE_S - 1)
            load, loads = engine.ownership.load, list[Key]()

            async def load_once_in_a_while(key: Key) -> Recorded | None:
                loads.append(key)
                if len(loads) in (3, 4):
                    raise StoreAway("gone for a moment")
                return await load(key)

            engine.ownership.load = load_once_in_a_while  # type: ignore[method-assign]  # a fault of the network
            await asyncio.sleep(30)
            assert disk.processes[1].recovered
        check(disk, answered, begun)

    simulate(main)


def test_an_engine_that_is_taken_for_dead_stops_and_its_instances_have_one_end() -> None:
    disk = Disk()

    async def infer(_: Attempted) -> None:
        await asyncio.sleep(70)

    async def zombie(engine: World) -> None:
        run = engine.submit(deadline_ms=600_000)
        await asyncio.sleep(1)
        engine.ownership.away = True
        await asyncio.sleep(20)
        with pytest.raises(Rejected, match="JOURNAL_UNAVAILABLE"):
            engine.submit()
        with pytest.raises(Rejected, match="ABORTED"):
            await run.result()

    async def main() -> None:
        async with world(Script(infer), journal=FaultyJournal(disk)) as first:
            run = asyncio.create_task(zombie(first))
            async with world(journal=FaultyJournal(disk), epoch=2):
                await run
        (stored,) = disk.instances().values()
        assert stored.end == "aborted"
        assert stored.kinds.count("instance_ended") == 1

    simulate(main)


def test_an_engine_that_learns_of_its_death_ends_loudly() -> None:
    disk = Disk()

    async def infer(_: Attempted) -> None:
        await asyncio.sleep(3600)

    async def first() -> None:
        async with world(Script(infer), journal=FaultyJournal(disk)) as engine:
            run = engine.submit(deadline_ms=7_200_000)
            await asyncio.sleep(1)
            engine.ownership.away = True
            await asyncio.sleep(60)
            engine.ownership.away = False
            with pytest.raises(Rejected, match="ABORTED"):
                await run.result()
            assert engine.script.slots == 0
            await asyncio.sleep(3600)

    async def main() -> None:
        dying = asyncio.create_task(first())
        async with world(journal=FaultyJournal(disk), epoch=2):
            with pytest.raises(ExceptionGroup, match="unhandled errors"):
                await dying

    simulate(main)
