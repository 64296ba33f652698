"""What waits on a run is told once, and what was promised at its end is done once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from engine.errors import Code, LeaseLost, Rejected
from engine.inference import Chunk, InferenceAnswer, InferenceCall, Operation
from engine.records import Key, Outcome
from engine.run import Run
from tests.loop import run_virtual

OUTCOME = Outcome("completed", "answered", None, {})
CALL = InferenceCall(Operation.GENERATE_STREAM, "chat", "", "")


class Row:
    """A commit that takes its time, or fails."""

    def __init__(self, takes_s: float = 0.0, error: Exception | None = None):
        self.takes_s = takes_s
        self.error = error

    def __await__(self):  # type: ignore[no-untyped-def]  # the generator of asyncio.sleep
        yield from asyncio.sleep(self.takes_s).__await__()
        if self.error is not None:
            raise self.error


def run(*commits: Row, cancelled: list[tuple[Key, str]] | None = None) -> Run:
    def cancel(key: Key, code: Code | str, message: str) -> None:
        if cancelled is not None:
            cancelled.append((key, str(code)))

    made = Run(7, CALL, cancel, 10.0)
    for commit in commits:
        made.add_commit(commit)  # type: ignore[arg-type]  # awaitable is all that a run asks of it
    return made


def test_releases_run_once_in_order_and_one_that_breaks_stops_no_other() -> None:
    called: list[str] = []

    def note(name: str) -> Callable[[], None]:
        return lambda: called.append(name)

    def breaks() -> None:
        raise OSError

    async def main() -> None:
        made = run()
        for release in (note("first"), breaks, note("second")):
            made.defer(release)
        made.end(OUTCOME)
        made.defer(note("late"))

    run_virtual(main())
    assert called == ["first", "second", "late"]


def test_everybody_who_waits_gets_the_result_after_the_last_commit() -> None:
    async def main() -> None:
        made = run(Row(1), Row(3))
        waiting = [asyncio.create_task(made.result()) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        made.deliver(InferenceAnswer("chat", "1"))
        made.end(OUTCOME)
        with pytest.raises(asyncio.CancelledError):
            await waiting[0]
        results = await asyncio.gather(*waiting[1:])
        assert asyncio.get_running_loop().time() == 4
        assert [result.outcome for result in results] == [OUTCOME, OUTCOME]
        assert results[0].answer is not None

    run_virtual(main())


def test_an_end_without_an_outcome_is_raised() -> None:
    async def main() -> None:
        made = run()
        waiting = asyncio.create_task(made.result())
        await asyncio.sleep(0)
        made.end(Rejected(Code.ABORTED, "stopped"))
        with pytest.raises(Rejected, match="ABORTED"):
            await waiting

    run_virtual(main())


def test_rows_that_another_process_owns_are_told_as_an_abortion() -> None:
    async def main() -> None:
        made = run(Row(), Row(error=LeaseLost("owned by another")))
        made.end(OUTCOME)
        await made.started()
        with pytest.raises(Rejected, match="ABORTED"):
            await made.result()

    run_virtual(main())


def test_a_stream_whose_start_is_refused_cancels_its_run() -> None:
    cancelled: list[tuple[Key, str]] = []

    async def main() -> None:
        made = run(Row(60), cancelled=cancelled)
        await made.emit(Chunk(b"early"))
        with pytest.raises(Rejected, match="JOURNAL_UNAVAILABLE"):
            await anext(made.chunks())

    run_virtual(main())
    assert cancelled == [(7, "JOURNAL_UNAVAILABLE")]


def test_a_run_that_has_ended_cannot_be_cancelled_and_takes_no_chunk() -> None:
    cancelled: list[tuple[Key, str]] = []

    async def main() -> None:
        made = run(Row(), cancelled=cancelled)
        made.end(OUTCOME)
        made.cancel(Code.CANCELLED, "too late")
        await made.emit(Chunk(b"late"))
        assert [chunk async for chunk in made.chunks()] == []

    run_virtual(main())
    assert not cancelled
