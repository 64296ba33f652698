"""Splits and joins: what each gateway takes, waits for and reports."""

from __future__ import annotations

import pytest

from engine.bpmn.definition import ElementType
from engine.records import ActivityEnded, IncidentEnded, IncidentRaised
from tests.builders import Diagram, message, timer
from tests.driven import Driven

PARALLEL = ElementType.PARALLEL_GATEWAY
INCLUSIVE = ElementType.INCLUSIVE_GATEWAY
EVENT_BASED = ElementType.EVENT_BASED_GATEWAY


def fork_and_join(kind: ElementType = PARALLEL) -> Diagram:
    diagram = Diagram().start().gateway("fork", kind).task("a").task("b").gateway("join", kind).end()
    diagram.path("started", "fork").path("a", "join").path("b", "join", "ended")
    return diagram


def test_a_parallel_fork_starts_every_branch_in_document_order() -> None:
    run = Driven(fork_and_join().path("fork", "a").path("fork", "b"))

    assert [job.element_id for job in run.step.start] == ["a", "b"]


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_a_parallel_join_goes_on_once_when_the_last_branch_arrives(order: tuple[str, str]) -> None:
    run = Driven(fork_and_join().path("fork", "a").path("fork", "b"))
    run.done(order[0])
    assert run.open == [order[1]]
    run.done(order[1])

    assert run.outcome.state == "completed"
    assert run.path.count("join:completed") == 1
    assert run.path.count("ended:completed") == 1
    run.replayed()


def test_a_join_keeps_a_second_token_of_one_flow_for_the_next_time() -> None:
    diagram = Diagram().start().gateway("fork", PARALLEL).task("a").task("b").task("c").gateway("merge")
    diagram.gateway("join", PARALLEL).end().path("started", "fork").path("fork", "a", "merge")
    diagram.path("fork", "b", "merge", "join", "ended").path("fork", "c", "join")
    run = Driven(diagram, online=False)
    run.done("a")
    run.done("b")
    run.done("c")

    assert run.path.count("join:completed") == 1
    (incident,) = run.facts(IncidentRaised)
    assert (incident.error_code, incident.element_id) == ("JOIN_STUCK", "join")
    assert "`c_to_join`" in incident.message


def test_a_stuck_join_that_is_resolved_goes_on_without_the_missing_branch() -> None:
    diagram = fork_and_join().path("fork", "a").gateway("choice").end("elsewhere")
    diagram.path("fork", "choice").flow("choice", "b", "=false").flow("choice", "elsewhere", default=True)
    run = Driven(diagram, online=False)
    run.done("a")
    assert run.instance.open_incidents[0].element_id == "join"
    run.resolve()

    assert run.outcome.state == "completed"
    assert run.facts(IncidentEnded)[0].resolved
    run.replayed()


def test_an_online_instance_ends_with_the_incident_of_a_stuck_join() -> None:
    diagram = fork_and_join().path("fork", "a").gateway("choice").end("elsewhere")
    diagram.path("fork", "choice").flow("choice", "b", "=false").flow("choice", "elsewhere", default=True)
    run = Driven(diagram)
    run.done("a")

    assert run.outcome.state == "terminated"
    assert run.outcome.error is not None
    assert run.outcome.error["code"] == "JOIN_STUCK"


def test_a_join_with_a_branch_that_only_waits_is_not_reported() -> None:
    diagram = fork_and_join().path("fork", "a").wait("pause", "PT1H").path("fork", "pause", "b")
    run = Driven(diagram, online=False)
    run.done("a")

    assert run.facts(IncidentRaised) == []
    assert run.waiting == ["pause"]


def inclusive(*taken: str) -> Driven:
    diagram = Diagram().start().gateway("fork", INCLUSIVE).task("a").task("b").task("other")
    diagram.gateway("join", INCLUSIVE).task("after").end().path("started", "fork")
    for branch in ("a", "b"):
        diagram.flow("fork", branch, f'=list contains(taken, "{branch}")').path(branch, "join")
    diagram.flow("fork", "other", default=True).path("other", "join", "after", "ended")
    return Driven(diagram, {"taken": list(taken)})


