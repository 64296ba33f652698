"""What a process instance does with each command, seen from outside."""

from __future__ import annotations

import gc
import weakref
from decimal import Decimal
from typing import Any

import pytest

from engine.bpmn.definition import ElementType, TimerKind
from engine.bpmn.spiff import Program
from engine.core import InstanceState, ProcessInstance, derive_records, replay
from engine.core.due import FURTHEST_US
from engine.errors import Rejected
from engine.records import (
    Abort,
    ActivityEnded,
    Attempt,
    AttemptMade,
    BpmnErrorThrown,
    Cancel,
    Command,
    Decision,
    DecisionMade,
    IncidentRaised,
    InstanceEnded,
    InstanceStarted,
    JobCompleted,
    JobFailed,
    JobReport,
    JobStopped,
    TimerFired,
    Usage,
    UsageMeasured,
)
from tests.builders import EMPTY_REPORT, TERMINATE, Diagram, chain, conditional, each, message, start_command
from tests.driven import AT, Driven

SECOND = 1_000_000
PARTIAL = JobReport(
    AT, AT, AT, attempts=(Attempt("a", "p", "m", "1", "grpc", "cancelled", AT, AT, input_tokens=3, output_tokens=1),)
)


def one_task(**fields: Any) -> Diagram:
    return Diagram().start().task("work", **fields).end().path("started", "work", "ended")


def guarded() -> Diagram:
    """A task with a boundary event for BUSY, a catch-all and a deadline of five seconds."""
    diagram = one_task().on_error("work", "any").on_error("work", "busy", "BUSY").on_timer("work", "late", "PT5S")
    for event in ("any", "busy", "late"):
        diagram.end(f"{event}_end").path(event, f"{event}_end")
    return diagram


def test_an_instance_without_tasks_ends_within_its_start() -> None:
    run = Driven(Diagram().start().end().path("started", "ended"), {"a": 1})

    assert run.outcome[:3] == ("completed", "ended", None)
    assert run.outcome.variables == {"a": 1}
    assert run.path == ["started:completed", "ended:completed"]


def test_a_request_leaves_one_fact_per_element_and_per_measurement() -> None:
    attempt = Attempt("a", "p", "m", "1", "grpc", "ok", AT, AT)
    usage = Usage("tokens", Decimal(9), "Tokens", None, None, None, False, True, "m", "a")
    report = JobReport(1, 2, 3, (attempt,), (Decision("route", "a", "only one", {"load": 0.5}),), (usage,))
    run = Driven(one_task())
    run.complete({"x": 1}, report)

    kinds = [type(record.body) for record in run.records if record.position > 0]
    measured = [AttemptMade, DecisionMade, UsageMeasured]
    assert kinds == [InstanceStarted, ActivityEnded, *measured, ActivityEnded, ActivityEnded, InstanceEnded]
    assert [record.position for record in run.records if record.position > 0] == list(range(1, 9))
    assert [record.position for record in run.records if record.position < 0] == [-1, -2]
    assert run.facts(AttemptMade)[0].attempt_no == run.facts(UsageMeasured)[0].attempt_no == 1
    assert run.facts(DecisionMade)[0].decision.details == {"load": Decimal("0.5")}
    work = run.facts(ActivityEnded)[1]
    assert (work.job_queued_at_us, work.job_started_at_us, work.job_finished_at_us) == (1, 2, 3)
    assert work.variables == {"x": 1}
    assert work.taken_flow_ids == ("work_to_ended",)
    assert run.facts(InstanceEnded)[0][6:8] == (1, 3)


def test_keys_are_minted_upwards_from_the_command() -> None:
    run = Driven(one_task())
    assert (run.instance.key, run.job.activity_instance_key, run.job.key, run.step.next_key) == (1000, 1002, 1003, 1004)
    run.do(JobCompleted(5000, run.job.key, {}, EMPTY_REPORT))

    assert run.facts(ActivityEnded)[-1].activity_instance_key == 5000
    assert run.step.next_key == 5001


