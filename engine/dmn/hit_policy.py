"""Owns the hit policies and aggregators: what the outputs of all rules that matched make together (DMN 1.5, 8.2.10).
Never evaluates a cell.
Called by decision tables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Final, NamedTuple, TypeAlias

from engine.dmn.item_type import shown
from engine.dmn.logic import DecisionFailed, Unfit
from engine.feel import EvaluationContext, Range, Value, compile_expression
from engine.feel.faults import FeelFault
from engine.feel.operations import includes


class Hit(NamedTuple):
    """A rule that matched: its row, counted from 1, its id, and its outputs, one for each output column."""

    row: int
    rule_id: str
    outputs: tuple[Value, ...]


class Outputs(NamedTuple):
    """The output columns: their names, and for each the allowed values in order of priority."""

    names: tuple[str, ...]
    priorities: tuple[tuple[Value, ...], ...]


Policy: TypeAlias = Callable[[Outputs, Sequence[Hit]], Value]
_EQUAL: Final = compile_expression("left = right")


def value_of(outputs: Outputs, values: Sequence[Value]) -> Value:
    """The value of one rule: that of its only output, or a context of all its outputs."""
    return values[0] if len(outputs.names) == 1 else dict(zip(outputs.names, values, strict=True))


def rows(hits: Sequence[Hit]) -> str:
    """The rows of the rules in words: `2 and 5`."""
    numbers = [str(hit.row) for hit in hits]
    return numbers[0] if len(numbers) == 1 else f"{', '.join(numbers[:-1])} and {numbers[-1]}"


def same(left: Value, right: Value) -> bool:
    """Whether two values are equal in FEEL: of one kind, and deeply equal."""
    return _EQUAL.evaluate({"left": left, "right": right}) is True


def unique(outputs: Outputs, hits: Sequence[Hit]) -> Value:
    if len(hits) > 1:
        raise DecisionFailed(f"the rules {rows(hits)} match, but the hit policy UNIQUE allows only one")
    return value_of(outputs, hits[0].outputs)


def first(outputs: Outputs, hits: Sequence[Hit]) -> Value:
    return value_of(outputs, hits[0].outputs)


def any_of(outputs: Outputs, hits: Sequence[Hit]) -> Value:
    wanted = value_of(outputs, hits[0].outputs)
    for hit in hits[1:]:
        other = value_of(outputs, hit.outputs)
        if not same(wanted, other):
            found = f"{shown(wanted)} and {shown(other)}"
            raise DecisionFailed(
                f"the rules {rows((hits[0], hit))} match with different outputs, {found}, but the hit policy ANY needs"
                " the same"
            )
    return wanted


def _is_one_of(listed: Value, value: Value) -> bool:
    """Whether a value is the listed one, or lies in the listed range."""
    if isinstance(listed, Range) and not isinstance(value, Range):
        try:
            return includes(listed, value)
        except FeelFault:
            return False
    return same(listed, value)


def _by_priority(outputs: Outputs, hits: Sequence[Hit]) -> list[Hit]:
    """The hits in the order of the output values, of the first output column first; a value not listed is last."""

    def rank(hit: Hit) -> tuple[int, ...]:
        return tuple(
            next((place for place, each in enumerate(listed) if _is_one_of(each, value)), len(listed))
            for listed, value in zip(outputs.priorities, hit.outputs, strict=True)
        )

    return sorted(hits, key=rank)


def priority(outputs: Outputs, hits: Sequence[Hit]) -> Value:
    return value_of(outputs, _by_priority(outputs, hits)[0].outputs)


def all_of(outputs: Outputs, hits: Sequence[Hit]) -> Value:
    return [value_of(outputs, hit.outputs) for hit in hits]


def output_order(outputs: Outputs, hits: Sequence[Hit]) -> Value:
    return all_of(outputs, _by_priority(outputs, hits))


def count(outputs: Outputs, hits: Sequence[Hit]) -> Value:
    return len(hits)


def _aggregated(name: str, text: str) -> Policy:
    expression = compile_expression(text)

    def aggregate(outputs: Outputs, hits: Sequence[Hit]) -> Value:
        values = [hit.outputs[0] for hit in hits]
        context = EvaluationContext()
        result = expression.evaluate({"outputs": values}, context)
        if result is None:
            culprit = next((hit for hit in hits if not isinstance(hit.outputs[0], int | Decimal)), hits[0])
            cause = context.warnings[0].cause if context.warnings else "there is no such value"
            found = shown(culprit.outputs[0])
            raise Unfit(f"{name} of the outputs of rules {rows(hits)}: {cause}; rule {culprit.row} gives {found}")
        return result

    return aggregate


POLICIES: Final[dict[str, Policy]] = {
    "UNIQUE": unique,
    "FIRST": first,
    "ANY": any_of,
    "PRIORITY": priority,
    "COLLECT": all_of,
    "RULE ORDER": all_of,
    "OUTPUT ORDER": output_order,
}
AGGREGATORS: Final[dict[str, Policy]] = {
    "SUM": _aggregated("SUM", "sum(outputs)"),
    "MIN": _aggregated("MIN", "min(outputs)"),
    "MAX": _aggregated("MAX", "max(outputs)"),
    "COUNT": count,
}
# The letters of the notation, each with its policy and aggregator (DMN 1.5, 8.2.10).
LETTERS: Final[dict[str, tuple[str, str]]] = {
    "U": ("UNIQUE", ""),
    "A": ("ANY", ""),
    "P": ("PRIORITY", ""),
    "F": ("FIRST", ""),
    "C": ("COLLECT", ""),
    "C+": ("COLLECT", "SUM"),
    "C<": ("COLLECT", "MIN"),
    "C>": ("COLLECT", "MAX"),
    "C#": ("COLLECT", "COUNT"),
    "O": ("OUTPUT ORDER", ""),
    "R": ("RULE ORDER", ""),
}
BY_PRIORITY: Final = frozenset(("PRIORITY", "OUTPUT ORDER"))
