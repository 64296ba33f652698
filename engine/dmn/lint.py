"""Owns judging the tables of a DMN file that can be read: rules that never match or overlap, words without quotes.
Never refuses by itself, deploys or prints: it yields problems.
Called by the entry points of this package.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from engine.dmn.overlap import covered, overlapping
from engine.dmn.table import Rule, Table
from engine.feel import Expression


class Remark(NamedTuple):
    """A doubt about a rule; the entry points give it its file and place."""

    rule: Rule
    id: str
    message: str
    remedy: str


def remarks(table: Table, known: frozenset[str]) -> Iterator[Remark]:
    """Everything doubtful about a table; `known` are the names that the file itself declares."""
    if table.policy_name == "FIRST":
        yield from _unreachable(table)
    if table.policy_name == "UNIQUE":
        yield from _overlaps(table)
    yield from _unquoted(table, known)


def _unreachable(table: Table) -> Iterator[Remark]:
    for earlier, later in covered(table):
        message = f"rule {later.row} never matches: rule {earlier.row} before it takes every input that it takes"
        yield Remark(later, "unreachable-rule", message, "Move it up, make its conditions narrower, or remove it.")


def _overlaps(table: Table) -> Iterator[Remark]:
    found: dict[int, list[int]] = {}
    rules = {rule.row: rule for rule in table.rules}
    for pairs in (covered(table), overlapping(table)):
        for earlier, later in pairs:
            rows = found.setdefault(later.row, [])
            if earlier.row not in rows:
                rows.append(earlier.row)
    for row, others in sorted(found.items()):
        shown = ", ".join(map(str, sorted(others)[:5])) + (" and others" if len(others) > 5 else "")
        message = f"rule {row} overlaps with rule {shown}: for some inputs both match, and UNIQUE then fails"
        yield Remark(rules[row], "overlapping-rules", message, "Make their conditions exclude each other.")


def _unquoted(table: Table, known: frozenset[str]) -> Iterator[Remark]:
    read = {name for column in table.inputs for name in column.expression.names | column.expression.possible_names}
    for rule in table.rules:
        cells: list[tuple[str, Expression]] = [
            (f"input column {column + 1}", test) for column, test in rule.tests if test.text.isidentifier()
        ]
        for number, entry in enumerate(rule.outputs, 1):
            if entry is not None and entry.text.isidentifier():
                cells.append((f"output column {number}", entry))
        for where, cell in cells:
            if cell.names and not cell.names & (read | known):
                message = f"rule {rule.row}, {where} reads a variable `{cell.text}`, which nothing here declares"
                remedy = f'Write "{cell.text}" in quotes where a text is meant.'
                yield Remark(rule, "unquoted-text", message, remedy)
