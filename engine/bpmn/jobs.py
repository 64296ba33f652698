"""Owns reading what makes an element a job: its topic, retries and headers; and the mappings around it.
Never knows which elements are jobs.
Called by the readers of activities and events.
"""

from __future__ import annotations

import re
from typing import Any

from lxml import etree

from engine.bpmn.definition import IoMapping
from engine.bpmn.expressions import PATH, read_value
from engine.bpmn.extensions import extensions, one_extension
from engine.bpmn.findings import Findings
from engine.bpmn.xml import CAMUNDA_7, ZEEBE


def read_job(findings: Findings, element: etree._Element, what: str) -> dict[str, Any]:
    """Topic, retries and headers of an element that must have them."""
    definition = one_extension(findings, element, "taskDefinition")
    fields: dict[str, Any] = {"headers": read_headers(findings, element)}
    if definition is not None:
        return fields | _task_definition(findings, element, definition)
    if not any(etree.QName(key).namespace == CAMUNDA_7 for key in element.attrib):
        findings.add(
            element,
            "missing-topic",
            f"{what} needs a zeebe:taskDefinition; it has none",
            "Set the task's type (its topic) in the properties panel, or apply an element template.",
        )
    return fields


def _task_definition(findings: Findings, element: etree._Element, definition: etree._Element) -> dict[str, Any]:
    topic = definition.get("type", "").strip()
    if not topic or topic.startswith("="):
        found = "an expression" if topic else "empty"
        findings.add(
            element,
            "missing-topic",
            f"the task's type is {found}; the topic must be known at deployment",
            "Write the topic's name as the task's type.",
        )
    retries = definition.get("retries", "3").strip()
    if not re.fullmatch(r"\d{1,3}", retries, re.ASCII):
        findings.add(
            element,
            "invalid-retries",
            f"retries is `{retries}`; it must be a whole number from 0 to 999",
            'Set it to "1" where the diagram draws the retry.',
        )
        return {"topic": topic}
    return {"topic": topic, "retries": int(retries)}


def read_headers(findings: Findings, element: etree._Element) -> dict[str, str]:
    headers: dict[str, str] = {}
    for block in extensions(element, "taskHeaders"):
        for header in block.iterfind(f"{{{ZEEBE}}}header"):
            key = header.get("key", "")
            if not key or key in headers:
                problem = f"the header `{key}` is set twice" if key else "a header has no key"
                findings.add(element, "invalid-header", problem, "Give every header a key of its own.")
            headers[key] = header.get("value", "")
    return headers


def read_mappings(findings: Findings, element: etree._Element) -> dict[str, tuple[IoMapping, ...]]:
    """The element's input and output mappings, in document order."""
    found: dict[str, list[IoMapping | None]] = {"input": [], "output": []}
    for block in extensions(element, "ioMapping"):
        for direction, mappings in found.items():
            for each in block.iterfind(f"{{{ZEEBE}}}{direction}"):
                mappings.append(_mapping(findings, element, each, direction))
    return {
        "inputs": tuple(each for each in found["input"] if each is not None),
        "outputs": tuple(each for each in found["output"] if each is not None),
    }


def _mapping(findings: Findings, element: etree._Element, mapping: etree._Element, direction: str) -> IoMapping | None:
    target = mapping.get("target", "").strip()
    if not PATH.fullmatch(target):
        findings.add(
            element,
            "invalid-mapping-target",
            f"the {direction} mapping's target `{target}` is not a variable name",
            "Use letters, digits and underscores; a dot writes into an object.",
        )
    source = read_value(findings, element, mapping.get("source", ""), f"the source of the {direction} `{target}`")
    return None if source is None else IoMapping(source, target)
