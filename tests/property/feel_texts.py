"""Owns what FEEL is tried with: texts by a grammar, texts near those of the compliance suite, and odd variables.
Never evaluates anything.
Called by the property tests of FEEL.
"""

from __future__ import annotations

import datetime
import re
from collections import OrderedDict, UserDict, UserList
from decimal import Decimal
from enum import IntEnum, StrEnum
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

from hypothesis import strategies as st
from lxml import etree

from engine.feel import Builtin, Date, DaysTimeDuration, Range, builtins
from tests.tck import SUITE

NAMES: Final = ["a", "b", "items", "order", "first name", "item", "partial", "x"]
MISSING: Final = ["missing", "_private", "__class__"]

NUMBERS: Final = [
    "0", "1", "-2", "3", "2.50", ".5", "0.1", "1e3", "1e30", "-1e-30", "1e-6000", "1e6000", "9" * 34, "9" * 40,
    "0." + "3" * 40, "2147483648", "9223372036854775808",
]  # fmt: skip
STRINGS: Final = [
    '""', '"a"', '"abc"', '"a b,c"', '"1.000,5"', '"2024-02-29"', '"PT1H"', '"10:00:00@Europe/Berlin"', '"é🐎"',
    '"\\u00e9\\n\\t\\"\\\\"', '"\\uD83D\\uDE00"', '"\\U01F40E"', '"[a-z]+(b|c)*"', '"(a+)+$"', '"["', '"$1"', '"gi"',
    '"\\\\p{L}"', '"{\\"a\\":[1,null]}"', '"day"', '"' + "ab " * 100 + '"',
]  # fmt: skip
TEMPORALS: Final = [
    '@"2024-02-29"', '@"-0044-03-15"', '@"999999999-12-31"', '@"-999999999-01-01"', '@"10:30:00"', '@"10:30:00.123Z"',
    '@"23:59:59.999999999-18:00"', '@"10:30:00@Europe/Berlin"', '@"2024-03-31T02:30:00@Europe/Berlin"',
    '@"2024-02-29T10:00:00"', '@"999999999-12-31T23:59:59Z"', '@"-999999999-01-01T00:00:00@Asia/Tokyo"',
    '@"2024-02-29T24:00:00+01:00"', '@"PT0.25S"', '@"-P3DT4H"', '@"P999999999D"', '@"P1Y2M"', '@"-P999999999Y"',
]  # fmt: skip
RANGES: Final = [
    "[1..5]", "(1..5)", "[5..1]", "]1..2[", "(< 3)", "(>= 3)", "(= 3)", '["a".."c"]', '[@"2024-01-01"..@"2024-12-31"]',
    "[1..1000000000000]", "[1.5..2.5)", "[null..1]",
]  # fmt: skip
LISTS: Final = ["[]", "[1]", "[null]", "[1, 2, 3]", '["b", "a"]', "[[1], [2, [3]]]", '[1, "a", null, true]', "[[[]]]"]
CONTEXTS: Final = [
    "{}", "{a: 1}", '{"b c": null}', "{a: {b: [1]}}", '{key: "k", value: 1}', "{a: 1, b: a + 1}", "{f: function(x) x}",
]  # fmt: skip
FUNCTIONS: Final = [
    "function(x) x", "function(a, b) a < b", "function() 1", "function(x: number) x + 1", "(function(f) f)(floor)",
    "function(x) partial", "floor", "function(a, b) null", 'function(a, b) "no"',
]  # fmt: skip
OTHERS: Final = ["null", "true", "false", "?", "today()", "now()", "random number()", "uuid()"]
TYPES: Final = [
    "number", "string", "boolean", "date", "time", "date and time", "days and time duration", "Any", "Null",
    "years and months duration", "list<number>", "list<list<Any>>", "range<number>", "context<a: Any, b c: string>",
    "function<number> -> string", "function<> -> Any", "context<>", "Person", "small number", "list<Person>", "unknown",
]  # fmt: skip
OPERATORS: Final = ["+", "-", "*", "/", "**", "=", "!=", "<", "<=", ">", ">=", "and", "or", "in"]
PROPERTIES: Final = ["a", "b c", "year", "month", "weekday", "hour", "time offset", "timezone", "days", "months", "end"]
NOISE: Final = [
    *"+-*/=<>()[]{},:.@?\"'`\\;#!$%^&|~ \n\t\0é🐎\u00a0\u2028\ufeff", "**", "..", "->", "<=", "!=", "/*", "*/", "//",
    "\\u12", "\ud800", "if", "then", "else", "for", "in", "return", "some", "satisfies", "function", "not", "between",
    "instance of", "and", "null", "external", "@", "...",
]  # fmt: skip
_LITERALS: Final[dict[str, list[str]]] = {
    "number": NUMBERS,
    "string": STRINGS,
    "list": LISTS,
    "context": CONTEXTS,
    "function": FUNCTIONS,
    "range": RANGES,
    "boolean": ["true", "false"],
    "point": [*NUMBERS, *STRINGS, *TEMPORALS],
}
ANY: Final = [*NUMBERS, *STRINGS, *TEMPORALS, *RANGES, *LISTS, *CONTEXTS, *FUNCTIONS, *OTHERS, *NAMES, *MISSING]
_ATOM: Final = st.sampled_from(ANY)
_WORDS: Final = re.compile(r'"(?:[^"\\]|\\.)*"?|\w+|\s+|\*\*|\.\.|->|[<>!]=|.', re.DOTALL)


