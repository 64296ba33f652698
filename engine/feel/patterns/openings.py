"""Owns what the parts of a pattern can begin with and surely contain, so that a matcher knows where to look.
Never writes instructions and never sees a text.
Called by the compiler of patterns.
"""

from __future__ import annotations

from typing import NamedTuple

from engine.feel.patterns import classes
from engine.feel.patterns.classes import Ranges
from engine.feel.patterns.syntax import Anchor, Choice, Group, Node, Repeat, Sequence, Set

MAX_TEXT = 8
# A set of more ranges is large: it takes milliseconds to prepare for scanning.
MAX_RANGES = 64
_MAX_MERGED = 256
_MAX_PREFIXES = 256


class First(NamedTuple):
    """What a match of a part can start with, whether it may be empty, and the text that it surely starts with."""

    ranges: Ranges
    empty: bool
    text: str = ""


ANYTHING = First(classes.EVERYTHING, True)
NOTHING = First(classes.NOTHING, True)


def merged(one: Ranges, other: Ranges) -> Ranges:
    """The union, or everything where that would be long: knowing less is always allowed here."""
    if one is other or not other:
        return one
    if not one:
        return other
    return classes.EVERYTHING if len(one) + len(other) > _MAX_MERGED else classes.union(one, other)


def then(first: First, follow: First) -> First:
    """What one part can begin with if another follows it."""
    return First(merged(first.ranges, follow.ranges), follow.empty) if first.empty else first


def either(firsts: list[First]) -> First:
    ranges = classes.NOTHING
    for each in firsts:
        ranges = merged(ranges, each.ranges)
    return First(ranges, any(each.empty for each in firsts))


class Openings:
    """What each part of one tree begins with, each worked out once."""

    def __init__(self, lines: bool) -> None:
        self._lines = lines
        self._known: dict[tuple[int, bool], First] = {}

    def of(self, node: Node, closing: bool = True) -> First:
        """With `closing`, an end of the text or line counts as what no character but a newline can follow."""
        key = id(node), closing
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._first(node, closing)
        return found

    def _first(self, node: Node, closing: bool) -> First:
        match node:
            case Set(ranges):
                return First(ranges, False, classes.only(ranges))
            case Sequence(parts):
                return self._of_sequence(parts, closing)
            case Choice(branches):
                return either([self.of(branch, closing) for branch in branches])
            case Repeat(body, least, most, _):
                if most == 0:
                    return NOTHING
                inner = self.of(body, closing)
                if not least or inner.empty:
                    return First(inner.ranges, True)
                return inner._replace(text=inner.text * min(least, MAX_TEXT) if isinstance(body, Set) else inner.text)
            case Group(_, body):
                return self.of(body, closing)
            case Anchor(start):
                if start or not closing:
                    return NOTHING
                return First(classes.each_of("\n") if self._lines else classes.NOTHING, False)
        return ANYTHING

    def _of_sequence(self, parts: tuple[Node, ...], closing: bool) -> First:
        known, text = NOTHING, ""
        is_text = True
        for part in parts:
            found = self.of(part, closing)
            if known.empty:
                known = First(merged(known.ranges, found.ranges), found.empty)
            is_text = is_text and bool(found.text)
            text += found.text if is_text else ""
            is_text = is_text and isinstance(part, Set) and len(text) < MAX_TEXT
            if not known.empty and not is_text:
                break
        return known._replace(text=text[:MAX_TEXT])


class Prefix(NamedTuple):
    """Sets that the first characters of a match are in, one after the other; `whole` if there are no more."""

    sets: tuple[Ranges, ...]
    whole: bool


_UNKNOWN = [Prefix((), False)]


def prefixes(node: Node) -> list[Prefix]:
    """Ways in which a match can start: one of them is that of each match."""
    match node:
        case Set(ranges):
            return [Prefix((ranges,), True)] if len(ranges) <= MAX_RANGES else _UNKNOWN
        case Choice(branches):
            found = [prefix for branch in branches for prefix in prefixes(branch)]
            return found if len(found) <= _MAX_PREFIXES else _UNKNOWN
        case Group(_, body):
            return prefixes(body)
        case Repeat(Set(ranges), least, most, _) if least and len(ranges) <= MAX_RANGES:
            return [Prefix((ranges,) * min(least, MAX_TEXT), least == most)]
        case Repeat(body, least, _, _) if least:
            return [prefix._replace(whole=False) for prefix in prefixes(body)]
        case Anchor():
            return [Prefix((), True)]
        case Sequence(parts):
            found = [Prefix((), True)]
            for part in parts:
                if not any(prefix.whole and len(prefix.sets) < MAX_TEXT for prefix in found):
                    break
                found = _joined(found, prefixes(part))
            return found
    return _UNKNOWN


def _joined(starts: list[Prefix], ends: list[Prefix]) -> list[Prefix]:
    if len(starts) * len(ends) > _MAX_PREFIXES:
        return [start._replace(whole=False) for start in starts]
    return [
        Prefix((start.sets + end.sets)[:MAX_TEXT], end.whole and len(start.sets) + len(end.sets) <= MAX_TEXT)
        if start.whole
        else start
        for start in starts
        for end in (ends if start.whole else ends[:1])
    ]


def is_anchored(node: Node) -> bool:
    """Whether every match begins where a text or a line does."""
    match node:
        case Anchor(start):
            return start
        case Sequence((first, *_)):
            return is_anchored(first)
        case Choice(branches):
            return all(map(is_anchored, branches))
        case Group(_, body):
            return is_anchored(body)
        case Repeat(body, least, _, _):
            return least > 0 and is_anchored(body)
    return False


def leading_loop(node: Node) -> Repeat | None:
    """The unbounded loop over one set that opens the pattern, if one does."""
    match node:
        case Repeat(Set(), _, None, _):
            return node
        case Sequence((first, *_)):
            return leading_loop(first)
        case Group(_, body):
            return leading_loop(body)
    return None


def needed_text(node: Node) -> str:
    """The longest text that each match surely contains."""
    match node:
        case Set(ranges):
            return classes.only(ranges)
        case Group(_, body):
            return needed_text(body)
        case Repeat(body, least, _, _):
            return needed_text(body) if least else ""
        case Sequence(parts):
            texts = [""]
            for part in parts:
                if isinstance(part, Set) and (character := classes.only(part.ranges)):
                    texts[-1] += character
                else:
                    texts += [needed_text(part), ""]
            return max(texts, key=len)
    return ""


def nests_loops(node: Node, is_inside: bool = False) -> bool:
    """Whether an unbounded loop runs inside another: what can take exponential time."""
    match node:
        case Repeat(body, _, most, _):
            return (most is None and is_inside) or nests_loops(body, is_inside or most is None)
        case Group(_, body):
            return nests_loops(body, is_inside)
        case Sequence(parts):
            return any(nests_loops(part, is_inside) for part in parts)
        case Choice(branches):
            return any(nests_loops(branch, is_inside) for branch in branches)
    return False
