"""What clients can do to a run: read slowly, leave in the middle, all at once, or never listen."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from engine.errors import Code, Rejected
from engine.inference import Operation
from engine.run import CHUNKS_BUFFERED
from tests.loop import EPOCH_US, now_us
from tests.simulation.disk import FaultyJournal
from tests.simulation.world import Attempted, Script, failure, simulate, world

LEFT = (Code.CLIENT_DISCONNECTED, "the client closed the connection")


async def hangs(_: Attempted) -> None:
    await asyncio.sleep(3600)


def test_a_client_that_leaves_stops_the_attempt_at_once_and_its_usage_is_recorded() -> None:
    async def main() -> None:
        async with world(Script(hangs)) as engine:
            run = engine.submit()
            await asyncio.sleep(0.7)
            run.cancel(*LEFT)
            result = await run.result()
            assert now_us() - EPOCH_US < 720_000
            assert result.outcome.state == "terminated"
            assert result.outcome.error is not None
            assert result.outcome.error["code"] == "CLIENT_DISCONNECTED"
            facts = engine.journal.of(run.key).facts
            assert [fact.outcome for fact in facts if fact.kind == "attempt"] == ["cancelled"]
            assert [fact.kind for fact in facts].count("usage") == 1
            assert engine.script.slots == 0

    simulate(main)


def test_a_task_that_is_stopped_is_told_why() -> None:
    reasons: list[object] = []

    async def infer(_: Attempted) -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError as stop:
            reasons.append(stop.args)
            raise

    async def main() -> None:
        async with world(Script(infer)) as engine:
            run = engine.submit()
            await asyncio.sleep(0.1)
            run.cancel(*LEFT)
            await run.result()
            await engine.request(deadline_ms=100)

    simulate(main)
    assert reasons == [("CLIENT_DISCONNECTED",), ()]


def test_leaving_twice_or_after_the_end_changes_nothing() -> None:
    async def main() -> None:
        async with world() as engine:
            run = engine.submit()
            result = await run.result()
            run.cancel(*LEFT)
            run.cancel(*LEFT)
            assert (await run.result()) == result
            assert result.outcome.error is None

    simulate(main)


def test_a_client_that_leaves_before_its_job_has_begun_ends_the_run() -> None:
    async def main() -> None:
        async with world(Script(hangs)) as engine:
            run = engine.submit()
            run.cancel(*LEFT)
            result = await run.result()
            assert result.outcome.state == "terminated"
            assert engine.script.calls == 0

    simulate(main)


def test_a_client_that_leaves_while_waiting_for_admission_gives_its_place_back() -> None:
    async def main() -> None:
        async with world(Script(admit_wait=lambda: asyncio.sleep(3600))) as engine:
            run = engine.submit()
            await asyncio.sleep(1)
            assert engine.script.slots == 1
            run.cancel(*LEFT)
            await run.result()
            assert engine.script.slots == 0
            assert engine.script.calls == 0

    simulate(main)


def test_a_client_that_leaves_before_the_wait_for_admission_has_begun_gives_its_place_in_the_queue_back() -> None:
    seen: list[object] = []

    async def wait() -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError as stop:
            seen.append(stop.args)
            raise

    async def main() -> None:
        async with world(Script(admit_wait=wait)) as engine:
            run = engine.submit()
            run.cancel(*LEFT)
            assert (await run.result()).outcome.state == "terminated"
            assert engine.script.slots == 0

    simulate(main)
    assert seen == [("CLIENT_DISCONNECTED",)]


def test_a_waiter_that_is_cancelled_disturbs_nobody() -> None:
    async def infer(_: Attempted) -> None:
        await asyncio.sleep(1)

    async def main() -> None:
        async with world(Script(infer)) as engine:
            run = engine.submit()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(run.result(), 0.5)
            assert (await run.result()).outcome.error is None

    simulate(main)


def test_a_storm_of_cancellations_leaves_nothing_behind() -> None:
    seed = 20_260_101
    print(f"seed {seed}")
    random = Random(seed)

    async def infer(attempted: Attempted) -> None:
        await asyncio.sleep(attempted.random.random() * 0.01)

    async def main() -> None:
        async with world(Script(infer, random=random)) as engine:
            runs = [engine.submit() for _ in range(400)]
            for run in random.sample(runs, 400):
                if random.random() < 0.3:
                    await asyncio.sleep(random.random() * 0.001)
                run.cancel(*LEFT)
            results = [await run.result() for run in runs]
            assert engine.script.slots == 0
            assert engine.runtime.active == 0
            assert {result.outcome.state for result in results} <= {"completed", "terminated"}
            ends = {key: stored.end for key, stored in engine.journal.disk.instances().items()}
            assert ends == {run.key: result.outcome.state for run, result in zip(runs, results, strict=True)}

    simulate(main)


def test_a_task_that_ignores_its_cancellation_cannot_hold_its_instance() -> None:
    async def infer(_: Attempted) -> None:
        for _second in range(10):
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError:
                continue

    async def main() -> None:
        async with world(Script(infer)) as engine:
            run = engine.submit()
            await asyncio.sleep(1)
            run.cancel(*LEFT)
            result = await run.result()
            assert result.outcome.state == "terminated"
            assert now_us() - EPOCH_US < 10_000_000

    simulate(main)


# --- streams ----------------------------------------------------------------------------------------------------


def test_no_chunk_leaves_before_the_start_is_durable() -> None:
    async def infer(attempted: Attempted) -> None:
        await attempted.emit(b"first")
        await asyncio.sleep(1)
        await attempted.emit(b"second")

    async def main() -> None:
        journal = FaultyJournal(write_s=0.3)
        async with world(Script(infer), journal=journal) as engine:
            run = engine.submit(operation=Operation.GENERATE_STREAM)
            seen = [(chunk.data, now_us() - EPOCH_US) async for chunk in run.chunks()]
            assert seen == [(b"first", 300_000), (b"second", 1_000_000)]
            result = await run.result()
            assert result.outcome.error is None
            assert now_us() - EPOCH_US == 1_300_000

    simulate(main)


def test_a_slow_client_slows_the_model_down() -> None:
    written: list[int] = []

    async def infer(attempted: Attempted) -> None:
        for number in range(100):
            await attempted.emit(b"%d" % number)
            written.append(number)

    async def main() -> None:
        async with world(Script(infer)) as engine:
            run = engine.submit(operation=Operation.GENERATE_STREAM)
            await asyncio.sleep(1)
            assert len(written) == CHUNKS_BUFFERED
            read = [chunk.data async for chunk in run.chunks()]
            assert read == [b"%d" % number for number in range(100)]
            await run.result()

    simulate(main)


def test_a_client_that_leaves_a_full_stream_frees_the_task() -> None:
    async def infer(attempted: Attempted) -> None:
        while True:
            await attempted.emit(b"more")

    async def main() -> None:
        async with world(Script(infer)) as engine:
            run = engine.submit(operation=Operation.GENERATE_STREAM)
            async for _ in run.chunks():
                run.cancel(*LEFT)
            assert (await run.result()).outcome.state == "terminated"
            assert engine.script.slots == 0

    simulate(main)


def test_a_stream_whose_start_cannot_be_stored_says_so_and_stops_the_model() -> None:
    async def infer(attempted: Attempted) -> None:
        await attempted.emit(b"first")
        await asyncio.sleep(3600)

    async def main() -> None:
        journal = FaultyJournal()
        async with world(Script(infer), journal=journal) as engine:
            journal.back.clear()
            run = engine.submit(operation=Operation.GENERATE_STREAM)
            with pytest.raises(Rejected, match="JOURNAL_UNAVAILABLE"):
                await anext(run.chunks())
            journal.back.set()
            await asyncio.sleep(1)
            outcome = (await run.result()).outcome
            assert outcome.error is not None
            assert outcome.error["code"] == "JOURNAL_UNAVAILABLE"
            assert journal.of(run.key).kinds[-1] == "instance_ended"

    simulate(main)


def test_a_stream_tells_at_its_first_chunk_who_feeds_it_after_how_many_attempts() -> None:
    async def infer(attempted: Attempted) -> None:
        if attempted.number == 1:
            raise failure(Code.REPLICA_UNAVAILABLE, 1)
        await attempted.emit(b"first")
        await asyncio.sleep(1)
        await attempted.emit(b"second")

    async def main() -> None:
        async with world(Script(infer)) as engine:
            run = engine.submit(operation=Operation.GENERATE_STREAM)
            told = [(run.attempts, run.replica) async for _ in run.chunks()]
            assert told == [(2, "r2"), (2, "r2")]
            result = await run.result()
            assert (result.attempts, result.replica) == (2, "r2")

    simulate(main)
