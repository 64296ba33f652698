"""Any text compiles or raises FeelSyntaxError; any compiled text evaluates without raising, in bounded steps."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.feel import (
    EvaluationContext,
    Expression,
    FeelFunction,
    FeelLimits,
    FeelSyntaxError,
    compile_expression,
    compile_unary_tests,
    to_json,
)
from engine.feel.functions import BUILTINS
from engine.feel.lexer import KEYWORDS

LIMITS = FeelLimits(max_steps=20_000, max_list=2_000, max_string=20_000)
SYMBOLS = [*"+-*/=<>()[]{},:.@?", "**", "..", "->", "<=", ">=", "!=", '"', "`", "/*", "//", "\\", "é", "🐎", "\0"]
NAMES = ["a", "b", "items", "order", "first name", "item", "partial", "missing"]
LITERALS = [
    "0",
    "1",
    "-2",
    "2.50",
    "1e30",
    "9999999999999999999999999999999999",
    "1e-6000",
    "1e6000",
    "null",
    "true",
    "false",
    '""',
    '"abc"',
    '"\\u00e9\\n"',
    '@"2024-02-29"',
    '@"PT0.25S"',
    '@"-P1Y2M"',
    '@"10:30:00+01:00"',
    '@"2024-03-31T01:59:59@Europe/Berlin"',
    '@"999999999-12-31T23:59:59Z"',
    "[]",
    "{}",
    "[1..5]",
    "(< 3)",
    "[1, 2, 3]",
    '{a: 1, "b c": null}',
]
NUMBERS = st.integers() | st.floats() | st.decimals()
SCALARS: st.SearchStrategy[Any] = st.none() | st.booleans() | NUMBERS | st.text(max_size=8)
FOREIGN = st.binary(max_size=3) | st.just(object()) | st.tuples(st.integers()) | st.sets(st.integers(), max_size=2)
INPUTS = st.recursive(
    SCALARS | FOREIGN,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["a", "b", "item", "first name"]), inner, max_size=3)
        | st.dictionaries(st.integers(), inner, max_size=2)
    ),
    max_leaves=10,
)
SCOPES = st.dictionaries(st.sampled_from([*NAMES[:-1], "?"]), INPUTS)


def _over(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Expressions whose parts are `inner`."""
    operator = st.sampled_from(["+", "-", "*", "/", "**", "=", "!=", "<", "<=", ">", ">=", "and", "or", "in"])
    name = st.sampled_from(["a", "b", "x"])
    kind = st.sampled_from(["number", "string", "list<number>", "date and time", "context<a: Any>", "Any"])
    arguments = st.lists(inner, max_size=4).map(", ".join)
    return st.one_of(
        st.builds("({} {} {})".format, inner, operator, inner),
        st.builds("-({})".format, inner),
        st.builds("{}.{}".format, inner.map("({})".format), st.sampled_from(["a", "year", "start", "seconds", "b c"])),
        st.builds("({})[{}]".format, inner, inner),
        st.builds("[{}]".format, arguments),
        st.builds("{{a: {}, {}: {}}}".format, inner, name, inner),
        st.builds("[{}..{}]".format, inner, inner),
        st.builds("(if {} then {} else {})".format, inner, inner, inner),
        st.builds("(for {} in {} return {})".format, name, inner, inner),
        st.builds("(for {} in {}..{} return {})".format, name, inner, inner, inner),
        st.builds("({} {} in {} satisfies {})".format, st.sampled_from(["some", "every"]), name, inner, inner),
        st.builds("({} between {} and {})".format, inner, inner, inner),
        st.builds("({} in ({}, < {}))".format, inner, inner, inner),
        st.builds("({} instance of {})".format, inner, kind),
        st.builds("(function(x, y) {})({})".format, inner, arguments),
        st.builds("{}({})".format, st.sampled_from(sorted(BUILTINS)), arguments),
    )


EXPRESSIONS = st.recursive(st.sampled_from(LITERALS + NAMES + ["?"]), _over, max_leaves=12)
SOUP = st.lists(
    st.sampled_from(SYMBOLS + NAMES + LITERALS + sorted(KEYWORDS) + sorted(BUILTINS)) | st.text(max_size=3), max_size=30
).map(" ".join)


