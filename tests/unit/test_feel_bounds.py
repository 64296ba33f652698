"""No expression takes more than its limits: each of these would take minutes, gigabytes or the whole stack."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from engine.feel import DEFAULT_LIMITS, EvaluationContext, FeelLimits, compile_expression

LONG = "x" * 1_000_000
ALIKE = LONG[:-1] + "y"
MANY = list(range(20_000))


def spent(text: str, limits: FeelLimits = DEFAULT_LIMITS, **variables: Any) -> tuple[Any, str, int]:
    """The value, the last cause and the steps."""
    context = EvaluationContext(limits=limits)
    value = compile_expression(text, names=list(variables)).evaluate(variables, context)
    return value, context.warnings[-1].cause if context.warnings else "", context.steps_spent


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("for i in 1..10**9 return i", "a list of more than 100000 elements"),
        ("for i in [1..10**9] return i", "a list of more than 100000 elements"),
        ("some i in 1..10**33 satisfies i > 5", "a list of more than 100000 elements"),
        ('for i in @"0001-01-01"..@"9999-12-31" return i', "a list of more than 100000 elements"),
        ("for a in 1..1000, b in 1..1000, c in 1..1000 return 1", "a list of more than 100000 elements"),
        ("10**(10**10)", "the number is too large"),
        ("2**99999999", "the number is too large"),
        ("for i in 1..5000 return 1.5**i", "more than 250000 evaluation steps"),
        ("for i in 1..100000 return partial", "more than 250000 evaluation steps"),
        (
            'for i in 1..99 return if i = 1 then "aaaaaaaa" else partial[-1] + partial[-1]',
            "a string of more than 10000",
        ),
        ("for i in 1..30000 return half + half", "more than 250000 evaluation steps"),
        ("for i in 1..80000 return long = alike", "more than 250000 evaluation steps"),
        ("for i in 1..80000 return long < alike", "more than 250000 evaluation steps"),
        ("for i in 1..80000 return long in [alike, alike]", "more than 250000 evaluation steps"),
        ("for i in 1..80000 return long between alike and alike", "more than 250000 evaluation steps"),
        ("for i in 1..80000 return many = many", "more than 250000 evaluation steps"),
        ("for i in 1..80000 return count(many)", "more than 250000 evaluation steps"),
        ("{f: function(n) f(n + 1) + f(n + 2), r: f(1)}.r", "calls nested deeper than 500 levels"),
        ("(function(f) f(f))(function(f) f(f))", "calls nested deeper than 500 levels"),
        ("cycle", "variable 'cycle': a value nested deeper than 64 levels"),
        ("from json(brackets)", "from json: JSON nested deeper than 64 levels"),
        ('from json("1e999999999")', "from json: the number is too large"),
        ('from json("1e-999999999")', "from json: the number is too near to zero"),
        ('from json("1e99999999999999999999")', "from json: a number of the JSON is out of range"),
        ('@"P1Y" * 10**6000', "the duration is too long"),
        ("huge", "variable 'huge': the number is too large"),
        ("tiny", "variable 'tiny': the number is too near to zero"),
    ],
)
def test_what_would_take_for_ever_is_null_with_its_cause(text: str, cause: str) -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    value, found, steps = spent(
        text,
        long=LONG,
        alike=ALIKE,
        half=LONG[:400_000],
        many=MANY,
        cycle=cycle,
        brackets="[" * 100_000,
        huge=10**20_000,
        tiny=Decimal("1E-9999"),
    )
    assert value is None
    assert found.startswith(cause)
    assert steps <= DEFAULT_LIMITS.max_steps


@pytest.mark.parametrize("text", ["count([1..10**9])", "5 in [1..10**30]", "[1..10**33].end"])
def test_a_range_is_not_its_elements(text: str) -> None:
    value, cause, steps = spent(text)
    assert value is not None
    assert (cause, steps) == ("", 0)


def test_a_loop_stops_at_the_first_turn_over_the_limit() -> None:
    limits = FeelLimits(max_steps=1_000)
    for text in ("for x in many return x + 1", "many[item > 1]", "every x in many satisfies x >= 0"):
        _, cause, steps = spent(text, limits, many=list(range(2_000)))
        assert cause == "more than 1000 evaluation steps"
        assert steps == 1_000


def test_json_with_half_a_character_is_no_json() -> None:
    assert spent("from json(given)", given='["\\ud83d\\udc0e"]')[0] == ["🐎"]
    assert (
        spent("from json(given)", given='["\\ud83d"]')[1]
        == "from json: not JSON: half a surrogate pair is no character"
    )
