"""Owns the values of test files: XML Schema types, nil, lists and components, as values of FEEL.
Never guesses: what it does not know it refuses.
Called by the reader of test files.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from lxml import etree

from engine.feel import EvaluationContext, compile_expression

_NIL: Final = "{http://www.w3.org/2001/XMLSchema-instance}nil"
_TYPE: Final = "{http://www.w3.org/2001/XMLSchema-instance}type"
_DECIMAL: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)\Z", re.ASCII)
_DOUBLE: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\Z", re.ASCII)
_BOOLEANS: Final = {"true": True, "1": True, "false": False, "0": False}
_TEXTS: Final = ("string", "normalizedString", "token", "anyURI", "anySimpleType")
_INTEGERS: Final = (
    *("integer", "int", "long", "short", "byte", "negativeInteger", "nonPositiveInteger", "positiveInteger"),
    *("nonNegativeInteger", "unsignedLong", "unsignedInt", "unsignedShort", "unsignedByte"),
)


class Unreadable(Exception):
    """A value of a test file that says nothing, or nothing that is known here."""


def name_of(element: etree._Element) -> str:
    """The name of an element as FEEL sees it: any run of white space in it is one space."""
    return " ".join((element.get("name") or "").split())


def kind_of(element: etree._Element) -> str:
    """The local name of an element; empty for a comment or a processing instruction."""
    return etree.QName(element).localname if isinstance(element.tag, str) else ""


def children(element: etree._Element, *kinds: str) -> list[etree._Element]:
    """The child elements of these kinds, in whatever namespace."""
    return [child for child in element if kind_of(child) in kinds]


def value_of(element: etree._Element) -> Any:
    """The value inside `expected`, `inputNode`, `item` or `component`; nil and nothing at all are null.

    Raises Unreadable. Numbers are Decimals with the digits that the file has.
    """
    if _is_nil(element):
        return None
    parts = children(element, "value", "list", "component")
    kinds = {kind_of(part) for part in parts}
    if len(kinds) > 1 or (len(parts) > 1 and kinds != {"component"}):
        raise Unreadable(f"<{kind_of(element)}> holds {', '.join(kind_of(part) for part in parts)} side by side")
    if not parts:
        if (element.text or "").strip():
            raise Unreadable(f"<{kind_of(element)}> holds a bare text")
        return None
    if kinds == {"component"}:
        return _context(parts)
    if _is_nil(parts[0]):
        return None
    if kinds == {"list"}:
        return [value_of(item) for item in children(parts[0], "item")]
    return _scalar(parts[0])


def _is_nil(element: etree._Element) -> bool:
    return (element.get(_NIL) or "").strip() in ("true", "1")


def _context(components: list[etree._Element]) -> Any:
    if len(components) == 1 and _is_nil(components[0]) and components[0].get("name") is None:
        return None
    context: dict[str, Any] = {}
    for component in components:
        name = component.get("name")
        if name is None or name in context:
            raise Unreadable(f"a component named {name!r} beside {sorted(context)}")
        context[name] = value_of(component)
    return context


def _scalar(element: etree._Element) -> Any:
    if len(element):
        raise Unreadable("elements inside <value>")
    text = element.text or ""
    kind = (element.get(_TYPE) or "xsd:string").rpartition(":")[2].strip()
    read = _SCALARS.get(kind)
    if read is None:
        raise Unreadable(f"the value type {kind!r} is not known")
    return read(text)


def _number(pattern: re.Pattern[str]) -> Callable[[str], Decimal]:
    def read(text: str) -> Decimal:
        if not pattern.match(text.strip()):
            raise Unreadable(f"{text.strip()!r} is not a number of FEEL")
        return Decimal(text.strip())

    return read


def _boolean(text: str) -> bool:
    if text.strip() not in _BOOLEANS:
        raise Unreadable(f"{text.strip()!r} is not a boolean")
    return _BOOLEANS[text.strip()]


def _temporal(function: str) -> Callable[[str], Any]:
    expression = compile_expression(f"{function}(text)")

    def read(text: str) -> Any:
        value = expression.evaluate({"text": text.strip()}, EvaluationContext())
        if value is None:
            raise Unreadable(f"{function}({text.strip()!r}) is null")
        return value

    return read


_SCALARS: Final[dict[str, Callable[[str], Any]]] = {
    **dict.fromkeys(_TEXTS, str),
    **dict.fromkeys(_INTEGERS, _number(re.compile(r"[+-]?\d+\Z", re.ASCII))),
    "decimal": _number(_DECIMAL),
    "double": _number(_DOUBLE),
    "float": _number(_DOUBLE),
    "boolean": _boolean,
    "date": _temporal("date"),
    "time": _temporal("time"),
    "dateTime": _temporal("date and time"),
    "dateTimeStamp": _temporal("date and time"),
    **dict.fromkeys(("duration", "dayTimeDuration", "yearMonthDuration"), _temporal("duration")),
}
