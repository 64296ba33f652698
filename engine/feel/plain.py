"""Owns the cells that most of a decision table are: numbers, texts and ranges of them, understood without the parser.
Never says anything about a text that it is not sure of.
Called by the compiler's entry points, which then leave the closures of tests until they are needed.
"""

from __future__ import annotations

import re

from engine.feel.closures.code import ConstantTests
from engine.feel.environment import FeelLimits
from engine.feel.numbers import D34, decimal_result
from engine.feel.operations import negate
from engine.feel.values import Range, Value

_CONSTANT = r'"[^"\\\ud800-\udfff]*"|-?[0-9]{1,15}(?:\.[0-9]{1,15})?'
_TEST = re.compile(
    rf"\s*(?:(<=|>=|<|>)?\s*({_CONSTANT})|([\[(\]])\s*({_CONSTANT})\s*\.\.\s*({_CONSTANT})\s*([\])\[]))\s*(,|\)?\s*\Z)"
)
_LITERAL = re.compile(rf"\s*({_CONSTANT})\s*\Z")
_NOT = re.compile(r"\s*not\s*\(")
_WORDS: dict[str, tuple[Value]] = {"true": (True,), "false": (False,), "null": (None,)}
# Frames that a test takes to evaluate, and one with a range.
_DEPTH, _RANGE_DEPTH = 3, 4


def plain_tests(text: str, limits: FeelLimits) -> ConstantTests | None:
    """What a cell compares its input with, when its tests are literals and ranges of literals."""
    if len(text) > limits.max_text or limits.max_depth < _RANGE_DEPTH:
        return None
    if text in _WORDS:
        return ConstantTests(_WORDS[text], False)
    tests: list[Value] = []
    denied = _NOT.match(text) if "not" in text else None
    position = 0 if denied is None else denied.end()
    while True:
        match = _TEST.match(text, position)
        if match is None:
            return None
        bound, only, opening, first, last, closing, following = match.groups()
        if opening is not None:
            tests.append(Range(_literal(first), _literal(last), opening == "[", closing == "]"))
        elif bound is None:
            tests.append(_literal(only))
        elif bound[0] == "<":
            tests.append(Range(None, _literal(only), False, bound == "<="))
        else:
            tests.append(Range(_literal(only), None, bound == ">=", False))
        position = match.end()
        if following != ",":
            break
    return ConstantTests(tuple(tests), denied is not None) if following.startswith(")") == bool(denied) else None


def plain_literal(text: str, limits: FeelLimits) -> tuple[Value] | None:
    """The value of an expression that is one literal."""
    if len(text) > limits.max_text:
        return None
    match = _LITERAL.match(text)
    return _WORDS.get(text) if match is None else (_literal(match[1]),)


def plain_depth(known: ConstantTests) -> int:
    """Python frames that evaluating such tests takes at most."""
    return _RANGE_DEPTH if any(isinstance(test, Range) for test in known.tests) else _DEPTH


def _literal(written: str) -> Value:
    if written[0] == '"':
        return written[1:-1]
    if written.isdigit():
        return int(written)
    digits = written.lstrip("-")
    number = int(digits) if digits.isdigit() else decimal_result(D34.create_decimal, digits)
    return negate(number) if written[0] == "-" else number
