"""Owns the types that `instance of` and function parameters name.
Never checks a value.
Called by the parser, and by DMN for types that a file writes in FEEL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from engine.feel.cursor import Cursor
from engine.feel.environment import DEFAULT_LIMITS
from engine.feel.lexer import tokenize
from engine.feel.tree import NamedType, TypeOf
from engine.feel.values import Value

Accepts = Callable[[Value], bool]

SIMPLE_TYPES = (
    "Any",
    "Null",
    "number",
    "string",
    "boolean",
    "date",
    "time",
    "date and time",
    "days and time duration",
    "years and months duration",
)
# Each of these is a type only with the types of its parts.
_CONSTRUCTED = ("list", "context", "range", "function")
_ALIASES = {
    "day and time duration": "days and time duration",
    "year and month duration": "years and months duration",
    "days-time-duration": "days and time duration",
    "day-time-duration": "days and time duration",
    "dayTimeDuration": "days and time duration",
    "years-months-duration": "years and months duration",
    "year-month-duration": "years and months duration",
    "yearMonthDuration": "years and months duration",
    "date time": "date and time",
    "date-time": "date and time",
    "dateTime": "date and time",
}
_BUILT_IN = {
    tuple(token.text for token in tokenize(name)[:-1]): _ALIASES.get(name, name)
    for name in (*SIMPLE_TYPES, *_CONSTRUCTED, *_ALIASES)
}
_LONGEST = max(map(len, _BUILT_IN))


def parse_type(cursor: Cursor, types: Mapping[str, Accepts]) -> TypeOf:
    """One type. A name that is no type gives one that is not `known`. Raises FeelSyntaxError for what is no name."""
    cursor.nesting += 1
    if cursor.nesting > cursor.limits.max_depth:
        raise cursor.error(f"at most {cursor.limits.max_depth} nested types")
    found = _one_type(cursor, types)
    cursor.part_bracket()
    cursor.nesting -= 1
    return found


def written_type(text: str, types: Mapping[str, Accepts]) -> TypeOf:
    """The type that a text writes. Raises FeelSyntaxError for a text that is not one type."""
    cursor = Cursor(text, (), (), DEFAULT_LIMITS)
    found = parse_type(cursor, types)
    if cursor.token.kind != "end":
        raise cursor.error("the end")
    return found


def height(wanted: TypeOf) -> int:
    """The Python frames that testing a value for a type takes."""
    return 1 + 2 * max(map(height, wanted.parts()), default=0)


def _one_type(cursor: Cursor, types: Mapping[str, Accepts]) -> TypeOf:
    start = cursor.token.start
    name = _built_in(cursor)
    own = _defined(cursor, types, 0 if name is None else name[0])
    if own is not None:
        cursor.jump(own[0])
        accepts = types[own[1]]
        return TypeOf(own[1], start, accepts=accepts, shape=accepts.shape if isinstance(accepts, NamedType) else None)
    if name is None:
        return TypeOf(_unknown(cursor), start, known=False)
    cursor.jump(name[0])
    if name[1] not in _CONSTRUCTED:
        return TypeOf(name[1], start)
    if not cursor.at("<"):
        return TypeOf(name[1], start, bare=True)
    return _constructed(cursor, types, name[1], start)


def _constructed(cursor: Cursor, types: Mapping[str, Accepts], name: str, start: int) -> TypeOf:
    cursor.open()
    if name == "function":
        parameters: list[TypeOf] = []
        while not cursor.at(">"):
            parameters.append(parse_type(cursor, types))
            if not cursor.separated(">", "types"):
                break
        cursor.close(">")
        cursor.expect("->", "function<number, string> -> boolean")
        return TypeOf(name, start, parameters=tuple(parameters), result=parse_type(cursor, types))
    if name == "context":
        entries: list[tuple[str, TypeOf]] = []
        while not cursor.at(">"):
            key = cursor.token.value if cursor.token.kind == "string" else cursor.name_until(":")
            if key is None:
                raise cursor.error("a key and ':'", "context<name: string, age: number>")
            if cursor.token.kind == "string":
                cursor.advance()
            cursor.expect(":")
            entries.append((key, parse_type(cursor, types)))
            if not cursor.separated(">", "entries"):
                break
        cursor.close(">")
        return TypeOf(name, start, entries=tuple(entries))
    element = parse_type(cursor, types)
    cursor.close(">")
    return TypeOf(name, start, element=element)


def _built_in(cursor: Cursor) -> tuple[int, str] | None:
    """FEEL's own type that begins here: its number of tokens and its name."""
    for count in range(_LONGEST, 0, -1):
        name = _BUILT_IN.get(tuple(cursor.peek(ahead).text for ahead in range(count)))
        if name is not None:
            return count, name
    return None


def _defined(cursor: Cursor, types: Mapping[str, Accepts], beyond: int) -> tuple[int, str] | None:
    """The longest of the caller's types that begins here and has more than `beyond` tokens."""
    found: tuple[int, str] | None = None
    for name in types if cursor.token.kind in ("name", "escaped") else ():
        if cursor.token.kind == "escaped":
            if cursor.token.value == name:
                return 1, name
            continue
        words = [token.text for token in tokenize(name)[:-1]]
        longer = len(words) > (beyond if found is None else found[0])
        if longer and all(cursor.peek(ahead).text == word for ahead, word in enumerate(words)):
            found = len(words), name
    return found


def _unknown(cursor: Cursor) -> str:
    parts = [cursor.plain_name("a type")]
    while cursor.at(".") and cursor.peek().kind in ("name", "escaped"):
        cursor.advance()
        parts.append(cursor.plain_name("a type"))
    return ".".join(parts)
