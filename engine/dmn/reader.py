"""Owns reading a DMN file as a whole: every decision with all that it requires, compiled.
Never evaluates a decision and never stops at the first problem.
Called by the entry points of this package.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from lxml import etree

from engine.dmn.boxed import BOXED, NOTHING, BoxedReader, converted
from engine.dmn.decision import Bound, Decision, DecisionModel, InputData, Knowledge, Step
from engine.dmn.logic import Logic, Parameter
from engine.dmn.requirements import DECISION, INPUT_DATA, KNOWLEDGE, SERVICE, ImportedGraph, Node, Requirements
from engine.dmn.service import as_step, read_service, received_inputs
from engine.dmn.source import CAMUNDA, ZEEBE, Source
from engine.dmn.table import Table
from engine.dmn.types import ImportedTypes, Types
from engine.errors import Problem
from engine.feel.functions import BUILTINS

_READ: Final = frozenset((DECISION, INPUT_DATA, KNOWLEDGE, SERVICE, "itemDefinition", "import"))
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
_WORD: Final = re.compile(r"\w+")


def _is_several_words(name: str) -> bool:
    return " " in name and name.replace(" ", "").isidentifier()


def _by_first_word(names: Iterable[str]) -> dict[str, list[tuple[str, frozenset[str]]]]:
    """Names with all their words, by the first of them, which is empty where a name has only signs."""
    found: dict[str, list[tuple[str, frozenset[str]]]] = {}
    for name in names:
        words = _WORD.findall(name)
        found.setdefault(words[0] if words else "", []).append((name, frozenset(words)))
    return found


class Import(NamedTuple):
    """A file that another one imports, by what its names begin with there; null where it cannot be used."""

    prefix: str
    namespace: str
    reader: FileReader | None

    def types(self) -> ImportedTypes:
        return ImportedTypes(self.prefix, self.namespace, None if self.reader is None else self.reader._types)

    def graph(self) -> ImportedGraph:
        return ImportedGraph(self.prefix, self.namespace, None if self.reader is None else self.reader._graph)


class FileReader:
    """Reads one file, after those that it imports; what is wrong goes to `source.problems`.

    `origin` comes before the ids of an imported file. `imported` are the files that it imports, directly or not.
    """

    def __init__(
        self, source: Source, xml: bytes, origin: str, imports: tuple[Import, ...], imported: Mapping[str, bytes]
    ) -> None:
        self.file = source.file
        self.xml = xml
        self.imported = dict(sorted(imported.items()))
        self._source = source
        self._origin = origin
        self._imports = imports
        self._types: Types = Types(source, [each.types() for each in imports])
        self._boxed = BoxedReader(source, self._types)
        self._note_what_means_nothing()
        self._graph: Requirements = Requirements(source, origin, [each.graph() for each in imports])
        # Every name that the file itself declares. FEEL has to be told what is required, entries with operators in
        # their names, and names of several words, which may be variables.
        self.declared = frozenset((*self._graph.names(), *self._types.component_names))
        entries = frozenset(name for name in self._types.component_names if not name.isidentifier())
        self._spoken = _by_first_word(entries | frozenset(filter(_is_several_words, self.declared)))
        self._steps: dict[str, Step] = {}
        self._called: dict[str, Knowledge] = {}
        self._decisions: dict[str, Decision] = {}
        for each in imports:
            if each.reader is not None:
                self._steps |= each.reader._steps
                self._called |= each.reader._called

    @property
    def problems(self) -> list[Problem]:
        """Everything that is wrong or doubtful in the file itself."""
        return self._source.problems

    def read(self) -> None:
        """Read all logic; of use only when no problem of severity `error` was noted."""
        for node in self._graph.of_kind(INPUT_DATA):
            self._types.received(self._source.child(node.element, "variable"))  # notes an unknown type, used or not
        self._steps |= {node.id: self._read_step(node) for node in self._graph.in_order()}
        self._called |= {node.id: self._read_knowledge(node) for node in self._graph.of_kind(KNOWLEDGE)}
        for node in self._graph.of_kind(SERVICE):
            self._called[node.id] = read_service(self._source, self._types, self._graph, node, self._steps)
        for node in self._graph.in_order():
            self._decisions[node.id] = self._decision(node)

    def model(self) -> DecisionModel:
        """The model; of use only when no problem of severity `error` was noted."""
        self.read()
        shared = (*self._graph.of_kind(KNOWLEDGE), *self._source.children(self._source.root, "itemDefinition"))
        if not self._decisions and not shared:  # what other files import may hold knowledge and types alone
            self._source.add(None, "no-decision", "the file has no decision", "Draw at least one.")
        root = self._source.root
        requirements_id = root.get("id") or root.get("name") or ""
        decisions = {node.id: self._decisions[node.id] for node in self._graph.of_kind(DECISION)}
        services = {node.id: self._service(node) for node in self._graph.of_kind(SERVICE)}
        name = root.get("name") or requirements_id
        return DecisionModel(requirements_id, name, self._content_hash(), decisions, services, self.imported)

    def _content_hash(self) -> str:
        """The sha256 of the file; where it imports others, of its hash and of their names and hashes."""
        own = hashlib.sha256(self.xml).hexdigest()
        if not self.imported:
            return own
        lines = [own, *(f"{hashlib.sha256(xml).hexdigest()} {name}" for name, xml in self.imported.items())]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    def _note_what_means_nothing(self) -> None:
        for element in self._source.children(self._source.root):
            kind = self._source.kind(element)
            if kind not in _READ and kind not in _DRAWN_ONLY:
                message, remedy = f"`{kind}` is not known and means nothing here", "Remove it."
                self._source.add(element, "unknown-element", message, remedy, "warning")

    def _visible(self, node: Node) -> frozenset[str]:
        """The names that FEEL has to be told for the logic of a node: of those that the file declares, what can occur
        there, so that many names and many decisions do not multiply."""
        words = frozenset(_WORD.findall(" ".join(node.element.itertext())))
        occurring = {name for word in (*words, "") for name, parts in self._spoken.get(word, ()) if parts <= words}
        return self._graph.visible(node) | occurring

    def _read_knowledge(self, node: Node) -> Knowledge:
        where = f'business knowledge model "{node.name}"'
        names = self._visible(node) | set(node.names)
        function = self._source.child(node.element, "encapsulatedLogic")
        if function is None:
            parameters: tuple[Parameter, ...] = ()
            logic = self._boxed.inside(node.element, names, where)
        else:
            parameters, logic = self._boxed.function(function, names, where)
        logic = converted(logic, self._types.of_result(self._source.child(node.element, "variable")), where)
        own = tuple((name, node.id) for name in node.names)  # it may call itself
        bound, prefixed = (*own, *self._graph.bound(node, KNOWLEDGE, SERVICE)), self._graph.prefixed(node)
        known = {parameter.name for parameter in parameters} | {name for name, _ in (*bound, *prefixed)} | set(BUILTINS)
        for name in sorted(logic.reads - known):
            message = f"{where} reads `{name}`, which is no parameter and nothing that it requires: it is null"
            remedy = "Draw the requirement." if name in self._graph.required_names else "Make it a parameter."
            self._source.add(node.element, "unknown-name", message, remedy, "warning")
        variable = self._source.child(node.element, "variable")
        signature = self._boxed.signature(parameters, variable, node.element if function is None else function)
        return Knowledge(node.id, node.name, parameters, logic, bound, prefixed, signature)

    def _read_step(self, node: Node) -> Step:
        names = self._visible(node)
        element = self._source.child(node.element, *BOXED)
        logic: Table | Logic
        if element is not None and self._source.kind(element) == "decisionTable":
            logic = self._boxed.table(element, names).read() or NOTHING
        else:
            logic = self._boxed.read(element, node.element, names, f'decision "{node.name}"')
        self._note_not_required(node, logic.reads)
        convert = self._types.of(self._source.child(node.element, "variable"))
        if isinstance(logic, Table):
            inputs = tuple(column.name for column in logic.inputs)
        else:
            inputs = tuple(each.names[0] for each in self._graph.required(node, INPUT_DATA))
        return Step(node.id, node.name, logic, convert, inputs, self._bound(node), self._graph.prefixed(node))

    def _note_not_required(self, node: Node, reads: frozenset[str]) -> None:
        """Note the names of decisions, models and services that a decision reads without a line to them."""
        for name in sorted(reads & self._graph.required_names - self._graph.visible(node) - set(node.names)):
            message = (
                f'decision "{node.name}" reads `{name}`, which the file declares and it does not require: it is null'
            )
            message += " unless a variable has that name"
            self._source.add(node.element, "not-required", message, "Draw the requirement.", "warning")

    def _bound(self, node: Node) -> Bound:
        """What a decision sees by name; in an imported file also input data, which may be no variable of that name."""
        kinds = (DECISION, KNOWLEDGE, SERVICE, *((INPUT_DATA,) if self._origin else ()))
        return self._graph.bound(node, *kinds)

    def _decision(self, node: Node) -> Decision:
        """The decision, made of its own step and of the decisions that it requires, which were read before."""
        own = self._steps[node.id]
        steps: dict[str, Step] = {}
        called = dict.fromkeys(sorted(self._graph.called_by(node)))
        inputs = {each.id: each for each in self._input_data(node)}
        reads = own.logic.reads - {name for name, each in own.bound if each not in inputs}
        reads -= {name for name, _ in own.prefixed}
        reads |= {each.names[0] for each in inputs.values() if each.path}
        for inner in self._required_decisions(node):
            steps |= {step.id: step for step in inner.steps if step.id not in steps}
            called |= dict.fromkeys(model.id for model in inner.knowledge)
            inputs |= {each.id: each for each in inner.input_data if each.id not in inputs}
            reads |= inner.reads
        return Decision(
            id=node.id,
            name=node.name,
            version_tag=self._version_tag(node.element),
            content_hash=self._content_hash(),
            steps=(*steps.values(), own),
            knowledge=tuple(self._called[each] for each in called),
            input_data=tuple(inputs.values()),
            reads=reads,
        )

    def _required_decisions(self, node: Node) -> list[Decision]:
        found = []
        for required, prefixes in self._graph.required_with_prefixes(node, DECISION):
            if required.id in self._decisions:
                found.append(self._decisions[required.id])
            for each in self._imports:
                if each.reader is not None and required.id in each.reader._decisions and each.prefix in prefixes:
                    found.append(each.reader._decisions[required.id].imported_as(each.prefix))
        return found

    def _service(self, node: Node) -> Decision:
        step = as_step(self._called[node.id], received_inputs(self._source, self._types, self._graph, node))
        knowledge = tuple(self._called[each] for each in sorted(self._graph.called_by(node)))
        return Decision(node.id, node.name, None, self._content_hash(), (step,), knowledge, (), step.logic.reads)

    def _input_data(self, node: Node) -> list[InputData]:
        found = []
        for required, prefixes in self._graph.required_with_prefixes(node, INPUT_DATA):
            owner = next(
                (each.reader for each in self._imports if each.reader and each.reader._graph.declares(required)), self
            )
            convert = owner._types.received(owner._source.child(required.element, "variable"))
            if convert is not None or self._origin or owner is not self:
                inner = InputData(required.id, required.names, (), convert)
                found.append(inner.imported_as(prefixes[0]) if owner is not self else inner)
        return found

    def _version_tag(self, element: etree._Element) -> str | None:
        for extensions in self._source.children(element, "extensionElements"):
            tag = extensions.find(f"{{{ZEEBE}}}versionTag")
            if tag is not None:
                return tag.get("value") or None
        return next((tag for space in CAMUNDA if (tag := element.get(f"{{{space}}}versionTag"))), None)
