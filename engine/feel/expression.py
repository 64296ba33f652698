"""Owns compiled expressions: from text to something that can be evaluated again and again.
Never reads anything but what the caller passes; evaluating never raises.
Called by DMN, the BPMN definition side and the core, through `engine.feel`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from engine.feel import tree
from engine.feel.border import measure
from engine.feel.closures import calls, comparisons, filters, loops, membership, names, operators, types
from engine.feel.closures.code import Code, Compilation, ConstantTests, constant
from engine.feel.environment import (
    DEFAULT_LIMITS,
    NO_FRAME,
    UNTESTED,
    Env,
    EvaluationContext,
    FeelLimits,
    FeelWarning,
    readable,
)
from engine.feel.faults import LimitExceeded
from engine.feel.functions import BUILTINS
from engine.feel.parser import Parser
from engine.feel.plain import plain_depth, plain_literal, plain_tests
from engine.feel.tree import Node
from engine.feel.values import Run, Value

_FORMS: dict[type[Node], Callable[..., Any]] = {
    tree.Literal: operators.literal,
    tree.Arithmetic: operators.arithmetic,
    tree.Negation: operators.negation,
    tree.Comparison: comparisons.comparison,
    tree.Logic: operators.logic,
    tree.If: operators.conditional,
    tree.Between: comparisons.between,
    tree.Interval: comparisons.interval,
    tree.ListOf: operators.list_of,
    tree.Name: names.name,
    tree.Path: names.path,
    tree.ContextOf: names.context_of,
    tree.Filter: filters.filter_of,
    tree.For: loops.iteration,
    tree.Quantified: loops.quantified,
    tree.FunctionOf: loops.function_of,
    tree.In: membership.membership,
    tree.Call: calls.call,
    tree.InstanceOf: types.instance_of,
    tree.Undefined: types.undefined,
}
# Without `Env.__init__`, whose call costs as much as a comparison.
_new_env = Env.__new__


class Expression:
    """A compiled FEEL text. Immutable; may be evaluated by several threads at once.

    `names` are the variables that the text surely reads; `possible_names` those that it reads only if they exist
    (in `is defined`) or only if an item of a filtered list has no such entry. `depth` bounds the Python frames of an
    evaluation. `remarks` are what is surely wrong although the text is FEEL, in the order of the text: constant parts
    that have no value, calls of a built-in with a wrong number or wrong names of arguments, and calls of a plain name
    that is no built-in, nothing the text declares, no entry of a filtered item and none of the `names` given to the
    compilation (where a variable may hold a function, the caller names it). `is_constant` says that it has always the
    same value, `constant_tests` what a cell compares its input with where that is always the same.
    """

    __slots__ = (
        "_frame_size",
        "_run",
        "constant_tests",
        "depth",
        "is_constant",
        "names",
        "possible_names",
        "remarks",
        "text",
    )

    depth: int
    text: str
    names: frozenset[str]
    possible_names: frozenset[str]
    remarks: tuple[FeelWarning, ...]
    is_constant: bool
    constant_tests: ConstantTests | None
    _run: Run
    _frame_size: int

    def __init__(self, compilation: Compilation, code: Code, depth: int) -> None:
        set_once = object.__setattr__
        set_once(self, "depth", depth)
        set_once(self, "text", compilation.text)
        set_once(self, "names", frozenset(compilation.names))
        set_once(self, "possible_names", frozenset(compilation.possible_names - compilation.names))
        set_once(self, "remarks", tuple(sorted(compilation.remarks, key=lambda remark: remark.position)))
        set_once(self, "is_constant", code.constant)
        set_once(self, "constant_tests", compilation.constant_tests)
        set_once(self, "_run", code.run)
        set_once(self, "_frame_size", compilation.slot_count)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"an Expression is immutable; cannot set {name}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"an Expression is immutable; cannot delete {name}")

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"

    def evaluate(
        self,
        scope: Mapping[str, Any] | Callable[[str], Any],
        context: EvaluationContext | None = None,
        tested: Any = UNTESTED,
    ) -> Value:
        """The value of the expression; null, with a warning in `context`, where it has none.

        `scope` is a mapping, or a function from a name to its value; either raises KeyError for a name it does not
        have (any other exception of a function passes through). `tested` is the value that unary tests are applied
        to, `?` in the text; without it, `?` is read from the scope.
        """
        env = _new_env(Env)
        env.scope = scope if type(scope) is dict else readable(scope)
        env.text = self.text
        if tested is not UNTESTED:
            env.tested = tested
        if context is None:
            env.steps_left = DEFAULT_LIMITS.max_steps
        else:
            env.context = context
            env.limits = limits = context.limits
            env.steps_left = limits.max_steps
        if self._frame_size:
            env.frame = [None] * self._frame_size
        try:
            value = self._run(env)
            if type(value) is list or type(value) is dict:
                measure(env, value)
            return value
        except LimitExceeded as limit:
            return env.warn(0, limit.cause)
        finally:
            if context is not None:
                context.steps_spent += env.limits.max_steps - env.steps_left

    def evaluate_in(self, env: Env, tested: Any = UNTESTED) -> Value:
        """As `evaluate`, in an `env` that several expressions use one after the other; each may spend all its steps.

        Both say what is the same in full, since a call that they shared would cost as much as a comparison.
        """
        env.frame = [None] * self._frame_size if self._frame_size else NO_FRAME
        env.text = self.text
        env.tested = tested
        env.steps_left = env.limits.max_steps
        try:
            value = self._run(env)
            if type(value) is list or type(value) is dict:
                measure(env, value)
            return value
        except LimitExceeded as limit:
            return env.warn(0, limit.cause)
        finally:
            if env.context is not None:
                env.context.steps_spent += env.limits.max_steps - env.steps_left


def compile_wholly(
    text: str,
    names: Collection[str],
    limits: FeelLimits,
    types: Mapping[str, Callable[[Value], bool]] | None,
    tests: bool,
) -> Expression:
    """The text by way of its tree. Raises FeelSyntaxError."""
    parser = Parser(text, names, BUILTINS, limits, types)
    node = parser.whole_unary_tests() if tests else parser.whole_expression()
    compilation = Compilation(text, limits, _FORMS, frozenset(names), parser.called)
    code = compilation.compile(node, None)
    return Expression(compilation, code, node.depth)


def _plain(text: str, limits: FeelLimits, known: ConstantTests) -> Expression:
    """A cell whose closures are made when it is first evaluated: where a table has an index, that is seldom."""

    def run(env: Env) -> Value:
        compiled = compile_wholly(text, (), limits, None, True)._run
        object.__setattr__(expression, "_run", compiled)
        return compiled(env)

    compilation = Compilation(text, limits, _FORMS, slot_count=1, constant_tests=known)
    expression = Expression(compilation, Code(run), plain_depth(known))
    return expression


def compile_expression(
    text: str,
    *,
    names: Collection[str] = (),
    limits: FeelLimits = DEFAULT_LIMITS,
    types: Mapping[str, Callable[[Value], bool]] | None = None,
) -> Expression:
    """Compile one expression.

    `names` are known variables: needed for those with spaces or operators in them, and for those that hold a function.
    `types` are the types that `instance of` and declared parameters may name beside FEEL's own, each with the test of a
    value that is not null. Raises FeelSyntaxError.
    """
    known = plain_literal(text, limits)
    if known is None:
        return compile_wholly(text, names, limits, types, False)
    return Expression(Compilation(text, limits, _FORMS), constant(*known), 1)


def compile_unary_tests(
    text: str,
    *,
    names: Collection[str] = (),
    limits: FeelLimits = DEFAULT_LIMITS,
    types: Mapping[str, Callable[[Value], bool]] | None = None,
) -> Expression:
    """Compile the tests of one decision table cell: `-`, `< 5`, `[1..3], > 7`, `not("a", "b")`, `? > limit`.

    Evaluated with the cell's input as `tested`, it gives true, false or null. `names`, `types` and errors are those of
    `compile_expression`.
    """
    known = plain_tests(text, limits)
    return compile_wholly(text, names, limits, types, True) if known is None else _plain(text, limits, known)
