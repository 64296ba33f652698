"""Owns the rules for what may be connected to what: sequence flows, gateways and the borders of activities.
Never reads XML beyond naming the element that is wrong.
Called by the dialect.
"""

from __future__ import annotations

from typing import Final

from engine.bpmn.definition import ElementType, EventKind, FlowNode, SequenceFlow
from engine.bpmn.outline import Outline
from engine.bpmn.vocabulary import ACTIVITIES

_CHOOSING: Final = (ElementType.EXCLUSIVE_GATEWAY, ElementType.INCLUSIVE_GATEWAY)
_AWAITED: Final = (EventKind.TIMER, EventKind.MESSAGE, EventKind.SIGNAL, EventKind.CONDITIONAL)
_ESCALATING: Final = (ElementType.SUB_PROCESS, ElementType.CALL_ACTIVITY)


def check_connections(outline: Outline) -> None:
    """Every flow and every node, each against the rules of its kind."""
    for flow in outline.flows.values():
        _check_ends(outline, flow)
    for node in outline.nodes.values():
        _check_directions(outline, node)
        if node.type in _CHOOSING:
            _check_default(outline, node)
        else:
            _check_conditions(outline, node)
        if node.type is ElementType.EVENT_BASED_GATEWAY:
            _check_event_based(outline, node)
        elif node.type is ElementType.BOUNDARY_EVENT:
            _check_border(outline, node)


def _check_ends(outline: Outline, flow: SequenceFlow) -> None:
    element, ends = outline.elements[flow.id], {"source": flow.source, "target": flow.target}
    for end, node_id in ends.items():
        if node_id not in outline.nodes and node_id not in outline.refused:
            found = f"the flow's {end} `{node_id}` is not in this process" if node_id else f"the flow has no {end}"
            outline.findings.add(element, "dangling-flow", found, "Connect the flow, or remove it.")
    source, target = outline.nodes.get(flow.source), outline.nodes.get(flow.target)
    if source is not None and target is not None and source.parent != target.parent:
        outline.findings.add(
            element,
            "flow-crosses-border",
            f"the flow leads from `{source.id}` to `{target.id}` across the border of a sub-process",
            "Connect the sub-process itself, or move one of the two.",
            hole=True,
        )


def _check_directions(outline: Outline, node: FlowNode) -> None:
    where = _unconnected(node)
    if node.incoming and (where or _only_leaves(node)):
        outline.findings.add(
            outline.elements[node.id],
            "incoming-flow",
            f"a sequence flow may not lead into {where or _only_leaves(node)}",
            "Remove that flow.",
        )
    if node.outgoing and (where or _only_arrives(node)):
        outline.findings.add(
            outline.elements[node.id],
            "outgoing-flow",
            f"a sequence flow may not leave {where or _only_arrives(node)}",
            "Remove that flow.",
        )


def _unconnected(node: FlowNode) -> str:
    if node.type is ElementType.EVENT_SUB_PROCESS:
        return "an event sub-process"
    return "an activity that compensates" if node.for_compensation else ""


def _only_leaves(node: FlowNode) -> str:
    if node.type is ElementType.INTERMEDIATE_CATCH_EVENT and node.event_kind is EventKind.LINK:
        return "the end of a link"
    return "a start or boundary event" if node.type in (ElementType.START_EVENT, ElementType.BOUNDARY_EVENT) else ""


def _only_arrives(node: FlowNode) -> str:
    if node.type is ElementType.END_EVENT:
        return "an end event"
    if node.type is ElementType.INTERMEDIATE_THROW_EVENT and node.event_kind is EventKind.LINK:
        return "the beginning of a link"
    if node.type is ElementType.BOUNDARY_EVENT and node.event_kind is EventKind.COMPENSATION:
        return "a compensation event: an association leads to its activity"
    return ""


def _check_conditions(outline: Outline, node: FlowNode) -> None:
    if any(outline.flows[flow].condition for flow in node.outgoing):
        outline.findings.add(
            outline.elements[node.id],
            "condition-without-gateway",
            "a flow with a condition leaves an element that is no exclusive or inclusive gateway",
            "Draw such a gateway after it.",
        )


def _check_default(outline: Outline, node: FlowNode) -> None:
    element = outline.elements[node.id]
    if node.default_flow is None:
        return
    if node.default_flow not in node.outgoing:
        outline.findings.add(
            element,
            "invalid-default-flow",
            f"the default flow `{node.default_flow}` does not leave this gateway",
            "Choose one of its outgoing flows.",
        )
    elif outline.flows[node.default_flow].condition:
        outline.findings.add(
            element,
            "condition-on-default-flow",
            f"the default flow `{node.default_flow}` has a condition, which would never be looked at",
            "Remove the condition.",
        )


def _check_event_based(outline: Outline, node: FlowNode) -> None:
    element = outline.elements[node.id]
    if len(node.outgoing) < 2:
        message = "an event-based gateway needs at least two events to choose from"
        outline.findings.add(element, "event-based-gateway", message, "Draw flows to at least two catch events.")
    for flow in node.outgoing:
        target = outline.nodes.get(outline.flows[flow].target)
        if target is None:
            continue
        if target.type is not ElementType.INTERMEDIATE_CATCH_EVENT or target.event_kind not in _AWAITED:
            outline.findings.add(
                element,
                "event-based-gateway",
                f"after an event-based gateway, `{target.id}` is no event that can be waited for",
                "Lead its flows to timer, message, signal or conditional catch events.",
            )
        elif len(target.incoming) > 1:
            outline.findings.add(
                element,
                "event-based-gateway",
                f"another flow also leads into `{target.id}`, which this gateway waits for",
                "Draw an event of its own for the other flow.",
            )


def _check_border(outline: Outline, node: FlowNode) -> None:
    if node.attached_to in outline.refused:
        return
    element, host = outline.elements[node.id], outline.nodes.get(node.attached_to or "")
    if host is None or host.type not in ACTIVITIES or host.type is ElementType.EVENT_SUB_PROCESS:
        found = f"is attached to `{node.attached_to}`, which is no activity of this process"
    elif host.parent != node.parent:
        found = f"lies in another sub-process than `{host.id}`, its activity"
    elif host.for_compensation:
        found = f"is attached to `{host.id}`, which compensates"
    elif node.event_kind is EventKind.ESCALATION and host.type not in _ESCALATING:
        found = f"catches an escalation, but `{host.id}` cannot throw one"
    else:
        return
    remedy = "Attach it to an activity of the same process or sub-process"
    if node.event_kind is EventKind.ESCALATION:
        remedy += "; for an escalation: to a sub-process or call activity"
    outline.findings.add(element, "dangling-boundary-event", f"the boundary event {found}", f"{remedy}.", hole=True)
