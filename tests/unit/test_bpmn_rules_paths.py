"""The rules that follow paths, over every element: what is reached, where paths stop, joins, and loops without end."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from engine.bpmn import TopicSpec, lint
from engine.bpmn.definition import ElementType, EventDefinition
from tests import builders
from tests.builders import Diagram
from tests.every_element import every_element

STYLE = {"empty-name"}


def found(diagram: Diagram, topics: Iterable[str] | None = None) -> list[tuple[str, str, str]]:
    """Rule, element and severity of every problem that is not about names."""
    specs = None if topics is None else {topic: TopicSpec(frozenset(), frozenset(), frozenset()) for topic in topics}
    problems = lint(diagram.build(), specs)
    return [(each.rule, each.element_id, each.severity) for each in problems if each.rule not in STYLE]


def test_every_element_at_once_breaks_no_rule() -> None:
    assert found(every_element()) == []


# --- what is reached --------------------------------------------------------------------------------------------


def test_a_sub_process_that_nothing_leads_to_is_told_once_without_its_content() -> None:
    diagram = Diagram().start().end().path("started", "ended").sub_process("lost")
    with diagram.inside("lost"):
        diagram.start("inner").end("inner_end").path("inner", "inner_end")
    assert found(diagram) == [("unreachable", "lost", "error"), ("dead-end", "lost", "warning")]


def test_an_element_without_connection_inside_a_sub_process_is_found() -> None:
    diagram = Diagram().start().sub_process("outer").end().path("started", "outer", "ended")
    with diagram.inside("outer"):
        diagram.start("inner").end("inner_end").path("inner", "inner_end").task("forgotten")
    assert ("unreachable", "forgotten", "error") in found(diagram)


def test_a_handler_of_compensation_and_the_end_of_a_link_are_reached() -> None:
    diagram = Diagram().start().task("book").compensated_by("book", "cancel")
    diagram.throw("to_there", builders.link("there")).catch("from_there", builders.link("there")).end()
    diagram.path("started", "book", "to_there").path("from_there", "ended")
    assert found(diagram) == []


def test_a_link_leads_only_to_its_end_in_the_same_scope() -> None:
    diagram = Diagram().start().sub_process("outer").end().path("started", "outer", "ended")
    diagram.catch("from_there", builders.link("there")).path("from_there", "ended")
    with diagram.inside("outer"):
        diagram.start("inner").throw("to_there", builders.link("there")).path("inner", "to_there")
    assert found(diagram) == [("unreachable", "from_there", "error")]


def test_event_sub_processes_of_every_scope_are_reached() -> None:
    diagram = Diagram().start().sub_process("outer").end().path("started", "outer", "ended")
    with diagram.inside("outer"):
        diagram.start("inner").end("inner_end").path("inner", "inner_end").event_sub_process("reaction")
    with diagram.inside("reaction"):
        diagram.start("told", builders.signal("news")).end("done").path("told", "done")
    assert found(diagram) == []


def test_a_process_that_only_messages_start_is_reached_from_each_of_them() -> None:
    diagram = Diagram().start("asked", builders.message("ask")).start("told", builders.message("tell")).end()
    assert found(diagram.path("asked", "ended").path("told", "ended")) == []


def test_a_path_may_stop_without_an_end_event_as_in_camunda_but_is_warned_about() -> None:
    assert found(Diagram().start().task("work").path("started", "work")) == [("dead-end", "work", "warning")]


# --- joins ------------------------------------------------------------------------------------------------------


def split_and_joined(split: ElementType) -> Diagram:
    diagram = Diagram().start().gateway("split", split).task("left").task("right").end()
    diagram.gateway("join", ElementType.PARALLEL_GATEWAY).path("started", "split", "right", "join", "ended")
    return diagram.path("left", "join")


def test_a_parallel_join_of_alternatives_never_completes() -> None:
    diagram = split_and_joined(ElementType.EXCLUSIVE_GATEWAY).flow("split", "left", "=true")
    assert ("join-never-completes", "join", "warning") in found(diagram)


@pytest.mark.parametrize("split", [ElementType.PARALLEL_GATEWAY, ElementType.INCLUSIVE_GATEWAY, ElementType.TASK])
def test_a_parallel_join_after_a_real_split_is_fine(split: ElementType) -> None:
    rules = {rule for rule, _, _ in found(split_and_joined(split).flow("split", "left"))}
    assert "join-never-completes" not in rules


def test_a_non_interrupting_event_makes_a_second_token() -> None:
    diagram = Diagram().start().task("work").gateway("join", ElementType.PARALLEL_GATEWAY).end()
    diagram.boundary("work", "slow", builders.timer("PT1S"), interrupting=False)
    assert found(diagram.path("started", "work", "join", "ended").path("slow", "join")) == []


def test_an_interrupting_event_does_not() -> None:
    diagram = Diagram().start().task("work").gateway("join", ElementType.PARALLEL_GATEWAY).end()
    diagram.on_timer("work", "slow", "PT1S").path("started", "work", "join", "ended").path("slow", "join")
    assert found(diagram) == [("join-never-completes", "join", "warning")]


def test_a_split_outside_a_sub_process_does_not_feed_a_join_inside() -> None:
    diagram = Diagram().start().gateway("both", ElementType.PARALLEL_GATEWAY).task("beside").end()
    diagram.sub_process("outer").path("started", "both", "outer", "ended").path("both", "beside", "ended")
    with diagram.inside("outer"):
        diagram.start("inner").gateway("split").gateway("join", ElementType.PARALLEL_GATEWAY).end("inner_end")
        diagram.path("inner", "split").flow("split", "join", "=true").flow("split", "join", default=True, id="else")
        diagram.path("join", "inner_end")
    assert found(diagram) == [("join-never-completes", "join", "warning")]


def test_two_tokens_may_come_to_one_end_event() -> None:
    diagram = Diagram().start().task("work").end().path("started", "work", "ended")
    assert found(diagram.flow("work", "ended", id="beside")) == []


# --- loops ------------------------------------------------------------------------------------------------------


def loop_of(diagram: Diagram, *ids: str) -> Diagram:
    """start, and the elements in a circle without an exit."""
    diagram.start().gateway("enter").path("started", "enter", *ids)
    return diagram.path(ids[-1], "enter")


def endless(diagram: Diagram) -> bool:
    return "endless-loop" in {rule for rule, _, _ in found(diagram)}


@pytest.mark.parametrize(
    "event",
    [builders.timer("PT1S"), builders.message("go", "=key"), builders.signal("go"), builders.conditional("=ready")],
    ids=lambda event: event.kind,
)
def test_a_loop_that_waits_for_something_is_fine(event: EventDefinition) -> None:
    assert not endless(loop_of(Diagram().task("work").catch("wait", event), "work", "wait"))


def test_a_loop_that_waits_for_a_message_in_a_task_a_person_or_a_called_process_is_fine() -> None:
    assert not endless(loop_of(Diagram().receive("told", builders.message("go", "=key")), "told"))
    assert not endless(loop_of(Diagram().user_task("asked"), "asked"))
    assert not endless(loop_of(Diagram().call("called", "other"), "called"))


def test_a_loop_through_a_sub_process_that_waits_is_fine_and_through_another_is_endless() -> None:
    for waits in (True, False):
        diagram = loop_of(Diagram().sub_process("inner"), "inner")
        with diagram.inside("inner"):
            diagram.start("inner_started").end("inner_ended")
            diagram.wait("step", "PT1S") if waits else diagram.task("step")
            diagram.path("inner_started", "step", "inner_ended")
        assert endless(diagram) != waits


def test_a_loop_over_a_timeout_waits_and_one_over_an_error_does_not() -> None:
    timeout = Diagram().start().task("work").end().path("started", "work", "ended").on_timer("work", "late", "PT1S")
    assert not endless(timeout.path("late", "work"))
    error = Diagram().start().task("work").end().path("started", "work", "ended").on_error("work", "failed")
    assert endless(error.path("failed", "work"))


@pytest.mark.parametrize("kind", [ElementType.SERVICE_TASK, ElementType.SCRIPT_TASK, ElementType.SEND_TASK])
def test_a_loop_of_tasks_with_a_conditional_exit_is_fine_and_without_one_endless(kind: ElementType) -> None:
    for leaves in (True, False):
        diagram = Diagram().start().node("work", kind, topic="work").gateway("done").end()
        diagram.path("started", "work", "done").flow("done", "work", "=again")
        diagram.flow("done", "ended" if leaves else "work", default=True, id="else")
        assert endless(diagram) != leaves


def test_a_loop_without_work_cannot_change_its_condition() -> None:
    diagram = Diagram().start().node("nothing", ElementType.TASK).gateway("done").end()
    diagram.path("started", "nothing", "done").flow("done", "nothing", "=again").flow("done", "ended", default=True)
    assert endless(diagram)


def test_a_loop_over_a_parallel_split_is_endless() -> None:
    diagram = Diagram().start().task("work").gateway("both", ElementType.PARALLEL_GATEWAY).end()
    assert endless(diagram.path("started", "work", "both", "ended").flow("both", "work"))


def test_a_loop_over_links_is_seen() -> None:
    diagram = Diagram().start().gateway("enter").task("work").throw("back", builders.link("again"))
    diagram.catch("again", builders.link("again"))
    assert endless(diagram.path("started", "enter", "work", "back").path("again", "enter"))


def test_each_loop_is_told_by_itself_in_document_order() -> None:
    diagram = (
        Diagram().start().task("one").on_error("one", "one_failed").task("two").on_error("two", "two_failed").end()
    )
    diagram.path("started", "one", "two", "ended").path("one_failed", "one").path("two_failed", "two")
    messages = [each.message for each in lint(diagram.build(), None) if each.rule == "endless-loop"]
    assert ["`one`, `one_failed`" in messages[0], "`two`, `two_failed`" in messages[1]] == [True, True]
    assert len(messages) == 2


# --- retries and catches ----------------------------------------------------------------------------------------


def test_a_drawn_retry_beside_job_retries_is_refused_for_our_tasks_and_warned_about_for_workers() -> None:
    diagram = Diagram().start().task("work", retries=3).end().on_error("work", "failed").wait("back_off", "PT1S")
    diagram.path("started", "work", "ended").path("failed", "back_off", "work")
    assert ("two-owners-of-retry", "work", "error") in found(diagram, ["work"])
    assert ("two-owners-of-retry", "work", "warning") in found(diagram, [])


def test_an_error_is_caught_once_in_each_scope() -> None:
    diagram = Diagram().start().sub_process("outer").end().path("started", "outer", "ended")
    for scope in (None, "outer"):
        for name in ("first", "second")[: 1 if scope is None else 2]:
            diagram.event_sub_process(f"{scope}_{name}", parent=scope)
            with diagram.inside(f"{scope}_{name}"):
                start, end = f"{scope}_{name}_started", f"{scope}_{name}_ended"
                diagram.start(start, builders.error("X")).end(end).path(start, end)
    with diagram.inside("outer"):
        diagram.start("inner").end("inner_end").path("inner", "inner_end")
    assert found(diagram) == [("duplicate-error-catch", "outer_second_started", "error")]


def test_a_correlation_key_that_is_the_same_for_all_is_doubtful() -> None:
    diagram = Diagram().start().catch("told", builders.message("go", '="all"')).end().path("started", "told", "ended")
    assert found(diagram) == [("constant-correlation-key", "told", "warning")]


# --- names and conditions ---------------------------------------------------------------------------------------


def test_an_inclusive_split_needs_conditions_as_an_exclusive_one_does() -> None:
    diagram = Diagram().start().gateway("any", ElementType.INCLUSIVE_GATEWAY).task("one").task("two").end()
    diagram.path("started", "any", "one", "ended").path("any", "two", "ended")
    assert [rule for rule, _, _ in found(diagram)] == ["missing-condition", "missing-condition", "no-default-flow"]


def test_joins_parallel_gateways_and_plain_inner_ends_need_no_name() -> None:
    diagram = Diagram().start().sub_process("inner").gateway("both", ElementType.PARALLEL_GATEWAY, name="").end()
    diagram.path("started", "inner", "both", "ended").flow("both", "ended", id="beside")
    with diagram.inside("inner"):
        diagram.node("a", ElementType.START_EVENT, name="").node("b", ElementType.END_EVENT, name="").path("a", "b")
    assert lint(diagram.build(), None) == []


def test_ids_and_names_may_be_of_any_script() -> None:
    diagram = Diagram("процесс").start("开始").task("работа", name="Arbeit ✓ 作业").path("开始", "работа")
    (problem,) = lint(diagram.build(), None)
    assert (problem.element_id, problem.element_name) == ("работа", "Arbeit ✓ 作业")


def test_a_person_in_a_request_is_refused() -> None:
    diagram = Diagram().start().user_task("asked").end().path("started", "asked", "ended")
    assert lint(diagram.build(), {}) == []
    (problem,) = lint(diagram.build(), {}, serves_route=True)
    assert (problem.rule, problem.severity) == ("person-in-request", "error")
