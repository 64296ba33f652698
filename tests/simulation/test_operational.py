"""Instances that outlive their process: what they wait for is told, they rest, they wake, and they are told things."""

from __future__ import annotations

import asyncio
import uuid
from random import Random
from typing import Any

import pytest

from engine.core.instance import has_ended
from engine.core.replay import replay
from engine.errors import Code, Rejected
from engine.inference import InferenceCall, Operation
from engine.loading import TELLERS
from engine.records import (
    Cancel,
    EventReceived,
    IncidentResolved,
    Job,
    JobCompleted,
    JobFailed,
    Key,
    RetriesSet,
    Tags,
    TimerFired,
    VariablesSet,
)
from engine.run import Run
from engine.telemetry import Telemetry
from tests.builders import Diagram, message, signal
from tests.loop import now_us
from tests.simulation.disk import Disk, FaultyJournal, MemoryOwnership
from tests.simulation.outside import EVENT_KEY, Office, Outside, completed, office, seconds, timers_fired
from tests.simulation.world import simulate

SOON_S = 5.0  # long enough for whatever waits for the disk or for a place to rest
AWAY_S = 60.0


def idle() -> Outside:
    return Outside(eager=False)


def one_task(**fields: Any) -> Diagram:
    return Diagram("one_task").start().task("pack", **fields).end().path("started", "pack", "ended")


def parked(engine: Office, key: Key) -> bool:
    return key in engine.runtime.open_instances() and engine.runtime.active == 0


def the_job(engine: Office) -> Job:
    (job,) = engine.outside.jobs.values()
    return job


def cut_off(engine: Office, away: bool) -> None:
    ownership = engine.runtime._ownership
    assert isinstance(ownership, MemoryOwnership)
    ownership.away = away


async def the_job_of(engine: Office, run: Run) -> Job:
    """The open job of a run that had time to come to it."""
    await run.started()
    await asyncio.sleep(SOON_S)
    return the_job(engine)


# --- what others are told ---------------------------------------------------------------------------------------


def test_an_order_runs_to_its_end_by_what_comes_from_outside() -> None:
    async def main() -> None:
        async with office() as engine:
            run = engine.start()
            result = await run.result()
            assert (result.outcome.state, result.outcome.variables["amount"]) == ("completed", 3)
            await asyncio.sleep(1)
            assert [what for what, _ in engine.outside.heard] == [
                "subscribed paid",
                "offered pack",
                "withdrawn pack",
                "unsubscribed paid",
                "threw shipped",
                "offered sign",
                "withdrawn sign",
                "threw done",
                "ended",
            ]
            assert engine.runtime.left_open == 0
            assert engine.runtime.active == 0
            assert list(engine.runtime.open_instances()) == []

    simulate(main)


def test_nobody_hears_of_anything_that_is_not_durable() -> None:
    """The outside asserts it for each offer; here the disk takes its time, and is away for a while."""

    async def main() -> None:
        journal = FaultyJournal(write_s=1.5)
        async with office(journal.disk, journal=journal) as engine:
            run = engine.start()
            await asyncio.sleep(1)
            assert engine.outside.heard == []
            journal.back.clear()
            await asyncio.sleep(AWAY_S)
            assert engine.outside.heard == []
            journal.back.set()
            assert (await run.result()).outcome.state == "completed"

    simulate(main)


def test_an_online_instance_still_fails_on_a_topic_that_nobody_here_knows() -> None:
    async def main() -> None:
        async with office(diagram=one_task(), outside=idle()) as engine:
            call = InferenceCall(Operation.INFER, "chat", "", "")
            request_id = str(uuid.UUID(int=1))
            run = engine.runtime.submit(engine.definition, call, Tags(), {}, request_id=request_id)
            error = (await run.result()).outcome.error
            assert error is not None
            assert error["code"] == Code.TASK_FAULT
            assert engine.outside.heard == []

    simulate(main)


