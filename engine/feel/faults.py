"""Owns the ways FEEL says no: a syntax error for the author, internal faults that become null with a warning.
Never raised across the border of an evaluation, except the two public errors.
Called by every module of this package.
"""

from __future__ import annotations


def place(text: str, position: int) -> tuple[int, int]:
    """Line and column of an offset in a text, both counted from 1."""
    before = text[:position]
    return before.count("\n") + 1, position - before.rfind("\n")


def pointed(text: str, position: int) -> str:
    """The line of an offset, cut where it is long, and a caret below the place."""
    line, column = place(text, position)
    source = text.split("\n")[line - 1].replace("\t", " ")
    start = max(0, column - 60)
    return f"  {source[start : start + 100]}\n  {' ' * (column - 1 - start)}^"


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
    """A value or a text that the called public function cannot take; the message says where and why."""


class FeelSyntaxError(ValueError):
    """A text that is not FEEL.

    `line` and `column` count from 1 and point at the first character that does not fit, `found` is what stands
    there, `expected` what may stand there, `hint` how to repair it (may be empty). `str()` renders all of it with
    the line and a caret below the place.
    """

    def __init__(self, text: str, position: int, found: str, expected: str, hint: str = "") -> None:
        self.text = text
        self.position = position
        self.line, self.column = place(text, position)
        self.found = found
        self.expected = expected
        self.hint = hint
        super().__init__(self._rendered())

    def _rendered(self) -> str:
        message = f"line {self.line}, column {self.column}: expected {self.expected}, found {self.found}"
        if self.hint:
            message += f" ({self.hint})"
        return f"{message}\n{pointed(self.text, self.position)}"
