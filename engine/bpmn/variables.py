"""Owns the question whether every variable that a diagram reads is produced by something.
Never evaluates an expression and never refuses: a variable may come from outside, so its findings are warnings.
Called by lint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from engine.bpmn.definition import (
    ElementType,
    EventKind,
    FlowNode,
    IoMapping,
    MultiInstance,
    ProcessDefinition,
    SequenceFlow,
    Static,
    TopicSpec,
)
from engine.bpmn.rules import problem_at
from engine.bpmn.tokens import Tokens, reachable
from engine.errors import Problem
from engine.feel import Expression

Source: TypeAlias = Expression | Static | None

# What Camunda 8 says of a multi-instance to its completion condition.
_COUNTS: Final = frozenset(
    {"numberOfInstances", "numberOfActiveInstances", "numberOfCompletedInstances", "numberOfTerminatedInstances"}
)
_BROUGHT_ALONG: Final = frozenset({EventKind.MESSAGE, EventKind.SIGNAL, EventKind.ERROR})  # with variables of any name
_CATCHING: Final = frozenset(
    {ElementType.START_EVENT, ElementType.INTERMEDIATE_CATCH_EVENT}
    | {ElementType.BOUNDARY_EVENT, ElementType.RECEIVE_TASK}
)


def check_variables(
    definition: ProcessDefinition, topics: Mapping[str, TopicSpec], *, serves_route: bool
) -> list[Problem]:
    """Names that an expression reads or a task requires and that nothing in the process produces.

    Produced are the variables of the start event's example output, results, and the targets of output mappings
    anywhere in the process; inside an activity also its inputs and the item of its multi-instance. Nothing is reported
    after an element whose results nobody can tell: a worker's job, a message, a called process, a person's task, and a
    start that declares nothing, unless the process serves a route, whose start is the gateway's.
    """
    return list(_Reading(definition, topics, serves_route).problems())


class _Reading:
    def __init__(self, definition: ProcessDefinition, topics: Mapping[str, TopicSpec], serves_route: bool) -> None:
        self._definition = definition
        self._topics = topics
        self._start_is_known = serves_route or definition.start_variables is not None
        nodes = definition.nodes.values()
        tokens = Tokens(definition)
        opaque = [node for node in nodes if not node.outputs and self._is_opaque(node)]
        self._silent = _after(tokens, opaque)
        self._holding_opaque = tokens.with_containers(opaque)
        self._known = frozenset(definition.start_variables or ()).union(*map(self._produced, nodes))
        self._locals: dict[str | None, frozenset[str]] = {None: frozenset()}
        for node in nodes:  # outer before inner
            around, declared = self._local(node.parent), _declared(node)
            self._locals[node.id] = around | declared if declared else around

    def problems(self) -> Iterator[Problem]:
        for flow in self._definition.flows.values():
            source = self._definition.nodes.get(flow.source)
            if flow.condition is not None and source is not None and source.id not in self._silent:
                yield from self._unknown(flow, flow.condition, self._local(source.parent), "the condition reads")
        for node in self._definition.nodes.values():
            if node.id not in self._silent:
                yield from self._check_node(node)

    # --- what is written --------------------------------------------------------------------------------------

    def _results(self, node: FlowNode) -> frozenset[str]:
        """The variables that the element's run gives, as far as anybody can tell."""
        if node.script is not None:
            return frozenset({node.script.result_variable})
        if node.decision is not None:
            return frozenset({node.decision.result_variable})
        spec = self._topics.get(node.topic or "")
        return frozenset() if spec is None else spec.outputs

    def _produced(self, node: FlowNode) -> frozenset[str]:
        collected = node.loop.output_collection if node.loop is not None else None
        written = frozenset(map(_root, node.outputs)) or self._results(node)
        return written if collected is None else written | {collected}

    def _is_opaque(self, node: FlowNode) -> bool:
        """Whether nobody can tell which variables the element's run gives."""
        if node.called is not None:
            return node.called.propagate_all_child_variables or bool(node.outputs)
        if node.id == self._definition.start_id:
            return not self._start_is_known
        if node.type in _CATCHING and node.event_kind in _BROUGHT_ALONG:
            return True
        return node.type is ElementType.USER_TASK or (node.topic is not None and node.topic not in self._topics)

    # --- what is read -----------------------------------------------------------------------------------------

    def _local(self, scope: str | None) -> frozenset[str]:
        """What is visible in a scope beside the variables of the process."""
        return self._locals.get(scope, frozenset())

    def _check_node(self, node: FlowNode) -> Iterator[Problem]:
        local = self._local(node.attached_to or node.parent)
        if node.loop is not None:
            yield from self._unknown(node, node.loop.input_collection, local, "the input collection reads")
            local |= _item(node.loop)
        for mapping in node.inputs:
            yield from self._unknown(node, mapping.source, local, f"the input `{mapping.target}` reads")
            local |= {_root(mapping)}
        spec = self._topics.get(node.topic or "")
        if spec is not None:
            yield from self._unknown_names(node, spec.required, local, "the task requires")
        for source, who in _sources(node):
            yield from self._unknown(node, source, local, who)
        if node.id in self._holding_opaque or self._is_opaque(node):
            return
        local |= self._results(node)
        for mapping in node.outputs:
            yield from self._unknown(node, mapping.source, local, f"the output `{mapping.target}` reads")
            local |= {_root(mapping)}
        if node.loop is not None:
            yield from self._unknown(node, node.loop.output_element, local, "the output element reads")
            condition = node.loop.completion_condition
            yield from self._unknown(node, condition, local | _COUNTS, "the completion condition reads")

    def _unknown(
        self, element: FlowNode | SequenceFlow, source: Source, local: frozenset[str], who: str
    ) -> Iterator[Problem]:
        if source is not None and not isinstance(source, Static):
            yield from self._unknown_names(element, source.names, local, who)

    def _unknown_names(
        self, element: FlowNode | SequenceFlow, names: frozenset[str], local: frozenset[str], who: str
    ) -> Iterator[Problem]:
        for name in sorted(name for name in names if name not in self._known and name not in local):
            yield problem_at(
                self._definition,
                element,
                "unknown-variable",
                f"{who} `{name}`, which nothing in the process produces",
                "Correct the name, or declare it in the start event's example output.",
                "warning",
            )


