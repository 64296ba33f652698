"""Owns sets of characters: ranges of code points, the categories of Unicode, variants of case.
Never parses a pattern and never sees the text that one is applied to.
Called by the syntax of patterns to build sets, by their programs to scan for them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from functools import cache, lru_cache
from itertools import chain, groupby
from typing import TypeAlias
from unicodedata import category

Ranges: TypeAlias = tuple[tuple[int, int], ...]

LAST = 0x10FFFF
NOTHING: Ranges = ()
EVERYTHING: Ranges = ((0, LAST),)
# Spans of one category each in every version of Unicode, passed over when the table of categories is made.
UNIFORM = (
    *((0x3400, 0x4DB5), (0x4E00, 0x9FA5), (0xAC00, 0xD7A3), (0xD800, 0xDFFF), (0xE000, 0xF8FF), (0x17000, 0x187EC)),
    *((0x20000, 0x2A6D6), (0x34000, 0xDFFFF), (0xE01F0, 0xEFFFF), (0xF0000, 0xFFFFD), (0x100000, 0x10FFFD)),
)
# Where the characters lie that have an upper or a lower case.
CASED = (
    *((0x41, 0x587), (0x10A0, 0x10FF), (0x13A0, 0x13FD), (0x1C80, 0x1CBF), (0x1D79, 0x1D8E), (0x1E00, 0x1FFC)),
    *((0x2126, 0x2184), (0x24B6, 0x24E9), (0x2C00, 0x2D2D), (0xA640, 0xA7FF), (0xAB53, 0xABBF), (0xFB00, 0xFB17)),
    *((0xFF21, 0xFF5A), (0x10400, 0x10CFF), (0x118A0, 0x118DF), (0x16E40, 0x16E7F), (0x1E900, 0x1E943)),
)
_NAMES = "L Lu Ll Lt Lm Lo M Mn Mc Me N Nd Nl No P Pc Pd Ps Pe Pi Pf Po Z Zs Zl Zp S Sm Sc Sk So C Cc Cf Co Cn"
_CATEGORIES = frozenset(_NAMES.split())
_NAME_START = (
    *((0x3A, 0x3A), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A), (0xC0, 0xD6), (0xD8, 0xF6), (0xF8, 0x2FF)),
    *((0x370, 0x37D), (0x37F, 0x1FFF), (0x200C, 0x200D), (0x2070, 0x218F), (0x2C00, 0x2FEF), (0x3001, 0xD7FF)),
    *((0xF900, 0xFDCF), (0xFDF0, 0xFFFD), (0x10000, 0xEFFFF)),
)
_NAME_MORE = ((0x2D, 0x2E), (0x30, 0x39), (0xB7, 0xB7), (0x300, 0x36F), (0x203F, 0x2040))


def union(*sets: Iterable[tuple[int, int]]) -> Ranges:
    """The characters of any of the sets, as ranges in order that neither touch nor overlap."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(chain.from_iterable(sets)):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(high, merged[-1][1])
        else:
            merged.append((low, high))
    return tuple(merged)


def complement(ranges: Ranges) -> Ranges:
    """Every character that is not in the set."""
    found: list[tuple[int, int]] = []
    start = 0
    for low, high in ranges:
        if low > start:
            found.append((start, low - 1))
        start = high + 1
    if start <= LAST:
        found.append((start, LAST))
    return tuple(found)


def difference(ranges: Ranges, without: Ranges) -> Ranges:
    """The characters of the first set that the second does not have."""
    return complement(union(complement(ranges), without))


def overlap(one: Ranges, other: Ranges) -> bool:
    """Whether the sets share a character."""
    if len(one) > len(other):
        one, other = other, one
    starts = [low for low, _ in other]
    for low, high in one:
        place = bisect_right(starts, high) - 1
        if place >= 0 and other[place][1] >= low:
            return True
    return False


def only(ranges: Ranges) -> str:
    """The one character of a set of one; otherwise no text."""
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return chr(ranges[0][0])
    return ""


