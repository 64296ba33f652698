"""Built-in functions on lists, as tables: ordinary calls, calls by name, nulls, other kinds, edges, cost."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from engine.feel import EvaluationContext, FeelLimits, compile_expression
from tests.feel_values import evaluated


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mode([6, 3, 9, 6, 6])", [6]),
        ("mode(3, 6, 1, 9, 6, 1)", [1, 6]),
        ("mode([1, 1.0, 2])", [1]),
        ("mode([])", []),
        ("mode(list: [2])", [2]),
        ("stddev(2, 4, 7, 5)", Decimal("2.081665999466132735282297706979931")),
        ("stddev(list: [1, 1, 1])", 0),
        ("stddev([1, 3, 5])", 2),
        ("median([8, 2, 5, 3, 4])", 4),
        ("median([6, 1, 2, 3])", Decimal("2.5")),
        ("sum([])", None),
        ("product([])", None),
        ("mean([])", None),
        ("median([])", None),
        ("min([])", None),
        ("max([])", None),
        ("sum(5)", 5),
        ("sum([[5]][1])", 5),
        ('max("a", "c", "b")', "c"),
        ('min([@"2024-02-01", @"2024-01-01"]) = @"2024-01-01"', True),
        ('max([@"PT1H", @"PT90M"]) = @"PT1H30M"', True),
        ('sum([@"PT1H", @"PT30M"]) = @"PT90M"', True),
        ("all([])", True),
        ("any([])", False),
        ("all([true, null])", None),
        ("all([false, null, 1])", False),
        ("any([true, null, 1])", True),
        ("count([])", 0),
        ("count([null, [1, 2]])", 2),
        ("count(7)", 1),
        ("list contains([1, 2], 3)", False),
        ("list contains([[1]], [1])", True),
        ("count([1, null])", 2),
        ("min([3, 1, 2])", 1),
        ("max(3, 1, 2)", 3),
        ('max(["a", "c"])', "c"),
        ('min([@"PT1M", @"PT2S"]) = @"PT2S"', True),
        ("sum([1, 2.5])", Decimal("3.5")),
        ("sum(1, 2)", 3),
        ('sum([@"PT1S", @"PT2S"]) = @"PT3S"', True),
        ("product([2, 3])", 6),
        ("mean([1, 2])", Decimal("1.5")),
        ("mean(1, 2, 3)", 2),
        ("median([3, 1, 2])", 2),
        ("median(1, 2)", Decimal("1.5")),
        ("any([true, null])", True),
        ("count(5)", 1),
    ],
)
def test_one_value_of_a_list(text: str, expected: Any) -> None:
    assert evaluated(text) == (expected, [])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("list replace([1, 2, 3], 2, 9)", [1, 9, 3]),
        ("list replace([1, 2, 3], -1, 9)", [1, 2, 9]),
        ("list replace([1, 2, 3], 2.9, 9)", [1, 9, 3]),
        ("list replace([1, 2, 3], 1, null)", [None, 2, 3]),
        ("list replace(1, 1, 9)", [9]),
        ("list replace([2, 4, 7, 8], function(item, newItem) item < newItem, 5)", [5, 5, 7, 8]),
        ("list replace([], function(item, newItem) true, 5)", []),
        ("list replace(newItem: 9, position: 1, list: [1, 2])", [9, 2]),
        ("list replace(match: function(a, b) a = 1, newItem: 9, list: [1, 2, 1])", [9, 2, 9]),
        ("duplicate values([1, 2, 3, 2, 1, 2])", [1, 2]),
        ('duplicate values([1, 1.0, "1", null, null, true])', [1, None]),
        ("duplicate values([[1], [2], [1]])", [[1]]),
        ("duplicate values([])", []),
        ("distinct values([3, 1, 3.0, null, null, {a: 1}, {a: 1}])", [3, 1, None, {"a": 1}]),
        ("union([1, 2], [2, 3], 3)", [1, 2, 3]),
        ("union(lists: [[1], [1]])", [1]),
        ("concatenate([1], 2, [[3]])", [1, 2, [3]]),
        ("concatenate([], [])", []),
        ("append([1], 2, null, [3])", [1, 2, None, [3]]),
        ("append(1, 2)", [1, 2]),
        ("append(list: [1], item: 2)", [1, 2]),
        ("append(list: [1], items: null)", [1, None]),
        ("flatten([1, [2, [3, []]]])", [1, 2, 3]),
        ("flatten(1)", [1]),
        ("partition([1, 2, 3, 4, 5], 2)", [[1, 2], [3, 4], [5]]),
        ("partition([1, 2], 9)", [[1, 2]]),
        ("partition(size: 2.5, list: [1, 2, 3])", [[1, 2], [3]]),
        ("partition([], 2)", []),
        ("sort([3, 1, 2])", [1, 2, 3]),
        ("sort([1.5, 1, 2])", [1, Decimal("1.5"), 2]),
        ('sort(["b", "a"])', ["a", "b"]),
        ("sort([])", []),
        ("sort(7)", [7]),
        ('sort([@"2024-02-01", @"2024-01-01"])[1] = @"2024-01-01"', True),
        ("sort(precedes: function(a, b) a > b, list: [1, 3, 2])", [3, 2, 1]),
        ("sort([{k: 2, v: 1}, {k: 1, v: 2}, {k: 1, v: 3}], function(a, b) a.k < b.k).v", [2, 3, 1]),
        ("sublist([1, 2, 3], 2)", [2, 3]),
        ("sublist([1, 2, 3], -2, 1)", [2]),
        ("sublist([1, 2, 3], 2, 99)", [2, 3]),
        ("sublist(list: [1, 2, 3], start position: 1, length: 2)", [1, 2]),
        ("insert before([1, 3], 2, 2)", [1, 2, 3]),
        ("insert before([1, 3], -1, 2)", [1, 2, 3]),
        ("insert before(newItem: null, position: 1, list: [1])", [None, 1]),
        ("remove([1, 2, 3], -3)", [2, 3]),
        ("reverse([1, [2, 3]])", [[2, 3], 1]),
        ("index of([1, null, 1], null)", [2]),
        ("index of([1, 2], 3)", []),
        ("list contains([1, null], null)", True),
        ("list contains([[1], {a: 1}], {a: 1})", True),
        ('list contains([1], "1")', False),
        # A local instant is not equal to one with a zone.
        ('list contains([@"2024-01-01T00:00:00"], @"2024-01-01T00:00:00Z")', False),
        ('count(distinct values([@"2024-01-01T00:00:00", @"2024-01-01T00:00:00Z"]))', 2),
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
        ("remove([1, 2, 3], -1)", [1, 2]),
    ],
)
def test_lists_made_of_lists(text: str, expected: Any) -> None:
    assert evaluated(text) == (expected, [])


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("mode(null)", "'list' must be a list, found null"),
        ("mode()", "takes (list: list...), found none"),
        ('mode([1, "a"])', "'list' must hold numbers, found string at position 2"),
        ("mode(l: [1])", "has no parameter 'l'; it takes (list: list...)"),
        ("stddev([1])", "at least two numbers"),
        ("stddev([])", "at least two numbers"),
        ("stddev([1, null])", "found null at position 2"),
        ("sum([1, true])", "found boolean at position 2"),
        ("min([1, null])", "cannot compare"),
        ('max(1, "a")', "cannot compare"),
        ("max({a: 1}, {a: 2})", "has no order"),
        ("count(null)", "found null"),
        ("all(null)", "found null"),
        ("list replace([1, 2], 3, 9)", "outside a list of 2 elements"),
        ("list replace([1, 2], 0, 9)", "outside"),
        ("list replace([1, 2], 0.5, 9)", "outside"),
        ("list replace(null, 1, 9)", "found null"),
        ('list replace([1, 2], "1", 9)', "must be a number or a function, found string"),
        ("list replace([1], function(a) true, 9)", "two parameters"),
        ("list replace([1], function(a, b) 1, 9)", "must give true or false, found number"),
        ("list replace([1], 1)", "takes (list: list, position: number, newItem: any) or (list: list, match: function"),
        ("list replace(list: [1], position: function(a, b) true, newItem: 2)", "'position' must be a number"),
        ("list replace(list: [1], match: 1, newItem: 2)", "'match' must be a function"),
        ("partition([1], 0)", "at least 1"),
        ("partition([1], -1)", "at least 1"),
        ("partition(null, 1)", "found null"),
        ('sort([1, "a"])', "cannot compare string with number"),
        ("sort([true, false])", "has no order"),
        ("sort([1, 2], function(a) true)", "two parameters"),
        ("sort([1, 2], 1)", "'precedes' must be a function, found number"),
        ("sort([1, 2], function(a, b) null)", "'precedes' must give true or false, found null"),
        ("duplicate values(null)", "found null"),
        ("union([1], null)", "argument 2 must be a list, found null"),
        ("concatenate(null)", "argument 1 must be a list, found null"),
        ("append(null, 1)", "found null"),
        ("append(list: [1])", "needs the parameter 'item'; it takes (list: list, item: any...)"),
        ("insert before([], 1, 2)", "outside a list of 0 elements"),
        ('remove([1], "1")', "must be a number"),
        ("sublist([1], 1, -1)", "'length' must be at least 1, found -1"),
        ("sublist([1], 1, 0)", "'length' must be at least 1, found 0"),
        ('sum([1, "a"])', "found string at position 2"),
        ('max([1, "a"])', "cannot compare"),
        ("sort([1], function(a) a)", "two parameters"),
        ("all()", "found none"),
    ],
)
def test_lists_that_do_not_fit_give_null_with_a_warning(text: str, cause: str) -> None:
    value, warnings = evaluated(text)
    assert value is None
    assert [cause in warning for warning in warnings] == [True], warnings


@pytest.mark.parametrize(
    "text",
    [
        "count(mode(rows))",
        "stddev(rows)",
        "count(sort(rows))",
        "median(rows)",
        "count(partition(rows, 1))",
        "count(duplicate values(for row in rows return [row]))",
        "count(list replace(rows, function(a, b) a < b, 5))",
        "is(rows, other)",
        "count(union(rows, rows, rows, rows))",
    ],
)
def test_what_grows_with_a_list_is_paid_for(text: str) -> None:
    rows = list(range(1_000))
    context = EvaluationContext(limits=FeelLimits(max_steps=120))
    assert compile_expression(text).evaluate({"rows": rows, "other": list(rows)}, context) is None
    assert "more than 120 evaluation steps" in context.warnings[-1].cause


def test_a_long_list_is_joined_within_the_default_limits() -> None:
    context = EvaluationContext()
    scope = {"rows": [[number] for number in range(20_000)]}
    assert compile_expression("count(union(rows[1], flatten(rows)))").evaluate(scope, context) == 20_000
    assert context.warnings == []


def test_lists_that_are_too_long_together_are_refused() -> None:
    context = EvaluationContext(limits=FeelLimits(max_list=10))
    assert compile_expression("concatenate(rows, rows)").evaluate({"rows": [1] * 6}, context) is None
    assert "a list of more than 10 elements" in context.warnings[0].cause
