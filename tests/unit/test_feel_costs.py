"""What takes long costs steps: no expression gets much work for few of them. Steps are counted, never time."""

from __future__ import annotations

from typing import Any

import pytest

from engine.feel import EvaluationContext, FeelLimits, compile_expression

NUMBERS = list(range(1_000))
SCOPE = {
    "numbers": NUMBERS,
    "decimals": compile_expression("for i in numbers return i / 7").evaluate({"numbers": NUMBERS}),
    "strings": [f"s{number}" for number in NUMBERS],
    "lists": [[number] for number in NUMBERS],
    "contexts": [{"a": number} for number in NUMBERS],
    "wide": {f"k{number}": number for number in NUMBERS},
    "long": "ab" * 50_000,
}


def spent(text: str, scope: dict[str, Any] = SCOPE) -> int:
    context = EvaluationContext(now_us=0, limits=FeelLimits(max_steps=20_000_000))
    compile_expression(text).evaluate(scope, context)
    assert not [warning for warning in context.warnings if "evaluation steps" in warning.cause]
    return context.steps_spent


@pytest.mark.parametrize(
    ("text", "least"),
    [
        ("sum(decimals)", 125),
        ("sort(numbers, function(a, b) a < b)", 5_000),
        ("distinct values(lists)", 100_000),
        ("union(lists, lists)", 100_000),
        ("index of(lists, [5])", 1_000),
        ("list contains(strings, \"x\")", 125),
        ("numbers[item > 5]", 1_000),
        ("contexts.a", 125),
        ("lists = lists", 1_000),
        ("for x in numbers return count(partial)", 60_000),
        ("for x in 1..100 return get entries(wide)", 12_500),
        ("for x in 1..100 return context put(wide, \"a\", x)", 12_500),
        ("for x in 1..100 return upper case(long)", 39_000),
        ("for x in 1..100 return contains(long, \"x\")", 39_000),
        ("for x in 1..100 return 1.1 ** x", 1_000),
        ("flatten(lists)", 1_000),
        ("string(numbers)", 1_000),
        ("from json(to json(numbers))", 1_000),
        ("for x in 1..100 return matches(\"b\", \"[a-z]\" + string(x))", 10_000),
        ("for x in 1..100 return matches(\"b\", \"(x{1,9}){1,9}\" + string(x))", 20_000),
        ("for x in 1..10 return matches(\"b\", \"(x{1,999}){1,999}\" + string(x))", 20_000),
        ('for x in 1..10 return matches("b", "\\\\p{L}\\\\w\\\\W" + string(x), "i")', 7_000),
        ("for x in 1..10 return replace(\"b\", \"[\" + string(x), \"\")", 10_000),
    ],
)  # fmt: skip
def test_work_is_paid_for(text: str, least: int) -> None:
    assert spent(text) >= least


def test_a_pattern_is_paid_for_once_in_an_evaluation() -> None:
    for pattern in ("(x{1,9}){1,9}y", "[", "(x{1,999}){1,999}"):
        scope = {"pattern": pattern}
        once = spent('matches("b", pattern)', scope)
        assert spent('for x in 1..100 return matches("b", pattern)', scope) < once + 100 * 20


def test_the_same_pattern_costs_the_same_in_each_evaluation() -> None:
    text = 'matches("b", "[a-z]+" + "[0-9]")'
    assert spent(text, {}) == spent(text, {})