def _compiled(text: str, compiler: Callable[[str], Expression]) -> Expression | FeelSyntaxError:
    try:
        return compiler(text)
    except FeelSyntaxError as error:
        return error


def _compiled_with_names(text: str) -> Expression | FeelSyntaxError:
    return _compiled(text, lambda text: compile_expression(text, names=NAMES))


def _context() -> EvaluationContext:
    return EvaluationContext(
        now_us=1_700_000_000_123_456, random=lambda: Decimal("0.25"), uuid=lambda: "00000000", limits=LIMITS
    )


def _holds_function(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_holds_function, value.values()))
    return isinstance(value, FeelFunction) or (isinstance(value, list) and any(map(_holds_function, value)))


def _assert_plain(value: Any) -> None:
    """Only JSON's kinds, with exact and finite numbers."""
    if isinstance(value, list | dict):
        for element in value.values() if isinstance(value, dict) else value:
            _assert_plain(element)
        return
    assert value is None or type(value) in (bool, int, str, Decimal)
    assert type(value) is not Decimal or value.is_finite()


def _evaluate(expression: Expression, scope: dict[str, Any], tested: Any = None) -> Any:
    context = _context()
    value = expression.evaluate(scope, context, tested)
    assert len(context.warnings) <= LIMITS.max_warnings
    for warning in context.warnings:
        assert 0 <= warning.position <= len(expression.text)
    return value


@given(EXPRESSIONS, SCOPES)
@settings(max_examples=200, deadline=None)
def test_well_formed_expressions_evaluate_to_a_value_that_json_can_hold(text: str, scope: dict[str, Any]) -> None:
    expression = _compiled_with_names(text)
    if isinstance(expression, FeelSyntaxError):  # a name and a keyword that run together
        return
    value = _evaluate(expression, scope)
    if not _holds_function(value):
        _assert_plain(to_json(value))


@given(EXPRESSIONS, SCOPES)
@settings(max_examples=50, deadline=None)
def test_the_same_evaluation_gives_the_same_value_and_warnings(text: str, scope: dict[str, Any]) -> None:
    expression = _compiled_with_names(text)
    if isinstance(expression, FeelSyntaxError):
        return
    first, second = _context(), _context()
    values = [repr(expression.evaluate(scope, context)) for context in (first, second)]
    assert "FeelFunction" in values[0] or values[0] == values[1]
    assert first.warnings == second.warnings


@given(SOUP | st.text(max_size=60), SCOPES)
@settings(max_examples=200, deadline=None)
def test_any_text_compiles_or_is_a_syntax_error(text: str, scope: dict[str, Any]) -> None:
    for compiler in (compile_expression, compile_unary_tests):
        compiled = _compiled(text, compiler)
        if isinstance(compiled, Expression):
            _evaluate(compiled, scope, 1)
            continue
        assert compiled.expected
        assert 1 <= compiled.line <= text.count("\n") + 1
        assert compiled.column >= 1


@pytest.mark.parametrize(
    "opening", ["(", "[", "-", "{a:", "not(", "if a then ", "for x in a return ", "x in (", "f(", "1 + (", "a["]
)
def test_deep_nesting_is_a_syntax_error_and_not_a_crash(opening: str) -> None:
    with pytest.raises(FeelSyntaxError) as raised:
        compile_expression(opening * 3_000)
    assert "nested" in raised.value.expected


SHAPES = ["1 + {}", "if a then {} else b", "[{}]", "floor({})", "for x in {} return x", "a in (1, {})", "[1][{}]"]


@given(st.integers(1, 400), st.sampled_from(SHAPES))
@settings(max_examples=40, deadline=None)
def test_what_compiles_evaluates_within_a_fixed_part_of_the_stack(levels: int, shape: str) -> None:
    text = "a"
    for _ in range(levels):
        text = shape.format(text)
    expression = _compiled(text, compile_expression)
    if isinstance(expression, FeelSyntaxError):
        return
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 300)
    try:
        _evaluate(expression, {"a": True, "b": 1})
    finally:
        sys.setrecursionlimit(limit)
