"""JSON tensors become raw contents and come back unchanged; what does not fit is named, all of it."""

import contextlib
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import Tensor
from tasks.tensors import DATATYPES, FORMATS, TensorInvalid, decode, encode

NUMPY = {
    "BOOL": np.bool_,
    "INT8": np.int8,
    "INT16": np.int16,
    "INT32": np.int32,
    "INT64": np.int64,
    "UINT8": np.uint8,
    "UINT16": np.uint16,
    "UINT32": np.uint32,
    "UINT64": np.uint64,
    "FP16": np.float16,
    "FP32": np.float32,
    "FP64": np.float64,
}


def elements(datatype: str) -> st.SearchStrategy[Any]:
    if datatype == "BYTES":
        return st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
    if datatype == "BOOL":
        return st.booleans()
    widths = {"FP16": 16, "FP32": 32, "FP64": 64}
    if datatype in widths:
        return st.floats(width=widths[datatype], allow_nan=False)  # type: ignore[arg-type]
    if datatype == "BF16":
        words = st.integers(0, 0x7F7F)
        return words.map(lambda word: struct.unpack("<f", struct.pack("<I", word << 16))[0])
    bits = int(datatype.lstrip("UINT"))
    return st.integers(0, 2**bits - 1) if datatype[0] == "U" else st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


@pytest.mark.parametrize("datatype", sorted(DATATYPES))
@given(st.data())
def test_every_datatype_survives_the_round_trip(datatype: str, data: st.DataObject) -> None:
    values = data.draw(st.lists(elements(datatype), max_size=12))
    raw, problems = encode(Tensor("x", datatype, (len(values),), values))
    assert not problems
    assert decode("x", datatype, (len(values),), raw) == values


@pytest.mark.parametrize("datatype", sorted(FORMATS))
def test_raw_contents_are_what_numpy_writes(datatype: str) -> None:
    values: list[Any] = [False, True] if datatype == "BOOL" else [0, 1, 100]
    assert encode(Tensor("x", datatype, (len(values),), values)).raw == np.array(values, NUMPY[datatype]).tobytes()


def test_bytes_are_length_prefixed_utf8() -> None:
    assert encode(Tensor("x", "BYTES", (2,), ["é", ""])).raw == b"\x02\x00\x00\x00\xc3\xa9\x00\x00\x00\x00"


def test_bf16_rounds_to_nearest_with_ties_to_even() -> None:
    values = [1.0, 1.00390625, 1.01171875, 3.14159]
    raw = encode(Tensor("x", "BF16", (4,), values)).raw
    assert decode("x", "BF16", (4,), raw) == [1.0, 1.0, 1.015625, 3.140625]


def test_nested_data_is_row_major() -> None:
    nested = Tensor("x", "INT8", (2, 3), [[1, 2, 3], [4, 5, 6]])
    assert encode(nested) == encode(Tensor("x", "INT8", (2, 3), [1, 2, 3, 4, 5, 6]))


@pytest.mark.parametrize(
    ("tensor", "problem"),
    [
        (Tensor("x", "INT8", (2, 3), [1, 2]), "shape [2, 3] needs 6 elements, data has 2"),
        (Tensor("x", "INT8", (), [1, 2]), "shape [] needs 1 elements, data has 2"),
        (Tensor("x", "INT8", (0,), [1]), "shape [0] needs 0 elements, data has 1"),
        (Tensor("x", "INT8", (-1,), [1]), "shape [-1] must hold whole numbers from 0, not -1"),
        (Tensor("x", "INT8", (2, 2), [[1, 2], [3]]), "nested data does not follow shape [2, 2] at dimension 1"),
        (Tensor("x", "INT8", (2,), [[1, 2], [3, 4]]), "data is nested more deeply than shape [2]"),
        (Tensor("x", "INT8", (1,), [1.5]), "element 0 is a floating-point number, INT8 needs a whole number"),
        (Tensor("x", "INT8", (1,), [True]), "element 0 is a boolean, INT8 needs a whole number"),
        (Tensor("x", "FP32", (2,), [1.0, None]), "element 1 is null, FP32 needs a number"),
        (Tensor("x", "BOOL", (1,), [1]), "element 0 is a whole number, BOOL needs true or false"),
        (Tensor("x", "BYTES", (1,), [7]), "element 0 is a whole number, BYTES needs a string"),
        (Tensor("x", "UINT8", (1,), [256]), "an element does not fit UINT8: "),
        (Tensor("x", "FP32", (1,), [1e300]), "an element does not fit FP32: "),
        (Tensor("x", "BYTES", (1,), ["secret \ud800"]), "an element does not fit BYTES: surrogates not allowed"),
    ],
)
def test_what_does_not_fit_is_refused_in_words(tensor: Tensor, problem: str) -> None:
    raw, problems = encode(tensor)
    assert raw == b""
    assert len(problems) == 1
    assert problems[0].startswith(f"input `x`: {problem}")
    assert "secret" not in problems[0]


def test_every_problem_of_a_tensor_is_named_at_once() -> None:
    problems = encode(Tensor("x", "INT8", (3,), ["a", "b"])).problems
    assert len(problems) == 2
    unknown = encode(Tensor("x", "INT7", (3,), [1])).problems
    assert len(unknown) == 2
    assert "datatype `INT7` is unknown" in unknown[1]


@pytest.mark.parametrize(
    ("datatype", "shape", "raw"),
    [
        ("INT32", (2,), b"\x00" * 7),
        ("BYTES", (1,), b""),
        ("BYTES", (1,), b"\x05\x00\x00\x00abc"),
        ("BYTES", (1,), b"\x05\x00"),
        ("BYTES", (1,), b"\x01\x00\x00\x00\xff"),
        ("INT7", (1,), b"\x00"),
    ],
)
def test_raw_contents_that_contradict_themselves_are_refused(datatype: str, shape: tuple[int, ...], raw: bytes) -> None:
    with pytest.raises(TensorInvalid, match="output `x`"):
        decode("x", datatype, shape, raw)


@given(st.sampled_from(sorted(DATATYPES)), st.lists(st.integers(0, 4), max_size=3), st.binary(max_size=40))
def test_no_raw_contents_raise_anything_else(datatype: str, shape: list[int], raw: bytes) -> None:
    with contextlib.suppress(TensorInvalid):
        decode("x", datatype, shape, raw)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=12,
)


@given(st.sampled_from([*sorted(DATATYPES), "NONE"]), st.lists(st.integers(-1, 4), max_size=3), st.lists(json_values))
def test_any_json_is_encoded_or_refused(datatype: str, shape: list[int], data: list[Any]) -> None:
    raw, problems = encode(Tensor("x", datatype, tuple(shape), data))
    assert not (raw and problems)
