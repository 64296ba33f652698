"""Owns decisions: immutable, compiled with all that they require, and what evaluating one gives.
Never reads XML, a clock or a random source.
Called by the engine's core for business rule tasks, and by whoever tries a decision out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from engine.dmn.hit_policy import Hit
from engine.dmn.logic import Convert, DecisionFailed, Evaluation, Logic, Noted, Parameter, Scope, fitted, function_of
from engine.dmn.table import Table
from engine.feel import EvaluationContext, FeelWarning, Value, compile_expression, to_json
from engine.feel.tree import TypeOf

# Makes a FEEL value of what a caller gives, as reading a variable does.
VARIABLE: Final = compile_expression("value")

MAX_WARNINGS_TOLD: Final = 20

Bound = tuple[tuple[str, str], ...]  # names in a scope, and the ids of what they mean
Prefixed = tuple[tuple[str, Bound], ...]  # the same inside a context, which has the name of an import


class EvaluatedDecision(NamedTuple):
    """One decision on the way to the result: what it saw, which rules matched, what it gave.

    `inputs` are the columns of a table by label or expression, for other logic the input data that it requires.
    """

    id: str
    name: str
    inputs: Mapping[str, Value]
    hits: tuple[Hit, ...]
    value: Value


class DecisionResult(NamedTuple):
    """What a decision gave: a FEEL value, and why.

    `evaluated` ends with the decision itself; `noted` are the tables and services that were evaluated inside other
    logic, the first 50; `warnings` say what became null on the way.
    """

    value: Value
    evaluated: tuple[EvaluatedDecision, ...]
    noted: tuple[Noted, ...] = ()
    warnings: tuple[FeelWarning, ...] = ()

    @property
    def matched_rule_ids(self) -> tuple[str, ...]:
        """The ids of the decision's own rules that matched, in row order."""
        return tuple(hit.rule_id for hit in self.evaluated[-1].hits)

    @property
    def inputs(self) -> Mapping[str, Value]:
        """What the decision itself saw, by name."""
        return self.evaluated[-1].inputs

    @property
    def required(self) -> Mapping[str, Value]:
        """The values of the decisions that it required, directly or not, by id."""
        return {each.id: each.value for each in self.evaluated[:-1]}

    def details(self) -> dict[str, Any]:
        """The reasons as JSON, for the audit: inputs, rows and ids of the matched rules; the same and the value of each
        required decision, by id; the same of what was evaluated inside other logic; and what became null.

        A function, which has no JSON form, is left out.
        """
        *required, own = self.evaluated
        told = {
            "inputs": _json(own.inputs),
            "rules": _rules(own.hits),
            "required": {
                each.id: {"inputs": _json(each.inputs), "rules": _rules(each.hits), **_json({"value": each.value})}
                for each in required
            },
        }
        if self.noted:
            told["called"] = [
                {
                    "logic": each.where,
                    "inputs": _json(each.inputs),
                    "rules": [{"row": row, "id": rule_id} for row, rule_id in each.rules],
                    **_json({"value": each.value}),
                }
                for each in self.noted
            ]
        if self.warnings:
            told["warnings"] = self.causes()[:MAX_WARNINGS_TOLD]
        return told

    def causes(self) -> list[str]:
        """The warnings, each once, with their places."""
        return list(dict.fromkeys(warning.in_one_line() for warning in self.warnings))


def _rules(hits: tuple[Hit, ...]) -> list[dict[str, Any]]:
    return [{"row": hit.row, "id": hit.rule_id} for hit in hits]


def _json(values: Mapping[str, Value]) -> dict[str, Any]:
    made = {}
    for name, value in values.items():
        try:
            made[name] = to_json(value)
        except ValueError:
            continue
    return made


@dataclass(frozen=True, slots=True)
class Knowledge:
    """A business knowledge model or a decision service: a function that decisions, and others of its kind, may call."""

    id: str
    name: str
    parameters: tuple[Parameter, ...]
    logic: Logic
    knowledge: Bound
    prefixed: Prefixed
    signature: TypeOf


