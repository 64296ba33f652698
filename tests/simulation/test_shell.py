"""The shell's own corners: what crosses in an inbox, what no row can hold, and what a fault of ours leaves behind."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

import engine.inbox
from engine.core.instance import has_ended
from engine.core.replay import replay
from engine.errors import Code, Rejected
from engine.inference import Operation
from engine.records import Attempt, Decision, Start
from engine.run import Run
from tests.simulation.disk import CLAIM_S, FaultyJournal
from tests.simulation.world import Attempted, Script, World, failure, simulate, world

LATER_S = 60.0  # long enough for an outage to be given up on, and for the next look at what was left behind


async def code_of(run: Run) -> str:
    try:
        error = (await run.result()).outcome.error
    except Rejected as refused:
        return refused.code
    return "ok" if error is None else str(error["code"])


def test_a_deadline_that_passes_while_the_result_waits_for_its_turn_is_too_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each apply takes half a millisecond, so the last of many results wait until after the deadline of all."""

    def tick() -> float:
        loop = asyncio.get_running_loop()
        loop.jump(0.00025)  # type: ignore[attr-defined]  # the simulation's loop
        return loop.time()

    gate = asyncio.Event()

    async def infer(_: Attempted) -> None:
        await gate.wait()

    async def main() -> Counter[str]:
        loop = asyncio.get_running_loop()
        async with world(Script(infer)) as engine_:
            runs = [engine_.submit(deadline_ms=1_000 - round(loop.time() * 1000)) for _ in range(60)]
            monkeypatch.setattr(engine.inbox, "perf_counter", tick)
            await asyncio.sleep(0.995 - loop.time())
            gate.set()
            codes = Counter([await code_of(run) for run in runs])
            assert engine_.runtime.left_open == 0
            return codes

    assert simulate(main) == {"ok": 60}


async def decides_what_is_no_json(attempted: Attempted) -> None:
    attempted.context.record_decision(Decision("route", "r1", "for no reason", {"considered": {1, 2}}))


def test_a_decision_that_is_no_json_is_a_fault_of_its_task() -> None:
    async def main() -> str:
        async with world(Script(decides_what_is_no_json)) as engine_:
            run = engine_.submit()
            code = await code_of(run)
            kinds = engine_.journal.of(run.key).kinds
            assert "attempt" in kinds
            assert "incident" in kinds
            return code

    assert simulate(main) == Code.TASK_FAULT


async def reports_what_no_row_can_hold(attempted: Attempted) -> None:
    await asyncio.sleep(1)
    attempted.context.record_attempt(Attempt("r1", "p", "chat", "1", "grpc", "ok", 0, 0, chunks=2**40))


def test_an_instance_lost_by_a_fault_during_an_outage_is_closed_once_the_store_is_back() -> None:
    async def main() -> str | None:
        journal = FaultyJournal()
        async with world(Script(reports_what_no_row_can_hold), journal=journal) as engine_:
            journal.back.clear()
            run = engine_.submit()
            assert await code_of(run) == Code.ENGINE_FAULT
            await asyncio.sleep(LATER_S)
            assert engine_.runtime.left_open == 1
            journal.back.set()
            await asyncio.sleep(LATER_S)
            assert engine_.runtime.left_open == 0
            return journal.of(run.key).end

    assert simulate(main) == "aborted"


async def never_answers(_: Attempted) -> None:
    await asyncio.sleep(1_000_000)


def test_an_instance_that_cannot_be_read_keeps_neither_the_others_open_nor_the_gateway_from_running(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def die(engine_: World) -> list[int]:
        runs = [engine_.submit() for _ in range(3)]
        await asyncio.sleep(1)
        engine_.runtime.abort()
        return [run.key for run in runs]

    async def main() -> list[str | None]:
        journal = FaultyJournal()
        async with world(Script(never_answers), journal=journal) as engine_:
            keys = await die(engine_)
        disk = journal.disk
        first = disk.rows[keys[0], -1]
        disk.rows[keys[0], -1] = first._replace(data=first.data.replace(b'"start"', b'"later"'))
        async with world(journal=FaultyJournal(disk), epoch=2) as engine_:
            await asyncio.sleep(LATER_S + 2 * CLAIM_S)
            assert (await engine_.request()).outcome.error is None
        assert not disk.processes[1].recovered
        assert caplog.messages.count("instance cannot be closed") == 1
        return [disk.instances()[key].end for key in keys]

    assert simulate(main) == [None, "aborted", "aborted"]


async def streams_for_long(attempted: Attempted) -> None:
    await attempted.emit(b"first")
    await asyncio.sleep(10)


def test_the_first_chunk_waits_for_every_row_that_led_to_it_also_after_a_queue() -> None:
    async def main() -> list[str]:
        script = Script(streams_for_long, admit_wait=lambda: asyncio.sleep(5))
        async with world(script, journal=FaultyJournal(write_s=1)) as engine_:
            run = engine_.submit(operation=Operation.GENERATE_STREAM)
            async for _ in run.chunks():
                return [fact.element_id for fact in engine_.journal.of(run.key).facts if fact.kind == "activity"]
        raise AssertionError("no chunk came")

    assert simulate(main)[-3:] == ["admit", "check_health", "route"]


async def never_there(attempted: Attempted) -> None:
    raise failure(Code.REPLICA_UNAVAILABLE, attempted.number)


def test_an_instance_goes_by_the_limit_that_its_start_says_whatever_the_settings_of_its_reader() -> None:
    async def main() -> tuple[str, int, bool]:
        async with world(max_activity_instances=10, script=Script(never_there)) as engine_:
            run = engine_.submit()
            code = await code_of(run)
            recorded = await engine_.ownership.load(run.key)
        assert recorded is not None
        start = recorded.commands[0][0]
        assert isinstance(start, Start)
        return code, start.max_activity_instances, has_ended(replay(recorded.program, recorded.commands))

    assert simulate(main) == (Code.LIMIT_EXCEEDED, 10, True)
