"""What may become a variable, and where variables are read and written."""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from typing import Any

import pytest

from engine.core.scopes import MAX_DEPTH, ReadOnly, Scope, frozen
from engine.errors import Rejected


class Colour(StrEnum):
    RED = "red"


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (0.1, Decimal("0.1")),
        (1e300, Decimal("1e300")),
        (Decimal("1.50"), Decimal("1.50")),
        (10**40, 10**40),
        (True, True),
        (None, None),
        ((1, [2.5]), [1, [Decimal("2.5")]]),
        ({"a": {"b": ()}}, {"a": {"b": []}}),
        ({Colour.RED: Colour.RED}, {"red": "red"}),
        (ReadOnly({"a": 1}), {"a": 1}),
    ],
)
def test_a_variable_is_json_of_the_engine_s_own(value: Any, kept: Any) -> None:
    (mine,) = frozen({"x": value}).values()

    assert mine == kept
    assert type(mine) in (str, int, bool, Decimal, list, dict, type(None))


@pytest.mark.parametrize(
    ("variables", "where"),
    [
        ({"x": float("nan")}, "x is nan"),
        ({"x": Decimal("Infinity")}, "x is Infinity"),
        ({"x": {"y": [1, {"z": b""}]}}, r"x.y\[1\].z is a bytes"),
        ({"x": {1: 2}}, "x has the name 1"),
        ({1: 2}, "a variable has the name 1"),
        ({"x": {1, 2}}, "x is a set"),
        ({"x": nested(MAX_DEPTH + 1)}, "nested deeper than 64"),
    ],
)
def test_what_json_cannot_carry_is_refused_with_its_place(variables: Any, where: str) -> None:
    with pytest.raises(Rejected, match=where):
        frozen(variables)


def test_the_deepest_allowed_value_is_kept() -> None:
    assert frozen({"x": nested(MAX_DEPTH)}) == {"x": nested(MAX_DEPTH)}


def test_a_write_goes_to_the_nearest_scope_that_has_the_name() -> None:
    root = Scope(None, {"a": 1, "b": 1})
    inner = Scope(Scope(root, {"b": 2, "c": 2}), {"c": 3})
    left = inner.write({"a": 9, "b": 9, "c": 9, "d": 9})

    assert left == {"a": 9, "b": 9, "d": 9}
    assert root.local == {"a": 9, "b": 1, "d": 9}
    assert inner.visible() == {"a": 9, "b": 9, "c": 9, "d": 9}


def test_who_read_before_a_write_keeps_what_was_read() -> None:
    root = Scope(None, {"a": 1})
    before = root.visible()
    root.write({"a": 2})

    assert before == {"a": 1}


def test_lent_variables_can_be_read_but_not_changed() -> None:
    mine = {"list": [1], "text": "x"}
    lent = ReadOnly(mine)
    lent["list"].append(2)
    lent.get("list", []).append(2)

    assert mine == {"list": [1], "text": "x"}
    assert dict(lent) == mine
    assert (lent.get("text"), lent.get("other"), lent.get("other", 1)) == ("x", None, 1)
    assert "x" not in repr(lent).replace("text", "")
    assert not hasattr(lent, "__setitem__")
