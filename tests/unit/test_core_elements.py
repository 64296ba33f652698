"""Each element diagram is read, judged, linked and run to its end, with the answers that it needs."""

from __future__ import annotations

import pytest

from engine.bpmn import ElementType, check
from engine.bpmn.definition import EventKind
from engine.core import InstanceState
from engine.records import ActivityEnded
from tests.acts import Play
from tests.builders import Diagram, each
from tests.driven import Driven
from tests.element_plays import FOLDER, PLAYS, files_of, linked

CASES = [(name, play) for name, plays in PLAYS.items() for play in plays]
IDS = [f"{name}-{at}" if at else name for name, plays in PLAYS.items() for at in range(len(plays))]


def played(name: str, play: Play) -> Driven:
    link = linked(name)
    run = Driven(link.program, play.variables, online=False, calls=link.calls, definition=link.ref, **play.start)
    for act in play.acts:
        act(run)
        assert run.instance.fault is None, repr(run.instance.fault)
    return run


@pytest.mark.parametrize(("name", "play"), CASES, ids=IDS)
def test_an_element_takes_its_way_to_the_end(name: str, play: Play) -> None:
    for path in files_of(name):
        if path.suffix == ".bpmn":
            assert check(path.read_bytes(), path.name, None)[1] == []
    run = played(name, play)

    assert run.path == [step if ":" in step else f"{step}:completed" for step in play.path.split()]
    assert run.instance.state is InstanceState.COMPLETED
    assert run.outcome.error is None
    assert run.replayed().outcome is not None


def test_every_element_diagram_is_played() -> None:
    assert sorted(PLAYS) == sorted(path.stem for path in FOLDER.glob("*.bpmn"))


def test_every_type_of_element_and_every_event_has_been_reached() -> None:
    types, events = set[str](), set[EventKind | None]()
    caught, thrown, begun = set[EventKind | None](), set[EventKind | None](), set[EventKind | None]()
    for name, play in CASES:
        link = linked(name)
        for fact in played(name, play).facts(ActivityEnded):
            types.add(fact.element_type)
            if fact.process_id is not None:  # inside a called process
                continue
            kind = link.program.definition.nodes[fact.element_id].event_kind
            events.add(kind)
            if fact.element_type == ElementType.BOUNDARY_EVENT:
                caught.add(kind)
            elif fact.element_type in (ElementType.INTERMEDIATE_THROW_EVENT, ElementType.END_EVENT):
                thrown.add(kind)
            elif fact.element_type == ElementType.START_EVENT:
                begun.add(kind)
    assert types == {*ElementType}
    assert events == {*EventKind, None}
    # a compensation boundary event only ties the handler to the activity: no token is ever in it
    assert caught == {*EventKind} - {EventKind.LINK, EventKind.TERMINATE, EventKind.COMPENSATION}
    assert thrown >= {EventKind.ERROR, EventKind.ESCALATION, EventKind.SIGNAL, EventKind.MESSAGE, EventKind.LINK}
    assert thrown >= {EventKind.TERMINATE, EventKind.COMPENSATION, None}
    assert begun == {*EventKind} - {EventKind.LINK, EventKind.TERMINATE, EventKind.COMPENSATION} | {None}


@pytest.mark.parametrize("output", ["=result", "=result.value"])
def test_the_output_of_each_item_is_its_own_however_they_overlap(output: str) -> None:
    items = each("=[1, 2]", "item", into="results", result=output)
    diagram = Diagram().start().sub_process("for_each", loop=items).end().path("started", "for_each", "ended")
    with diagram.inside("for_each"):
        diagram.start("began").task("first").task("second").end("done").path("began", "first", "second", "done")
    run = Driven(diagram)
    for value in (1, 2):
        run.done("first", {"result": value if output == "=result" else {"value": value}})
    run.done("second")
    run.done("second")

    assert run.outcome.variables == {"results": [1, 2]}
    run.replayed()


def test_an_output_element_that_is_the_input_element_keeps_the_item() -> None:
    items = each("=[1, 2]", "item", into="results", result="=item")
    run = Driven(Diagram().start().task("work", loop=items).end().path("started", "work", "ended"))
    run.done("work", {"item": 7})
    run.done("work")

    assert run.outcome.variables == {"results": [7, 2]}
