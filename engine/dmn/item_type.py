"""Owns types as values are held to them: whether a value conforms, and the conversions that DMN allows.
Never reads XML and never decides what becomes of a value that does not fit.
Called by the reader of types, and through the conversions by all decision logic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from engine.dmn.logic import Unfit, check_steps
from engine.feel import Date, EvaluationContext, Expression, FeelFunction, Value, kind_of, to_json
from engine.feel.closures.types import ANY, is_callable, type_text
from engine.feel.faults import FeelFault
from engine.feel.temporal import midnight_utc
from engine.feel.temporal_text import parse_date, parse_date_time, parse_duration, parse_time
from engine.feel.tree import TypeOf

_FROM_TEXT: Final[dict[str, Callable[[str], Value]]] = {
    "date": parse_date,
    "time": parse_time,
    "date and time": parse_date_time,
    "days and time duration": parse_duration,
    "years and months duration": parse_duration,
}


def shown(value: Value) -> str:
    """The value in a message, cut where it is long."""
    try:
        text = str(to_json(value)) if isinstance(value, list | dict) else repr(to_json(value))
    except ValueError:
        text = kind_of(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


class ItemType(Protocol):
    """A type, by DMN 1.5, 7.3.3 and 10.3.2.9. Null fits every type.

    Both methods raise DecisionFailed where the tests of a constraint use up what the evaluation may spend.
    """

    @property
    def many(self) -> bool:
        """Whether its values are lists."""

    @property
    def shape(self) -> TypeOf:
        """The type as FEEL writes it, without constraints."""

    def misfit(self, value: Value, context: EvaluationContext) -> str:
        """Why the value, which is not null, does not conform; empty when it does."""

    def received(self, value: Value, context: EvaluationContext) -> Value:
        """The value as JSON from outside means it: texts are temporal values, at any depth, where these are declared,
        what is left out is null, and one alone and a list of one are the same. Raises Unfit."""


def conform(kind: ItemType, value: Value, context: EvaluationContext) -> Value:
    """The value with at most one conversion of DMN 1.5, 10.3.2.9.4: a list of one and its element, a date and its
    first instant. Raises Unfit."""
    if value is None:
        return None
    cause = kind.misfit(value, context)
    if not cause:
        return value
    if isinstance(value, list):
        if not kind.many and len(value) == 1 and (value[0] is None or not kind.misfit(value[0], context)):
            return value[0]
    elif kind.many and not kind.misfit([value], context):
        return [value]
    elif isinstance(value, Date) and not kind.misfit(first_instant := midnight_utc(value), context):
        return first_instant
    raise Unfit(cause)


class Simple:
    """A type of FEEL by its name."""

    def __init__(self, kind: str) -> None:
        self.name = kind
        self._parse = _FROM_TEXT.get(kind)
        self.many = kind == "list"
        self.shape = TypeOf(kind, element=ANY if kind in ("list", "range") else None, bare=kind == "function")

    def misfit(self, value: Value, context: EvaluationContext) -> str:
        found = kind_of(value)
        return "" if found == self.name else f"{shown(value)} is a {found}, where a {self.name} is declared"

    def received(self, value: Value, context: EvaluationContext) -> Value:
        if kind_of(value) == self.name:
            return value
        if self._parse is not None and isinstance(value, list) and len(value) == 1:
            value = value[0]
        if self._parse is None or not isinstance(value, str):
            return conform(self, value, context)
        try:
            parsed = self._parse(value)
        except FeelFault as fault:
            raise Unfit(fault.cause) from None
        return conform(self, parsed, context)


class Written:
    """A type that is written in FEEL, such as `list<number>`; the expression says whether `value` is one."""

    def __init__(self, name: str, shape: TypeOf, test: Expression) -> None:
        self.name = name
        self.shape = shape
        self._test = test
        self.many = name.startswith("list")

    def misfit(self, value: Value, context: EvaluationContext) -> str:
        holds = self._test.evaluate({"value": value}) is True
        return "" if holds else f"{shown(value)} is no {self.name}"

    def received(self, value: Value, context: EvaluationContext) -> Value:
        return conform(self, value, context)


class Anything:
    """The type of all values, whose constraints alone matter."""

    many = False
    shape = ANY

    def misfit(self, value: Value, context: EvaluationContext) -> str:
        return ""

    def received(self, value: Value, context: EvaluationContext) -> Value:
        return value


class Collection:
    """Lists of one type."""

    many = True

    def __init__(self, element: ItemType) -> None:
        self._element = element
        self.shape = TypeOf("list", element=element.shape)

    def misfit(self, value: Value, context: EvaluationContext) -> str:
        if not isinstance(value, list):
            return f"{shown(value)} is a {kind_of(value)}, where a list is declared"
        return next(
            (cause for each in value if each is not None and (cause := self._element.misfit(each, context))), ""
        )

    def received(self, value: Value, context: EvaluationContext) -> Value:
        if value is None:
            return None
        return [self._element.received(each, context) for each in (value if isinstance(value, list) else [value])]


class Structure:
    """Contexts with the declared entries; others may stand beside them."""

    many = False

    def __init__(self, name: str, components: Mapping[str, ItemType]) -> None:
        self._name = name
        self._components = components
        self.shape = TypeOf("context", entries=tuple((key, kind.shape) for key, kind in components.items()))

    def misfit(self, value: Value, context: EvaluationContext) -> str:
        if not isinstance(value, dict):
            return f"{shown(value)} is a {kind_of(value)}, where a context of type `{self._name}` is declared"
        for key, component in self._components.items():
            if key not in value:
                return f"the entry `{key}` of the type `{self._name}` is missing"
            entry = value[key]
            if entry is not None and (cause := component.misfit(entry, context)):
                return f"entry `{key}`: {cause}"
        return ""

    def received(self, value: Value, context: EvaluationContext) -> Value:
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        if not isinstance(value, dict):
            return conform(self, value, context)
        entries = dict(value)
        for key, component in self._components.items():
            try:
                entries[key] = component.received(value.get(key), context)
            except Unfit as unfit:
                raise Unfit(f"entry `{key}`: {unfit}") from None
        return entries


class Reference:
    """A type by its name, to be looked up when all are read."""

    def __init__(self, types: Mapping[str, ItemType], name: str) -> None:
        self._types = types
        self._name = name
        # Without a shape of its own, which has no end.
        self.shape = TypeOf(name, accepts=lambda value: True)

    @property
    def many(self) -> bool:
        return self._types[self._name].many

    def misfit(self, value: Value, context: EvaluationContext) -> str:
        return self._types[self._name].misfit(value, context)

    def received(self, value: Value, context: EvaluationContext) -> Value:
        return self._types[self._name].received(value, context)


class FunctionType:
    """Functions whose type, as far as their definition tells, conforms to the declared one (DMN 1.5, 10.3.2.9.2)."""

    many = False

    def __init__(self, parameters: tuple[TypeOf, ...], result: TypeOf) -> None:
        self.shape = TypeOf("function", parameters=parameters, result=result)

    def misfit(self, value: Value, context: EvaluationContext) -> str:
        if not isinstance(value, FeelFunction):
            return f"{shown(value)} is a {kind_of(value)}, where a function is declared"
        found, wanted = len(value.parameters), len(self.shape.parameters)
        if not value.takes(wanted):
            return f"the function has {found} parameters, not {wanted}"
        if is_callable(value, self.shape):
            return ""
        actual = "a function" if value.signature is None else type_text(value.signature)
        return f"{actual} does not conform to {type_text(self.shape)}"

    def received(self, value: Value, context: EvaluationContext) -> Value:
        return conform(self, value, context)


def is_function(kind: ItemType) -> bool:
    """Whether the type is one of functions."""
    return isinstance(kind, FunctionType) or (isinstance(kind, Simple | Written) and kind.name.startswith("function"))


class Constrained:
    """Values of a type that pass tests: as a whole, or with `each` each member of a list."""

    def __init__(self, inner: ItemType, tests: Expression, each: bool) -> None:
        self._inner = inner
        self._tests = tests
        self._each = each

    @property
    def many(self) -> bool:
        return self._inner.many

    @property
    def shape(self) -> TypeOf:
        return self._inner.shape

    def misfit(self, value: Value, context: EvaluationContext) -> str:
        return self._inner.misfit(value, context) or self._failing(value, context)

    def received(self, value: Value, context: EvaluationContext) -> Value:
        fitted = self._inner.received(value, context)
        if fitted is not None and (cause := self._failing(fitted, context)):
            raise Unfit(cause)
        return fitted

    def _failing(self, value: Value, context: EvaluationContext) -> str:
        members = value if self._each and isinstance(value, list) else [value]
        for member in members:
            if member is not None and not self._passes(member, context):
                return f"{shown(member)} is none of the allowed values {self._tests.text}"
        return ""

    def _passes(self, member: Value, context: EvaluationContext) -> bool:
        """Whether the member passes the tests; what that costs is paid from the whole evaluation."""
        if self._tests.constant_tests is not None:
            return self._tests.evaluate({}, None, member) is True
        check_steps(context)
        own = EvaluationContext(limits=context.limits)
        passes = self._tests.evaluate({}, own, member) is True
        context.steps_spent += own.steps_spent
        return passes
