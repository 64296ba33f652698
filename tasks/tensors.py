"""Owns the conversion between KServe v2 JSON tensors and the raw little-endian contents of Triton's gRPC protocol.
Never talks to a server or knows a model; it judges a tensor by its own datatype, shape and data.
Called by admit (to refuse early) and by generate and infer (to encode requests and decode answers).

Layout of raw contents: the binary tensor data extension of the KServe v2 inference protocol. FP16 and BF16 travel as
JSON numbers here although Triton's own JSON refuses them: every such value is a number that JSON can hold exactly.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from decimal import Decimal
from itertools import chain
from math import prod
from typing import Any, NamedTuple

from engine import Tensor

FORMATS = {
    "INT8": "b",
    "INT16": "h",
    "INT32": "i",
    "INT64": "q",
    "UINT8": "B",
    "UINT16": "H",
    "UINT32": "I",
    "UINT64": "Q",
    "FP16": "e",
    "FP32": "f",
    "FP64": "d",
    "BOOL": "?",
}
SIZES = {**{name: struct.calcsize(f"<{form}") for name, form in FORMATS.items()}, "BF16": 2}
DATATYPES = frozenset(SIZES) | {"BYTES"}

_FLOATS = frozenset({"FP16", "FP32", "FP64", "BF16"})
_LISTS = frozenset({list, tuple})
_NUMBERS = frozenset({int, float, Decimal})
_KINDS = {
    bool: "a boolean",
    int: "a whole number",
    float: "a floating-point number",
    Decimal: "a decimal number",
    str: "a string",
    list: "a list",
    tuple: "a list",
    dict: "an object",
}
_NO_PROBLEMS: tuple[str, ...] = ()


class Encoded(NamedTuple):
    """Raw contents of one tensor, or everything that is wrong with it."""

    raw: bytes
    problems: Sequence[str]


class TensorInvalid(Exception):
    """Raw contents from a server do not fit their own datatype and shape."""


def encode(tensor: Tensor) -> Encoded:
    """Raw contents of `tensor`, with every problem of its datatype, shape and data in words; never raises."""
    problems = _shape_problems(tensor)
    flat, nesting = _flatten(tensor)
    problems += nesting
    if not problems and len(flat) != (wanted := prod(tensor.shape)):
        problems.append(f"shape {list(tensor.shape)} needs {wanted} elements, data has {len(flat)}")
    if tensor.datatype not in DATATYPES:
        problems.append(f"datatype `{tensor.datatype}` is unknown; known: {', '.join(sorted(DATATYPES))}")
        return Encoded(b"", _named(tensor.name, problems))
    if not nesting:
        problems += _element_problems(tensor.datatype, flat)
    if problems:
        return Encoded(b"", _named(tensor.name, problems))
    try:
        return Encoded(_pack(tensor.datatype, flat), _NO_PROBLEMS)
    except (struct.error, OverflowError, ValueError) as error:
        # A UnicodeEncodeError repeats the whole text, which is the caller's: only its reason may be told.
        reason = error.reason if isinstance(error, UnicodeEncodeError) else str(error)
        return Encoded(b"", _named(tensor.name, [f"an element does not fit {tensor.datatype}: {reason}"]))


def decode(name: str, datatype: str, shape: Sequence[int], raw: bytes) -> list[Any]:
    """The elements of `raw`, flat and row-major; BYTES as str.

    Raises TensorInvalid when `raw` does not hold exactly what datatype and shape promise, or BYTES are not UTF-8.
    """
    count = prod(shape)
    if datatype == "BYTES":
        elements = _unpack_bytes(name, raw)
        if len(elements) != count:
            raise TensorInvalid(f"output `{name}` has shape {list(shape)} but {len(elements)} elements")
        return elements
    size = SIZES.get(datatype)
    if size is None:
        raise TensorInvalid(f"output `{name}` has the unknown datatype `{datatype}`")
    if len(raw) != count * size:
        raise TensorInvalid(f"output `{name}` has shape {list(shape)} of {datatype} but {len(raw)} bytes")
    if datatype == "BF16":
        halves = struct.unpack(f"<{count}H", raw)
        return list(struct.unpack(f"<{count}f", struct.pack(f"<{count}I", *(half << 16 for half in halves))))
    return list(struct.unpack(f"<{count}{FORMATS[datatype]}", raw))


def _named(name: str, problems: Iterable[str]) -> list[str]:
    return [f"input `{name}`: {problem}" for problem in problems]


def _shape_problems(tensor: Tensor) -> list[str]:
    wrong = [d for d in tensor.shape if type(d) is not int or d < 0]
    return [f"shape {list(tensor.shape)} must hold whole numbers from 0, not {wrong[0]!r}"] if wrong else []


def _flatten(tensor: Tensor) -> tuple[Sequence[Any], list[str]]:
    """Nested data made flat. Nesting must follow the shape exactly; flat data is taken as it is."""
    data = tensor.data
    if _LISTS.isdisjoint(map(type, data)):
        return data, []
    level: Sequence[Any] = [data]
    for depth, dimension in enumerate(tensor.shape):
        if not all(isinstance(item, list | tuple) and len(item) == dimension for item in level):
            return level, [f"nested data does not follow shape {list(tensor.shape)} at dimension {depth}"]
        level = list(chain.from_iterable(level))
    if not _LISTS.isdisjoint(map(type, level)):
        return level, [f"data is nested more deeply than shape {list(tensor.shape)}"]
    return level, []


def _element_problems(datatype: str, flat: Sequence[Any]) -> list[str]:
    allowed: frozenset[type]
    if datatype == "BYTES":
        allowed, wanted = frozenset({str}), "a string"
    elif datatype == "BOOL":
        allowed, wanted = frozenset({bool}), "true or false"
    elif datatype in _FLOATS:
        allowed, wanted = _NUMBERS, "a number"
    else:
        allowed, wanted = frozenset({int}), "a whole number"
    if set(map(type, flat)) <= allowed:
        return []
    position = next(i for i, item in enumerate(flat) if type(item) not in allowed)
    return [f"element {position} is {_json_kind(flat[position])}, {datatype} needs {wanted}"]


def _json_kind(value: Any) -> str:
    return "null" if value is None else _KINDS.get(type(value), type(value).__name__)


def _pack(datatype: str, flat: Sequence[Any]) -> bytes:
    if datatype == "BYTES":
        parts: list[bytes] = []
        for text in flat:
            encoded = text.encode()
            parts += (len(encoded).to_bytes(4, "little"), encoded)
        return b"".join(parts)
    if datatype == "BF16":
        return _pack_bf16(flat)
    return struct.pack(f"<{len(flat)}{FORMATS[datatype]}", *flat)


def _pack_bf16(flat: Sequence[Any]) -> bytes:
    """The upper half of FP32, rounded to nearest with ties to even, as hardware rounds."""
    count = len(flat)
    words = struct.unpack(f"<{count}I", struct.pack(f"<{count}f", *flat))
    return struct.pack(f"<{count}H", *((word + 0x7FFF + (word >> 16 & 1)) >> 16 & 0xFFFF for word in words))


def _unpack_bytes(name: str, raw: bytes) -> list[str]:
    elements: list[str] = []
    at, end = 0, len(raw)
    while at < end:
        start = at + 4
        at = start + int.from_bytes(raw[at:start], "little")
        if start > end or at > end:
            raise TensorInvalid(f"output `{name}` ends within an element")
        try:
            elements.append(raw[start:at].decode())
        except UnicodeDecodeError:
            raise TensorInvalid(
                f"output `{name}`, element {len(elements)}, is not UTF-8, so JSON cannot hold it"
            ) from None
    return elements