def test_a_command_whose_key_is_used_is_refused() -> None:
    run = Driven(one_task())
    with pytest.raises(Rejected, match="INVALID_ARGUMENT"):
        run.do(JobCompleted(run.job.key, run.job.key, {}, EMPTY_REPORT))


@pytest.mark.parametrize(
    ("code", "caught"), [("BUSY", "busy"), ("OTHER", "any")], ids=["the code's own event", "the catch-all"]
)
def test_exactly_one_boundary_event_catches(code: str, caught: str) -> None:
    run = Driven(guarded())
    step = run.throw(code, {"error": None, "attempts": 1})

    assert run.path == ["started:completed", "work:failed", f"{caught}:completed", f"{caught}_end:completed"]
    assert run.outcome.end_element_id == f"{caught}_end"
    assert run.outcome.variables == {"error": None, "attempts": 1}
    assert len(step.disarm) == 1
    failed, boundary = run.facts(ActivityEnded)[1:3]
    assert (failed.error_code, failed.message, failed.variables) == (code, "it broke", None)
    assert boundary.variables == {"error": None, "attempts": 1}


def test_two_boundary_events_of_one_code_fire_once() -> None:
    diagram = one_task().on_error("work", "first", "BUSY").on_error("work", "second", "BUSY")
    diagram.end("one").end("two").path("first", "one").path("second", "two")
    run = Driven(diagram)
    run.throw("BUSY")

    assert run.outcome.end_element_id == "one"
    assert "second:completed" not in run.path


def test_an_error_that_nothing_catches_is_an_incident() -> None:
    run = Driven(one_task())
    run.throw("BUSY")

    (incident,) = run.facts(IncidentRaised)
    assert (incident.error_code, incident.element_id) == ("UNHANDLED_BPMN_ERROR", "work")
    assert run.outcome.state == "terminated"
    assert run.outcome.incident_key == incident.incident_key
    assert run.outcome.error is not None
    assert run.outcome.error["code"] == "UNHANDLED_BPMN_ERROR"
    assert run.path == ["started:completed", "work:failed"]


def test_an_error_end_event_is_an_incident_too() -> None:
    run = Driven(Diagram().start().end("broken", error_code="BROKEN").path("started", "broken"))

    assert run.facts(IncidentRaised)[0].error_code == "UNHANDLED_BPMN_ERROR"
    assert run.outcome.state == "terminated"


def test_an_offline_instance_waits_for_a_person_and_can_be_cancelled() -> None:
    run = Driven(one_task(), online=False)
    run.throw("BUSY")
    assert run.step.outcome is None
    assert run.instance.state is InstanceState.ACTIVE
    assert run.facts(IncidentRaised)
    run.do(Cancel(run.key, "CANCELLED", "by hand"))

    assert run.outcome.state == "terminated"
    assert run.path == ["started:completed", "work:terminated"]


def test_a_timer_stops_the_job_first_and_takes_its_path_when_the_job_has_stopped() -> None:
    run = Driven(guarded())
    job = run.job
    step = run.fire()
    assert step.stop == (job.key,)
    assert step.outcome is None
    assert run.path == ["started:completed"]
    run.at_us += 7
    run.do(JobStopped(run.key, job.key, PARTIAL))

    assert run.path == ["started:completed", "work:terminated", "late:completed", "late_end:completed"]
    assert run.facts(AttemptMade)[0].attempt == PARTIAL.attempts[0]
    late = run.facts(ActivityEnded)[2]
    assert late.ended_at_us - late.started_at_us == 7


@pytest.mark.parametrize(
    "racing",
    [
        lambda key, job: JobCompleted(key, job, {"x": 1}, PARTIAL),
        lambda key, job: BpmnErrorThrown(key, job, "BUSY", "", {"x": 1}, PARTIAL),
        lambda key, job: JobFailed(key, job, "TASK_FAULT", "", True, PARTIAL),
    ],
    ids=["completed", "thrown", "failed"],
)
def test_a_result_that_raced_with_the_stop_counts_as_stopped(racing: Any) -> None:
    run = Driven(guarded())
    job = run.job
    run.fire()
    run.do(racing(run.key, job.key))

    assert run.outcome.end_element_id == "late_end"
    assert run.outcome.variables == {}
    assert len(run.facts(AttemptMade)) == 1


