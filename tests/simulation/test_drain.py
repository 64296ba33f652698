"""A stop that is asked for: nothing new, the running ones finish or are told, every row reaches the disk."""

from __future__ import annotations

import asyncio

import pytest

from engine.errors import Rejected
from tests.loop import EPOCH_US, now_us
from tests.simulation.disk import FaultyJournal
from tests.simulation.world import Attempted, Script, simulate, world


async def takes_two_seconds(_: Attempted) -> None:
    await asyncio.sleep(2)


def test_draining_refuses_new_requests_and_lets_the_running_ones_finish() -> None:
    async def main() -> None:
        async with world(Script(takes_two_seconds)) as engine:
            runs = [engine.submit() for _ in range(5)]
            draining = asyncio.create_task(engine.runtime.drain(30))
            await asyncio.sleep(1)
            with pytest.raises(Rejected, match="DRAINING"):
                engine.submit()
            await draining
            assert now_us() - EPOCH_US < 2_100_000
            for run in runs:
                assert (await run.result()).outcome.error is None

    simulate(main)


def test_what_is_not_done_within_the_grace_is_cancelled_with_the_reason_and_recorded() -> None:
    async def main() -> None:
        async with world(Script(takes_two_seconds)) as engine:
            run = engine.submit()
            await engine.runtime.drain(0.5)
            assert now_us() - EPOCH_US == 500_000
            result = await run.result()
            assert result.outcome.error is not None
            assert result.outcome.error["code"] == "DRAINING"
            stored = engine.journal.of(run.key)
            assert stored.end == "terminated"
            assert "usage" in stored.kinds
        assert engine.runtime.left_open == 0

    simulate(main)


def test_a_drain_of_an_idle_engine_returns_at_once() -> None:
    async def main() -> None:
        async with world() as engine:
            await engine.request()
            before_us = now_us()
            await engine.runtime.drain(30)
            assert now_us() == before_us

    simulate(main)


def test_five_hundred_runs_under_way_are_all_durable_after_the_drain() -> None:
    async def main() -> None:
        journal = FaultyJournal(write_s=0.5)
        async with world(Script(takes_two_seconds), journal=journal) as engine:
            runs = [engine.submit() for _ in range(500)]
            await engine.runtime.drain(1)
            assert await journal.close() == 0
            ends = {key: stored.end for key, stored in journal.disk.instances().items()}
            assert ends == dict.fromkeys((run.key for run in runs), "terminated")

    simulate(main)


def test_a_second_signal_ends_the_drain_and_leaves_the_rest_to_recovery() -> None:
    async def main() -> None:
        journal = FaultyJournal()
        async with world(Script(takes_two_seconds), journal=journal) as engine:
            run = engine.submit()
            draining = asyncio.create_task(engine.runtime.drain(30))
            await asyncio.sleep(1)
            engine.runtime.abort()
            await draining
            with pytest.raises(Rejected, match="ABORTED"):
                await run.result()
            assert engine.runtime.left_open == 1
            assert engine.script.slots == 0
        async with world(journal=FaultyJournal(journal.disk), epoch=2):
            await asyncio.sleep(60)
        assert journal.of(run.key).end == "aborted"

    simulate(main)


def test_an_error_inside_the_block_leaves_it_as_it_is() -> None:
    async def main() -> None:
        async with world(Script(takes_two_seconds)) as engine:
            engine.submit()
            raise KeyError("of the caller")

    with pytest.raises(KeyError, match="of the caller"):
        simulate(main)


def test_a_closed_engine_refuses() -> None:
    async def main() -> None:
        async with world() as engine:
            pass
        with pytest.raises(Rejected, match="DRAINING"):
            engine.submit()

    simulate(main)
