"""Owns where tokens can go in a definition: what follows what, what opens with a scope, what lies on a cycle.
Never judges anything; every question is answered in time linear in the size of the diagram.
Called by the rules about paths, retries, calls and variables.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from engine.bpmn.definition import ElementType, EventKind, FlowNode, ProcessDefinition, SequenceFlow

Successors: TypeAlias = Mapping[str, Sequence[str]]

SCOPES = frozenset({ElementType.SUB_PROCESS, ElementType.EVENT_SUB_PROCESS})


class Tokens:
    """Lookups over one process definition, complete or not. A scope is named by the id of its sub-process; null is the
    process."""

    def __init__(self, definition: ProcessDefinition) -> None:
        self.definition = definition
        self.children: defaultdict[str | None, list[FlowNode]] = defaultdict(list)
        self.boundaries: defaultdict[str, list[FlowNode]] = defaultdict(list)  # by the activity they are attached to
        for node in definition.nodes.values():
            self.children[node.parent].append(node)
            if node.attached_to is not None:
                self.boundaries[node.attached_to].append(node)

    def successors(self, keep: Callable[[SequenceFlow], bool] = lambda flow: True) -> dict[str, list[str]]:
        """Where a token goes within its scope: along kept sequence flows, to the events on an activity's border, from
        a link to its other end."""
        nodes = self.definition.nodes
        found: dict[str, list[str]] = {node_id: [] for node_id in nodes}
        links = {
            (node.parent, node.event.link): node.id
            for node in nodes.values()
            if node.event is not None and node.type is ElementType.INTERMEDIATE_CATCH_EVENT
        }
        for flow in self.definition.flows.values():
            if flow.source in nodes and flow.target in nodes and keep(flow):
                found[flow.source].append(flow.target)
        for node in nodes.values():
            if node.attached_to is not None and node.attached_to in nodes:
                found[node.attached_to].append(node.id)
            if is_link_throw(node) and node.event is not None and (node.parent, node.event.link) in links:
                found[node.id].append(links[node.parent, node.event.link])
        return found

    def openings(self, scope: str | None) -> Iterator[str]:
        """What a scope lets run when it opens: its start events (where it has none, whatever no flow leads to) and its
        event sub-processes."""
        children = self.children[scope]
        starts = [node for node in children if node.type is ElementType.START_EVENT]
        for node in starts or filter(_starts_by_itself, children):
            yield node.id
        for node in children:
            if node.type is ElementType.EVENT_SUB_PROCESS:
                yield node.id

    def everywhere(self) -> dict[str, list[str]]:
        """As `successors`, and into sub-processes and to the handlers of compensation."""
        following = self.successors()
        for node in self.definition.nodes.values():
            if node.type in SCOPES:
                following[node.id] += self.openings(node.id)
            if node.handler is not None and node.handler in following:
                following[node.id].append(node.handler)
        return following

    def ancestors(self, node: FlowNode) -> Iterator[str]:
        """The sub-processes around a flow node, from the innermost out."""
        parent = node.parent
        while parent is not None and parent in self.definition.nodes:
            yield parent
            parent = self.definition.nodes[parent].parent

    def with_containers(self, nodes: Iterable[FlowNode]) -> set[str]:
        """These flow nodes, and every sub-process that holds one of them."""
        found: set[str] = set()
        for node in nodes:
            found.add(node.id)
            for ancestor in self.ancestors(node):
                if ancestor in found:
                    break
                found.add(ancestor)
        return found


def is_link_throw(node: FlowNode) -> bool:
    return node.event_kind is EventKind.LINK and node.type is ElementType.INTERMEDIATE_THROW_EVENT


def _starts_by_itself(node: FlowNode) -> bool:
    runs_later = node.attached_to is not None or node.for_compensation or node.type is ElementType.EVENT_SUB_PROCESS
    return not node.incoming and not runs_later and node.event_kind is not EventKind.LINK


def reachable(starts: Iterable[str], successors: Successors) -> set[str]:
    """The starts, and all that can be reached from them."""
    found: set[str] = set()
    waiting = list(starts)
    while waiting:
        node_id = waiting.pop()
        if node_id not in found:
            found.add(node_id)
            waiting.extend(successors.get(node_id, ()))
    return found


def without(successors: Successors, left_out: set[str]) -> dict[str, list[str]]:
    """The graph that is left when some nodes are taken away."""
    return {
        source: [target for target in targets if target not in left_out]
        for source, targets in successors.items()
        if source not in left_out
    }


def cycles(successors: Successors) -> list[list[str]]:
    """The strongly connected parts that hold a cycle: the algorithm of Kosaraju and Sharir, "A strong-connectivity
    algorithm and its applications in data flow analysis" (1981), without recursion."""
    backwards: dict[str, list[str]] = {node_id: [] for node_id in successors}
    for source, targets in successors.items():
        for target in targets:
            backwards[target].append(source)
    found: list[list[str]] = []
    seen: set[str] = set()
    for root in reversed(_finished(successors)):
        part: list[str] = []
        waiting = [root]
        while waiting:
            node_id = waiting.pop()
            if node_id not in seen:
                seen.add(node_id)
                part.append(node_id)
                waiting.extend(backwards[node_id])
        if len(part) > 1 or (part and part[0] in successors[part[0]]):
            found.append(part)
    return found


def _finished(successors: Successors) -> list[str]:
    """The nodes in the order in which a depth-first search leaves them."""
    order: list[str] = []
    seen: set[str] = set()
    for root in successors:
        if root in seen:
            continue
        seen.add(root)
        calls = [(root, iter(successors[root]))]
        while calls:
            node_id, targets = calls[-1]
            following = next((target for target in targets if target not in seen), None)
            if following is None:
                order.append(node_id)
                calls.pop()
            else:
                seen.add(following)
                calls.append((following, iter(successors[following])))
    return order
