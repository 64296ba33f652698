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
from engine.feel.values import Number, Value

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_SEPARATORS = frozenset((" ", ",", "."))


@builtin("string", "from: any", gives="string", about="The value as text; null for null")
def string(env: Env, value: Value) -> Value:
    if value is None or isinstance(value, str):
        return value
    return text_of(env, value)


@builtin(
    "number",
    "from: figure",
    "from: string, grouping separator: string|null, decimal separator?: string|null",
    gives="number",
    about="The number that a text writes, with its separators removed",
)
def number(env: Env, text: str | Number, grouping: str | None = None, point: str | None = None) -> Value:
    if not isinstance(text, str):
        return text
    env.check_string(len(text))
    text = _without_separators(text, grouping, point)
    if len(text) > 10_000 or not _NUMBER.fullmatch(text):
        raise FeelFault(f"{text[:40]!r} is not a number")
    digits = text.lstrip("+-")
    if digits.isdigit() and len(digits) <= DIGITS:
        return int(text)
    return decimal_result(D34.create_decimal, text)


def _without_separators(text: str, grouping: str | None, point: str | None) -> str:
    if grouping is not None:
        if grouping not in _SEPARATORS:
            wanted = "a space, a comma, a full stop or null"
            raise FeelFault(f"'grouping separator' must be {wanted}, found {grouping[:40]!r}")
        text = text.replace(grouping, "")
    if point is not None:
        if point not in (",", ".") or point == grouping:
            wanted = "a comma, a full stop or null, and not the grouping separator"
            raise FeelFault(f"'decimal separator' must be {wanted}, found {point[:40]!r}")
        text = text.replace(point, ".")
    return text


@builtin("to json", "value: any", gives="string", about="The value as compact JSON", origin="Camunda")
def to_json(env: Env, value: Value) -> Value:
    return json_text(env, value)


@builtin("from json", "value: string", about="The value of a JSON text", origin="Camunda")
def from_json(env: Env, value: str) -> Value:
    return parse_json(env, value)


@builtin(
    "to base64", "value: string", gives="string", about="The Base64 form of a string's UTF-8 bytes", origin="Camunda"
)
def to_base64(env: Env, value: str) -> Value:
    try:
        encoded = b64encode(value.encode()).decode("ascii")
    except UnicodeEncodeError as error:
        raise FeelFault("the string holds half of a surrogate pair") from error
    env.check_string(len(encoded))
    return encoded
