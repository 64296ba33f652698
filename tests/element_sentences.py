"""Owns saying in one sentence what a flow node means, beside what its surroundings show.
Never reads a file.
Called by the tests of the element diagrams.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from engine.bpmn import ElementType, FlowNode, ProcessDefinition, Static
from engine.bpmn.definition import EventDefinition

# Service tasks that are jobs of their own name, and starts and ends without a symbol, are only there to be connected.
_PLAIN = (ElementType.START_EVENT, ElementType.END_EVENT)


def sentence(node: FlowNode) -> str:
    """What the node means; nothing for an element that only connects."""
    parts = list(_parts(node))
    if not parts and (node.type in _PLAIN or node.type is ElementType.SERVICE_TASK):
        return ""
    return ", ".join([node.type.value.lower().replace("_", " "), *parts])


def sentences(definition: ProcessDefinition) -> Iterator[str]:
    for node in definition.nodes.values():
        said = sentence(node)
        if said:
            yield f"{node.id}: {said}"
    for flow in definition.flows.values():
        if flow.condition is not None:
            yield f"{flow.id}: if {flow.condition.text}"


def _parts(node: FlowNode) -> Iterator[str]:
    if node.parent is not None and node.type not in _PLAIN:
        yield f"in {node.parent}"
    if node.event is not None:
        yield _event(node.event)
    if node.attached_to is not None:
        yield f"on {node.attached_to}"
    if not node.interrupting:
        yield "going on beside it"
    if node.handler is not None:
        yield f"undone by {node.handler}"
    if node.for_compensation:
        yield "to compensate"
    if node.default_flow is not None:
        yield f"else {node.default_flow}"
    if node.topic is not None and (node.type is not ElementType.SERVICE_TASK or node.topic != node.id):
        yield f"job {node.topic}"
    yield from _work(node)
    yield from (f"{mapping.target} in: {_value(mapping.source)}" for mapping in node.inputs)
    yield from (f"{mapping.target} out: {_value(mapping.source)}" for mapping in node.outputs)


def _event(event: EventDefinition) -> str:
    words = [event.kind.value.lower()]
    if event.timer is not None:
        words += [event.timer.kind.value, _value(event.timer.value)]
    words += [_value(each) for each in (event.name, event.condition) if each is not None]
    words += [each for each in (event.code, event.link, event.activity_ref) if each is not None]
    if event.correlation_key is not None:
        words.append(f"for {_value(event.correlation_key)}")
    return " ".join(words)


def _work(node: FlowNode) -> Iterator[str]:
    if node.script is not None:
        yield f"{node.script.result_variable} := {node.script.expression.text}"
    if node.decision is not None:
        yield f"{node.decision.result_variable} := decision {node.decision.decision_id} ({node.decision.binding})"
    if node.called is not None:
        tag = f" {node.called.version_tag}" if node.called.version_tag else ""
        yield f"calls {node.called.process_id} ({node.called.binding}{tag})"
        yield "all variables in" if node.called.propagate_all_parent_variables else "only mapped variables in"
        yield "all variables out" if node.called.propagate_all_child_variables else "only mapped variables out"
    if node.user_task is not None:
        for name in node.user_task.__slots__:
            value = getattr(node.user_task, name)
            if value is not None:
                yield f"{name.replace('_', ' ')} {value if isinstance(value, str) else _value(value)}"
    if node.headers:
        yield f"headers {dict(node.headers)}"
    if node.loop is not None:
        yield from _loop(node.loop)


def _loop(loop: Any) -> Iterator[str]:
    item = f" as {loop.input_element}" if loop.input_element else ""
    yield f"{'one by one' if loop.sequential else 'all at once'} for each of {loop.input_collection.text}{item}"
    if loop.output_collection is not None:
        yield f"{loop.output_collection} collects {loop.output_element.text}"
    if loop.completion_condition is not None:
        yield f"until {loop.completion_condition.text}"


def _value(value: Any) -> str:
    return f"'{value.text}'" if isinstance(value, Static) else f"={value.text}"
