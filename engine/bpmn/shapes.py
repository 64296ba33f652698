"""Owns how each kind of BPMN shape is drawn: activities, events, gateways, data, pools, with their symbols and markers.
Never draws a connection or says what an instance did.
Called by the picture.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from engine.bpmn import glyphs, svg
from engine.bpmn.layout import Box, Point, Shape
from engine.bpmn.lettering import wrapped
from engine.bpmn.svg import LABEL_TEXT, LINE_HEIGHT, TASK_TEXT

# Of what stands at the upper left of a task: its symbol, and how it is inked.
_TASK_SYMBOLS: Final = {
    "userTask": (("person", "ink"),),
    "manualTask": (("hand", "ink"),),
    "scriptTask": (("scroll", "ink"),),
    "businessRuleTask": (("table-head", "solid"), ("table", "ink")),
    "sendTask": (("message", "solid"), ("message-flap", "flap")),
    "receiveTask": (("message", "ink"), ("message-flap", "ink")),
}
_DOUBLE: Final = ("boundaryEvent", "intermediateCatchEvent", "intermediateThrowEvent")
_THROWING: Final = ("intermediateThrowEvent", "endEvent")
_LINES_ONLY: Final = ("conditional",)  # symbols that are never filled
_GATEWAY_SYMBOLS: Final = {
    "exclusiveGateway": ("cross", 0.24),
    "parallelGateway": ("plus", 0.22),
    "complexGateway": ("asterisk", 0.22),
}
_MODELER_HEIGHT: Final = 80  # of a task in Camunda Modeler
_CONTAINERS: Final = ("participant", "lane", "plane")


def is_background(shape: Shape) -> bool:
    """Whether other shapes and lines lie upon this one."""
    return shape.expanded or shape.kind in _CONTAINERS


def is_frame(shape: Shape) -> bool:
    """Whether the shape only groups or comments, so that nothing ever happens to it."""
    return shape.kind in (*_CONTAINERS, "group", "textAnnotation")


def drawn(shape: Shape) -> Iterator[str]:
    """The shape by the kind of BPMN element that it stands for."""
    if shape.kind.endswith("Event"):
        yield from _event(shape)
    elif shape.kind.endswith("Gateway"):
        yield from _gateway(shape)
    elif shape.kind.startswith("data"):
        yield from _data(shape)
    elif shape.kind == "textAnnotation":
        yield from _annotation(shape)
    elif shape.kind in ("participant", "lane"):
        yield from _pool(shape)
    elif shape.kind in ("group", "plane"):
        yield svg.rectangle(shape.box, 10, "frame dashed")
        lines = wrapped(shape.name, shape.box.width - 12, LABEL_TEXT, 1)
        yield from svg.text_block(lines, shape.box.centre.x, shape.box.y + 11, LABEL_TEXT, "label")
    else:
        yield from _activity(shape)


# --- activities -------------------------------------------------------------------------------------------------------


def _activity(shape: Shape) -> Iterator[str]:
    box = shape.box
    border = {"callActivity": " thick", "eventSubProcess": " scattered"}.get(shape.kind, "")
    yield svg.rectangle(box, 9, f"body{border}")
    if shape.kind == "transaction":
        yield svg.rectangle(Box(box.x + 3, box.y + 3, max(box.width - 6, 0), max(box.height - 6, 0)), 7, "ink")
    if shape.kind == "serviceTask":
        yield svg.shape("solid", glyphs.gear(Point(box.x + 12, box.y + 12), 6.8))
        yield svg.shape("solid", glyphs.gear(Point(box.x + 20.8, box.y + 18), 4.4))
    for name, inked in _TASK_SYMBOLS.get(shape.kind, ()):
        yield svg.shape(inked, glyphs.symbol(name, Point(box.x + 15, box.y + 14), 8))
    if shape.expanded:
        lines = wrapped(shape.name, box.width - 12, TASK_TEXT, 1)
        yield from svg.text_block(lines, box.centre.x, box.y + 14, TASK_TEXT, "task")
    else:
        marked = 8 if shape.markers else 0
        lines = wrapped(shape.name, box.width - 12, TASK_TEXT, max(1, int((box.height - 2 * marked) / 16)))
        low = 5 if box.height < _MODELER_HEIGHT and not marked else 0  # out of the way of the symbol
        yield from svg.text_block(lines, box.centre.x, box.centre.y - marked / 2 + low, TASK_TEXT, "task")
    first = box.centre.x - 9 * (len(shape.markers) - 1)
    for number, marker in enumerate(shape.markers):
        place = Point(first + 18 * number, box.y + box.height - 10)
        yield svg.shape("ink strong", glyphs.symbol(marker, place, 6))


# --- events and gateways ----------------------------------------------------------------------------------------------


def _event(shape: Shape) -> Iterator[str]:
    centre, radius = shape.box.centre, shape.box.width / 2
    dashed = "" if shape.interrupting else " dashed"
    yield svg.circle(centre, radius, f"body rim{dashed}")
    if shape.kind in _DOUBLE:
        yield svg.circle(centre, radius - 3.2, f"ink{dashed}")
    if shape.event is not None:
        yield from _event_symbol(shape.event, centre, radius * 0.56, shape.kind in _THROWING)
    yield from _name_below(shape)


def _event_symbol(event: str, centre: Point, radius: float, thrown: bool) -> Iterator[str]:
    """Filled where the event is thrown, an outline where it is caught."""
    if event == "timer":
        yield svg.circle(centre, radius, "ink")
        yield svg.shape("ink", glyphs.clock(centre, radius))
    elif event == "terminate":
        yield svg.circle(centre, radius, "solid")
    elif event in glyphs.SYMBOLS:
        filled = thrown and event not in _LINES_ONLY
        yield svg.shape("solid" if filled else "ink", glyphs.symbol(event, centre, radius))
        if event == "message":
            yield svg.shape("flap" if filled else "ink", glyphs.symbol("message-flap", centre, radius))


def _gateway(shape: Shape) -> Iterator[str]:
    box, centre = shape.box, shape.box.centre
    corners = [
        Point(centre.x, box.y),
        Point(box.x + box.width, centre.y),
        Point(centre.x, box.y + box.height),
        Point(box.x, centre.y),
    ]
    yield svg.shape("body", glyphs.path(corners, closed=True))
    if shape.kind in _GATEWAY_SYMBOLS:
        name, size = _GATEWAY_SYMBOLS[shape.kind]
        yield svg.shape("ink heavy", glyphs.symbol(name, centre, box.height * size))
    elif shape.kind == "inclusiveGateway":
        yield svg.circle(centre, box.height * 0.23, "ink heavy")
    elif shape.kind == "eventBasedGateway":
        yield svg.circle(centre, box.height * 0.29, "ink")
        yield svg.circle(centre, box.height * 0.24, "ink")
        yield svg.shape("ink", glyphs.symbol("multiple", centre, box.height * 0.16))
    yield from _name_below(shape)


def _name_below(shape: Shape) -> Iterator[str]:
    if shape.name:
        below = Box(shape.box.centre.x - 45, shape.box.y + shape.box.height + 6, 90, 14)
        yield from svg.label(shape.name, shape.label or below)


# --- what only explains -----------------------------------------------------------------------------------------------


def _data(shape: Shape) -> Iterator[str]:
    box, is_store = shape.box, shape.kind.startswith("dataStore")
    data = glyphs.symbol("store" if is_store else "page", box.centre, box.height / 2, box.width / 2)
    yield svg.shape("body", data)
    yield from _name_below(shape)


def _annotation(shape: Shape) -> Iterator[str]:
    box = shape.box
    bracket = [
        Point(box.x + 10, box.y),
        Point(box.x, box.y),
        Point(box.x, box.y + box.height),
        Point(box.x + 10, box.y + box.height),
    ]
    yield svg.shape("frame", glyphs.path(bracket))
    lines = wrapped(shape.name, box.width - 10, LABEL_TEXT, max(1, int(box.height / (LABEL_TEXT * LINE_HEIGHT))))
    yield from svg.text_block(lines, box.x + 8, box.centre.y, LABEL_TEXT, "note")


def _pool(shape: Shape) -> Iterator[str]:
    box = shape.box
    yield svg.rectangle(box, 4, "frame")
    if not shape.name:
        return
    if shape.horizontal:
        lines = wrapped(shape.name, box.height - 12, TASK_TEXT, 1)
        if shape.kind == "participant":
            yield svg.shape("frame", glyphs.path([Point(box.x + 30, box.y), Point(box.x + 30, box.y + box.height)]))
        yield from (svg.text(line, box.x + 19, box.centre.y, "task", turned=-90) for line in lines)
    else:
        lines = wrapped(shape.name, box.width - 12, TASK_TEXT, 1)
        yield from (svg.text(line, box.centre.x, box.y + 19, "task") for line in lines)
