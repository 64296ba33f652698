"""Owns the table of built-in functions: names, parameters, and the checks that arguments pass.
Never implements a function.
Called by the modules beside this one to register, by the compiler to look up, by the parser for the names.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import Literal, TypeAlias

from engine.feel.environment import Env
from engine.feel.faults import FeelFault
from engine.feel.numbers import DIGITS, whole
from engine.feel.temporal import Date, DateTime, DaysTimeDuration, Time, YearsMonthsDuration
from engine.feel.values import FeelFunction, Range, Value, kind_of

Check: TypeAlias = Callable[[Env, Value, str], Value]
Implementation: TypeAlias = Callable[..., Value]
# Raises FeelFault where the arguments that are constant make every call wrong; the names are of all that are given.
Judge: TypeAlias = Callable[[Env, Mapping[str, Value], Collection[str]], None]
Origin: TypeAlias = Literal["standard", "Camunda"]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter as declared: `check` gives the argument as the function takes it, `kind` is printed."""

    name: str
    check: Check
    optional: bool
    kind: str

    @property
    def takes_null(self) -> bool:
        """Whether null fits it."""
        return self.check is unchecked or self.kind.endswith("or null")

    def __str__(self) -> str:
        return f"{self.name}{'?' if self.optional else ''}: {self.kind}"


Signature: TypeAlias = tuple[Parameter, ...]


@dataclass(frozen=True, slots=True)
class Builtin:
    """A built-in: one or more parameter lists. `variadic` takes the elements themselves, `unwraps` also one list.

    `about` says in one line what it gives; `origin` is the DMN standard or Camunda's extension of it. A parameter list
    that differs from an earlier one in nothing but its names offers other names for a call by name. Where two lists of
    one length differ in kinds, `signatures` opens with one for calls by position that takes either kind. `each` is how
    the standard names the elements of a variadic one in a call by name: `n` for `n1`, `n2` and so on.
    `gives` is the type of its results where that is always the same. `judge` finds what is wrong with calls of which
    only a part is constant.
    """

    name: str
    implementation: Implementation
    signatures: tuple[Signature, ...]
    variadic: bool
    unwraps: bool
    pure: bool
    about: str
    origin: Origin
    each: str
    gives: str
    judge: Judge | None

    @property
    def declared(self) -> tuple[Signature, ...]:
        """The parameter lists as the function declares them."""
        return tuple(each for each in self.signatures if not any(_EITHER in parameter.name for parameter in each))

    def fits(self, count: int) -> bool:
        """Whether a call by position may have so many arguments."""
        return (self.variadic and count > 0) or any(
            sum(not parameter.optional for parameter in signature) <= count <= len(signature)
            for signature in self.signatures
        )

    @property
    def usage(self) -> tuple[str, ...]:
        """How it is called, one text for each parameter list that differs in more than names."""
        shapes: dict[tuple[tuple[str, bool], ...], str] = {}
        for signature in self.declared:
            dots = "..." if self.variadic else ""
            text = f"{self.name}({', '.join(map(str, signature))}{dots})"
            shapes.setdefault(tuple((each.kind, each.optional) for each in signature), text)
        return tuple(shapes.values())


BUILTINS: dict[str, Builtin] = {}
# Joins the names of a parameter that a call by position fills with either; no text can name such a parameter.
_EITHER = " or "


def builtins() -> Mapping[str, Builtin]:
    """Every built-in function by its name: signatures, one line about it, where it comes from."""
    return MappingProxyType(BUILTINS)


