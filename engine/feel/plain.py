"""Owns the texts that most cells of decision tables are: numbers, texts and ranges of them, read without the parser.
Never gives a tree other than the parser's, and nothing for a text that it is not sure about.
Called by the compiler's entry points in this package, before the parser.
"""

from __future__ import annotations

import re

from engine.feel.environment import FeelLimits
from engine.feel.numbers import D34, decimal_result
from engine.feel.tree import In, Interval, Literal, Node

_CONSTANT = r'"[^"\\\ud800-\udfff]*"|-?[0-9]{1,15}(?:\.[0-9]{1,15})?'
_WHOLE = re.compile(rf"\s*({_CONSTANT})\s*\Z")
_TEST = re.compile(
    rf"\s*(?:(<=|>=|<|>)?\s*({_CONSTANT})|([\[(\]])\s*({_CONSTANT})\s*\.\.\s*({_CONSTANT})\s*([\])\[]))\s*(,|\)?\s*\Z)"
)
_NOT = re.compile(r"\s*not\s*\(")
_WORDS = {"true": True, "false": False, "null": None}
# The deepest tree that stands here: tests around an interval around a literal.
_DEPTH = 4


def _fits(text: str, limits: FeelLimits) -> bool:
    return len(text) <= limits.max_text and limits.max_depth >= _DEPTH


def plain_expression(text: str, limits: FeelLimits) -> Node | None:
    """The tree of a text that is one literal."""
    if not _fits(text, limits):
        return None
    if text in _WORDS:
        return Literal(0, 1, _WORDS[text])
    match = _WHOLE.match(text)
    return None if match is None else _literal(match[1], match.start(1))


def plain_unary_tests(text: str, limits: FeelLimits) -> Node | None:
    """The tree of a cell whose tests are literals and ranges of literals."""
    if not _fits(text, limits):
        return None
    if text in _WORDS:
        return In(0, 3, None, (Literal(0, 1, _WORDS[text]),))
    tests: list[Node] = []
    denied = _NOT.match(text)
    position = 0 if denied is None else denied.end()
    while True:
        match = _TEST.match(text, position)
        if match is None:
            return None
        if denied is not None and (match[3] == "(" or match[6] == ")"):
            return None
        tests.append(_test(match))
        position = match.end()
        if match[7] != ",":
            break
    if (denied is not None) != match[7].startswith(")"):
        return None
    return In(0, 2 + max(test.depth for test in tests), None, tuple(tests), denied is not None)


def _test(match: re.Match[str]) -> Node:
    bound, only, opening, first, last, closing, _ = match.groups()
    if opening is not None:
        start, end = _literal(first, match.start(4)), _literal(last, match.start(5))
        return Interval(match.start(3), 2, start, end, opening == "[", closing == "]")
    literal = _literal(only, match.start(2))
    if bound is None:
        return literal
    included = len(bound) == 2
    if bound[0] == "<":
        return Interval(match.start(1), 2, None, literal, False, included)
    return Interval(match.start(1), 2, literal, None, included, False)


def _literal(written: str, position: int) -> Literal:
    if written[0] == '"':
        return Literal(position, 1, written[1:-1])
    digits = written.lstrip("-")
    number = int(digits) if digits.isdigit() else decimal_result(D34.create_decimal, digits)
    return Literal(position, 1, -number if written[0] == "-" else number)
