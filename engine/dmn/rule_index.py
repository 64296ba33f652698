"""Owns finding the rules whose constant cells a row of inputs passes, without looking at each rule.
Never evaluates a cell, and never decides where evaluating it could give a warning: that rule stays open.
Called by decision tables, which evaluate the cells that are open.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple

from engine.feel import Date, DaysTimeDuration, Range, Value, YearsMonthsDuration
from engine.feel.closures.code import ConstantTests
from engine.feel.operations import order_key

# A block of so many rules has masks of so many bits; with one block for all, memory would grow with their square.
BLOCK: Final = 512
# Kinds whose order and equality are those of their keys, and never depend on anything else, such as a time zone.
_KINDS: Final[dict[type, type]] = {
    int: int,
    Decimal: int,
    str: str,
    bool: bool,
    type(None): type(None),
    Date: Date,
    DaysTimeDuration: DaysTimeDuration,
    YearsMonthsDuration: YearsMonthsDuration,
}
_OWN_KEY: Final = frozenset((int, Decimal, str, bool, type(None)))

_NULL: Final = type(None)

Span = tuple[int, int]


class Masks(NamedTuple):
    """What one column says of the rules for values of one kind: bit n stands for the n-th rule of the block.

    `at` has the rules that a value equal to a bound may match, `between` those for all values below the first bound,
    between two, and above the last. `undecided` are rules whose cell has to be evaluated; they are in every mask.
    """

    at: Mapping[Any, int]
    bounds: Sequence[Any]
    between: Sequence[int]
    undecided: int

    def of(self, key: Any) -> int:
        """The rules that a value with this key may match."""
        mask = self.at.get(key)
        return self.between[bisect_left(self.bounds, key)] if mask is None else mask


class Open(NamedTuple):
    """The cells of one column that have to be evaluated, for rules that no constant cell before it has ruled out."""

    column: int
    rules: int


class RuleIndex:
    """The index of one block of rules, whose cells are given by column; a cell that takes anything is missing."""

    def __init__(self, columns: Sequence[Mapping[int, ConstantTests | None]], rules: int) -> None:
        self._all = (1 << rules) - 1
        self._columns = [
            (column, _by_kind(cells, self._all), sum(1 << rule for rule in cells))
            for column, cells in enumerate(columns)
            if cells
        ]

    def candidates(self, values: Sequence[Value]) -> tuple[int, list[Open]]:
        """The rules that no constant cell rules out, and the cells that are to be evaluated, column by column."""
        alive = self._all
        pending: list[Open] = []
        for column, kinds, tested in self._columns:
            value = values[column]
            kind = type(value)
            masks = kinds.get(kind)
            if masks is None:
                undecided = tested & alive
                if undecided:
                    pending.append(Open(column, undecided))
                continue
            undecided = masks.undecided & alive
            if undecided:
                pending.append(Open(column, undecided))
            alive &= masks.of(value if kind in _OWN_KEY else order_key(value))
            if not alive and not pending:
                break
        return alive, pending


def places(mask: int) -> Iterator[int]:
    """The places of the bits that are set, the lowest first."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def _by_kind(cells: Mapping[int, ConstantTests | None], everything: int) -> dict[type, Masks]:
    """For each type of a value that some cell is about, and for null: what the cells say."""
    decided: dict[type, dict[int, ConstantTests]] = {_NULL: {}}
    about_null: dict[int, ConstantTests] = {}
    for rule, cell in cells.items():
        if cell is None:
            continue
        kinds = {_KINDS.get(type(end)) for test in cell.tests for end in _ends(test)}
        ranges = any(isinstance(test, Range) for test in cell.tests)
        if None in kinds or (ranges and bool in kinds):
            continue
        if not ranges:
            decided[_NULL][rule] = cell
        kinds.discard(_NULL)
        if not kinds:
            about_null[rule] = cell
        elif len(kinds) == 1:
            decided.setdefault(kinds.pop() or _NULL, {})[rule] = cell
    masks = {
        kind: _masks(kind is _NULL, found if kind is _NULL else found | about_null, cells, everything)
        for kind, found in decided.items()
    }
    return {each: masks[kind] for each, kind in _KINDS.items() if kind in masks}


def _ends(test: Value) -> tuple[Value, ...]:
    if isinstance(test, Range):
        return tuple(end for end in (test.start, test.end) if end is not None)
    return (test,)


def _masks(null: bool, decided: Mapping[int, ConstantTests], cells: Iterable[int], everything: int) -> Masks:
    """What the cells say for null, or for the values of one kind; `decided` are those that say it without evaluation.

    Such a cell gives true or false, and no warning, for every value of the kind.
    """
    # A test for null is passed by nothing else, and null passes no other.
    tests = {rule: [test for test in cell.tests if (test is None) is null] for rule, cell in decided.items()}
    bounds = sorted({_key(end) for found in tests.values() for test in found for end in _ends(test)})
    place = {key: index for index, key in enumerate(bounds)}
    begins = [0] * (2 * len(bounds) + 2)
    ends = [0] * (2 * len(bounds) + 2)
    for rule, cell in decided.items():
        for first, last in _spans(tests[rule], cell.negated, place):
            begins[first] |= 1 << rule
            ends[last + 1] |= 1 << rule
    undecided = sum(1 << rule for rule in cells if rule not in decided)
    alive = everything & ~sum(1 << rule for rule in decided)
    at: dict[Any, int] = {}
    between: list[int] = []
    for segment in range(2 * len(bounds) + 1):
        alive = alive & ~ends[segment] | begins[segment]
        if segment % 2:
            at[bounds[segment // 2]] = alive
        else:
            between.append(alive)
    if len(set(between)) == 1:
        return Masks(at, (), between[:1], undecided)
    return Masks(at, bounds, between, undecided)


def _key(value: Value) -> Any:
    return value if type(value) in _OWN_KEY else order_key(value)


def _spans(tests: Sequence[Value], negated: bool, place: Mapping[Any, int]) -> list[Span]:
    """The segments of values that pass, in order and apart.

    With n bounds, segment 2 * i + 1 is the i-th bound itself, and the even ones are what lies below, between, above.
    """
    last = 2 * len(place)
    passing: list[Span] = []
    for first, end in sorted(_span(test, place, last) for test in tests):
        if first > end:
            continue
        if passing and first <= passing[-1][1] + 1:
            passing[-1] = (passing[-1][0], max(end, passing[-1][1]))
        else:
            passing.append((first, end))
    if not negated:
        return passing
    edges = [-1, *(edge for span in passing for edge in span), last + 1]
    return [(low + 1, high - 1) for low, high in zip(edges[::2], edges[1::2], strict=True) if low + 1 <= high - 1]


def _span(test: Value, place: Mapping[Any, int], last: int) -> Span:
    if not isinstance(test, Range):
        at = 2 * place[_key(test)] + 1
        return at, at
    first = 0 if test.start is None else 2 * place[_key(test.start)] + (1 if test.start_included else 2)
    end = last if test.end is None else 2 * place[_key(test.end)] + (1 if test.end_included else 0)
    return first, end
