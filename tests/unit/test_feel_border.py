"""What may come in from a scope and go out as JSON, and the limits that bound an evaluation."""

from __future__ import annotations

from collections import ChainMap, OrderedDict
from collections.abc import Callable
from decimal import Decimal
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Any

import pytest

from engine.feel import (
    DaysTimeDuration,
    EvaluationContext,
    FeelLimits,
    FeelValueError,
    FeelWarning,
    Range,
    compile_expression,
    to_json,
)


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


def read(value: Any) -> tuple[Any, list[str]]:
    context = EvaluationContext()
    result = compile_expression("v").evaluate({"v": value}, context)
    return result, [warning.cause for warning in context.warnings]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (0.1, Decimal("0.1")),
        (2.0, 2),
        (1e300, Decimal("1E+300")),
        (10**40, Decimal("1E+40")),
        ((1, 2.5), [1, Decimal("2.5")]),
        ({"a": [0.5]}, {"a": [Decimal("0.5")]}),
        (OrderedDict(a=1), {"a": 1}),
        (MappingProxyType({"a": 1}), {"a": 1}),
        (Colour.RED, "red"),
        (Level.HIGH, 3),
        (Decimal("1." + "1" * 50), Decimal("1." + "1" * 33)),
    ],
)
def test_values_of_python_become_values_of_feel(given: Any, expected: Any) -> None:
    result, warnings = read(given)
    assert (result, warnings) == (expected, [])
    assert type(result) is type(expected)


@pytest.mark.parametrize(
    "given",
    [float("nan"), float("inf"), Decimal("NaN"), Decimal("1E+99999"), b"x", {1: 2}, object(), {1, 2}, 1j, [object()]],
    ids=repr,
)
def test_what_is_no_value_of_feel_is_null_with_a_warning(given: Any) -> None:
    result, warnings = read(given)
    assert result is None
    assert len(warnings) == 1
    assert "variable 'v'" in warnings[0]


def test_an_unchanged_value_comes_back_as_the_same_object() -> None:
    value = {"a": [1, Decimal("2.50"), {"b": None}]}
    assert read(value)[0] is value


def test_a_cyclic_value_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    result, warnings = read(loop)
    assert result is None
    assert "nested deeper" in warnings[0]


def test_python_attributes_are_out_of_reach() -> None:
    for text in ("v.__class__", "v.real", "v.keys", '"".upper', "[].append"):
        context = EvaluationContext()
        result = compile_expression(text).evaluate({"v": {"a": 1}}, context)
        assert result is None or result == []


@pytest.mark.parametrize("scope", [{"a": 1}, ChainMap({"a": 1}), {"a": 1}.__getitem__, MappingProxyType({"a": 1})])
def test_a_scope_is_a_mapping_or_a_function(scope: Any) -> None:
    assert compile_expression("a + 1").evaluate(scope) == 2
    assert compile_expression("b").evaluate(scope) is None


def test_an_error_of_the_callers_own_function_passes_through() -> None:
    def broken(name: str) -> Any:
        raise RuntimeError(name)

    with pytest.raises(RuntimeError, match="a"):
        compile_expression("a").evaluate(broken)


def test_a_large_variable_is_examined_once_per_evaluation() -> None:
    reads = 0
    big = [0.5] * 1_000

    def scope(name: str) -> Any:
        nonlocal reads
        reads += 1
        return big

    context = EvaluationContext(limits=FeelLimits(max_steps=5_000))
    assert compile_expression("sum(for i in 1..100 return big[i])").evaluate(scope, context) == 50
    assert not context.warnings


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{a: [1, 2.50, null, true]}", {"a": [1, Decimal("2.50"), None, True]}),
        ('[@"PT0.25S", @"2024-02-29", @"10:30:00Z"]', ["PT0.25S", "2024-02-29", "10:30:00Z"]),
        ('@"2024-02-29T10:30:00.000001Z"', "2024-02-29T10:30:00.000001Z"),
        ("[1..3)", "[1..3)"),
        ('["a".."b"]', '["a".."b"]'),
        ("(> 3)", "(> 3)"),
    ],
)
def test_results_as_json(text: str, expected: Any) -> None:
    assert to_json(compile_expression(text).evaluate({})) == expected


def test_a_function_has_no_json() -> None:
    with pytest.raises(FeelValueError, match="function"):
        to_json(compile_expression("[function() 1]").evaluate({}))


def test_temporal_values_and_ranges_may_come_in() -> None:
    scope = {"delay": DaysTimeDuration(10**9), "band": Range(1, 3)}
    assert compile_expression('delay * 2 = @"PT2S" and 2 in band').evaluate(scope) is True


