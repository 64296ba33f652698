"""Owns the rules that look at one element and its neighbours: names, conditions, topics, retries, events caught twice.
Never follows a path, reads XML or refuses by itself: it yields problems.
Called by lint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from engine.bpmn.definition import (
    ElementType,
    EventKind,
    FlowNode,
    ProcessDefinition,
    SequenceFlow,
    TopicSpec,
)
from engine.bpmn.tokens import Tokens, cycles
from engine.errors import Problem

Topics: TypeAlias = Mapping[str, TopicSpec]

_DATA_SPLITS = frozenset({ElementType.EXCLUSIVE_GATEWAY, ElementType.INCLUSIVE_GATEWAY})
_NAMELESS = frozenset({ElementType.PARALLEL_GATEWAY, ElementType.EVENT_BASED_GATEWAY})
_PLAIN_ENDS = frozenset({ElementType.START_EVENT, ElementType.END_EVENT})


def lint_elements(
    definition: ProcessDefinition, topics: Topics | None, *, serves_route: bool, workers: bool
) -> Iterator[Problem]:
    """The rules that look at one element; they hold for an incomplete definition too."""
    for node in definition.nodes.values():
        yield from _check_name(definition, node)
        if node.type in _DATA_SPLITS:
            yield from _check_split(definition, node)
        if node.topic and node.type is not ElementType.USER_TASK:
            yield from _check_topic(definition, node, topics, workers and not serves_route)
        if node.type is ElementType.USER_TASK and serves_route:
            yield problem_at(
                definition,
                node,
                "person-in-request",
                "a request would stop here with an incident: it never waits for a person",
                "Remove the user task, or keep it in a process that no request runs through.",
            )
        yield from _check_correlation(definition, node)
    yield from _check_retries(definition, topics)
    yield from _check_catches(definition)


def problem_at(
    definition: ProcessDefinition,
    element: FlowNode | SequenceFlow,
    rule: str,
    message: str,
    remedy: str,
    severity: str = "error",
) -> Problem:
    return Problem(definition.resource_name, element.id, element.name, rule, message, remedy, severity)


def _check_name(definition: ProcessDefinition, node: FlowNode) -> Iterator[Problem]:
    joins_only = node.type in _DATA_SPLITS and len(node.outgoing) < 2
    inner_end = node.type in _PLAIN_ENDS and node.parent is not None and node.event is None
    undoing = node.type is ElementType.BOUNDARY_EVENT and node.event_kind is EventKind.COMPENSATION
    if not node.name and not (joins_only or inner_end or undoing or node.type in _NAMELESS):
        message, remedy = "the element has no name", "Name it so that a manager understands the picture."
        yield problem_at(definition, node, "empty-name", message, remedy, "warning")


def _check_split(definition: ProcessDefinition, node: FlowNode) -> Iterator[Problem]:
    flows = [definition.flows[flow] for flow in node.outgoing]
    if len(flows) < 2:
        return
    for flow in flows:
        if flow.condition is None and flow.id != node.default_flow:
            yield problem_at(
                definition,
                flow,
                "missing-condition",
                f"the flow leaves the gateway `{node.id}` without a condition",
                "Give it a FEEL condition, or make it the default flow.",
            )
        if not flow.name:
            message, remedy = "a branch of a gateway has no name", "Name the answer that it stands for."
            yield problem_at(definition, flow, "empty-name", message, remedy, "warning")
    if node.default_flow is None:
        yield problem_at(
            definition,
            node,
            "no-default-flow",
            "when no condition holds, the instance stops here with an incident",
            "Make one flow the default flow.",
            "warning",
        )


# --- work -------------------------------------------------------------------------------------------------------


def _check_topic(
    definition: ProcessDefinition, node: FlowNode, topics: Topics | None, workers: bool
) -> Iterator[Problem]:
    """A topic without a task of ours is work for a worker elsewhere, whose topics many elements may share; but nobody
    else serves the requests of a route."""
    topic = node.topic or ""
    if topics is None:
        return
    if topic not in topics:
        registered = ", ".join(sorted(topics)) or "none is registered"
        remedy = f"Use one of: {registered}."
        yield problem_at(
            definition,
            node,
            "unknown-topic",
            f"no task serves the topic `{topic}`",
            f"{remedy[:-1]}; or run a worker that activates the jobs of this topic." if workers else remedy,
            "warning" if workers else "error",
        )
    elif node.id != topic and not node.id.startswith(f"{topic}_"):
        yield problem_at(
            definition,
            node,
            "id-is-topic",
            f"the element's id is not its topic `{topic}`, so its steps and its work would carry different names",
            f"Set the id to `{topic}`, or to `{topic}_` and a word when several elements share the topic.",
        )


def _check_retries(definition: ProcessDefinition, topics: Topics | None) -> Iterator[Problem]:
    """Where a path from an activity's error boundary event leads back to it, the diagram draws its retry. What a worker
    elsewhere calls a BPMN error may be another thing than what it calls a failure: there it is a warning."""
    tokens = Tokens(definition)
    part_of = {node_id: number for number, part in enumerate(cycles(tokens.successors())) for node_id in part}
    for node in definition.nodes.values():
        if not node.topic or node.retries < 2 or node.id not in part_of:
            continue
        errors = [event for event in tokens.boundaries[node.id] if event.catches_error]
        if any(part_of.get(event.id) == part_of[node.id] for event in errors):
            ours = topics is None or node.topic in topics
            yield problem_at(
                definition,
                node,
                "two-owners-of-retry",
                f"the diagram draws this task's retry and its job is tried {node.retries} times too; they multiply",
                'Set retries="1" in its task definition, or remove the loop.',
                "error" if ours else "warning",
            )


# --- events -----------------------------------------------------------------------------------------------------


def _check_correlation(definition: ProcessDefinition, node: FlowNode) -> Iterator[Problem]:
    key = None if node.event is None else node.event.correlation_key
    if key is not None and not key.names and not key.possible_names:
        yield problem_at(
            definition,
            node,
            "constant-correlation-key",
            f"the correlation key `={key.text}` is the same for every instance, so a message may reach any of them",
            "Use a variable that tells the instances apart.",
            "warning",
        )


def _check_catches(definition: ProcessDefinition) -> Iterator[Problem]:
    """Of two events that catch the same error at the same activity or in the same scope, the second would never run."""
    catching: dict[tuple[str, str | None, str | None], FlowNode] = {}
    for node in definition.nodes.values():
        if not node.catches_error:
            continue
        event_sub_process = definition.nodes.get(node.parent or "")
        scope = None if event_sub_process is None else event_sub_process.parent
        at_activity = node.type is ElementType.BOUNDARY_EVENT
        place = ("activity", node.attached_to) if at_activity else ("scope", scope)
        first = catching.setdefault((*place, node.error_code), node)
        if first is not node:
            what = f"the code `{node.error_code}`" if node.error_code else "every code"
            yield problem_at(
                definition,
                node,
                "duplicate-error-catch",
                f"`{first.id}` {'on the same task' if at_activity else 'in the same scope'} already catches {what}",
                "Keep one of the two, or give them different codes.",
            )