def test_an_online_instance_can_wait_for_an_event_while_it_is_in_memory() -> None:
    async def main() -> None:
        diagram = Diagram("asks").start().catch("paid", message("paid", "=id")).throw("thanked", signal("thanks"))
        diagram.end().path("started", "paid", "thanked", "ended")
        async with office(diagram=diagram, park_after_ms=0) as engine:
            call = InferenceCall(Operation.INFER, "chat", "", "")
            request_id = str(uuid.UUID(int=1))
            run = engine.runtime.submit(engine.definition, call, Tags(), {"id": "o1"}, request_id=request_id)
            result = await run.result()
            assert result.outcome.variables["amount"] == 3
            await asyncio.sleep(1)
            words = [what for what, _ in engine.outside.heard]
            assert words == ["subscribed paid", "unsubscribed paid", "threw thanks", "ended"]

    simulate(main)


def test_a_job_that_its_instance_stops_is_withdrawn_and_answered_for_at_once() -> None:
    async def main() -> None:
        async with office(outside=Outside(job_s=7_200)) as engine:
            run = engine.start()
            await asyncio.sleep(1_800)
            pack = the_job(engine)
            assert parked(engine, run.key)
            await asyncio.sleep(1_801)
            assert pack.key not in engine.outside.jobs
            facts = engine.journal.of(run.key).facts
            assert [fact.state for fact in facts if fact.element_id == "pack"] == ["terminated"]
            assert await engine.code_of_telling(run.key, JobCompleted, *completed(pack.key)) == Code.STALE

    simulate(main)


# --- telling ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("park_after_ms", [0, 3_600_000])
def test_what_is_told_is_durable_when_the_teller_hears_so(park_after_ms: int) -> None:
    async def main() -> None:
        journal = FaultyJournal(write_s=0.5)
        async with office(
            journal.disk, journal=journal, outside=idle(), diagram=one_task(), park_after_ms=park_after_ms
        ) as engine:
            run = engine.start()
            job = await the_job_of(engine, run)
            assert engine.runtime.active == (1 if park_after_ms else 0)
            before_s = seconds()
            await engine.runtime.tell(run.key, JobCompleted, *completed(job.key, weight=2))
            assert seconds() > before_s + 0.4
            assert engine.journal.of(run.key).end == "completed"
            assert (await run.result()).outcome.variables["weight"] == 2

    simulate(main)


def test_what_cannot_be_told_is_refused_with_the_reason_and_changes_nothing() -> None:
    async def main() -> None:
        async with office(outside=idle(), diagram=one_task()) as engine:
            run = engine.start()
            job = await the_job_of(engine, run)
            rows = len(engine.journal.stored)
            told = engine.code_of_telling
            assert await told(99, JobCompleted, *completed(job.key)) == Code.NOT_FOUND
            assert await told(run.key, JobCompleted, *completed(99)) == Code.STALE
            assert await told(run.key, JobCompleted, *completed(job.key, bad={1, 2})) == Code.INVALID_ARGUMENT
            assert await told(run.key, TimerFired, 99) == Code.INVALID_ARGUMENT
            assert await told(run.key, EventReceived, 99, EVENT_KEY, {}) == Code.STALE
            engine.journal.back.clear()
            engine.start()
            await asyncio.sleep(1)
            assert await told(run.key, JobCompleted, *completed(job.key)) == Code.JOURNAL_UNAVAILABLE
            engine.journal.back.set()
            await asyncio.sleep(SOON_S)
            assert [key for key, _ in engine.journal.stored].count(run.key) == rows
            assert await told(run.key, JobCompleted, *completed(job.key)) == "ok"
            assert await told(run.key, JobCompleted, *completed(job.key)) == Code.NOT_FOUND

    simulate(main)


