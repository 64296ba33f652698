"""Owns the grammar of regular expressions as XPath's functions define it: XML Schema's and what XPath adds.
Never matches anything.
Called by the programs of patterns. Source: XPath and XQuery Functions and Operators 3.1, section 5.6.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, NoReturn, TypeAlias

from engine.feel.faults import FeelFault
from engine.feel.patterns import classes
from engine.feel.patterns.blocks import BLOCKS
from engine.feel.patterns.classes import Ranges

MAX_PATTERN = 4_000
MAX_COUNT = 1_000_000
_MAX_GROUPS = 1_000
_MAX_DEPTH = 40
_LARGE = 64
_MAX_LARGE = 20
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"} | {each: each for each in "\\|.?*+(){}-[]^$"}
_MANY = "sSiIcCdDwW"
_QUANTIFIERS = {"?": (0, 1), "*": (0, None), "+": (1, None)}
_WHITE = "\t\n\r "


@dataclass(frozen=True, slots=True, eq=False)
class Set:
    """One character of a set."""

    ranges: Ranges


@dataclass(frozen=True, slots=True, eq=False)
class Sequence:
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    branches: tuple[Node, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Repeat:
    """`most` is None where there is no upper bound."""

    body: Node
    least: int
    most: int | None
    greedy: bool


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """A capturing group; they count from 1."""

    number: int
    body: Node


@dataclass(frozen=True, slots=True, eq=False)
class Anchor:
    start: bool


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """What the group of that number has captured, once more."""

    number: int


Node: TypeAlias = Set | Sequence | Choice | Repeat | Group | Anchor | Reference


def check_flags(flags: str) -> None:
    """Raises FeelFault where a letter is none of s, m, i, x, q."""
    for flag in flags:
        if flag not in "smixq":
            raise FeelFault(f"there is no flag {flag!r}; the flags are s, m, i, x and q")


class Tree(NamedTuple):
    """A pattern that was read: how many groups capture, and how many classes of many ranges the author has made."""

    root: Node
    groups: int
    large: int


def parse(pattern: str, flags: str) -> Tree:
    """The tree of a pattern. Raises FeelFault: what is wrong, and at which character."""
    check_flags(flags)
    if len(pattern) > MAX_PATTERN:
        raise FeelFault(f"the pattern has more than {MAX_PATTERN} characters")
    if "q" in flags:
        sets = (classes.each_of(each) for each in pattern)
        return Tree(Sequence(tuple(Set(classes.in_any_case(each) if "i" in flags else each) for each in sets)), 0, 0)
    places = _without_white_space(pattern) if "x" in flags else list(range(len(pattern)))
    parser = _Parser("".join(pattern[place] for place in places), [*places, len(pattern)], flags)
    node = parser.choice(0)
    if parser.at < len(parser.text):
        parser.fail("')' closes no group", "write '\\\\)' for the character")
    return Tree(node, parser.opened, parser.large)


def _without_white_space(pattern: str) -> list[int]:
    """The places of the characters that the flag `x` leaves: all but white space outside of classes."""
    kept: list[int] = []
    depth, escaped = 0, False
    for place, character in enumerate(pattern):
        if character in _WHITE and not depth:
            continue
        kept.append(place)
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif character == "[":
            depth += 1
        elif character == "]" and depth:
            depth -= 1
    return kept


class _Parser:
    """One pass over the characters; `at` is the next one, `places` says where each stands in the pattern."""

    def __init__(self, text: str, places: list[int], flags: str) -> None:
        self.text = text
        self.places = places
        self.any_case = "i" in flags
        self.dot = classes.EVERYTHING if "s" in flags else classes.complement(classes.each_of("\n\r"))
        self.at = 0
        self.opened = self.large = 0
        self.closed: set[int] = set()

    def fail(self, what: str, hint: str = "", at: int | None = None) -> NoReturn:
        place = self.places[self.at if at is None else at] + 1
        raise FeelFault(f"the pattern is wrong at character {place}: {what}{'; ' if hint else ''}{hint}")

    def peek(self) -> str:
        return self.text[self.at] if self.at < len(self.text) else ""

    def take(self, wanted: str) -> bool:
        if self.text.startswith(wanted, self.at):
            self.at += len(wanted)
            return True
        return False

    def choice(self, depth: int) -> Node:
        branches = [self._branch(depth)]
        while self.take("|"):
            branches.append(self._branch(depth))
        if len(branches) == 1:
            return branches[0]
        if all(isinstance(branch, Set) for branch in branches):
            return Set(classes.union(*(branch.ranges for branch in branches if isinstance(branch, Set))))
        return Choice(tuple(branches))

    def _branch(self, depth: int) -> Node:
        parts: list[Node] = []
        while (character := self.peek()) and character not in "|)":
            part = self._repeated(self._atom(character, depth))
            parts.extend(part.parts if isinstance(part, Sequence) else (part,))
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _repeated(self, atom: Node) -> Node:
        bounds = self._quantifier()
        if bounds is None:
            return atom
        greedy = not self.take("?")
        if self.peek() and self.peek() in "?*+{":
            self.fail("a quantifier follows a quantifier", "put what it repeats into a group")
        return Repeat(atom, *bounds, greedy)

    def _quantifier(self) -> tuple[int, int | None] | None:
        start, character = self.at, self.peek()
        if character in _QUANTIFIERS:
            self.at += 1
            return _QUANTIFIERS[character]
        if not self.take("{"):
            return None
        least = self._count()
        most: int | None = least
        if self.take(","):
            most = None if self.peek() == "}" else self._count()
        if not self.take("}"):
            self.fail("a count ends with '}'", "write {n}, {n,} or {n,m}")
        if most is not None and most < least:
            self.fail(f"the count {{{least},{most}}} ends before it starts", at=start)
        return least, most

    def _count(self) -> int:
        start = self.at
        while self.peek() and self.peek() in "0123456789":
            self.at += 1
        digits = self.text[start : self.at].lstrip("0")
        if start == self.at:
            self.fail("a count is a whole number", "write {n}, {n,} or {n,m}")
        if len(digits) > 7 or int(digits or 0) > MAX_COUNT:
            self.fail(f"a count is at most {MAX_COUNT}", at=start)
        return int(digits or 0)

    def _atom(self, character: str, depth: int) -> Node:
        start = self.at
        self.at += 1
        match character:
            case "(":
                return self._group(start, depth)
            case "[":
                return Set(self._class(0))
            case "\\":
                if self.peek() and self.peek() in "123456789":
                    return self._reference(start)
                return Set(self._escape(start)[0])
            case ".":
                return Set(self.dot)
            case "^" | "$":
                return Anchor(character == "^")
            case "?" | "*" | "+" | "{":
                self.fail("there is nothing to repeat", f"write '\\\\{character}' for the character", start)
            case "]" | "}":
                self.fail(f"{character!r} closes nothing", f"write '\\\\{character}' for the character", start)
        return Set(self._cased(classes.each_of(character)))

    def _group(self, start: int, depth: int) -> Node:
        if depth >= _MAX_DEPTH:
            self.fail(f"groups are nested deeper than {_MAX_DEPTH} levels", at=start)
        number = 0
        if self.take("?"):
            if not self.take(":"):
                self.fail(
                    "only '(?:' may open a group with '?'", "look-around and named groups do not exist here", start
                )
        else:
            self.opened = number = self.opened + 1
            if number > _MAX_GROUPS:
                self.fail(f"more than {_MAX_GROUPS} groups capture", "write '(?:'", start)
        body = self.choice(depth + 1)
        if not self.take(")"):
            self.fail("this group is not closed", "write '\\\\(' for the character", start)
        if not number:
            return body
        self.closed.add(number)
        return Group(number, body)

    def _reference(self, start: int) -> Node:
        number = 0
        while (digit := self.peek()) and digit in "0123456789":
            if number and number * 10 + int(digit) > self.opened:
                break
            number = number * 10 + int(digit)
            self.at += 1
        if number not in self.closed:
            state = "is not closed yet" if number <= self.opened else "does not exist"
            self.fail(f"group {number} {state} where \\{number} refers to it", at=start)
        return Reference(number)

    def _cased(self, ranges: Ranges) -> Ranges:
        return classes.in_any_case(ranges) if self.any_case else ranges

    def _escape(self, start: int) -> tuple[Ranges, str]:
        """What an escape stands for, after its backslash, and its character if it is always one."""
        character = self.peek()
        self.at += 1
        if not character:
            self.fail("a backslash ends the pattern", "write '\\\\\\\\' for the character", start)
        if character in _ESCAPES:
            return self._cased(classes.each_of(_ESCAPES[character])), _ESCAPES[character]
        if character in _MANY:
            return classes.many_characters(character), ""
        if character not in "pP":
            self.fail(f"'\\{character}' is no escape", at=start)
        return self._property(start, character == "P"), ""

    def _property(self, start: int, negated: bool) -> Ranges:
        end = self.text.find("}", self.at)
        if not self.take("{") or end < 0:
            self.fail("a category is written \\p{L} or \\p{IsBasicLatin}", at=start)
        name = self.text[self.at : end]
        self.at = end + 1
        ranges = BLOCKS.get(name[2:]) if name.startswith("Is") else classes.in_category(name)
        if ranges is None:
            self.fail(f"there is no category or block {name[:40]!r}", at=start)
        return classes.complement(ranges) if negated else ranges

    def _class(self, depth: int) -> Ranges:
        """The set of a class, after its '['."""
        start = self.at - 1
        if depth > _MAX_DEPTH:
            self.fail(f"classes are nested deeper than {_MAX_DEPTH} levels", at=start)
        negated = self.take("^")
        parts: list[Ranges] = []
        removed: Ranges = classes.NOTHING
        while not self.take("]"):
            if parts and self.take("-["):
                removed = self._class(depth + 1)
                if not self.take("]"):
                    self.fail("a subtraction ends its class", "write ']' after it")
                break
            parts.append(self._member(start))
        if not parts:
            self.fail("this class is empty", "write '\\\\[' for the character", start)
        ranges = classes.union(*parts)
        ranges = classes.difference(classes.complement(ranges) if negated else ranges, removed)
        if max(map(len, (*parts, removed, ranges))) > _LARGE:
            self.large += 1
            if self.large > _MAX_LARGE:
                self.fail(f"more than {_MAX_LARGE} classes are made of so many ranges", at=start)
        return ranges

    def _member(self, opened: int) -> Ranges:
        """One character, range or escape of a class."""
        start = self.at
        ranges, first = self._character(opened)
        if not first or self.peek() != "-" or self.text[self.at + 1 : self.at + 2] in ("", "[", "]"):
            return ranges
        if self.text.startswith("--[", self.at):
            return ranges
        self.at += 1
        _, last = self._character(opened)
        if not last:
            self.fail("a range ends with one character", at=start)
        if last < first:
            self.fail(f"the range {first}-{last} ends before it starts", at=start)
        return self._cased(((ord(first), ord(last)),))

    def _character(self, opened: int) -> tuple[Ranges, str]:
        start, character = self.at, self.peek()
        if not character:
            self.fail("this class is not closed", "write '\\\\[' for the character", opened)
        self.at += 1
        if character == "\\":
            return self._escape(start)
        if character == "[":
            self.fail("'[' in a class", "write '\\\\[' for the character, or '-[' to subtract", start)
        return self._cased(classes.each_of(character)), character
