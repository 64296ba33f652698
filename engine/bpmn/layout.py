"""Owns the designer's layout: which shapes and lines a file draws, where, and what each one stands for.
Never draws anything and never judges whether the process runs.
Called by the picture.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from lxml import etree

from engine.bpmn.findings import name_of
from engine.bpmn.vocabulary import EVENT_DEFINITIONS
from engine.bpmn.xml import BPMN, BPMNDI, DC, DI, read_tree
from engine.errors import DefinitionInvalid, Problem

FURTHEST: Final = 100_000.0  # pixels from the origin; Camunda Modeler's canvas is far smaller


class Box(NamedTuple):
    x: float
    y: float
    width: float
    height: float

    @property
    def centre(self) -> Point:
        return Point(self.x + self.width / 2, self.y + self.height / 2)


class Point(NamedTuple):
    x: float
    y: float


class Shape(NamedTuple):
    element_id: str
    kind: str  # local name of the BPMN element: serviceTask, boundaryEvent, textAnnotation, ...
    name: str  # of a text annotation: its text
    event: str | None  # error, timer, ...; None for a plain event
    interrupting: bool
    box: Box
    label: Box | None


class Line(NamedTuple):
    element_id: str
    kind: str  # sequenceFlow, association, messageFlow, ...
    name: str
    is_default: bool
    points: tuple[Point, ...]  # at least two
    label: Box | None


class Layout(NamedTuple):
    name: str  # of the process
    shapes: tuple[Shape, ...]
    lines: tuple[Line, ...]


def read_layout(xml: bytes, resource_name: str) -> Layout:
    """Read what the file draws, in document order. Raises DefinitionInvalid for bad XML or a file without layout."""
    root = read_tree(xml, resource_name)
    elements = {element.get("id"): element for element in root.iter(f"{{{BPMN}}}*") if element.get("id")}
    defaults = {element.get("default") for element in elements.values() if element.get("default")}
    shapes: list[Shape] = []
    lines: list[Line] = []
    try:
        for drawn in root.iter(f"{{{BPMNDI}}}BPMNShape", f"{{{BPMNDI}}}BPMNEdge"):
            element = elements.get(drawn.get("bpmnElement"))
            if element is None:
                continue
            if etree.QName(drawn).localname == "BPMNShape":
                shapes.append(_shape(drawn, element))
            else:
                lines.append(_line(drawn, element, defaults))
    except ValueError as error:
        raise _invalid(resource_name, "invalid-layout", f"a place in the layout is no number: {error}") from None
    if not shapes:
        raise _invalid(resource_name, "no-layout", "the file does not say where its elements are drawn")
    process = next(root.iterfind(f"{{{BPMN}}}process"), None)
    name = "" if process is None else name_of(process) or process.get("id", "")
    return Layout(name, tuple(shapes), tuple(lines))


def _shape(drawn: etree._Element, element: etree._Element) -> Shape:
    kind = etree.QName(element).localname
    events = [EVENT_DEFINITIONS.get(etree.QName(child).localname) for child in element.iterfind(f"{{{BPMN}}}*")]
    name = name_of(element)
    if kind == "textAnnotation":
        name = " ".join((element.findtext(f"{{{BPMN}}}text") or "").split())
    return Shape(
        element_id=element.get("id"),
        kind=kind,
        name=name,
        event=next(filter(None, events), None),
        interrupting=element.get("cancelActivity", "true") in ("true", "1"),
        box=_box(drawn.find(f"{{{DC}}}Bounds")),
        label=_label(drawn),
    )


def _line(drawn: etree._Element, element: etree._Element, defaults: set[str]) -> Line:
    points = [Point(_number(each, "x"), _number(each, "y")) for each in drawn.iterfind(f"{{{DI}}}waypoint")]
    if len(points) < 2:
        raise ValueError(f"the line `{element.get('id')}` has {len(points)} waypoints")
    kind, is_default = etree.QName(element).localname, element.get("id") in defaults
    return Line(element.get("id"), kind, name_of(element), is_default, tuple(points), _label(drawn))


def _label(drawn: etree._Element) -> Box | None:
    bounds = drawn.find(f"{{{BPMNDI}}}BPMNLabel/{{{DC}}}Bounds")
    return None if bounds is None else _box(bounds)


def _box(bounds: etree._Element | None) -> Box:
    if bounds is None:
        raise ValueError("a shape has no bounds")
    x, y, width, height = (_number(bounds, key) for key in ("x", "y", "width", "height"))
    if width < 0 or height < 0:
        raise ValueError(f"{width:g} x {height:g}")
    return Box(x, y, width, height)


def _number(element: etree._Element, key: str) -> float:
    value = float(element.get(key, ""))
    if not math.isfinite(value) or abs(value) > FURTHEST:
        raise ValueError(f"{key}={value}")
    return value


def _invalid(resource_name: str, rule: str, message: str) -> DefinitionInvalid:
    remedy = "Open the file in Camunda Modeler, lay it out and save it."
    return DefinitionInvalid([Problem(resource_name, "", "", rule, message, remedy)])
