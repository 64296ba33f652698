"""Owns the built-in functions on ranges: how two of them, or one and a point, lie to each other, and ranges from text.
Never changes a range; an end that is unbounded lies beyond every value and is not included.
Called by compiled invocations through the table of built-ins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from engine.feel import operations
from engine.feel.environment import Env
from engine.feel.faults import FeelFault
from engine.feel.functions.registry import BUILTINS, builtin
from engine.feel.lexer import Token, tokenize
from engine.feel.numbers import D34, decimal_result, narrowed
from engine.feel.temporal_text import parse_temporal
from engine.feel.values import Range, Value, kind_of

Relation: TypeAlias = Callable[[Range, Range], bool]

MAX_RANGE_TEXT = 1_000
# Steps that reading any range takes, beside those for its characters.
_READING_RANGE = 5
_WANTED = "an end of a range is a number, a string, a date, a time or a duration"
_POINTS = "point1: point, point2: point"
_POINT_RANGE = "point: point, range: range"
_RANGE_POINT = "range: range, point: point"
_RANGES = "range1: range, range2: range"
_TURNED = {_POINT_RANGE: _RANGE_POINT, _RANGE_POINT: _POINT_RANGE}
_MAKERS = frozenset({"date", "time", "date and time", "duration"})


def _intervals(env: Env, left: Value, right: Value) -> tuple[Range, Range]:
    """Both arguments as ranges, a point as the range that holds nothing else. Raises FeelFault for unlike kinds.

    Pays for comparing their ends.
    """
    first = left if isinstance(left, Range) else Range(left, left)
    second = right if isinstance(right, Range) else Range(right, right)
    kinds = [kind_of(each.end if each.start is None else each.start) for each in (first, second)]
    if kinds[0] != kinds[1]:
        raise FeelFault(f"cannot compare {kinds[0]} with {kinds[1]}")
    if kinds[0] == "string":
        env.compare_string(
            sum(len(end) for each in (first, second) for end in (each.start, each.end) if type(end) is str)
        )
    return first, second


def _starts_included(first: Range, second: Range) -> tuple[bool, bool]:
    return (
        first.start_included and first.start is not None,
        second.start_included and second.start is not None,
    )


def _ends_included(first: Range, second: Range) -> tuple[bool, bool]:
    return first.end_included and first.end is not None, second.end_included and second.end is not None


def _start_order(first: Range, second: Range) -> int:
    """Negative, zero or positive as the start of the first is below, at or above that of the second."""
    if first.start is None or second.start is None:
        return int(first.start is not None) - int(second.start is not None)
    return operations.compare(first.start, second.start)


def _end_order(first: Range, second: Range) -> int:
    if first.end is None or second.end is None:
        return int(first.end is None) - int(second.end is None)
    return operations.compare(first.end, second.end)


def _meeting(first: Range, second: Range) -> tuple[int, bool]:
    """How the end of the first lies to the start of the second, and whether both are included."""
    if first.end is None or second.start is None:
        return 1, False
    return operations.compare(first.end, second.start), first.end_included and second.start_included


def _reaches(first: Range, second: Range) -> bool:
    order, included = _meeting(first, second)
    return order > 0 or (order == 0 and included)


def _starts_within(first: Range, second: Range) -> bool:
    """Whether the first starts no earlier than the second."""
    order = _start_order(first, second)
    mine, other = _starts_included(first, second)
    return order > 0 or (order == 0 and (other or not mine))


def _ends_within(first: Range, second: Range) -> bool:
    """Whether the first ends no later than the second."""
    order = _end_order(first, second)
    mine, other = _ends_included(first, second)
    return order < 0 or (order == 0 and (other or not mine))


def _same_start(first: Range, second: Range) -> bool:
    mine, other = _starts_included(first, second)
    return mine is other and _start_order(first, second) == 0


def _same_end(first: Range, second: Range) -> bool:
    mine, other = _ends_included(first, second)
    return mine is other and _end_order(first, second) == 0


def _relation(
    name: str, opposite: str, *signatures: str, about: str, of_opposite: str
) -> Callable[[Relation], Relation]:
    """Register a relation and its opposite, which is the relation of the second range to the first."""

    def register(holds: Relation) -> Relation:
        def relation(env: Env, left: Value, right: Value) -> Value:
            return holds(*_intervals(env, left, right))

        def turned(env: Env, left: Value, right: Value) -> Value:
            return holds(*_intervals(env, right, left))

        builtin(name, *signatures, gives="boolean", about=about)(relation)
        builtin(opposite, *(_TURNED.get(each, each) for each in signatures), gives="boolean", about=of_opposite)(turned)
        return holds

    return register


@_relation(
    "before",
    "after",
    _POINTS,
    _POINT_RANGE,
    _RANGE_POINT,
    _RANGES,
    about="Whether the first ends before the second starts",
    of_opposite="Whether the first starts after the second ends",
)
def _before(first: Range, second: Range) -> bool:
    return not _reaches(first, second)


@_relation(
    "meets",
    "met by",
    _RANGES,
    about="Whether the first range ends with the very value that the second starts with",
    of_opposite="Whether the first range starts with the very value that the second ends with",
)
def _meets(first: Range, second: Range) -> bool:
    order, included = _meeting(first, second)
    return order == 0 and included


@_relation(
    "overlaps before",
    "overlaps after",
    _RANGES,
    about="Whether the first range starts before the second and ends inside it",
    of_opposite="Whether the first range starts inside the second and ends after it",
)
def _overlaps_before(first: Range, second: Range) -> bool:
    return not _starts_within(first, second) and _reaches(first, second) and _ends_within(first, second)


@_relation(
    "finishes",
    "finished by",
    _POINT_RANGE,
    _RANGES,
    about="Whether the first ends as the second does and starts no earlier",
    of_opposite="Whether the second ends as the first does and starts no earlier",
)
def _finishes(first: Range, second: Range) -> bool:
    return _same_end(first, second) and _starts_within(first, second)


@_relation(
    "during",
    "includes",
    _POINT_RANGE,
    _RANGES,
    about="Whether the second range holds the point, or all of the first range",
    of_opposite="Whether the first range holds the point, or all of the second range",
)
def _during(first: Range, second: Range) -> bool:
    return _starts_within(first, second) and _ends_within(first, second)


@_relation(
    "starts",
    "started by",
    _POINT_RANGE,
    _RANGES,
    about="Whether the first starts as the second does and ends no later",
    of_opposite="Whether the second starts as the first does and ends no later",
)
def _starts(first: Range, second: Range) -> bool:
    return _same_start(first, second) and _ends_within(first, second)


@builtin("overlaps", _RANGES, gives="boolean", about="Whether two ranges have a value in common")
def overlaps(env: Env, left: Value, right: Value) -> Value:
    first, second = _intervals(env, left, right)
    return _reaches(first, second) and _reaches(second, first)


@builtin(
    "coincides", _POINTS, _RANGES, gives="boolean", about="Whether two points, or both ends of two ranges, are the same"
)
def coincides(env: Env, left: Value, right: Value) -> Value:
    if isinstance(left, Range) is not isinstance(right, Range):
        raise FeelFault("a point and a range cannot coincide")
    first, second = _intervals(env, left, right)
    return _same_start(first, second) and _same_end(first, second)


@builtin("range", "from: string", about='The range that a text such as "[1..5)" or "(..10]" describes')
def range_from(env: Env, text: str) -> Value:
    if len(text) > MAX_RANGE_TEXT:
        raise FeelFault(f"the text of a range has at most {MAX_RANGE_TEXT} characters")
    env.spend(_READING_RANGE + len(text))
    return _parsed(env, tokenize(text)[:-1])


def _parsed(env: Env, tokens: list[Token]) -> Range:
    """The range of a whole text, by the grammar of range literals (DMN 1.5, 10.3.1.2)."""
    if len(tokens) < 2 or tokens[0].text not in ("[", "(", "]") or tokens[-1].text not in ("]", ")", "["):
        raise FeelFault("a range starts with [ or ( and ends with ] or )")
    texts = [token.text for token in tokens]
    if texts.count("..") != 1:
        raise FeelFault("a range has two ends with .. between them")
    middle = texts.index("..")
    start, end = (_endpoint(env, part) for part in (tokens[1:middle], tokens[middle + 1 : -1]))
    start_included, end_included = texts[0] == "[", texts[-1] == "]"
    if start is None and end is None:
        raise FeelFault("a range has at least one end")
    if (start is None and start_included) or (end is None and end_included):
        raise FeelFault("an end without a value is open: write ( or )")
    if start is not None and end is not None and operations.compare(start, end) > 0:
        raise FeelFault("it ends before it starts")
    return Range(start, end, start_included, end_included)


def _endpoint(env: Env, tokens: list[Token]) -> Value:
    """A number, string or temporal value; None where nothing is written."""
    if not tokens:
        return None
    left = iter(tokens)
    value = _literal(env, next(left), left)
    if next(left, None) is not None or value is None:
        raise FeelFault(_WANTED)
    return value


def _literal(env: Env, first: Token, rest: Iterator[Token]) -> Value:
    if first.kind == "number":
        return narrowed(decimal_result(D34.create_decimal, first.text))
    if first.kind == "string":
        return first.value
    if first.text == "-":
        number = next(rest, None)
        if number is not None and number.kind == "number":
            return narrowed(decimal_result(D34.create_decimal, f"-{number.text}"))
    elif first.text == "@":
        text = next(rest, None)
        if text is not None and text.kind == "string":
            return parse_temporal(text.value)
    else:
        return _made(env, first, rest)
    raise FeelFault(_WANTED)


def _made(env: Env, first: Token, rest: Iterator[Token]) -> Value:
    """The value of `date("2024-01-31")` and the like, up to its closing parenthesis."""
    words = [first.text]
    for token in rest:
        if token.text == "(":
            break
        words.append(token.text)
    name = " ".join(words)
    if name not in _MAKERS:
        raise FeelFault(_WANTED)
    arguments: list[Value] = []
    for token in rest:
        arguments.append(_literal(env, token, rest))
        separator = next(rest, None)
        if separator is not None and separator.text == ")":
            return _called(env, name, arguments)
        if separator is None or separator.text != ",":
            break
    raise FeelFault(_WANTED)


def _called(env: Env, name: str, arguments: list[Value]) -> Value:
    builtin = BUILTINS[name]
    for signature in builtin.signatures:
        if sum(not parameter.optional for parameter in signature) <= len(arguments) <= len(signature):
            checked = [
                parameter.check(env, argument, parameter.name)
                for parameter, argument in zip(signature, arguments, strict=False)
            ]
            return builtin.implementation(env, *checked)
    raise FeelFault(f"{name} takes {' or '.join(builtin.usage)}")
