"""Events that come from outside or from within: messages, signals, timers, conditions, links, compensation."""

from __future__ import annotations

import pytest

from engine.bpmn.definition import ElementType, TimerKind, UserTask
from engine.bpmn.spiff import Program
from engine.errors import Rejected
from engine.records import (
    ActivityEnded,
    BpmnErrorThrown,
    EventReceived,
    IncidentRaised,
    InstanceEnded,
    JobCompleted,
    JobFailed,
)
from tests.builders import (
    EMPTY_REPORT,
    Diagram,
    compensation,
    conditional,
    each,
    error,
    expression,
    link,
    mappings,
    message,
    signal,
    timer,
)
from tests.driven import AT, Driven


def test_a_message_is_subscribed_to_by_name_and_key_and_brings_variables() -> None:
    diagram = Diagram().start().catch("paid", message("payment", "=order.id"), outputs=mappings({"sum": "=amount"}))
    run = Driven(diagram.end().path("started", "paid", "ended"), {"order": {"id": 17}}, online=False)
    (subscription,) = run.step.subscribe
    assert (subscription.kind, subscription.name, subscription.correlation_key) == ("message", "payment", "17")
    assert subscription.interrupting
    run.receive("paid", {"amount": 5})

    assert run.outcome.variables == {"order": {"id": 17}, "sum": 5}
    run.replayed()


def test_a_message_that_comes_twice_is_refused_the_second_time() -> None:
    diagram = Diagram().start().receive("await", message("m", '="k"')).task("after").end()
    run = Driven(diagram.path("started", "await", "after", "ended"), online=False)
    (subscription,) = run.instance.open_subscriptions
    run.receive("await")

    with pytest.raises(Rejected, match="STALE"):
        run.do(EventReceived(run.key, subscription.key, 2, {}))


def test_a_correlation_key_that_is_null_is_an_incident_and_resolves_once_the_variable_is_there() -> None:
    diagram = Diagram().start().catch("paid", message("payment", "=id")).end().path("started", "paid", "ended")
    run = Driven(diagram, online=False)
    (incident,) = run.instance.open_incidents
    assert "correlation key is null" in incident.message
    run.set({"id": "o1"})
    run.resolve()

    assert run.instance.open_subscriptions[0].correlation_key == "o1"
    run.replayed()


@pytest.mark.parametrize(
    ("key", "text"),
    [("123456789012345678901234567891", "123456789012345678901234567891"), ("7.50", "7.5"), ("1e20", f"1{'0' * 20}")],
)
def test_a_correlation_key_keeps_every_digit_of_a_number(key: str, text: str) -> None:
    diagram = Diagram().start().catch("paid", message("payment", f"={key}")).end().path("started", "paid", "ended")
    (subscription,) = Driven(diagram, online=False).instance.open_subscriptions
    assert subscription.correlation_key == text


def test_a_signal_is_thrown_to_the_shell_with_the_inputs_of_its_event() -> None:
    diagram = Diagram().start().throw("tell", signal("news"), inputs=mappings({"what": "=headline"}))
    run = Driven(diagram.end("told", event=signal('="more"')).path("started", "tell", "told"), {"headline": "hot"})

    assert [(thrown.name, dict(thrown.variables)) for thrown in run.step.broadcast] == [
        ("news", {"what": "hot"}),
        ("more", {}),
    ]


def test_a_message_throw_event_and_a_send_task_are_jobs() -> None:
    diagram = Diagram().start().throw("send", message("m"), topic="mail").end("last", event=message("n"))
    run = Driven(diagram.path("started", "send", "last"))
    assert run.job.topic == "mail"
    run.complete({"sent": True})
    run.complete()

    assert run.outcome[:2] == ("completed", "last")


def test_a_timer_of_less_than_a_second_is_exact() -> None:
    run = Driven(Diagram().start().wait("pause", "PT0.0005S").end().path("started", "pause", "ended"))

    assert run.instance.open_timers[0].due_at_us == AT + 500