def test_cancelling_waits_for_the_job_and_keeps_what_it_used() -> None:
    run = Driven(guarded(), {"error": None})
    job = run.job
    step = run.do(Cancel(run.key, "CLIENT_DISCONNECTED", "the client went away"))
    assert step.stop == (job.key,)
    assert len(step.disarm) == 1
    assert run.instance.state is InstanceState.TERMINATING
    run.do(JobStopped(run.key, job.key, PARTIAL))

    assert run.outcome.state == "terminated"
    assert run.outcome.error == {
        "code": "CLIENT_DISCONNECTED",
        "message": "the client went away",
        "retryable": False,
    }
    assert [type(record.body) for record in run.records[-4:]] == [JobStopped, AttemptMade, ActivityEnded, InstanceEnded]
    assert run.facts(ActivityEnded)[-1].error_code == "CLIENT_DISCONNECTED"


def test_cancelling_while_a_timer_already_stops_the_job_ends_the_instance() -> None:
    run = Driven(guarded())
    job = run.job
    run.fire()
    step = run.do(Cancel(run.key, "CANCELLED", ""))
    assert step.stop == ()
    run.do(JobStopped(run.key, job.key, EMPTY_REPORT))

    assert run.path == ["started:completed", "work:terminated"]
    assert run.outcome.state == "terminated"


def test_cancelling_an_instance_without_a_running_job_ends_it_at_once() -> None:
    run = Driven(Diagram().start().wait("pause", "PT1S").end().path("started", "pause", "ended"))
    step = run.do(Cancel(run.key, "CANCELLED", ""))

    assert run.outcome.state == "terminated"
    assert len(step.disarm) == 1
    assert run.path == ["started:completed", "pause:terminated"]


def test_abort_ends_at_once_because_nobody_can_report() -> None:
    run = Driven(guarded())
    step = run.do(Abort(run.key, "its owner died"))

    assert step.stop == ()
    assert run.outcome.state == "aborted"
    assert run.outcome.error is not None
    assert (run.outcome.error["code"], run.outcome.error["retryable"]) == ("ABORTED", True)
    assert run.facts(InstanceEnded)[0].state == "aborted"


def test_a_failed_job_is_started_again_after_a_back_off_until_its_retries_are_spent() -> None:
    run = Driven(one_task(retries=3))
    first = run.job
    waits = []
    for attempt in (1, 2):
        assert run.job.attempt == attempt
        (timer,) = run.fail().arm
        waits.append(timer.due_at_us - run.at_us)
        (job,) = run.fire().start
        assert job.activity_instance_key == first.activity_instance_key
        assert job.key != first.key
    run.fail()

    assert 50_000 <= waits[0] < 150_000
    assert 100_000 <= waits[1] < 300_000
    assert run.facts(IncidentRaised)[0].error_code == "NO_RETRIES_LEFT"
    assert run.outcome.state == "terminated"


def test_a_fault_that_no_retry_mends_is_an_incident_at_once() -> None:
    run = Driven(one_task(retries=3))
    run.fail(retryable=False)

    assert run.facts(IncidentRaised)[0].error_code == "TASK_FAULT"
    assert run.outcome.state == "terminated"


def test_a_deadline_during_the_back_off_takes_effect_at_once() -> None:
    diagram = one_task(retries=2).on_timer("work", "late", "PT0.01S").end("late_end").path("late", "late_end")
    run = Driven(diagram)
    late = run.instance.open_timers[0]
    run.fail()
    step = run.do(TimerFired(run.key, late.key))

    assert len(step.disarm) == 1
    assert run.outcome.end_element_id == "late_end"


def test_conditions_are_asked_in_document_order_and_the_default_last() -> None:
    asked: list[str] = []

    def says(name: str, answer: Any) -> Any:
        return lambda variables, context: (asked.append(name), answer)[1]

    diagram = Diagram().start().gateway("choice").end("a").end("b").end("c").path("started", "choice")
    diagram.flow("choice", "c", default=True)
    diagram.flow("choice", "a", says("a", False)).flow("choice", "b", says("b", True))
    run = Driven(diagram)

    assert asked == ["a", "b"]
    assert run.outcome.end_element_id == "b"
    assert run.facts(ActivityEnded)[1].taken_flow_ids == ("choice_to_b",)


