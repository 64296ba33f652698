"""Owns the built-in functions on strings; characters are code points and positions count from 1.
Never runs a regular expression: these have a room of their own.
Called by compiled invocations through the table of built-ins.
"""

from __future__ import annotations

from typing import TypeAlias

from engine.feel.environment import Env
from engine.feel.faults import FeelFault, counted
from engine.feel.functions.registry import builtin
from engine.feel.values import Value, kind_of

Texts: TypeAlias = list[str]


@builtin("string length", "string: string", gives="number", about="How many characters a string has")
def string_length(env: Env, string: str) -> Value:
    return len(string)


@builtin(
    "substring",
    "string: string, start position: position, length?: position|null",
    gives="string",
    about="The characters from a position on, a negative one counted from the end",
)
def substring(env: Env, string: str, start: int, length: int | None = None) -> Value:
    if not start or abs(start) > len(string):
        raise FeelFault(f"'start position' {start} is outside a string of {counted(len(string), 'character')}")
    if length is not None and length < 1:
        raise FeelFault(f"'length' must be at least 1, found {length}")
    first = start - 1 if start > 0 else len(string) + start
    return string[first:] if length is None else string[first : first + length]


@builtin("upper case", "string: string", gives="string", about="The string in upper case")
def upper_case(env: Env, string: str) -> Value:
    upper = string.upper()
    env.check_string(len(upper))
    return upper


@builtin("lower case", "string: string", gives="string", about="The string in lower case")
def lower_case(env: Env, string: str) -> Value:
    lower = string.lower()
    env.check_string(len(lower))
    return lower


@builtin("trim", "string: string", gives="string", about="The string without white space at its ends", origin="Camunda")
def trim(env: Env, string: str) -> Value:
    return string.strip()


@builtin("contains", "string: string, match: string", gives="boolean", about="Whether the string holds another")
def contains(env: Env, string: str, match: str) -> Value:
    return match in string


@builtin(
    "starts with", "string: string, match: string", gives="boolean", about="Whether the string starts with another"
)
def starts_with(env: Env, string: str, match: str) -> Value:
    return string.startswith(match)


@builtin("ends with", "string: string, match: string", gives="boolean", about="Whether the string ends with another")
def ends_with(env: Env, string: str, match: str) -> Value:
    return string.endswith(match)


@builtin(
    "substring before",
    "string: string, match: string",
    gives="string",
    about="What stands before the first match, empty without one",
)
def substring_before(env: Env, string: str, match: str) -> Value:
    before, found, _ = string.partition(match) if match else ("", "", "")
    return before if found else ""


@builtin(
    "substring after",
    "string: string, match: string",
    gives="string",
    about="What stands after the first match, empty without one",
)
def substring_after(env: Env, string: str, match: str) -> Value:
    return string.partition(match)[2] if match else string


@builtin(
    "is blank",
    "string: string",
    gives="boolean",
    about="Whether a string is empty or white space alone",
    origin="Camunda",
)
def is_blank(env: Env, string: str) -> Value:
    return not string.strip()


@builtin(
    "string join",
    "list: list, delimiter?: string|null",
    "list: list, delimiter: string|null, prefix: string, suffix: string",
    gives="string",
    about="The strings of a list in one, nulls left out, with a delimiter between them",
)
def string_join(env: Env, list: list[Value], delimiter: str | None = None, prefix: str = "", suffix: str = "") -> Value:
    separator = "" if delimiter is None else delimiter
    texts: Texts = []
    for place, element in enumerate(list, 1):
        if isinstance(element, str):
            texts.append(element)
        elif element is not None:
            raise FeelFault(f"'list' must hold strings, found {kind_of(element)} at position {place}")
    env.check_string(sum(map(len, texts)) + len(separator) * len(texts) + len(prefix) + len(suffix))
    return f"{prefix}{separator.join(texts)}{suffix}"
