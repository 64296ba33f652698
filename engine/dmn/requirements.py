"""Owns what requires what in one DMN file: its decisions, input data and knowledge models, and an order of evaluation.
Never reads logic.
Called by the reader of a file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from lxml import etree

from engine.dmn.decision import Bound
from engine.dmn.source import Source, spaced

DECISION: Final = "decision"
INPUT_DATA: Final = "inputData"
KNOWLEDGE: Final = "businessKnowledgeModel"
SERVICE: Final = "decisionService"
MAX_NODES: Final = 2_000


class Node(NamedTuple):
    """A decision, input data, knowledge model or service: its names to others, and the ids of what it requires."""

    id: str
    kind: str
    name: str
    element: etree._Element
    names: tuple[str, ...]
    requires: tuple[str, ...]


class Requirements:
    """The graph of one file. What is wrong with it goes to the problems of the source."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._nodes: dict[str, Node] = {}
        for element in source.children(source.root, INPUT_DATA, DECISION, KNOWLEDGE, SERVICE):
            if len(self._nodes) == MAX_NODES:
                message = f"the file has more than {MAX_NODES} decisions, inputs, models and services"
                source.add(None, "file-too-complex", message, "Split it into several files.")
                break
            self._add(element)
        self._required = {node.id: self._found(node) for node in self._nodes.values()}
        self.order = self._sorted()

    def of_kind(self, kind: str) -> Iterator[Node]:
        """The nodes of a kind, in document order."""
        return (node for node in self._nodes.values() if node.kind == kind)

    def in_order(self) -> list[Node]:
        """The decisions, each after those that it requires."""
        return [self._nodes[each] for each in self.order]

    def required(self, node: Node, *kinds: str) -> list[Node]:
        """The nodes of these kinds that a node requires directly; of a decision service, its output decisions."""
        return [each for each in self._required[node.id] if each.kind in kinds]

    def bound(self, node: Node, *kinds: str) -> Bound:
        """The names by which a node sees the nodes of these kinds that it requires."""
        return tuple((name, each.id) for each in self.required(node, *kinds) for name in each.names)

    def named(self, element: etree._Element, kind: str, wanted: str) -> list[Node]:
        """The nodes of a kind that the `wanted` children of an element refer to."""
        targets = self._targets(element, wanted)
        return [self._nodes[each] for each in targets if each in self._nodes and self._nodes[each].kind == kind]

    def visible(self, node: Node) -> frozenset[str]:
        """The names of everything that a node requires."""
        return frozenset(name for each in self._required[node.id] for name in each.names)

    def names(self) -> Iterator[str]:
        """The names of everything in the file."""
        for node in self._nodes.values():
            yield from node.names

    def called_by(self, node: Node) -> set[str]:
        """The ids of the knowledge models and services that a node calls, directly or through what it calls."""
        seen: dict[str, Node] = {}
        pending = self.required(node, KNOWLEDGE, SERVICE)
        while pending:
            each = pending.pop()
            if each.id not in seen:
                seen[each.id] = each
                pending += self.required(each, KNOWLEDGE, SERVICE, DECISION)
        return {each.id for each in seen.values() if each.kind in (KNOWLEDGE, SERVICE)}

    def _add(self, element: etree._Element) -> None:
        name = self._source.required(element, "name")
        own_id = element.get("id", "")
        kind = self._source.kind(element)
        if not own_id:
            message = f"the {kind} `{name}` has no id; its name is used"
            self._source.add(element, "missing-id", message, "Give it an id.", "warning")
        # As in Camunda 8: by the name of its variable, else by its id; and by its name, as DMN has it.
        variable = self._source.child(element, "variable")
        written = "" if variable is None else spaced(variable.get("name", ""))
        names = (written,) if written else tuple(dict.fromkeys((own_id or name, name)))
        node = Node(own_id or name, kind, name, element, names, tuple(self._references(element)))
        if node.id in self._nodes:
            message = f"the id `{node.id}` belongs to two elements"
            self._source.add(element, "duplicate-id", message, "Give each element an id of its own.")
        self._nodes[node.id] = node

    def _references(self, element: etree._Element) -> Iterator[str]:
        for requirement in self._source.children(element, "informationRequirement", "knowledgeRequirement"):
            yield from self._targets(requirement, "requiredInput", "requiredDecision", "requiredKnowledge")
        yield from self._targets(element, "outputDecision")

    def _targets(self, element: etree._Element, *kinds: str) -> Iterator[str]:
        for target in self._source.children(element, *kinds):
            namespace, _, wanted = target.get("href", "").rpartition("#")
            if namespace and namespace != self._source.root.get("namespace"):
                message = f"it requires `{wanted}` of another file, `{namespace}`"
                self._source.add(element, "external-reference", message, "Put both into one file.")
            else:
                yield wanted

    def _found(self, node: Node) -> list[Node]:
        for wanted in node.requires:
            if wanted not in self._nodes:
                message = f"it requires `{wanted}`, which is not in the file"
                self._source.add(node.element, "dangling-reference", message, "Draw the requirement anew.")
        return [self._nodes[wanted] for wanted in dict.fromkeys(node.requires) if wanted in self._nodes]

    def _sorted(self) -> dict[str, int]:
        """The place of each decision in an order in which what is required comes first; circles are noted."""
        place: dict[str, int] = {}
        for start in self.of_kind(DECISION):
            path: dict[str, Iterator[Node]] = {}
            pending = [start]
            while pending:
                node = pending[-1]
                if node.id not in path and node.id not in place:
                    path[node.id] = iter(self.required(node, DECISION))
                following = next(path.get(node.id, iter(())), None)
                if following is None:
                    pending.pop()
                    if path.pop(node.id, None) is not None:
                        place[node.id] = len(place)
                elif following.id in path:
                    self._note_circle(following, list(path))
                elif following.id not in place:
                    pending.append(following)
        return place

    def _note_circle(self, node: Node, path: list[str]) -> None:
        circle = " requires ".join(f"`{each}`" for each in (*path[path.index(node.id) :], node.id))
        self._source.add(node.element, "cyclic-requirement", circle, "Break the circle of requirements.")