DOUBLING = "{a: [1, 1], b: [a, a], c: [b, b], d: [c, c], e: [d, d], f: [e, e], g: [f, f], h: [g, g], i: [h, h]}"
TIGHT = FeelLimits(max_steps=500, max_list=100, max_string=100, max_value_depth=5, max_call_depth=50)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("for x in 1..90 return for y in 1..5 return x", "500 evaluation steps"),
        ("some x in 1..90, y in 1..90 satisfies x > y * 100", "500 evaluation steps"),
        ("[xs, xs, xs, xs, xs, xs, xs][count(item[item > 5]) > 0]", "500 evaluation steps"),
        ("for x in 1..1000000000000 return x", "a list of more than 100"),
        ("for x in [1..1000000000000] return x", "a list of more than 100"),
        ("concatenate(xs, xs)", "a list of more than 100"),
        ("flatten([xs, xs])", "a list of more than 100"),
        ("{f: function(f, s) f(f, s + s), r: f(f, 1)}.r", "calls nested deeper than 50"),
        ("s + s", "a string of more than 100"),
        ("string join([s, s])", "a string of more than 100"),
        ("to json([s, s])", "a string of more than 100"),
        ("[[[[[[[[one]]]]]]]]", "nested deeper than 5"),
        ("string([[[[[[[one]]]]]]])", "nested deeper than 5"),
        ("flatten([[[[[[[one]]]]]]])", "nested deeper than 5"),
        ("[[[[[[[one]]]]]]] = [[[[[[[one]]]]]]]", "too deeply"),
    ],
)
def test_an_evaluation_stops_at_its_limits(text: str, cause: str) -> None:
    context = EvaluationContext(limits=TIGHT)
    scope = {"xs": list(range(90)), "s": "x" * 60, "one": 1}
    assert compile_expression(text).evaluate(scope, context) is None
    assert any(cause in warning.cause for warning in context.warnings), context.warnings


def test_a_loop_over_many_elements_stays_within_the_default_limits() -> None:
    context = EvaluationContext()
    assert compile_expression("sum(for x in 1..50000 return x)").evaluate({}, context) == 1_250_025_000
    assert not context.warnings


@pytest.mark.parametrize("text", ["[1][1e6000]", "substring(s, 1e6000)", "for x in 1..1e6000 return x"])
def test_a_huge_number_where_a_whole_one_is_needed_is_null_with_a_warning(text: str) -> None:
    context = EvaluationContext()
    assert compile_expression(text).evaluate({"s": "abc"}, context) is None
    assert any("whole number" in warning.cause for warning in context.warnings)


@pytest.mark.parametrize("use", ["{}", "({}).i = ({}).i", "to json({})", "string({})", "flatten([({}).i])"])
def test_shared_parts_of_a_value_are_paid_for_each_time(use: str) -> None:
    context = EvaluationContext(limits=FeelLimits(max_steps=300))
    assert compile_expression(use.replace("{}", DOUBLING)).evaluate({}, context) is None
    assert "300 evaluation steps" in context.warnings[-1].cause


@pytest.mark.parametrize(("text", "reads"), [("[" * 70 + "]" * 70, False), ('"' + "[{" * 70 + '\\""', True)])
def test_the_nesting_of_json_is_bounded_and_brackets_in_strings_do_not_nest(text: str, reads: bool) -> None:
    context = EvaluationContext()
    value = compile_expression("from json(text)").evaluate({"text": text}, context)
    assert (value is not None, bool(context.warnings)) == (reads, not reads)


def test_a_warning_is_told_in_one_line_with_its_place() -> None:
    context = EvaluationContext()
    compile_expression("1 +\n  x").evaluate({}, context)
    assert [each.in_one_line() for each in context.warnings] == [
        "no variable 'x' (line 2, column 3 of 1 + x)",
        "cannot add number and null (line 1, column 3 of 1 + x)",
    ]
    assert FeelWarning("input `n`", -1, "5 is a number").in_one_line() == "input `n`: 5 is a number"
    assert str(FeelWarning("input `n`", -1, "input `n`: 5 is a number")) == "input `n`: 5 is a number"
    assert FeelWarning("x" * 100, 0, "c").in_one_line() == f"c (line 1, column 1 of {'x' * 60}…)"


def test_warnings_are_bounded() -> None:
    context = EvaluationContext(limits=FeelLimits(max_warnings=3))
    compile_expression("for x in 1..50 return x / 0").evaluate({}, context)
    assert len(context.warnings) == 3


@pytest.mark.parametrize("make", [lambda: 1, lambda: [1], lambda: {"a": 1}])
def test_evaluating_never_changes_the_callers_values(make: Callable[[], Any]) -> None:
    value, text = make(), 'append(concatenate([v], [v]), context put({a: v}, "b", v), reverse([v, 1]), flatten([v]))'
    compile_expression(text).evaluate({"v": value})
    assert value == make()
