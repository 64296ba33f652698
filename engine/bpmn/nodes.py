"""Owns reading one flow node or one sequence flow, and refusing every word inside it that would not run.
Never looks at how nodes are connected.
Called by the reader of the outline.
"""

from __future__ import annotations

from typing import Any, Final

from lxml import etree

from engine.bpmn.activities import read_activity
from engine.bpmn.definition import ElementType, EventKind, FlowNode, SequenceFlow
from engine.bpmn.events import Place, event_kind, place_of, read_event, takes_mappings
from engine.bpmn.expressions import read_condition
from engine.bpmn.extensions import check_extensions
from engine.bpmn.findings import Findings, name_of
from engine.bpmn.references import References
from engine.bpmn.vocabulary import (
    EVENT_DEFINITIONS,
    EVENTS,
    EXECUTED,
    EXTENSIONS,
    GATEWAYS,
    HARMLESS,
    MESSAGE_THROW_EXTENSIONS,
    REFUSED,
    UNMAPPED_EVENT_EXTENSIONS,
)
from engine.bpmn.xml import BPMN

_MULTI_INSTANCE: Final = "multiInstanceLoopCharacteristics"
_DATA_ASSOCIATIONS: Final = ("dataInputAssociation", "dataOutputAssociation")
_CHOOSING: Final = (ElementType.EXCLUSIVE_GATEWAY, ElementType.INCLUSIVE_GATEWAY)


def type_of(element: etree._Element) -> ElementType | None:
    """The type of a flow node that runs; null for every other element."""
    tag = etree.QName(element)
    kind = EXECUTED.get(tag.localname) if tag.namespace == BPMN else None
    if kind is ElementType.SUB_PROCESS and element.get("triggeredByEvent") in ("true", "1"):
        return ElementType.EVENT_SUB_PROCESS
    return kind


def read_flow(findings: Findings, element: etree._Element) -> SequenceFlow:
    check_extensions(findings, element, EXTENSIONS["sequenceFlow"])
    condition, text = None, element.find(f"{{{BPMN}}}conditionExpression")
    if text is not None:
        condition = read_condition(findings, element, text.text or "")
        findings.complete = findings.complete and condition is not None
    source, target = element.get("sourceRef", ""), element.get("targetRef", "")
    return SequenceFlow(element.get("id", ""), name_of(element), source, target, condition)


def read_node(
    findings: Findings,
    references: References,
    element: etree._Element,
    parent: FlowNode | None,
    incoming: tuple[str, ...],
    outgoing: tuple[str, ...],
) -> FlowNode:
    """The flow node, inside a sub-process or, for null, directly in the process."""
    kind = type_of(element)
    assert kind is not None, "only elements that run are read"
    _check_children(findings, element, kind)
    _check_default(findings, element, kind)
    fields: dict[str, Any]
    if kind in EVENTS:
        place = place_of(kind, ElementType.PROCESS if parent is None else parent.type)
        check_extensions(findings, element, _event_extensions(element, place))
        fields = read_event(findings, references, element, place)
    else:
        check_extensions(findings, element, EXTENSIONS[etree.QName(element).localname])
        fields = (
            _gateway(findings, element, kind)
            if kind in GATEWAYS
            else read_activity(findings, references, element, kind)
        )
    return FlowNode(
        id=element.get("id", ""),
        name=name_of(element),
        type=kind,
        incoming=incoming,
        outgoing=outgoing,
        parent=None if parent is None else parent.id,
        source_line=element.sourceline or 0,
        **fields,
    )


def _event_extensions(element: etree._Element, place: Place) -> frozenset[str]:
    kind = event_kind(element)
    if kind is EventKind.MESSAGE and place in (Place.THROW, Place.END):
        return MESSAGE_THROW_EXTENSIONS
    return EXTENSIONS[etree.QName(element).localname] if takes_mappings(place, kind) else UNMAPPED_EVENT_EXTENSIONS


def _check_children(findings: Findings, element: etree._Element, kind: ElementType) -> None:
    """Refuse what stands inside an element and would be passed over; what a sub-process holds is the outline's."""
    if kind in (ElementType.SUB_PROCESS, ElementType.EVENT_SUB_PROCESS):
        return
    for child in element.iterfind(f"{{{BPMN}}}*"):
        name = etree.QName(child).localname
        if name in _DATA_ASSOCIATIONS:
            for part in child.iterfind(f"{{{BPMN}}}*"):
                if etree.QName(part).localname in ("assignment", "transformation"):
                    refuse_part(findings, element, part)
        elif name in HARMLESS or (name in EVENT_DEFINITIONS and kind in EVENTS):
            continue
        elif name != _MULTI_INSTANCE or kind in EVENTS or kind in GATEWAYS:
            refuse_part(findings, element, child)


def refuse_part(findings: Findings, owner: etree._Element, part: etree._Element) -> None:
    name = etree.QName(part).localname
    what, remedy = REFUSED.get(name, (f"bpmn:{name}", "Remove it."))
    findings.add(owner, "unsupported-element", f"{what} does not run here", remedy)


def _check_default(findings: Findings, element: etree._Element, kind: ElementType) -> None:
    if element.get("default") and kind not in _CHOOSING:
        findings.add(
            element,
            "default-flow-without-gateway",
            "only an exclusive or inclusive gateway may have a default flow",
            "Draw such a gateway after this element.",
        )


def _gateway(findings: Findings, element: etree._Element, kind: ElementType) -> dict[str, Any]:
    if kind is ElementType.EVENT_BASED_GATEWAY and element.get("instantiate") in ("true", "1"):
        findings.add(
            element,
            "unsupported-element",
            "an event-based gateway that starts the process does not run here",
            "Draw a start event for each message or signal.",
        )
    return {"default_flow": element.get("default")} if kind in _CHOOSING else {}
