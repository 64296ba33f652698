"""One loop for everybody: a burst of work is cut into slices, and nothing in the shell grows with what is over."""

from __future__ import annotations

import asyncio
import gc

import pytest

import engine.inbox
import engine.jobs
from engine.registry import Registry, TaskContext, task
from tests.simulation.world import Attempted, Script, scripted_registry, simulate, world


def test_a_burst_of_results_is_worked_on_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each apply seems to take 1 ms, so a slice of 5 ms holds five or six of them."""
    ticks = iter(range(1_000_000))
    monkeypatch.setattr(engine.inbox, "perf_counter", lambda: next(ticks) / 1000)
    gate = asyncio.Event()
    turns: list[int] = []

    async def infer(_: Attempted) -> None:
        await gate.wait()

    async def main() -> None:
        async with world(Script(infer)) as engine_:
            runs = []
            for _ in range(60):
                runs.append(engine_.submit())
                await asyncio.sleep(0.01)
            gate.set()
            while engine_.runtime.active:
                before = engine_.runtime.active
                await asyncio.sleep(0)
                turns.append(before - engine_.runtime.active)
            for run in runs:
                assert (await run.result()).outcome.error is None

    simulate(main)
    assert max(turns) <= 6
    assert sum(turns) == 60


def test_the_work_of_inline_tasks_counts_for_the_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Applies seem to take no time and each inline task 10 ms, so one pass of the loop takes one of them."""
    clock_s = 0.0
    gate = asyncio.Event()
    turns: list[int] = []
    registry = Registry()

    @task("settle", inline=True, registry=registry)
    def settle(_: None, context: TaskContext[Script]) -> None:
        nonlocal clock_s
        clock_s += 0.01

    for definition in scripted_registry():
        if definition.topic != "settle":
            registry.add(definition)
    for module in (engine.inbox, engine.jobs):
        monkeypatch.setattr(module, "perf_counter", lambda: clock_s)

    async def infer(_: Attempted) -> None:
        await gate.wait()

    async def main() -> None:
        async with world(Script(infer), registry=registry) as engine_:
            for _ in range(10):
                engine_.submit()
            await asyncio.sleep(1)
            gate.set()
            while engine_.runtime.active:
                before_s = clock_s
                await asyncio.sleep(0)
                turns.append(round((clock_s - before_s) / 0.01))

    simulate(main)
    assert max(turns) == 1
    assert sum(turns) == 10


def test_a_submission_in_a_spent_slice_goes_on_in_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(range(1_000_000))
    monkeypatch.setattr(engine.inbox, "perf_counter", lambda: next(ticks) / 1000)

    async def main() -> None:
        async with world() as engine_:
            runs = [engine_.submit() for _ in range(40)]
            for run in runs:
                assert (await run.result()).outcome.error is None
            assert engine_.script.slots == 0

    simulate(main)


def test_a_request_that_is_over_leaves_nothing_in_memory_not_even_for_the_garbage_collector() -> None:
    async def main() -> None:
        async with world() as engine_:
            await engine_.request()
            await asyncio.sleep(1)
            gc.collect()
            gc.disable()
            try:
                for _ in range(20):
                    await engine_.request()
                await asyncio.sleep(1)
                assert gc.collect() == 0
            finally:
                gc.enable()

    simulate(main)


def test_an_unknown_topic_ends_the_instance_with_an_incident() -> None:
    registry = Registry()
    for definition in scripted_registry():
        if definition.topic != "settle":
            registry.add(definition)

    async def main() -> None:
        async with world(registry=registry) as engine_:
            result = await engine_.request()
            assert result.outcome.incident_key is not None
            assert result.outcome.error is not None
            assert "`settle`" in result.outcome.error["message"]

    simulate(main)
