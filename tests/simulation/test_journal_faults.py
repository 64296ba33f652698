"""A slow, absent or full journal: no answer without its rows, no request without room for them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from engine.errors import Code, Rejected
from engine.records import Usage
from engine.registry import Registry, TaskContext, task
from engine.store.journal import JournalLimits
from tests.loop import EPOCH_US, now_us
from tests.simulation.disk import FaultyJournal
from tests.simulation.world import Attempted, Script, scripted_registry, simulate, world


def test_an_answer_waits_for_the_commit_of_its_last_row() -> None:
    async def main() -> None:
        journal = FaultyJournal(write_s=0.4)
        async with world(journal=journal) as engine:
            run = engine.submit()
            result = await run.result()
            assert result.outcome.error is None
            assert now_us() - EPOCH_US >= 400_000
            assert journal.of(run.key).end == "completed"

    simulate(main)


def test_an_instance_gives_its_slot_back_without_waiting_for_the_disk() -> None:
    async def main() -> None:
        async with world(journal=FaultyJournal(write_s=5)) as engine:
            run = engine.submit()
            await asyncio.sleep(0.01)
            assert run.ended
            assert engine.script.slots == 0
            assert engine.runtime.active == 0
            await run.result()

    simulate(main)


def test_no_answer_is_given_while_the_disk_is_away_and_the_rows_are_stored_when_it_is_back() -> None:
    async def main() -> None:
        journal = FaultyJournal()
        async with world(journal=journal) as engine:
            journal.back.clear()
            run = engine.submit()
            with pytest.raises(Rejected, match="JOURNAL_UNAVAILABLE") as refusal:
                await run.result()
            assert refusal.value.retry_after_ms is not None
            assert not journal.disk.rows
            with pytest.raises(Rejected, match="JOURNAL_UNAVAILABLE"):
                engine.submit()
            journal.back.set()
            await asyncio.sleep(1)
            assert journal.of(run.key).end == "completed"
            assert (await engine.request()).outcome.error is None

    simulate(main)


def test_a_request_survives_a_short_absence_of_the_disk() -> None:
    async def infer(_: Attempted) -> None:
        await asyncio.sleep(1)

    async def main() -> None:
        journal = FaultyJournal()
        async with world(Script(infer), journal=journal) as engine:
            run = engine.submit()
            journal.back.clear()
            asyncio.get_running_loop().call_later(2, journal.back.set)
            assert (await run.result()).outcome.error is None
            assert now_us() - EPOCH_US >= 2_000_000

    simulate(main)


def test_a_disk_that_hangs_is_not_waited_for_beyond_the_commit_timeout() -> None:
    async def main() -> None:
        async with world(journal=FaultyJournal(write_s=3600)) as engine:
            run = engine.submit()
            with pytest.raises(Rejected, match="JOURNAL_UNAVAILABLE"):
                await run.result()
            assert now_us() - EPOCH_US == 10_000_000

    simulate(main)


def test_a_full_journal_refuses_new_requests_and_lets_the_running_ones_finish() -> None:
    async def main() -> None:
        journal = FaultyJournal(write_s=1, limits=JournalLimits(max_rows=600))
        async with world(journal=journal) as engine:
            runs = []
            refusal: Rejected | None = None
            for _ in range(200):
                try:
                    runs.append(engine.submit())
                except Rejected as refused:
                    refusal = refused
                    break
            assert refusal is not None
            assert refusal.code == Code.OVERLOADED
            for run in runs:
                assert (await run.result()).outcome.error is None
            assert len(journal.disk.instances()) == len(runs)
            assert (await engine.request()).outcome.error is None

    simulate(main)


def test_too_many_instances_are_refused() -> None:
    async def infer(_: Attempted) -> None:
        await asyncio.sleep(1)

    async def main() -> None:
        async with world(Script(infer), max_instances=3) as engine:
            runs = [engine.submit() for _ in range(3)]
            with pytest.raises(Rejected, match="OVERLOADED"):
                engine.submit()
            for run in runs:
                await run.result()
            await engine.request()

    simulate(main)


def with_settle(**kwargs: Any) -> tuple[Registry, list[tuple[int, int]]]:
    """The scripted tasks with another settle, which notes when it runs and how many rows are durable then."""
    registry, seen = Registry(), list[tuple[int, int]]()
    for definition in scripted_registry():
        if definition.topic != "settle":
            registry.add(definition)

    @task("settle", registry=registry, **kwargs)
    async def settle(_: None, context: TaskContext[Script]) -> None:
        seen.append((now_us() - EPOCH_US, context.instance_key))

    return registry, seen


def test_an_effect_begins_only_after_its_cause_is_durable() -> None:
    registry, seen = with_settle(effect=True)

    async def main() -> None:
        journal = FaultyJournal(write_s=0.25)
        async with world(journal=journal, registry=registry) as engine:
            run = engine.submit()
            await run.result()
            [(at_us, key)] = seen
            assert key == run.key
            assert at_us == 250_000, "the write that holds the result of infer has just ended"

    simulate(main)


def test_an_effect_does_not_begin_while_the_disk_is_away() -> None:
    registry, seen = with_settle(effect=True)

    async def main() -> None:
        journal = FaultyJournal()
        async with world(journal=journal, registry=registry) as engine:
            journal.back.clear()
            run = engine.submit()
            with pytest.raises(Rejected, match="JOURNAL_UNAVAILABLE"):
                await run.result()
            journal.back.set()
            await asyncio.sleep(1)
            assert not seen
            assert journal.of(run.key).end == "terminated"

    simulate(main)


def test_an_effect_that_is_cancelled_while_it_waits_never_begins() -> None:
    registry, seen = with_settle(effect=True)

    async def main() -> None:
        async with world(journal=FaultyJournal(write_s=0.25), registry=registry) as engine:
            run = engine.submit()
            await asyncio.sleep(0.1)
            run.cancel(Code.CLIENT_DISCONNECTED, "left")
            assert (await run.result()).outcome.state == "terminated"
            assert not seen

    simulate(main)


@dataclass(frozen=True)
class Unstorable:
    cost_usd: object


def test_a_result_that_is_no_variable_is_a_fault_of_the_task() -> None:
    registry = Registry()
    for definition in scripted_registry():
        if definition.topic != "settle":
            registry.add(definition)

    @task("settle", inline=True, registry=registry)
    def settle(_: None, context: TaskContext[Script]) -> Unstorable:
        return Unstorable(object())

    async def main() -> None:
        async with world(registry=registry) as engine:
            result = await engine.request()
            assert result.outcome.error is not None
            assert result.outcome.error["code"] == "TASK_FAULT"
            assert "settle" in result.outcome.error["message"]

    simulate(main)


def test_a_report_that_no_row_can_hold_costs_its_instance_which_is_closed_all_the_same() -> None:
    async def infer(attempted: Attempted) -> None:
        await asyncio.sleep(0.1)
        wrong: Any = "three"
        attempted.context.record_usage(Usage("output", wrong, "Tokens", None, None, None, False, True, "chat", "r1"))

    async def main() -> None:
        async with world(Script(infer)) as engine:
            run = engine.submit()
            with pytest.raises(Rejected, match="ENGINE_FAULT"):
                await run.result()
            assert engine.script.slots == 0
            engine.script.infer = wait_a_little
            assert (await engine.request()).outcome.error is None
            await asyncio.sleep(30)
            assert engine.journal.of(run.key).end == "aborted"

    simulate(main)


async def wait_a_little(_: Attempted) -> None:
    await asyncio.sleep(0.1)
