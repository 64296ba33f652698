"""Plain cells are understood without the parser, as the parser understands them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.feel import (
    DEFAULT_LIMITS,
    EvaluationContext,
    Expression,
    FeelLimits,
    FeelSyntaxError,
    compile_expression,
    compile_unary_tests,
)
from engine.feel.expression import compile_wholly
from engine.feel.plain import plain_literal, plain_tests

NUMBERS = st.from_regex(r"\A-?[0-9]{1,17}(\.[0-9]{1,17})?\Z")
TEXTS = st.text(max_size=6).map('"{}"'.format)
SPACES = st.sampled_from(["", " ", "\n", "\u00a0", "  "])
SIGNS = st.sampled_from([*'[](),<>=".-', "..", ">=", "not", "not(", "true", "?"])


def spaced(*parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """The parts with white space of any kind around them."""
    return st.tuples(SPACES, *(each for part in parts for each in (part, SPACES))).map("".join)


ONES = NUMBERS | TEXTS
TESTS = st.one_of(
    spaced(ONES),
    spaced(st.sampled_from(["<", "<=", ">", ">="]), ONES),
    spaced(st.sampled_from("[(]"), ONES, st.just(".."), ONES, st.sampled_from("])[")),
)
CELLS = st.lists(TESTS, min_size=1, max_size=3).map(",".join)
NEGATED = st.builds("{}not{}({}){}".format, SPACES, SPACES, CELLS, SPACES)
ANY = st.lists(st.one_of(NUMBERS, TEXTS, SPACES, SIGNS), max_size=8).map("".join)
VALUES: st.SearchStrategy[Any] = st.one_of(st.integers(), st.text(max_size=3), st.booleans(), st.none())


def told(expression: Expression) -> tuple[Any, ...]:
    tests = repr(expression.constant_tests)
    return tests, expression.depth, expression.names, expression.possible_names, expression.remarks


@settings(max_examples=300, deadline=None)
@given(text=st.one_of(CELLS, NEGATED, ANY), value=VALUES)
def test_plain_cells_are_what_the_parser_says(text: str, value: Any) -> None:
    if plain_tests(text, DEFAULT_LIMITS) is None:
        return
    names = ["a name", "1 a"]
    plain, parsed = compile_unary_tests(text, names=names), compile_wholly(text, names, DEFAULT_LIMITS, None, True)
    assert told(plain) == told(parsed)
    for _ in range(2):
        one, other = EvaluationContext(), EvaluationContext()
        assert plain.evaluate({}, one, value) == parsed.evaluate({}, other, value)
        assert one == other


@settings(max_examples=300, deadline=None)
@given(text=st.one_of(spaced(ONES), ANY))
def test_a_plain_literal_is_what_the_parser_says(text: str) -> None:
    known = plain_literal(text, DEFAULT_LIMITS)
    if known is None:
        return
    plain, parsed = compile_expression(text), compile_wholly(text, (), DEFAULT_LIMITS, None, False)
    assert told(plain) == told(parsed)
    assert plain.is_constant
    assert parsed.is_constant
    assert repr(plain.evaluate({})) == repr(parsed.evaluate({})) == repr(known[0])


@pytest.mark.parametrize(
    "text", ["5", "-2.50", '"a"', '"a", "b"', "< 5", "[1..3)", "]1..3[", 'not("a", < "b")', "true", "null", ' "ü" ']
)
def test_most_cells_are_plain(text: str) -> None:
    assert plain_tests(text, DEFAULT_LIMITS) is not None


@pytest.mark.parametrize(
    "text", ["", "-", "a", '"\\n"', "1, 2)", "not(1", "not(not(1))", "1 2", "[1..2", "1..2", "1e5"]
)
def test_what_is_not_plain_is_left_to_the_parser(text: str) -> None:
    assert plain_tests(text, DEFAULT_LIMITS) is None


@pytest.mark.parametrize("limits", [FeelLimits(max_text=5), FeelLimits(max_depth=3)])
def test_limits_hold_for_plain_cells(limits: FeelLimits) -> None:
    with pytest.raises(FeelSyntaxError):
        compile_unary_tests("[1..2]", limits=limits)
