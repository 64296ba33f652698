"""What expressions give: the rules of the standard on equality, order, membership, filters, loops and functions."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from engine.feel import EvaluationContext, compile_expression, to_json


def value(text: str, **variables: Any) -> Any:
    return to_json(compile_expression(text, names=list(variables)).evaluate(variables))


def causes(text: str, **variables: Any) -> list[str]:
    context = EvaluationContext()
    compile_expression(text, names=list(variables)).evaluate(variables, context)
    return [warning.cause for warning in context.warnings]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("null = null", True),
        ("1 != null", True),
        ("[1] = 1", None),
        ("[1, null] = [1, null]", True),
        ("[1, 2] = [2, 1]", False),
        ("{a: 1, b: 2} = {b: 2, a: 1}", True),
        ("{a: 1} = {a: 1, b: null}", False),
        ("[1..5] = [1..5)", False),
        ("1 = 1.00", True),
        ('@"P1D" = @"PT24H"', True),
        ('@"P1Y" = @"P365D"', None),
        ('@"2024-01-01" = @"2024-01-01T00:00:00"', None),
        ("{f: function(x) x, same: f = f}.same", True),
        ('"Z" < "a"', True),
        ('"abc" < "abcd"', True),
        ("null < 1", None),
    ],
)
def test_equality_and_order_hold_within_one_kind(text: str, expected: object) -> None:
    assert value(text) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 between 2 and null", False),
        ("1 between 0 and null", None),
        ("5 between 1 and 5", True),
        ("5.0 between 1 and 4.99", False),
        ("1 in [1, 2]", True),
        ("1 in ([1, 2])", True),
        ("1 in [[1, 2]]", False),
        ("[1] in [[1], [2]]", True),
        ("[1, 2] in ([1, 2], [3])", True),
        ("1 in [[0..3]]", True),
        ("1 in (> 5, < 2)", True),
        ("null in [1, null]", True),
        ("null in [1..5]", None),
        ('"a" in [1..5]', None),
        ('"a" in ([1..5], "a")', True),
        ("[1..3] in [1..3]", True),
        ("[1..3] in [1..3)", False),
        ("3 in [1..3)", False),
        ("3 in (2..3]", True),
        ("2 in ]2..3]", False),
        ("2.5 in (2..3)", True),
        ("3 in [5..1]", False),
        ("5 in (? > 3 and ? < 9)", True),
        ("{a: 1} in [{a: 1}]", True),
        ("5 in [1..10]", True),
        ("5 in (1..5)", False),
        ("5 in ]4..5]", True),
        ("5 in 5", True),
        ("5 in [4, 5]", True),
        ("5 in (4, 5)", True),
        ("5 in (< 3, > 4)", True),
        ("5 in < 3", False),
        ("5 in ([1..3], [7..9])", False),
        ("5 in [[1..3], [4..6]]", True),
        ("5 in (? > 4)", True),
        ("5 in []", False),
        ("null in (null, 1)", True),
        ("5 in (x)", True),
    ],
)
def test_membership_takes_values_lists_ranges_and_conditions(text: str, expected: object) -> None:
    assert value(text, x=[5]) is expected


def test_a_range_that_ends_before_it_starts_is_none() -> None:
    assert value("[5..1]") is None
    assert causes("[5..x]", x=1) == ["no range: it ends before it starts"]
    assert value("[5..5).start included") is True


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[1, 2, 3][1.0]", 1),
        ("[1, 2, 3][-3]", 1),
        ("[1, 2, 3][4]", None),
        ("[][item > 1]", []),
        ("5[1]", 5),
        ("5[item > 1]", [5]),
        ("{a: 1}[a = 2]", []),
        ('[1, 2]["a"]', None),
        ("[1, null, 3][item > 1]", [3]),
        ("[{item: 5}, {item: 6}][item = 5]", [{"item": 5}]),
        ("{x: 2, found: [{x: 1}, {x: 2}][x = 2]}.found", [{"x": 2}]),
        ("{x: 2, found: [{y: 1}, {y: 2}][y = x]}.found", [{"y": 2}]),
        ("[[1, 2], [3]][count(item) = 2]", [[1, 2]]),
        ("[{a: [{b: 1}, {b: 2}]}][count(a[b > 1]) = 1].a[1]", [{"b": 1}, {"b": 2}]),
        ("[{a: 1}, {b: 2}].a", [1, None]),
        ("{a: {b: [{c: 1}, {c: 2}]}}.a.b.c", [1, 2]),
    ],
)
def test_a_filter_gives_an_element_or_those_for_which_it_is_true(text: str, expected: object) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("for x in 1..3, y in x..3 return x * 10 + y", [11, 12, 13, 22, 23, 33]),
        ("for x in 3..1 return x", [3, 2, 1]),
        ("for x in (1..4) return x", [2, 3]),
        ("for x in 1..4 return count(partial)", [0, 1, 2, 3]),
        ("for x in 5 return x", [5]),
        ("for x in null return x", None),
        ("for x in 1..2.5 return x", None),
        ("some x in [1, null, 3] satisfies x > 2", True),
        ("some x in [1, null] satisfies x > 2", None),
        ("every x in [1, null] satisfies x > 0", None),
        ("every x in [0, null] satisfies x > 0", False),
        ('some x in ["a"] satisfies x', None),
        ("some x in [] satisfies x", False),
        ("every x in [] satisfies x", True),
    ],
)
def test_loops_and_quantifiers(text: str, expected: object) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(function(a, b) a - b)(5, 3)", 2),
        ("(function(a, b) a - b)(b: 5, a: 3)", -2),
        ("(function(a, b) b = null)(a: 3)", True),
        ("(function(a, b) b = null)(3)", None),
        ("(function(a) a)(1, 2)", None),
        ("(function(a) a)(b: 1)", None),
        ("(function(a) function(b) a + b)(1)(2)", 3),
        ("{a: 1, f: function(x) x + a, b: f(2)}.b", 3),
        ("for f in [function(x) x + 1, function(x) x * 2] return f(10)", [11, 20]),
        ("{a: 1, b: a + 1, a 2: b}", {"a": 1, "b": 2, "a 2": 2}),
        ("1(2)", None),
        ("null()", None),
    ],
)
def test_functions_and_contexts(text: str, expected: object) -> None:
    assert value(text) == expected


def test_a_function_in_a_context_may_call_itself_by_its_key() -> None:
    assert (
        value("{fact: function(n) if n < 2 then 1 else n * fact(n - 1), of 20: fact(20)}.of 20") == 2432902008176640000
    )
    assert value("for k in [1, 2] return {f: function(n) if n = 0 then k else f(n - 1), r: f(3)}.r") == [1, 2]
    endless = "{f: function(n) f(n + 1), r: f(1)}.r"
    assert value(endless) is None
    assert causes(endless) == ["calls nested deeper than 500 levels"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 / 3", Decimal("0." + "3" * 34)),
        ("2 / 3", Decimal("0." + "6" * 33 + "7")),
        ("9999999999999999999999999999999999 + 1", Decimal("1E+34")),
        ("1.00000000000000000000000000000000045 * 10", Decimal("10.00000000000000000000000000000000")),
        ("10 ** 6145", None),
        ("10 ** -6200", None),
        ("0 ** -1", None),
        ("(-8) ** 0.5", None),
        ("2 ** -1", Decimal("0.5")),
        ("1 + true", None),
    ],
)
def test_numbers_have_34_digits_and_what_has_no_number_is_null(text: str, expected: object) -> None:
    assert value(text) == expected


def test_there_is_one_zero() -> None:
    assert str(value("0 * -1.5")) == "0.0"
    assert value("string(0 * -1.5)") == "0"


class Opaque:
    """No value of FEEL."""


def test_a_path_looks_at_no_more_of_a_value_than_it_reads() -> None:
    request = {"model": {"name": "chat", "weights": Opaque()}, "size": 0.5, "tags": ("a", "b")}
    assert value("request.model.name", request=request) == "chat"
    assert value("request.size", request=request) == Decimal("0.5")
    assert value("request.tags", request=request) == ["a", "b"]
    assert value("request.model", request=request) is None
    assert causes("request.model.weights", request=request) == ["variable 'request': a Python Opaque is no FEEL value"]
    assert causes("request.model.missing", request={"model": {}}) == ["a context has no entry 'missing'"]
