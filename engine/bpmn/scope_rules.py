"""Owns the rules for what one process or sub-process may hold: starts, links, handlers of one event, compensation.
Never follows sequence flows.
Called by the dialect.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from lxml import etree

from engine.bpmn.definition import ElementType, EventKind, FlowNode, Static
from engine.bpmn.outline import Outline
from engine.bpmn.vocabulary import ACTIVITIES

_SUB_PROCESSES: Final = (ElementType.SUB_PROCESS, ElementType.EVENT_SUB_PROCESS)


def check_scopes(outline: Outline) -> None:
    """Every process and sub-process; the handlers of compensation are noted in the outline's nodes."""
    children = defaultdict[str | None, list[FlowNode]](list)
    for node in outline.nodes.values():
        children[node.parent].append(node)
    _check_process_starts(outline, children[None])
    for node in outline.nodes.values():
        if node.type in _SUB_PROCESSES:
            _check_starts(outline, node, children[node.id])
    _check_catching_twice(outline)
    for nodes in children.values():
        _check_links(outline, nodes)
    _check_compensation(outline)


# --- starts -----------------------------------------------------------------------------------------------------


def _starts(nodes: Iterable[FlowNode]) -> list[FlowNode]:
    return [node for node in nodes if node.type is ElementType.START_EVENT]


def _check_process_starts(outline: Outline, nodes: list[FlowNode]) -> None:
    starts = _starts(nodes)
    plain = [node for node in starts if node.event is None]
    if not starts or len(plain) > 1:
        found = f"{len(plain)} start events without a symbol" if starts else "no start event"
        _refuse_starts(
            outline,
            outline.process,
            f"the process has {found}",
            "Draw exactly one start event without a symbol, or start events with symbols.",
        )


def _check_starts(outline: Outline, scope: FlowNode, nodes: list[FlowNode]) -> None:
    count = len(_starts(nodes))
    if count == 1:
        return
    kind, symbol = (
        ("an event sub-process", "with")
        if scope.type is ElementType.EVENT_SUB_PROCESS
        else ("a sub-process", "without")
    )
    _refuse_starts(
        outline,
        outline.elements[scope.id],
        f"{kind} needs one start event; this one has {count}",
        f"Draw exactly one start event {symbol} a symbol.",
    )


def _refuse_starts(outline: Outline, element: etree._Element, message: str, remedy: str) -> None:
    outline.findings.add(element, "one-start-event", message, remedy, hole=True)


# --- two handlers of one event ----------------------------------------------------------------------------------


def _check_catching_twice(outline: Outline) -> None:
    """Of two handlers of one message, signal or escalation at one place, only one could ever run."""
    first: dict[object, FlowNode] = {}
    for node in outline.nodes.values():
        caught = _caught(node)
        if caught is None:
            continue
        for place in _places(outline, node):
            other = first.setdefault((place, *caught), node)
            if other is not node:
                what = f"{caught[0].value.lower()} `{caught[1]}`" if caught[1] else "every other escalation"
                outline.findings.add(
                    outline.elements[node.id],
                    "duplicate-catch",
                    f"`{other.id}` waits at the same place for the {what}",
                    "Keep one of the two, or give them different names.",
                )


def _caught(node: FlowNode) -> tuple[EventKind, str | None] | None:
    event = node.event
    if event is None or node.type in (ElementType.END_EVENT, ElementType.INTERMEDIATE_THROW_EVENT):
        return None
    if event.kind is EventKind.ESCALATION:
        return event.kind, event.code
    if event.kind in (EventKind.MESSAGE, EventKind.SIGNAL) and isinstance(event.name, Static):
        return event.kind, event.name.text
    return None


def _places(outline: Outline, node: FlowNode) -> list[tuple[str, str | None]]:
    """What the event belongs to: its activity, its process, the scope around its event sub-process, its gateways."""
    if node.type is ElementType.BOUNDARY_EVENT:
        return [("border", node.attached_to)]
    if node.type is ElementType.START_EVENT:
        parent = outline.nodes.get(node.parent or "")
        return [("start", None)] if parent is None else [("reaction", parent.parent)]
    sources = (outline.nodes.get(outline.flows[flow].source) for flow in node.incoming)
    return [
        ("gateway", each.id) for each in sources if each is not None and each.type is ElementType.EVENT_BASED_GATEWAY
    ]


