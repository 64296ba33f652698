"""Owns a plain layout for files that have none: elements in rows, sub-processes as frames around their content.
Never tries to be pretty: sequence flows are straight and may cross.
Called by the tests of the picture and of Camunda Modeler's doors.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from lxml import etree

from engine.bpmn.xml import BPMN, BPMNDI, DC, DI

COLUMNS = 9
ROW = 130.0
COLUMN = 140.0
INNER = 3  # columns inside a sub-process

Place = tuple[float, float, float, float]  # x, y, width, height


def laid_out(xml: str) -> bytes:
    """The file with a shape for each flow node and an edge for each flow and association."""
    root = etree.fromstring(xml.encode())
    places: dict[str, Place] = {}
    for process in root.iterfind(f"{{{BPMN}}}process"):
        _place(process, 40.0, 40.0, COLUMNS, places)
    diagram = etree.SubElement(root, f"{{{BPMNDI}}}BPMNDiagram", nsmap={"bpmndi": BPMNDI, "dc": DC, "di": DI})
    plane = etree.SubElement(diagram, f"{{{BPMNDI}}}BPMNPlane")
    for element in root.iter(f"{{{BPMN}}}*"):
        if element.get("id") in places:
            _shape(plane, element, places[element.get("id")])
        elif element.get("sourceRef") in places and element.get("targetRef") in places:
            _edge(plane, element, places)
    return bytes(etree.tostring(root))


def _size(element: Any) -> tuple[float, float]:
    kind = etree.QName(element).localname
    if kind.endswith("Event"):
        return 36.0, 36.0
    if kind.endswith("Gateway"):
        return 50.0, 50.0
    return 100.0, 80.0


def _is_node(element: Any) -> bool:
    kind = etree.QName(element).localname
    return (
        kind.endswith(("Event", "Gateway", "Task", "task", "Activity", "ubProcess")) and element.get("id") is not None
    )


def _place(scope: Any, left: float, top: float, columns: int, places: dict[str, Place]) -> tuple[float, float]:
    """Fill `places` for the scope's content; returns the right and lower end of it."""
    nodes = [child for child in scope.iterfind(f"{{{BPMN}}}*") if _is_node(child)]
    column, x, y, row_height, right = 0, left, top, ROW, left
    for element in (node for node in nodes if node.get("attachedToRef") is None):
        width, height = _size(element)
        if etree.QName(element).localname == "subProcess":
            inner_right, inner_bottom = _place(element, x + 20, y + 30, INNER, places)
            width, height = inner_right - x, inner_bottom - y
            places[element.get("id")] = (x, y, width, height)
        else:
            places[element.get("id")] = (x, y + (80 - height) / 2, width, height)
        right, row_height = max(right, x + width + 20), max(row_height, height + 50)
        column, x = column + 1, x + max(COLUMN, width + 40)
        if column == columns:
            column, x, y, row_height = 0, left, y + row_height, ROW
    _attach(nodes, places)
    return right, y + (row_height if column else 0)


def _attach(nodes: list[Any], places: dict[str, Place]) -> None:
    """Boundary events, one beside the other along the lower border of their activity."""
    hosted = defaultdict[str, int](int)
    for element in nodes:
        host = element.get("attachedToRef")
        if host is not None:
            x, y, _, height = places[host]
            places[element.get("id")] = (x + 6 + 44 * hosted[host], y + height - 18, 36.0, 36.0)
            hosted[host] += 1


def _shape(plane: Any, element: Any, place: Place) -> None:
    id = element.get("id")
    shape = etree.SubElement(plane, f"{{{BPMNDI}}}BPMNShape", bpmnElement=id)
    if etree.QName(element).localname == "subProcess":
        shape.set("isExpanded", "true")
    x, y, width, height = map(str, place)
    etree.SubElement(shape, f"{{{DC}}}Bounds", x=x, y=y, width=width, height=height)


def _edge(plane: Any, element: Any, places: dict[str, Place]) -> None:
    edge = etree.SubElement(plane, f"{{{BPMNDI}}}BPMNEdge", bpmnElement=element.get("id"))
    sx, sy, sw, sh = places[element.get("sourceRef")]
    tx, ty, _, th = places[element.get("targetRef")]
    for x, y in ((sx + sw, sy + sh / 2), (tx, ty + th / 2)):
        etree.SubElement(edge, f"{{{DI}}}waypoint", x=str(x), y=str(y))