@pytest.mark.parametrize("park_after_ms", [0, 3_600_000])
def test_an_incident_waits_for_a_person_who_mends_it(park_after_ms: int) -> None:
    async def main() -> None:
        diagram = one_task(outputs={"weight": "=given + 1"})
        async with office(outside=idle(), diagram=diagram, park_after_ms=park_after_ms) as engine:
            run = engine.start()
            job = await the_job_of(engine, run)
            find = engine.runtime
            assert find.find_job(job.key) == run.key
            assert find.find_scope(run.key) == find.find_scope(job.activity_instance_key) == run.key
            failure = (job.key, "TASK_FAULT", "no scales", False, completed(job.key)[2])
            await find.tell(run.key, JobFailed, *failure)
            await asyncio.sleep(SOON_S)
            instance = await find.read(run.key)
            assert instance is not None
            (incident,) = instance.open_incidents
            assert incident.job_key is not None
            assert find.find_incident(incident.key) == find.find_job(incident.job_key) == run.key
            await asyncio.sleep(SOON_S)
            await find.tell(run.key, VariablesSet, run.key, {"given": 4})
            await find.tell(run.key, RetriesSet, incident.job_key, 1)
            await find.tell(run.key, IncidentResolved, incident.key)
            await asyncio.sleep(SOON_S)
            assert find.find_incident(incident.key) is None
            await find.tell(run.key, JobCompleted, *completed(the_job(engine).key))
            assert (await run.result()).outcome.variables["weight"] == 5
            assert find.find_scope(run.key) is None

    simulate(main)


@pytest.mark.parametrize("park_after_ms", [0, 3_600_000])
def test_a_waiting_instance_can_be_cancelled(park_after_ms: int) -> None:
    async def main() -> None:
        async with office(outside=idle(), park_after_ms=park_after_ms) as engine:
            runs = [engine.start() for _ in range(2)]
            await asyncio.sleep(SOON_S)
            await engine.runtime.tell(runs[0].key, Cancel, Code.CANCELLED, "not needed")
            runs[1].cancel(Code.CANCELLED, "not needed either")
            for run in runs:
                assert (await run.result()).outcome.state == "terminated"
            await asyncio.sleep(1)
            assert engine.outside.jobs == {}
            assert engine.outside.over == {run.key for run in runs}
            assert engine.runtime.left_open == 0

    simulate(main)


# --- resting and waking -----------------------------------------------------------------------------------------


def test_an_instance_rests_when_it_has_waited_for_a_while_and_wakes_when_its_timer_is_due() -> None:
    async def main() -> None:
        async with office(outside=Outside(message_s=100), park_after_ms=2_000) as engine:
            run = engine.start()
            await asyncio.sleep(1.4)
            assert engine.runtime.active == 1
            await asyncio.sleep(4)
            assert parked(engine, run.key)
            await asyncio.sleep(7)
            assert len(timers_fired(engine.journal.disk, run.key)) == 1
            assert (await run.result()).outcome.state == "completed"

    simulate(main)


def test_an_instance_with_a_job_running_here_does_not_rest() -> None:
    async def main() -> None:
        async with office(price_s=100, park_after_ms=0) as engine:
            engine.start()
            await asyncio.sleep(99)
            assert engine.runtime.active == 1

    simulate(main)


def test_a_parked_instance_is_loaded_once_for_all_who_need_it() -> None:
    async def main() -> None:
        async with office(outside=idle(), park_after_ms=0) as engine:
            run = engine.start()
            await asyncio.sleep(SOON_S)
            loader = engine.runtime._loader  # the only look inside: how often the store is asked
            asked: list[Key] = []
            load = loader._load

            async def counted(keys: Any, found: Any) -> None:
                asked.extend(keys)
                await load(keys, found)

            loader._load = counted  # type: ignore[method-assign]
            values = [{"n": n} for n in range(20)]
            telling = [engine.code_of_telling(run.key, VariablesSet, run.key, each) for each in values]
            readers = [engine.runtime.read(run.key) for _ in range(20)]
            codes, instances = await asyncio.gather(asyncio.gather(*telling), asyncio.gather(*readers))
            assert set(codes) == {"ok"}
            assert len({id(instance) for instance in instances}) == 1
            assert asked == [run.key]

    simulate(main)


def test_who_waits_for_one_instance_is_bounded() -> None:
    async def main() -> None:
        async with office(outside=idle(), park_after_ms=0) as engine:
            run = engine.start()
            await asyncio.sleep(SOON_S)
            telling = [engine.code_of_telling(run.key, VariablesSet, run.key, {"n": n}) for n in range(TELLERS + 5)]
            codes = await asyncio.gather(*telling)
            assert (codes.count("ok"), codes.count(Code.OVERLOADED)) == (TELLERS, 5)

    simulate(main)