def _after(tokens: Tokens, opaque: list[FlowNode]) -> set[str]:
    """What may run after one of these elements: all of the process, once something can run beside something else."""
    nodes = tokens.definition.nodes
    if not opaque:
        return set()
    if any(_runs_beside(node) for node in nodes.values()):
        return set(nodes)
    onward, everywhere = tokens.successors(), tokens.everywhere()
    starts = {target for node in opaque for target in everywhere[node.id]}
    for container_id in tokens.with_containers(opaque):
        starts.update(onward[container_id])
        if nodes[container_id].loop is not None:  # the next item's run comes after this one's
            starts.update([container_id, *everywhere[container_id]])
    return reachable(starts, everywhere)


def _runs_beside(node: FlowNode) -> bool:
    """Whether the element runs, or lets others run, at the same time as others, or at any time later."""
    chooses = node.type in (ElementType.EXCLUSIVE_GATEWAY, ElementType.EVENT_BASED_GATEWAY)
    return (
        (len(node.outgoing) > 1 and not chooses)
        or (node.type is ElementType.BOUNDARY_EVENT and not node.interrupting)
        or node.type is ElementType.EVENT_SUB_PROCESS
        or node.for_compensation
    )


def _declared(node: FlowNode) -> frozenset[str]:
    """The variables that live in the element itself."""
    inputs = frozenset(map(_root, node.inputs))
    return inputs if node.loop is None else inputs | _item(node.loop)


def _item(loop: MultiInstance) -> frozenset[str]:
    names = {"loopCounter"}
    return frozenset(names if loop.input_element is None else names | {loop.input_element})


def _root(mapping: IoMapping) -> str:
    return mapping.target.partition(".")[0]


def _sources(node: FlowNode) -> Iterator[tuple[Source, str]]:
    if node.script is not None:
        yield node.script.expression, "the script reads"
    if node.event is not None:
        event = node.event
        yield None if event.timer is None else event.timer.value, "the timer reads"
        yield event.name, f"the {event.kind.lower()}'s name reads"
        yield event.correlation_key, "the correlation key reads"
        yield event.condition, "the condition reads"
    if node.user_task is not None:
        task = node.user_task
        yield task.assignee, "the assignee reads"
        yield task.candidate_groups, "the candidate groups read"
        yield task.candidate_users, "the candidate users read"
        yield task.due_date, "the due date reads"
        yield task.follow_up_date, "the follow-up date reads"
        yield task.priority, "the priority reads"
