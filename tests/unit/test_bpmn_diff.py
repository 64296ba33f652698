"""What a new version changes: every field that means something is told, and what means nothing is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.bpmn import parse
from engine.bpmn.diff import FieldChange, diff
from tests.builders import Diagram, each, message, timer

SHIPPED = (Path(__file__).parents[2] / "processes" / "inference-request.bpmn").read_bytes()
ELEMENTS = sorted((Path(__file__).parents[1] / "diagrams" / "elements").glob("*.bpmn"))


def base() -> Diagram:
    made = Diagram("p").start().task("ask", retries=1, inputs={"x": "=1"}, outputs={"y": "=x"})
    return made.gateway("enough").end().path("started", "ask", "enough").flow("enough", "ended", default=True)


def told(old: Diagram, new: Diagram) -> list[tuple[str, str, str, tuple[FieldChange, ...]]]:
    return [(change.what, change.kind, change.id, change.fields) for change in diff(old.build(), new.build())]


def test_the_same_meaning_is_no_change_whatever_the_layout() -> None:
    (old,) = parse(SHIPPED, "a.bpmn")
    (new,) = parse(SHIPPED.replace(b'<dc:Bounds x="', b'<dc:Bounds x="1'), "b.bpmn")
    assert old.content_hash != new.content_hash
    assert diff(old, new) == []


def test_elements_and_flows_that_come_and_go_are_told_with_what_they_mean() -> None:
    new = base().wait("pause", '=duration("PT1S")').path("ask", "pause")
    changes = {(what, kind, id): fields for what, kind, id, fields in told(base(), new)}
    assert set(changes) == {("added", "element", "pause"), ("added", "flow", "ask_to_pause")}
    assert FieldChange("event.timer.value", None, '=duration("PT1S")') in changes["added", "element", "pause"]
    assert FieldChange("target", None, "pause") in changes["added", "flow", "ask_to_pause"]
    assert {what for what, *_ in told(new, base())} == {"removed"}


def test_each_changed_value_is_told_before_and_after() -> None:
    new = Diagram("p").start().task("ask", retries=3, inputs={"x": "=2", "z": "constant"})
    new.gateway("enough").end().path("started", "ask", "enough").flow("enough", "ended", "=y > 1")
    assert told(base(), new) == [
        (
            *("changed", "element", "ask"),
            (
                FieldChange("retries", "1", "3"),
                FieldChange("inputs.x", "=1", "=2"),
                FieldChange("outputs.y", "=x", None),
                FieldChange("inputs.z", None, "constant"),
            ),
        ),
        ("changed", "element", "enough", (FieldChange("default_flow", "enough_to_ended", None),)),
        ("changed", "flow", "enough_to_ended", (FieldChange("condition", None, "=y > 1"),)),
    ]


def test_the_process_itself_and_what_elements_call_are_compared() -> None:
    old = Diagram("p", version_tag="v1").start().call("part", "a").end().path("started", "part", "ended")
    new = Diagram("p", version_tag="v2").start().call("part", "b", loop=each("=items", "item")).end()
    new.path("started", "part", "ended")
    changes = {id: fields for _, _, id, fields in told(old, new)}
    assert changes["p"] == (FieldChange("version_tag", "v1", "v2"),)
    assert FieldChange("called.process_id", "a", "b") in changes["part"]
    assert FieldChange("loop.input_collection", None, "=items") in changes["part"]


def test_events_are_compared_in_full() -> None:
    old = Diagram("p").start().catch("wait", message("paid", "=order")).end().path("started", "wait", "ended")
    new = Diagram("p").start().catch("wait", timer('=duration("PT1S")')).end().path("started", "wait", "ended")
    (change,) = diff(old.build(), new.build())
    assert FieldChange("event.kind", "MESSAGE", "TIMER") in change.fields
    assert FieldChange("event.correlation_key", "=order", None) in change.fields


@pytest.mark.parametrize("path", ELEMENTS, ids=lambda path: path.stem)
def test_every_element_can_be_compared_with_an_empty_process(path: Path) -> None:
    empty = Diagram("p").build()
    for definition in parse(path.read_bytes(), path.name):
        added = diff(empty, definition)
        assert {change.id for change in added if change.kind == "element"} == set(definition.nodes)
        assert diff(definition, definition) == []