def test_two_flows_between_the_same_elements_are_told_apart() -> None:
    diagram = Diagram().start().gateway("choice").end().path("started", "choice")
    diagram.flow("choice", "ended", "=false", id="no").flow("choice", "ended", "=true", id="yes")
    run = Driven(diagram)

    assert run.facts(ActivityEnded)[1].taken_flow_ids == ("yes",)


def test_a_condition_that_is_null_is_an_incident_and_never_the_default_flow() -> None:
    diagram = Diagram().start().gateway("choice").end("a").end("b").path("started", "choice")
    diagram.flow("choice", "a", "=missing > 3").flow("choice", "b", default=True)

    (incident,) = Driven(diagram).facts(IncidentRaised)
    assert incident.error_code == "CONDITION_FAILED"
    assert "`choice_to_a` is null" in incident.message
    assert "missing" in incident.message


@pytest.mark.parametrize(
    ("condition", "says"), [("=missing > 3", "missing"), ('="yes"', "string"), ("=false", "no condition")]
)
def test_a_gateway_without_a_way_out_is_an_incident(condition: str, says: str) -> None:
    diagram = Diagram().start().gateway("choice").end("a").path("started", "choice").flow("choice", "a", condition)
    run = Driven(diagram)

    (incident,) = run.facts(IncidentRaised)
    assert incident.error_code == "CONDITION_FAILED"
    assert says in incident.message
    assert run.path == ["started:completed", "choice:failed"]


def test_inputs_are_local_and_outputs_go_to_the_process() -> None:
    diagram = one_task(inputs={"n": "=total + 1", "m": "=n * 2", "text": "plain"}, outputs={"total": "=n + result"})
    run = Driven(diagram, {"total": 1})
    assert run.job.variables == {"total": 1, "n": 2, "m": 4, "text": "plain"}
    run.complete({"result": 40, "n": 2})

    assert run.outcome.variables == {"total": 42}
    assert run.facts(ActivityEnded)[1].variables == {"total": 42}


def test_results_without_outputs_go_to_the_nearest_scope_that_has_the_name() -> None:
    run = Driven(one_task(inputs={"n": "=1"}), {"total": 1})
    run.complete({"n": 5, "total": 2, "new": True})

    assert run.outcome.variables == {"total": 2, "new": True}
    assert run.facts(ActivityEnded)[1].variables == {"total": 2, "new": True}


def test_a_dotted_target_writes_into_an_object() -> None:
    run = Driven(one_task(outputs={"order.id": "=7", "order.state": "open"}), {"order": {"id": 1, "of": "me"}})
    run.complete()

    assert run.outcome.variables == {"order": {"id": 7, "of": "me", "state": "open"}}


def test_a_boundary_event_maps_its_outputs() -> None:
    diagram = one_task().on_timer("work", "late", "PT1S", outputs={"error": '={code: "LATE", message: "too late"}'})
    diagram.end("late_end").path("late", "late_end")
    run = Driven(diagram, {"error": None})
    job = run.job
    run.fire()
    run.do(JobStopped(run.key, job.key, EMPTY_REPORT))

    assert run.outcome.state == "completed"
    assert run.outcome.error == {"code": "LATE", "message": "too late", "retryable": False}
    assert run.facts(InstanceEnded)[0][1:4] == ("late_end", "LATE", "too late")


def test_the_outcome_s_error_is_the_process_variable() -> None:
    run = Driven(one_task())
    run.complete({"error": {"code": "NO_REPLICA", "message": "none", "retryable": True}})

    assert run.outcome.error == {"code": "NO_REPLICA", "message": "none", "retryable": True}


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        ("broken", "UNSPECIFIED", "broken"),
        ({"code": 7}, "7", ""),
        ([1], "UNSPECIFIED", "[1]"),
        (False, "UNSPECIFIED", "False"),
    ],
)
def test_whatever_a_diagram_calls_an_error_has_a_code_and_a_message(error: Any, code: str, message: str) -> None:
    run = Driven(one_task())
    run.complete({"error": error})

    assert run.outcome.error is not None
    assert {"code", "message", "retryable"} <= set(run.outcome.error)
    assert run.facts(InstanceEnded)[0][2:4] == (code, message)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), b"bytes", {1: 2}, {"a": [{"b": object()}]}])
