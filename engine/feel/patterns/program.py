"""Owns turning the tree of a pattern into instructions for the matcher, and what they say about where to look.
Never matches a text.
Called by `compile_pattern`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from engine.feel.faults import FeelFault
from engine.feel.patterns import classes
from engine.feel.patterns.classes import Ranges
from engine.feel.patterns.syntax import Anchor, Choice, Group, Node, Reference, Repeat, Sequence, Set

MAX_INSTRUCTIONS = 5_000
_MAX_FIXED = 64
_MAX_TEXT = 8

# Operation, and up to three operands. A retry follows its loop: it is where the matcher goes back to.
Instruction: TypeAlias = tuple[int, Any, Any, Any]
LITERAL, FIXED, LOOP, RETRY, LAZY_LOOP, LAZY_RETRY, SPLIT, CHOOSE, JUMP, SAVE, LEAVE, REFERENCE = range(12)
START, END, LINE_START, LINE_END, MATCH = range(12, 17)


class First(NamedTuple):
    """What a match of a part can start with, whether it may be empty, and the text that it surely starts with."""

    ranges: Ranges
    empty: bool
    text: str = ""


_ANYTHING = First(classes.EVERYTHING, True)
_NOTHING = First(classes.NOTHING, True)


@dataclass(frozen=True, slots=True)
class Program:
    """A pattern, ready to run. `slots` hold the ends of the groups (0 and 1 are the match), then loops' marks."""

    code: tuple[Instruction, ...]
    slots: int
    groups: int
    anchor: int  # START or LINE_START where every match begins there, otherwise MATCH
    lead_text: str  # every match starts with this text
    lead: re.Pattern[str] | None  # finds a character that a match can start with
    run: re.Pattern[str] | None  # where an attempt has failed, all that start in this run fail too
    whole: re.Pattern[str] | None  # matches as all the instructions do, in one step
    literal: str  # the text that the pattern is, if it is one


