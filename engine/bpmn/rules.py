"""Owns the rules that a readable diagram can still break: dead ends, endless loops, missing conditions, unknown topics.
Never reads XML or files, and never refuses by itself: it yields problems.
Called by lint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias

from engine.bpmn.definition import ElementType, FlowNode, ProcessDefinition, SequenceFlow, TopicSpec
from engine.errors import Problem

Topics: TypeAlias = Mapping[str, TopicSpec]


def lint_elements(definition: ProcessDefinition, topics: Topics | None) -> Iterator[Problem]:
    """The rules that look at one element; they hold for an incomplete definition too."""
    for node in definition.nodes.values():
        yield from _check_name(definition, node)
        if node.type is ElementType.EXCLUSIVE_GATEWAY:
            yield from _check_gateway(definition, node)
        elif node.type is ElementType.SERVICE_TASK and node.topic:
            yield from _check_topic(definition, node, topics)
    yield from _check_boundary_events(definition)


def problem_at(
    definition: ProcessDefinition,
    element: FlowNode | SequenceFlow,
    rule: str,
    message: str,
    remedy: str,
    severity: str = "error",
) -> Problem:
    return Problem(definition.resource_name, element.id, element.name, rule, message, remedy, severity)


# --- one element ------------------------------------------------------------------------------------------------


def _check_name(definition: ProcessDefinition, node: FlowNode) -> Iterator[Problem]:
    joins_only = node.type is ElementType.EXCLUSIVE_GATEWAY and len(node.outgoing) < 2
    if not node.name and not joins_only:
        message, remedy = "the element has no name", "Name it so that a manager understands the picture."
        yield problem_at(definition, node, "empty-name", message, remedy, "warning")


def _check_gateway(definition: ProcessDefinition, node: FlowNode) -> Iterator[Problem]:
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


def _check_topic(definition: ProcessDefinition, node: FlowNode, topics: Topics | None) -> Iterator[Problem]:
    topic = node.topic or ""
    if node.id != topic and not node.id.startswith(f"{topic}_"):
        yield problem_at(
            definition,
            node,
            "id-is-topic",
            f"the element's id is not its topic `{topic}`, so its steps and its work would carry different names",
            f"Set the id to `{topic}`, or to `{topic}_` and a word when several elements share the topic.",
        )
    if topics is not None and topic not in topics:
        yield problem_at(
            definition,
            node,
            "unknown-topic",
            f"no task serves the topic `{topic}`",
            f"Use one of: {', '.join(sorted(topics)) or 'none is registered'}.",
        )
    if node.retries > 1 and _drawn_retry(definition, node):
        yield problem_at(
            definition,
            node,
            "two-owners-of-retry",
            f"the diagram draws the retry of this task and its job is also tried {node.retries} times; they multiply",
            'Set retries="1" in its task definition, or remove the loop.',
        )


def _drawn_retry(definition: ProcessDefinition, task: FlowNode) -> bool:
    """Whether a path from an error boundary event of the task leads back to it."""
    catching = [node.id for node in definition.nodes.values() if node.attached_to == task.id and node.catches_error]
    return task.id in _reachable(catching, _successors(definition))


def _check_boundary_events(definition: ProcessDefinition) -> Iterator[Problem]:
    catching: dict[tuple[str | None, str | None], FlowNode] = {}
    for node in definition.nodes.values():
        if not node.catches_error:
            continue
        first = catching.setdefault((node.attached_to, node.error_code), node)
        if first is not node:
            what = f"the code `{node.error_code}`" if node.error_code else "every code"
            yield problem_at(
                definition,
                node,
                "duplicate-error-catch",
                f"`{first.id}` on the same task already catches {what}",
                "Keep one of the two, or give them different codes.",
            )


# --- paths ------------------------------------------------------------------------------------------------------

Successors: TypeAlias = Mapping[str, list[str]]


def _successors(definition: ProcessDefinition, keep: Callable[[SequenceFlow], bool] = lambda flow: True) -> Successors:
    """Where a token can go next: along sequence flows, and from a task to the events on its border."""
    successors: dict[str, list[str]] = {node_id: [] for node_id in definition.nodes}
    for flow in definition.flows.values():
        if flow.source in successors and flow.target in successors and keep(flow):
            successors[flow.source].append(flow.target)
    for node in definition.nodes.values():
        if node.attached_to in successors:
            successors[node.attached_to].append(node.id)
    return successors


def _reachable(starts: Iterable[str], successors: Successors) -> set[str]:
    found: set[str] = set()
    waiting = list(starts)
    while waiting:
        node_id = waiting.pop()
        if node_id not in found:
            found.add(node_id)
            waiting.extend(successors[node_id])
    return found


def lint_paths(definition: ProcessDefinition) -> Iterator[Problem]:
    """The rules that follow paths through a complete definition."""
    reached = _reachable([definition.start_id], _successors(definition))
    for node in definition.nodes.values():
        if node.id not in reached:
            yield problem_at(
                definition,
                node,
                "unreachable",
                "no path from the start event leads here",
                "Connect it, or remove it.",
            )
        if not node.outgoing and node.type is not ElementType.END_EVENT:
            yield problem_at(
                definition,
                node,
                "dead-end",
                "the path stops here without an end event",
                "Draw a flow to the next element or to an end event, whose name says how the path ended.",
            )
    yield from _check_loops(definition)


def _check_loops(definition: ProcessDefinition) -> Iterator[Problem]:
    """A loop must wait (a timer) or be bounded (a condition to go on, with work in the loop that can change it)."""
    timers = {n.id for n in definition.nodes.values() if n.type is ElementType.INTERMEDIATE_CATCH_EVENT}
    tasks = {n.id for n in definition.nodes.values() if n.type is ElementType.SERVICE_TASK}
    idle = _on_cycles(_without(_successors(definition), timers | tasks))
    unbounded = _on_cycles(_without(_successors(definition, lambda flow: flow.condition is None), timers))
    for looping, why in (
        (idle, "does no work and never waits, so it can only run for ever"),
        (unbounded - idle, "neither waits nor has a condition for going round again"),
    ):
        elements = [node for node in definition.nodes.values() if node.id in looping]
        if elements:
            through = ", ".join(f"`{node.id}`" for node in elements)
            message = f"the loop through {through} {why}"
            remedy = "Put a timer into the loop, or a condition on the flow that leads back."
            yield problem_at(definition, elements[0], "endless-loop", message, remedy)


def _without(successors: Successors, left_out: set[str]) -> Successors:
    return {
        source: [target for target in targets if target not in left_out]
        for source, targets in successors.items()
        if source not in left_out
    }


def _on_cycles(successors: Successors) -> set[str]:
    """The nodes that lie on a cycle, or on a path between two cycles."""
    return set(_without_beginnings(_reversed(_without_beginnings(successors))))


def _reversed(successors: Successors) -> Successors:
    reverse: dict[str, list[str]] = {node_id: [] for node_id in successors}
    for source, targets in successors.items():
        for target in targets:
            reverse[target].append(source)
    return reverse


def _without_beginnings(successors: Successors) -> Successors:
    """Take away the nodes that nothing leads to, again and again until each one left has a predecessor."""
    arrivals = {node_id: len(sources) for node_id, sources in _reversed(successors).items()}
    waiting = [node_id for node_id, count in arrivals.items() if count == 0]
    removed: set[str] = set()
    while waiting:
        node_id = waiting.pop()
        removed.add(node_id)
        for target in successors[node_id]:
            arrivals[target] -= 1
            if arrivals[target] == 0:
                waiting.append(target)
    return _without(successors, removed)
