"""Owns variables: what may become one, where it is found and where it is written.
Never changes a value in place: a write makes a new mapping, so whoever read the old one keeps a consistent picture.
Called by the instance, for every job, mapping, condition and outcome.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from math import isfinite
from typing import Any

from engine.errors import Code, Rejected
from engine.records import Variables

MAX_DEPTH = 64
_SCALARS = frozenset({str, int, bool, type(None)})


def frozen(variables: Variables) -> dict[str, Any]:
    """Variables as the engine keeps them: JSON of its own, floats as decimals of their shortest text.

    Nobody outside holds a reference into the result. Raises Rejected (INVALID_ARGUMENT) for what is no JSON.
    """
    kept: dict[str, Any] = {}
    for name, value in variables.items():
        if type(name) is not str:
            raise _no_json(f"the variable name {name!r} is not a string")
        kept[name] = value if type(value) in _SCALARS else _frozen_value(value, name, 0)
    return kept


def _frozen_value(value: Any, path: str, depth: int) -> Any:
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is Decimal or kind is float:
        return _frozen_number(value, path)
    if depth == MAX_DEPTH:
        raise _no_json(f"{path} is nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, Mapping):
        entries = {}
        for name, entry in value.items():
            if not isinstance(name, str):
                raise _no_json(f"{path} has the key {name!r}, which is not a string")
            entries[str(name)] = _frozen_value(entry, f"{path}.{name}", depth + 1)
        return entries
    if isinstance(value, list | tuple):
        return [_frozen_value(entry, f"{path}[{i}]", depth + 1) for i, entry in enumerate(value)]
    return _frozen_subclass(value, path)


def _frozen_number(value: Decimal | float, path: str) -> Decimal:
    if not isfinite(value):
        raise _no_json(f"{path} is {value}, which is not a number of JSON")
    return value if isinstance(value, Decimal) else Decimal(repr(value))


def _frozen_subclass(value: Any, path: str) -> Any:
    # enum members and named numbers: the plain value behind the name
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, Decimal | float):
        return _frozen_number(value if isinstance(value, Decimal) else float(value), path)
    raise _no_json(f"{path} is a {type(value).__name__}, which JSON cannot carry")


def _no_json(problem: str) -> Rejected:
    return Rejected(Code.INVALID_ARGUMENT, f"variables must be JSON: {problem}")


class ReadOnly(Mapping[str, Any]):
    """Variables lent to a task or a client: reading a list or an object yields a copy, so nobody can change ours."""

    __slots__ = ("_variables",)

    def __init__(self, variables: dict[str, Any]) -> None:
        self._variables = variables

    def __getitem__(self, name: str) -> Any:
        value = self._variables[name]
        return copied(value) if type(value) is dict or type(value) is list else value

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
