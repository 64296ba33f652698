"""Owns the built-in functions, one module for each kind of value; importing this package fills the table.
Never looks at syntax.
Called by `engine.feel.expression`.
"""

from engine.feel.functions import contexts, conversion, lists, numeric, outside, strings, temporal
from engine.feel.functions.registry import BUILTINS

__all__ = ["BUILTINS", "contexts", "conversion", "lists", "numeric", "outside", "strings", "temporal"]
