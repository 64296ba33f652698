"""Owns reading the files of one deployment: what they hold, and everything that is wrong with any of them.
Never looks at what is deployed already and stores nothing.
Called by the deployments.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from engine.bpmn import check
from engine.bpmn.definition import Binding, ProcessDefinition
from engine.bpmn.dialect import read
from engine.bpmn.rules import Topics
from engine.bpmn.xml import BPMN, MAX_BYTES, read_tree
from engine.dmn import DecisionModel, Library, check_decisions, parse_decisions
from engine.errors import DefinitionInvalid, Problem
from engine.linking import Part, called_by
from engine.store.definitions import DECISION, FORM, PROCESS, REQUIREMENTS, Deployable

MAX_RESOURCES = 200
MAX_NAME_CHARACTERS = 255  # of ids, tags and file names; an index row of Postgres holds 2,704 bytes


class Resource(NamedTuple):
    """One file to deploy."""

    name: str
    content: bytes


class Judged(NamedTuple):
    """What the files of one deployment hold, as far as they could be read, and everything found in them."""

    deployables: tuple[Deployable, ...]
    parts: tuple[Part, ...]
    definitions: tuple[ProcessDefinition, ...]  # also of files that are refused, with holes
    findings: tuple[Problem, ...]

    def check(self) -> None:
        """Raises DefinitionInvalid, with every finding, when one of them is an error."""
        if any(each.severity == "error" for each in self.findings):
            raise DefinitionInvalid(self.findings)


def read_folder(folder: Path) -> list[Resource]:
    """Every diagram, decision table and form below a folder, named by its path in it.

    Raises DefinitionInvalid when one cannot be read.
    """
    resources: list[Resource] = []
    problems: list[Problem] = []
    for file in sorted(folder.rglob("*")):
        if file.suffix in _READERS and file.is_file():
            try:
                with file.open("rb") as stream:
                    resources.append(Resource(file.relative_to(folder).as_posix(), stream.read(MAX_BYTES + 1)))
            except OSError as error:
                told = f"the file cannot be read: {error.strerror}"
                problems.append(Problem(str(file), "", "", "unreadable-file", told, "Make it readable."))
    if problems:
        raise DefinitionInvalid(problems)
    return resources


def judge(resources: Sequence[Resource], topics: Topics, route: str | None) -> Judged:
    """Read every file and compare them with each other. Never raises.

    The process `route` is held to `topics`: each of its jobs has to be one of them; other processes may leave jobs to
    workers outside.
    """
    findings = _judge_names(resources)
    contents: list[_File] = []
    library = Library({name: content for name, content in resources if PurePosixPath(name).suffix == ".dmn"})
    for index, resource in enumerate(resources):
        reader = _READERS.get(PurePosixPath(resource.name).suffix)
        if reader is None:
            findings.append(_unknown_kind(resource.name))
        else:
            file = _File(index, resource, topics, route, library)
            reader(file)
            findings += file.findings
            contents.append(file)
    findings += _judge_ids(contents)
    groups = _groups(contents)
    held = [(each._replace(group=groups[file.index]), part) for file in contents for each, part in file.held]
    return Judged(
        tuple(deployable for deployable, _ in held),
        tuple(part for _, part in held if part is not None),
        tuple(definition for file in contents for definition in file.definitions),
        tuple(findings),
    )


class _File:
    """One file while it is read."""

    def __init__(self, index: int, resource: Resource, topics: Topics, route: str | None, library: Library) -> None:
        self.index = index
        self.name, self.content = resource
        self.topics = topics
        self.route = route
        self.library = library  # of the decision files of the same deployment
        self.held: list[tuple[Deployable, Part | None]] = []
        self.definitions: tuple[ProcessDefinition, ...] = ()
        self.findings: list[Problem] = []
        self._hash = hashlib.sha256(self.content).hexdigest()
        self._imports: tuple[tuple[str, bytes], ...] = ()

    def hold(self, kind: str, process_id: str, name: str, version_tag: str | None, part: Part | None) -> None:
        deployable = Deployable(
            process_id, self._hash, self.name, self.content, kind, name, version_tag, imports=self._imports
        )
        self.held.append((deployable, part))

    def hold_decisions(self, model: DecisionModel) -> None:
        """Hold a file of decisions, pinned to what it imports."""
        self._hash, self._imports = model.content_hash, tuple(model.imported.items())
        self.hold(REQUIREMENTS, model.requirements_id, model.name, None, None)
        for decision in model.decisions.values():
            self.hold(DECISION, decision.id, decision.name, decision.version_tag, decision)

    def refuse(self, rule: str, message: str, remedy: str) -> None:
        self.findings.append(Problem(self.name, "", "", rule, message, remedy))


def _read_bpmn(file: _File) -> None:
    on_route = _holds(file, file.route)
    definitions, file.findings = check(file.content, file.name, file.topics, serves_route=on_route)
    refused = any(each.severity == "error" for each in file.findings)
    file.definitions = read(file.content, file.name).definitions if refused else definitions
    for each in definitions:
        file.hold(PROCESS, each.process_id, each.name, each.version_tag, each)


def _holds(file: _File, process_id: str | None) -> bool:
    try:
        root = read_tree(file.content, file.name)
    except DefinitionInvalid:
        return False  # told by whoever reads it in full
    return any(process.get("id") == process_id for process in root.iterfind(f"{{{BPMN}}}process"))


def _read_dmn(file: _File) -> None:
    file.findings = check_decisions(file.content, file.name, file.library)
    if any(each.severity == "error" for each in file.findings):
        return
    file.hold_decisions(parse_decisions(file.content, file.name, file.library))


def _read_form(file: _File) -> None:
    if len(file.content) > MAX_BYTES:
        told = f"the file has more than {MAX_BYTES:,} bytes"
        file.refuse("file-too-large", told, "Split the form.")
        return
    try:
        form = json.loads(file.content)
    except (ValueError, RecursionError):
        file.refuse("not-json", "the form is not JSON", "Save it again with Camunda Modeler.")
        return
    form_id = form.get("id") if isinstance(form, dict) else None
    if not isinstance(form_id, str) or not form_id:
        file.refuse("missing-id", "the form has no id", "Give it an id in Camunda Modeler.")
        return
    tag = form.get("versionTag")
    file.hold(FORM, form_id, "", tag if isinstance(tag, str) else None, None)


_READERS = {".bpmn": _read_bpmn, ".dmn": _read_dmn, ".form": _read_form}


def _unknown_kind(name: str) -> Problem:
    if PurePosixPath(name).suffix == ".rpa":
        message, remedy = "RPA scripts do not run here", "Leave the file out; call a job worker instead."
    else:
        message, remedy = "the file is no .bpmn, .dmn or .form", "Leave it out, or correct its name."
    return Problem(name, "", "", "unsupported-file", message, remedy)


def _judge_names(resources: Sequence[Resource]) -> list[Problem]:
    problems = []
    names = [resource.name for resource in resources]
    if not names:
        problems.append(Problem("", "", "", "no-file", "the deployment holds no file", "Send at least one."))
    if len(names) > MAX_RESOURCES:
        told = f"the deployment holds {len(names)} files; the limit is {MAX_RESOURCES}"
        problems.append(Problem("", "", "", "too-many-files", told, "Deploy them in parts."))
    for name in sorted({name for name in names if names.count(name) > 1}):
        problems.append(Problem(name, "", "", "duplicate-file", "two files have this name", "Rename one of them."))
    for name in names:
        if fault := _unfit(name):
            problems.append(Problem(ascii(name)[:80], "", "", "invalid-name", f"the name {fault}", "Rename the file."))
    return problems


def _judge_ids(files: Iterable[_File]) -> list[Problem]:
    problems = []
    owners: dict[tuple[str, str], str] = {}
    for file in files:
        for each, _ in file.held:
            owner = owners.setdefault((each.kind, each.process_id), file.name)
            if owner != file.name:
                told = f"the {each.kind} id `{each.process_id}` already belongs to {owner}"
                remedy = "Give one of the two another id."
                problems.append(
                    Problem(file.name, each.process_id, each.name, f"duplicate-{each.kind}-id", told, remedy)
                )
            for what, value in (("id", each.process_id), ("version tag", each.version_tag or "-")):
                if fault := _unfit(value):
                    told = f"the {each.kind}'s {what} {fault}"
                    problems.append(
                        Problem(file.name, ascii(value)[:80], "", "invalid-id", told, f"Change the {what}.")
                    )
    return problems


def _unfit(text: str) -> str:
    """Why Postgres could not hold `text` in an index; empty when it can."""
    if not text:
        return "is empty"
    if len(text) > MAX_NAME_CHARACTERS:
        return f"has {len(text):,} characters; the limit is {MAX_NAME_CHARACTERS}"
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in text):
        return "holds a control character"
    return ""


def _groups(files: Sequence[_File]) -> dict[int, int]:
    """For each file the first of those that it is tied to: by a call that means the version of the same deployment."""
    group = {file.index: file.index for file in files}
    home = {(each.kind, each.process_id): file.index for file in files for each, _ in file.held}
    for file in files:
        for part in (part for _, part in file.held if isinstance(part, ProcessDefinition)):
            for called in called_by(part):
                other = home.get((called.kind, called.id))
                if other is not None and called.to.binding is Binding.DEPLOYMENT:
                    old, new = group[other], group[file.index]
                    group = {index: new if at == old else at for index, at in group.items()}
    return group
