"""Owns running a pattern's program on a text, with a budget of steps and a stack of its own.
Never recurses, and never hands what an author wrote to Python's `re`.
Called by the built-in functions on patterns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TypeAlias

from engine.feel.faults import FeelFault
from engine.feel.patterns.classes import are_variants
from engine.feel.patterns.openings import MAX_TEXT
from engine.feel.patterns.program import (
    CHOOSE,
    END,
    FIXED,
    JUMP,
    LAZY_LOOP,
    LAZY_RETRY,
    LEAVE,
    LINE_START,
    LITERAL,
    LOOP,
    MATCH,
    REFERENCE,
    RETRY,
    SAVE,
    SPLIT,
    START,
    Program,
)

# The ends of the match and of each group, in pairs: start and end of the match, of group 1, ... -1 where it has none.
Ends: TypeAlias = list[int]


# What an attempt costs before its first instruction.
_ATTEMPT = 3


class OutOfSteps(FeelFault):
    """A call has used up its steps."""


class Meter:
    """The steps that a call may take. A step is one instruction, or reading 32 characters."""

    __slots__ = ("left", "most")

    def __init__(self, most: int) -> None:
        self.most = most
        self.left = most

    def take(self, steps: int) -> None:
        """Raises OutOfSteps when there are not as many left."""
        self.left -= steps
        if self.left < 0:
            raise OutOfSteps(f"the pattern needs more than {self.most} steps on this text")


def search(program: Program, text: str, start: int, meter: Meter) -> Ends | None:
    """The first match at or behind a place: of those that start first, the one that the pattern prefers."""
    if program.needed:
        found = text.find(program.needed, start)
        meter.take((found if found >= 0 else len(text)) - start >> 6)
        if found < 0:
            return None
    at = start if program.is_run else _candidate(program, text, start, meter)
    while at >= 0:
        meter.take(_ATTEMPT)
        slots = [-1] * program.slots
        end = _attempt(program, text, at, slots, meter)
        if end >= 0:
            slots[0], slots[1] = at, end
            return slots
        if program.run is not None and (found_run := program.run.match(text, at)):
            meter.take((found_run.end() - at) >> 5)
            at = found_run.end()
        at = _candidate(program, text, at + 1, meter)
    return None


def every(program: Program, text: str, meter: Meter) -> Iterator[Ends]:
    """All matches, from left to right, none overlapping another."""
    if program.whole is not None:
        meter.take(len(text) >> 5)
        for found in program.whole.finditer(text):
            meter.take(1)
            yield [*found.span()]
        return
    at = 0
    while at <= len(text) and (slots := search(program, text, at, meter)) is not None:
        yield slots
        at = slots[1] if slots[1] > slots[0] else slots[1] + 1


def matches_nothing(program: Program, meter: Meter) -> bool:
    """Whether the pattern matches the text without characters."""
    return search(program, "", 0, meter) is not None


def _candidate(program: Program, text: str, at: int, meter: Meter) -> int:
    """Where the next match can start; -1 where none can."""
    if at > len(text):
        return -1
    if program.tail and program.run is not None:
        return _run_before(program.tail, program.run, program.least, text, at, meter)
    if program.lead is not None:
        end = min(len(text), at + ((meter.left + 2) << 5) // program.lead_cost + 32)
        found = program.lead.search(text, at, end + MAX_TEXT)
        place = found.start() if found else end
        meter.take((place - at) * program.lead_cost >> 5)
        return place if found else -1
    if program.anchor == START:
        return -1 if at else 0
    if program.anchor == LINE_START and at:
        place = text.find("\n", at - 1) + 1
        meter.take(abs(place - at) >> 7)
        return place if 0 < place < len(text) else -1
    return at


def _run_before(tail: str, run: re.Pattern[str], least: int, text: str, at: int, meter: Meter) -> int:
    """Where the first run starts, at or behind a place, that a tail follows; -1 where there is none."""
    place = at
    while True:
        end = text.find(tail, place)
        meter.take(1 + ((end if end >= 0 else len(text)) - place >> 6))
        if end < 0:
            return -1
        length = _length_before(run, text, at, end, meter)
        if length >= least:
            return end - length
        place = end + 1


def _length_before(run: re.Pattern[str], text: str, start: int, end: int, meter: Meter) -> int:
    """How many characters right before a place are of a run; none before the start are counted."""
    most = 256
    while True:
        before = text[max(start, end - most) : end]
        meter.take(len(before) >> 5)
        found = run.match(before[::-1])
        length = found.end() if found else 0
        if length < len(before) or len(before) < most:
            return length
        most *= 4


def _attempt(program: Program, text: str, at: int, slots: list[int], meter: Meter) -> int:
    """Where a match that starts right here ends; -1 where there is none. Sets the slots of the groups.

    One loop, longer than others, because a call for each instruction would double its time. Most frequent ones first.
    The stack holds where to go back to: an instruction, a place in the text, and for a loop the last place it may end
    at; or, below zero, a slot and what it held.
    """
    code, steps = program.code, meter.left
    stack: list[tuple[int, int, int]] = []
    pc = extra = 0
    while True:
        steps -= 1
        if steps < 0:
            meter.take(meter.left + 1)
        op, a, b, c, d = code[pc]
        pc += 1
        if op == LITERAL:
            if text.startswith(a, at):
                at += b
                continue
        elif op == FIXED:
            if a(text, at):
                at += b
                steps -= c
                continue
        elif op == LOOP:
            low, extra = at + b, a(text, at, at + c).end()
            if extra >= low:
                steps -= (extra - at) >> 5
                if d is None:
                    at = extra
                    pc += 1
                else:
                    at = low  # and on to the retry behind it
                continue
        elif op == RETRY:
            low, at = at, text.rfind(a, at, extra + len(a)) if a else extra
            steps -= (extra - max(low, at)) >> 7
            if at >= 0:
                if at > low:
                    stack.append((pc - 1, low, at - 1))
                continue
        elif op == SPLIT:
            pc, other = (a, b) if c else (b, a)
            stack.append((other, at, 0))
            continue
        elif op == CHOOSE:
            pc = a if c(text, at) else b
            continue
        elif op == SAVE:
            if stack:
                stack.append((-1 - a, slots[a], 0))
            slots[a] = at
            continue
        elif op == JUMP:
            pc = a
            continue
        elif op == MATCH:
            meter.left = steps
            return at
        elif op == LEAVE:
            if slots[a] == at:
                pc = code[b][2]
            continue
        elif op == LAZY_LOOP:
            low, extra = at + b, min(len(text), at + c)
            if a(text, at, low).end() == low:
                steps -= b >> 5
                at = low
                continue
        elif op == LAZY_RETRY:
            low, at = at, _next_end(a, b, text, at, extra)
            steps -= ((at if at >= 0 else extra) - low) >> 5
            if at >= 0:
                if at < extra and a(text, at, at + 1).end() > at:
                    stack.append((pc - 1, at + 1, extra))
                continue
        elif op == REFERENCE:
            length = max(0, slots[a + 1] - slots[a])
            steps -= length >> (1 if b else 5)
            if _repeats(text, slots[a], length, at, b):
                at += length
                continue
        elif _holds(op, text, at):
            continue
        while stack:  # nothing fits here: back to the last choice
            pc, at, extra = stack.pop()
            if pc >= 0:
                break
            slots[-1 - pc] = at
        else:
            meter.left = steps
            return -1


def _next_end(scan: Callable[..., re.Match[str]], follow: str, text: str, at: int, last: int) -> int:
    """The first place, at or behind this one, where a reluctant loop may end; -1 where there is none."""
    if not follow:
        return at
    end = text.find(follow, at, last + len(follow))
    return end if end >= 0 and scan(text, at, end).end() == end else -1


def _repeats(text: str, start: int, length: int, at: int, any_case: bool) -> bool:
    """Whether the text goes on with what a group has captured; where it has captured nothing, it does."""
    captured = text[start : start + length]
    if text.startswith(captured, at):
        return True
    return any_case and at + length <= len(text) and are_variants(captured, text[at : at + length])


def _holds(anchor: int, text: str, at: int) -> bool:
    """Whether an anchor fits. A newline that ends the text starts no line, and no line ends behind it."""
    if anchor == START:
        return at == 0
    if anchor == END:
        return at == len(text)
    if anchor == LINE_START:
        return at == 0 or (text[at - 1] == "\n" and at < len(text))
    return text[at] == "\n" if at < len(text) else not text.endswith("\n")
