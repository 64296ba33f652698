"""Owns the types that `instance of` and function parameters name.
Never checks a value.
Called by the parser.
"""

from __future__ import annotations

from engine.feel.cursor import Cursor
from engine.feel.tree import TypeOf

SIMPLE_TYPES = frozenset(
    (
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
        "list",
        "context",
        "range",
        "function",
    )
)
_ALIASES = {"day and time duration": "days and time duration", "year and month duration": "years and months duration"}
_PHRASES = sorted((*SIMPLE_TYPES, *_ALIASES), key=len, reverse=True)


def parse_type(cursor: Cursor) -> TypeOf:
    """One type. Raises FeelSyntaxError for a name that is no type."""
    name = _type_name(cursor)
    if name == "function" and cursor.at("<"):
        return _function_type(cursor)
    if name == "context" and cursor.accept("<"):
        entries: list[tuple[str, TypeOf]] = []
        while not entries or cursor.accept(","):
            key = cursor.name_until(":")
            if key is None:
                raise cursor.error("a key and ':'")
            cursor.expect(":")
            entries.append((key, _nested(cursor)))
        cursor.expect(">")
        return TypeOf(name, None, tuple(entries))
    if name in ("list", "range") and cursor.accept("<"):
        element = _nested(cursor)
        cursor.expect(">")
        return TypeOf(name, element)
    return TypeOf(name)


def _nested(cursor: Cursor) -> TypeOf:
    cursor.nesting += 1
    if cursor.nesting > cursor.limits.max_depth:
        raise cursor.error(f"at most {cursor.limits.max_depth} nested types")
    inner = parse_type(cursor)
    cursor.nesting -= 1
    return inner


def _function_type(cursor: Cursor) -> TypeOf:
    cursor.expect("<")
    while not cursor.at(">"):
        _nested(cursor)
        if not cursor.at(">"):
            cursor.expect(",")
    cursor.advance()
    cursor.expect("->")
    _nested(cursor)
    return TypeOf("function")


def _type_name(cursor: Cursor) -> str:
    for phrase in _PHRASES:
        words = phrase.split()
        if all(cursor.peek(ahead).text == word for ahead, word in enumerate(words)):
            for _ in words:
                cursor.advance()
            return _ALIASES.get(phrase, phrase)
    raise cursor.error("a type", "one of: " + ", ".join(sorted(SIMPLE_TYPES)))