# --- links ------------------------------------------------------------------------------------------------------


def _check_links(outline: Outline, nodes: list[FlowNode]) -> None:
    """Every link has one end, and an end has a beginning; several beginnings may lead to one end."""
    begins = _links(nodes, ElementType.INTERMEDIATE_THROW_EVENT)
    ends = _links(nodes, ElementType.INTERMEDIATE_CATCH_EVENT)
    for link, beginnings in begins.items():
        for node in beginnings if link not in ends else ():
            message = f"no link catch event beside it has the name `{link}`"
            remedy = "Draw the link's other end, in the same process or sub-process."
            _refuse_link(outline, node, message, remedy)
    for link, (end, *others) in ends.items():
        for node in others:
            message = f"`{end.id}` is an end of the link `{link}` too"
            _refuse_link(outline, node, message, "Give every end of a link a name of its own.")
        if link not in begins:
            message = f"no link throw event beside it has the name `{link}`"
            remedy = "Draw the link's beginning, in the same process or sub-process."
            _refuse_link(outline, end, message, remedy)


def _links(nodes: list[FlowNode], kind: ElementType) -> dict[str, list[FlowNode]]:
    links: dict[str, list[FlowNode]] = {}
    for node in nodes:
        if node.type is kind and node.event is not None and node.event.link is not None:
            links.setdefault(node.event.link, []).append(node)
    return links


def _refuse_link(outline: Outline, node: FlowNode, message: str, remedy: str) -> None:
    outline.findings.add(outline.elements[node.id], "invalid-link", message, remedy, hole=True)


# --- compensation -----------------------------------------------------------------------------------------------


def _check_compensation(outline: Outline) -> None:
    handled: set[str | None] = set()
    handlers: set[str] = set()
    for node in list(outline.nodes.values()):
        if node.type is ElementType.BOUNDARY_EVENT and node.event_kind is EventKind.COMPENSATION:
            if node.attached_to in handled:
                _refuse_compensation(
                    outline,
                    node,
                    "another compensation event on the same activity has a handler already",
                    "Keep one of the two.",
                )
            handled.add(node.attached_to)
            handler = _handler(outline, node)
            if handler is not None:
                outline.nodes[node.id] = replace(node, handler=handler.id)
                handlers.add(handler.id)
    for node in outline.nodes.values():
        if node.for_compensation and node.id not in handlers:
            _refuse_compensation(
                outline,
                node,
                "no compensation event leads to this activity that compensates",
                "Draw an association from the compensation event on the border of the activity that it undoes.",
            )
        elif node.type is not ElementType.BOUNDARY_EVENT and node.event_kind is EventKind.COMPENSATION:
            _check_compensated(outline, node, handled)


def _handler(outline: Outline, event: FlowNode) -> FlowNode | None:
    targets = [outline.nodes[each] for each in outline.references.associated(event.id) if each in outline.nodes]
    activities = [node for node in targets if node.type in ACTIVITIES]
    if len(activities) != 1 or not activities[0].for_compensation or activities[0].parent != event.parent:
        _refuse_compensation(
            outline,
            event,
            "the compensation event leads to no single activity with the compensation marker beside it",
            "Draw one association from it to an activity with that marker, in the same process or sub-process.",
        )
        return None
    return activities[0]


def _check_compensated(outline: Outline, event: FlowNode, handled: set[str | None]) -> None:
    """What a throw event names must be beside it and have something that undoes it."""
    activity_id = None if event.event is None else event.event.activity_ref
    if activity_id is None or activity_id in outline.refused:
        return
    activity = outline.nodes.get(activity_id)
    if activity is None or activity.parent != event.parent:
        found = f"`{activity_id}` is no activity of the same process or sub-process"
    elif activity.id not in handled and activity.type is not ElementType.SUB_PROCESS:
        found = f"`{activity_id}` has no compensation event that would undo it"
    else:
        return
    _refuse_compensation(
        outline, event, found, "Name an activity with a compensation event on its border, or a sub-process."
    )


def _refuse_compensation(outline: Outline, node: FlowNode, message: str, remedy: str) -> None:
    outline.findings.add(outline.elements[node.id], "invalid-compensation", message, remedy)
