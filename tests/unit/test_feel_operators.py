"""Operators, three-valued logic, paths, filters, loops, functions: values, and null with a warning elsewhere."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from engine.feel import EvaluationContext, FeelFunction, Range, compile_expression, compile_unary_tests
from tests.feel_values import evaluated

ORDER = {"id": 7, "lines": [{"sku": "a", "price": 10}, {"sku": "b", "price": 25}], "customer": {"name": "Ann"}}


def value(text: str, scope: dict[str, Any] | None = None) -> Any:
    """The value of an expression that gives no warning."""
    result, warnings = evaluated(text, scope)
    assert not warnings
    return result


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.1 + 0.2", Decimal("0.3")),
        ("7 / 2", Decimal("3.5")),
        ("6 / 3", 2),
        ("2 ** 10", 1024),
        ("2 ** 0.5 < 1.42", True),
        ("-(5)", -5),
        ("5000000000000000000 * 5000000000000000000", Decimal("2.5E+37")),
        ("1 = 1.0", True),
        ('"b" > "a"', True),
        ("2 != 3", True),
        ("[1, {a: 2}] = [1, {a: 2.0}]", True),
        ("null = 1", False),
        ("null != false", True),
        ("5 between 5 and 6", True),
        ("7 between 5 and 6", False),
    ],
)
def test_arithmetic_and_comparison(text: str, expected: Any) -> None:
    result = value(text)
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("1 / 0", "division by zero"),
        ("1.5 / 0", "division by zero"),
        ('1 + "a"', "cannot add number and string"),
        ("null + 1", "cannot add null and number"),
        ("true + 1", "cannot add boolean and number"),
        ("[1] * 2", "cannot multiply list by number"),
        ('"a" - "b"', "cannot subtract string from string"),
        ('"a" ** 2', "cannot raise string"),
        ("-true", "cannot negate a boolean"),
        ("10 ** 6144 * 10", "too large"),
        ("9 ** 99999", "too large"),
        ("0 ** -1", "division by zero"),
        ("(-8) ** 0.5", "no numeric result"),
        ('1 < "a"', "cannot compare number with string"),
        ("null < 3", "cannot compare null with number"),
        ("true < false", "a boolean has no order"),
        ('1 = "1"', "cannot compare number with string"),
        ("null between 1 and 2", "cannot compare"),
        ("[1..null]", "no range"),
        ('[1.."a"]', "no range"),
        ("missing", "no variable 'missing'"),
        ("{a: 1}.b", "a context has no entry 'b'"),
        ("null.b", "no property 'b'"),
        ("1.b", "a number has no properties"),
        ("[1, 2][3]", "outside a list of 2"),
        ("[1, 2][0]", "outside a list of 2"),
        ("null[1]", "cannot filter null"),
        ("for x in null return x", "cannot loop over null"),
        ('for x in 1.."a" return x', "cannot loop from number to string"),
        ("for x in [2..1] return x", "ends before it starts"),
        ("for x in (< 3) return x", "without end"),
        ("(1)(2)", "cannot call a number"),
        ("unknown(2)", "no function 'unknown'"),
        ("(function(a) a)(1, 2)", "takes 1 argument, not 2"),
        ("(function(a) a)(b: 1)", "has the parameters a"),
        ("{a: 1, a: 2}", "stands twice"),
    ],
)
def test_what_has_no_value_is_null_with_a_warning(text: str, cause: str) -> None:
    result, warnings = evaluated(text)
    assert result is None
    assert any(cause in warning for warning in warnings), warnings


def test_a_warning_names_the_expression_and_the_place() -> None:
    context = EvaluationContext()
    text = "1 + (2 / divisor)"
    assert compile_expression(text).evaluate({"divisor": 0}, context) is None
    first, second = context.warnings
    assert (first.expression, text[first.position], first.cause) == (text, "/", "division by zero")
    assert (text[second.position], second.cause) == ("+", "cannot add number and null")


@pytest.mark.parametrize("operator", ["and", "or"])
@pytest.mark.parametrize("left", [True, False, None])
@pytest.mark.parametrize("right", [True, False, None])
def test_logic_is_three_valued(operator: str, left: bool | None, right: bool | None) -> None:
    deciding = operator == "or"
    if left is deciding or right is deciding:
        expected: bool | None = deciding
    else:
        expected = None if left is None or right is None else not deciding
    assert value(f"a {operator} b", {"a": left, "b": right}) is expected


def test_logic_takes_what_is_no_boolean_as_unknown() -> None:
    assert evaluated("1 and true") == (None, ["'and' needs booleans, found number"])
    assert evaluated('false and "x"') == (False, [])
    assert [value(f"not({x})") for x in ("true", "false", "null")] == [False, True, None]


def test_if_takes_the_else_branch_unless_the_condition_is_true() -> None:
    assert value("if a then 1 else 2", {"a": True}) == 1
    assert value("if a then 1 else 2", {"a": False}) == 2
    assert evaluated("if a then 1 else 2", {"a": None})[0] == 2
    assert evaluated("if a then 1 else 2", {"a": "true"}) == (
        2,
        ["the condition of 'if' is string, not true or false"],
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("order.customer.name", "Ann"),
        ("order.lines.sku", ["a", "b"]),
        ("order.lines[1].sku", "a"),
        ("order.lines[-1].price", 25),
        ("order.lines[price > 15].sku", ["b"]),
        ("order.lines[item.price > 15].sku", ["b"]),
        ("order.lines[price > limit].sku", ["a", "b"]),
        ("order.lines[sku = wanted][1].price", 25),
        ("order.lines[price > 100]", []),
        ("[1, 2, 3, 4][item > 2]", [3, 4]),
        ("[1, 2, 3][index]", 3),
        ("[10, 20][1.0]", 10),
        ("[1, 2, 3][[item][item >= 2] = [item]]", [2, 3]),
        ("5[item > 3]", [5]),
        ("[][1 > 0]", []),
        ("[][unknown condition]", []),
        ("[1..5].start", 1),
        ("[1..5).end included", False),
    ],
)
def test_paths_and_filters(text: str, expected: Any) -> None:
    scope = {"order": ORDER, "limit": 5, "wanted": "b", "index": 3, "unknown condition": True}
    expression = compile_expression(text, names=("unknown condition",))
    assert expression.evaluate(scope) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("for x in [1, 2, 3] return x * 2", [2, 4, 6]),
        ("for x in 1..3 return x", [1, 2, 3]),
        ("for x in [1..3) return x", [1, 2]),
        ("for x in [1, 2], y in [x, 10] return x * y", [1, 10, 4, 20]),
        ("for x in [[1, 2], [3]] return for y in x return y + 1", [[2, 3], [4]]),
        ("for i in 0..4 return if i = 0 then 1 else i * partial[-1]", [1, 1, 2, 6, 24]),
        ("for i in 1..3 return partial", [[], [[]], [[], [[]]]]),
        ("for x in [] return x", []),
        ("some x in [1, 2] satisfies x > 1", True),
        ("some x in [1, 2], y in [3] satisfies x = y", False),
        ("some x in [] satisfies true", False),
        ("every x in [1, 2] satisfies x > 0", True),
        ("every x in [] satisfies false", True),
        ("every x in [null, 1] satisfies x = 1", False),
        ("some x in [null, false] satisfies x", None),
        ("every x in [null, true] satisfies x", None),
        ("(function(a: number, b) b)(1)", None),
        ("{f: function(x) x + y, y: 2, r: f(1)}.r", None),
        ("{y: 2, f: function(x) x + y, r: f(1)}.r", 3),
        ("(for i in 1..3 return function() i)[2]()", 2),
        ("{f: function(f, n) if n = 0 then 1 else n * f(f, n - 1), r: f(f, 5)}.r", 120),
        ("{a: 1, b: {a: 2, c: a}, d: a}", {"a": 1, "b": {"a": 2, "c": 2}, "d": 1}),
    ],
)
def test_loops_quantifiers_functions_and_contexts(text: str, expected: Any) -> None:
    assert evaluated(text)[0] == expected


def test_a_function_keeps_what_it_saw_where_it_was_defined() -> None:
    context = EvaluationContext()
    add = compile_expression("function(x) x + offset").evaluate({"offset": 10}, context)
    assert isinstance(add, FeelFunction)
    assert compile_expression("add(1) + offset").evaluate({"add": add, "offset": 100}, context) == 111
    broken = compile_expression("function(x) x / 0").evaluate({})
    compile_expression("broken(1)").evaluate({"broken": broken}, context)
    assert [warning.expression for warning in context.warnings] == ["function(x) x / 0"]


@pytest.mark.parametrize(
    ("tests", "tested", "expected"),
    [
        ("-", None, True),
        ("5", 5, True),
        ('"a"', "b", False),
        ('"a", "b"', "b", True),
        ("< 5", 4, True),
        ("<= 5, > 10", 7, False),
        ("[1..5]", 5, True),
        ("]1..5[", 5, False),
        ("not(5)", 4, True),
        ('not("a", "b")', "b", False),
        ("not(5), 7", 7, True),
        ("? > limit", 4, True),
        ("? > limit", 3, False),
        ('starts with(?, "a")', "abc", True),
        ("limit", 3, True),
        ("[1, 2, 3]", 2, True),
        ("list", 2, True),
        ("true", True, True),
        ("true", False, False),
        ("limit = 3", 99, True),  # a true condition that does not read the input
        ("null", None, True),
        ("< 5", None, None),
        ("5", "5", None),
        ('> @"PT1S"', "x", None),
        ("-5", -5, True),
    ],
)
def test_unary_tests(tests: str, tested: Any, expected: bool | None) -> None:
    scope = {"limit": 3, "list": [1, 2]}
    assert compile_unary_tests(tests).evaluate(scope, EvaluationContext(), tested) is expected


def test_the_value_under_test_may_also_be_a_variable() -> None:
    expression = compile_unary_tests("> 5")
    assert expression.evaluate({"?": 6}) is True
    assert expression.names == frozenset()


def test_constants_are_folded_unless_they_warn() -> None:
    folded = compile_expression('duration("PT1S") * (1 + 2)')
    assert folded.evaluate({}) is folded.evaluate({})
    context = EvaluationContext()
    expression = compile_expression("1 / 0")
    for _ in range(2):
        assert expression.evaluate({}, context) is None
    assert len(context.warnings) == 2


def test_a_range_value_can_be_read_from_the_scope() -> None:
    assert value("3 in band", {"band": Range(1, 5)}) is True
