"""What happens while an instance goes on is in its facts: failed tries, events, and what was written from outside."""

from __future__ import annotations

from typing import Any

from engine.meter import Meter
from engine.records import (
    Abort,
    ActivityEnded,
    AttemptMade,
    BpmnErrorThrown,
    EventTaken,
    IncidentRaised,
    InstanceEnded,
    JobFailed,
    JobReport,
    RetriesGiven,
    RetriesSet,
    SignalThrown,
    TryFailed,
    VariablesWritten,
)
from engine.run import Run
from engine.telemetry import Telemetry
from tests.builders import Diagram, each, mappings, message, signal
from tests.driven import AT, Driven

REPORT = JobReport(1, 2, 3)
BETWEEN = (TryFailed, EventTaken, SignalThrown, VariablesWritten, RetriesGiven)


def one_task(retries: int = 1) -> Diagram:
    return Diagram().start().task("work", retries=retries).end().path("started", "work", "ended")


def fail(run: Driven, **said: Any) -> None:
    run.do(JobFailed(run.key, run.job.key, "NO_PAPER", "the tray is empty", True, REPORT)._replace(**said))


def kinds(run: Driven) -> list[type[Any]]:
    return [type(record.body) for record in run.records if record.position > 0]


def test_a_job_that_was_done_at_the_second_try_says_what_became_of_the_first() -> None:
    run = Driven(one_task(retries=3), online=False)
    first = run.job
    fail(run, variables={"page": 7})
    (failure,) = run.facts(TryFailed)
    (timer,) = run.instance.open_timers
    assert failure[:6] == (first.activity_instance_key, "work", first.key, 1, 2, 3)
    assert (failure.try_no, failure.retries, failure.again_at_us) == (1, 2, timer.due_at_us)
    assert (failure.error_code, failure.message, failure.variables) == ("NO_PAPER", "the tray is empty", {"page": 7})
    run.fire()
    run.complete()

    work = run.facts(ActivityEnded)[1]
    assert (work.activity_instance_key, work.state) == (failure.activity_instance_key, "completed")
    assert work.job_key != failure.job_key
    assert len(run.facts(TryFailed)) == 1
    run.replayed()


def test_the_back_off_of_a_worker_is_the_instant_of_the_next_try() -> None:
    run = Driven(one_task(), online=False)
    fail(run, retries=5, back_off_ms=250)
    (failure,) = run.facts(TryFailed)
    assert (failure.retries, failure.again_at_us) == (5, AT + 250_000)


def test_a_try_after_which_none_is_left_comes_before_its_incident() -> None:
    for online in (True, False):
        run = Driven(one_task(), online=online)
        fail(run)
        (failure,) = run.facts(TryFailed)
        assert (failure.try_no, failure.retries, failure.again_at_us) == (1, 0, None)
        found = kinds(run)
        assert found.index(IncidentRaised) == found.index(TryFailed) + 1
        run.replayed()


def test_an_error_that_nothing_catches_is_a_failed_try_and_one_that_is_caught_is_not() -> None:
    run = Driven(one_task(retries=2), online=False)
    run.do(BpmnErrorThrown(run.key, run.job.key, "LOST", "no trace", {}, REPORT))
    (failure,) = run.facts(TryFailed)
    assert (failure.error_code, failure.message, failure.retries, failure.again_at_us) == ("LOST", "no trace", 2, None)

    diagram = one_task().on_error("work", "border", "LOST").end("handled").path("border", "handled")
    caught = Driven(diagram, online=False)
    caught.throw("LOST")
    assert caught.facts(TryFailed) == []
    assert caught.facts(ActivityEnded)[1].error_code == "LOST"


def test_a_job_that_fails_while_it_is_stopped_is_told_by_its_activity_alone() -> None:
    diagram = one_task().on_timer("work", "late", "PT1S").end("gave_up").path("late", "gave_up")
    run = Driven(diagram, online=False)
    run.fire("late")
    fail(run)
    assert run.facts(TryFailed) == []
    assert run.facts(ActivityEnded)[1][4] == "terminated"


def test_a_message_says_what_took_it_by_which_key_and_what_it_brought() -> None:
    run = Driven(
        Diagram().start().catch("paid", message("payment", "=order")).end().path("started", "paid", "ended"),
        {"order": 17},
        online=False,
    )
    (subscription,) = run.instance.open_subscriptions
    run.receive("paid", {"amount": 5})
    (event,) = run.facts(EventTaken)
    assert event[:5] == (subscription.activity_instance_key, "paid", "message", "payment", "17")
    assert event[5:] == (subscription.key, 1, {"amount": 5}, None, None)
    assert kinds(run).index(EventTaken) < len(kinds(run)) - 3
    run.replayed()


def test_an_event_that_starts_an_event_sub_process_is_told_at_its_scope() -> None:
    diagram = Diagram().start().sub_process("inner").end().path("started", "inner", "ended")
    with diagram.inside("inner"):
        diagram.start("inner_started").task("work").end("inner_ended").path("inner_started", "work", "inner_ended")
        diagram.event_sub_process("reaction")
    with diagram.inside("reaction"):
        diagram.start("alarmed", signal("alarm")).end("reacted").path("alarmed", "reacted")
    run = Driven(diagram, online=False)
    inner = next(each.key for each in run.instance.open_activities if each.element_id == "inner")
    run.receive("alarmed")
    (event,) = run.facts(EventTaken)
    assert (event.activity_instance_key, event.element_id, event.correlation_key) == (None, "alarmed", None)
    assert (event.scope_key, event.process_id) == (inner, None)


