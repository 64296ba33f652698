"""Owns turning the tree of a pattern into instructions for the matcher, and what they say about where to look.
Never matches a text.
Called by `compile_pattern`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, TypeAlias

from engine.feel.faults import FeelFault
from engine.feel.patterns import classes
from engine.feel.patterns.classes import Ranges
from engine.feel.patterns.openings import (
    ANYTHING,
    MAX_RANGES,
    MAX_TEXT,
    NOTHING,
    First,
    Openings,
    either,
    is_anchored,
    leading_loop,
    needed_text,
    nests_loops,
    prefixes,
    then,
)
from engine.feel.patterns.syntax import Anchor, Choice, Group, Node, Reference, Repeat, Sequence, Set, Tree

MAX_INSTRUCTIONS = 2_000
_MAX_FIXED = 64
_NO_BOUND = 1 << 40
# Steps that making an instruction takes, and a class of many ranges.
_COST, _LARGE_COST = 4, 4_000

# Operation, and up to four operands. A retry follows its loop: it is where the matcher goes back to.
Instruction: TypeAlias = tuple[int, Any, Any, Any, Any]
LITERAL, FIXED, LOOP, RETRY, LAZY_LOOP, LAZY_RETRY, SPLIT, CHOOSE, JUMP, SAVE, LEAVE, REFERENCE = range(12)
START, END, LINE_START, LINE_END, MATCH = range(12, 17)


@dataclass(frozen=True, slots=True)
class Program:
    """A pattern, ready to run. `slots` hold the ends of the groups (0 and 1 are the match), then loops' marks."""

    code: tuple[Instruction, ...]
    slots: int
    groups: int
    cost: int  # steps that making this program has taken
    anchor: int  # START or LINE_START where every match begins there, otherwise MATCH
    lead: re.Pattern[str] | None  # finds where a match without an anchor can start
    lead_cost: int  # steps for each 32 characters that `lead` reads
    is_run: bool  # `lead` finds none in the midst of a run: where the search starts has to be tried too
    tail: str  # what must follow the run that opens each match: the run is found backwards from there
    least: int  # how long that run is at least
    run: re.Pattern[str] | None  # where an attempt has failed, all that start in this run fail too
    needed: str  # no match is without this text
    whole: re.Pattern[str] | None  # matches as all the instructions do, in one step
    literal: str  # the text that the pattern is, if it is one