def test_a_cycle_at_a_border_fires_beside_the_work_until_it_is_done() -> None:
    diagram = (
        Diagram().start().task("work").boundary("work", "tick", timer("R/PT1S", TimerKind.CYCLE), interrupting=False)
    )
    diagram.end().end("ticked").path("started", "work", "ended").path("tick", "ticked")
    run = Driven(diagram)
    for second in (1, 2, 3):
        assert run.instance.open_timers[0].due_at_us == AT + second * 1_000_000
        run.fire()
    run.done("work")

    assert run.path.count("tick:completed") == 3
    assert run.outcome.state == "completed"
    run.replayed()


def watching(condition: str, *, interrupting: bool = True) -> Diagram:
    diagram = Diagram().start().task("work").boundary("work", "hot", conditional(condition), interrupting=interrupting)
    return diagram.task("cool").end().end("e").path("started", "work", "ended").path("hot", "cool", "e")


def test_a_condition_is_looked_at_when_a_variable_that_it_reads_changes() -> None:
    run = Driven(watching("=heat > 5"), {"heat": 1}, online=False)
    run.set({"other": 9})
    run.set({"heat": 3})
    assert run.open == ["work"]
    run.set({"heat": 6})
    run.stopped("work")

    assert run.open == ["cool"]
    run.replayed()


def test_a_condition_that_holds_already_triggers_at_once() -> None:
    run = Driven(
        Diagram().start().catch("hot", conditional("=heat > 5")).end().path("started", "hot", "ended"), {"heat": 9}
    )

    assert run.outcome.state == "completed"


def test_a_non_interrupting_condition_triggers_on_every_change_that_meets_it() -> None:
    run = Driven(watching("=heat > 5", interrupting=False), {"heat": 1}, online=False)
    for heat in (6, 7, 2):
        run.set({"heat": heat})

    assert run.open == ["work", "cool", "cool"]


def test_a_condition_that_reads_a_variable_nobody_has_written_just_waits() -> None:
    diagram = Diagram().start().catch("hot", conditional("=heat > 5")).end().path("started", "hot", "ended")
    run = Driven(diagram, online=False)

    assert run.open == ["hot"]
    assert run.facts(IncidentRaised) == []


def test_a_link_goes_on_at_the_catch_event_of_its_name() -> None:
    diagram = Diagram().start().throw("leave", link("A")).catch("arrive", link("A")).end()
    run = Driven(diagram.path("started", "leave").path("arrive", "ended"))

    assert run.path == ["started:completed", "leave:completed", "arrive:completed", "ended:completed"]


# --- compensation -----------------------------------------------------------------------------------------------


def booked(reference: str | None = None) -> Driven:
    diagram = Diagram().start().task("hotel").task("flight").task("car").throw("undo", compensation(reference)).end()
    diagram.compensated_by("hotel", "cancel_hotel").compensated_by("flight", "cancel_flight")
    diagram.compensated_by("car", "cancel_car").path("started", "hotel", "flight", "undo", "ended")
    run = Driven(diagram)
    run.done("hotel")
    run.done("flight")
    return run


def test_compensation_starts_the_handlers_of_what_is_done_and_waits_for_all() -> None:
    run = booked()
    assert run.open == ["undo", "cancel_hotel", "cancel_flight"]
    run.done("cancel_flight")
    assert run.open == ["undo", "cancel_hotel"]
    run.done("cancel_hotel")

    assert run.outcome[:2] == ("completed", "ended")
    run.replayed()


def test_compensation_of_one_activity_leaves_the_others_alone() -> None:
    assert booked("flight").open == ["undo", "cancel_flight"]


def test_compensation_with_nothing_done_goes_on_at_once() -> None:
    diagram = Diagram().start().end("e", event=compensation()).path("started", "e")

    assert Driven(diagram).outcome[:2] == ("completed", "e")


