"""Built-in functions that look beyond their arguments, conversions, and what the caller supplies."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from engine.feel import EvaluationContext, compile_expression


def evaluated(text: str, scope: dict[str, Any] | None = None) -> tuple[Any, list[str]]:
    context = EvaluationContext(
        now_us=1_700_000_000_123_456,
        random=lambda: Decimal("0.25"),
        uuid=lambda: "6f1c0a52-0000-4000-8000-000000000000",
    )
    result = compile_expression(text).evaluate(scope or {}, context)
    return result, [warning.cause for warning in context.warnings]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("is defined(order)", True),
        ("is defined(nothing)", True),
        ("is defined(missing)", False),
        ("is defined(order.id)", True),
        ("is defined(order.x)", False),
        ("is defined(order.x.y)", False),
        ("is defined(missing.x)", False),
        ("is defined(null)", True),
        ("[{a: 1}, {b: 1}][is defined(a)]", [{"a": 1}]),
        ('is empty("a")', False),
        ("is empty({})", True),
        ("get or else(nothing, 1)", 1),
        ("get or else(order.id, 1)", 7),
        ('get value(order, "id")', 7),
        ("get entries({a: 1})", [{"key": "a", "value": 1}]),
        ('context put({a: 1}, "b", 2)', {"a": 1, "b": 2}),
        ('context put({a: {b: 1}}, ["a", "c"], 2)', {"a": {"b": 1, "c": 2}}),
        ('context put({}, ["a", "b"], 1)', {"a": {"b": 1}}),
        ("context merge([{a: 1, b: 1}, {b: 2}])", {"a": 1, "b": 2}),
        ("context merge({a: 1}, {b: 2})", {"a": 1, "b": 2}),
        ('context([{key: "a", value: 1}])', {"a": 1}),
    ],
)
def test_presence_and_contexts(text: str, expected: Any) -> None:
    assert evaluated(text, {"order": {"id": 7}, "nothing": None}) == (expected, [])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('string("a")', "a"),
        ("string(1.50)", "1.5"),
        ("string(100)", "100"),
        ("string(1e3)", "1000"),
        ("string(true)", "true"),
        ("string(null)", None),
        ('string([1, "a", null])', '[1, "a", null]'),
        ('string({a: "x", b: [1]})', '{a:"x", b:[1]}'),
        ('string(@"PT90S")', "PT1M30S"),
        ("string([1..3))", "[1..3)"),
        ('number("12")', 12),
        ('number("-1.50")', Decimal("-1.50")),
        ('number("1 000,5", " ", ",")', Decimal("1000.5")),
        ('number(from: "1.000", grouping separator: ".")', 1000),
        ("number(5)", 5),
        ('to json({a: [1, 2.5, null, true], b: "x\\"y"})', '{"a":[1,2.5,null,true],"b":"x\\"y"}'),
        ('to json(@"2024-01-01")', '"2024-01-01"'),
        ('from json("{\\"a\\": [1, 2.50, null]}")', {"a": [1, Decimal("2.50"), None]}),
        ('from json("1.0")', 1),
    ],
)
def test_conversions(text: str, expected: Any) -> None:
    result, warnings = evaluated(text)
    assert (result, warnings) == (expected, [])
    assert type(result) is type(expected)


def test_the_clock_random_numbers_and_uuids_come_from_the_caller() -> None:
    assert evaluated("string(now())")[0] == "2023-11-14T22:13:20.123456Z"
    assert evaluated("string(today())")[0] == "2023-11-14"
    assert evaluated("random number() * 4")[0] == 1
    assert evaluated("uuid()")[0] == "6f1c0a52-0000-4000-8000-000000000000"
    bare = EvaluationContext()
    for text in ("now()", "today()", "random number()", "uuid()"):
        assert compile_expression(text).evaluate({}, bare) is None
    assert [warning.cause.partition(": this evaluation has no ")[2] for warning in bare.warnings] == [
        "clock",
        "clock",
        "random numbers",
        "UUIDs",
    ]


def test_outside_values_are_read_at_each_call() -> None:
    drawn = iter([Decimal("0.1"), Decimal("0.2"), Decimal("0.3")])
    context = EvaluationContext(random=lambda: next(drawn))
    assert compile_expression("for i in 1..3 return random number()").evaluate({}, context) == [
        Decimal("0.1"),
        Decimal("0.2"),
        Decimal("0.3"),
    ]


def test_a_local_name_hides_a_built_in() -> None:
    assert evaluated("{abs: function(x) x + 100, r: abs(-1)}.r")[0] == 99
