"""Owns the question whether every variable that a diagram reads is produced by something.
Never evaluates an expression and never refuses: a variable may come from outside, so its findings are warnings.
Called by lint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from engine.bpmn.definition import FlowNode, IoMapping, ProcessDefinition, SequenceFlow, Static, TopicSpec
from engine.errors import Problem


def check_variables(definition: ProcessDefinition, topics: Mapping[str, TopicSpec]) -> list[Problem]:
    """Names that an expression reads or a task requires and that nothing in the process produces.

    Produced are the variables of the start event's example output, the results of tasks and the targets of output
    mappings anywhere in the process. Nothing is reported while a topic is unknown: it might produce anything.
    """
    nodes = definition.nodes.values()
    if any(node.topic and node.topic not in topics for node in nodes):
        return []
    known = set(definition.start_variables or ())
    for node in nodes:
        known |= _produced(node, topics)
    problems = [
        problem
        for flow in definition.flows.values()
        if flow.condition is not None
        for problem in _unknown(definition, flow, flow.condition.names - known, "the condition reads")
    ]
    for node in nodes:
        problems += _check_node(definition, node, known, topics)
    return problems


def _produced(node: FlowNode, topics: Mapping[str, TopicSpec]) -> set[str]:
    if node.outputs:
        return {_root(mapping) for mapping in node.outputs}
    return set(topics[node.topic].outputs) if node.topic else set()


def _root(mapping: IoMapping) -> str:
    return mapping.target.partition(".")[0]


def _names(mapping: IoMapping) -> frozenset[str]:
    return frozenset() if isinstance(mapping.source, Static) else mapping.source.names


def _check_node(
    definition: ProcessDefinition, node: FlowNode, known: set[str], topics: Mapping[str, TopicSpec]
) -> Iterator[Problem]:
    visible = set(known)
    for mapping in node.inputs:
        yield from _unknown(definition, node, _names(mapping) - visible, f"the input `{mapping.target}` reads")
        visible.add(_root(mapping))
    if node.topic:
        yield from _unknown(definition, node, topics[node.topic].required - visible, "the task requires")
        visible |= topics[node.topic].outputs
    if node.timer is not None and not isinstance(node.timer.value, Static):
        yield from _unknown(definition, node, node.timer.value.names - visible, "the timer reads")
    for mapping in node.outputs:
        yield from _unknown(definition, node, _names(mapping) - visible, f"the output `{mapping.target}` reads")
        visible.add(_root(mapping))


def _unknown(
    definition: ProcessDefinition, element: FlowNode | SequenceFlow, names: frozenset[str], who: str
) -> Iterator[Problem]:
    for name in sorted(names):
        yield Problem(
            definition.resource_name,
            element.id,
            element.name,
            "unknown-variable",
            f"{who} `{name}`, which nothing in the process produces",
            "Correct the name, or declare it in the start event's example output.",
            "warning",
        )
