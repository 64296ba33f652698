"""Owns short BPMN texts for tests of the dialect, and what a definition says without its bytes.
Never lays out a picture.
Called by the tests of the dialect and of the public suite.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from engine.bpmn import FlowNode, ProcessDefinition, parse
from engine.errors import DefinitionInvalid, Problem
from engine.feel import Expression

HEAD = (
    '<bpmn:definitions xmlns:bpmn="http://www.omg.org/spec/BPMN/20100524/MODEL" '
    'xmlns:zeebe="http://camunda.org/schema/zeebe/1.0" xmlns:camunda="http://camunda.org/schema/1.0/bpmn" '
    'xmlns:other="http://example.org/other">'
)
START, END = '<bpmn:startEvent id="s"/>', '<bpmn:endEvent id="e"/>'


def file_of(*content: str) -> bytes:
    return f"{HEAD}{''.join(content)}</bpmn:definitions>".encode()


def process(*elements: str, roots: str = "", attributes: str = "", id: str = "p") -> bytes:
    """A file with one executable process."""
    opening = f'{roots}<bpmn:process id="{id}" isExecutable="true" {attributes}>'
    return file_of(opening, *elements, "</bpmn:process>")


def flow(source: str, target: str, content: str = "") -> str:
    opening = f'<bpmn:sequenceFlow id="{source}_{target}" sourceRef="{source}" targetRef="{target}">'
    return f"{opening}{content}</bpmn:sequenceFlow>"


def extended(extensions: str) -> str:
    return f"<bpmn:extensionElements>{extensions}</bpmn:extensionElements>"


def job(id: str, content: str = "", attributes: str = "") -> str:
    """A service task whose topic is `work`."""
    words = extended('<zeebe:taskDefinition type="work"/>')
    return f'<bpmn:serviceTask id="{id}" {attributes}>{words}{content}</bpmn:serviceTask>'


def element(tag: str, id: str, content: str = "", attributes: str = "") -> str:
    return f'<bpmn:{tag} id="{id}" {attributes}>{content}</bpmn:{tag}>'


def between(*elements: str, roots: str = "", id: str = "x") -> bytes:
    """A process that leads from its start to the element `x` and from there to its end, with more elements beside."""
    return process(START, END, flow("s", id), flow(id, "e"), *elements, roots=roots)


def beside(*elements: str, roots: str = "") -> bytes:
    """A process with one task `t`, and more elements beside."""
    return process(START, job("t"), END, flow("s", "t"), flow("t", "e"), *elements, roots=roots)


def read_one(xml: bytes) -> ProcessDefinition:
    (definition,) = parse(xml, "a.bpmn")
    return definition


def node_of(xml: bytes, id: str = "x") -> FlowNode:
    return read_one(xml).nodes[id]


def problems_of(xml: bytes) -> tuple[Problem, ...]:
    with pytest.raises(DefinitionInvalid) as refused:
        parse(xml, "a.bpmn")
    assert all(problem.message and problem.remedy.endswith(".") for problem in refused.value.problems)
    return refused.value.problems


def rules_of(xml: bytes) -> list[tuple[str, str]]:
    """Rule and element of every problem."""
    return [(problem.rule, problem.element_id) for problem in problems_of(xml)]


def plain(part: Any) -> Any:
    """A definition, or a part of it, as plain data: expressions are their texts, what comes from the file's bytes and
    from the line of an element is left out."""
    if isinstance(part, Expression):
        return f"={part.text}"
    if isinstance(part, Mapping):
        return {key: plain(each) for key, each in part.items()}
    if isinstance(part, tuple):
        return [plain(each) for each in part]
    if hasattr(part, "__slots__") and not isinstance(part, str):
        ignored = ("source_line", "xml", "content_hash", "resource_name", "name")
        names = [slot for slot in part.__slots__ if slot not in ignored or (slot == "name" and hasattr(part, "kind"))]
        return {slot: plain(getattr(part, slot)) for slot in names}
    return part
