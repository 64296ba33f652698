"""Owns regular expressions: the syntax of XPath's functions, compiled to programs that a matcher of our own runs.
Never runs what an author wrote on Python's `re`, whose time has no bound: every match has a budget of steps.
Called by the built-in functions on patterns.
"""

from __future__ import annotations

from functools import lru_cache

from engine.feel.patterns.matching import Ends, Meter, OutOfSteps, every, matches_nothing, search
from engine.feel.patterns.program import Compiler, Program
from engine.feel.patterns.syntax import check_flags, parse

__all__ = [
    "Ends",
    "Meter",
    "OutOfSteps",
    "Program",
    "check_flags",
    "compile_pattern",
    "every",
    "matches_nothing",
    "search",
]


@lru_cache(maxsize=256)
def compile_pattern(pattern: str, flags: str = "") -> Program:
    """The program of a pattern. Raises FeelFault: what is wrong with it or its flags, and at which character."""
    return Compiler(parse(pattern, flags), flags).program()
