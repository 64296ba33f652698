"""Owns judging diagrams before anything is deployed: everything that is wrong with each of them, in one go.
Never deploys, prints or looks beyond the given paths; the rules themselves are rules and variables.
Called by `conch check` (for paths) and by deployment (for one file).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from engine.bpmn.definition import ProcessDefinition
from engine.bpmn.dialect import read
from engine.bpmn.rules import Topics, lint_elements, lint_paths
from engine.bpmn.variables import check_variables
from engine.bpmn.xml import MAX_BYTES
from engine.errors import Problem


def lint(definition: ProcessDefinition, topics: Topics | None) -> list[Problem]:
    """Everything that is wrong or doubtful with a definition that could be read.

    With `topics`, also topics that no task serves and variables that nothing produces. A problem of severity `error`
    must keep the diagram from being deployed.
    """
    problems = [*lint_elements(definition, topics), *lint_paths(definition)]
    if topics is not None:
        problems += check_variables(definition, topics)
    return problems


def check(
    xml: bytes, resource_name: str, topics: Topics | None, max_bytes: int = MAX_BYTES
) -> tuple[ProcessDefinition | None, list[Problem]]:
    """Read and judge one diagram. The definition is None when a problem of severity `error` was found."""
    definition, problems, complete = read(xml, resource_name, max_bytes)
    found = list(problems)
    if definition is not None:
        # What a hole in the graph makes of its paths and gateways is not the designer's fault.
        judged = lint(definition, topics) if complete else list(lint_elements(definition, topics))
        unread = {problem.element_id for problem in problems}
        found += [each for each in judged if each.rule != "missing-condition" or each.element_id not in unread]
    refused = any(problem.severity == "error" for problem in found)
    return (None if refused else definition), found


def check_paths(paths: Iterable[Path | str], topics: Topics | None) -> list[Problem]:
    """Every problem of every diagram in `paths`: files, or folders with all that lies below them."""
    problems: list[Problem] = []
    owners: dict[str, str] = {}
    for path in paths:
        for file in _diagrams(Path(path), problems):
            definition, found = _check_file(file, topics)
            problems += found
            if definition is None:
                continue
            owner = owners.setdefault(definition.process_id, str(file))
            if owner != str(file):
                message = f"the process id `{definition.process_id}` already belongs to {owner}"
                problems.append(_problem(file, "duplicate-process-id", message, "Give one of the two another id."))
    return problems


def _diagrams(path: Path, problems: list[Problem]) -> Iterator[Path]:
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.suffix in (".bpmn", ".dmn") and file.is_file())
        if not files:
            message, remedy = "the folder holds no diagram", "Name a folder with .bpmn files."
            problems.append(_problem(path, "no-diagram", message, remedy, "warning"))
        yield from files
    elif path.is_file():
        yield path
    else:
        problems.append(_problem(path, "no-such-file", "there is no such file or folder", "Correct the path."))


def _check_file(file: Path, topics: Topics | None) -> tuple[ProcessDefinition | None, list[Problem]]:
    if file.suffix == ".dmn":
        message, remedy = "decision tables are not supported yet; the file was not checked", "Remove it."
        return None, [_problem(file, "dmn-not-supported", message, remedy, "warning")]
    if file.suffix != ".bpmn":
        message, remedy = "the file is no diagram", "Name .bpmn files, or folders that hold them."
        return None, [_problem(file, "no-diagram", message, remedy)]
    try:
        with file.open("rb") as stream:
            xml = stream.read(MAX_BYTES + 1)
    except OSError as error:
        message, remedy = f"the file cannot be read: {error.strerror}", "Make it readable."
        return None, [_problem(file, "unreadable-file", message, remedy)]
    return check(xml, str(file), topics)


def _problem(path: Path, rule: str, message: str, remedy: str, severity: str = "error") -> Problem:
    return Problem(str(path), "", "", rule, message, remedy, severity)
