"""Owns judging diagrams before anything is deployed: everything that is wrong with each of them, in one go.
Never deploys, prints or looks beyond the given paths; the rules themselves are rules, paths, calls and variables.
Called by `conch check` (for paths) and by deployment (for one file).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from engine.bpmn.calls import called_processes, called_transitively, lint_calls
from engine.bpmn.definition import ProcessDefinition
from engine.bpmn.dialect import Reading, read
from engine.bpmn.paths import lint_paths
from engine.bpmn.rules import Topics, lint_elements
from engine.bpmn.variables import check_variables
from engine.bpmn.xml import MAX_BYTES
from engine.dmn import Library, check_decisions
from engine.errors import Problem

MAX_IMPORTABLE = 200  # as many files as one deployment may hold


def lint(
    definition: ProcessDefinition, topics: Topics | None, *, serves_route: bool = False, workers: bool = True
) -> list[Problem]:
    """Everything that is wrong or doubtful with a definition that could be read.

    With `topics`, also topics that no task serves and variables that nothing produces. A topic that is not among them
    is an error where the process serves a route, or without `workers` in other languages. A problem of severity `error`
    must keep the diagram from being deployed.
    """
    elements = lint_elements(definition, topics, serves_route=serves_route, workers=workers)
    problems = [*elements, *lint_paths(definition)]
    if topics is not None:
        problems += check_variables(definition, topics, serves_route=serves_route)
    return problems


def check(
    xml: bytes, resource_name: str, topics: Topics | None, max_bytes: int = MAX_BYTES, *, serves_route: bool = False
) -> tuple[tuple[ProcessDefinition, ...], list[Problem]]:
    """Read and judge one file. There are no definitions when a problem of severity `error` was found."""
    reading = read(xml, resource_name, max_bytes)
    found = list(reading.problems)
    for definition in reading.definitions:
        found += _judge(definition, reading, topics, serves_route, workers=True)
    return (() if _refused(found) else reading.definitions), found


def _judge(
    definition: ProcessDefinition, reading: Reading, topics: Topics | None, serves_route: bool, workers: bool
) -> list[Problem]:
    """What the rules find in what could be read. What a hole in the graph makes of its paths and gateways is not the
    designer's fault."""
    if reading.complete:
        return lint(definition, topics, serves_route=serves_route, workers=workers)
    unread = {problem.element_id for problem in reading.problems}
    judged = lint_elements(definition, topics, serves_route=serves_route, workers=workers)
    return [each for each in judged if each.rule != "missing-condition" or each.element_id not in unread]


def _refused(problems: Iterable[Problem]) -> bool:
    return any(problem.severity == "error" for problem in problems)


def check_paths(
    paths: Iterable[Path | str], topics: Topics | None, *, serving: Collection[str] = (), workers: bool = True
) -> list[Problem]:
    """Every problem of every diagram in `paths`: files, or folders with all that lies below them.

    A decision file may import what lies below the folder that is named; one that is named itself what is named with it,
    as in a deployment, else what lies beside it. `serving` names the processes that serve a route, and what they call
    serves it too; of the others, `workers` in other languages may do the jobs.
    """
    problems: list[Problem] = []
    readings: dict[str, Reading] = {}
    order: dict[str, int] = {}
    done: set[str] = set()
    named = [Path(path) for path in paths]
    decisions = [path for path in named if path.suffix == ".dmn" and path.is_file()]
    together = _library(decisions)
    for path in named:
        order.setdefault(str(path), len(order))
        library: Library | None = None
        for file in _diagrams(path, problems):
            order.setdefault(str(file), len(order))
            if str(file) in done:
                continue
            done.add(str(file))
            xml = _read(file, problems)
            if xml is not None and file.suffix == ".dmn":
                if library is None and b"import" in xml:
                    library = _library(path.rglob("*.dmn")) if path.is_dir() else together
                found = check_decisions(xml, str(file), library)
                if path is file and any(each.rule in ("missing-import", "wrong-import") for each in found):
                    found = check_decisions(xml, str(file), _library({*decisions, *file.parent.glob("*.dmn")}))
                problems += found
            elif xml is not None:
                readings[str(file)] = read(xml, str(file))
    problems += _judge_together(readings, topics, serving, workers)
    return sorted(problems, key=lambda problem: order[problem.file])


def _judge_together(
    readings: Mapping[str, Reading], topics: Topics | None, serving: Collection[str], workers: bool
) -> list[Problem]:
    known = [definition for reading in readings.values() for definition in reading.definitions]
    calls = {definition.process_id: called_processes(definition) for definition in known}
    on_route = called_transitively(serving, calls)
    problems: list[Problem] = []
    whole: dict[str, ProcessDefinition] = {}
    for file, reading in readings.items():
        found = list(reading.problems)
        for definition in reading.definitions:
            found += _judge(definition, reading, topics, definition.process_id in on_route, workers)
        problems += found
        for definition in () if _refused(found) else reading.definitions:
            owner = whole.setdefault(definition.process_id, definition)
            if owner is not definition:
                message = f"the process id `{definition.process_id}` already belongs to {owner.resource_name}"
                remedy = "Give one of the two another id."
                problems.append(_problem(Path(file), "duplicate-process-id", message, remedy))
    return [*problems, *lint_calls(known)]


def _diagrams(path: Path, problems: list[Problem]) -> Iterator[Path]:
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.suffix in (".bpmn", ".dmn") and file.is_file())
        if not files:
            message, remedy = "the folder holds no diagram", "Name a folder with .bpmn or .dmn files."
            problems.append(_problem(path, "no-diagram", message, remedy, "warning"))
        yield from files
    elif path.is_file():
        yield path
    else:
        problems.append(_problem(path, "no-such-file", "there is no such file or folder", "Correct the path."))


def _read(file: Path, problems: list[Problem]) -> bytes | None:
    """The text of a diagram; null, with a problem, where there is none to read."""
    if file.suffix not in (".bpmn", ".dmn"):
        message, remedy = "the file is no diagram", "Name .bpmn or .dmn files, or folders that hold them."
        problems.append(_problem(file, "no-diagram", message, remedy))
        return None
    try:
        with file.open("rb") as stream:
            return stream.read(MAX_BYTES + 1)
    except OSError as error:
        message, remedy = f"the file cannot be read: {error.strerror}", "Make it readable."
        problems.append(_problem(file, "unreadable-file", message, remedy))
        return None


def _library(paths: Iterable[Path]) -> Library:
    """The decision files that one may import; one that is named in two ways is there once."""
    files: dict[str, bytes] = {}
    for each in sorted({path.resolve(): path for path in paths}.values())[:MAX_IMPORTABLE]:
        try:
            with each.open("rb") as stream:
                files[str(each)] = stream.read(MAX_BYTES + 1)
        except OSError:
            continue  # told where that file itself is checked; here it counts as missing
    return Library(files)


def _problem(path: Path, rule: str, message: str, remedy: str, severity: str = "error") -> Problem:
    return Problem(str(path), "", "", rule, message, remedy, severity)
