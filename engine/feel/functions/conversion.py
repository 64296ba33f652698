"""Owns the built-in functions that turn values into other kinds: string, number, JSON.
Never guesses a format.
Called by compiled invocations through the table of built-ins.
"""

from __future__ import annotations

import re

from engine.feel.border import json_text, parse_json, text_of
from engine.feel.environment import Env
from engine.feel.faults import FeelFault
from engine.feel.functions.registry import builtin
from engine.feel.numbers import D34, DIGITS, decimal_result
from engine.feel.values import Value, is_number, kind_of

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_SEPARATORS = frozenset((" ", ",", "."))


@builtin("string", "from: any")
def string(env: Env, value: Value) -> Value:
    if value is None or isinstance(value, str):
        return value
    return text_of(env, value)


@builtin(
    "number",
    "from: any",
    "from: any, grouping separator: any",
    "from: any, grouping separator: any, decimal separator: any",
)
def number(env: Env, text: Value, grouping: Value = None, point: Value = None) -> Value:
    if is_number(text):
        return text
    if not isinstance(text, str):
        raise FeelFault(f"'from' must be a string or number, found {kind_of(text)}")
    env.check_string(len(text))
    if grouping is not None:
        if not isinstance(grouping, str) or grouping not in _SEPARATORS:
            raise FeelFault("a grouping separator is a space, a comma or a full stop")
        text = text.replace(grouping, "")
    if point is not None:
        if not isinstance(point, str) or point not in (",", ".") or point == grouping:
            raise FeelFault("a decimal separator is a comma or a full stop, other than the grouping separator")
        text = text.replace(point, ".")
    if len(text) > 10_000 or not _NUMBER.fullmatch(text):
        raise FeelFault(f"{text[:40]!r} is not a number")
    digits = text.lstrip("+-")
    if digits.isdigit() and len(digits) <= DIGITS:
        return int(text)
    return decimal_result(D34.create_decimal, text)


@builtin("to json", "value: any")
def to_json(env: Env, value: Value) -> Value:
    return json_text(env, value)


@builtin("from json", "value: string")
def from_json(env: Env, value: str) -> Value:
    return parse_json(env, value)
