"""What takes long costs steps: no expression gets much work for few of them. Steps are counted, never time."""

from __future__ import annotations

from typing import Any

import pytest

from engine.feel import EvaluationContext, FeelLimits, compile_expression, instant

NUMBERS = list(range(1_000))
SCOPE = {
    "numbers": NUMBERS,
    "decimals": compile_expression("for i in numbers return i / 7").evaluate({"numbers": NUMBERS}),
    "strings": [f"s{number}" for number in NUMBERS],
    "lists": [[number] for number in NUMBERS],
    "few": [[number] for number in range(100)],
    "contexts": [{"a": number} for number in NUMBERS],
    "wide": {f"k{number}": number for number in NUMBERS},
    "long": "ab" * 50_000,
    "alike": "ab" * 49_999 + "aa",
    "floats": [number / 7 for number in NUMBERS],
    "instants": [instant(0)] * 1_000,
    "keys": [f"k{number}" for number in range(60)],
    "noise": "[" * 1_000,
    "brackets": f"[{'[],' * 800}[]]",
}


def spent(text: str, scope: dict[str, Any] = SCOPE) -> int:
    context = EvaluationContext(now_us=0, limits=FeelLimits(max_steps=20_000_000))
    compile_expression(text).evaluate(scope, context)
    assert not [warning for warning in context.warnings if "evaluation steps" in warning.cause]
    return context.steps_spent


@pytest.mark.parametrize(
    ("text", "least"),
    [
        ("sum(decimals)", 700),
        ("max(decimals)", 700),
        ("for x in 1..10 return instants.year", 20_000),
        ("for x in 1..10 return string(instants)", 40_000),
        ("for x in 1..10 return to json(instants)", 40_000),
        ("max(strings)", 1_000),
        ("distinct values(numbers)", 600),
        ("duplicate values(strings)", 600),
        ("union(numbers, numbers)", 1_200),
        ("list contains(numbers, 5)", 600),
        ("index of(numbers, 5)", 600),
        ("5000 in numbers", 600),
        ("numbers instance of list<number>", 600),
        ("count(floats)", 1_000),
        ("get entries(wide)", 1_000),
        ("context(get entries(wide))", 1_500),
        ("for x in 1..100 return context put({}, keys, x)", 6_000),
        ("for x in 1..10 return long + string(x)", 7_000),
        ("for x in 1..10 return long", 7_000),
        ("for x in 1..10 return {a: long}", 7_000),
        ("for x in 1..10 return [1e6000]", 400),
        ("for x in 1..10 return range(noise)", 9_000),
        ("for x in 1..10 return before(long, alike)", 7_000),
        ("for x in 1..10 return is(long, alike)", 3_900),
        ("for x in 1..10 return sort([long, alike])", 12_000),
        ("for x in 1..10 return max([long, alike])", 7_000),
        ("for x in 1..10 return distinct values([long, alike])", 7_000),
        ("for x in 1..10 return modulo(1e6000, x)", 500),
        ("for x in 1..10 return from json(brackets)", 3_000),
        ("sort(numbers, function(a, b) a < b)", 5_000),
        ("distinct values(few)", 5_000),
        ("union(few, few)", 10_000),
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
