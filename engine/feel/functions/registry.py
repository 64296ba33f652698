"""Owns the table of built-in functions: names, parameters, and the checks that arguments pass.
Never implements a function.
Called by the modules beside this one to register, by the compiler to look up, by the parser for the names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import Literal, TypeAlias

from engine.feel.environment import Env
from engine.feel.faults import FeelFault
from engine.feel.numbers import whole
from engine.feel.values import FeelFunction, Value, kind_of

Check: TypeAlias = Callable[[Env, Value, str], Value]
Implementation: TypeAlias = Callable[..., Value]
Origin: TypeAlias = Literal["standard", "Camunda"]


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    check: Check
    optional: bool
    kind: str = "any"

    def __str__(self) -> str:
        return f"{self.name}{'?' if self.optional else ''}: {self.kind}"


@dataclass(frozen=True, slots=True)
class Builtin:
    """A built-in: one or more parameter lists. `variadic` takes the elements themselves, `unwraps` also one list.

    `about` says in one line what it gives; `origin` is the DMN standard or Camunda's extension of it. A parameter list
    that differs from an earlier one in nothing but its names offers other names for a call by name.
    """

    name: str
    implementation: Implementation
    signatures: tuple[tuple[Parameter, ...], ...]
    variadic: bool
    unwraps: bool
    pure: bool
    about: str = ""
    origin: Origin = "standard"

    @property
    def usage(self) -> tuple[str, ...]:
        """How it is called, one text for each parameter list that differs in more than names."""
        shapes: dict[tuple[tuple[str, bool], ...], str] = {}
        for signature in self.signatures:
            dots = "..." if self.variadic and len(signature) == 1 else ""
            text = f"{self.name}({', '.join(map(str, signature))}{dots})"
            shapes.setdefault(tuple((each.kind, each.optional) for each in signature), text)
        return tuple(shapes.values())


BUILTINS: dict[str, Builtin] = {}


def builtins() -> Mapping[str, Builtin]:
    """Every built-in function by its name: signatures, one line about it, where it comes from."""
    return MappingProxyType(BUILTINS)


def _unwrapped(value: Value) -> Value:
    """FEEL's implicit conversion: a list of one element is that element where no list is expected."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _expect(kinds: tuple[type, ...], wanted: str) -> Check:
    def check(env: Env, value: Value, name: str) -> Value:
        value = _unwrapped(value)
        if type(value) in kinds:
            return value
        raise FeelFault(f"'{name}' must be a {wanted}, found {kind_of(value)}")

    return check


def _integer(env: Env, value: Value, name: str) -> Value:
    value = _unwrapped(value)
    if isinstance(value, int | Decimal) and type(value) is not bool:
        return whole(value, f"'{name}'")
    raise FeelFault(f"'{name}' must be a number, found {kind_of(value)}")


def _string(env: Env, value: Value, name: str) -> Value:
    value = _unwrapped(value)
    if not isinstance(value, str):
        raise FeelFault(f"'{name}' must be a string, found {kind_of(value)}")
    env.check_string(len(value))
    return value


def _list(env: Env, value: Value, name: str) -> Value:
    if value is None:
        raise FeelFault(f"'{name}' must be a list, found null")
    if not isinstance(value, list):
        return [value]
    env.check_list(len(value))
    return value


def unchecked(env: Env, value: Value, name: str) -> Value:
    """The check of a parameter that takes any value; the compiler leaves it out."""
    return value


_CHECKS: dict[str, Check] = {
    "any": unchecked,
    "integer": _integer,
    "string": _string,
    "list": _list,
    "number": _expect((int, Decimal), "number"),
    "boolean": _expect((bool,), "boolean"),
    "context": _expect((dict,), "context"),
    "function": _expect((FeelFunction,), "function"),
}


def _parameters(declaration: str) -> tuple[Parameter, ...]:
    found: list[Parameter] = []
    for part in filter(None, declaration.split(",")):
        name, _, kind = (piece.strip() for piece in part.partition(":"))
        kind = kind or "any"
        found.append(Parameter(name.removesuffix("?"), _CHECKS[kind], name.endswith("?"), kind))
    return tuple(found)


def builtin(
    name: str,
    *declarations: str,
    variadic: bool = False,
    unwraps: bool = True,
    pure: bool = True,
    about: str = "",
    origin: Origin = "standard",
) -> Callable[[Implementation], Implementation]:
    """Register a built-in; a declaration reads `name: kind, optional?: kind`."""

    def register(implementation: Implementation) -> Implementation:
        signatures = tuple(_parameters(declaration) for declaration in declarations or ("",))
        BUILTINS[name] = Builtin(name, implementation, signatures, variadic, unwraps, pure, about, origin)
        return implementation

    return register
