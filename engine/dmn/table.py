"""Owns compiled decision tables: which rules match, what they give, and the trace of it.
Never reads XML; the hit policies, and the index that finds rules by their constant cells, are their own modules.
Called by decisions and, for tables inside other logic, by boxed expressions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from engine.dmn.hit_policy import Hit, Outputs, Policy, value_of
from engine.dmn.item_type import shown
from engine.dmn.logic import Convert, DecisionFailed, Evaluation, Logic, Scope, Unfit, fitted
from engine.dmn.rule_index import BLOCK, RuleIndex, places
from engine.feel import Expression, Value
from engine.feel.environment import Env


@dataclass(frozen=True, slots=True)
class Input:
    """An input column. `name` is its label, else its expression; `allowed` tells which values are expected."""

    id: str
    name: str
    expression: Expression
    convert: Convert | None
    allowed: Expression | None


@dataclass(frozen=True, slots=True)
class Output:
    """An output column. `default` is what it gives when no rule matches."""

    id: str
    name: str
    convert: Convert | None
    default: Expression | None


@dataclass(frozen=True, slots=True)
class Rule:
    """A row, counted from 1. `tests` leaves out the cells that any value passes; a null output gives null.

    `hit` is what it gives when it matches, where that is always the same.
    """

    id: str
    row: int
    tests: tuple[tuple[int, Expression], ...]
    outputs: tuple[Expression | None, ...]
    hit: Hit | None


class Block(NamedTuple):
    """Some rules that follow each other, what finds them, and their cells by column and place in the block."""

    rules: tuple[Rule, ...]
    finder: RuleIndex
    cells: tuple[Mapping[int, Expression], ...]


def blocks(rules: Sequence[Rule], inputs: int) -> tuple[Block, ...]:
    """All rules of a table with so many input columns, in their order."""
    made = []
    for start in range(0, len(rules), BLOCK):
        some = tuple(rules[start : start + BLOCK])
        cells: tuple[dict[int, Expression], ...] = tuple({} for _ in range(inputs))
        for place, rule in enumerate(some):
            for column, test in rule.tests:
                cells[column][place] = test
        constants = [{place: test.constant_tests for place, test in column.items()} for column in cells]
        made.append(Block(some, RuleIndex(constants, len(some)), cells))
    return tuple(made)


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
    blocks: tuple[Block, ...]

    def evaluate(self, scope: Scope, evaluation: Evaluation) -> TableResult:
        """The table's value in a scope. Raises DecisionFailed."""
        env = evaluation.env(scope)
        values = tuple([self._input(column, env, evaluation) for column in self.inputs])
        hits = self._hits(values, env, evaluation)
        try:
            value = self.policy(self.columns, hits) if hits else self._default(env, evaluation)
        except Unfit as unfit:  # what an aggregator cannot take makes null (DMN 1.5, 10.3.2.10)
            evaluation.warn(self.policy_name, str(unfit))
            value = None
        except DecisionFailed as failed:
            failed.table = values, tuple(hits)
            raise
        return TableResult(value, values, tuple(hits))

    def _input(self, column: Input, env: Env, evaluation: Evaluation) -> Value:
        """The input of a column. As in Camunda 8, one that is not as declared is not refused: the cells decide."""
        value = column.expression.evaluate_in(env)
        if column.convert is not None:
            try:
                value = column.convert(value, evaluation.context)
            except Unfit as unfit:
                evaluation.warn(f"input `{column.name}`", str(unfit))
        if column.allowed is not None and value is not None and column.allowed.evaluate_in(env, value) is not True:
            cause = f"{shown(value)} is none of the input values {column.allowed.text}"
            evaluation.warn(f"input `{column.name}`", cause)
        return value

    def _hits(self, values: tuple[Value, ...], env: Env, evaluation: Evaluation) -> list[Hit]:
        """The rules that match, in their order; as if each rule's cells were evaluated from left to right."""
        evaluation.check()
        hits: list[Hit] = []
        for rules, finder, cells in self.blocks:
            alive, pending = finder.candidates(values)
            visited = alive
            for _, some in pending:
                visited |= some
            for place in places(visited):
                bit, rule = 1 << place, rules[place]
                for column, some in pending:
                    if some & bit and cells[column][place].evaluate_in(env, values[column]) is not True:
                        break
                else:
                    if alive & bit:
                        hits.append(rule.hit or Hit(rule.row, rule.id, self._outputs(rule, env, evaluation)))
                        if self.policy_name == "FIRST":
                            return hits
                if pending or rule.hit is None:
                    evaluation.check()
        return hits

    def _outputs(self, rule: Rule, env: Env, evaluation: Evaluation) -> tuple[Value, ...]:
        given = []
        for column, entry in zip(self.outputs, rule.outputs, strict=True):
            value = None if entry is None else entry.evaluate_in(env)
            if column.convert is not None:
                value = fitted(column.convert, value, f"rule {rule.row}, output `{column.name}`", evaluation)
            given.append(value)
        return tuple(given)

    def _default(self, env: Env, evaluation: Evaluation) -> Value:
        """The default outputs, null where there are none: also of a table that otherwise gives a list."""
        if all(column.default is None for column in self.outputs):
            return None
        given = [
            None
            if column.default is None
            else fitted(
                column.convert, column.default.evaluate_in(env), f"the default, output `{column.name}`", evaluation
            )
            for column in self.outputs
        ]
        return value_of(self.columns, given)

    def as_logic(self, where: str) -> Logic:
        """The table as a part of other logic."""

        def run(scope: Scope, evaluation: Evaluation) -> Value:
            try:
                value, inputs, hits = self.evaluate(scope, evaluation)
            except DecisionFailed as failed:
                raise DecisionFailed(f"{where}: {failed}") from None
            evaluation.note(where, self.seen(inputs), tuple((hit.row, hit.rule_id) for hit in hits), value)
            return value

        expressions = self.expressions()
        depth = 2 + max((expression.depth for expression in expressions), default=0)
        return Logic(run, depth, len(expressions), self.reads)

    def seen(self, inputs: tuple[Value, ...]) -> dict[str, Value]:
        """The inputs by the names of their columns."""
        return {column.name: each for column, each in zip(self.inputs, inputs, strict=True)}

    def expressions(self) -> list[Expression]:
        """Every expression of the table."""
        found = [column.expression for column in self.inputs]
        found += [column.allowed for column in self.inputs if column.allowed is not None]
        found += [column.default for column in self.outputs if column.default is not None]
        for rule in self.rules:
            found += [test for _, test in rule.tests]
            found += [entry for entry in rule.outputs if entry is not None]
        return found

    @property
    def reads(self) -> frozenset[str]:
        """The variables that the table reads."""
        return frozenset().union(*(expression.names for expression in self.expressions())) - {"?"}