def test_many_parked_timers_that_are_due_at_once_fire_in_turns_with_others() -> None:
    async def main() -> None:
        async with office(outside=Outside(message_s=0.5), park_after_ms=0, max_instances=10) as engine:
            runs = [engine.start(id=f"o{n}") for n in range(300)]
            for run in runs:
                assert (await run.result()).outcome.state == "completed"
            assert engine.outside.refused == {}

    simulate(main)


def test_a_store_that_is_away_delays_timers_and_refuses_tellers() -> None:
    async def main() -> None:
        async with office(outside=Outside(message_s=1), park_after_ms=0) as engine:
            run = engine.start()
            await asyncio.sleep(SOON_S)
            assert parked(engine, run.key)
            cut_off(engine, True)
            code = await engine.code_of_telling(run.key, VariablesSet, run.key, {"n": 1})
            assert code == Code.JOURNAL_UNAVAILABLE
            await asyncio.sleep(10)
            assert timers_fired(engine.journal.disk, run.key) == []
            cut_off(engine, False)
            assert (await run.result()).outcome.state == "completed"

    simulate(main)


def test_an_instance_that_cannot_be_read_is_reported_stays_open_and_keeps_nobody_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        async with office(outside=Outside(message_s=1), park_after_ms=0) as engine:
            bad, good = engine.start(), engine.start()
            await asyncio.sleep(SOON_S)
            row = engine.journal.stored[bad.key, -1]
            engine.journal.stored[bad.key, -1] = row._replace(data=row.data.replace(b'"start"', b'"later"'))
            assert await engine.code_of_telling(bad.key, VariablesSet, bad.key, {"n": 1}) == Code.ENGINE_FAULT
            assert (await good.result()).outcome.state == "completed"
            assert "instance cannot be read" in caplog.messages
            assert list(engine.runtime.open_instances()) == [bad.key]
            assert engine.runtime.left_open == 1
            engine.journal.stored[bad.key, -1] = row
            await engine.runtime.tell(bad.key, VariablesSet, bad.key, {"n": 1})
            assert (await bad.result()).outcome.state == "completed"

    simulate(main)


@pytest.mark.parametrize("seed", range(8))
def test_an_instance_that_rested_at_any_moment_is_the_same_as_one_that_never_did(seed: int) -> None:
    """The same happens to both at the same instants; the parked one is loaded for each, or for a look in between."""
    print(f"seed {seed}")

    async def life(park_after_ms: int, looks: bool) -> list[tuple[Any, ...]]:
        random, seen = Random(seed), []
        outside = Outside(job_s=random.uniform(0.1, 20), message_s=random.uniform(0.1, 20))
        async with office(outside=outside, price_s=random.uniform(0, 3), park_after_ms=park_after_ms) as engine:
            run = engine.start()
            for _ in range(20):
                await asyncio.sleep(random.uniform(0.1, 6))
                stored = engine.journal.of(run.key)
                commands = [(each.command, each.at_us) for each in stored.commands]
                recorded = replay(engine.definition.program, commands)
                if looks and not has_ended(recorded):
                    instance = await engine.runtime.read(run.key)
                    assert instance is not None
                    assert instance.snapshot() == recorded.snapshot()
                seen.append(without_keys(recorded))
            assert stored.end == "completed"
        return seen

    never = simulate(lambda: life(86_400_000, looks=False))
    assert simulate(lambda: life(0, looks=False)) == never
    assert simulate(lambda: life(0, looks=True)) == never
    assert simulate(lambda: life(1_000, looks=True)) == never


def without_keys(instance: Any) -> tuple[Any, ...]:
    """What an instance is, but for the keys: loading takes a moment, in which keys grow."""
    activities = [(each.element_id, each.state) for each in instance.open_activities]
    timers = [timer.element_id for timer in instance.open_timers]
    return instance.state, instance.variables, activities, timers, [job.element_id for job in instance.open_jobs]


# --- handing on -------------------------------------------------------------------------------------------------


