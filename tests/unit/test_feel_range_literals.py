"""Ranges as the text writes them: every bracket, any expression as an end, values and tests in all positions."""

from __future__ import annotations

from typing import Any

import pytest

from engine.feel import Range, compile_expression, compile_unary_tests

SCOPE: dict[str, Any] = {"x": 3, "l": [7, 8], "c": {"low": 1, "high": 9}}


def value(text: str) -> Any:
    return compile_expression(text).evaluate(SCOPE)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[1..3]", Range(1, 3, True, True)),
        ("(1..3)", Range(1, 3, False, False)),
        ("]1..3[", Range(1, 3, False, False)),
        ("[1..3[", Range(1, 3, True, False)),
        ("]1..3]", Range(1, 3, False, True)),
        ("[1..3)", Range(1, 3, True, False)),
        ("( 1 .. 3 ]", Range(1, 3, False, True)),
        ("[-3..-1]", Range(-3, -1)),
        ("[1+1..2*3[", Range(2, 6, True, False)),
        ("[c.low..c.high[", Range(1, 9, True, False)),
        ("[count(l)..l[1]]", Range(2, 7)),
        ("[x..l[1][", Range(3, 7, True, False)),
        ("[if true then 1 else 2..-(-3)[", Range(1, 3, True, False)),
        ('["a".."b"[', Range("a", "b", True, False)),
        ("(=10)", Range(10, 10)),
        ("(< 10)", Range(None, 10, False, False)),
        ("(<= x + 1)", Range(None, 4, False, True)),
        ("(> 10)", Range(10, None, False, False)),
        ("(>=10)", Range(10, None, True, False)),
        ("< 10", Range(None, 10, False, False)),
        ("[[1..3[, (1..3), ]1..3], (< 3)][3]", Range(1, 3, False, True)),
        ("{a: ]1..3[, b: [1..3[}.b", Range(1, 3, True, False)),
        ("if x in [1..3[ then 1 else [1..2[", Range(1, 2, True, False)),
        ("(function(r) r)([1..3[)", Range(1, 3, True, False)),
    ],
)
def test_a_range_is_a_value_wherever_it_stands(text: str, expected: Range) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[1..10[.start included", True),
        ("[1..10[.end included", False),
        ("]1..10].start", 1),
        ("(=10).start included", True),
        ("(=10).end", 10),
        ("(>=10).end included", False),
        ("(< 10).start", None),
        ("[1..10[ = [1..10)", True),
        ("[1..10[ != [1..10]", True),
        ("[1..10[ instance of range<number>", True),
        ("5 in [1..10[ and 10 in [1..10[", False),
        ("[for i in [1..4[ return i, 9]", [[1, 2, 3], 9]),
        ("some i in [1..4[ satisfies i = 3", True),
        ("5 in [1..x[1]]", False),
    ],
)
def test_what_follows_the_bracket_of_a_range_applies_to_it(text: str, expected: Any) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    ("test", "passing", "failing"),
    [
        ("5", [5], [6, "5"]),
        ("= 5", [5], [6]),
        ("!= 5", [6], [5]),
        ("> 5", [6], [5]),
        ("(> 5)", [6], [5]),
        ("(!= 5)", [6], [5]),
        ("(= 5)", [5], [6]),
        ('= "a"', ["a"], ["b"]),
        ("= null", [None], [1]),
        ("!= null", [1], [None]),
        ("= true", [True], [False]),
        ("= [1]", [[1]], [[2]]),
        ("[1..5[", [1], [5]),
        ("]1..5]", [5], [1]),
        ("(< 5, [7..9], 11)", [4, 8, 11], [5, 10]),
        ("(= 5, != 6)", [5, 7], [6]),
        ("(1 + 2) * 2 - 1", [5], [3]),
        ("([1..3])", [2], [4]),
        ("[1..3]", [2], [4]),
        ("[1, 3, [7..9]]", [3, 8], [2]),
        ("[= 5, < 3]", [5, 2], [4]),
        ("[!= 5]", [6], [5]),
        ("[? > 3, = 1]", [4, 1], [2]),
        ("((5..10])", [6, 10], [5]),
        ("([2..4], [1..3])", [1, 4], [5]),
        ("(null)", [None], [1]),
        ("c.high", [9], [1]),
    ],
)
def test_the_right_side_of_in_is_a_test_or_several(test: str, passing: list[Any], failing: list[Any]) -> None:
    expression = compile_expression(f"v in {test} and true")
    assert all(expression.evaluate({**SCOPE, "v": each}) is True for each in passing)
    assert not any(expression.evaluate({**SCOPE, "v": each}) for each in failing)


@pytest.mark.parametrize(
    ("tests", "passing", "failing"),
    [
        ("-", [None, 1, "a"], []),
        ("- // any", [None, 1], []),
        ("= 5", [5], [6]),
        ("!= 5, 5", [5, 6], []),
        ("not(= 5)", [6], [5]),
        ("not([1..5[, 7)", [5], [1, 7]),
        ("null", [None], [1]),
        ("not(null)", [1], [None]),
        ("[1..5[, ]7..9]", [1, 8, 9], [5, 7]),
        ("< 3, > x + 2", [2, 6], [4]),
        ("? > 2 and ? < 5", [3], [5]),
        ("? in [1..3[", [2], [3]),
        ("count(?) > 1", [[1, 2]], [[1]]),
        ('"a", "b"', ["b"], ["c"]),
        ("-5", [-5], [5]),
        ("5 + 1", [6], [5]),
        ("true", [True], [False]),
        ("l", [8, [7, 8]], [9]),
    ],
)
def test_unary_tests_of_a_cell(tests: str, passing: list[Any], failing: list[Any]) -> None:
    expression = compile_unary_tests(tests)
    assert all(expression.evaluate(SCOPE, None, each) is True for each in passing)
    assert not any(expression.evaluate(SCOPE, None, each) for each in failing)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("-x ** 2", 9),
        ("1 - -1", 2),
        ("1 -1", 0),
        ("2 in [1..3] and 5 in (1, 5) or false", True),
        ("for i in l return i + 1", [8, 9]),
        ("every i in l satisfies i > 6 and i < 9", True),
        ("not (true) = false", True),
        ("(function(a) a + 1)(2) * 2", 6),
        ("function(a) a + 1 instance of number", None),
        ("[1, 2, 3][item >= 2][1]", 2),
        ("{a: [5]}.a[1]", 5),
        ("(c).high", 9),
        ('@"2024-02-29".year + 1', 2025),
        ("[{a: 1}].a[1] + 1", 2),
        ("{f: function(n) {m: [n]}}.f(3).m[1]", 3),
    ],
)
def test_precedence_follows_the_order_of_the_rules(text: str, expected: Any) -> None:
    found = value(text)
    assert found == expected or (expected is None and type(found).__name__ == "FeelFunction")