def test_a_result_that_is_no_json_is_refused_and_changes_nothing(value: Any) -> None:
    run = Driven(one_task())
    before = run.instance.snapshot()
    with pytest.raises(Rejected, match="INVALID_ARGUMENT"):
        run.complete({"x": value})

    assert run.instance.snapshot() == before
    run.complete()


def test_variables_are_the_engine_s_own() -> None:
    mine: dict[str, Any] = {"list": [1, {"a": 0.1}]}
    run = Driven(one_task(), mine)
    mine["list"].append(2)
    run.job.variables["list"].append(3)
    run.job.variables["list"][1]["a"] = 4
    run.complete()

    assert run.outcome.variables == {"list": [1, {"a": Decimal("0.1")}]}


def test_timers_are_due_after_the_instant_of_their_command() -> None:
    diagram = Diagram().start().wait("pause", '=duration("PT0.25S") * 2').end().path("started", "pause", "ended")
    run = Driven(diagram)
    assert run.step.arm[0].due_at_us == AT + SECOND // 2
    run.fire()

    assert run.outcome.state == "completed"
    assert run.facts(ActivityEnded)[1].ended_at_us == AT + SECOND // 2


@pytest.mark.parametrize(
    ("value", "due_at_us"),
    [
        ("=deadline", 1_800_000_000_123_456),
        ("2027-01-15T08:00:00.123456Z", 1_800_000_000_123_456),
        ("2027-01-15T09:00:00+01:00", 1_800_000_000_000_000),
        ('=date and time("2027-01-15T08:00:00Z")', 1_800_000_000_000_000),
        ("2001-01-01T00:00:00Z", AT),
    ],
)
def test_a_date_timer_is_due_at_its_date_or_at_once(value: str, due_at_us: int) -> None:
    diagram = one_task().on_timer("work", "late", value, kind=TimerKind.DATE).end("e").path("late", "e")
    run = Driven(diagram, {"deadline": "2027-01-15T08:00:00.123456Z"})

    assert run.step.arm[0].due_at_us == due_at_us


@pytest.mark.parametrize("value", ["=missing", "tomorrow", '=duration("P1M")', "=5", "P1Y", "=date(2024,1,1)"])
def test_a_timer_without_an_instant_is_an_incident(value: str) -> None:
    run = Driven(Diagram().start().wait("pause", value).end().path("started", "pause", "ended"))

    assert run.facts(IncidentRaised)[0].error_code == "EXPRESSION_FAILED"
    assert "pause" in run.facts(IncidentRaised)[0].message


@pytest.mark.parametrize("online", [True, False])
def test_a_boundary_timer_without_an_instant_starts_no_job(online: bool) -> None:
    diagram = one_task().on_timer("work", "late", "=missing").end("late_end").path("late", "late_end")
    run = Driven(diagram, online=online)

    assert run.step.start == ()
    assert run.instance.open_jobs == ()
    assert (run.step.outcome is None) is not online


def test_chance_is_a_function_of_its_place() -> None:
    diagram = one_task(inputs={"a": "=random number()", "b": "=random number()", "id": "=uuid()"})
    first, second, other = (ProcessInstance(diagram.build()) for _ in range(3))
    definition = diagram.build()
    draws = [
        dict(instance.apply(start_command(definition, key=key), AT).start[0].variables)
        for instance, key in ((first, 1), (second, 1), (other, 2))
    ]

    assert draws[0] == draws[1]
    assert draws[0]["a"] != draws[0]["b"]
    assert draws[0]["a"] != draws[2]["a"]
    assert draws[0]["id"] != draws[2]["id"]
    assert 0 <= draws[0]["a"] < 1