def test_a_drain_hands_waiting_instances_on_and_the_next_engine_tells_everybody_again() -> None:
    async def main() -> None:
        disk = Disk()
        async with office(disk, outside=Outside(job_s=60, message_s=60)) as first:
            run = first.start()
            await asyncio.sleep(10)
            await first.runtime.drain(30)
            assert seconds() < 11
            assert first.runtime.left_open == 1
            assert first.runtime.active == 0
            with pytest.raises(Rejected, match="DRAINING"):
                await run.result()
            with pytest.raises(Rejected, match="DRAINING"):
                first.start()
            assert await first.code_of_telling(run.key, VariablesSet, run.key, {"n": 1}) == Code.DRAINING
        disk.processes[1].leased_until_s = 0  # given back
        async with office(disk, epoch=2) as second:
            await asyncio.sleep(AWAY_S)
            assert [what for what, _ in second.outside.heard][:2] == ["offered pack", "subscribed paid"]
            assert disk.instances()[run.key].end == "completed"
            assert second.runtime.left_open == 0

    simulate(main)


def test_a_drain_lets_a_job_that_runs_here_finish() -> None:
    async def main() -> None:
        async with office(outside=idle(), price_s=5) as engine:
            run = engine.start()
            await asyncio.sleep(1)
            await engine.runtime.drain(30)
            assert seconds() == pytest.approx(5, abs=0.1)
            facts = engine.journal.of(run.key).facts
            assert "price" in [fact.element_id for fact in facts]

    simulate(main)


def test_a_job_that_runs_here_for_longer_than_the_drain_is_run_again_by_the_next_engine() -> None:
    async def main() -> None:
        disk = Disk()
        async with office(disk, outside=idle(), price_s=500) as first:
            run = first.start()
            await asyncio.sleep(1)
            await first.runtime.drain(2)
            assert first.script.calls == 1
        async with office(disk, epoch=2, price_s=1) as second:
            await asyncio.sleep(2 * AWAY_S)
            assert second.script.calls == 1
        assert disk.instances()[run.key].end == "completed"

    simulate(main)


def test_a_job_that_was_being_stopped_when_its_engine_died_is_answered_for_and_not_run_again() -> None:
    async def main() -> None:
        disk = Disk()
        async with office(disk, outside=idle(), price_s=60, stop_s=4) as first:
            run = first.start()
            await asyncio.sleep(1)
            await first.runtime.tell(run.key, Cancel, Code.CANCELLED, "not needed")
            assert disk.instances()[run.key].end is None
            first.runtime.abort()
        async with office(disk, epoch=2) as second:
            await asyncio.sleep(AWAY_S)
            assert second.script.calls == 0
        stored = disk.instances()[run.key]
        assert stored.end == "terminated"
        assert stored.is_what_its_commands_mean(second.definition.program)

    simulate(main)


def test_overdue_timers_of_adopted_instances_fire_once_in_the_order_of_their_instants() -> None:
    async def main() -> None:
        disk = Disk()
        diagram = Diagram("waits").start().wait("nap", "=duration(nap)").end().path("started", "nap", "ended")
        async with office(disk, diagram=diagram, outside=idle()) as first:
            naps = Random(1).sample(range(10, 60), 40)
            runs = {first.start(nap=f"PT{nap}S").key: nap for nap in naps}
            await asyncio.sleep(SOON_S)
            first.runtime.abort()
        async with office(disk, diagram=diagram, epoch=2, outside=idle()):
            await asyncio.sleep(3 * AWAY_S)
        ends = {key: stored.commands[-1].at_us for key, stored in disk.instances().items()}
        assert sorted(ends, key=lambda key: (ends[key], runs[key])) == sorted(runs, key=lambda key: runs[key])
        assert all(len(timers_fired(disk, key)) == 1 for key in runs)

    simulate(main)


