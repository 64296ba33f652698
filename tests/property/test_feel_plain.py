"""Plain literals are read without the parser, and give the tree that the parser gives."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.feel import DEFAULT_LIMITS, FeelLimits, FeelSyntaxError
from engine.feel.functions import BUILTINS
from engine.feel.parser import Parser
from engine.feel.plain import plain_expression, plain_unary_tests
from engine.feel.tree import Node

NUMBERS = st.from_regex(r"\A-?[0-9]{1,17}(\.[0-9]{1,17})?\Z")
TEXTS = st.text(max_size=6).map('"{}"'.format)
SPACES = st.sampled_from(["", " ", "\n", "\u00a0", "  "])
PARTS = st.one_of(NUMBERS, TEXTS, SPACES, st.sampled_from([*'[](),<>=".-', "..", ">=", "not", "not(", "true", "?"]))


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
ANY = st.lists(PARTS, max_size=8).map("".join)


def parsed(text: str, tests: bool, limits: FeelLimits = DEFAULT_LIMITS) -> Node | None:
    parser = Parser(text, ["a name", "1 a"], BUILTINS, limits)
    try:
        return parser.whole_unary_tests() if tests else parser.whole_expression()
    except FeelSyntaxError:
        return None


@settings(max_examples=300, deadline=None)
@given(text=st.one_of(CELLS, NEGATED, ANY))
def test_plain_tests_have_the_tree_of_the_parser(text: str) -> None:
    plain = plain_unary_tests(text, DEFAULT_LIMITS)
    if plain is not None:
        assert repr(plain) == repr(parsed(text, tests=True))


@settings(max_examples=300, deadline=None)
@given(text=st.one_of(spaced(ONES), ANY))
def test_a_plain_literal_has_the_tree_of_the_parser(text: str) -> None:
    plain = plain_expression(text, DEFAULT_LIMITS)
    if plain is not None:
        assert repr(plain) == repr(parsed(text, tests=False))


@pytest.mark.parametrize(
    "text", ["5", "-2.50", '"a"', '"a", "b"', "< 5", "[1..3)", "]1..3[", 'not("a", < "b")', "true", "null", ' "ü" ']
)
def test_most_cells_are_plain(text: str) -> None:
    assert plain_unary_tests(text, DEFAULT_LIMITS) is not None


@pytest.mark.parametrize(
    "text", ["", "-", "a", '"\\n"', "1, 2)", "not(1", "not(not(1))", "1 2", "[1..2", "1..2", "1e5"]
)
def test_what_is_not_plain_is_left_to_the_parser(text: str) -> None:
    assert plain_unary_tests(text, DEFAULT_LIMITS) is None


def test_limits_are_left_to_the_parser() -> None:
    assert plain_unary_tests("[1..2]", FeelLimits(max_text=5)) is None
    assert plain_unary_tests("[1..2]", FeelLimits(max_depth=3)) is None
