"""What is FEEL text and what is not: precedence, literals, names with spaces, ranges, comments, error messages."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from engine.feel import FeelLimits, FeelSyntaxError, compile_expression


def value(text: str, scope: dict[str, Any] | None = None, names: tuple[str, ...] = ()) -> Any:
    return compile_expression(text, names=names).evaluate(scope or {})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("42", 42),
        ("1.50", Decimal("1.50")),
        ("1.2e3", Decimal("1200")),
        ("9999999999999999999999999999999999", 10**34 - 1),
        ('""', ""),
        (r'"a\"b\\c\n\t\r\'"', "a\"b\\c\n\t\r'"),
        (r'"\u0041\U01F40E"', "A🐎"),
        (r'"\\d \d"', r"\d \d"),
        ('"two\nlines // no comment"', "two\nlines // no comment"),
        ("[]", []),
        ("[1, [2], null]", [1, [2], None]),
        ('{a: 1, "b c": 2, d e: 3, in: 4, f-g: 5}', {"a": 1, "b c": 2, "d e": 3, "in": 4, "f-g": 5}),
        ("/* one */ 1 // two\n+ 2 /* three\nlines */", 3),
    ],
)
def test_literals(text: str, expected: Any) -> None:
    result = value(text)
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10 - 4 - 3", 3),
        ("3 ** 4 ** 5", 3486784401),  # left associative
        ("-3 ** 2", 9),  # minus binds tighter
        ("- -3", 3),
        ("2 * 3 ** 2", 18),
        ("1 < 2 and 2 < 1 or true", True),
        ("1 + 1 = 2", True),
        ("1 + 1 in [1..3]", True),
        ("2 between 1 and 3 and true", True),
        ("if true then 1 else 2 + 3", 1),
        ("1 + if false then 1 else 2", 3),
        ("for x in [1, 2] return x + 1", [2, 3]),
        ("{a: [{b: 1}]}.a[1].b", 1),
    ],
)
def test_operators_bind_in_the_order_of_the_grammar(text: str, expected: Any) -> None:
    assert value(text) == expected


def test_a_square_bracket_after_a_range_end_closes_it_unless_a_filter_follows() -> None:
    assert value("2 in [1..x[ and true", {"x": 3}) is True
    assert value("2 in [1..x[1]]", {"x": [2]}) is True


def test_names_with_spaces_and_operators_are_recognised_where_they_are_known() -> None:
    assert value("first name + last-name", {"first name": "a", "last-name": "b"}, ("first name", "last-name")) == "ab"
    assert value("a-b", {"a-b": 7}, ("a-b",)) == 7
    assert value("a-b", {"a": 7, "b": 2}) == 5
    assert value("`first name`", {"first name": 1}) == 1
    assert value("{full name: 1, next: full name + 1}.next") == 2
    assert value("for one item in [1, 2] return one item * 2") == [2, 4]
    assert value("{f: function(first value) first value + 1, r: f(1)}.r") == 2
    assert value("[{first name: 1}, {first name: 2}][first name = 2].first name") == [2]
    assert value("order.line items", {"order": {"line items": 3}}) == 3
    assert value("order.for", {"order": {"for": 3}}) == 3


def test_unicode_names() -> None:
    assert value("größe + 🐎", {"größe": 1, "🐎": 2}) == 3


def test_free_names_are_reported_and_bound_ones_are_not() -> None:
    expression = compile_expression(
        "retries < limit and some x in jobs satisfies x.code = {a: 1, b: a}.b and count(list[price > floor(cap)]) > 0"
    )
    assert expression.names == {"retries", "limit", "jobs", "list"}
    assert expression.possible_names == {"price", "cap"}


def test_names_that_need_not_exist_are_only_possible() -> None:
    expression = compile_expression("if is defined(job.error) then get or else(code, other) else null")
    assert expression.names == {"other"}
    assert expression.possible_names == {"job", "code"}


@pytest.mark.parametrize(
    ("text", "line", "column", "expected", "found", "hint"),
    [
        ("1 +", 1, 4, "an expression", "the end", "'+' needs a right side"),
        ("a b", 1, 3, "operator", "'b'", "back quotes"),
        ("1 +\n  * 2", 2, 3, "an expression", "'*'", "follow each other"),
        ("x == 1", 1, 4, "an expression", "'='", "single ="),
        ("a && b", 1, 3, "an operator", "'&&'", "write 'and'"),
        ("'a'", 1, 1, "an expression", '"\'"', "double quotes"),
        ("/* x", 1, 1, "a comment closed", "'/*'", "no closing"),
        ("if a then b", 1, 12, "'else'", "the end", "without else"),
        ("[1, 2", 1, 6, "']'", "the end", "'[' opened at column 1"),
        ("{a 1}", 1, 2, "a key", "'a'", "key: value"),
        ("{a: 1,}", 1, 7, "another of the entries", "'}'", "comma before it"),
        ("f(a: 1, 2)", 1, 9, "all arguments", "'2'", ""),
        ("function(x: Car) x", 1, 13, "a type", "'Car'", "number, string"),
        ("@5", 1, 2, "a text in double quotes", "'5'", ""),
        ("1e99999", 1, 1, "a number", "'1e99999'", "too large"),
        ("function(a) external {}", 1, 13, "a body in FEEL", "'external'", "not run"),
        ("function(a, a) 1", 1, 13, "different names", "'a'", ""),
    ],
)
def test_a_syntax_error_says_where_what_and_how(
    text: str, line: int, column: int, expected: str, found: str, hint: str
) -> None:
    with pytest.raises(FeelSyntaxError) as raised:
        compile_expression(text)
    error = raised.value
    assert (error.line, error.column, error.found) == (line, column, found)
    assert expected in error.expected
    assert hint in error.hint
    assert hint or not error.hint
    rendered = str(error).split("\n")
    assert rendered[1].strip() == text.split("\n")[line - 1].strip()
    assert rendered[2].index("^") == column + 1


def test_the_limits_of_a_text_are_syntax_errors() -> None:
    with pytest.raises(FeelSyntaxError, match="at most 10 characters"):
        compile_expression("1 + 1 + 1 + 1", limits=FeelLimits(max_text=10))
    with pytest.raises(FeelSyntaxError, match="at most 5 nested"):
        compile_expression("1 + 1 + 1 + 1 + 1 + 1", limits=FeelLimits(max_depth=5))
    assert compile_expression(" or ".join(["a"] * 1_000)).evaluate({"a": False}) is False


def test_an_expression_is_immutable() -> None:
    expression = compile_expression("1")
    with pytest.raises(AttributeError):
        expression.text = "2"
    with pytest.raises(AttributeError):
        del expression.names
    assert repr(expression) == "Expression('1')"
