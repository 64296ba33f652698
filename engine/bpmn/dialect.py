"""Owns reading a diagram in the Camunda 8 dialect into a process definition, or saying all that is wrong with it.
Never judges style, topics or reachability (lint does) and never runs anything.
Called by deployment, by `conch check` and by tests.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Final, NamedTuple

from lxml import etree

from engine.bpmn.definition import ElementType, FlowNode, ProcessDefinition, SequenceFlow
from engine.bpmn.findings import Findings, name_of
from engine.bpmn.nodes import NodeReader
from engine.bpmn.vocabulary import (
    CAMUNDA_8_EQUIVALENTS,
    EXECUTED,
    EXTENSIONS,
    HARMLESS,
    HARMLESS_ROOTS,
    REFUSED,
)
from engine.bpmn.xml import BPMN, CAMUNDA_7, MAX_BYTES, MODELER, ZEEBE, read_tree
from engine.errors import DefinitionInvalid, Problem

EXAMPLE_OUTPUT: Final = "camundaModeler:exampleOutputJson"
MAX_JSON_CHARACTERS: Final = 100_000


class Reading(NamedTuple):
    """What one file holds. The definition is there when its process could be read at all; with problems it has holes:
    flow nodes that do not run and values that could not be read are missing from it."""

    definition: ProcessDefinition | None
    problems: tuple[Problem, ...]
    complete: bool  # every flow node, sequence flow and condition of the process is in the definition


def parse(xml: bytes, resource_name: str, max_bytes: int = MAX_BYTES) -> tuple[ProcessDefinition, ...]:
    """Read the executable process of a BPMN file in the Camunda 8 dialect.

    Raises DefinitionInvalid with every problem: broken or hostile XML, elements and extensions that do not run, what
    an element lacks, expressions that are not FEEL, duplicate ids and dangling references.
    """
    definition, problems, _ = read(xml, resource_name, max_bytes)
    if problems or definition is None:
        raise DefinitionInvalid(problems)
    return (definition,)


def read(xml: bytes, resource_name: str, max_bytes: int = MAX_BYTES) -> Reading:
    """As `parse`, but returns the problems beside what could be read. Never raises."""
    try:
        root = read_tree(xml, resource_name, max_bytes)
    except DefinitionInvalid as invalid:
        return Reading(None, invalid.problems, complete=False)
    findings = Findings(resource_name)
    process = _executable_process(root, findings)
    if process is None:
        return Reading(None, tuple(findings.problems), complete=False)
    _check_ids(root, findings)
    _check_dialect(root, process, findings)
    graph = _GraphReader(root, process, findings)
    nodes, flows = graph.read()
    start_id = next((node.id for node in nodes.values() if node.type is ElementType.START_EVENT), "")
    definition = ProcessDefinition(
        process_id=process.get("id", ""),
        name=name_of(process),
        version_tag=_version_tag(process),
        resource_name=resource_name,
        content_hash=hashlib.sha256(xml).hexdigest(),
        xml=xml,
        nodes=nodes,
        flows=flows,
        start_id=start_id,
        start_variables=_example_variables(process, start_id),
    )
    return Reading(definition, tuple(findings.problems), graph.complete)


# --- the file ---------------------------------------------------------------------------------------------------


def _executable_process(root: etree._Element, findings: Findings) -> etree._Element | None:
    if root.tag != f"{{{BPMN}}}definitions":
        findings.add(
            None,
            "not-bpmn",
            f"the root element is {etree.QName(root).localname}, not the definitions of BPMN 2.0",
            "Save the diagram as BPMN with Camunda Modeler.",
        )
        return None
    for child in root.iterfind(f"{{{BPMN}}}*"):
        name = etree.QName(child).localname
        if name not in HARMLESS_ROOTS and name in REFUSED:
            what, remedy = REFUSED[name]
            findings.add(child, "unsupported-element", f"{what} does not run yet", remedy)
    processes = root.findall(f"{{{BPMN}}}process")
    executable = [process for process in processes if process.get("isExecutable") in ("true", "1")]
    if not executable:
        executable = processes[:1]
        findings.add(
            executable[0] if executable else None,
            "no-executable-process",
            "the file holds no executable process",
            "Mark one process as executable in the properties panel.",
        )
    for process in executable[1:]:
        findings.add(
            process,
            "several-processes",
            f"the file already holds the executable process `{executable[0].get('id', '')}`",
            "Save each executable process in a file of its own.",
        )
    process = next(iter(executable), None)
    if process is not None and not process.get("id"):
        findings.add(process, "missing-id", "the process has no id", "Give it an id.")
    return process


def _check_ids(root: etree._Element, findings: Findings) -> None:
    seen: dict[str, etree._Element] = {}
    for element in root.iter(etree.Element):
        element_id = element.get("id")
        if element_id is None:
            continue
        if element_id in seen:
            findings.add(
                element,
                "duplicate-id",
                f"the id is used twice, on lines {seen[element_id].sourceline} and {element.sourceline}",
                "Give one of the two elements another id.",
            )
        else:
            seen[element_id] = element


def _check_dialect(root: etree._Element, process: etree._Element, findings: Findings) -> None:
    """Refuse the words of Camunda 7, each with its Camunda 8 equivalent, and unknown words on the process."""
    platform = root.get(f"{{{MODELER}}}executionPlatform", "Camunda Cloud")
    if platform != "Camunda Cloud":
        findings.add(
            None,
            "camunda-7-dialect",
            f"the file is made for {platform}",
            "Create the diagram for Camunda 8 (zeebe: elements and FEEL expressions) and copy the elements into it.",
        )
    for element in process.iter(etree.Element):
        words = [etree.QName(key) for key in element.attrib]
        if element.getparent().tag == f"{{{BPMN}}}extensionElements":
            words.append(etree.QName(element))
        for word in words:
            if word.namespace == CAMUNDA_7:
                equivalent = CAMUNDA_8_EQUIVALENTS.get(word.localname, "no equivalent: remove it")
                findings.add(
                    _flow_node_of(element),
                    "camunda-7-dialect",
                    f"camunda:{word.localname} belongs to Camunda 7",
                    f"The Camunda 8 equivalent is {equivalent}.",
                )
    for extension in process.iterfind(f"{{{BPMN}}}extensionElements/{{{ZEEBE}}}*"):
        name = etree.QName(extension).localname
        if name not in EXTENSIONS["process"]:
            findings.add(process, "unsupported-extension", f"zeebe:{name} does not run on a process", "Remove it.")


def _flow_node_of(element: etree._Element) -> etree._Element:
    """The nearest element around that designers know: one with an id."""
    while element.get("id") is None and element.getparent() is not None:
        element = element.getparent()
    return element


def _version_tag(process: etree._Element) -> str | None:
    tag = process.find(f"{{{BPMN}}}extensionElements/{{{ZEEBE}}}versionTag")
    return None if tag is None else tag.get("value")


def _example_variables(process: etree._Element, start_id: str) -> frozenset[str] | None:
    """The variables that the start event declares with Camunda Modeler's example output property."""
    for start in process.iterfind(f"{{{BPMN}}}startEvent"):
        for note in start.iterfind(f"{{{BPMN}}}extensionElements/{{{ZEEBE}}}properties/{{{ZEEBE}}}property"):
            text = note.get("value", "")
            if start.get("id") == start_id and note.get("name") == EXAMPLE_OUTPUT and len(text) < MAX_JSON_CHARACTERS:
                try:
                    example = json.loads(text)
                except (ValueError, RecursionError):
                    return None
                return frozenset(example) if isinstance(example, dict) else None
    return None


