"""Owns what requires what in one DMN file: its decisions, input data and knowledge models, and an order of evaluation.
Never reads logic.
Called by the reader of a file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final, NamedTuple

from lxml import etree

from engine.dmn.decision import Bound, Prefixed
from engine.dmn.source import Source
from engine.feel.lexer import spaced

DECISION: Final = "decision"
INPUT_DATA: Final = "inputData"
KNOWLEDGE: Final = "businessKnowledgeModel"
SERVICE: Final = "decisionService"
MAX_NODES: Final = 2_000


class Target(NamedTuple):
    """What an `href` says: the namespace, empty for the file's own, and the id there."""

    namespace: str
    id: str


class Node(NamedTuple):
    """A decision, input data, knowledge model or service: its names to others, and what it requires.

    The id is that in the file, after the file's name where the file is imported.
    """

    id: str
    kind: str
    name: str
    element: etree._Element
    names: tuple[str, ...]
    requires: tuple[Target, ...]


class Required(NamedTuple):
    """A node that another one requires, and what its name begins with there; "" where it needs nothing before it."""

    node: Node
    prefixes: tuple[str, ...]


class ImportedGraph(NamedTuple):
    """The graph of an imported file, by what its names begin with; null where that file cannot be read."""

    prefix: str
    namespace: str
    graph: Requirements | None


