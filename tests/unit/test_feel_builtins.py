"""Built-in functions: values, named arguments, and null with a warning for arguments that do not fit."""

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
        ("is empty([])", True),
        ('is empty("a")', False),
        ("is empty({})", True),
        ("get or else(nothing, 1)", 1),
        ("get or else(order.id, 1)", 7),
        ('get value(order, "id")', 7),
        ('get value({a: {b: 2}}, ["a", "b"])', 2),
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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('string length("🐎ab")', 3),
        ('substring("foobar", 3)', "obar"),
        ('substring("foobar", 3, 2)', "ob"),
        ('substring("foobar", -2, 1)', "a"),
        ('substring(start position: 2, string: "abc")', "bc"),
        ('upper case("aé")', "AÉ"),
        ('lower case("AB")', "ab"),
        ('trim("  a ")', "a"),
        ('contains("foobar", "ob")', True),
        ('starts with("foobar", "fo")', True),
        ('ends with("foobar", "r")', True),
        ('substring before("foobar", "bar")', "foo"),
        ('substring before("foobar", "xyz")', ""),
        ('substring after("foobar", "ob")', "ar"),
        ('substring after("", "a")', ""),
        ('split("a;b;c", ";")', ["a", "b", "c"]),
        ('split("a.b", "\\\\.")', ["a", "b"]),
        ('string join(["a", null, "b"], "-")', "a-b"),
        ('string join(["a", "b"])', "ab"),
        ("string join([])", ""),
    ],
)
def test_strings(text: str, expected: Any) -> None:
    assert evaluated(text) == (expected, [])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("list contains([1, null], null)", True),
        ("list contains([1, 2], 3)", False),
        ("list contains([[1]], [1])", True),
        ("count([1, null])", 2),
        ("min([3, 1, 2])", 1),
        ("max(3, 1, 2)", 3),
        ('max(["a", "c"])', "c"),
        ('min([@"PT1M", @"PT2S"]) = @"PT2S"', True),
        ("min([])", None),
        ("sum([1, 2.5])", Decimal("3.5")),
        ("sum(1, 2)", 3),
        ("sum([])", None),
        ('sum([@"PT1S", @"PT2S"]) = @"PT3S"', True),
        ("product([2, 3])", 6),
        ("mean([1, 2])", Decimal("1.5")),
        ("mean(1, 2, 3)", 2),
        ("median([3, 1, 2])", 2),
        ("median(1, 2)", Decimal("1.5")),
        ("all([true, null])", None),
        ("any([true, null])", True),
        ("append([1], 2, [3])", [1, 2, [3]]),
        ("append([[1], 2])", [[1], 2]),
        ("concatenate([1], [2, 3])", [1, 2, 3]),
        ("concatenate([1, 2])", [1, 2]),
        ("flatten([[1, [2]], 3])", [1, 2, 3]),
        ("distinct values([1, 2, 1.0, null, null, true, [1], [1]])", [1, 2, None, True, [1]]),
        ("union([1, 2], [2, 3])", [1, 2, 3]),
        ("reverse([1, 2])", [2, 1]),
        ("sort([3, 1, 2], function(a, b) a > b)", [3, 2, 1]),
        ("sort(list: [{n: 2}, {n: 1}], precedes: function(a, b) a.n < b.n).n", [1, 2]),
        ("index of([1, 2, 1], 1)", [1, 3]),
        ("sublist([1, 2, 3], 2)", [2, 3]),
        ("sublist([1, 2, 3], -2, 1)", [2]),
        ("insert before([1, 3], 2, 2)", [1, 2, 3]),
        ("remove([1, 2, 3], -1)", [1, 2]),
        ("count(5)", 1),
    ],
)
def test_lists(text: str, expected: Any) -> None:
    assert evaluated(text) == (expected, [])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("floor(-1.5)", -2),
        ("floor(-1.56, 1)", Decimal("-1.6")),
        ("ceiling(1.2)", 2),
        ("round up(5.5)", 6),
        ("round up(-1.121, 2)", Decimal("-1.13")),
        ("round down(-5.5, 0)", -5),
        ("round half up(5.5, 0)", 6),
        ("round half up(-5.5, 0)", -6),
        ("round half down(5.5, 0)", 5),
        ("decimal(2.5, 0)", 2),
        ("decimal(1/3, 2)", Decimal("0.33")),
        ("decimal(1234, -2)", 1200),
        ("abs(-5)", 5),
        ('abs(@"-PT5S") = @"PT5S"', True),
        ("modulo(12, 5)", 2),
        ("modulo(-12, 5)", 3),
        ("modulo(12, -5)", -3),
        ("modulo(10.1, 4.5)", Decimal("1.1")),
        ("sqrt(16)", 4),
        ("exp(0)", 1),
        ("decimal(log(10), 8)", Decimal("2.30258509")),
        ("odd(3)", True),
        ("even(2.0)", True),
        ("abs([-1])", 1),
    ],
)
def test_numbers(text: str, expected: Any) -> None:
    assert evaluated(text) == (expected, [])


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("floor(null)", "floor: 'n' must be a number, found null"),
        ('abs("a")', "abs: "),
        ("abs()", "takes (n: number or duration), found none"),
        ("abs(1, 2)", "found 2 arguments"),
        ("abs(x: 1)", "has no parameter 'x'"),
        ("contains(1, 2)", "'string' must be a string, found number"),
        ('substring("abc", 0)', "'start position' 0 is outside a string of 3 characters"),
        ("odd(1.5)", "whole number"),
        ("count(null)", "'list' must be a list, found null"),
        ('sum([1, "a"])', "found string at position 2"),
        ('max([1, "a"])', "cannot compare"),
        ("sqrt(-1)", "must not be negative"),
        ("log(0)", "positive"),
        ("modulo(1, 0)", "must not be 0"),
        ("floor(1.5, 9999)", "scale"),
        ('number("1,5")', "'1,5' is not a number"),
        ('number("0x10")', "is not a number"),
        ('number("1", ";")', "grouping separator"),
        ('from json("{")', "not JSON"),
        ('from json("NaN")', "not JSON"),
        ("to json(function() 1)", "no JSON form"),
        ("sort([1], function(a) a)", "two parameters"),
        ("is empty(1)", "found number"),
        ("all()", "found none"),
        ("floor(1.5, null)", "'scale' must be a number, found null"),
        ('get value({a: 1}, "b")', "no entry 'b'"),
        ('context put({a: 1}, ["a", "b"], 2)', "not a context"),
        ("context merge([1])", "must hold contexts"),
        ("not(1)", "must be a boolean"),
        ('date("2024-02-30")', "has no day 30"),
        ('duration("5 seconds")', "not a duration"),
    ],
)
def test_arguments_that_do_not_fit_give_null_with_a_warning(text: str, cause: str) -> None:
    result, warnings = evaluated(text)
    assert result is None
    assert any(cause in warning for warning in warnings), warnings


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