def test_what_was_done_in_a_completed_sub_process_is_compensated_with_its_variables() -> None:
    diagram = Diagram().start().sub_process("trip", inputs=mappings({"booking": '="b1"'})).throw("undo", compensation())
    diagram.end().path("started", "trip", "undo", "ended")
    with diagram.inside("trip"):
        diagram.start("inner").task("hotel").end("e").compensated_by("hotel", "cancel").path("inner", "hotel", "e")
    run = Driven(diagram)
    run.done("hotel")

    assert run.job.element_id == "cancel"
    assert run.job.variables["booking"] == "b1"


def test_an_activity_that_was_done_twice_is_compensated_twice() -> None:
    diagram = (
        Diagram().start().task("work", outputs={"turns": "=turns + 1"}).gateway("again").throw("undo", compensation())
    )
    diagram.end().compensated_by("work", "unwork").path("started", "work", "again").path("undo", "ended")
    diagram.flow("again", "work", "=turns < 2").flow("again", "undo", default=True)
    run = Driven(diagram, {"turns": 0})
    run.done("work")
    run.done("work")

    assert run.open == ["undo", "unwork", "unwork"]


# --- tasks for people and scripts -------------------------------------------------------------------------------


def test_a_script_writes_what_its_expression_says() -> None:
    diagram = Diagram().start().script("sum", "=a + b", "total").end().path("started", "sum", "ended")

    assert Driven(diagram, {"a": 1, "b": 2}).outcome.variables["total"] == 3


def test_a_user_task_waits_for_its_completion_and_says_whose_it_is() -> None:
    task = UserTask(assignee=expression("=who"), candidate_groups=expression('=["a", "b"]'))
    diagram = Diagram().start().user_task("approve", task).end().path("started", "approve", "ended")
    run = Driven(diagram, {"who": "ada"}, online=False)
    assert run.job.topic == "io.camunda.zeebe:userTask"
    assert run.job.headers == {"io.camunda.zeebe:assignee": "ada", "io.camunda.zeebe:candidateGroups": "a,b"}
    run.complete({"approved": True})

    assert run.outcome.variables["approved"] is True


def test_an_online_instance_ends_where_a_person_would_be_needed() -> None:
    run = Driven(Diagram().start().user_task("approve").end().path("started", "approve", "ended"))

    assert run.outcome.error is not None
    assert run.outcome.error["code"] == "PERSON_NEEDED"


# --- multi-instance ---------------------------------------------------------------------------------------------


def mapped_over(*, sequential: bool = False, until: str | None = None) -> Diagram:
    loop = each("=items", "item", sequential=sequential, into="results", result="=answer", until=until)
    diagram = Diagram().start().task("work", loop=loop).task("after").end().path("started", "work", "after", "ended")
    return diagram.on_error("work", "border", "BROKEN").end("handled").path("border", "handled")


def test_parallel_items_run_at_once_and_their_outputs_keep_the_order_of_the_items() -> None:
    run = Driven(mapped_over(), {"items": ["a", "b", "c"]})
    jobs = run.step.start
    assert [(job.variables["item"], job.variables["loopCounter"]) for job in jobs] == [("a", 1), ("b", 2), ("c", 3)]
    for job in reversed(jobs):
        answer = str(job.variables["item"]).upper()
        run.do(JobCompleted(run.key, job.key, {"answer": answer}, EMPTY_REPORT))

    assert run.open == ["after"]
    assert run.instance.variables["results"] == ["A", "B", "C"]
    kinds = [(e.element_type, e.scope_key is None) for e in run.facts(ActivityEnded) if e.element_id == "work"]
    assert kinds == [("SERVICE_TASK", False)] * 3 + [("MULTI_INSTANCE_BODY", True)]
    run.replayed()


