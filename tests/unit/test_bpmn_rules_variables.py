"""Variables through every scope: what is visible where, and silence after what nobody can tell."""

from __future__ import annotations

import pytest

from engine.bpmn import TopicSpec, lint
from engine.bpmn.definition import ElementType, UserTask
from tests import builders
from tests.builders import Diagram, each, expression
from tests.every_element import every_element

NOTHING: frozenset[str] = frozenset()
TOPICS = {
    "work": TopicSpec(NOTHING, NOTHING, frozenset({"answer"})),
    "needs": TopicSpec(frozenset({"question"}), frozenset({"question"}), NOTHING),
    "give_back": TopicSpec(NOTHING, NOTHING, NOTHING),
}


def unknown(diagram: Diagram) -> list[tuple[str, str]]:
    """Element and message of each variable that nothing produces."""
    problems = lint(diagram.build(), TOPICS)
    return [(p.element_id, p.message.partition(",")[0]) for p in problems if p.rule == "unknown-variable"]


def begun() -> Diagram:
    return Diagram().start().declares("items", "order")


def test_every_element_at_once_has_no_unknown_variable() -> None:
    assert unknown(every_element()) == []


def test_every_place_that_reads_a_variable_is_looked_at() -> None:
    diagram = begun().script("computed", "=a", "sum")
    diagram.catch("waited", builders.timer("=b")).catch("told", builders.message("=c", "=d"))
    diagram.user_task("asked", UserTask(assignee=expression("=e")), outputs=builders.mappings({"kept": "=whatever"}))
    diagram.task(
        "work", loop=each("=f", until="=g > numberOfCompletedInstances"), inputs={"x": "=h"}, outputs={"y": "=i"}
    )
    diagram.gateway("split").end().flow("split", "ended", "=j").flow("split", "ended", default=True, id="else")
    diagram.path("started", "computed", "waited", "asked", "work", "split")
    assert unknown(diagram) == [
        ("split_to_ended", "the condition reads `j`"),
        ("computed", "the script reads `a`"),
        ("waited", "the timer reads `b`"),
        ("told", "the message's name reads `c`"),
        ("told", "the correlation key reads `d`"),
        ("asked", "the assignee reads `e`"),
        ("work", "the input collection reads `f`"),
        ("work", "the input `x` reads `h`"),
        ("work", "the output `y` reads `i`"),
        ("work", "the completion condition reads `g`"),
    ]


def test_scripts_decisions_and_collections_produce_their_results() -> None:
    diagram = begun().script("computed", "=items", "sum").decide("decided", "price", "price")
    diagram.task("work", loop=each("=items", "item", into="answers", result="=answer + item + loopCounter"))
    diagram.script("last", "=sum + price + answers + answer", "total").end()
    assert unknown(diagram.path("started", "computed", "decided", "work", "last", "ended")) == []


def test_an_item_is_visible_inside_its_activity_and_nowhere_else() -> None:
    diagram = begun().sub_process("inner", loop=each("=items", "item")).script("after", "=item", "x").end()
    with diagram.inside("inner"):
        diagram.start("inner_started").script("inside", "=item + loopCounter", "y").end("inner_ended")
        diagram.path("inner_started", "inside", "inner_ended")
    assert unknown(diagram.path("started", "inner", "after", "ended")) == [("after", "the script reads `item`")]


def test_inputs_of_a_sub_process_are_visible_below_it_and_at_its_border() -> None:
    local = builders.mappings({"limit": "=order"})
    diagram = begun().sub_process("inner", inputs=local).script("after", "=limit", "x").end()
    diagram.on_timer("inner", "late", "=limit").path("late", "ended")
    with diagram.inside("inner"):
        diagram.start("inner_started").task("needs", inputs={"question": "=limit"}).end("inner_ended")
        diagram.path("inner_started", "needs", "inner_ended")
    assert unknown(diagram.path("started", "inner", "after", "ended")) == [("after", "the script reads `limit`")]


