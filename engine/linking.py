"""Owns linking: which version each call of a process means, and the one immutable program that comes of it.
Never changes what is deployed, and never chooses for an instance that has started: its Start names every version.
Called by the deployments (to link what serves), recovery and replay (to get the program of a recorded Start).

Within one instance an element of one file calls one version, because that is what a Start can record.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, TypeAlias
from weakref import WeakValueDictionary

from engine.bpmn import parse
from engine.bpmn.calls import circles
from engine.bpmn.definition import Binding, CalledDecision, CalledElement, FlowNode, ProcessDefinition
from engine.bpmn.spiff import Program
from engine.dmn import Decision, parse_decisions
from engine.errors import Code, DefinitionInvalid, Problem, Rejected
from engine.records import CallTarget, DefinitionRef, Key, Start
from engine.store.definitions import DECISION, PROCESS, Catalog, Definitions, Deployable, StoredDefinition

MAX_CALL_DEPTH = 32  # processes within processes; each level nests scopes in the core
PARTS_KEPT = 16  # parsed files beside those that serve; one may take tens of megabytes
PROGRAMS_KEPT = 16  # linked programs beside those that serve or that an instance runs

Part: TypeAlias = ProcessDefinition | Decision


@dataclass(frozen=True, slots=True)
class DeployedDefinition:
    """A process definition in the form that instances run, with its identity and that of all it calls."""

    ref: DefinitionRef
    program: Program
    calls: tuple[CallTarget, ...] = ()


class _Content(NamedTuple):
    """What tells one part of one file from every other: two versions with the same content are one part."""

    content_hash: str
    kind: str
    process_id: str


def _content_of(part: Part) -> _Content:
    if isinstance(part, ProcessDefinition):
        return _Content(part.content_hash, PROCESS, part.process_id)
    return _Content(part.content_hash, DECISION, part.id)


class Called(NamedTuple):
    """One call of one element."""

    node: FlowNode
    kind: str
    to: CalledElement | CalledDecision

    @property
    def id(self) -> str:
        return self.to.process_id if isinstance(self.to, CalledElement) else self.to.decision_id


def called_by(definition: ProcessDefinition) -> Iterator[Called]:
    """Everything that a process calls by itself, in document order."""
    for node in definition.nodes.values():
        if node.called is not None:
            yield Called(node, PROCESS, node.called)
        if node.decision is not None:
            yield Called(node, DECISION, node.decision)


class Programs:
    """Parsed files and linked programs, shared by whoever runs the same versions."""

    def __init__(self) -> None:
        self._serving: dict[_Content, Part] = {}
        self._fresh: dict[_Content, Part] = {}  # of the deployment under way
        self._loose: OrderedDict[_Content, Part] = OrderedDict()
        self._programs: WeakValueDictionary[tuple[Key, tuple[CallTarget, ...]], Program] = WeakValueDictionary()
        self._recent: OrderedDict[int, Program] = OrderedDict()  # by identity; keeps what is about to be used again

    async def link(self, catalog: Catalog, stored: StoredDefinition) -> DeployedDefinition:
        """The program of a process with every call resolved as of now.

        Raises DefinitionInvalid: a call that leads nowhere, in a circle or too deep, or a file that this engine
        cannot read.
        """
        resolution = _Resolution(self, catalog)
        await resolution.walk(stored, ())
        if resolution.problems:
            raise DefinitionInvalid(resolution.problems)
        calls = tuple(resolution.calls.values())
        return DeployedDefinition(stored.ref, self._program(stored.key, calls, resolution.parts), calls)

    async def of_start(self, definitions: Definitions, start: Start) -> Program:
        """The very program that an instance was started with.

        Raises Rejected(NOT_FOUND) when one of its versions was never deployed here, DefinitionInvalid when this
        engine cannot read one.
        """
        known = self._programs.get((start.definition.key, start.calls))
        if known is not None:
            return known
        parts: dict[Key, Part] = {}
        async with definitions.reading() as catalog:
            for ref in (start.definition, *(call.target for call in start.calls)):
                if ref.key not in parts:
                    stored = await catalog.get(ref.key)
                    if stored is None:
                        told = f"definition {ref.key} ({ref.process_id}, version {ref.version}) is not deployed here"
                        raise Rejected(Code.NOT_FOUND, told)
                    parts[ref.key] = await self.part(catalog, stored)
        return self._program(start.definition.key, start.calls, parts)

    async def part(self, catalog: Catalog, stored: StoredDefinition) -> Part:
        """The process or decision of a stored version. Raises DefinitionInvalid."""
        content = _Content(stored.content_hash, stored.kind, stored.process_id)
        part = self._serving.get(content) or self._fresh.get(content) or self._loose.get(content)
        if part is None:
            xml = await catalog.xml(stored.key)
            assert xml is not None, "a row without its file"
            part = await asyncio.to_thread(_read, xml, await catalog.imports(stored.key), stored)
        if content not in self._serving and content not in self._fresh:
            self._loose[content] = part
            self._loose.move_to_end(content)
            if len(self._loose) > PARTS_KEPT:
                self._loose.popitem(last=False)
        return part

    @contextmanager
    def knowing(self, parts: Iterable[Part]) -> Iterator[None]:
        """Inside, what a deployment has parsed already is not parsed again."""
        self._fresh = {_content_of(part): part for part in parts}
        try:
            yield
        finally:
            self._fresh = {}

    def serve(self, serving: Iterable[DeployedDefinition]) -> None:
        """Keep every part of these, and no part for them that is not."""
        waiting = [each.program for each in serving]
        seen = {id(program) for program in waiting}
        kept: dict[_Content, Part] = {}
        while waiting:
            program = waiting.pop()
            kept[_content_of(program.definition)] = program.definition
            kept |= {_content_of(decision): decision for decision in program.decisions.values()}
            for called in program.calls.values():
                if id(called) not in seen:
                    seen.add(id(called))
                    waiting.append(called)
        self._serving = kept
        for content in [each for each in self._loose if each in kept]:
            del self._loose[content]

    def _program(self, root: Key, calls: tuple[CallTarget, ...], parts: Mapping[Key, Part]) -> Program:
        program = self._programs.get((root, calls))
        if program is None:
            program = assemble(root, calls, parts)
            self._programs[(root, calls)] = program
        self._recent[id(program)] = program
        self._recent.move_to_end(id(program))
        if len(self._recent) > PROGRAMS_KEPT:
            self._recent.popitem(last=False)
        return program


def assemble(root: Key, calls: Iterable[CallTarget], parts: Mapping[Key, Part]) -> Program:
    """One program out of its parts; a part that is called from several places is built once."""
    targets = {(call.caller, call.element_id): call.target.key for call in calls}
    made: dict[Key, Program] = {}

    def build(key: Key) -> Program:
        if key not in made:
            definition = parts[key]
            assert isinstance(definition, ProcessDefinition), f"{key} is no process"
            programs: dict[str, Program] = {}
            decisions: dict[str, Decision] = {}
            for called in called_by(definition):
                target = targets[(definition.content_hash, called.node.id)]
                if called.kind == PROCESS:
                    programs[called.node.id] = build(target)
                else:
                    decision = parts[target]
                    assert isinstance(decision, Decision), f"{target} is no decision"
                    decisions[called.node.id] = decision
            made[key] = Program(definition, programs, decisions)
        return made[key]

    return build(root)


class _Resolution:
    """One walk from a process through everything that it calls."""

    def __init__(self, programs: Programs, catalog: Catalog) -> None:
        self._programs = programs
        self._catalog = catalog
        self.calls: dict[tuple[str, str], CallTarget] = {}
        self.parts: dict[Key, Part] = {}
        self.problems: list[Problem] = []
        self._targets: dict[tuple[str, str], StoredDefinition] = {}
        self._levels: dict[Key, int] = {}  # of processes that were walked; what is on the way is not in here

    async def walk(self, stored: StoredDefinition, path: tuple[StoredDefinition, ...]) -> int:
        """Resolve what `stored` calls, reached by the callers of `path`; returns how many levels it has below."""
        path = (*path, stored)
        definition = await self._programs.part(self._catalog, stored)
        assert isinstance(definition, ProcessDefinition)
        self.parts[stored.key] = definition
        levels = 0
        for called in called_by(definition):
            target = await self._target(stored, definition, called)
            if target is None:
                continue
            if called.kind == DECISION:
                self.parts[target.key] = await self._programs.part(self._catalog, target)
            elif target.key in (keys := [each.key for each in path]):
                way = (*path[keys.index(target.key) :], target)
                self._refuse(stored, called, *_circle([each.process_id for each in way]))
            else:
                levels = max(levels, await self._descend(stored, called, target, path))
        self._levels[stored.key] = levels
        return levels

    async def _descend(
        self, caller: StoredDefinition, called: Called, target: StoredDefinition, path: tuple[StoredDefinition, ...]
    ) -> int:
        below = self._levels.get(target.key, 0)
        if len(path) + below >= MAX_CALL_DEPTH:
            self._refuse(caller, called, *_TOO_DEEP)
            return 0
        if target.key not in self._levels:
            below = await self.walk(target, path)
        return below + 1

    async def _target(
        self, caller: StoredDefinition, definition: ProcessDefinition, called: Called
    ) -> StoredDefinition | None:
        element = (definition.content_hash, called.node.id)
        target = self._targets.get(element)
        if target is None:
            target = await self._choose(caller, called)
            if target is None:
                self._refuse(caller, called, *missing(called))
                return None
            self._targets[element] = target
            self.calls[element] = CallTarget(*element, target.ref)
        return target

    async def _choose(self, caller: StoredDefinition, called: Called) -> StoredDefinition | None:
        match called.to.binding:
            case Binding.LATEST:
                return await self._catalog.active(called.kind, called.id)
            case Binding.DEPLOYMENT:
                return await self._catalog.deployed_with(caller.deployment_key, called.kind, called.id)
            case Binding.VERSION_TAG:
                return await self._catalog.tagged(called.kind, called.id, called.to.version_tag or "")

    def _refuse(self, caller: StoredDefinition, called: Called, rule: str, message: str, remedy: str) -> None:
        problem = problem_at(caller.resource_name, called, rule, message, remedy)
        if problem not in self.problems:
            self.problems.append(problem)


def missing(called: Called) -> tuple[str, str, str]:
    """Rule, message and remedy of a call that leads nowhere."""
    match called.to.binding:
        case Binding.LATEST:
            where, remedy = "is not deployed", "Deploy it first, or together with this file"
        case Binding.DEPLOYMENT:
            where, remedy = "is not in the same deployment", "Deploy both files together, or choose the binding latest"
        case Binding.VERSION_TAG:
            where = f"has no deployed version with the tag `{called.to.version_tag}`"
            remedy = "Deploy a version with that tag first, or correct the tag"
    rule = "unknown-process" if called.kind == PROCESS else "unknown-decision"
    rule = "unknown-version-tag" if called.to.binding is Binding.VERSION_TAG else rule
    return rule, f"the called {called.kind} `{called.id}` {where}", f"{remedy}; or correct the id."


def problem_at(file: str, called: Called, rule: str, message: str, remedy: str) -> Problem:
    return Problem(file, called.node.id, called.node.name, rule, message, remedy)


def _circle(ids: Iterable[str]) -> tuple[str, str, str]:
    way = " -> ".join(f"`{process_id}`" for process_id in ids)
    return (
        "cyclic-call",
        f"processes call each other in a circle: {way}",
        "Draw the repetition as a loop or as multi-instance: a start fixes the version of every call.",
    )


_TOO_DEEP = (
    "calls-too-deep",
    f"processes call processes more than {MAX_CALL_DEPTH} levels deep",
    "Join some of them into one process.",
)


def _read(xml: bytes, imports: Mapping[str, bytes], stored: StoredDefinition) -> Part:
    if stored.kind == DECISION:
        return parse_decisions(xml, stored.resource_name, imports).decisions[stored.process_id]
    return next(each for each in parse(xml, stored.resource_name) if each.process_id == stored.process_id)


async def find_wrong_calls(
    catalog: Catalog,
    definitions: Sequence[ProcessDefinition],
    together: Iterable[Deployable],
    serving: Iterable[ProcessDefinition],
) -> list[Problem]:
    """The calls of definitions that would lead nowhere, or in a circle, once they were deployed `together`."""
    tags: dict[tuple[str, str], str | None] = {(PROCESS, each.process_id): each.version_tag for each in definitions}
    tags |= {(each.kind, each.process_id): each.version_tag for each in together}
    problems = []
    for definition in definitions:
        for called in called_by(definition):
            if await _leads_nowhere(catalog, called, tags):
                problems.append(problem_at(definition.resource_name, called, *missing(called)))
    # a call by version tag may mean an older version, which only the links themselves can tell
    graph = {each.process_id: _called_now(each) for each in (*serving, *definitions)}
    circles_of = {call: circle for circle in circles(graph) for call in pairwise(circle)}
    for definition in definitions:
        for called in called_by(definition):
            circle = circles_of.get((definition.process_id, called.id))
            if circle is not None and called.kind == PROCESS:
                problems.append(problem_at(definition.resource_name, called, *_circle(circle)))
    return problems


async def _leads_nowhere(catalog: Catalog, called: Called, tags: Mapping[tuple[str, str], str | None]) -> bool:
    target, to = (called.kind, called.id), called.to
    if target in tags and (to.binding is not Binding.VERSION_TAG or to.version_tag == tags[target]):
        return False
    match to.binding:
        case Binding.LATEST:
            return await catalog.active(*target) is None
        case Binding.DEPLOYMENT:
            return True
        case Binding.VERSION_TAG:
            return await catalog.tagged(*target, to.version_tag or "") is None


def _called_now(definition: ProcessDefinition) -> frozenset[str]:
    return frozenset(
        called.id
        for called in called_by(definition)
        if called.kind == PROCESS and called.to.binding is not Binding.VERSION_TAG
    )