def test_now_is_the_instant_of_the_command() -> None:
    run = Driven(one_task(inputs={"now": "=string(now())"}))

    assert str(run.job.variables["now"]).startswith("2023-11-14T22:13:20")


def test_instants_never_run_backwards() -> None:
    run = Driven(one_task())
    run.at_us = AT - 5
    run.complete()

    assert run.records[-1].at_us == AT
    assert run.facts(ActivityEnded)[1].ended_at_us == AT


def test_a_loop_ends_at_the_limit_of_activity_instances() -> None:
    diagram = Diagram().start().gateway("again").path("started", "again").flow("again", "again", "=true")
    run = Driven(diagram, online=False, max_activity_instances=50)

    assert run.outcome.state == "terminated"
    assert run.facts(IncidentRaised)[0].error_code == "LIMIT_EXCEEDED"
    assert len(run.facts(ActivityEnded)) == 51
    assert list(derive_records(run.definition, run.log)) == run.records


@pytest.mark.parametrize(
    "command",
    [
        JobCompleted(9000, 77, {}, EMPTY_REPORT),
        JobFailed(9000, 77, "X", "", True, EMPTY_REPORT),
        BpmnErrorThrown(9000, 77, "X", "", {}, EMPTY_REPORT),
        JobStopped(9000, 77, EMPTY_REPORT),
        TimerFired(9000, 77),
    ],
    ids=lambda command: type(command).__name__,
)
def test_a_command_for_something_that_is_not_open_is_stale_and_changes_nothing(command: Command) -> None:
    run = Driven(guarded())
    before = run.instance.snapshot()
    with pytest.raises(Rejected, match="STALE"):
        run.do(command)

    assert run.instance.snapshot() == before


def test_nothing_is_accepted_after_the_end_nor_a_second_start() -> None:
    run = Driven(one_task())
    with pytest.raises(Rejected, match="STALE"):
        run.do(start_command(run.definition, key=run.key))
    run.complete()
    for command in (Cancel(run.key, "CANCELLED", ""), Abort(run.key, ""), start_command(run.definition, key=run.key)):
        with pytest.raises(Rejected, match="STALE"):
            run.do(command)


def test_nothing_is_accepted_before_the_start() -> None:
    instance = ProcessInstance(one_task().build())
    with pytest.raises(Rejected, match="STALE"):
        instance.apply(Cancel(1, "CANCELLED", ""), AT)


def test_a_job_that_nobody_asked_to_stop_does_not_stop() -> None:
    run = Driven(one_task())
    with pytest.raises(Rejected, match="INVALID_ARGUMENT"):
        run.do(JobStopped(run.key, run.job.key, EMPTY_REPORT))


def test_a_start_for_another_definition_is_refused() -> None:
    instance = ProcessInstance(one_task().build())
    with pytest.raises(Rejected, match="INVALID_ARGUMENT"):
        instance.apply(start_command(chain(2).build()), AT)


def test_a_fault_of_the_engine_ends_this_instance_and_no_other() -> None:
    def breaks(variables: Any, context: Any) -> Any:
        raise ZeroDivisionError("secret")

    diagram = Diagram().start().task("work").gateway("choice").end()
    run = Driven(diagram.path("started", "work", "choice").flow("choice", "ended", breaks))
    run.complete()

    (incident,) = run.facts(IncidentRaised)
    assert incident.error_code == "ENGINE_FAULT"
    assert "secret" not in incident.message
    assert run.outcome.state == "terminated"
    assert run.outcome.incident_key == incident.incident_key
    assert run.path == ["started:completed", "work:completed", "choice:terminated"]
    assert isinstance(run.instance.fault, ZeroDivisionError)


def test_replay_and_derived_records_equal_the_live_ones() -> None:
    run = Driven(guarded(), {"x": 0.1})
    job = run.job
    run.fire()
    run.do(JobStopped(run.key, job.key, PARTIAL))

    assert replay(run.definition, run.log).snapshot() == run.instance.snapshot()
    assert derive_records(run.definition, run.log) == tuple(run.records)