def test_with_output_mappings_results_stay_inside() -> None:
    diagram = begun().task("work", outputs={"kept": "=answer"}).script("after", "=answer + kept", "x").end()
    assert unknown(diagram.path("started", "work", "after", "ended")) == [("after", "the script reads `answer`")]


# --- silence ----------------------------------------------------------------------------------------------------

OPAQUE = {
    "job": lambda diagram: diagram.task("opaque"),
    "person": lambda diagram: diagram.user_task("opaque"),
    "call": lambda diagram: diagram.call("opaque", "other"),
    "message": lambda diagram: diagram.receive("opaque", builders.message("go", "=order")),
    "signal": lambda diagram: diagram.catch("opaque", builders.signal("go")),
    "thrown message": lambda diagram: diagram.throw("opaque", builders.message("go"), topic="send_it"),
}


@pytest.mark.parametrize("kind", OPAQUE)
def test_after_what_may_write_anything_nothing_is_told_and_before_it_everything(kind: str) -> None:
    diagram = OPAQUE[kind](begun().script("before", "=anything", "x")).script("after", "=anything", "y").end()
    diagram.path("started", "before", "opaque", "after", "ended")
    assert unknown(diagram) == [("before", "the script reads `anything`")]


def test_a_call_that_gives_nothing_back_is_not_opaque() -> None:
    diagram = begun().call("called", "other", all_out=False).script("after", "=anything", "x").end()
    assert unknown(diagram.path("started", "called", "after", "ended")) == [("after", "the script reads `anything`")]


def test_what_an_opaque_element_maps_is_known_and_what_it_reads_of_its_results_is_not_judged() -> None:
    diagram = begun().user_task("asked", outputs=builders.mappings({"approved": "=decision"}))
    diagram.script("after", "=approved", "x").script("typo", "=aproved", "y").end()
    diagram.path("started", "asked", "after", "typo", "ended")
    assert unknown(diagram) == [("typo", "the script reads `aproved`")]


def test_what_an_opaque_element_inside_a_sub_process_wrote_is_there_after_it() -> None:
    diagram = begun().sub_process("inner", outputs=builders.mappings({"z": "=anything"}))
    diagram.script("after", "=anything", "x").end()
    with diagram.inside("inner"):
        diagram.start("inner_started").user_task("asked").end("inner_ended")
        diagram.path("inner_started", "asked", "inner_ended")
    assert unknown(diagram.path("started", "inner", "after", "ended")) == []


def test_in_multi_instance_one_run_may_read_what_another_wrote() -> None:
    diagram = begun().sub_process("inner", loop=each("=items", sequential=True)).end()
    with diagram.inside("inner"):
        diagram.start("inner_started").script("first", "=anything", "x").user_task("asked").end("inner_ended")
        diagram.path("inner_started", "first", "asked", "inner_ended")
    assert unknown(diagram.path("started", "inner", "ended")) == []


def test_beside_what_may_write_anything_nothing_is_told() -> None:
    diagram = begun().gateway("both", ElementType.PARALLEL_GATEWAY).user_task("asked")
    diagram.script("beside", "=anything", "x").end().path("started", "both", "asked", "ended")
    assert unknown(diagram.path("both", "beside", "ended")) == []


def test_a_start_that_declares_nothing_may_bring_anything_unless_the_gateway_starts_it() -> None:
    definition = Diagram().start().script("read", "=anything", "x").end().path("started", "read", "ended").build()
    assert lint(definition, TOPICS) == []
    (problem,) = lint(definition, TOPICS, serves_route=True)
    assert (problem.rule, problem.severity) == ("unknown-variable", "warning")


def test_what_a_message_that_starts_the_process_brings_is_not_judged() -> None:
    diagram = Diagram().start("told", builders.message("go")).script("read", "=anything", "x").end()
    assert unknown(diagram.path("told", "read", "ended")) == []