# --- the graph --------------------------------------------------------------------------------------------------


class _GraphReader:
    def __init__(self, root: etree._Element, process: etree._Element, findings: Findings) -> None:
        self._process = process
        self._findings = findings
        errors = {error.get("id", ""): error for error in root.iterfind(f"{{{BPMN}}}error")}
        self._reader = NodeReader(findings, errors)
        self._refused_ids: set[str] = set()
        self.complete = True

    def read(self) -> tuple[dict[str, FlowNode], dict[str, SequenceFlow]]:
        node_elements, flow_elements = self._sort_children()
        flows = self._read_flows(flow_elements)
        incoming, outgoing = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
        for flow in flows.values():
            outgoing[flow.source].append(flow.id)
            incoming[flow.target].append(flow.id)
        nodes: dict[str, FlowNode] = {}
        for element in node_elements:
            if self._has_id(element):
                node_id = element.get("id")
                self.complete = self.complete and node_id not in nodes
                node = self._reader.node(element, tuple(incoming[node_id]), tuple(outgoing[node_id]))
                nodes[node_id] = node
                self._check_connections(element, node, flows)
        self._check_references(nodes, node_elements, flow_elements, flows)
        self._check_start(nodes)
        return nodes, flows

    def _read_flows(self, elements: list[etree._Element]) -> dict[str, SequenceFlow]:
        flows: dict[str, SequenceFlow] = {}
        for element in elements:
            if self._has_id(element):
                flow = self._reader.flow(element)
                unread = flow.condition is None and element.find(f"{{{BPMN}}}conditionExpression") is not None
                self.complete = self.complete and not unread and flow.id not in flows
                flows[flow.id] = flow
        return flows

    def _sort_children(self) -> tuple[list[etree._Element], list[etree._Element]]:
        """Flow nodes that run, sequence flows; every other element is refused by name."""
        nodes, flows = [], []
        for child in self._process.iterfind("*"):
            tag = etree.QName(child)
            if tag.namespace == BPMN and tag.localname in EXECUTED:
                nodes.append(child)
            elif tag.namespace == BPMN and tag.localname == "sequenceFlow":
                flows.append(child)
            elif tag.namespace != BPMN or tag.localname not in HARMLESS:
                self._refuse(child, tag)
        return nodes, flows

    def _refuse(self, element: etree._Element, tag: etree.QName) -> None:
        self.complete = False
        self._refused_ids.add(element.get("id", ""))
        what, remedy = REFUSED.get(tag.localname, (f"the element {tag.localname}", "Remove it."))
        self._findings.add(element, "unsupported-element", f"{what} does not run yet", remedy)

    def _has_id(self, element: etree._Element) -> bool:
        if element.get("id"):
            return True
        self.complete = False
        name = etree.QName(element).localname
        self._findings.add(element, "missing-id", f"a {name} has no id (line {element.sourceline})", "Give it an id.")
        return False

    def _check_connections(self, element: etree._Element, node: FlowNode, flows: Mapping[str, SequenceFlow]) -> None:
        if node.incoming and node.type in (ElementType.START_EVENT, ElementType.BOUNDARY_EVENT):
            self._findings.add(
                element,
                "incoming-flow",
                "a sequence flow may not lead into a start or boundary event",
                "Remove that flow.",
            )
        if node.outgoing and node.type is ElementType.END_EVENT:
            self._findings.add(element, "outgoing-flow", "an end event has an outgoing flow", "Remove that flow.")
        if node.type is not ElementType.EXCLUSIVE_GATEWAY:
            if len(node.outgoing) > 1:
                self._findings.add(
                    element,
                    "several-outgoing-flows",
                    f"{len(node.outgoing)} flows leave this element at once, and parallel paths do not run yet",
                    "Draw an exclusive gateway after it.",
                )
            if any(flows[flow].condition for flow in node.outgoing):
                self._findings.add(
                    element,
                    "condition-without-gateway",
                    "a flow with a condition leaves an element that is no exclusive gateway",
                    "Draw an exclusive gateway after it.",
                )
        else:
            self._check_default(element, node, flows)

    def _check_default(self, element: etree._Element, node: FlowNode, flows: Mapping[str, SequenceFlow]) -> None:
        if node.default_flow is not None and node.default_flow not in node.outgoing:
            self._findings.add(
                element,
                "invalid-default-flow",
                f"the default flow `{node.default_flow}` does not leave this gateway",
                "Choose one of its outgoing flows.",
            )
        elif node.default_flow is not None and flows[node.default_flow].condition:
            self._findings.add(
                element,
                "condition-on-default-flow",
                f"the default flow `{node.default_flow}` has a condition, which would never be looked at",
                "Remove the condition.",
            )

    def _check_references(
        self,
        nodes: Mapping[str, FlowNode],
        node_elements: list[etree._Element],
        flow_elements: list[etree._Element],
        flows: Mapping[str, SequenceFlow],
    ) -> None:
        for element in flow_elements:
            flow = flows.get(element.get("id"))
            if flow is None:
                continue
            for end, node_id in (("source", flow.source), ("target", flow.target)):
                if node_id not in nodes and node_id not in self._refused_ids:
                    self._findings.add(
                        element,
                        "dangling-flow",
                        f"the flow's {end} `{node_id}` is not in this process" if node_id else f"the flow has no {end}",
                        "Connect the flow, or remove it.",
                    )
        for element in node_elements:
            node = nodes.get(element.get("id"))
            if node is None or node.type is not ElementType.BOUNDARY_EVENT or node.attached_to in self._refused_ids:
                continue
            host = nodes.get(node.attached_to or "")
            if host is None or host.type is not ElementType.SERVICE_TASK:
                self.complete = False
                self._findings.add(
                    element,
                    "dangling-boundary-event",
                    f"the boundary event is attached to `{node.attached_to}`, which is no service task of this process",
                    "Attach it to a service task.",
                )

    def _check_start(self, nodes: Mapping[str, FlowNode]) -> None:
        count = Counter(node.type for node in nodes.values())[ElementType.START_EVENT]
        if count != 1:
            self.complete = False
            self._findings.add(
                self._process,
                "one-start-event",
                f"the process has {count} start events",
                "Draw exactly one start event without a symbol.",
            )
