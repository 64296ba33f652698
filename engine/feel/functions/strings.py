"""Owns the built-in functions on strings; characters are code points and positions count from 1.
Never runs a regular expression given by a text: their cost has no bound in Python's engine.
Called by compiled invocations through the table of built-ins.
"""

from __future__ import annotations

from typing import TypeAlias

from engine.feel.environment import Env
from engine.feel.faults import FeelFault
from engine.feel.functions.registry import builtin
from engine.feel.values import Value, kind_of

Texts: TypeAlias = list[str]
_META = frozenset(".^$*+?()[]{}|")
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t"}


@builtin("string length", "string: string")
def string_length(env: Env, string: str) -> Value:
    return len(string)


@builtin("substring", "string: string, start position: integer, length?: integer")
def substring(env: Env, string: str, start: int, length: int | None = None) -> Value:
    if not start or abs(start) > len(string):
        raise FeelFault(f"start position {start} is outside a string of {len(string)} characters")
    if length is not None and length < 1:
        raise FeelFault("the length must be at least 1")
    first = start - 1 if start > 0 else len(string) + start
    return string[first:] if length is None else string[first : first + length]


@builtin("upper case", "string: string")
def upper_case(env: Env, string: str) -> Value:
    return string.upper()


@builtin("lower case", "string: string")
def lower_case(env: Env, string: str) -> Value:
    return string.lower()


@builtin("trim", "string: string")
def trim(env: Env, string: str) -> Value:
    return string.strip()


@builtin("contains", "string: string, match: string")
def contains(env: Env, string: str, match: str) -> Value:
    return match in string


@builtin("starts with", "string: string, match: string")
def starts_with(env: Env, string: str, match: str) -> Value:
    return string.startswith(match)


@builtin("ends with", "string: string, match: string")
def ends_with(env: Env, string: str, match: str) -> Value:
    return string.endswith(match)


@builtin("substring before", "string: string, match: string")
def substring_before(env: Env, string: str, match: str) -> Value:
    before, found, _ = string.partition(match) if match else ("", "", "")
    return before if found else ""


@builtin("substring after", "string: string, match: string")
def substring_after(env: Env, string: str, match: str) -> Value:
    return string.partition(match)[2] if match else string


def literal_pattern(pattern: str) -> str:
    """The text that a regular expression without operators matches. Raises FeelFault for any other."""
    found: list[str] = []
    characters = iter(pattern)
    for character in characters:
        if character in _META:
            raise FeelFault(
                f"the pattern operator {character!r} is not supported; write '\\\\{character}' for the text"
            )
        if character == "\\":
            character = next(characters, "")
            if not character or (character.isalnum() and character not in _ESCAPED):
                raise FeelFault(f"the pattern '\\{character}' is not supported")
            character = _ESCAPED.get(character, character)
        found.append(character)
    return "".join(found)


@builtin("split", "string: string, delimiter: string")
def split(env: Env, string: str, delimiter: str) -> Value:
    separator = literal_pattern(delimiter)
    if not separator:
        raise FeelFault("the delimiter is empty")
    parts = string.split(separator)
    env.check_list(len(parts) * 8)
    return list(parts)


@builtin("string join", "list: list", "list: list, delimiter: any")
def string_join(env: Env, list: list[Value], delimiter: Value = None) -> Value:
    separator = "" if delimiter is None else delimiter
    if not isinstance(separator, str):
        raise FeelFault(f"'delimiter' must be a string, found {kind_of(separator)}")
    texts: Texts = []
    for element in list:
        if isinstance(element, str):
            texts.append(element)
        elif element is not None:
            raise FeelFault(f"the list holds a {kind_of(element)}, not only strings")
    env.check_string(sum(map(len, texts)) + len(separator) * len(texts))
    return separator.join(texts)
