"""Owns the built-in functions that turn values into other kinds: string, number, JSON.
Never guesses a format.
Called by compiled invocations through the table of built-ins.
"""

from __future__ import annotations

import re
from base64 import b64encode

from engine.feel.border import json_text, parse_json, text_of
from engine.feel.environment import Env
from engine.feel.faults import FeelFault
from engine.feel.functions.registry import builtin
from engine.feel.numbers import D34, DIGITS, decimal_result
from engine.feel.values import Value, is_number, kind_of

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_SEPARATORS = frozenset((" ", ",", "."))


@builtin("string", "from: any", about="The value as text; null for null")
def string(env: Env, value: Value) -> Value:
    if value is None or isinstance(value, str):
        return value
    return text_of(env, value)


@builtin(
    "number",
    "from: any",
    "from: string, grouping separator: any, decimal separator?: any",
    about="The number that a text writes, with its separators removed",
)
def number(env: Env, text: Value, *separators: Value) -> Value:
    if is_number(text):
        return text
    if not isinstance(text, str):
        raise FeelFault(f"'from' must be a string or number, found {kind_of(text)}")
    env.check_string(len(text))
    text = _without_separators(text, *separators)
    if len(text) > 10_000 or not _NUMBER.fullmatch(text):
        raise FeelFault(f"{text[:40]!r} is not a number")
    digits = text.lstrip("+-")
    if digits.isdigit() and len(digits) <= DIGITS:
        return int(text)
    return decimal_result(D34.create_decimal, text)


def _without_separators(text: str, grouping: Value = None, point: Value = None) -> str:
    if grouping is not None:
        if not isinstance(grouping, str) or grouping not in _SEPARATORS:
            raise FeelFault("a grouping separator is a space, a comma or a full stop")
        text = text.replace(grouping, "")
    if point is not None:
        if not isinstance(point, str) or point not in (",", ".") or point == grouping:
            raise FeelFault("a decimal separator is a comma or a full stop, other than the grouping separator")
        text = text.replace(point, ".")
    return text


@builtin("to json", "value: any", about="The value as compact JSON", origin="Camunda")
def to_json(env: Env, value: Value) -> Value:
    return json_text(env, value)


@builtin("from json", "value: string", about="The value of a JSON text", origin="Camunda")
def from_json(env: Env, value: str) -> Value:
    return parse_json(env, value)


@builtin("to base64", "value: string", about="The Base64 form of a string's UTF-8 bytes", origin="Camunda")
def to_base64(env: Env, value: str) -> Value:
    try:
        encoded = b64encode(value.encode()).decode("ascii")
    except UnicodeEncodeError as error:
        raise FeelFault("the string holds half of a surrogate pair") from error
    env.check_string(len(encoded))
    return encoded
