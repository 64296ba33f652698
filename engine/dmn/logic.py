"""Owns what decision logic is once compiled, and what one evaluation carries along: context, budget, nesting.
Never reads XML, a clock or a random source; it knows no decision table and no requirement.
Called by every other module of this package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, TypeAlias

from engine.errors import ConchError
from engine.feel import EvaluationContext, FeelFunction, FeelWarning, Value
from engine.feel.environment import Env
from engine.feel.tree import TypeOf

Scope: TypeAlias = Mapping[str, Any]
Run: TypeAlias = "Callable[[Scope, Evaluation], Value]"
Convert: TypeAlias = "Callable[[Value, EvaluationContext], Value]"

# A whole decision may spend this many times the steps of one expression.
STEPS_FACTOR: Final = 4
# Levels that an invocation and each boxed expression around another add to the levels of the FEEL in it.
INVOCATION_LEVELS: Final = 4
BOXED_LEVELS: Final = 2
MAX_NOTED: Final = 50


class DecisionFailed(ConchError):
    """A decision has no result; the text says where, what and why.

    `table` is what the table that failed saw and matched, null where none did. `result` is the DecisionResult as far
    as it went, with the decision that failed as its last; null before a decision was begun.
    """

    table: tuple[tuple[Value, ...], tuple[Any, ...]] | None = None
    result: Any = None


class Unfit(Exception):
    """Internal: a value that its declared type, or an aggregator, does not take; the text says what was found."""


class Noted(NamedTuple):
    """A table, or a decision of a service, that was evaluated inside other logic: what it saw, which rules matched,
    what it gave.

    The rules are rows, counted from 1, and ids.
    """

    where: str
    inputs: Mapping[str, Value]
    rules: tuple[tuple[int, str], ...]
    value: Value


def check_steps(context: EvaluationContext) -> None:
    """Raises DecisionFailed when the evaluations in this context have spent more than a decision may."""
    limit = context.limits.max_steps * STEPS_FACTOR
    if context.steps_spent > limit:
        raise DecisionFailed(f"more than {limit} evaluation steps")


@dataclass(slots=True)
class Evaluation:
    """One evaluation of a decision with all that it requires. Never shared.

    `functions` are known by id; of what is evaluated inside other logic, the first are in `noted`.
    """

    context: EvaluationContext
    functions: dict[str, FeelFunction] = field(default_factory=dict)
    noted: list[Noted] = field(default_factory=list)

    def env(self, scope: Scope) -> Env:
        """What expressions that follow each other in one scope share."""
        return Env(scope, self.context, "")

    def check(self) -> None:
        """Raises DecisionFailed when the whole evaluation has spent more than it may."""
        check_steps(self.context)

    def spend(self, steps: int) -> None:
        """Take steps that no expression pays for. Raises DecisionFailed when they are used up."""
        self.context.steps_spent += steps
        self.check()

    def note(self, where: str, inputs: Mapping[str, Value], rules: tuple[tuple[int, str], ...], value: Value) -> None:
        """Remember what was evaluated inside other logic, for the audit; of many, the first."""
        if len(self.noted) < MAX_NOTED:
            self.noted.append(Noted(where, inputs, rules, value))

    def warn(self, where: str, cause: str) -> None:
        """Note what was odd outside of expressions, for the caller's warnings."""
        if len(self.context.warnings) < self.context.limits.max_warnings:
            self.context.warnings.append(FeelWarning(where, -1, cause))

    def invoke(self, env: Env, logic: Logic, scope: Scope, name: str) -> Value:
        """Run the body of a function that the expression behind `env` calls.

        Raises DecisionFailed where calls are nested too deeply. What the body evaluates starts counting its levels
        anew, so it may use only those that are left.
        """
        self.check()
        limits = self.context.limits
        levels_left = limits.max_call_depth - env.depth - logic.depth - INVOCATION_LEVELS
        if levels_left < 0:
            raise DecisionFailed(f"calls of `{name}` are nested too deeply")
        self.context.limits = replace(limits, max_call_depth=levels_left)
        try:
            return logic.run(scope, self)
        finally:
            self.context.limits = limits


@dataclass(frozen=True, slots=True)
class Logic:
    """A compiled piece of decision logic.

    `depth` bounds the Python frames of an evaluation, `weight` is the number of expressions in it, `reads` names the
    variables that it reads from the scope around it.
    """

    run: Run
    depth: int
    weight: int
    reads: frozenset[str]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a function; `convert` makes an argument fit its declared type, or is null where any fits."""

    name: str
    convert: Convert | None
    kind: TypeOf


def fitted(convert: Convert | None, value: Value, where: str, evaluation: Evaluation) -> Value:
    """The value as its declared type has it; null with a warning where it does not fit (DMN 1.5, 10.3.2.9.4)."""
    if convert is None:
        return value
    try:
        return convert(value, evaluation.context)
    except Unfit as unfit:
        evaluation.warn(where, str(unfit))
        return None


def function_of(
    name: str,
    parameters: tuple[Parameter, ...],
    logic: Logic,
    scope: Scope,
    evaluation: Evaluation,
    signature: TypeOf,
) -> FeelFunction:
    """The function with this body, as FEEL can call it; `scope` is what it sees beside its arguments."""

    def body(env: Env) -> Value:
        arguments = {}
        for parameter, value in zip(parameters, env.frame, strict=True):
            try:
                arguments[parameter.name] = (
                    value if parameter.convert is None else parameter.convert(value, evaluation.context)
                )
            except Unfit as unfit:  # DMN 1.5, 10.3.2.13.2: then nothing is invoked
                evaluation.warn(name, f"`{name}`, parameter `{parameter.name}`: {unfit}")
                return None
        return evaluation.invoke(env, logic, {**scope, **arguments}, name)

    count = len(parameters)
    return FeelFunction(
        tuple(parameter.name for parameter in parameters),
        tuple(range(count)),
        body,
        0,  # `invoke` counts the levels, so that too many are a failure and not a null
        logic.weight,
        [None] * count,
        scope,
        name,
        signature,
    )