def _argument(kind: str, inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Mostly a value of the kind, so that a call gets past its checks; else any."""
    fitting = next((texts for known, texts in _LITERALS.items() if known in kind), ANY)
    return st.sampled_from(fitting) | st.sampled_from(fitting) | inner


def _call(function: Builtin, inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    def by_position(arguments: tuple[str, ...] | list[str]) -> str:
        return f"{function.name}({', '.join(arguments)})"

    shapes = [st.lists(inner, max_size=5).map(by_position)]
    for signature in function.signatures:
        values = st.tuples(*(_argument(each.kind, inner) for each in signature))
        names = [each.name for each in signature]
        shapes.append(values.map(by_position))
        shapes.append(values.map(lambda given, names=names: by_position([*map("{}: {}".format, names, given)])))
        if function.variadic:
            shapes.append(st.lists(_argument("any", inner), max_size=6).map(by_position))
    wrong = st.dictionaries(st.sampled_from(["list", "from", "string", "value", "nonsense"]), inner, max_size=3)
    shapes.append(wrong.map(lambda given: by_position([f"{name}: {value}" for name, value in given.items()])))
    return st.one_of(shapes)


def _over(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Expressions whose parts are `inner`: every form of the language, and every built-in."""
    operator, name = st.sampled_from(OPERATORS), st.sampled_from(["a", "b", "x"])
    arguments = st.lists(inner, max_size=4).map(", ".join)
    calls = st.sampled_from(sorted(builtins())).flatmap(lambda each: _call(builtins()[each], inner))
    return st.one_of(
        calls,
        calls,
        calls,
        st.builds("({} {} {})".format, inner, operator, inner),
        st.builds("-({})".format, inner),
        st.builds("({}).{}".format, inner, st.sampled_from([*PROPERTIES, *MISSING])),
        st.builds("({})[{}]".format, inner, inner),
        st.builds("({})[item {} {}]".format, inner, operator, inner),
        st.builds("[{}]".format, arguments),
        st.builds("{{a: {}, {}: {}}}".format, inner, name, inner),
        st.builds('{{"b c": {}, x: b c}}'.format, inner),
        st.builds("{}{}..{}{}".format, st.sampled_from("[(]"), inner, inner, st.sampled_from("])[")),
        st.builds("({} {})".format, st.sampled_from(["<", "<=", ">", ">=", "=", "!="]), inner),
        st.builds("(if {} then {} else {})".format, inner, inner, inner),
        st.builds("(for {} in {} return {})".format, name, inner, inner),
        st.builds("(for {} in {}..{}, x in {} return {})".format, name, inner, inner, inner, inner),
        st.builds("(for x in {} return partial)".format, inner),
        st.builds("({} {} in {} satisfies {})".format, st.sampled_from(["some", "every"]), name, inner, inner),
        st.builds("({} between {} and {})".format, inner, inner, inner),
        st.builds("({} in ({}, < {}))".format, inner, inner, inner),
        st.builds("({} instance of {})".format, inner, st.sampled_from(TYPES)),
        st.builds("(function(x, y) {})({})".format, inner, arguments),
        st.builds("(function(x: {}) {})(x: {})".format, st.sampled_from(TYPES), inner, inner),
        st.builds("({})({})".format, inner, arguments),
        st.builds("{{f: function(n) if n > 40 then {} else [f(n + 1), f(n + 1)], r: f(1)}}".format, inner),
    )


EXPRESSIONS: Final = st.recursive(_ATOM, _over, max_leaves=12)
UNARY_TESTS: Final = st.one_of(
    st.just("-"),
    st.lists(EXPRESSIONS, min_size=1, max_size=3).map(", ".join),
    st.lists(EXPRESSIONS, min_size=1, max_size=3).map(lambda tests: f"not({', '.join(tests)})"),
    st.builds("{} {}".format, st.sampled_from(["<", "<=", ">", ">=", "=", "!="]), EXPRESSIONS),
)


@lru_cache(maxsize=1)
def corpus() -> tuple[str, ...]:
    """Every distinct FEEL text of the compliance suite; nothing where the suite is not there."""
    found: dict[str, None] = {}
    for path in sorted(SUITE.rglob("*.dmn")):
        for element in etree.parse(str(path)).iter("{*}text"):
            if element.text and len(element.text) < 2_000:
                found[element.text.strip()] = None
    return tuple(found)


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A text of the suite, or of the grammar where there is none, changed in one to six places."""
    known = st.sampled_from(corpus()) if corpus() else EXPRESSIONS
    words = _WORDS.findall(draw(known))
    for _ in range(draw(st.integers(1, 6))):
        place = draw(st.integers(0, max(0, len(words) - 1)))
        end = place + draw(st.integers(1, 4))
        match draw(st.sampled_from(["drop", "double", "swap", "noise", "replace", "splice", "cut"])):
            case "drop":
                del words[place:end]
            case "double":
                words[place:place] = words[place:end]
            case "swap" if words:
                other = draw(st.integers(0, len(words) - 1))
                words[place], words[other] = words[other], words[place]
            case "noise":
                words[place:place] = [draw(st.sampled_from(NOISE) | st.characters())]
            case "replace":
                words[place : place + 1] = [draw(_ATOM)]
            case "splice":
                other_words = _WORDS.findall(draw(known))
                start = draw(st.integers(0, max(0, len(other_words) - 1)))
                words[place:end] = other_words[start : start + draw(st.integers(1, 12))]
            case "cut" if words and len(words[place]) > 1:
                words[place] = words[place][: draw(st.integers(1, len(words[place]) - 1))]
    return "".join(words)


class _Colour(StrEnum):
    RED = "red"


class _Size(IntEnum):
    BIG = 10


class _Text(str):
    __slots__ = ()


class Plain:
    """An object with something to reach for."""

    secret = "reached"

    def method(self) -> str:
        return self.secret


def nested_list(depth: int) -> list[Any]:
    """A list in a list in a list."""
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def nested_context(depth: int) -> dict[str, Any]:
    """A context in a context in a context, each as entry `a`."""
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"a": value}
    return value


_NUMBERS: Final = st.one_of(
    st.integers(),
    st.floats(),
    st.decimals(),
    st.sampled_from([10**40, -(10**400), 2**63, float("nan"), float("inf"), Decimal("sNaN"), Decimal("1e999999")]),
    st.sampled_from([Decimal("0e-7000"), Decimal("-0"), Decimal("1" * 50), _Size.BIG, Fraction(1, 3), 1j]),
)
_FOREIGN: Final = st.sampled_from(
    [
        b"bytes", bytearray(b"b"), memoryview(b"m"), object(), Plain(), Plain, len, {1, 2}, frozenset(), range(3),
        (1, "a"), UserDict({"a": 1}), UserList([1]), OrderedDict(a=1), _Colour.RED, _Text("t"), {1: 2}, {None: 1},
        datetime.date(2024, 2, 29), datetime.timedelta(1), Ellipsis, NotImplemented, nested_list(60), nested_list(200),
        nested_context(60), nested_context(200), [0] * 3_000, {str(number): number for number in range(700)},
        "long " * 5_000, "\ud800", "\0", Date(2024, 2, 29), DaysTimeDuration(1), Range(1, None), Range(None, None),
        Range("a", 2), [Range(1, 2)],
    ]
)  # fmt: skip
VALUES: Final = st.recursive(
    st.none() | st.booleans() | _NUMBERS | st.text(max_size=8) | _FOREIGN,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["a", "b", "b c", "item", "first name", "key", "value"]), inner, max_size=3)
    ),
    max_leaves=8,
)
SCOPES: Final = st.dictionaries(st.sampled_from([*NAMES, "?"]), VALUES, max_size=5)
