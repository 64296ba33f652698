"""Owns what a FEEL value is: JSON values plus temporal values, ranges and functions, and how they are named.
Never changes a value: lists and contexts are immutable by convention.
Called by every other module of this package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeGuard

from engine.feel.temporal import Date, DateTime, DaysTimeDuration, Time, YearsMonthsDuration

if TYPE_CHECKING:
    from engine.feel.environment import Env
    from engine.feel.tree import TypeOf

Value: TypeAlias = (
    "bool | int | Decimal | str | list[Value] | dict[str, Value] | Date | Time | DateTime"
    " | DaysTimeDuration | YearsMonthsDuration | Range | FeelFunction | None"
)
Number: TypeAlias = int | Decimal
Run: TypeAlias = "Callable[[Env], Value]"


@dataclass(frozen=True, slots=True)
class Range:
    """An interval of ordered values; None as an end means unbounded on that side."""

    start: Value
    end: Value
    start_included: bool = True
    end_included: bool = True


class Definition(NamedTuple):
    """Where in its text a function is written, and the names and slots of the local values that it reads there."""

    start: int
    end: int
    captured: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, eq=False)
class FeelFunction:
    """A function value with what it captured where it was defined.

    `signature` is its type as far as its definition tells. `native` is there for a built-in and takes its calls,
    `definition` for one that is written in FEEL.
    """

    parameters: tuple[str, ...]
    slots: tuple[int, ...]
    body: Run
    depth: int
    weight: int
    frame: list[Value]
    scope: Mapping[str, Any]
    text: str
    signature: TypeOf | None = None
    native: Native | None = None
    definition: Definition | None = None

    def takes(self, count: int) -> bool:
        """Whether a call by position may have so many arguments."""
        return len(self.parameters) == count if self.native is None else self.native.takes(count)


class Native(Protocol):
    """A built-in function as a value. `signatures` are the types of its parameter lists."""

    @property
    def signatures(self) -> tuple[TypeOf, ...]: ...

    def takes(self, count: int) -> bool:
        """Whether a call by position may have so many arguments."""

    def call(self, env: Env, arguments: list[Value], names: tuple[str, ...], position: int) -> Value:
        """The value of a call, by name where there are names; null and a warning where it has none."""


_KINDS: dict[type, str] = {
    type(None): "null",
    bool: "boolean",
    int: "number",
    Decimal: "number",
    str: "string",
    list: "list",
    dict: "context",
    Date: "date",
    Time: "time",
    DateTime: "date and time",
    DaysTimeDuration: "days and time duration",
    YearsMonthsDuration: "years and months duration",
    Range: "range",
    FeelFunction: "function",
}


def kind_of(value: Value) -> str:
    """The name of a value's FEEL type, as `instance of` and the warnings spell it."""
    return _KINDS[type(value)]


def is_number(value: Value) -> TypeGuard[Number]:
    """True for a FEEL number; a boolean is none."""
    kind = type(value)
    return kind is int or kind is Decimal
