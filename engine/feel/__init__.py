"""Owns FEEL, the expression language of diagrams and decision tables, compiled to closures.
Never knows BPMN or DMN, reads no clock, random source or file, and never runs Python from a text.
Called by DMN, the BPMN definition side and the core.
"""

from engine.feel.border import to_json
from engine.feel.environment import DEFAULT_LIMITS, EvaluationContext, FeelLimits, FeelWarning
from engine.feel.expression import Expression, compile_expression, compile_unary_tests
from engine.feel.faults import FeelSyntaxError, FeelValueError
from engine.feel.functions.registry import Builtin, builtins
from engine.feel.temporal import (
    Date,
    DateTime,
    DaysTimeDuration,
    Time,
    YearsMonthsDuration,
    date_and_time,
    instant,
)
from engine.feel.temporal_text import temporal_text
from engine.feel.values import FeelFunction, Range, Value, kind_of
from engine.feel.zones import UTC, Zone

__all__ = [
    "DEFAULT_LIMITS",
    "UTC",
    "Builtin",
    "Date",
    "DateTime",
    "DaysTimeDuration",
    "EvaluationContext",
    "Expression",
    "FeelFunction",
    "FeelLimits",
    "FeelSyntaxError",
    "FeelValueError",
    "FeelWarning",
    "Range",
    "Time",
    "Value",
    "YearsMonthsDuration",
    "Zone",
    "builtins",
    "compile_expression",
    "compile_unary_tests",
    "date_and_time",
    "instant",
    "kind_of",
    "temporal_text",
    "to_json",
]
