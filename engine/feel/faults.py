"""Owns the ways FEEL says no: a syntax error for the author, internal faults that become null with a warning.
Never raised across the border of an evaluation, except the two public errors.
Called by every module of this package.
"""

from __future__ import annotations

import re
from unicodedata import category, east_asian_width

_LINE_BREAK = re.compile(r"\r\n|\r|\n")
_SHOWN = 100
_SHOWN_BEFORE = 60


def place(text: str, position: int) -> tuple[int, int]:
    """Line and column of an offset in a text, both counted from 1."""
    line, start = 1, 0
    for line_break in _LINE_BREAK.finditer(text, 0, position):
        line, start = line + 1, line_break.end()
    return line, position - start + 1


def pointed(text: str, position: int, opener: int | None = None) -> str:
    """The line of an offset, cut where it is long, and a caret below the place; a dash below `opener` on that line."""
    column = place(text, position)[1]
    begin = position - column + 1
    following = _LINE_BREAK.search(text, position)
    source = text[begin : following.start() if following else len(text)]
    start = max(0, column - 1 - _SHOWN_BEFORE)
    shown = "".join(character if character.isprintable() else " " for character in source[start : start + _SHOWN])
    before, after = "…" if start else "", "…" if len(source) > start + _SHOWN else ""
    marks = " " * (len(before) + _width(shown[: column - 1 - start])) + "^"
    if opener is not None and begin + start <= opener < position:
        dash = len(before) + _width(shown[: opener - begin - start])
        marks = f"{marks[:dash]}-{marks[dash + 1 :]}"
    return f"  {before}{shown}{after}\n  {marks}"


def _width(text: str) -> int:
    """The columns that a text takes in a terminal: wide characters two, marks over a letter none."""
    return sum(
        2 if east_asian_width(character) in "WF" else 0 if category(character) in ("Mn", "Me") else 1
        for character in text
    )


def counted(count: int, noun: str) -> str:
    """`1 element`, `2 elements`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


class FeelFault(Exception):
    """Internal: one operation has no value; the evaluator turns it into null and a warning."""

    def __init__(self, cause: str) -> None:
        super().__init__(cause)
        self.cause = cause


class LimitExceeded(Exception):
    """Internal: a limit of the whole evaluation is reached; the result of the expression is null."""

    def __init__(self, cause: str) -> None:
        super().__init__(cause)
        self.cause = cause


class FeelValueError(ValueError):
    """A value that the called public function cannot take; the message says which and why."""


class FeelSyntaxError(ValueError):
    """A text that is not FEEL.

    `line` and `column` count from 1 and point at the first character that does not fit, `found` is what stands
    there, `expected` what may stand there, `hint` how to repair it (may be empty). `opener` is the offset of a bracket
    that is still open there, where that is the matter: the hint names its place. `str()` renders all of it with the
    line and a caret below the place.
    """

    def __init__(
        self, text: str, position: int, found: str, expected: str, hint: str = "", opener: int | None = None
    ) -> None:
        self.text = text
        self.position = position
        self.line, self.column = place(text, position)
        self.found = found
        self.expected = expected
        self.opener = opener
        if opener is not None:
            line, column = place(text, opener)
            opened = f"column {column}" if line == self.line else f"line {line}, column {column}"
            hint = "; ".join(filter(None, (hint, f"{text[opener]!r} opened at {opened}")))
        self.hint = hint
        super().__init__(self._rendered())

    def _rendered(self) -> str:
        message = f"line {self.line}, column {self.column}: expected {self.expected}, found {self.found}"
        if self.hint:
            message += f" ({self.hint})"
        shown = pointed(self.text, self.position, self.opener)
        return f"{message}\n{shown}" if self.text.strip() else message
