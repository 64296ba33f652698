"""Owns variables: what may become one, where it is found and where it is written.
Never changes a value in place: a write makes a new mapping, so whoever read the old one keeps a consistent picture.
Called by the instance, for every job, mapping, condition and outcome.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from math import isfinite
from typing import Any

from engine.errors import Code, Rejected
from engine.records import Variables

MAX_DEPTH = 64
_SCALARS = frozenset({str, int, bool, type(None)})
_FRACTIONS = (float, Decimal)
_ARRAYS = (list, tuple)
_OBJECTS = (dict, Mapping)  # the check for an abstract class is slow, and most are dicts


class _NoJson(Exception):
    """What is wrong with a value, and the path to it, which is only put together when something is wrong."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.path = ""


def frozen(variables: Variables) -> dict[str, Any]:
    """Variables as the engine keeps them: JSON of its own, floats as decimals of their shortest text.

    Nobody outside holds a reference into the result. Raises Rejected (INVALID_ARGUMENT) for what is no JSON.
    """
    try:
        return _frozen_entries(variables, 0)
    except _NoJson as problem:
        where = problem.path.removeprefix(".") or "a variable"
        raise Rejected(Code.INVALID_ARGUMENT, f"variables must be JSON: {where} {problem}") from None


def _frozen_entries(entries: Mapping[Any, Any], depth: int) -> dict[str, Any]:
    kept = {}
    for name, value in entries.items():
        if type(name) is not str:
            name = _plain_name(name)
        try:
            kept[name] = value if type(value) in _SCALARS else _frozen_value(value, depth)
        except _NoJson as problem:
            problem.path = f".{name}{problem.path}"
            raise
    return kept


def _frozen_elements(elements: Iterable[Any], depth: int) -> list[Any]:
    kept: list[Any] = []
    for value in elements:
        try:
            kept.append(value if type(value) in _SCALARS else _frozen_value(value, depth))
        except _NoJson as problem:
            problem.path = f"[{len(kept)}]{problem.path}"
            raise
    return kept


def _frozen_value(value: Any, depth: int) -> Any:
    if isinstance(value, _FRACTIONS):
        if not isfinite(value):
            raise _NoJson(f"is {value}, which is no number of JSON")
        return Decimal(repr(float(value))) if isinstance(value, float) else Decimal(value)
    if depth == MAX_DEPTH:
        raise _NoJson(f"is nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, _ARRAYS):
        return _frozen_elements(value, depth + 1)
    if isinstance(value, _OBJECTS):
        return _frozen_entries(value, depth + 1)
    if isinstance(value, str):  # an enum member: the plain value behind the name
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    raise _NoJson(f"is a {type(value).__name__}, which JSON cannot carry")


def _plain_name(name: Any) -> str:
    if isinstance(name, str):
        return str.__str__(name)
    raise _NoJson(f"has the name {name!r}, which is not a string")


class ReadOnly(Mapping[str, Any]):
    """Variables lent to a task or a client: reading a list or an object yields a copy, so nobody can change ours."""

    __slots__ = ("_variables",)

    def __init__(self, variables: dict[str, Any]) -> None:
        self._variables = variables

    def __getitem__(self, name: str) -> Any:
        value = self._variables[name]
        return value if type(value) in _SCALARS else copied(value)

    def get(self, name: str, default: Any = None) -> Any:
        value = self._variables.get(name, default)
        return value if type(value) in _SCALARS else copied(value)

    def __iter__(self) -> Iterator[str]:
        return iter(self._variables)

    def __len__(self) -> int:
        return len(self._variables)

    def __contains__(self, name: object) -> bool:
        return name in self._variables

    def __repr__(self) -> str:
        return f"ReadOnly({', '.join(self._variables)})"  # names only: values do not belong into logs


def copied(value: Any) -> Any:
    """A JSON value of the caller's own."""
    if type(value) is dict:
        return {name: copied(entry) for name, entry in value.items()}
    if type(value) is list:
        return [copied(entry) for entry in value]
    return value


class Scope:
    """Variables of a process instance or an activity; inner names hide outer ones."""

    __slots__ = ("local", "parent")

    def __init__(self, parent: Scope | None, local: dict[str, Any]) -> None:
        self.parent = parent
        self.local = local

    def visible(self) -> dict[str, Any]:
        """Everything that can be read from here, inner names first. Callers must not change it."""
        if self.parent is None:
            return self.local
        if not self.local:
            return self.parent.visible()
        return {**self.parent.visible(), **self.local}

    def home(self, name: str) -> Scope:
        """The nearest scope that has a variable, else the outermost."""
        scope = self
        while name not in scope.local and scope.parent is not None:
            scope = scope.parent
        return scope

    def write(self, changes: Mapping[str, Any]) -> Mapping[str, Any]:
        """Write each variable to the nearest scope that has it, else to the outermost.

        Returns the changes that left this scope; for the outermost scope, all of them.
        """
        if self.parent is None:
            self.local = {**self.local, **changes}
            return changes
        mine = {name: value for name, value in changes.items() if name in self.local}
        if mine:
            self.local = {**self.local, **mine}
            changes = {name: value for name, value in changes.items() if name not in mine}
        if changes:
            self.parent.write(changes)
        return changes
