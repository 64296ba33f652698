"""Owns reading a diagram in the Camunda 8 dialect into a process definition, or saying all that is wrong with it.
Never judges style, topics or reachability (lint does) and never runs anything.
Called by deployment, by `conch check` and by tests.
"""

from __future__ import annotations

import hashlib
import json
from typing import Final, NamedTuple

from lxml import etree

from engine.bpmn.connections import check_connections
from engine.bpmn.definition import ElementType, ProcessDefinition
from engine.bpmn.extensions import check_extensions
from engine.bpmn.findings import Findings, name_of
from engine.bpmn.nodes import type_of
from engine.bpmn.outline import Outline, read_outline
from engine.bpmn.references import References
from engine.bpmn.scope_rules import check_scopes
from engine.bpmn.vocabulary import CAMUNDA_8_EQUIVALENTS, EXTENSIONS, HARMLESS_ROOTS, REFUSED
from engine.bpmn.xml import BPMN, BPMNDI, CAMUNDA_7, MAX_BYTES, MODELER, ZEEBE, read_tree
from engine.errors import DefinitionInvalid, Problem

EXAMPLE_OUTPUT: Final = "camundaModeler:exampleOutputJson"
MAX_JSON_CHARACTERS: Final = 100_000


class Reading(NamedTuple):
    """What one file holds. A definition is there for each process that could be read at all; with problems it has
    holes: flow nodes that do not run and values that could not be read are missing from it."""

    definitions: tuple[ProcessDefinition, ...]  # of the executable processes, document order
    problems: tuple[Problem, ...]
    complete: bool  # every flow node, sequence flow and condition of each process is in its definition


def parse(xml: bytes, resource_name: str, max_bytes: int = MAX_BYTES) -> tuple[ProcessDefinition, ...]:
    """Read the executable processes of a BPMN file in the Camunda 8 dialect.

    Raises DefinitionInvalid with every problem: broken or hostile XML, elements and extensions that do not run, what
    an element lacks, expressions that are not FEEL, duplicate ids and dangling references.
    """
    definitions, problems, _ = read(xml, resource_name, max_bytes)
    if not definitions or any(problem.severity == "error" for problem in problems):
        raise DefinitionInvalid(problems)
    return definitions


def read(xml: bytes, resource_name: str, max_bytes: int = MAX_BYTES) -> Reading:
    """As `parse`, but returns the problems beside what could be read. Never raises."""
    try:
        root = read_tree(xml, resource_name, max_bytes)
    except DefinitionInvalid as invalid:
        return Reading((), invalid.problems, complete=False)
    findings = Findings(resource_name)
    processes = _executable_processes(root, findings)
    if not processes:
        return Reading((), findings.problems, complete=False)
    _check_ids(root, findings)
    _check_platform(root, findings)
    references = References(root)
    definitions = [_definition(process, findings, references, xml) for process in processes]
    return Reading(tuple(definitions), findings.problems, findings.complete)


def _definition(process: etree._Element, findings: Findings, references: References, xml: bytes) -> ProcessDefinition:
    check_extensions(findings, process, EXTENSIONS["process"])
    _check_words(process, findings)
    outline = read_outline(process, findings, references)
    check_connections(outline)
    check_scopes(outline)
    start_id = _start_id(outline)
    return ProcessDefinition(
        process_id=process.get("id", ""),
        name=name_of(process),
        version_tag=_version_tag(process),
        resource_name=findings.file,
        content_hash=hashlib.sha256(xml).hexdigest(),
        xml=xml,
        nodes=outline.nodes,
        flows=outline.flows,
        start_id=start_id,
        start_variables=_example_variables(process, start_id),
    )


def _start_id(outline: Outline) -> str:
    """The start event without a symbol, or nothing."""
    starts = (node for node in outline.nodes.values() if node.type is ElementType.START_EVENT and node.parent is None)
    return next((node.id for node in starts if node.event is None), "")


# --- the file ---------------------------------------------------------------------------------------------------


def _executable_processes(root: etree._Element, findings: Findings) -> list[etree._Element]:
    """The executable processes; where there is none, the one that should be, so that all its problems are told."""
    if root.tag != f"{{{BPMN}}}definitions":
        findings.add(
            None,
            "not-bpmn",
            f"the root element is {etree.QName(root).localname}, not the definitions of BPMN 2.0",
            "Save the diagram as BPMN with Camunda Modeler.",
        )
        return []
    for child in root.iterfind(f"{{{BPMN}}}*"):
        name = etree.QName(child).localname
        if name not in HARMLESS_ROOTS and name in REFUSED:
            what, remedy = REFUSED[name]
            findings.add(child, "unsupported-element", f"{what} does not run here", remedy)
    processes = root.findall(f"{{{BPMN}}}process")
    executable = [process for process in processes if process.get("isExecutable") in ("true", "1")]
    if not executable:
        executable = [process for process in processes if _has_flow_nodes(process)][:1] or processes[:1]
        findings.add(
            executable[0] if executable else None,
            "no-executable-process",
            "the file holds no executable process",
            "Mark one process as executable in the properties panel.",
        )
    for process in executable:
        if not process.get("id"):
            findings.add(process, "missing-id", "the process has no id", "Give it an id.")
    return executable


def _has_flow_nodes(process: etree._Element) -> bool:
    return any(type_of(child) is not None for child in process.iterfind("*"))


def _check_ids(root: etree._Element, findings: Findings) -> None:
    seen: dict[str, etree._Element] = {}
    for element in root.iter(*(f"{{{namespace}}}*" for namespace in (BPMN, BPMNDI, ZEEBE))):
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


def _check_platform(root: etree._Element, findings: Findings) -> None:
    platform = root.get(f"{{{MODELER}}}executionPlatform", "Camunda Cloud")
    if platform != "Camunda Cloud":
        findings.add(
            None,
            "camunda-7-dialect",
            f"the file is made for {platform}",
            "Create the diagram for Camunda 8 (zeebe: elements and FEEL expressions) and copy the elements into it.",
        )


def _check_words(process: etree._Element, findings: Findings) -> None:
    """Refuse the words of Camunda 7, each with its Camunda 8 equivalent."""
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
