"""No evaluation spends more than its steps, and its result can be written down: steps are paid before the work."""

from __future__ import annotations

from typing import Any

import pytest

from engine.feel import EvaluationContext, FeelLimits, compile_expression, compile_unary_tests

LONG = "ab" * 50_000
SCOPE: dict[str, Any] = {
    "long": LONG,
    "many": list(range(5_000)),
    "floats": [0.5] * 1_000,
    "wide": {f"k{number}": number for number in range(1_000)},
    "pairs": [{"key": f"k{number}", "value": number} for number in range(500)],
    "nested": [[number] for number in range(1_000)],
}
HEAVY = [
    "long + long",
    "upper case(long)",
    "sum(floats)",
    "count(many)",
    "many = many",
    "wide = wide",
    "get entries(wide)",
    "context(pairs)",
    "distinct values(nested)",
    "sort(many)",
    "to json(many)",
    "string(wide)",
    "from json(to json(many))",
    "matches(long, \"(a|ab)*c\")",
    "matches(\"b\", \"(x{1,99}){1,99}\" + string(1))",
    "matches(\"b\", \"[\" + string(1))",
    "replace(long, \"a\", \"b\")",
    "split(long, \"b\")",
    "for x in many return x",
    "for x in many return partial",
    "many[item > 1]",
    "some x in many satisfies x < 0",
    "nested",
    "1.5 ** 2.5",
    "(function(x) x + 1)(2)",
]  # fmt: skip


@pytest.mark.parametrize("text", HEAVY)
def test_no_evaluation_spends_more_than_its_steps(text: str) -> None:
    expression = compile_expression(text)
    for most in (1, 10, 49, 100, 333, 1_000, 4_000):
        context = EvaluationContext(limits=FeelLimits(max_steps=most))
        value = expression.evaluate(SCOPE, context)
        assert context.steps_spent <= most
        exceeded = any("evaluation steps" in warning.cause for warning in context.warnings)
        assert context.steps_spent == most or not exceeded
        assert value is None or not exceeded


def test_steps_of_several_evaluations_add_up() -> None:
    context = EvaluationContext(limits=FeelLimits(max_steps=100))
    for _ in range(3):
        compile_expression("for x in many return x").evaluate(SCOPE, context)
    compile_unary_tests("many").evaluate(SCOPE, context, 1)
    assert context.steps_spent == 400


def test_a_pattern_has_no_more_steps_than_the_evaluation() -> None:
    context = EvaluationContext(limits=FeelLimits(max_steps=1_000))
    text = 'get or else(matches(long, "(a|b|ab)*[c-d]"), true)'
    assert compile_expression(text).evaluate({"long": "ab" * 5_000}, context) is None
    assert context.warnings[-1].cause == "more than 1000 evaluation steps"


@pytest.mark.parametrize(
    "text", ["for x in 1..1000 return long", "for x in 1..1000 return {a: long}", "for x in 1..1000 return [[1e6100]]"]
)
def test_a_result_that_is_too_long_to_write_is_null(text: str) -> None:
    context = EvaluationContext(limits=FeelLimits(max_steps=40_000))
    assert compile_expression(text).evaluate(SCOPE, context) is None
    assert context.warnings[-1].cause == "more than 40000 evaluation steps"


def test_a_cause_is_short_however_long_what_it_is_about() -> None:
    for text in ("get value(wide, long)", "assert(1, false, long)", "context put({a: 1}, [long], 1).b"):
        context = EvaluationContext()
        compile_expression(text).evaluate(SCOPE, context)
        assert all(len(warning.cause) <= 1_000 for warning in context.warnings)


def test_a_long_list_has_a_type() -> None:
    assert compile_expression("many instance of list<number>").evaluate({"many": list(range(50_000))}) is True
