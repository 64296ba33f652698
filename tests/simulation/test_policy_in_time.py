"""The shipped diagram's waits happen at the very instants that it draws, on a clock that only the tests move."""

from __future__ import annotations

import asyncio
from itertools import pairwise

from engine.errors import Code, TaskError
from tests.loop import EPOCH_US, now_us
from tests.simulation.world import Attempted, Script, failure, simulate, world


def test_a_failed_attempt_is_made_again_after_the_back_off_that_the_replica_asks_for() -> None:
    calls: list[int] = []

    async def infer(attempted: Attempted) -> None:
        calls.append(now_us() - EPOCH_US)
        if attempted.number < 3:
            raise failure(Code.REPLICA_OVERLOADED, attempted.number, retry_after_ms=400)

    async def main() -> None:
        async with world(Script(infer)) as engine:
            result = await engine.request()
            assert result.outcome.error is None
            assert (result.attempts, result.replica) == (3, "r1")
            assert result.outcome.variables["attempts"] == 3

    simulate(main)
    assert calls == [0, 400_000, 800_000]


def test_back_off_doubles_within_its_jitter_and_is_the_same_in_every_run() -> None:
    def waits() -> list[int]:
        calls: list[int] = []

        async def infer(attempted: Attempted) -> None:
            calls.append(now_us())
            raise failure(Code.REPLICA_UNAVAILABLE, attempted.number)

        async def main() -> None:
            async with world(Script(infer)) as engine:
                result = await engine.request()
                assert result.outcome.end_element_id == "failed"
                assert result.outcome.error is not None
                assert result.outcome.error["code"] == "REPLICA_UNAVAILABLE"

        simulate(main)
        return [later - earlier for earlier, later in pairwise(calls)]

    first = waits()
    assert len(first) == 2
    assert 25_000 <= first[0] <= 75_000
    assert 50_000 <= first[1] <= 150_000
    assert waits() == first


def test_attempts_that_are_spent_fall_back_to_the_other_model() -> None:
    async def infer(attempted: Attempted) -> None:
        if not attempted.context.job.variables["degraded"]:
            raise failure(Code.REPLICA_UNAVAILABLE, attempted.number)

    async def main() -> None:
        async with world(Script(infer, fallback_model="chat-small")) as engine:
            result = await engine.request()
            assert result.outcome.error is None
            assert result.outcome.variables["model"] == "chat-small"
            assert result.attempts == 4

    simulate(main)


def test_the_deadline_stops_the_attempt_at_its_instant_and_its_usage_is_recorded() -> None:
    stopped: list[int] = []

    async def infer(_: Attempted) -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            stopped.append(now_us() - EPOCH_US)

    async def main() -> None:
        async with world(Script(infer)) as engine:
            run = engine.submit(deadline_ms=1_500)
            result = await run.result()
            assert result.outcome.end_element_id == "failed"
            assert result.outcome.error is not None
            assert result.outcome.error["code"] == "DEADLINE_EXCEEDED"
            facts = engine.journal.of(run.key).facts
            assert ("attempt", "cancelled") in [(fact.kind, fact.outcome) for fact in facts]
            assert "usage" in [fact.kind for fact in facts]
            assert engine.script.settled == 1

    simulate(main)
    assert stopped == [1_500_000]


def test_a_wall_clock_that_is_set_back_delays_no_timer() -> None:
    set_back_us = 0
    calls: list[int] = []

    async def infer(attempted: Attempted) -> None:
        nonlocal set_back_us
        calls.append(now_us() - EPOCH_US)
        if attempted.number < 2:
            set_back_us = 0
            asyncio.get_running_loop().call_later(0.1, jump)
            raise failure(Code.REPLICA_OVERLOADED, attempted.number, retry_after_ms=400)

    def jump() -> None:
        nonlocal set_back_us
        set_back_us = 3_600_000_000

    async def main() -> None:
        async with world(Script(infer), clock=lambda: now_us() - set_back_us) as engine:
            result = await engine.request()
            assert result.outcome.error is None
            assert result.attempts == 2

    simulate(main)
    assert calls == [0, 400_000]


def test_a_result_that_arrives_with_the_deadline_is_settled_once() -> None:
    async def infer(_: Attempted) -> None:
        await asyncio.sleep(1.5)

    async def main() -> None:
        async with world(Script(infer)) as engine:
            result = await engine.request(deadline_ms=1_500)
            assert result.outcome.state == "completed"
            assert engine.script.settled == 1
            assert engine.script.slots == 0

    simulate(main)


def test_a_task_that_breaks_ends_the_instance_with_an_incident_and_tells_no_text_of_the_exception() -> None:
    async def infer(_: Attempted) -> None:
        raise ValueError("the prompt of the client")

    async def main() -> None:
        async with world(Script(infer)) as engine:
            run = engine.submit()
            result = await run.result()
            assert result.outcome.state == "terminated"
            assert result.outcome.incident_key is not None
            assert result.outcome.error is not None
            assert result.outcome.error["code"] == "TASK_FAULT"
            assert "ValueError" in result.outcome.error["message"]
            assert "incident" in engine.journal.of(run.key).kinds
            assert not any(b"the prompt" in row.data for row in engine.journal.stored.values())

    simulate(main)


def test_a_technical_error_of_a_task_is_an_incident_with_its_code() -> None:
    async def infer(_: Attempted) -> None:
        raise TaskError(Code.OUTPUT_INVALID, "the model wrote no JSON")

    async def main() -> None:
        async with world(Script(infer)) as engine:
            result = await engine.request()
            assert result.outcome.error is not None
            assert "OUTPUT_INVALID: the model wrote no JSON" in result.outcome.error["message"]

    simulate(main)
