"""No text and no variable makes FEEL raise, spend more than its limits, give a foreign value, or reach into Python."""

from __future__ import annotations

import os
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings

from engine.feel import (
    Date,
    DateTime,
    DaysTimeDuration,
    EvaluationContext,
    Expression,
    FeelFunction,
    FeelLimits,
    FeelSyntaxError,
    FeelValueError,
    FeelWarning,
    Range,
    Time,
    YearsMonthsDuration,
    compile_expression,
    compile_unary_tests,
    kind_of,
    to_json,
)
from tests.property.feel_texts import EXPRESSIONS, NAMES, SCOPES, UNARY_TESTS, Plain, corpus, mutated

LIMITS = FeelLimits(max_steps=5_000, max_list=500, max_string=5_000, max_pattern_steps=2_000)
LONGEST_INPUT = 30_000
TEMPORALS = Date | Time | DateTime | DaysTimeDuration | YearsMonthsDuration
STRING = compile_expression("string(value)")
TYPES: dict[str, Callable[[Any], bool]] = {
    "Person": lambda value: isinstance(value, dict),
    "small number": lambda value: value == 1,
}
# Set CONCH_TEST_FUZZ_EXAMPLES to look for longer.
EXAMPLES = int(os.environ.get("CONCH_TEST_FUZZ_EXAMPLES") or 100)
thorough = settings(max_examples=EXAMPLES, deadline=None)


def _compiled(text: str, compiler: Callable[..., Expression]) -> Expression | None:
    try:
        return compiler(text, names=NAMES, types=TYPES)
    except FeelSyntaxError as error:
        refused = error
    assert refused.expected
    assert 0 <= refused.position <= len(text)
    return None


def _context(limits: FeelLimits = LIMITS) -> EvaluationContext:
    return EvaluationContext(
        now_us=1_700_000_000_123_456, random=lambda: Decimal("0.25"), uuid=lambda: "00000000", limits=limits
    )


def _assert_feel(value: Any, depth: int = 0) -> None:
    """Only values of FEEL, no larger than the limits."""
    assert depth <= LIMITS.max_value_depth + 1
    if type(value) is list or type(value) is dict:
        assert len(value) <= LONGEST_INPUT
        for element in value.values() if type(value) is dict else value:
            _assert_feel(element, depth + 1)
        assert type(value) is list or all(type(key) is str for key in value)
    elif type(value) is str:
        assert len(value) <= LONGEST_INPUT
    elif type(value) is int:
        assert abs(value) < 10**34
    elif type(value) is Decimal:
        assert value.is_finite()
        assert len(value.as_tuple().digits) <= 34
    elif type(value) is Range:
        _assert_feel(value.start, depth + 1)
        _assert_feel(value.end, depth + 1)
    else:
        assert value is None or type(value) in (bool, FeelFunction, *TEMPORALS.__args__)


def _shown(value: Any) -> Any:
    """What tells two results apart; two functions are alike."""
    if isinstance(value, list):
        return [_shown(element) for element in value]
    if isinstance(value, dict):
        return {key: _shown(element) for key, element in value.items()}
    return "function" if isinstance(value, FeelFunction) else (type(value), repr(value))


def _assert_convertible(value: Any) -> None:
    """JSON has a form of the value, or it is refused; text always has one, within the limits."""
    try:
        to_json(value)
    except FeelValueError:
        assert "FeelFunction" in repr(value)
    context = EvaluationContext()
    text = STRING.evaluate({"value": value}, context)
    assert type(text) is str or value is None, context.warnings


def _evaluated(expression: Expression, scope: dict[str, Any], tested: Any) -> tuple[Any, list[FeelWarning]]:
    context = _context()
    value = expression.evaluate(scope, context, tested)
    assert context.steps_spent <= LIMITS.max_steps
    assert len(context.warnings) <= LIMITS.max_warnings
    assert all(0 <= warning.position <= len(warning.expression) for warning in context.warnings)
    return value, context.warnings


def _assert_total(text: str, scope: dict[str, Any]) -> None:
    """All that holds for any text and any variables."""
    for compiler in (compile_expression, compile_unary_tests):
        expression = _compiled(text, compiler)
        if expression is None:
            continue
        before = repr(scope)
        value, warnings = _evaluated(expression, scope, scope.get("a"))
        _assert_feel(value)
        again, warnings_again = _evaluated(expression, scope, scope.get("a"))
        assert _shown(value) == _shown(again)
        assert warnings == warnings_again
        assert repr(scope) == before
        _assert_convertible(value)


@given(EXPRESSIONS, SCOPES)
@thorough
def test_any_expression_has_a_value(text: str, scope: dict[str, Any]) -> None:
    _assert_total(text, scope)


@given(UNARY_TESTS, SCOPES)
@thorough
def test_any_unary_tests_have_a_value(text: str, scope: dict[str, Any]) -> None:
    _assert_total(text, scope)


@given(mutated(), SCOPES)
@thorough
def test_any_text_near_a_right_one_has_a_value_or_is_a_syntax_error(text: str, scope: dict[str, Any]) -> None:
    _assert_total(text, scope)


def test_every_text_of_the_suite_keeps_within_small_limits() -> None:
    if not corpus():
        pytest.skip("the compliance suite of DMN is not beside the repository, nor where CONCH_TEST_SUITES says")
    for text in corpus():
        for limit in (0, 1, 7, 100):
            expression = _compiled(text, compile_expression)
            if expression is None:
                continue
            context = _context(FeelLimits(max_steps=limit, max_list=20, max_string=50, max_value_depth=3))
            _assert_feel(expression.evaluate({}, context))
            assert context.steps_spent <= limit


ZONED = '@"2024-02-29T10:00:00@Asia/Tokyo"'
EVERY_KIND = ["1", "1.5", '"a"', "true", "null", "[1]", "{a: 1}", '@"2024-02-29"', '@"10:00:00Z"', ZONED, '@"PT1H"']
EVERY_KIND += ['@"P1Y"', "[1..2]", "(< 1)", "function(x) x", "foreign"]
# The properties that the standard gives to some kinds, where Python has an attribute of that name too.
KNOWN = {
    "year",
    "month",
    "day",
    "weekday",
    "hour",
    "minute",
    "second",
    "timezone",
    "days",
    "hours",
    "minutes",
    "seconds",
}
KNOWN |= {"years", "months", "start", "end", "value"}


@pytest.mark.parametrize("text", EVERY_KIND)
def test_no_attribute_of_python_is_in_reach(text: str) -> None:
    scope = {"foreign": Plain(), "a": 1}
    value = compile_expression(text).evaluate(scope)
    for name in {*dir(value), *dir(type(value)), *dir(Plain), "__dict__", "__globals__", "__builtins__"} - KNOWN:
        for form in ("({}).{}", "[{}].{}", "({})[{} != null]", "({{v: {}}}).v.{}", 'get value({}, "{}")'):
            expression = _compiled(form.format(text, name), compile_expression)
            if expression is not None:
                found = expression.evaluate(scope)
                assert found in (None, [None], []), (expression.text, found)


def test_kinds_cover_the_language() -> None:
    found = {kind_of(compile_expression(text).evaluate({})) for text in EVERY_KIND}
    assert len(found) == 13
