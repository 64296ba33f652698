"""Owns JSON as the store writes and reads it: exact numbers, nothing that jsonb refuses, one canonical form.
Never repairs a value silently: what jsonb cannot hold raises Poison, and the caller cleans and flags the row.
Called by the store's encoders, queries and database connections.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import orjson

# Postgres reads more digits than this, but a number of 6,144 digits is the largest that IEEE 754 decimal128 can name.
_MAX_EXPONENT = 6_144
_INT64 = range(-(1 << 63), 1 << 63)
_REPLACEMENT = "\ufffd"
_DIGITS = frozenset("0123456789")
_BACKSLASH = ord("\\")  # looked for as a byte, which costs a seventh of looking for bytes


class Poison(ValueError):
    """A value that Postgres cannot store: U+0000 or half of a surrogate pair inside a string."""


def dumps(value: object) -> bytes:
    """`value` as JSON with sorted keys; Decimals become exact number literals, NamedTuples arrays.

    Raises Poison for strings that jsonb refuses, TypeError for what is no JSON (NaN, keys that are not strings).
    """
    try:
        data = orjson.dumps(value, default=_plain, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:
        data = orjson.dumps(_portable(value), default=_plain, option=orjson.OPT_SORT_KEYS)
    if _BACKSLASH in data and b"\\u0000" in data and _has_nul(value):
        raise Poison("U+0000 in a JSON string")
    return data


def loads(data: bytes | str) -> Any:
    """JSON with integers as int and every other number as an exact Decimal."""
    return json.loads(data, parse_float=Decimal)


def canonical(data: bytes) -> bytes:
    """The same JSON document in its one canonical form: sorted keys, no spaces, plain decimal numbers."""
    return orjson.dumps(_portable(loads(data)), default=_plain, option=orjson.OPT_SORT_KEYS)


def clean(value: Any) -> Any:
    """`value` with U+0000 and lone surrogates replaced by U+FFFD at any depth; NamedTuples keep their type."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, Mapping):
        return {clean_text(name): clean(item) for name, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_make"):
        return value._make(map(clean, value))
    if isinstance(value, (list, tuple)):
        return [clean(item) for item in value]
    return value


def clean_text(value: str) -> str:
    if value.isascii() and "\0" not in value:
        return value
    return "".join(_REPLACEMENT if char == "\0" or "\ud800" <= char <= "\udfff" else char for char in value)


def number_text(value: Decimal) -> str:
    """A finite decimal without exponent, as Postgres prints it. Raises TypeError for what no JSON number can be."""
    text = str(value)
    if text[0] in _DIGITS and "E" not in text:
        return text
    if not value.is_finite() or abs(value.adjusted()) > _MAX_EXPONENT:
        raise TypeError(f"{value} is not a number that JSON can carry")
    text = format(value, "f")
    return text[1:] if text[0] == "-" and not value else text


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return tuple(value)
    if isinstance(value, Decimal):
        return orjson.Fragment(number_text(value))
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


def _portable(value: Any) -> Any:
    """`value` with what orjson cannot write natively, integers beyond 64 bits, as number literals."""
    if isinstance(value, str):
        if clean_text(value) != value:
            raise Poison("half of a surrogate pair in a JSON string")
        return value
    if isinstance(value, int) and not isinstance(value, bool) and value not in _INT64:
        return orjson.Fragment(str(value))
    if isinstance(value, Mapping):
        return {_portable(name): _portable(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_portable(item) for item in value]
    return value


def _has_nul(value: Any) -> bool:
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, Mapping):
        return any("\0" in name or _has_nul(item) for name, item in value.items())
    if isinstance(value, (list, tuple)):
        return any(map(_has_nul, value))
    return False