class Requirements:
    """The graph of one file with those that it imports. What is wrong with it goes to the problems of the source.

    `origin` comes before each id: it is empty for a file that is not imported.
    """

    def __init__(self, source: Source, origin: str = "", imported: Sequence[ImportedGraph] = ()) -> None:
        self._source = source
        self._origin = origin
        self._imported = imported
        self._nodes: dict[str, Node] = {}
        for element in source.children(source.root, INPUT_DATA, DECISION, KNOWLEDGE, SERVICE):
            if len(self._nodes) == MAX_NODES:
                message = f"the file has more than {MAX_NODES} decisions, inputs, models and services"
                source.add(None, "file-too-complex", message, "Split it into several files.")
                break
            self._add(element)
        self._required: dict[str, list[Required]] = {}
        for each in imported:
            if each.graph is not None:
                self._required |= each.graph._required
        self._required |= {node.id: self._found(node) for node in self._nodes.values()}
        self._order = self._sorted()
        inputs = {name for node in self.of_kind(INPUT_DATA) for name in node.names}
        kinds = (DECISION, KNOWLEDGE, SERVICE)
        # The names of what can be read only where it is required.
        self.required_names = frozenset(name for kind in kinds for node in self.of_kind(kind) for name in node.names)
        self.required_names -= inputs

    def of_kind(self, kind: str) -> Iterator[Node]:
        """The nodes of a kind of this file, in document order."""
        return (node for node in self._nodes.values() if node.kind == kind)

    def in_order(self) -> list[Node]:
        """The decisions of this file, each after those that it requires."""
        return [self._nodes[each] for each in self._order]

    def required(self, node: Node, *kinds: str) -> list[Node]:
        """The nodes of these kinds that a node requires directly; of a decision service, its output decisions."""
        return [each.node for each in self._required[node.id] if each.node.kind in kinds]

    def required_with_prefixes(self, node: Node, kind: str) -> list[Required]:
        """The same, of one kind, with what their names begin with."""
        return [each for each in self._required[node.id] if each.node.kind == kind]

    def bound(self, node: Node, *kinds: str) -> Bound:
        """The names by which a node sees the nodes of these kinds that it requires and that need no prefix."""
        return tuple(
            (name, each.node.id)
            for each in self._required[node.id]
            if each.node.kind in kinds and "" in each.prefixes
            for name in each.node.names
        )

    def prefixed(self, node: Node) -> Prefixed:
        """The same for all those that it sees by the name of an import, by that name."""
        found: dict[str, list[tuple[str, str]]] = {}
        for each in self._required[node.id]:
            for prefix in each.prefixes:
                if prefix:
                    found.setdefault(prefix, []).extend((name, each.node.id) for name in each.node.names)
        return tuple((prefix, tuple(names)) for prefix, names in found.items())

    def named(self, element: etree._Element, kind: str, wanted: str) -> list[Node]:
        """The nodes of a kind that the `wanted` children of an element refer to."""
        found = [self._node_or_note(target, element) for target in self._targets(element, wanted)]
        return [each for each in found if each is not None and each.kind == kind]

    def closure(self, outputs: Sequence[Node], given: Collection[str] = ()) -> list[Node]:
        """The decisions and all that they require, each after what it requires, without the given ones."""
        place: dict[str, Node] = {}
        for start in outputs:
            self._visit(start, place, given, None)
        return list(place.values())

    def declares(self, node: Node) -> bool:
        """Whether the node is one of this very file."""
        return self._nodes.get(node.id) is node

    def visible(self, node: Node) -> frozenset[str]:
        """The names of everything that a node requires, and the names of the imports that these begin with."""
        found: set[str] = set()
        for each in self._required[node.id]:
            found.update(each.node.names, each.prefixes)
        return frozenset(found) - {""}

    def names(self) -> Iterator[str]:
        """The names of everything in the file, and of what it imports."""
        for node in self._nodes.values():
            yield from node.names
        for prefix, _, graph in self._imported:
            if prefix:
                yield prefix
            for node in () if graph is None else graph._nodes.values():
                yield from node.names

    def called_by(self, node: Node) -> set[str]:
        """The ids of the knowledge models and services that a node calls, directly or through what it calls.

        A decision service calls what its decisions call.
        """
        seen: dict[str, Node] = {}
        inside = (DECISION,) if node.kind == SERVICE else ()
        pending = self.required(node, KNOWLEDGE, SERVICE, *inside)
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
        node = Node(self._origin + (own_id or name), kind, name, element, names, tuple(self._references(element)))
        if node.id in self._nodes:
            message = f"the id `{own_id or name}` belongs to two elements"
            self._source.add(element, "duplicate-id", message, "Give each element an id of its own.")
        self._nodes[node.id] = node

    def _references(self, element: etree._Element) -> Iterator[Target]:
        for requirement in self._source.children(element, "informationRequirement", "knowledgeRequirement"):
            yield from self._targets(requirement, "requiredInput", "requiredDecision", "requiredKnowledge")
        yield from self._targets(element, "outputDecision")

    def _targets(self, element: etree._Element, *kinds: str) -> Iterator[Target]:
        for target in self._source.children(element, *kinds):
            namespace, _, wanted = target.get("href", "").strip().rpartition("#")
            if not namespace or namespace == self._source.target:
                yield Target("", wanted)
            elif any(namespace == each.namespace for each in self._imported):
                yield Target(namespace, wanted)
            else:
                message = f"it requires `{wanted}` of `{namespace}`, which the file does not import"
                self._source.add(element, "external-reference", message, "Import that file, or put both into one.")

    def _node(self, target: Target) -> Node | None:
        if not target.namespace:
            return self._nodes.get(self._origin + target.id)
        for _, namespace, graph in self._imported:
            if namespace == target.namespace and graph is not None:
                node = graph._nodes.get(graph._origin + target.id)
                if node is not None:
                    return node
        return None

    def _node_or_note(self, target: Target, element: etree._Element) -> Node | None:
        node = self._node(target)
        # what is in a file that cannot be read is not missing
        if node is None and all(each.graph for each in self._imported if each.namespace == target.namespace):
            where = "imported file" if target.namespace else "file"
            message = f"it requires `{target.id}`, which is not in the {where}"
            self._source.add(element, "dangling-reference", message, "Draw the requirement anew.")
        return node

    def _found(self, node: Node) -> list[Required]:
        found = []
        for wanted in dict.fromkeys(node.requires):
            required = self._node_or_note(wanted, node.element)
            if required is not None:
                prefixes = [each.prefix for each in self._imported if each.namespace == wanted.namespace]
                found.append(Required(required, tuple(prefixes) if wanted.namespace else ("",)))
        return found

    def _sorted(self) -> list[str]:
        """The decisions of this file in an order in which what is required comes first; circles are noted."""
        place: dict[str, Node] = {}
        for start in self.of_kind(DECISION):
            self._visit(start, place, (), self._note_circle)
        return [each for each in place if each in self._nodes]

    def _visit(
        self,
        start: Node,
        place: dict[str, Node],
        given: Collection[str],
        note_circle: Callable[[Node, list[str]], None] | None,
    ) -> None:
        """Put a decision into its place, after those that it requires and that are not given."""
        path: dict[str, Iterator[Node]] = {}
        pending = [] if start.id in given else [start]
        while pending:
            node = pending[-1]
            if node.id not in path and node.id not in place:
                path[node.id] = iter(self.required(node, DECISION))
            following = next(path.get(node.id, iter(())), None)
            if following is None:
                pending.pop()
                if path.pop(node.id, None) is not None:
                    place[node.id] = node
            elif following.id in path:
                if note_circle is not None:
                    note_circle(following, list(path))
            elif following.id not in place and following.id not in given:
                pending.append(following)

    def _note_circle(self, node: Node, path: list[str]) -> None:
        circle = " requires ".join(f"`{each}`" for each in (*path[path.index(node.id) :], node.id))
        self._source.add(node.element, "cyclic-requirement", circle, "Break the circle of requirements.")
