"""Owns reading one process into flow nodes and sequence flows, those of its sub-processes included.
Never judges how they are connected.
Called by the dialect.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from lxml import etree

from engine.bpmn.definition import FlowNode, SequenceFlow
from engine.bpmn.findings import Findings
from engine.bpmn.nodes import read_flow, read_node, refuse_part, type_of
from engine.bpmn.references import References
from engine.bpmn.vocabulary import HARMLESS, REFUSED, REFUSED_NODES
from engine.bpmn.xml import BPMN


@dataclass
class Outline:
    """What one process holds, with the elements that it was read from."""

    process: etree._Element
    findings: Findings
    references: References
    nodes: dict[str, FlowNode] = field(default_factory=dict)  # document order, outer before inner
    flows: dict[str, SequenceFlow] = field(default_factory=dict)
    elements: dict[str, etree._Element] = field(default_factory=dict)  # of both, by id
    refused: set[str] = field(default_factory=set)  # ids of elements that do not run, and of all inside them


def read_outline(process: etree._Element, findings: Findings, references: References) -> Outline:
    """Read everything that runs; what is wrong with single elements goes to `findings`."""
    outline = Outline(process, findings, references)
    found = _Found([], [])
    _sort(outline, process, None, found)
    incoming, outgoing = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    for element in found.flows:
        if _is_new(outline, element):
            flow = read_flow(findings, element)
            outline.flows[flow.id], outline.elements[flow.id] = flow, element
    for flow in outline.flows.values():
        outgoing[flow.source].append(flow.id)
        incoming[flow.target].append(flow.id)
    read: dict[etree._Element, FlowNode] = {}
    for element, container in found.nodes:
        parent = None if container is None else read[container]
        flows = tuple(incoming[element.get("id", "")]), tuple(outgoing[element.get("id", "")])
        read[element] = node = read_node(findings, references, element, parent, *flows)
        if _is_new(outline, element):
            outline.nodes[node.id], outline.elements[node.id] = node, element
    return outline


@dataclass
class _Found:
    nodes: list[tuple[etree._Element, etree._Element | None]]  # each with its sub-process
    flows: list[etree._Element]


def _sort(outline: Outline, container: etree._Element, around: etree._Element | None, found: _Found) -> None:
    """Gather what runs; refuse every other element by name, unless it only draws."""
    for child in container.iterfind("*"):
        tag = etree.QName(child)
        if tag.namespace == BPMN and type_of(child) is not None:
            found.nodes.append((child, around))
            if tag.localname == "subProcess":
                _sort(outline, child, child, found)
        elif tag.namespace == BPMN and tag.localname == "sequenceFlow":
            found.flows.append(child)
        elif tag.namespace == BPMN and (tag.localname in HARMLESS or _is_marker(tag, around)):
            continue
        else:
            _refuse(outline, container, child, tag)


def _is_marker(tag: etree.QName, around: etree._Element | None) -> bool:
    return around is not None and tag.localname == "multiInstanceLoopCharacteristics"


def _refuse(outline: Outline, container: etree._Element, child: etree._Element, tag: etree.QName) -> None:
    if container is not outline.process and tag.namespace == BPMN and tag.localname not in REFUSED_NODES:
        refuse_part(outline.findings, container, child)
        return
    outline.refused.update(element.get("id", "") for element in child.iter(etree.Element))
    what, remedy = REFUSED.get(tag.localname, (f"the element {tag.localname}", "Remove it."))
    outline.findings.add(child, "unsupported-element", f"{what} does not run here", remedy, hole=True)


def _is_new(outline: Outline, element: etree._Element) -> bool:
    """Whether the element has an id of its own; of two elements with one id, the first is read."""
    if element.get("id"):
        is_new = element.get("id") not in outline.elements
        outline.findings.complete = outline.findings.complete and is_new
        return is_new
    name = etree.QName(element).localname
    message = f"a {name} has no id (line {element.sourceline})"
    outline.findings.add(element, "missing-id", message, "Give it an id.", hole=True)
    return False
