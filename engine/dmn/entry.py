"""Owns the ways into a DMN file: reading it for execution, and judging it for its author.
Never deploys or prints.
Called by deployment and by `conch check`, through `engine.dmn`.
"""

from __future__ import annotations

from collections.abc import Mapping

from engine.dmn.decision import DecisionModel
from engine.dmn.library import Library
from engine.dmn.lint import remarks
from engine.dmn.source import Source
from engine.errors import DefinitionInvalid, Problem


def parse_decisions(
    xml: bytes, resource_name: str, imports: Mapping[str, bytes] | Library | None = None
) -> DecisionModel:
    """The decisions of a DMN file, compiled.

    `imports` are the files that it may import, by name; one library may serve the reading of several files. Raises
    DefinitionInvalid with every problem when one of them is an error.
    """
    source = Source(xml, resource_name)
    model = _library(imports).read(source, xml).model() if source.is_dmn() else None
    if model is None or any(problem.severity == "error" for problem in source.problems):
        raise DefinitionInvalid(source.problems)
    return model


def check_decisions(
    xml: bytes, resource_name: str, imports: Mapping[str, bytes] | Library | None = None
) -> list[Problem]:
    """Everything that is wrong or doubtful in a DMN file."""
    try:
        source = Source(xml, resource_name)
    except DefinitionInvalid as refused:
        return list(refused.problems)
    if not source.is_dmn():
        return source.problems
    reader = _library(imports).read(source, xml)
    model = reader.model()
    for decision in model.decisions.values():
        if decision.table is not None:
            for rule, rule_id, message, remedy in remarks(decision.table, reader.declared):
                problem = Problem(resource_name, rule.id, decision.name, rule_id, message, remedy, "warning")
                source.problems.append(problem)
    return source.problems


def _library(imports: Mapping[str, bytes] | Library | None) -> Library:
    return imports if isinstance(imports, Library) else Library(imports)