def test_a_signal_that_is_thrown_says_its_key_which_whoever_takes_it_says_too() -> None:
    diagram = Diagram().start().throw("tell", signal("news"), inputs=mappings({"what": "=headline"}))
    run = Driven(diagram.end().path("started", "tell", "ended"), {"headline": "rain"})
    (thrown,) = run.facts(SignalThrown)
    (broadcast,) = run.step.broadcast
    assert (thrown.element_id, thrown.name, thrown.event_key) == ("tell", "news", broadcast.key)
    assert thrown.variables == {"what": "rain"}
    assert thrown.activity_instance_key == run.facts(ActivityEnded)[1].activity_instance_key


def test_what_is_written_from_outside_says_where() -> None:
    diagram = Diagram().start().sub_process("inner").end().path("started", "inner", "ended")
    with diagram.inside("inner"):
        diagram.start("inner_started").task("work").end("inner_ended").path("inner_started", "work", "inner_ended")
    run = Driven(diagram, online=False)
    inner = next(each.key for each in run.instance.open_activities if each.element_id == "inner")
    run.set({"a": 1})
    run.set({"b": 2}, run.job.activity_instance_key, local=True)
    assert [tuple(each) for each in run.facts(VariablesWritten)] == [
        (None, None, {"a": 1}, False, None, None),
        (run.job.activity_instance_key, "work", {"b": 2}, True, inner, None),
    ]
    run.replayed()


def test_the_tries_that_a_person_gives_a_job_are_told() -> None:
    run = Driven(one_task(), online=False)
    job = run.job
    fail(run)
    run.do(RetriesSet(run.key, job.key, 4))
    assert run.facts(RetriesGiven) == [RetriesGiven(job.activity_instance_key, "work", job.key, 4, None, None)]


def test_the_items_of_a_multi_instance_say_which_they_are_and_nothing_else_does() -> None:
    diagram = Diagram().start().task("work", loop=each("=items")).end().path("started", "work", "ended")
    run = Driven(diagram, {"items": ["a", "b"]})
    run.done("work")
    run.done("work")
    assert [(ended.element_type, ended.loop_counter) for ended in run.facts(ActivityEnded)] == [
        ("START_EVENT", None),
        ("SERVICE_TASK", 1),
        ("SERVICE_TASK", 2),
        ("MULTI_INSTANCE_BODY", None),
        ("END_EVENT", None),
    ]


def test_an_activity_whose_owner_died_names_the_job_that_nobody_heard_of_again() -> None:
    run = Driven(one_task(retries=2), online=False)
    fail(run)
    run.fire()
    job = run.job
    run.do(Abort(run.key, "gone"))
    work = run.facts(ActivityEnded)[1]
    assert work[7:11] == (job.key, None, None, None)


def test_only_what_a_client_waited_for_was_answered() -> None:
    for online in (True, False):
        run = Driven(one_task(), online=online)
        run.complete()
        assert run.facts(InstanceEnded)[0].answered is online


def test_an_instance_that_an_older_engine_began_keeps_the_words_of_that_engine() -> None:
    diagram = Diagram().start().task("work", retries=2).throw("tell", signal("news")).catch("paid", message("p", "=1"))
    diagram.task("each", loop=each("=[1]")).end().path("started", "work", "tell", "paid", "each", "ended")
    run = Driven(diagram, online=False, engine_version="0.1.0")
    run.set({"a": 1})
    fail(run)
    run.fire()
    run.do(RetriesSet(run.key, run.job.key, 9))
    run.done("work")
    run.receive("paid")
    run.do(Abort(run.key, "gone"))

    assert [kind for kind in kinds(run) if kind in BETWEEN] == []
    item = next(ended for ended in run.facts(ActivityEnded) if ended.element_type == "SERVICE_TASK")
    assert (item.loop_counter, run.facts(ActivityEnded)[-2].job_key) == (None, None)
    assert run.facts(InstanceEnded)[0].answered
    run.replayed()


def test_the_new_facts_are_no_steps_attempts_or_incidents() -> None:
    run = Driven(one_task(retries=2), online=False)
    run.set({"a": 1})
    fail(run)
    run.fire()
    run.complete()
    end = run.facts(InstanceEnded)[0]
    assert (end.attempts, end.activities) == (len(run.facts(AttemptMade)), len(run.facts(ActivityEnded))) == (0, 3)

    telemetry = Telemetry()
    counted = Run(1, None, lambda key, code, message: None, 1.0)
    Meter(telemetry).count(counted, tuple(run.records))
    samples = [sample for metric in telemetry.registry.collect() for sample in metric.samples if sample.value]
    steps = [sample for sample in samples if sample.name == "conch_steps_total"]
    assert sorted(sample.labels["element"] for sample in steps) == ["ended", "started", "work"]
    assert [sample for sample in samples if "incident" in sample.name and "created" not in sample.name] == []
    assert counted.attempts == 0