def bind(scope: dict[str, Any], bound: Bound, prefixed: Prefixed, values: Mapping[str, Value]) -> None:
    """Put values into a scope, by the names that they have there; what has no value is null."""
    for name, each in bound:
        scope[name] = values.get(each)
    for prefix, names in prefixed:
        scope[prefix] = {name: values.get(each) for name, each in names}


@dataclass(frozen=True, slots=True)
class Step:
    """The logic of one decision, to be evaluated once all that it requires is there.

    `input_names` are those of a table's columns, for other logic those of the input data that it requires.
    """

    id: str
    name: str
    logic: Table | Logic
    convert: Convert | None
    input_names: tuple[str, ...]
    bound: Bound
    prefixed: Prefixed

    @property
    def where(self) -> str:
        return f'decision `{self.id}` "{self.name}"' if self.name != self.id else f"decision `{self.id}`"

    def evaluate(self, scope: Scope, evaluation: Evaluation) -> EvaluatedDecision:
        """Raises DecisionFailed, which names the decision."""
        hits: tuple[Hit, ...] = ()
        inputs: Mapping[str, Value]
        try:
            if isinstance(self.logic, Table):
                value, values, hits = self.logic.evaluate(scope, evaluation)
                inputs = dict(zip(self.input_names, values, strict=True))
            else:
                value = self.logic.run(scope, evaluation)
                inputs = self._inputs(scope, evaluation)
            if self.convert is not None:
                value = fitted(self.convert, value, self.where, evaluation)
        except DecisionFailed as failed:
            raise self._failed(failed, scope, evaluation) from None
        return EvaluatedDecision(self.id, self.name, inputs, hits, value)

    def _inputs(self, scope: Scope, evaluation: Evaluation) -> dict[str, Value]:
        """The input data that logic other than a table requires, as far as there is any."""
        given = [name for name in self.input_names if name in scope]
        return {name: VARIABLE.evaluate({"value": scope[name]}, evaluation.context) for name in given}

    def _failed(self, cause: DecisionFailed, scope: Scope, evaluation: Evaluation) -> DecisionFailed:
        """The failure of this decision, with what it saw: what a person needs in order to mend it."""
        failed = DecisionFailed(f"{self.where}: {cause}")
        inputs, hits = {}, ()
        if not isinstance(self.logic, Table):
            inputs = self._inputs(scope, evaluation)
        elif cause.table is not None:
            values, hits = cause.table
            inputs = dict(zip(self.input_names, values, strict=True))
        failed.result = DecisionResult(None, (EvaluatedDecision(self.id, self.name, inputs, hits, None),))
        return failed


def in_order(
    steps: tuple[Step, ...], base: Scope, given: Mapping[str, Value], evaluation: Evaluation
) -> list[EvaluatedDecision]:
    """Evaluate steps one after the other; each sees the scope, the functions that it may call, and what it requires.

    `given` are values of decisions that are not evaluated, and of input data, by id. Raises DecisionFailed.
    """
    values = {**evaluation.functions, **given}
    evaluated: list[EvaluatedDecision] = []
    for step in steps:
        scope = base
        if step.bound or step.prefixed:
            scope = dict(base)
            bind(scope, step.bound, step.prefixed, values)
        try:
            done = step.evaluate(scope, evaluation)
        except DecisionFailed as failed:
            failed.result = failed.result._replace(evaluated=(*evaluated, *failed.result.evaluated))
            raise
        values[step.id] = done.value
        evaluated.append(done)
    return evaluated