def test_sequential_items_run_one_after_the_other_null_items_included() -> None:
    run = Driven(mapped_over(sequential=True), {"items": [None, None]})
    run.complete({"answer": 1})
    assert run.job.variables["loopCounter"] == 2
    run.complete({"answer": 2})

    assert run.instance.variables["results"] == [1, 2]
    run.replayed()


def test_no_items_means_that_the_body_completes_with_an_empty_collection() -> None:
    run = Driven(mapped_over(), {"items": []})

    assert run.open == ["after"]
    assert run.instance.variables["results"] == []


def test_a_completion_condition_ends_the_items_that_still_run() -> None:
    run = Driven(mapped_over(until="=numberOfCompletedInstances >= 2"), {"items": [1, 2, 3, 4]})
    run.done("work", {"answer": 1})
    run.done("work", {"answer": 2})
    assert len(run.step.stop) == 2
    run.stopped("work")
    run.stopped("work")

    assert run.open == ["after"]
    assert run.instance.variables["results"] == [1, 2, None, None]
    run.replayed()


def test_an_error_of_one_item_ends_all_of_them_at_the_border_of_the_body() -> None:
    run = Driven(mapped_over(), {"items": [1, 2]})
    run.do(BpmnErrorThrown(run.key, run.step.start[0].key, "BROKEN", "it broke", {}, EMPTY_REPORT))
    run.stopped("work")

    assert run.outcome[:2] == ("completed", "handled")
    run.replayed()


def test_more_items_than_one_instant_has_keys_for_end_the_instance_with_its_limit() -> None:
    run = Driven(mapped_over(), {"items": [1] * 5_000}, online=False, max_activity_instances=100_000)
    while run.step.outcome is None:
        run.stopped("work")

    assert run.outcome.error is not None
    assert run.outcome.error["code"] == "LIMIT_EXCEEDED"
    assert "4000" in run.outcome.error["message"]


def test_what_is_no_list_is_an_incident_that_resolves_with_the_list() -> None:
    run = Driven(mapped_over(), {"items": 5}, online=False)
    assert "is a number, not a list" in run.instance.open_incidents[0].message
    run.set({"items": [1]})
    run.resolve()

    assert run.waiting == ["work"]


def test_a_sub_process_for_each_item_has_scopes_of_its_own() -> None:
    loop = each("=items", "item", into="out", result="=mine")
    diagram = Diagram().start().sub_process("each_item", loop=loop, inputs=mappings({"mine": "=null"})).end()
    diagram.path("started", "each_item", "ended")
    with diagram.inside("each_item"):
        diagram.start("inner").script("compute", "=item * 10", "mine").end("e").path("inner", "compute", "e")
    run = Driven(diagram, {"items": [1, 2, 3]})

    assert run.outcome.state == "completed"
    assert run.outcome.variables["out"] == [10, 20, 30]
    assert run.facts(InstanceEnded)[0].activities == len(run.facts(ActivityEnded))
    run.replayed()


def test_a_cycle_that_would_be_due_after_the_calendar_ends_has_fired_for_the_last_time() -> None:
    cycle = timer("R/P5000Y", TimerKind.CYCLE)
    diagram = Diagram().start().task("work").boundary("work", "again", cycle, interrupting=False).end().end("told")
    run = Driven(diagram.path("started", "work", "ended").path("again", "told"), online=False)
    run.fire("again")

    assert run.waiting == ["work"]
    run.replayed()


def test_a_condition_is_looked_at_when_a_failed_job_brings_a_variable_that_it_reads() -> None:
    diagram = Diagram().start().task("work").boundary("work", "hot", conditional("=heat > 1")).end().end("cooled")
    run = Driven(diagram.path("started", "work", "ended").path("hot", "cooled"), online=False)
    run.do(JobFailed(run.key, run.job.key, "TASK_FAULT", "hot", True, EMPTY_REPORT, 1, 10, {"heat": 2}))

    assert run.outcome.end_element_id == "cooled"
    run.replayed()


