"""Owns reading a DMN file as a whole: its elements, what requires what, and the order of evaluation.
Never evaluates a decision and never stops at the first problem.
Called by `parse_decisions` and `check_decisions`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from lxml import etree

from engine.dmn.boxed import BOXED, NOTHING, BoxedReader
from engine.dmn.decision import Bound, Decision, DecisionModel, Knowledge, Step
from engine.dmn.logic import Convert, Logic, Parameter
from engine.dmn.source import CAMUNDA, ZEEBE, Source, spaced
from engine.dmn.table import Table
from engine.dmn.types import Types
from engine.feel.functions import BUILTINS

_READ: Final = frozenset(("decision", "inputData", "businessKnowledgeModel", "itemDefinition"))
_DRAWN_ONLY: Final = frozenset(
    (
        "knowledgeSource",
        "textAnnotation",
        "association",
        "group",
        "artifact",
        "elementCollection",
        "performanceIndicator",
        "organizationUnit",
        "DMNDI",
    )
)


class _Node(NamedTuple):
    """An element of the graph: under which names others see it, and what it requires, by id."""

    id: str
    element: etree._Element
    names: tuple[str, ...]
    requires: tuple[str, ...]


class FileReader:
    """Reads one file; what is wrong goes to `source.problems`."""

    def __init__(self, source: Source, xml: bytes) -> None:
        self.source = source
        self.types = Types(source)
        self._boxed = BoxedReader(source, self.types)
        self._content_hash = hashlib.sha256(xml).hexdigest()
        self._nodes: dict[str, _Node] = {}
        self._refuse_what_is_not_executed()
        for element in source.children(source.root, "inputData", "decision", "businessKnowledgeModel"):
            self._add(element)
        self._check_references()
        # Every name that the file itself declares, and those of them that FEEL has to be told.
        self.declared = frozenset(self._declared_names())
        self._names = frozenset(name for name in self.declared if not name.isidentifier())
        self._order = self._sorted()
        self._steps: dict[str, Step] = {}
        self._knowledge: dict[str, Knowledge] = {}

    def model(self) -> DecisionModel:
        """The model; of use only when no problem of severity `error` was noted."""
        for node in self._of_kind("businessKnowledgeModel"):
            self._knowledge[node.id] = self._read_knowledge(node)
        for node in self._of_kind("decision"):
            self._steps[node.id] = self._read_step(node)
        root = self.source.root
        requirements_id = root.get("id") or root.get("name") or ""
        decisions = {node.id: self._decision(node) for node in self._of_kind("decision")}
        if not decisions:
            self.source.add(None, "no-decision", "the file has no decision", "Draw at least one.")
        return DecisionModel(requirements_id, root.get("name") or requirements_id, self._content_hash, decisions)

    # --- the graph ----------------------------------------------------------------------------------------------

    def _refuse_what_is_not_executed(self) -> None:
        for element in self.source.children(self.source.root):
            kind = self.source.kind(element)
            if kind == "import":
                message = f"the file imports `{element.get('namespace', '')}`; imported models are not executed"
                self.source.add(element, "import", message, "Put what it needs into this file.")
            elif kind == "decisionService":
                message, remedy = "decision services are not executed", "Evaluate its output decisions instead."
                self.source.add(element, "decision-service", message, remedy, "warning")
            elif kind not in _READ and kind not in _DRAWN_ONLY:
                message, remedy = f"`{kind}` is not known and means nothing here", "Remove it."
                self.source.add(element, "unknown-element", message, remedy, "warning")

    def _add(self, element: etree._Element) -> None:
        name = self.source.required(element, "name")
        own_id = element.get("id", "")
        if not own_id:
            kind = self.source.kind(element)
            message = f"the {kind} `{name}` has no id; its name is used"
            self.source.add(element, "missing-id", message, "Give it an id.", "warning")
        variable = self.source.child(element, "variable")
        written = "" if variable is None else spaced(variable.get("name", ""))
        names = (written,) if written else tuple(dict.fromkeys((own_id or name, name)))
        node = _Node(own_id or name, element, names, tuple(self._references(element)))
        if node.id in self._nodes:
            message = f"the id `{node.id}` belongs to two elements"
            self.source.add(element, "duplicate-id", message, "Give each element an id of its own.")
        self._nodes[node.id] = node

    def _references(self, element: etree._Element) -> Iterator[str]:
        for requirement in self.source.children(element, "informationRequirement", "knowledgeRequirement"):
            for target in self.source.children(requirement, "requiredInput", "requiredDecision", "requiredKnowledge"):
                namespace, _, wanted = target.get("href", "").rpartition("#")
                if namespace and namespace != self.source.root.get("namespace"):
                    message = f"it requires `{wanted}` of another file, `{namespace}`"
                    self.source.add(requirement, "external-reference", message, "Put both into one file.")
                else:
                    yield wanted

    def _check_references(self) -> None:
        for node in self._nodes.values():
            for wanted in node.requires:
                if wanted not in self._nodes:
                    message = f"it requires `{wanted}`, which is not in the file"
                    self.source.add(node.element, "dangling-reference", message, "Draw the requirement anew.")

    def _declared_names(self) -> Iterator[str]:
        for node in self._nodes.values():
            yield from node.names
        yield from self.types.component_names()

    def _of_kind(self, kind: str) -> Iterator[_Node]:
        return (node for node in self._nodes.values() if self.source.kind(node.element) == kind)

    def _required(self, node: _Node, kind: str) -> list[_Node]:
        found = (self._nodes[wanted] for wanted in node.requires if wanted in self._nodes)
        return [each for each in found if self.source.kind(each.element) == kind]

    def _sorted(self) -> dict[str, int]:
        """The place of each decision in an order in which what is required comes first; circles are noted."""
        place: dict[str, int] = {}
        for start in self._of_kind("decision"):
            path: dict[str, Iterator[_Node]] = {}
            pending = [start]
            while pending:
                node = pending[-1]
                if node.id not in path and node.id not in place:
                    path[node.id] = iter(self._required(node, "decision"))
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

    def _note_circle(self, node: _Node, path: list[str]) -> None:
        circle = " requires ".join(f"`{each}`" for each in (*path[path.index(node.id) :], node.id))
        self.source.add(node.element, "cyclic-requirement", f"{circle}", "Break the circle of requirements.")

    # --- logic ---------------------------------------------------------------------------------------------------

    def _visible(self, node: _Node) -> frozenset[str]:
        return self._names | {name for each in node.requires if each in self._nodes for name in self._nodes[each].names}

    def _bound(self, node: _Node, kind: str) -> Bound:
        return tuple((name, each.id) for each in self._required(node, kind) for name in each.names)

    def _read_knowledge(self, node: _Node) -> Knowledge:
        where = f'business knowledge model "{node.names[-1]}"'
        function = self.source.child(node.element, "encapsulatedLogic")
        if function is None:
            parameters: tuple[Parameter, ...] = ()
            logic = self._boxed.inside(node.element, self._visible(node), where)
        else:
            parameters, logic = self._boxed.function(function, self._visible(node), where)
        bound = self._bound(node, "businessKnowledgeModel")
        known = {parameter.name for parameter in parameters} | {name for name, _ in bound} | set(BUILTINS)
        for name in sorted(logic.reads - known):
            message = f"{where} reads `{name}`, which is no parameter and nothing that it requires: it is null"
            self.source.add(node.element, "unknown-name", message, "Make it a parameter.", "warning")
        return Knowledge(node.id, node.names[-1], parameters, logic, bound)

    def _read_step(self, node: _Node) -> Step:
        name = spaced(node.element.get("name", ""))
        where = f'decision "{name}"'
        names = self._visible(node)
        element = self.source.child(node.element, *BOXED)
        logic: Table | Logic
        if element is not None and self.source.kind(element) == "decisionTable":
            logic = self._boxed.table(element, names).read() or NOTHING
        else:
            logic = self._boxed.read(element, node.element, names, where)
        convert = self.types.of(self.source.child(node.element, "variable"))
        inputs = tuple(name for each in self._required(node, "inputData") for name in each.names[:1])
        decisions = self._bound(node, "decision")
        return Step(node.id, name, logic, convert, inputs, decisions, self._bound(node, "businessKnowledgeModel"))

    def _decision(self, node: _Node) -> Decision:
        needed = self._reachable([node], "decision")
        steps = tuple(self._steps[each] for each in sorted(needed, key=lambda each: self._order.get(each, 0)))
        knowledge = self._reachable((self._nodes[each] for each in needed), "businessKnowledgeModel")
        models = tuple(self._knowledge[each] for each in knowledge if each in self._knowledge)
        typed: dict[str, Convert] = {}
        for each in needed:
            for required in self._required(self._nodes[each], "inputData"):
                convert = self.types.of(self.source.child(required.element, "variable"))
                if convert is not None:
                    typed.update((name, convert) for name in required.names)
        name = spaced(node.element.get("name", ""))
        tag = self._version_tag(node.element)
        return Decision(node.id, name, tag, self._content_hash, steps, models, tuple(typed.items()), _reads(steps))

    def _reachable(self, starts: Iterable[_Node], kind: str) -> dict[str, None]:
        """The ids of the nodes of a kind that are required from the starts, directly or not; starts of it included."""
        found: dict[str, None] = {}
        pending = list(starts)
        seen = {node.id for node in pending}
        while pending:
            node = pending.pop()
            if self.source.kind(node.element) == kind:
                found[node.id] = None
            fresh = [each for each in self._required(node, kind) if each.id not in seen]
            seen.update(each.id for each in fresh)
            pending += fresh
        return found

    def _version_tag(self, element: etree._Element) -> str | None:
        for extensions in self.source.children(element, "extensionElements"):
            tag = extensions.find(f"{{{ZEEBE}}}versionTag")
            if tag is not None:
                return tag.get("value") or None
        return next((tag for space in CAMUNDA if (tag := element.get(f"{{{space}}}versionTag"))), None)


def _reads(steps: tuple[Step, ...]) -> frozenset[str]:
    """The names that the steps read and that nothing in the file gives."""
    found: set[str] = set()
    for step in steps:
        given = {name for name, _ in (*step.decisions, *step.knowledge)}
        found |= (step.logic.reads() if isinstance(step.logic, Table) else step.logic.reads) - given
    return frozenset(found)