class Compiler:
    """Writes the instructions of one pattern; what follows a part decides how it is tried."""

    def __init__(self, tree: Tree, flags: str) -> None:
        self.any_case = "i" in flags
        self.lines = "m" in flags and "q" not in flags
        self.root, self.groups, self.large = tree
        self.slots = 2 * self.groups + 2
        self.code: list[Instruction] = []
        self.openings = Openings(self.lines)
        self.leading = leading_loop(self.root)
        self.after_leading = NOTHING

    def program(self) -> Program:
        self.emit(self.root, NOTHING)
        self.add(MATCH)
        refers = any(operation == REFERENCE for operation, *_ in self.code)
        anchor = (LINE_START if self.lines else START) if is_anchored(self.root) else MATCH
        run = None if refers or self.leading is None else self.leading.body
        is_sure = isinstance(run, Set) and not classes.overlap(run.ranges, self.after_leading.ranges)
        tail = self.after_leading.text if is_sure else ""
        opens = self._opening_run(self.leading) if is_sure and not tail and self.leading else None
        lead, cost = self._lead() if anchor == MATCH and opens is None else (None, 1)
        return Program(
            code=tuple(self.code),
            slots=self.slots,
            groups=self.groups,
            cost=_COST * len(self.code) + _LARGE_COST * self.large,
            anchor=anchor,
            lead=opens or lead,
            lead_cost=1 if opens else cost,
            is_run=opens is not None,
            tail=tail,
            least=self.leading.least if self.leading else 0,
            run=classes.run_of(run.ranges) if isinstance(run, Set) else None,
            needed="" if anchor == START or nests_loops(self.root) else needed_text(self.root)[:MAX_TEXT],
            whole=self._whole(),
            literal=self.code[0][1] if self.code[0][0] == LITERAL and len(self.code) == 2 else "",
        )

    def _opening_run(self, loop: Repeat) -> re.Pattern[str] | None:
        """Finds a whole run of the loop that opens the pattern, if what must follow can: a character, or the end."""
        follow = self.after_leading
        match loop.body:
            case Set(own) if not follow.empty and max(len(own), len(follow.ranges)) <= MAX_RANGES:
                source, after = classes.source_of(own), classes.source_of(follow.ranges)
                return re.compile(rf"(?<!{source}){source}{{{loop.least},}}+(?:{after}|\Z)")
        return None

    def _lead(self) -> tuple[re.Pattern[str] | None, int]:
        """Finds where a match can start, by its first characters or at least by the very first; and what that costs."""
        ways = set(prefixes(self.root))
        if all(prefix.sets for prefix in ways):
            texts = sorted({"".join(map(_source, prefix.sets)) for prefix in ways})
            return re.compile("|".join(texts)), max(1, sum(len(prefix.sets) for prefix in ways) // MAX_TEXT)
        starts = self.openings.of(self.root, closing=False)
        if starts.empty or starts.ranges == classes.EVERYTHING:
            return None, 1
        return classes.one_of(starts.ranges), 1

    def _whole(self) -> re.Pattern[str] | None:
        """One scan that does what the program does, unless searching with it takes more than linear time."""
        operation, scan, least, _, _ = self.code[0]
        if operation == LITERAL and len(self.code) == 2:
            return re.compile(re.escape(scan))
        match self.root:
            case Set(ranges):
                return classes.one_of(ranges)
            case Repeat(Set(ranges), least, most, True) if least <= 1 and most != 0:
                return re.compile(f"{classes.source_of(ranges)}{{{least},{'' if most is None else most}}}")
        return None

    def add(self, operation: int, a: Any = None, b: Any = None, c: Any = None, d: Any = None) -> int:
        if len(self.code) >= MAX_INSTRUCTIONS:
            raise FeelFault(f"the pattern is too large: its counts unfold to more than {MAX_INSTRUCTIONS} steps")
        self.code.append((operation, a, b, c, d))
        return len(self.code) - 1

    def emit(self, node: Node, follow: First) -> None:
        match node:
            case Set(ranges):
                if len(ranges) > MAX_RANGES:
                    self._loop(ranges, 1, 1, True, follow)
                else:
                    self._sequence((node,), follow)
            case Sequence(parts):
                self._sequence(parts, follow)
            case Choice(branches):
                self._choice(branches, follow)
            case Repeat(body, least, most, greedy):
                if node is self.leading:
                    self.after_leading = follow
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
                follows.append(then(self.openings.of(parts[place]), known))
            else:
                first = self.openings.of(parts[place])
                text = (first.text + known.text)[:MAX_TEXT] if first.text else ""
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
            self.add(FIXED, re.compile("".join(map(_source, sets))).match, len(sets), len(sets) >> 4)

    def _repeat(self, body: Node, least: int, most: int | None, greedy: bool, follow: First) -> None:
        if most == 0:
            return
        if isinstance(body, Set):
            self._loop(body.ranges, least, most, greedy, follow)
            return
        inner = self.openings.of(body)
        again = either([inner, follow])
        opens = self.openings.of(body, closing=False)
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
        if not self.openings.of(body, closing=False).empty:
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
        is_sure = not opens.empty and not follow.empty and not classes.overlap(opens.ranges, follow.ranges)
        if is_sure and len(opens.ranges) <= MAX_RANGES:
            return self.add(CHOOSE, turn, here + 1, classes.one_of(opens.ranges).match)
        return self.add(SPLIT, turn, here + 1, greedy)

    def _land(self, fork: int) -> None:
        operation, turn, _, how, _ = self.code[fork]
        self.code[fork] = operation, turn, len(self.code), how, None

    def _loop(self, ranges: Ranges, least: int, most: int | None, greedy: bool, follow: First) -> None:
        is_sure = least == most or (not follow.empty and not classes.overlap(ranges, follow.ranges))
        scan, most = classes.run_of(ranges).match, _NO_BOUND if most is None else most
        if greedy or is_sure:
            self.add(LOOP, scan, least, most, None if is_sure else follow.text)
            self.add(RETRY, follow.text)
        else:
            self.add(LAZY_LOOP, scan, least, most)
            self.add(LAZY_RETRY, scan, follow.text)

    def _choice(self, branches: tuple[Node, ...], follow: First) -> None:
        rests = [ANYTHING] * len(branches)
        rest = then(self.openings.of(branches[-1]), follow)
        for place in range(len(branches) - 2, -1, -1) if len(branches) <= _MAX_FIXED else ():
            rests[place] = rest
            other = then(self.openings.of(branches[place]), follow)
            rest = either([rest, other])
        jumps: list[int] = []
        for branch, rest in zip(branches[:-1], rests, strict=False):
            fork = self._fork(self.openings.of(branch, closing=False), rest, True)
            self.emit(branch, follow)
            jumps.append(self.add(JUMP))
            self._land(fork)
        self.emit(branches[-1], follow)
        for jump in jumps:
            self.code[jump] = JUMP, len(self.code), None, None, None


def _source(ranges: Ranges) -> str:
    return re.escape(classes.only(ranges)) or classes.source_of(ranges)


def _fixed(node: Node) -> list[Ranges] | None:
    """The sets of a part that always takes as many characters."""
    match node:
        case Set(ranges) if len(ranges) <= MAX_RANGES:
            return [ranges]
        case Repeat(Set(ranges), least, most, _) if least == most and least <= _MAX_FIXED:
            return [ranges] * least if len(ranges) <= MAX_RANGES else None
    return None
