"""What an incident leaves open, and that what is tried again begins anew."""

from __future__ import annotations

from typing import Any

import pytest

from engine.bpmn.spiff import Program
from engine.errors import Rejected
from engine.records import Abort, RetriesSet
from tests.builders import Diagram, each, escalation, mappings, message, timer
from tests.driven import Driven

INPUT = {"x": "=x + 1"}


def failing_to_begin() -> list[Any]:
    """Activities whose inputs succeed and whose beginning then needs the variable `y`."""
    body = Diagram().sub_process("work", inputs=mappings(INPUT))
    with body.inside("work"):
        body.start("began").task("inner").end("done").path("began", "inner", "done").event_sub_process("beside")
        with body.inside("beside"):
            body.start("told", message("m", "=y"), interrupting=False).end("heard").path("told", "heard")
    late = Diagram().task("work", inputs=INPUT).boundary("work", "late", timer("=y")).end("gone").path("late", "gone")
    return [
        pytest.param(late, "PT1S", id="boundary event"),
        pytest.param(body, "key", id="event sub-process"),
        pytest.param(Diagram().receive("work", message("m", "=y"), inputs=mappings(INPUT)), "key", id="receive task"),
    ]


@pytest.mark.parametrize(("diagram", "y"), failing_to_begin())
def test_inputs_are_mapped_once_more_from_outside_when_a_beginning_is_tried_again(diagram: Diagram, y: str) -> None:
    run = Driven(diagram.start().end().path("started", "work", "ended"), {"x": 1}, online=False)
    for _ in range(2):
        run.resolve()
    run.set({"y": y})
    run.resolve()

    work = next(each for each in run.instance.open_activities if each.element_id == "work")
    assert run.instance.scopes[work.key] == {"x": 2}
    run.replayed()


def test_a_local_variable_that_a_person_set_stays_when_a_beginning_is_tried_again() -> None:
    diagram = Diagram().start().task("work", inputs={"z": "=x"}).boundary("work", "late", timer("=y")).end().end("gone")
    run = Driven(diagram.path("started", "work", "ended").path("late", "gone"), online=False)
    (work,) = run.instance.open_activities
    run.set({"y": "PT1S", "x": 5}, work.key, local=True)
    run.resolve()

    assert dict(run.job.variables) == {"x": 5, "y": "PT1S", "z": 5}
    run.replayed()


def test_a_called_process_that_has_ended_is_not_open_while_its_caller_has_an_incident() -> None:
    called = Diagram("called").start().end().path("started", "ended")
    caller = Diagram().start().call("call", "called", outputs=mappings({"y": "=function(x) x"})).end()
    run = Driven(
        Program(caller.path("started", "call", "ended").build(), {"call": Program(called.build())}), online=False
    )
    assert run.open == ["call"]
    assert list(run.instance.scopes) == [run.instance.key]
    run.do(Abort(run.key, "the owner is gone"))

    assert [each for each in run.path if each.startswith("called:")] == ["called:completed"]
    run.replayed()


def test_an_instance_that_cannot_begin_inside_a_scope_ends() -> None:
    diagram = Diagram().start().sub_process("sub", inputs=mappings({"x": "=function(x) x"})).end()
    with diagram.path("started", "sub", "ended").inside("sub"):
        diagram.start("began").task("first").task("second").end("done").path("began", "first", "second", "done")
    run = Driven(diagram, online=False, start_element_ids=("second", "second"))

    assert run.outcome.error is not None
    assert run.outcome.error["code"] == "EXPRESSION_FAILED"
    assert run.path == ["sub:terminated"]
    run.replayed()


@pytest.mark.parametrize("value", [None, 7])
def test_a_result_that_an_output_mapping_failed_at_is_a_variable_that_a_person_can_mend(value: int | None) -> None:
    diagram = Diagram().start().task("work", outputs={"sum": "=if amount = null then function(x) x else amount"}).end()
    run = Driven(diagram.path("started", "work", "ended"), online=False)
    run.done("work", {"amount": value})
    if value is None:
        (work,) = run.instance.open_activities
        assert run.instance.scopes[work.key] == {"amount": None}
        run.set({"amount": 7}, work.key, local=True)
        run.resolve()

    assert run.outcome.variables == {"sum": 7}
    run.replayed()


@pytest.mark.parametrize("kind", ["sub_process", "call_activity", "item", "event_sub_process"])
def test_outputs_that_failed_are_mapped_once_they_can_be(kind: str) -> None:
    fails = "=if ready then 1 else function(x) x"
    inner = Diagram("inner").start().task("work").end().path("started", "work", "ended")
    diagram = Diagram().start()
    if kind == "item":
        diagram.task("work", loop=each("=[1]"), outputs={"y": fails}).path("started", "work")
    elif kind == "call_activity":
        diagram.call("call", "inner", all_in=False, outputs=mappings({"y": fails})).path("started", "call")
    elif kind == "sub_process":
        diagram.sub_process("sub", outputs=mappings({"y": fails})).path("started", "sub")
        with diagram.inside("sub"):
            diagram.start("began").task("work").end("done").path("began", "work", "done")
    else:
        diagram.throw("tell", escalation("A")).path("started", "tell")
        with diagram.event_sub_process("told", outputs=mappings({"y": fails})).inside("told"):
            diagram.start("began", escalation("A")).task("work").end("done").path("began", "work", "done")
    run = Driven(Program(diagram.build(), {"call": Program(inner.build())}), {"ready": False}, online=False)
    run.done("work")
    run.resolve()
    run.set({"ready": True})
    run.resolve()

    assert run.outcome.state == "completed"
    run.replayed()


def test_the_key_of_a_try_that_is_over_sets_no_retries_once_the_next_try_runs() -> None:
    run = Driven(Diagram().start().task("work").end().path("started", "work", "ended"), online=False)
    first = run.job.key
    run.fail()
    run.do(RetriesSet(run.key, first, 2))
    run.resolve()

    with pytest.raises(Rejected, match="STALE"):
        run.do(RetriesSet(run.key, first, 5))
    assert run.job.retries == 2