@pytest.mark.parametrize("taken", [("a",), ("b",), ("a", "b")])
def test_an_inclusive_gateway_takes_every_flow_that_holds_and_its_join_waits_for_just_these(
    taken: tuple[str, ...],
) -> None:
    run = inclusive(*taken)
    assert run.open == list(taken)
    for branch in taken:
        assert "after" not in run.open
        run.done(branch)

    assert run.open == ["after"]
    run.replayed()


def test_an_inclusive_gateway_takes_the_default_flow_only_when_nothing_holds() -> None:
    assert inclusive().open == ["other"]
    assert inclusive("a").open == ["a"]


def test_an_inclusive_join_waits_for_a_token_that_can_still_come_through_other_elements() -> None:
    diagram = Diagram().start().gateway("fork", PARALLEL).task("a").task("far").gateway("choice").task("b")
    diagram.gateway("join", INCLUSIVE).end().end("elsewhere").path("started", "fork").path("fork", "a", "join", "ended")
    diagram.path("fork", "far", "choice").flow("choice", "b", "=near").flow("choice", "elsewhere", default=True)
    diagram.path("b", "join")
    run = Driven(diagram, {"near": False})
    run.done("a")
    assert "ended:completed" not in run.path
    run.done("far")

    assert run.path.count("join:completed") == 1
    assert run.outcome.state == "completed"


def test_two_inclusive_joins_that_wait_for_each_other_go_on() -> None:
    diagram = Diagram().start().gateway("fork", PARALLEL).task("a").task("b").gateway("one", INCLUSIVE)
    diagram.gateway("two", INCLUSIVE).gateway("left").gateway("right").end("e1").end("e2").path("started", "fork")
    diagram.path("fork", "a", "one", "left").path("fork", "b", "two", "right")
    diagram.flow("left", "two", "=false").flow("left", "e1", default=True)
    diagram.flow("right", "one", "=false").flow("right", "e2", default=True)
    run = Driven(diagram)
    run.done("a")
    run.done("b")

    assert run.outcome.state == "completed"


def test_several_flows_out_of_a_task_start_several_branches() -> None:
    diagram = Diagram().start().task("work").task("a").task("b").end("e1").end("e2")
    diagram.path("started", "work", "a", "e1").path("work", "b", "e2")
    run = Driven(diagram)
    run.done("work")

    assert run.open == ["a", "b"]
    run.done("b")
    run.done("a")
    assert run.outcome[:2] == ("completed", "e1")


def first_event() -> Driven:
    diagram = Diagram().start().gateway("wait", EVENT_BASED).catch("paid", message("payment", "=id"))
    diagram.catch("late", timer("PT1H")).end("e1").end("e2").path("started", "wait")
    diagram.path("wait", "paid", "e1").path("wait", "late", "e2")
    return Driven(diagram, {"id": "o1"}, online=False)


def test_an_event_based_gateway_goes_on_with_the_message_and_drops_the_timer() -> None:
    run = first_event()
    assert run.waiting == ["late", "paid"]
    run.receive("paid", {"amount": 5})

    assert run.outcome[:2] == ("completed", "e1")
    assert run.outcome.variables["amount"] == 5
    assert len(run.step.disarm) == 1
    assert [ended.taken_flow_ids for ended in run.facts(ActivityEnded) if ended.element_id == "wait"] == [
        ("wait_to_paid",)
    ]
    run.replayed()


def test_an_event_based_gateway_goes_on_with_the_timer_and_drops_the_message() -> None:
    run = first_event()
    run.fire("late")

    assert run.outcome[:2] == ("completed", "e2")
    assert len(run.step.unsubscribe) == 1


def test_an_inclusive_join_waits_for_a_token_that_has_a_choice_of_ways_to_it() -> None:
    diagram = Diagram().start().gateway("fork", ElementType.PARALLEL_GATEWAY).task("a").task("b").gateway("way")
    diagram.gateway("merge").gateway("join", ElementType.INCLUSIVE_GATEWAY).task("after").end()
    diagram.path("started", "fork", "a", "merge", "join", "after", "ended").path("fork", "b", "way")
    run = Driven(diagram.flow("way", "merge", "=long").flow("way", "join", default=True), {"long": False})
    run.done("a")
    assert run.open == ["b"]
    run.done("b")
    run.done("after")

    assert run.outcome.state == "completed"
    run.replayed()
