"""Owns the rules that follow paths: what no path reaches, where one stops, joins that wait for ever, loops that never
wait.
Never looks at a diagram with holes in it, and never refuses by itself: it yields problems.
Called by lint.
"""

from __future__ import annotations

from collections.abc import Iterator

from engine.bpmn.definition import ElementType, EventKind, FlowNode, ProcessDefinition, SequenceFlow
from engine.bpmn.rules import problem_at
from engine.bpmn.tokens import Successors, Tokens, cycles, is_link_throw, reachable, without
from engine.errors import Problem

_DATA_SPLITS = frozenset({ElementType.EXCLUSIVE_GATEWAY, ElementType.INCLUSIVE_GATEWAY})
_ONE_OF_SEVERAL = frozenset({ElementType.EXCLUSIVE_GATEWAY, ElementType.EVENT_BASED_GATEWAY})
_AWAITED = frozenset({EventKind.TIMER, EventKind.MESSAGE, EventKind.SIGNAL, EventKind.CONDITIONAL})
# A called process may wait inside, so a loop through it is given the benefit of the doubt.
_WAITING = frozenset({ElementType.RECEIVE_TASK, ElementType.USER_TASK, ElementType.CALL_ACTIVITY})
_WORKING = frozenset(
    {ElementType.SERVICE_TASK, ElementType.BUSINESS_RULE_TASK, ElementType.SCRIPT_TASK, ElementType.SEND_TASK}
)


def lint_paths(definition: ProcessDefinition) -> Iterator[Problem]:
    """The rules that follow paths through a complete definition."""
    tokens = Tokens(definition)
    yield from _check_ends(tokens)
    yield from _check_joins(tokens)
    yield from _check_cycles(tokens)


def _check_ends(tokens: Tokens) -> Iterator[Problem]:
    definition = tokens.definition
    reached = reachable(tokens.openings(None), tokens.everywhere())
    for node in definition.nodes.values():
        if node.id not in reached and (node.parent is None or node.parent in reached):
            yield problem_at(
                definition,
                node,
                "unreachable",
                "no path from the start event leads here",
                "Connect it, or remove it.",
            )
        if not node.outgoing and not _ends_by_nature(node):
            yield problem_at(
                definition,
                node,
                "dead-end",
                "the path stops here without an end event",
                "Draw a flow to the next element or to an end event, whose name says how the path ended.",
                "warning",
            )


def _ends_by_nature(node: FlowNode) -> bool:
    return (
        node.type in (ElementType.END_EVENT, ElementType.EVENT_SUB_PROCESS)
        or node.for_compensation
        or is_link_throw(node)
        or (node.type is ElementType.BOUNDARY_EVENT and node.event_kind is EventKind.COMPENSATION)
    )


# --- joins ------------------------------------------------------------------------------------------------------


def _check_joins(tokens: Tokens) -> Iterator[Problem]:
    """A parallel join waits for a token over each of its flows. Where nothing before it, in its scope, makes two tokens
    of one, it waits for ever."""
    definition, successors = tokens.definition, tokens.successors()
    multiplied = [target for node in definition.nodes.values() for target in _made_several(tokens, node)]
    after_splits = reachable(multiplied, successors)
    for node in definition.nodes.values():
        if node.type is ElementType.PARALLEL_GATEWAY and len(node.incoming) > 1 and node.id not in after_splits:
            yield problem_at(
                definition,
                node,
                "join-never-completes",
                f"the join waits for {len(node.incoming)} paths, of which only one is ever taken",
                "Join alternative paths with an exclusive gateway, or split them with a parallel or inclusive one.",
                "warning",
            )


def _made_several(tokens: Tokens, node: FlowNode) -> list[str]:
    """Where the tokens go that an element makes of one."""
    flows = [tokens.definition.flows[flow] for flow in node.outgoing]
    found = [flow.target for flow in flows] if len(flows) > 1 and node.type not in _ONE_OF_SEVERAL else []
    beside = [event for event in tokens.boundaries[node.id] if not event.interrupting]
    if beside:
        found += [event.id for event in beside] + [flow.target for flow in flows]
    return found


# --- loops ------------------------------------------------------------------------------------------------------


def _check_cycles(tokens: Tokens) -> Iterator[Problem]:
    """A loop must wait, or be left on a condition that the work in it can change."""
    nodes = tokens.definition.nodes
    everywhere = tokens.successors()
    waiting = _waiting(tokens)
    unwaiting = without(everywhere, waiting)
    working = tokens.with_containers(node for node in nodes.values() if _works(node))
    undecided = without(tokens.successors(lambda flow: not _decided(tokens, flow)), waiting)
    by_default = without(tokens.successors(lambda flow: flow.condition is None), waiting)
    order = {node_id: place for place, node_id in enumerate(nodes)}
    told: set[str] = set()
    for parts, is_endless, why in (
        (cycles(without(unwaiting, working)), True, "does no work and never waits, so it can only run for ever"),
        (cycles(undecided), True, "never waits, and no condition decides whether it goes round again"),
        (_closed(cycles(unwaiting), everywhere), True, "never waits, and nothing leads out of it"),
        (cycles(by_default), False, "goes round without a wait for as long as no condition to leave it holds"),
    ):
        for part in parts:
            if told.isdisjoint(part):
                told.update(part)
                looping = sorted(part, key=order.__getitem__)
                message = f"the loop through {', '.join(f'`{node_id}`' for node_id in looping)} {why}"
                yield _loop_problem(tokens.definition, nodes[looping[0]], message, is_endless)


def _loop_problem(definition: ProcessDefinition, first: FlowNode, message: str, is_endless: bool) -> Problem:
    if is_endless:
        remedy = "Put a timer into the loop, or a gateway with a condition that leads out of it."
        return problem_at(definition, first, "endless-loop", message, remedy)
    remedy = "Put the condition on the flow that goes round again, and make the way out the default."
    return problem_at(definition, first, "loop-by-default", message, remedy, "warning")


def _waiting(tokens: Tokens) -> set[str]:
    """Elements at which time passes, and sub-processes on whose paths one lies."""
    nodes = tokens.definition.nodes.values()
    awaited = [node for node in nodes if node.event_kind in _AWAITED]
    caught = [node for node in awaited if node.type is ElementType.INTERMEDIATE_CATCH_EVENT]
    reached_late = {node.id for node in awaited if node.type is ElementType.BOUNDARY_EVENT}
    return reached_late | tokens.with_containers([*caught, *(node for node in nodes if node.type in _WAITING)])


def _works(node: FlowNode) -> bool:
    """Whether running the element can change what the next condition reads."""
    return node.type in _WORKING or node.topic is not None or bool(node.outputs)


def _decided(tokens: Tokens, flow: SequenceFlow) -> bool:
    """Whether a condition decides that a token takes this flow."""
    if flow.condition is not None:
        return True
    source = tokens.definition.nodes[flow.source]
    others = (tokens.definition.flows[other] for other in source.outgoing)
    return (
        source.type in _DATA_SPLITS
        and source.default_flow == flow.id
        and any(other.condition is not None for other in others)
    )


def _closed(parts: list[list[str]], successors: Successors) -> Iterator[list[str]]:
    for part in parts:
        inside = set(part)
        if all(target in inside for node_id in part for target in successors[node_id]):
            yield part