class InputData(NamedTuple):
    """Input data of a decision, with what makes a variable its value: null where its type takes any.

    `path` are the names of the imports that lead to it; it is empty for that of the decision's own file.
    """

    id: str
    names: tuple[str, ...]
    path: tuple[str, ...]
    convert: Convert | None

    def imported_as(self, prefix: str) -> InputData:
        """The same, seen from a file that imports this one's."""
        return self._replace(path=(prefix, *self.path) if prefix else self.path)

    def variable(self, variables: Mapping[str, Any]) -> tuple[bool, Any]:
        """Whether a variable is there for it, and its value: in a context that has the name of the import, or alone."""
        inner: Any = variables
        for prefix in self.path:
            inner = inner.get(prefix) if isinstance(inner, Mapping) else None
        for scope in (inner, variables):
            for name in self.names if isinstance(scope, Mapping) else ():
                if name in scope:
                    return True, scope[name]
        return False, None


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision of a file, with everything that it requires. May be evaluated by several threads at once.

    `content_hash` is the sha256 of the file, hex; where it imports others, of its hash and theirs. `reads` names the
    variables that evaluating it surely reads.
    """

    id: str
    name: str
    version_tag: str | None
    content_hash: str
    steps: tuple[Step, ...]  # in the order of evaluation; the decision's own is the last
    knowledge: tuple[Knowledge, ...]
    input_data: tuple[InputData, ...]  # of its own file those with a type alone, of imported files all
    reads: frozenset[str]

    def imported_as(self, prefix: str) -> Decision:
        """The same, seen from a file that imports this one's."""
        return replace(self, input_data=tuple(each.imported_as(prefix) for each in self.input_data))

    @property
    def table(self) -> Table | None:
        """The decision's own table; null where its logic is something else."""
        logic = self.steps[-1].logic
        return logic if isinstance(logic, Table) else None

    def evaluate(self, variables: Mapping[str, Any], context: EvaluationContext) -> DecisionResult:
        """Evaluate the decision, and before it once each decision that it requires.

        `variables` are read by name, as FEEL values or JSON. Parts that became null are told in `context.warnings`.
        Raises DecisionFailed.
        """
        already = len(context.warnings)
        own = EvaluationContext(context.now_us, context.random, context.uuid, context.limits, context.warnings)
        evaluation = Evaluation(own)
        if self.knowledge:
            self._make_functions(evaluation)
        scope, given = self._inputs(variables, evaluation)
        try:
            evaluated = in_order(self.steps, scope, given, evaluation)
        except DecisionFailed as failed:
            failed.result = failed.result._replace(
                noted=tuple(evaluation.noted), warnings=tuple(context.warnings[already:])
            )
            raise
        warnings = tuple(context.warnings[already:])
        return DecisionResult(evaluated[-1].value, tuple(evaluated), tuple(evaluation.noted), warnings)

    def _inputs(self, variables: Mapping[str, Any], evaluation: Evaluation) -> tuple[Scope, dict[str, Value]]:
        """The variables, input data among them as its type has it; and by id that of imported files."""
        own: dict[str, Value] = {}
        given: dict[str, Value] = {}
        for each in self.input_data:
            found, variable = each.variable(variables)
            if not found:
                continue
            value = VARIABLE.evaluate({"value": variable}, evaluation.context)
            value = fitted(each.convert, value, f"input data `{each.names[0]}`", evaluation)
            if each.path:
                given[each.id] = value
            else:
                own.update((name, value) for name in each.names if name in variables)
                given[each.id] = value
        return ({**variables, **own} if own else variables), given

    def _make_functions(self, evaluation: Evaluation) -> None:
        """The functions of all that can be called; each sees those that its own model requires."""
        functions = evaluation.functions
        scopes: dict[str, dict[str, Value]] = {each.id: {} for each in self.knowledge}
        for each in self.knowledge:
            functions[each.id] = function_of(
                each.name, each.parameters, each.logic, scopes[each.id], evaluation, each.signature
            )
        for each in self.knowledge:
            bind(scopes[each.id], each.knowledge, each.prefixed, functions)


@dataclass(frozen=True, slots=True)
class DecisionModel:
    """The decisions of one file. `requirements_id` and `name` are those of its decision requirements graph.

    `services` are its decision services, each to be evaluated like a decision, from its inputs as variables.
    `imported` are the files that it imports, directly or not, by name: without them it cannot be read again.
    """

    requirements_id: str
    name: str
    content_hash: str
    decisions: Mapping[str, Decision]
    services: Mapping[str, Decision]
    imported: Mapping[str, bytes]