def unwrapped(value: Value) -> Value:
    """FEEL's implicit conversion: a list of one element is that element where no list is expected."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _expect(kinds: tuple[type, ...], wanted: str) -> Check:
    def check(env: Env, value: Value, name: str) -> Value:
        value = unwrapped(value)
        if type(value) in kinds:
            return value
        raise FeelFault(f"'{name}' must be a {wanted}, found {kind_of(value)}")

    return check


def _or_null(expected: Check) -> Check:
    """The check of a parameter for which null is as good as leaving it out."""

    def check(env: Env, value: Value, name: str) -> Value:
        return None if value is None or value == [None] else expected(env, value, name)

    return check


def _whole_part(env: Env, value: Value, name: str) -> Value:
    value = unwrapped(value)
    if type(value) is int:
        return value
    if isinstance(value, Decimal):
        return int(value) if value.adjusted() < DIGITS else whole(value, f"'{name}'")
    raise FeelFault(f"'{name}' must be a number, found {kind_of(value)}")


def _integer(env: Env, value: Value, name: str) -> Value:
    value = unwrapped(value)
    if isinstance(value, int | Decimal) and type(value) is not bool:
        return whole(value, f"'{name}'")
    raise FeelFault(f"'{name}' must be a number, found {kind_of(value)}")


def _string(env: Env, value: Value, name: str) -> Value:
    value = unwrapped(value)
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


_DURATIONS = (DaysTimeDuration, YearsMonthsDuration)
_DATES = (Date, DateTime)
_POINTS = (int, Decimal, str, Date, Time, DateTime, *_DURATIONS)
# The kinds of a declaration: as printed, and the check. A `position` is cut to its whole part, an `integer` is whole.
# A `|null` behind a kind makes null fit too.
_KINDS: dict[str, tuple[str, Check]] = {
    "any": ("any", unchecked),
    "integer": ("number", _integer),
    "position": ("number", _whole_part),
    "string": ("string", _string),
    "list": ("list", _list),
    "number": ("number", _expect((int, Decimal), "number")),
    "quantity": ("number or duration", _expect((int, Decimal, *_DURATIONS), "number or duration")),
    "boolean": ("boolean", _expect((bool,), "boolean")),
    "context": ("context", _expect((dict,), "context")),
    "function": ("function", _expect((FeelFunction,), "function")),
    "range": ("range", _expect((Range,), "range")),
    "point": ("point", _expect(_POINTS, "number, string, date, time or duration")),
    "time": ("time", _expect((Time,), "time")),
    "instant": ("date and time", _expect((DateTime,), "date and time")),
    "day": ("date or date and time", _expect(_DATES, "date or date and time")),
    "offset": ("days and time duration", _expect((DaysTimeDuration,), "days and time duration")),
    "figure": ("string or number", _expect((str, int, Decimal), "string or number")),
    "date source": ("string, date or date and time", _expect((str, *_DATES), "string, date or date and time")),
    "time source": (
        "string, time, date or date and time",
        _expect((str, Time, *_DATES), "string, time, date or date and time"),
    ),
    "duration source": ("string or duration", _expect((str, *_DURATIONS), "string or duration")),
}


def _parameters(declaration: str) -> Signature:
    found: list[Parameter] = []
    for part in filter(None, declaration.split(",")):
        name, _, declared = (piece.strip() for piece in part.partition(":"))
        kind, check = _KINDS[declared.removesuffix("|null") or "any"]
        if declared.endswith("|null"):
            kind, check = f"{kind} or null", _or_null(check)
        found.append(Parameter(name.removesuffix("?"), check, name.endswith("?"), kind))
    return tuple(found)


def _either(place: int, column: tuple[Parameter, ...]) -> Parameter:
    """The parameter that takes what one of several parameters at the same place takes."""
    kinds = {parameter.kind: parameter.check for parameter in column}
    if len(kinds) == 1:
        return column[0]
    wanted = _EITHER.join(f"a {kind}" for kind in kinds if not any(each.endswith(f" or {kind}") for each in kinds))
    names = dict.fromkeys(parameter.name for parameter in column)
    what = f"'{_EITHER.join(names)}'" if len(names) < 3 else f"argument {place}"

    def check(env: Env, value: Value, name: str) -> Value:
        for each in kinds.values():
            try:
                return each(env, value, name)
            except FeelFault:
                continue
        raise FeelFault(f"{what} must be {wanted}, found {kind_of(value)}")

    name = _EITHER.join(names)
    return Parameter(name, unchecked if unchecked in kinds.values() else check, column[0].optional, _EITHER.join(kinds))


def _by_position(signatures: Sequence[Signature]) -> list[Signature]:
    """For each shape that comes in several kinds, the signature that a call by position is checked against."""
    shapes: dict[tuple[bool, ...], list[Signature]] = {}
    for signature in signatures:
        shapes.setdefault(tuple(parameter.optional for parameter in signature), []).append(signature)
    return [
        tuple(_either(place, column) for place, column in enumerate(zip(*alike, strict=True), 1))
        for alike in shapes.values()
        if len({tuple(parameter.kind for parameter in signature) for signature in alike}) > 1
    ]


def builtin(
    name: str,
    *declarations: str,
    about: str,
    variadic: bool = False,
    unwraps: bool = True,
    pure: bool = True,
    origin: Origin = "standard",
    each: str = "",
    gives: str = "",
    judge: Judge | None = None,
) -> Callable[[Implementation], Implementation]:
    """Register a built-in; a declaration reads `name: kind, optional?: kind`. The rest is told at `Builtin`."""

    def register(implementation: Implementation) -> Implementation:
        declared = [_parameters(declaration) for declaration in declarations or ("",)]
        signatures = (*_by_position(declared), *declared)
        BUILTINS[name] = Builtin(
            name, implementation, signatures, variadic, unwraps, pure, about, origin, each, gives, judge
        )
        return implementation

    return register
