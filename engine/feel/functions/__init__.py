"""Owns the built-in functions, one module for each kind of value; importing this package fills the table.
Never looks at syntax.
Called by `engine.feel.expression`.
"""

from engine.feel.functions import (
    aggregates,
    contexts,
    conversion,
    lists,
    logic,
    numeric,
    outside,
    patterns,
    ranges,
    strings,
    temporal,
)
from engine.feel.functions.registry import BUILTINS

__all__ = [
    "BUILTINS",
    "aggregates",
    "contexts",
    "conversion",
    "lists",
    "logic",
    "numeric",
    "outside",
    "patterns",
    "ranges",
    "strings",
    "temporal",
]
