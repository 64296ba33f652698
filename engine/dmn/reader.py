"""Owns reading a DMN file as a whole: every decision with all that it requires, compiled.
Never evaluates a decision and never stops at the first problem.
Called by the entry points of this package.
"""

from __future__ import annotations

import hashlib
from typing import Final

from lxml import etree

from engine.dmn.boxed import BOXED, NOTHING, BoxedReader
from engine.dmn.decision import Decision, DecisionModel, Knowledge, Step
from engine.dmn.logic import Convert, Logic, Parameter
from engine.dmn.requirements import DECISION, INPUT_DATA, KNOWLEDGE, SERVICE, Node, Requirements
from engine.dmn.service import as_step, read_service
from engine.dmn.source import CAMUNDA, ZEEBE, Source
from engine.dmn.table import Table
from engine.dmn.types import Types
from engine.feel.functions import BUILTINS

_READ: Final = frozenset((DECISION, INPUT_DATA, KNOWLEDGE, SERVICE, "itemDefinition"))
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


class FileReader:
    """Reads one file; what is wrong goes to `source.problems`."""

    def __init__(self, source: Source, xml: bytes) -> None:
        self._source = source
        self._types = Types(source)
        self._boxed = BoxedReader(source, self._types)
        self._content_hash = hashlib.sha256(xml).hexdigest()
        self._refuse_what_is_not_executed()
        self._graph = Requirements(source)
        # Every name that the file itself declares. FEEL has to be told those of several words, and where something
        # is required, also its name if that has operators in it.
        self.declared = frozenset((*self._graph.names(), *self._types.component_names))
        self._words = frozenset(name for name in self.declared if name.replace(" ", "").isidentifier() and " " in name)

    def model(self) -> DecisionModel:
        """The model; of use only when no problem of severity `error` was noted."""
        steps = {node.id: self._read_step(node) for node in self._graph.in_order()}
        called = {node.id: self._read_knowledge(node) for node in self._graph.of_kind(KNOWLEDGE)}
        for node in self._graph.of_kind(SERVICE):
            called[node.id] = read_service(self._source, self._types, self._graph, node, steps)
        read: dict[str, Decision] = {}
        for node in self._graph.in_order():
            read[node.id] = self._decision(node, steps[node.id], read, called)
        if not read:
            self._source.add(None, "no-decision", "the file has no decision", "Draw at least one.")
        root = self._source.root
        requirements_id = root.get("id") or root.get("name") or ""
        decisions = {node.id: read[node.id] for node in self._graph.of_kind(DECISION)}
        services = {node.id: self._service(node, called) for node in self._graph.of_kind(SERVICE)}
        name = root.get("name") or requirements_id
        return DecisionModel(requirements_id, name, self._content_hash, decisions, services)

    def _refuse_what_is_not_executed(self) -> None:
        for element in self._source.children(self._source.root):
            kind = self._source.kind(element)
            if kind == "import":
                message = f"the file imports `{element.get('namespace', '')}`; imported models are not executed"
                self._source.add(element, "import", message, "Put what it needs into this file.")
            elif kind not in _READ and kind not in _DRAWN_ONLY:
                message, remedy = f"`{kind}` is not known and means nothing here", "Remove it."
                self._source.add(element, "unknown-element", message, remedy, "warning")

    def _visible(self, node: Node) -> frozenset[str]:
        components = self._types.component_names
        return self._words | {name for name in self._graph.visible(node) | components if not name.isidentifier()}

    def _read_knowledge(self, node: Node) -> Knowledge:
        where = f'business knowledge model "{node.name}"'
        names = self._visible(node)
        function = self._source.child(node.element, "encapsulatedLogic")
        if function is None:
            parameters: tuple[Parameter, ...] = ()
            logic = self._boxed.inside(node.element, names, where)
        else:
            parameters, logic = self._boxed.function(function, names, where)
        bound = self._graph.bound(node, KNOWLEDGE, SERVICE)
        known = {parameter.name for parameter in parameters} | {name for name, _ in bound} | set(BUILTINS)
        for name in sorted(logic.reads - known):
            message = f"{where} reads `{name}`, which is no parameter and nothing that it requires: it is null"
            self._source.add(node.element, "unknown-name", message, "Make it a parameter.", "warning")
        return Knowledge(node.id, node.name, parameters, logic, bound)

    def _read_step(self, node: Node) -> Step:
        names = self._visible(node)
        element = self._source.child(node.element, *BOXED)
        logic: Table | Logic
        if element is not None and self._source.kind(element) == "decisionTable":
            logic = self._boxed.table(element, names).read() or NOTHING
        else:
            logic = self._boxed.read(element, node.element, names, f'decision "{node.name}"')
        convert = self._types.of(self._source.child(node.element, "variable"))
        inputs = tuple(each.names[0] for each in self._graph.required(node, INPUT_DATA))
        decisions, knowledge = self._graph.bound(node, DECISION), self._graph.bound(node, KNOWLEDGE, SERVICE)
        return Step(node.id, node.name, logic, convert, inputs, decisions, knowledge)

    def _decision(self, node: Node, own: Step, read: dict[str, Decision], called: dict[str, Knowledge]) -> Decision:
        """The decision, made of its own step and of the decisions that it requires, which were read before."""
        steps: dict[str, Step] = {}
        models = dict.fromkeys(sorted(self._graph.called_by(node)))
        typed = self._typed_inputs(node)
        given = {name for name, _ in (*own.decisions, *own.knowledge)}
        reads = (own.logic.reads() if isinstance(own.logic, Table) else own.logic.reads) - given
        for required in self._graph.required(node, DECISION):
            if required.id in read:
                inner = read[required.id]
                steps.update((step.id, step) for step in inner.steps)
                models.update((model.id, None) for model in inner.knowledge)
                typed.update(inner.input_data)
                reads |= inner.reads
        ordered = sorted(steps.values(), key=lambda step: self._graph.order[step.id])
        return Decision(
            id=node.id,
            name=node.name,
            version_tag=self._version_tag(node.element),
            content_hash=self._content_hash,
            steps=(*ordered, own),
            knowledge=tuple(called[each] for each in models),
            input_data=tuple(typed.items()),
            reads=reads,
        )

    def _service(self, node: Node, called: dict[str, Knowledge]) -> Decision:
        step = as_step(called[node.id])
        knowledge = tuple(called[each] for each in sorted(self._graph.called_by(node)))
        reads = step.logic.reads if isinstance(step.logic, Logic) else frozenset[str]()
        return Decision(node.id, node.name, None, self._content_hash, (step,), knowledge, (), reads)

    def _typed_inputs(self, node: Node) -> dict[str, Convert]:
        typed: dict[str, Convert] = {}
        for required in self._graph.required(node, INPUT_DATA):
            convert = self._types.of(self._source.child(required.element, "variable"))
            if convert is not None:
                typed.update((name, convert) for name in required.names)
        return typed

    def _version_tag(self, element: etree._Element) -> str | None:
        for extensions in self._source.children(element, "extensionElements"):
            tag = extensions.find(f"{{{ZEEBE}}}versionTag")
            if tag is not None:
                return tag.get("value") or None
        return next((tag for space in CAMUNDA if (tag := element.get(f"{{{space}}}versionTag"))), None)