def test_a_throw_event_whose_handler_fails_ends_with_the_scope_that_the_error_interrupts() -> None:
    diagram = Diagram().start().task("book").compensated_by("book", "unbook").throw("undo", compensation()).end()
    with diagram.path("started", "book", "undo", "ended").event_sub_process("on_failure").inside("on_failure"):
        diagram.start("failed", error("A")).end("given_up").path("failed", "given_up")
    run = Driven(diagram)
    run.done("book")
    run.throw("A")

    assert run.path[2:4] == ["unbook:failed", "undo:terminated"]
    assert run.outcome.end_element_id == "given_up"
    run.replayed()


def test_a_handler_that_is_ended_at_its_own_border_is_done() -> None:
    diagram = Diagram().start().task("book").compensated_by("book", "unbook").throw("undo", compensation()).end()
    diagram.path("started", "book", "undo", "ended").on_error("unbook", "failed", "A").task("mend").end("mended")
    run = Driven(diagram.path("failed", "mend", "mended"))
    run.done("book")
    run.throw("A")
    assert run.waiting == ["mend"]
    assert "undo:completed" in run.path
    run.done("mend")

    assert run.outcome.state == "completed"
    run.replayed()


def test_outputs_of_a_start_event_choose_what_its_message_leaves_in_the_process() -> None:
    diagram = Diagram().node("ordered", ElementType.START_EVENT, event=message("order"), outputs=mappings({"y": "=x"}))
    run = Driven(diagram.task("work").end().path("ordered", "work", "ended"), {"x": 1}, start_event_id="ordered")

    assert run.instance.variables == {"y": 1}
    run.replayed()


def test_chance_differs_between_an_activity_and_what_is_armed_in_it() -> None:
    diagram = Diagram().start().sub_process("sub", inputs=mappings({"id": "=uuid()"})).end()
    with diagram.path("started", "sub", "ended").inside("sub"):
        diagram.start("began").task("work").end("done").path("began", "work", "done").event_sub_process("beside")
        with diagram.inside("beside"):
            diagram.start("told", message("m", "=uuid()"), interrupting=False).end("heard").path("told", "heard")
    run = Driven(diagram, online=False)
    (subscription,) = run.instance.open_subscriptions

    assert subscription.correlation_key != run.job.variables["id"]
    run.replayed()


def beside(diagram: Diagram, condition: str) -> Diagram:
    """The same with an event sub-process that counts how often a condition has triggered it."""
    with diagram.event_sub_process("beside").inside("beside"):
        diagram.start("met", conditional(condition), interrupting=False).end("seen").path("met", "seen")
    return diagram


def test_a_condition_does_not_see_the_variables_of_a_called_process() -> None:
    called = Diagram("called").start().task("work").end().path("started", "work", "ended")
    caller = Diagram().start().call("call", "called", all_out=False).end().path("started", "call", "ended")
    program = Program(beside(caller, "=x > 1").build(), {"call": Program(called.build())})
    run = Driven(program, {"x": 2}, online=False)
    assert run.path.count("met:completed") == 1
    run.set({"x": 3}, run.job.process_instance_key)
    run.done("work", {"x": 4})

    assert run.path.count("met:completed") == 1
    assert run.outcome.variables == {"x": 2}
    run.replayed()


def test_a_condition_is_not_looked_at_again_for_a_variable_that_hides_the_one_it_reads() -> None:
    diagram = Diagram().start().sub_process("sub", inputs=mappings({"x": "=5"})).end().path("started", "sub", "ended")
    with beside(diagram, "=x > 1").inside("sub"):
        diagram.start("began").task("work").task("after").end("done").path("began", "work", "after", "done")
    run = Driven(diagram, {"x": 2}, online=False)
    run.done("work", {"x": 6})
    assert run.path.count("met:completed") == 1
    run.set({"x": 3})

    assert run.path.count("met:completed") == 2
    run.replayed()
