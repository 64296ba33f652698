"""Owns the designer's layout: which shapes and lines a file draws, where, and what each one stands for.
Never draws anything and never judges whether the process runs.
Called by the picture.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from lxml import etree

from engine.bpmn.findings import name_of
from engine.bpmn.xml import BPMN, BPMNDI, DC, DI, read_tree
from engine.errors import DefinitionInvalid, Problem

FURTHEST: Final = 100_000.0  # pixels from the origin; Camunda Modeler's canvas is far smaller
PLANE_GAP: Final = 64.0  # between the process and the content of each collapsed sub-process, drawn below it
PLANE_MARGIN: Final = 20.0

_TRUE: Final = ("true", "1")
_EVENT: Final = "EventDefinition"


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
    kind: str  # local name of the BPMN element, eventSubProcess, or plane: the content of a collapsed sub-process
    name: str  # of a text annotation: its text
    event: str | None  # error, timer, multiple, ...; None for a plain event
    interrupting: bool
    box: Box
    label: Box | None
    markers: tuple[str, ...] = ()  # of an activity: parallel, sequential, loop, compensation, ad-hoc, collapsed
    expanded: bool = False  # a sub-process that shows its content
    horizontal: bool = True  # a pool or lane whose name stands at its left


class Line(NamedTuple):
    element_id: str
    kind: str  # sequenceFlow, association, messageFlow, ...
    name: str
    is_default: bool
    points: tuple[Point, ...]  # at least two
    label: Box | None
    directed: bool = False  # an association with an arrow
    conditional: bool = False  # a sequence flow with a condition that leaves an activity


class Layout(NamedTuple):
    name: str  # of the process
    shapes: tuple[Shape, ...]
    lines: tuple[Line, ...]


def read_layout(xml: bytes, resource_name: str) -> Layout:
    """Read what the file draws, in document order. The content of each collapsed sub-process, which has a canvas of its
    own, comes below the rest. Raises DefinitionInvalid for bad XML or a file without layout."""
    root = read_tree(xml, resource_name)
    elements = {element.get("id"): element for element in root.iter(f"{{{BPMN}}}*") if element.get("id")}
    defaults = {element.get("default") for element in elements.values() if element.get("default")}
    planes: list[Layout] = []
    try:
        for plane in root.iter(f"{{{BPMNDI}}}BPMNPlane"):
            drawn = _plane(plane, elements, defaults)
            if drawn.shapes:
                planes.append(drawn)
    except ValueError as error:
        raise _invalid(resource_name, "invalid-layout", f"a place in the layout is no number: {error}") from None
    if not planes:
        raise _invalid(resource_name, "no-layout", "the file does not say where its elements are drawn")
    process = next(root.iterfind(f"{{{BPMN}}}process"), None)
    name = "" if process is None else name_of(process) or process.get("id", "")
    placed = list(_one_below_the_other(planes))
    shapes = tuple(shape for plane in placed for shape in plane.shapes)
    return Layout(name, shapes, tuple(line for plane in placed for line in plane.lines))


def _plane(plane: etree._Element, elements: Mapping[str, etree._Element], defaults: set[str]) -> Layout:
    shapes: list[Shape] = []
    lines: list[Line] = []
    for drawn in plane.iter(f"{{{BPMNDI}}}BPMNShape", f"{{{BPMNDI}}}BPMNEdge"):
        element = elements.get(drawn.get("bpmnElement"))
        if element is None:
            continue
        if etree.QName(drawn).localname == "BPMNShape":
            shapes.append(_shape(drawn, element, elements))
        else:
            lines.append(_line(drawn, element, elements, defaults))
    about = elements.get(plane.get("bpmnElement"))
    return Layout("" if about is None else name_of(about) or about.get("id", ""), tuple(shapes), tuple(lines))


def _one_below_the_other(planes: list[Layout]) -> Iterator[Layout]:
    first = extent(planes[0])
    bottom = first.y + first.height
    yield planes[0]
    for plane in planes[1:]:
        box = extent(plane)
        right, down = first.x + PLANE_MARGIN - box.x, bottom + PLANE_GAP - box.y
        frame = Box(first.x, box.y + down - PLANE_MARGIN, box.width + 2 * PLANE_MARGIN, box.height + 2 * PLANE_MARGIN)
        around = Shape("", "plane", plane.name, None, True, frame, None)
        shapes = tuple(
            shape._replace(box=_moved(shape.box, right, down), label=shape.label and _moved(shape.label, right, down))
            for shape in plane.shapes
        )
        lines = tuple(
            line._replace(
                points=tuple(Point(point.x + right, point.y + down) for point in line.points),
                label=line.label and _moved(line.label, right, down),
            )
            for line in plane.lines
        )
        bottom = frame.y + frame.height
        yield Layout(plane.name, (around, *shapes), lines)


def extent(layout: Layout) -> Box:
    """The smallest box around all that is drawn, labels included."""
    boxes = [box for shape in layout.shapes for box in (shape.box, shape.label) if box is not None]
    boxes += [line.label for line in layout.lines if line.label is not None]
    boxes += [Box(point.x, point.y, 0, 0) for line in layout.lines for point in line.points]
    left, top = min(box.x for box in boxes), min(box.y for box in boxes)
    right, bottom = max(box.x + box.width for box in boxes), max(box.y + box.height for box in boxes)
    return Box(left, top, right - left, bottom - top)


def _moved(box: Box, right: float, down: float) -> Box:
    return Box(box.x + right, box.y + down, box.width, box.height)


# --- shapes -----------------------------------------------------------------------------------------------------------


def _shape(drawn: etree._Element, element: etree._Element, elements: Mapping[str, etree._Element]) -> Shape:
    kind, name = etree.QName(element).localname, name_of(element)
    if kind == "textAnnotation":
        name = " ".join((element.findtext(f"{{{BPMN}}}text") or "").split())
    elif kind == "group":
        category = elements.get(element.get("categoryValueRef"))
        name = name or ("" if category is None else category.get("value", ""))
    elif kind == "subProcess" and element.get("triggeredByEvent") in _TRUE:
        kind = "eventSubProcess"
    flag = "isInterrupting" if kind == "startEvent" else "cancelActivity"
    expanded = drawn.get("isExpanded") in _TRUE
    return Shape(
        element_id=element.get("id"),
        kind=kind,
        name=name,
        event=_event(element),
        interrupting=element.get(flag, "true") in _TRUE,
        box=_box(drawn.find(f"{{{DC}}}Bounds")),
        label=_label(drawn),
        markers=tuple(_markers(element, kind, expanded)),
        expanded=expanded and (kind in _FRAMES or kind == "callActivity"),
        horizontal=drawn.get("isHorizontal", "true") in _TRUE,
    )


_FRAMES: Final = ("subProcess", "eventSubProcess", "transaction", "adHocSubProcess")


def _event(element: etree._Element) -> str | None:
    words = [etree.QName(child).localname for child in element.iterfind(f"{{{BPMN}}}*")]
    kinds = [word.removesuffix(_EVENT) for word in words if word.endswith(_EVENT) or word == "eventDefinitionRef"]
    if len(kinds) > 1:
        return "parallel-multiple" if element.get("parallelMultiple") in _TRUE else "multiple"
    return next(("compensation" if kind == "compensate" else kind for kind in kinds), None)


def _markers(element: etree._Element, kind: str, expanded: bool) -> Iterator[str]:
    several = element.find(f"{{{BPMN}}}multiInstanceLoopCharacteristics")
    if several is not None:
        yield "sequential" if several.get("isSequential") in _TRUE else "parallel"
    elif element.find(f"{{{BPMN}}}standardLoopCharacteristics") is not None:
        yield "loop"
    if element.get("isForCompensation") in _TRUE:
        yield "compensation"
    if kind == "adHocSubProcess":
        yield "ad-hoc"
    if kind == "callActivity" or (kind in _FRAMES and not expanded):
        yield "collapsed"


# --- lines ------------------------------------------------------------------------------------------------------------


def _line(
    drawn: etree._Element, element: etree._Element, elements: Mapping[str, etree._Element], defaults: set[str]
) -> Line:
    points = [Point(_number(each, "x"), _number(each, "y")) for each in drawn.iterfind(f"{{{DI}}}waypoint")]
    if len(points) < 2:
        raise ValueError(f"the line `{element.get('id')}` has {len(points)} waypoints")
    kind = etree.QName(element).localname
    source = elements.get(element.get("sourceRef", ""))
    from_gateway = source is not None and etree.QName(source).localname.endswith("Gateway")
    return Line(
        element_id=element.get("id"),
        kind=kind,
        name=name_of(element),
        is_default=element.get("id") in defaults,
        points=tuple(points),
        label=_label(drawn),
        directed=kind.startswith("data") or element.get("associationDirection", "None") != "None",
        conditional=not from_gateway and element.find(f"{{{BPMN}}}conditionExpression") is not None,
    )


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
