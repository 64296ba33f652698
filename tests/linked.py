"""Owns files linked into one program, as a deployment of exactly these files would link them.
Never stores or deploys them.
Called by the tests of the element diagrams and by the golden logs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from engine.bpmn import parse
from engine.bpmn.definition import Binding, ProcessDefinition
from engine.bpmn.spiff import Program
from engine.dmn import parse_decisions
from engine.linking import Called, Part, assemble, called_by
from engine.records import CallTarget, DefinitionRef, Key, Start


class Files:
    """The processes and decisions of some files; each has a key of its own, in the order of the files."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self.parts: dict[DefinitionRef, Part] = {}
        for path in paths:
            for part_id, part in _read(path):
                content_hash = sha256(path.read_bytes()).hexdigest()
                ref = DefinitionRef(len(self.parts) + 1, part_id, 1, content_hash)
                self.parts[ref] = part

    def link(self) -> Linked:
        """The program of the first process, with every call resolved. Raises StopIteration for a call to nowhere."""
        root = next(ref for ref, part in self.parts.items() if isinstance(part, ProcessDefinition))
        calls = tuple(self._calls_of(root, {}))
        return Linked(root, calls, assemble(root.key, calls, self._by_key))

    def program_of(self, start: Start) -> Program:
        """The very program that an instance was started with. Raises StopIteration when a file is not among these."""
        parts: dict[Key, Part] = {}
        for ref in (start.definition, *(call.target for call in start.calls)):
            wanted = (ref.process_id, ref.content_hash)
            parts[ref.key] = next(
                part for known, part in self.parts.items() if (known.process_id, known.content_hash) == wanted
            )
        return assemble(start.definition.key, start.calls, parts)

    @property
    def _by_key(self) -> Mapping[Key, Part]:
        return {ref.key: part for ref, part in self.parts.items()}

    def _calls_of(self, caller: DefinitionRef, seen: dict[DefinitionRef, None]) -> Iterator[CallTarget]:
        seen[caller] = None
        definition = self.parts[caller]
        assert isinstance(definition, ProcessDefinition)
        for called in called_by(definition):
            target = next(ref for ref, part in self.parts.items() if _is_meant(called, ref, part))
            yield CallTarget(caller.content_hash, called.node.id, target)
            if isinstance(self.parts[target], ProcessDefinition) and target not in seen:
                yield from self._calls_of(target, seen)


class Linked(NamedTuple):
    ref: DefinitionRef
    calls: tuple[CallTarget, ...]
    program: Program


def _read(path: Path) -> Iterator[tuple[str, Part]]:
    if path.suffix == ".dmn":
        yield from parse_decisions(path.read_bytes(), path.name).decisions.items()
    else:
        yield from ((each.process_id, each) for each in parse(path.read_bytes(), path.name))


def _is_meant(called: Called, ref: DefinitionRef, part: Part) -> bool:
    if ref.process_id != called.id:
        return False
    return called.to.binding is not Binding.VERSION_TAG or getattr(part, "version_tag", None) == called.to.version_tag