def test_an_engine_adopts_from_one_that_was_taken_for_dead_and_that_one_stops() -> None:
    async def main() -> None:
        disk = Disk()

        keys = []

        async def zombie() -> None:
            async with office(disk, outside=Outside(job_s=90)) as first:
                run = first.start()
                keys.append(run.key)
                await asyncio.sleep(1)
                cut_off(first, True)
                await asyncio.sleep(AWAY_S)
                cut_off(first, False)
                with pytest.raises(Rejected, match="ABORTED"):
                    await run.result()
                await asyncio.sleep(AWAY_S)

        dying = asyncio.create_task(zombie())
        async with office(disk, epoch=2, outside=Outside(job_s=20)):
            with pytest.raises(ExceptionGroup, match="unhandled errors"):
                await dying
            await asyncio.sleep(AWAY_S)
        (key,) = keys
        stored = disk.instances()[key]
        assert stored.end == "completed"
        assert stored.kinds.count("instance_ended") == 1

    simulate(main)


def test_an_instance_of_a_faster_clock_goes_on_with_keys_of_its_own() -> None:
    async def main() -> None:
        disk = Disk()
        async with office(disk, outside=idle(), clock=lambda: now_us() + 3_600_000_000) as first:
            run = first.start()
            await asyncio.sleep(SOON_S)
            first.runtime.abort()
        async with office(disk, epoch=2) as second:
            await asyncio.sleep(3_600 + AWAY_S)  # its instants do not run backwards either
            assert second.runtime.left_open == 0
        stored = disk.instances()[run.key]
        assert stored.end == "completed"
        assert stored.is_what_its_commands_mean(second.definition.program)

    simulate(main)


def test_an_instance_that_a_fault_of_ours_has_lost_goes_on_from_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with office(outside=Outside(message_s=1, job_s=1)) as engine:
            run = engine.start()
            await run.started()
            roster = engine.runtime._roster
            withdraw, faults = roster.withdraw, [1]

            def fails_once(*args: Any) -> None:
                if faults:
                    faults.pop()
                    raise RuntimeError("a fault of ours")
                withdraw(*args)

            monkeypatch.setattr(roster, "withdraw", fails_once)
            await asyncio.sleep(AWAY_S)
            assert not faults
            assert engine.journal.of(run.key).end == "completed"
            assert engine.runtime.left_open == 0

    simulate(main)


def test_the_metrics_say_where_instances_are_what_was_taken_over_and_how_late_timers_were() -> None:
    async def main() -> None:
        disk = Disk()
        async with office(disk, outside=idle(), park_after_ms=3_600_000) as first:
            for _ in range(3):
                first.start()
            await asyncio.sleep(SOON_S)
            first.runtime.abort()
        telemetry = Telemetry()
        async with office(disk, epoch=2, outside=Outside(job_s=100), telemetry=telemetry):
            await asyncio.sleep(AWAY_S)

            def value(name: str, **labels: str) -> float | None:
                return telemetry.registry.get_sample_value(name, labels)

            assert value("conch_instances_adopted_total") == 3
            assert value("conch_operational_instances", place="parked") == 3
            assert value("conch_operational_instances", place="live") == 0
            assert value("conch_operational_instances", place="unreadable") == 0
            assert value("conch_timer_lateness_seconds_count") == 0
            await asyncio.sleep(2 * AWAY_S)
            assert value("conch_timer_lateness_seconds_count") == 3
            late_s = value("conch_timer_lateness_seconds_sum")
            assert late_s is not None
            assert late_s < 0.1

    simulate(main)


def test_more_instances_than_may_be_open_are_refused() -> None:
    async def main() -> None:
        async with office(outside=idle(), max_operational_instances=3, park_after_ms=0) as engine:
            for _ in range(3):
                engine.start()
            with pytest.raises(Rejected, match="max_operational_instances"):
                engine.start()

    simulate(main)


def test_waiting_instances_take_no_place_of_a_request() -> None:
    async def main() -> None:
        async with office(outside=idle(), max_instances=1, park_after_ms=3_600_000) as engine:
            for _ in range(5):
                engine.start()
            assert engine.runtime.active == 5
            call = InferenceCall(Operation.INFER, "chat", "", "")
            request_id = str(uuid.UUID(int=1))
            run = engine.runtime.submit(engine.definition, call, Tags(), {"id": "o1"}, request_id=request_id)
            assert not run.ended

    simulate(main)
