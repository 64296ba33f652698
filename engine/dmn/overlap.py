"""Owns what can be proved about the rows of a table without running it: rules never reached, rules that overlap.
Never guesses: where the cells are not constant, nothing is said.
Called by the checks of decision tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from itertools import pairwise
from typing import Final, NamedTuple

from engine.dmn.table import Rule, Table
from engine.feel import Expression, Range, Value
from engine.feel.values import is_number

# Above, a table takes too long to compare rule by rule.
MAX_RULES_COVERED: Final = 1_000
MAX_RULES_OVERLAPPING: Final = 150


class Pair(NamedTuple):
    """Two rules, the earlier one first."""

    earlier: Rule
    later: Rule


def covered(table: Table) -> Iterator[Pair]:
    """Rules whose every input an earlier rule takes too: cell by cell its text is the same, or takes anything."""
    seen: list[tuple[Rule, dict[int, str]]] = []
    for rule in table.rules if len(table.rules) <= MAX_RULES_COVERED else ():
        cells = {column: test.text for column, test in rule.tests}
        for earlier, conditions in seen:
            if all(cells.get(column) == text for column, text in conditions.items()):
                yield Pair(earlier, rule)
                break
        seen.append((rule, cells))


def overlapping(table: Table) -> Iterator[Pair]:
    """Pairs of rules that some input surely matches both.

    Only where the input columns are different plain variables and the cells are constants: then a value that passes
    both cells of every column is such an input.
    """
    names = [column.expression.text for column in table.inputs]
    if (
        len(table.rules) > MAX_RULES_OVERLAPPING
        or len(set(names)) < len(names)
        or not all(name.isidentifier() for name in names)
    ):
        return
    cells = _Cells()
    for place, later in enumerate(table.rules):
        tests = dict(later.tests)
        for earlier in table.rules[:place]:
            others = dict(earlier.tests)
            if all(
                cells.meet(others.get(column) or tests[column], tests.get(column) or others[column])
                for column in others.keys() | tests.keys()
            ):
                yield Pair(earlier, later)


class _Cells:
    """What is known of cells, remembered by their texts."""

    def __init__(self) -> None:
        self._points: dict[str, list[Value]] = {}
        self._meetings: dict[tuple[str, str], bool] = {}

    def meet(self, one: Expression, other: Expression) -> bool:
        """Whether some value surely passes both cells."""
        key = (one.text, other.text)
        if key not in self._meetings:
            points = self._of(one) + self._of(other)
            numbers = sorted(point for point in points if is_number(point))
            between = [(Decimal(low) + Decimal(high)) / 2 for low, high in pairwise(numbers)]
            self._meetings[key] = any(
                one.evaluate({}, None, point) is True and other.evaluate({}, None, point) is True
                for point in (*points, *between)
            )
        return self._meetings[key]

    def _of(self, test: Expression) -> list[Value]:
        """Values in and around a constant cell; none where it reads anything."""
        if test.text not in self._points:
            self._points[test.text] = _points(test)
        return self._points[test.text]


def _points(test: Expression) -> list[Value]:
    found: list[Value] = []
    for value in () if test.constant_tests is None else test.constant_tests.tests:
        ends = (value.start, value.end) if isinstance(value, Range) else (value,)
        for end in ends:
            if end is None:
                continue
            found.append(end)
            if is_number(end):
                found += [end - 1, end + 1]
    return found
