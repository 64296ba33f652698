"""Owns PostgreSQL's binary COPY format: single fields as length-prefixed bytes, and rows split back into fields.
Never knows a column or a record.
Called by the store's row encoder and by its canonical form. Format: PostgreSQL manual, COPY, "Binary Format".
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from decimal import Decimal
from functools import lru_cache
from typing import Final

from engine.store.json_text import Poison, number_text

HEADER: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)  # signature, no flags, no header extension
TRAILER: Final = b"\xff\xff"
NULL: Final = b"\xff\xff\xff\xff"
TRUE: Final = b"\0\0\0\1\1"
FALSE: Final = b"\0\0\0\1\0"
PG_EPOCH_US: Final = 946_684_800_000_000  # 2000-01-01T00:00:00Z, from which timestamptz counts
PG_EPOCH_DAY: Final = 10_957  # the same instant in days since 1970-01-01, from which date counts
_TEXT_OID: Final = 25
_JSONB_VERSION: Final = b"\1"

_length = struct.Struct(">i")
int2 = struct.Struct(">ih").pack
int4 = struct.Struct(">ii").pack
int8 = struct.Struct(">iq").pack


def smallint(value: int | None) -> bytes:
    return NULL if value is None else int2(2, value)


def integer(value: int | None) -> bytes:
    return NULL if value is None else int4(4, value)


def bigint(value: int | None) -> bytes:
    return NULL if value is None else int8(8, value)


def instant(at_us: int | None) -> bytes:
    """timestamptz from microseconds since the Unix epoch."""
    return NULL if at_us is None else int8(8, at_us - PG_EPOCH_US)


def boolean(value: bool | None) -> bytes:
    return NULL if value is None else TRUE if value else FALSE


def text(value: str | None) -> bytes:
    """Raises Poison for U+0000 and lone surrogates, which Postgres refuses."""
    if value is None:
        return NULL
    try:
        data = value.encode()
    except UnicodeEncodeError as error:
        raise Poison(str(error)) from error
    if b"\0" in data:
        raise Poison("U+0000 in a text")
    return _length.pack(len(data)) + data


@lru_cache(maxsize=8_192)
def label(value: str | None) -> bytes:
    """`text` for values that repeat: element ids, states, model names."""
    return text(value)


@lru_cache(maxsize=4_096)
def text_array(values: tuple[str, ...]) -> bytes:
    """text[], null when empty."""
    if not values:
        return NULL
    body = struct.pack(">iiiii", 1, 0, _TEXT_OID, len(values), 1) + b"".join(map(text, values))
    return _length.pack(len(body)) + body


def jsonb(data: bytes | None) -> bytes:
    return NULL if data is None else _length.pack(len(data) + 1) + _JSONB_VERSION + data


def uuid(value: str) -> bytes:
    """Raises ValueError for what is no UUID."""
    data = bytes.fromhex(value.replace("-", ""))
    if len(data) != 16:
        raise ValueError(f"{value!r} is no UUID")
    return b"\0\0\0\x10" + data


def numeric(value: Decimal | None) -> bytes:
    return NULL if value is None else _numeric(number_text(value))


@lru_cache(maxsize=4_096)
def _numeric(plain: str) -> bytes:
    """`plain` in base 10,000 digits with its scale, as numeric_send writes it: no leading or trailing zero digits."""
    negative = plain[0] == "-"
    whole, _, fraction = plain.lstrip("-").partition(".")
    scale = len(fraction)
    whole = whole.zfill(-(-len(whole) // 4) * 4)
    digits = whole + fraction + "0" * (-scale % 4)
    groups = [int(digits[at : at + 4]) for at in range(0, len(digits), 4)]
    weight = len(whole) // 4 - 1
    while groups and groups[-1] == 0:
        groups.pop()
    while groups and groups[0] == 0:
        groups.pop(0)
        weight -= 1
    sign = 0x4000 if negative and groups else 0
    body = struct.pack(f">hhHh{len(groups)}h", len(groups), weight if groups else 0, sign, scale, *groups)
    return _length.pack(len(body)) + body


def fields_of(row: bytes, count: int | None = None) -> list[bytes | None]:
    """The first `count` fields of an encoded row, by default as many as it says it has; null as None."""
    if count is None:
        count = int.from_bytes(row[:2], "big")
    fields: list[bytes | None] = []
    at = 2
    for _ in range(count):
        (length,) = _length.unpack_from(row, at)
        at += 4
        if length < 0:
            fields.append(None)
        else:
            fields.append(row[at : at + length])
            at += length
    return fields


def rows_of(copy_output: bytes) -> Iterator[list[bytes | None]]:
    """The rows of a complete binary COPY, field by field. Raises ValueError when it is none."""
    if not copy_output.startswith(HEADER[:11]):
        raise ValueError("not a binary COPY")
    at = len(HEADER)
    while copy_output[at : at + 2] != TRAILER:
        start, count = at, int.from_bytes(copy_output[at : at + 2], "big")
        at += 2
        for _ in range(count):
            (length,) = _length.unpack_from(copy_output, at)
            at += 4 + max(length, 0)
        yield fields_of(copy_output[start:at])


def int8_of(field: bytes) -> int:
    return int.from_bytes(field, "big", signed=True)


def json_of(field: bytes) -> bytes:
    return field[1:]
