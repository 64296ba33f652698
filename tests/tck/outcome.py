"""Owns the outcome of one expected result: where it stands, whether it came out, and what came instead.
Never decides; it is what the other modules of this package agree on.
Called by all modules of this package.
"""

from __future__ import annotations

from typing import NamedTuple

NO_LEVEL = "-"


class Outcome(NamedTuple):
    """How one expected result of one test case came out.

    `file` is the test file without its ending. `expected` and `actual` are texts for a person, in FEEL's notation;
    `reasons` are warnings of the evaluation, or why there was none. All three are empty for a result that passed.
    """

    level: str
    file: str
    case: str
    node: str
    passed: bool
    expected: str = ""
    actual: str = ""
    reasons: tuple[str, ...] = ()
