"""Owns the types that a DMN file declares, as conversions: what a declared type makes of a value, or that it fits not.
Never evaluates decision logic.
Called by the readers of tables, boxed expressions and requirements.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lxml import etree

from engine.dmn.logic import Convert, Unfit
from engine.dmn.source import Source, spaced
from engine.feel import Date, DateTime, Expression, Time, Value, Zone, kind_of, to_json
from engine.feel.faults import FeelFault
from engine.feel.temporal_text import parse_date, parse_date_time, parse_duration, parse_time

# Names of simple types in DMN 1.1 to 1.5 and in Camunda Modeler, and what FEEL calls them.
SIMPLE: Final = {
    "string": "string",
    "boolean": "boolean",
    "number": "number",
    "integer": "number",
    "long": "number",
    "double": "number",
    "date": "date",
    "time": "time",
    "dateTime": "date and time",
    "date and time": "date and time",
    "dayTimeDuration": "days and time duration",
    "days and time duration": "days and time duration",
    "yearMonthDuration": "years and months duration",
    "years and months duration": "years and months duration",
    "list": "list",
    "context": "context",
    "function": "function",
}
MAX_TYPE_LEVELS: Final = 30
_ANY: Final = frozenset(("Any", "any"))
_FROM_TEXT: Final[dict[str, Callable[[str], Value]]] = {
    "date": parse_date,
    "time": parse_time,
    "date and time": parse_date_time,
    "days and time duration": parse_duration,
    "years and months duration": parse_duration,
}


def simple(kind: str) -> Convert:
    """The conversion to a simple type: JSON's texts become temporal values, a list of one its element."""
    parse = _FROM_TEXT.get(kind)

    def convert(value: Value) -> Value:
        if value is None or kind_of(value) == kind:
            return value
        if isinstance(value, list) and len(value) == 1:
            return convert(value[0])
        if kind == "date and time" and isinstance(value, Date):
            return DateTime(value, Time(0, Zone(0)))
        if parse is not None and isinstance(value, str):
            try:
                parsed = parse(value)
            except FeelFault as fault:
                raise Unfit(fault.cause) from None
            if kind_of(parsed) == kind:
                return parsed
        raise Unfit(f"{shown(value)} is a {kind_of(value)}, where a {kind} is declared")

    return convert


def shown(value: Value) -> str:
    """The value in a message, cut where it is long."""
    try:
        text = str(to_json(value)) if isinstance(value, list | dict) else repr(to_json(value))
    except ValueError:
        text = kind_of(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _collection(element: Convert | None) -> Convert:
    def convert(value: Value) -> Value:
        if value is None:
            return None
        members: list[Value] = value if isinstance(value, list) else [value]
        if element is not None:
            members = [element(member) for member in members]
        return members

    return convert


def _structure(name: str, components: dict[str, Convert | None]) -> Convert:
    def convert(value: Value) -> Value:
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        if value is None:
            return None
        if not isinstance(value, dict):
            raise Unfit(f"{shown(value)} is a {kind_of(value)}, where a context of type `{name}` is declared")
        converted = dict(value)
        for key, component in components.items():
            if component is not None and key in value:
                try:
                    converted[key] = component(value[key])
                except Unfit as unfit:
                    raise Unfit(f"entry `{key}`: {unfit}") from None
        return converted

    return convert


def _allowed(inner: Convert | None, tests: Expression) -> Convert:
    def convert(value: Value) -> Value:
        fitted = value if inner is None else inner(value)
        if fitted is not None and tests.evaluate({}, None, fitted) is not True:
            raise Unfit(f"{shown(fitted)} is none of the allowed values {tests.text}")
        return fitted

    return convert


class Types:
    """The types of one file, by name."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._items = {spaced(item.get("name", "")): item for item in source.children(source.root, "itemDefinition")}
        self._converts: dict[str, Convert | None] = {}
        self._open: list[str] = []
        components = source.root.iter(f"{{{source.namespace}}}itemComponent")
        # The names of all entries of all declared structures.
        self.component_names = frozenset(spaced(component.get("name", "")) for component in components) - {""}
        for name in self._items:
            self.named(name, self._items[name])

    def of(self, element: etree._Element | None) -> Convert | None:
        """The conversion to the type that the element declares; null where any value fits."""
        name = self._source.type_ref(element)
        return None if name is None or element is None else self.named(name, element)

    def allowed_values(self, element: etree._Element | None, component: str = "") -> str:
        """The text of the allowed values of the type that the element declares, or of its entry `component`."""
        item = self._items.get(self._source.type_ref(element) or "")
        if item is not None and component:
            inner = self._source.children(item, "itemComponent")
            item = next((each for each in inner if spaced(each.get("name", "")) == component), None)
        text = ""
        for _ in range(MAX_TYPE_LEVELS):
            if item is None or text:
                break
            text = self._source.text(self._source.child(item, "allowedValues"))
            item = self._items.get(self._source.type_ref(item) or "")
        return text

    def named(self, name: str, element: etree._Element) -> Convert | None:
        """The conversion to a type by its name; a problem is noted at `element` where there is no such type."""
        if name not in self._items:
            plain = name.rpartition(":")[2]
            if plain in SIMPLE:
                return simple(SIMPLE[plain])
            if plain not in _ANY and plain not in self._items:
                message = f"there is no type `{name}`; values of any type are taken"
                remedy = "Declare it as an item definition, or choose one of FEEL's types."
                self._source.add(element, "unknown-type", message, remedy, "warning")
            name = plain
        if name not in self._items:
            return None
        if name in self._open or len(self._open) == MAX_TYPE_LEVELS:
            what = "contains itself" if name in self._open else f"lies deeper than {MAX_TYPE_LEVELS} levels"
            self._source.add(self._items[name], "cyclic-type", f"the type `{name}` {what}", "Flatten the types.")
            return None
        if name not in self._converts:
            self._open.append(name)
            self._converts[name] = self._read(self._items[name], name)
            self._open.pop()
        return self._converts[name]

    def _read(self, item: etree._Element, name: str) -> Convert | None:
        components = {
            spaced(each.get("name", "")): self._read(each, f"{name}.{each.get('name', '')}")
            for each in self._source.children(item, "itemComponent")
        }
        convert = _structure(name, components) if components else self.of(item)
        if self._source.child(item, "functionItem") is not None:
            convert = simple("function")
        allowed = self._source.child(item, "allowedValues")
        if allowed is not None and self._source.text(allowed):
            where = f"the allowed values of the type `{name}`"
            tests = self._source.compiled(allowed, self._source.text(allowed), frozenset(), where, tests=True)
            convert = convert if tests is None else _allowed(convert, tests)
        return _collection(convert) if item.get("isCollection") == "true" else convert
