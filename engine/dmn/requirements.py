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
MAX_NODES: Final = 2_000


class Node(NamedTuple):
    """A decision, input data or knowledge model: by which names others see it, and what it requires, by kind."""

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
        for element in source.children(source.root, INPUT_DATA, DECISION, KNOWLEDGE):
            if len(self._nodes) == MAX_NODES:
                message = f"the file has more than {MAX_NODES} decisions, input data and knowledge models"
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

    def required(self, node: Node, kind: str) -> list[Node]:
        """The nodes of a kind that a node requires directly."""
        return [each for each in self._required[node.id] if each.kind == kind]

    def bound(self, node: Node, kind: str) -> Bound:
        """The names by which a node sees the nodes of a kind that it requires."""
        return tuple((name, each.id) for each in self.required(node, kind) for name in each.names)

    def visible(self, node: Node) -> frozenset[str]:
        """The names of everything that a node requires."""
        return frozenset(name for each in self._required[node.id] for name in each.names)

    def names(self) -> Iterator[str]:
        """The names of everything in the file."""
        for node in self._nodes.values():
            yield from node.names

    def knowledge_of(self, node: Node) -> set[str]:
        """The ids of the knowledge models that a node requires, directly or through other such models."""
        found: set[str] = set()
        pending = self.required(node, KNOWLEDGE)
        while pending:
            each = pending.pop()
            if each.id not in found:
                found.add(each.id)
                pending += self.required(each, KNOWLEDGE)
        return found

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
            for target in self._source.children(requirement, "requiredInput", "requiredDecision", "requiredKnowledge"):
                namespace, _, wanted = target.get("href", "").rpartition("#")
                if namespace and namespace != self._source.root.get("namespace"):
                    message = f"it requires `{wanted}` of another file, `{namespace}`"
                    self._source.add(requirement, "external-reference", message, "Put both into one file.")
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
