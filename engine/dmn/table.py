"""Owns compiled decision tables: which rules match, what they give, and the trace of it.
Never reads XML; the hit policies are their own module.
Called by decisions and, for tables inside other logic, by boxed expressions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from engine.dmn.hit_policy import Hit, Outputs, Policy, value_of
from engine.dmn.logic import Convert, DecisionFailed, Evaluation, Logic, Scope, Unfit, fit
from engine.feel import Expression, Value


@dataclass(frozen=True, slots=True)
class Input:
    """An input column. `name` is its label, else its expression."""

    id: str
    name: str
    expression: Expression
    convert: Convert | None


@dataclass(frozen=True, slots=True)
class Output:
    """An output column. `default` is what it gives when no rule matches."""

    id: str
    name: str
    convert: Convert | None
    default: Expression | None


@dataclass(frozen=True, slots=True)
class Rule:
    """A row, counted from 1. `tests` leaves out the cells that any value passes; a null output gives null."""

    id: str
    row: int
    tests: tuple[tuple[int, Expression], ...]
    outputs: tuple[Expression | None, ...]


class TableResult(NamedTuple):
    """What a table gave, for which inputs, and the rules that matched."""

    value: Value
    inputs: tuple[Value, ...]
    hits: tuple[Hit, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A decision table. Immutable."""

    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    rules: tuple[Rule, ...]
    policy_name: str
    policy: Policy
    columns: Outputs

    def evaluate(self, scope: Scope, evaluation: Evaluation) -> TableResult:
        """The table's value in a scope. Raises DecisionFailed."""
        values = tuple(self._input(column, scope, evaluation) for column in self.inputs)
        hits = []
        for rule in self._matching(values, scope, evaluation):
            hits.append(Hit(rule.row, rule.id, self._outputs(rule, scope, evaluation)))
            if self.policy_name == "FIRST":
                break
        value = self.policy(self.columns, hits) if hits else self._default(scope, evaluation)
        return TableResult(value, values, tuple(hits))

    def _input(self, column: Input, scope: Scope, evaluation: Evaluation) -> Value:
        value = column.expression.evaluate(scope, evaluation.context)
        if column.convert is None:
            return value
        try:
            return column.convert(value)
        except Unfit as unfit:
            # As in Camunda 8, an input of another type than declared is not refused: the cells decide.
            evaluation.warn(column.expression.text, f"input `{column.name}`: {unfit}")
            return value

    def _matching(self, values: tuple[Value, ...], scope: Scope, evaluation: Evaluation) -> Iterator[Rule]:
        context = evaluation.context
        for rule in self.rules:
            evaluation.check()
            for column, test in rule.tests:
                if test.evaluate(scope, context, values[column]) is not True:
                    break
            else:
                yield rule

    def _outputs(self, rule: Rule, scope: Scope, evaluation: Evaluation) -> tuple[Value, ...]:
        given = []
        for column, entry in zip(self.outputs, rule.outputs, strict=True):
            value = None if entry is None else entry.evaluate(scope, evaluation.context)
            if column.convert is not None:
                value = fit(column.convert, value, f"rule {rule.row}, output `{column.name}`")
            given.append(value)
        return tuple(given)

    def _default(self, scope: Scope, evaluation: Evaluation) -> Value:
        """The default outputs, null where there are none: also of a table that otherwise gives a list."""
        if all(column.default is None for column in self.outputs):
            return None
        given = [
            None
            if column.default is None
            else fit(
                column.convert,
                column.default.evaluate(scope, evaluation.context),
                f"the default of output `{column.name}`",
            )
            for column in self.outputs
        ]
        return value_of(self.columns, given)

    def as_logic(self, where: str) -> Logic:
        """The table as a part of other logic."""

        def run(scope: Scope, evaluation: Evaluation) -> Value:
            try:
                return self.evaluate(scope, evaluation).value
            except DecisionFailed as failed:
                raise DecisionFailed(f"{where}: {failed}") from None

        expressions = self.expressions()
        depth = 2 + max((expression.depth for expression in expressions), default=0)
        return Logic(run, depth, len(expressions), self.reads())

    def expressions(self) -> list[Expression]:
        """Every expression of the table."""
        found = [column.expression for column in self.inputs]
        found += [column.default for column in self.outputs if column.default is not None]
        for rule in self.rules:
            found += [test for _, test in rule.tests]
            found += [entry for entry in rule.outputs if entry is not None]
        return found

    def reads(self) -> frozenset[str]:
        """The variables that the table reads."""
        return frozenset().union(*(expression.names for expression in self.expressions())) - {"?"}
