"""Owns whether a value is the expected one, and how values are shown to a person.
Never lets a value pass for another kind, and rounds only where the suite itself has rounded.
Called by the runner of test files.
"""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Any, Final

from engine.feel import DateTime, EvaluationContext, compile_expression

# An expected number with at least so many decimals was rounded by whoever wrote it, often after a computation in binary
# floating point. One unit of its last written decimal is allowed either way, and no less than the relative error that
# such a computation gathers; that is far below what a wrong formula gives. With fewer decimals it is exact.
_ROUNDED_DECIMALS: Final = 8
_BINARY_ERROR: Final = Decimal("1e-12")
_WIDE: Final = Context(prec=80)
_TEXT: Final = compile_expression("string([value])")


def matches(value: Any, expected: Any) -> bool:
    """Whether a value is the expected one: lists in order, contexts with the same entries, each of the same kind."""
    if isinstance(expected, list):
        return type(value) is list and len(value) == len(expected) and all(map(matches, value, expected))
    if isinstance(expected, dict):
        same_keys = type(value) is dict and value.keys() == expected.keys()
        return same_keys and all(matches(value[key], each) for key, each in expected.items())
    if isinstance(expected, Decimal):
        return type(value) in (int, Decimal) and _same_number(Decimal(value), expected)
    if type(value) is not type(expected):
        return False
    if value == expected:
        return True
    return isinstance(value, DateTime) and _same_instant(value, expected)


def _same_number(value: Decimal, expected: Decimal) -> bool:
    if value == expected:
        return True
    decimals = -int(expected.as_tuple().exponent)
    if decimals < _ROUNDED_DECIMALS:
        return False
    allowed = max(Decimal(1).scaleb(-decimals), _WIDE.multiply(abs(expected), _BINARY_ERROR))
    return abs(_WIDE.subtract(value, expected)) <= allowed


def _same_instant(value: DateTime, expected: DateTime) -> bool:
    """Equal where XML Schema, which has no names of zones, writes the offset that the zone has at that time."""
    same_local = value.date == expected.date and value.time.ns_of_day == expected.time.ns_of_day
    return same_local and value.offset_s() is not None and value.offset_s() == expected.offset_s()


def shown(value: Any) -> str:
    """A value in FEEL's notation, for a person."""
    text = _TEXT.evaluate({"value": value}, EvaluationContext())
    return text[1:-1] if isinstance(text, str) else repr(value)