def each_of(characters: str) -> Ranges:
    return union((ord(each), ord(each)) for each in characters)


@lru_cache(maxsize=128)
def in_category(name: str) -> Ranges | None:
    """The characters of a general category, of one letter or two; None where there is none of that name."""
    if name not in _CATEGORIES:
        return None
    return union(*(ranges for each, ranges in _table().items() if each.startswith(name)))


@cache
def _table() -> dict[str, list[tuple[int, int]]]:
    table: dict[str, list[tuple[int, int]]] = defaultdict(list)
    at = 0
    for low, high in (*UNIFORM, (LAST + 1, LAST)):
        for name, alike in groupby(map(category, map(chr, range(at, low)))):
            start, at = at, at + sum(1 for _ in alike)
            table[name].append((start, at - 1))
        if low <= LAST:
            table[category(chr(low))].append((low, high))
        at = high + 1
    return {name: list(union(ranges)) for name, ranges in table.items()}


@cache
def many_characters(letter: str) -> Ranges:
    r"""What the escape of XML Schema with this letter stands for: `\s`, `\i`, `\c`, `\d`, `\w` and their opposites."""
    if letter.isupper():
        return complement(many_characters(letter.lower()))
    match letter:
        case "s":
            return each_of(" \t\n\r")
        case "i":
            return union(_NAME_START)
        case "c":
            return union(_NAME_START, _NAME_MORE)
        case "d":
            return in_category("Nd") or NOTHING
    return complement(union(*(in_category(name) or NOTHING for name in "PZC")))


@cache
def _case_variants() -> dict[int, tuple[int, ...]]:
    lower: dict[str, list[int]] = defaultdict(list)
    upper: dict[str, list[int]] = defaultdict(list)
    codes = [code for low, high in CASED for code in range(low, high + 1)]
    for code in codes:
        lower[chr(code).lower()].append(code)
        upper[chr(code).upper()].append(code)
    variants: dict[int, tuple[int, ...]] = {}
    for code in codes:
        alike = {*lower[chr(code).lower()], *upper[chr(code).upper()]}
        if len(alike) > 1:
            variants[code] = tuple(sorted(alike))
    return variants


@lru_cache(maxsize=256)
def in_any_case(ranges: Ranges) -> Ranges:
    """The set with each character's variants: those whose upper or lower case is the same as its own."""
    variants = _case_variants()
    if sum(high - low + 1 for low, high in ranges) < len(variants):
        inside = [code for low, high in ranges for code in range(low, high + 1) if code in variants]
    else:
        inside = [code for code in variants if overlap(((code, code),), ranges)]
    return union(ranges, ((each, each) for code in inside for each in variants[code]))


def are_variants(one: str, other: str) -> bool:
    """Whether two texts of one length are the same but for the case of their characters."""
    if one == other or one.lower() == other.lower():
        return True
    return all(a == b or a.lower() == b.lower() or a.upper() == b.upper() for a, b in zip(one, other, strict=True))


def source_of(ranges: Ranges) -> str:
    """A character class of Python's `re` for the set; it contains nothing that a pattern's author wrote."""
    if ranges == EVERYTHING:
        return "(?s:.)"
    if not ranges:
        return r"[^\x00-\U0010FFFF]"
    inverse = complement(ranges)
    negated = 0 < len(inverse) < len(ranges)
    body = "".join(
        re.escape(chr(low)) if low == high else f"{re.escape(chr(low))}-{re.escape(chr(high))}"
        for low, high in (inverse if negated else ranges)
    )
    return f"[{'^' if negated else ''}{body}]"


@lru_cache(maxsize=256)
def one_of(ranges: Ranges) -> re.Pattern[str]:
    """Finds one character of the set."""
    return re.compile(source_of(ranges))


@lru_cache(maxsize=256)
def run_of(ranges: Ranges) -> re.Pattern[str]:
    """Finds a run of characters of the set, in C; it takes time that grows with the run alone."""
    return re.compile(source_of(ranges) + "*")
