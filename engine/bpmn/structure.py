"""Owns what follows from a process definition: who catches what, where scopes start, what can still reach a join.
Never changes once built, and never knows an instance.
Called by the core for every element that needs more than its own fields; built once per definition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache

from engine.bpmn.definition import ElementType, EventKind, FlowNode, ProcessDefinition

# Events that are armed when their scope or activity opens; errors, escalations and compensations come by themselves.
_AWAITED = frozenset({EventKind.TIMER, EventKind.MESSAGE, EventKind.SIGNAL, EventKind.CONDITIONAL})
_JOINS = frozenset({ElementType.PARALLEL_GATEWAY, ElementType.INCLUSIVE_GATEWAY})


class Structure:
    """Lookups over one process definition. A scope is named by the id of its sub-process; null is the process."""

    def __init__(self, definition: ProcessDefinition) -> None:
        self.definition = definition
        nodes = definition.nodes.values()
        boundaries = [node for node in nodes if node.attached_to is not None]
        starts = [node for node in nodes if node.type is ElementType.START_EVENT]
        self._attached = _grouped((node.attached_to, node) for node in boundaries)
        self._awaited = _grouped((node.attached_to, node) for node in boundaries if node.event_kind in _AWAITED)
        self._plain_starts = {node.parent: node for node in starts if node.event is None}
        reactions = [
            (definition.nodes[start.parent].parent, start)
            for start in starts
            if start.parent is not None and definition.nodes[start.parent].type is ElementType.EVENT_SUB_PROCESS
        ]
        self._reactions = _grouped(reactions)
        self._awaited_reactions = _grouped((scope, start) for scope, start in reactions if start.event_kind in _AWAITED)
        self._handlers = {
            node.attached_to: definition.nodes[node.handler]
            for node in boundaries
            if node.handler is not None and node.handler in definition.nodes
        }
        self.compensates = bool(self._handlers)
        self._links = {
            (node.parent, node.event.link): node
            for node in nodes
            if node.event is not None
            and node.event.kind is EventKind.LINK
            and node.type is ElementType.INTERMEDIATE_CATCH_EVENT
        }
        self.reaching = cache(self._reaching)
        self._before = cache(self._sources)

    # --- events -----------------------------------------------------------------------------------------------

    def awaited_by(self, activity_id: str) -> tuple[FlowNode, ...]:
        """The boundary events of an activity that wait for a timer, message, signal or condition, document order."""
        return self._awaited.get(activity_id, ())

    def awaited_in(self, scope_id: str | None) -> tuple[FlowNode, ...]:
        """The start events of a scope's event sub-processes that wait for something, document order."""
        return self._awaited_reactions.get(scope_id, ())

    def caught_at(self, activity_id: str, kind: EventKind, code: str) -> FlowNode | None:
        """The one boundary event of an activity that catches an error or escalation: that of the code, else of any."""
        return _catching(self._attached.get(activity_id, ()), kind, code)

    def caught_in(self, scope_id: str | None, kind: EventKind, code: str) -> FlowNode | None:
        """The one event sub-process start of a scope that catches an error or escalation."""
        return _catching(self._reactions.get(scope_id, ()), kind, code)

    def handler_of(self, activity_id: str) -> FlowNode | None:
        """The activity that compensates this one."""
        return self._handlers.get(activity_id)

    def link_target(self, node: FlowNode) -> FlowNode:
        """Where a link throw event leads. Raises KeyError when nothing catches it."""
        return self._links[node.parent, node.event.link if node.event else None]

    # --- scopes -----------------------------------------------------------------------------------------------

    def start_of(self, scope_id: str | None) -> FlowNode:
        """The none start event of a scope. Raises KeyError when it has none."""
        return self._plain_starts[scope_id]

    def around(self, node: FlowNode) -> tuple[FlowNode, ...]:
        """The sub-processes around a flow node, from the outermost in."""
        found: list[FlowNode] = []
        parent = node.parent
        while parent is not None:
            found.append(self.definition.nodes[parent])
            parent = found[-1].parent
        return tuple(reversed(found))

    # --- joins ------------------------------------------------------------------------------------------------

    def _reaching(self, join_id: str, flow_id: str) -> frozenset[str]:
        """The flow nodes from which a token can come over this flow without passing the join before."""
        before = self._before()
        found: set[str] = set()
        waiting = [self.definition.flows[flow_id].source]
        while waiting:
            node_id = waiting.pop()
            if node_id not in found and node_id != join_id:
                found.add(node_id)
                waiting += before[node_id]
        return frozenset(found)

    def _sources(self) -> Mapping[str, list[str]]:
        """From which flow nodes a token comes to each."""
        definition = self.definition
        before: dict[str, list[str]] = {node_id: [] for node_id in definition.nodes}
        for flow in definition.flows.values():
            before[flow.target].append(flow.source)
        for node in definition.nodes.values():
            if node.attached_to is not None:
                before[node.id].append(node.attached_to)
            if node.type is ElementType.INTERMEDIATE_THROW_EVENT and node.event_kind is EventKind.LINK:
                before[self.link_target(node).id].append(node.id)
        return before


def is_join(node: FlowNode) -> bool:
    """Whether tokens wait for each other here."""
    return node.type in _JOINS and len(node.incoming) > 1


def body_and_inner(node: FlowNode) -> tuple[FlowNode, FlowNode]:
    """A multi-instance activity as the two elements that it is: the body, and what the body runs for each item."""
    body = replace(node, type=ElementType.MULTI_INSTANCE_BODY, inputs=(), outputs=())
    inner = replace(node, loop=None, incoming=(), outgoing=())
    return body, inner


def _grouped(pairs: Iterable[tuple[str | None, FlowNode]]) -> Mapping[str | None, tuple[FlowNode, ...]]:
    found: dict[str | None, tuple[FlowNode, ...]] = {}
    for key, node in pairs:
        found[key] = (*found.get(key, ()), node)
    return found


def _catching(events: Iterable[FlowNode], kind: EventKind, code: str) -> FlowNode | None:
    catch_all = None
    for node in events:
        if node.event is not None and node.event.kind is kind:
            if node.event.code == code:
                return node
            if node.event.code is None and catch_all is None:
                catch_all = node
    return catch_all