class Compiler:
    """Writes the instructions of one pattern; what follows a part decides how it is tried."""

    def __init__(self, root: Node, groups: int, flags: str) -> None:
        literal = "q" in flags
        self.any_case = "i" in flags
        self.lines = "m" in flags and not literal
        self.groups = groups
        self.root = root
        self.slots = 2 * groups + 2
        self.code: list[Instruction] = []
        self.known: dict[tuple[int, bool], First] = {}
        self.opening: re.Pattern[str] | None = None

    def program(self) -> Program:
        self.emit(self.root, _NOTHING)
        self.add(MATCH)
        starts = self.first(self.root, closing=False)
        anchored = _anchored(self.root)
        is_led = not starts.empty and not anchored
        lead_text = starts.text if is_led else ""
        lead = classes.scanner(starts.ranges) if is_led and starts.ranges != classes.EVERYTHING else None
        return Program(
            code=tuple(self.code),
            slots=self.slots,
            groups=self.groups,
            anchor=(LINE_START if self.lines else START) if anchored else MATCH,
            lead_text=lead_text,
            lead=None if lead_text else lead,
            run=None if any(op == REFERENCE for op, *_ in self.code) else _leading_run(self.root),
            whole=self._whole(),
            literal=self.code[0][1] if self.code[0][0] == LITERAL and len(self.code) == 2 else "",
        )

    def _whole(self) -> re.Pattern[str] | None:
        """One scan that does what the program does, unless searching with it takes more than linear time."""
        operation, _, least, _ = self.code[0]
        if operation == FIXED and len(self.code) == 2 and least <= _MAX_TEXT:
            return self.opening
        if operation == LOOP and len(self.code) == 3 and least <= 1:
            return self.opening
        return None

    def add_scan(self, operation: int, scan: re.Pattern[str], b: Any, c: Any = None) -> None:
        if not self.code:
            self.opening = scan
        self.add(operation, scan.match, b, c)

    def add(self, operation: int, a: Any = None, b: Any = None, c: Any = None) -> int:
        if len(self.code) >= MAX_INSTRUCTIONS:
            raise FeelFault(f"the pattern is too large: its counts unfold to more than {MAX_INSTRUCTIONS} steps")
        self.code.append((operation, a, b, c))
        return len(self.code) - 1

    def first(self, node: Node, closing: bool = True) -> First:
        """With `closing`, an end of the text or line counts as what no character but a newline can follow."""
        key = id(node), closing
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = self._first(node, closing)
        return found

    def _first(self, node: Node, closing: bool) -> First:
        match node:
            case Set(ranges):
                return First(ranges, False, classes.only(ranges))
            case Sequence(parts):
                return self._first_of(parts, closing)
            case Choice(branches):
                found = [self.first(branch, closing) for branch in branches]
                ranges = classes.union(*(each.ranges for each in found))
                return First(ranges, any(each.empty for each in found))
            case Repeat(body, least, most, _):
                inner = self.first(body, closing)
                if not most and most is not None:
                    return _NOTHING
                is_empty = inner.empty or not least
                if isinstance(body, Set) and inner.text and least:
                    return First(inner.ranges, False, inner.text * min(least, _MAX_TEXT))
                return First(inner.ranges, is_empty, "" if is_empty else inner.text)
            case Group(_, body):
                return self.first(body, closing)
            case Anchor(start):
                if start or not closing:
                    return _NOTHING
                return First(classes.each_of("\n") if self.lines else classes.NOTHING, False)
        return _ANYTHING

    def _first_of(self, parts: tuple[Node, ...], closing: bool) -> First:
        ranges, text, literal = classes.NOTHING, "", True
        is_empty = True
        for part in parts:
            found = self.first(part, closing)
            if is_empty:
                ranges = classes.union(ranges, found.ranges)
            literal = literal and not found.empty
            if literal:
                text += found.text
                literal = len(text) < _MAX_TEXT and isinstance(part, Set) and bool(found.text)
            is_empty = is_empty and found.empty
            if not is_empty and not literal:
                break
        return First(ranges, is_empty, text[:_MAX_TEXT])

    def _then(self, first: First, follow: First) -> First:
        if not first.empty:
            return first
        return First(classes.union(first.ranges, follow.ranges), follow.empty)

    def emit(self, node: Node, follow: First) -> None:
        match node:
            case Set():
                self._sequence((node,), follow)
            case Sequence(parts):
                self._sequence(parts, follow)
            case Choice(branches):
                self._choice(branches, follow)
            case Repeat(body, least, most, greedy):
                self._repeat(body, least, most, greedy, follow)
            case Group(number, body):
                self.add(SAVE, 2 * number)
                self.emit(body, follow)
                self.add(SAVE, 2 * number + 1)
            case Anchor(start):
                self.add((LINE_START if start else LINE_END) if self.lines else (START if start else END))
            case Reference(number):
                self.add(REFERENCE, 2 * number, self.any_case)

    def _sequence(self, parts: tuple[Node, ...], follow: First) -> None:
        follows = [follow] if parts else []
        for place in range(len(parts) - 1, 0, -1):
            known = follows[-1]
            if known.empty or not isinstance(parts[place], Set):
                follows.append(self._then(self.first(parts[place]), known))
            else:
                first = self.first(parts[place])
                text = (first.text + known.text)[:_MAX_TEXT] if first.text else ""
                follows.append(First(first.ranges, False, text))
        follows.reverse()
        fixed: list[Ranges] = []
        for part, after in zip(parts, follows, strict=True):
            known_run = _fixed(part)
            if known_run is None or len(fixed) + len(known_run) > _MAX_FIXED:
                self._fixed(fixed)
                fixed = []
            if known_run is None:
                self.emit(part, after)
            else:
                fixed.extend(known_run)
        self._fixed(fixed)

    def _fixed(self, sets: list[Ranges]) -> None:
        if not sets:
            return
        characters = [classes.only(ranges) for ranges in sets]
        if all(characters):
            self.add(LITERAL, "".join(characters), len(sets))
        else:
            source = "".join(
                re.escape(character) if character else classes.source_of(ranges)
                for character, ranges in zip(characters, sets, strict=True)
            )
            self.add_scan(FIXED, re.compile(source), len(sets))

    def _repeat(self, body: Node, least: int, most: int | None, greedy: bool, follow: First) -> None:
        if most == 0:
            return
        if isinstance(body, Set):
            self._loop(body.ranges, least, most, greedy, follow)
            return
        inner = self.first(body)
        again = First(classes.union(inner.ranges, follow.ranges), follow.empty or inner.empty)
        opens = self.first(body, closing=False)
        if most is None and least and not opens.empty:
            for _ in range(least - 1):
                self.emit(body, again)
            top = len(self.code)
            self.emit(body, again)
            self._fork(opens, follow, greedy, to=top)
            return
        for _ in range(least):
            self.emit(body, again)
        if most is None:
            top, fork = len(self.code), self._fork(opens, follow, greedy)
            self._turn(body, again, fork)
            self.add(JUMP, top)
            self._land(fork)
            return
        forks: list[int] = []
        for _ in range(most - least):
            forks.append(self._fork(opens, follow, greedy))
            self._turn(body, again, forks[-1])
        for fork in forks:
            self._land(fork)

    def _turn(self, body: Node, again: First, fork: int) -> None:
        """One turn of a loop; a turn that has matched nothing is the last."""
        if not self.first(body, closing=False).empty:
            self.emit(body, again)
            return
        mark = self.slots
        self.slots += 1
        self.add(SAVE, mark)
        self.emit(body, again)
        self.add(LEAVE, mark, fork)

    def _fork(self, opens: First, follow: First, greedy: bool, to: int | None = None) -> int:
        """Another turn, or go on behind it: `_land` says where that is, if not right here."""
        here = len(self.code)
        turn = here + 1 if to is None else to
        if not opens.empty and not follow.empty and not classes.overlap(opens.ranges, follow.ranges):
            return self.add(CHOOSE, turn, here + 1, classes.scanner(opens.ranges).match)
        return self.add(SPLIT, turn, here + 1, greedy)

    def _land(self, fork: int) -> None:
        operation, turn, _, last = self.code[fork]
        self.code[fork] = operation, turn, len(self.code), last

    def _loop(self, ranges: Ranges, least: int, most: int | None, greedy: bool, follow: First) -> None:
        is_sure = not follow.empty and not classes.overlap(ranges, follow.ranges)
        if greedy or is_sure:
            self.add_scan(LOOP, classes.scanner(ranges, least, most), least, None if is_sure else follow.text)
            self.add(RETRY, follow.text)
        else:
            first = classes.scanner(ranges, least, least).match
            self.add(LAZY_LOOP, first, most)
            self.add(LAZY_RETRY, classes.scanner(ranges, 0, None).match, follow.text)

    def _choice(self, branches: tuple[Node, ...], follow: First) -> None:
        rests = [_ANYTHING] * len(branches)
        rest = self._then(self.first(branches[-1]), follow)
        for place in range(len(branches) - 2, -1, -1) if len(branches) <= _MAX_FIXED else ():
            rests[place] = rest
            other = self._then(self.first(branches[place]), follow)
            rest = First(classes.union(rest.ranges, other.ranges), rest.empty or other.empty)
        jumps: list[int] = []
        for branch, rest in zip(branches[:-1], rests, strict=False):
            fork = self._fork(self.first(branch, closing=False), rest, True)
            self.emit(branch, follow)
            jumps.append(self.add(JUMP))
            self._land(fork)
        self.emit(branches[-1], follow)
        for jump in jumps:
            self.code[jump] = JUMP, len(self.code), None, None


def _fixed(node: Node) -> list[Ranges] | None:
    """The sets of a part that always takes as many characters."""
    match node:
        case Set(ranges):
            return [ranges]
        case Repeat(Set(ranges), least, most, _) if least == most and least <= _MAX_FIXED:
            return [ranges] * least
    return None


def _anchored(node: Node) -> bool:
    """Whether every match begins where a text or a line does."""
    match node:
        case Anchor(start):
            return start
        case Sequence((first, *_)):
            return _anchored(first)
        case Choice(branches):
            return all(map(_anchored, branches))
        case Group(_, body):
            return _anchored(body)
        case Repeat(body, least, _, _):
            return least > 0 and _anchored(body)
    return False


def _leading_run(node: Node) -> re.Pattern[str] | None:
    """The characters of an unbounded loop that opens the pattern: starting later in their run matches no more."""
    match node:
        case Repeat(Set(ranges), _, None, _):
            return classes.scanner(ranges, 0, None)
        case Sequence((first, *_)):
            return _leading_run(first)
        case Group(_, body):
            return _leading_run(body)
    return None