def test_an_instance_that_ended_is_freed_without_the_garbage_collector() -> None:
    gc.collect()
    gc.disable()
    try:
        run = Driven(guarded())
        run.complete()
        course = run.instance._course
        execution = weakref.ref(course.execution)
        del run, course
        assert execution() is None
    finally:
        gc.enable()


def test_a_fault_of_the_engine_still_stops_what_its_command_had_asked_to_stop() -> None:
    def breaks(variables: Any, context: Any) -> Any:
        raise ZeroDivisionError

    diagram = Diagram().start().sub_process("sub").catch("done", conditional("=x")).gateway("choice").end()
    with diagram.path("started", "sub").path("started", "done", "choice").inside("sub"):
        diagram.start("began").task("work").receive("told", message("m", '="k"')).script("write", "=true", "x")
        diagram.end("stop", event=TERMINATE).path("began", "told", "write", "stop").path("began", "work")
    run = Driven(diagram.flow("choice", "ended", breaks))
    job = run.job
    run.receive("told")

    assert isinstance(run.instance.fault, ZeroDivisionError)
    assert run.step.stop == (job.key,)


@pytest.mark.parametrize("aborted", [False, True])
def test_an_instance_with_scopes_inside_is_freed_without_the_garbage_collector(aborted: bool) -> None:
    called = Diagram("called").start().task("in_call").end().path("started", "in_call", "ended")
    diagram = Diagram().start().sub_process("sub").call("call", "called").task("each", loop=each("=[1]", "item"))
    diagram.gateway("join", ElementType.PARALLEL_GATEWAY).task("beside").end()
    diagram.path("started", "sub", "call", "each", "join", "ended").path("started", "beside", "join")
    with diagram.inside("sub"):
        diagram.start("began").task("work").end("done").path("began", "work", "done")
    program = Program(diagram.build(), {"call": Program(called.build())})
    gc.collect()
    gc.disable()
    try:
        run = Driven(program)
        open_ = [weakref.ref(run.instance._course.execution)]
        for element_id in ("work", "in_call", "each", *(() if aborted else ("beside",))):
            open_ += [weakref.ref(activity) for activity in run.instance._course.open_activities()]
            run.done(element_id)
        if aborted:
            run.do(Abort(run.key, "the owner is gone"))
        assert run.step.outcome is not None
        del run
        assert [each() for each in open_ if each() is not None] == []
    finally:
        gc.enable()


@pytest.mark.parametrize("element_id", ["began", "work", "nowhere"])
def test_an_instance_begins_at_no_other_event_than_a_start_event_of_its_process(element_id: str) -> None:
    diagram = Diagram().start().sub_process("sub").end().path("started", "sub", "ended")
    with diagram.inside("sub"):
        diagram.start("began").task("work").end("done").path("began", "work", "done")

    with pytest.raises(Rejected, match=f"`{element_id}`"):
        Driven(diagram, start_event_id=element_id)


def test_a_back_off_is_never_negative_and_ends_with_the_calendar() -> None:
    run = Driven(one_task(retries=2), online=False)
    command = JobFailed(run.key, run.job.key, "BUSY", "later", True, EMPTY_REPORT, 1)
    with pytest.raises(Rejected, match="a back-off is 0 ms or more, not -1"):
        run.do(command._replace(back_off_ms=-1))
    run.do(command._replace(back_off_ms=10**18))

    assert [timer.due_at_us for timer in run.instance.open_timers] == [FURTHEST_US]
    run.replayed()


def test_an_instance_keeps_the_limits_of_expressions_that_it_was_started_with() -> None:
    counted = Diagram().start().script("sum", "= count(for i in 1..900 return i)", "n").end()
    diagram = counted.path("started", "sum", "ended")
    assert Driven(diagram, online=False).instance.variables == {"n": 900}
    run = Driven(diagram, online=False, feel_limits=(("max_list", 800),))
    assert run.instance.variables == {"n": None}
    run.replayed()


def test_a_start_with_limits_that_are_none_is_refused() -> None:
    limits = (("max_steps", 0), ("max_hops", 9), ("max_list", 5))
    with pytest.raises(Rejected, match="not limits of an evaluation: max_hops, max_steps"):
        Driven(one_task(), feel_limits=limits)
