"""Owns the built-in functions on truth, presence and identity.
Never compares by more than the values themselves.
Called by compiled invocations through the table of built-ins, `is defined` only where it does not look at names.
"""

from __future__ import annotations

from engine.feel.environment import Env
from engine.feel.faults import FeelFault, LimitExceeded
from engine.feel.functions.registry import builtin
from engine.feel.values import Range, Value, kind_of


@builtin("not", "negand: boolean|null", gives="boolean", about="The opposite of a boolean; null for null")
def not_(env: Env, negand: bool | None) -> Value:
    return None if negand is None else not negand


@builtin(
    "is",
    "value1: any, value2: any",
    gives="boolean",
    about="Whether two values are the same one, of one kind, zone included",
)
def is_(env: Env, value1: Value, value2: Value) -> Value:
    return _same(env, value1, value2, 0)


def _same(env: Env, left: Value, right: Value, depth: int) -> bool:
    if kind_of(left) != kind_of(right):
        return False
    if depth > env.limits.max_value_depth:
        raise LimitExceeded("values nested too deeply to compare")
    if isinstance(left, list) and isinstance(right, list):
        env.spend(1 + len(left))
        return len(left) == len(right) and all(
            _same(env, mine, other, depth + 1) for mine, other in zip(left, right, strict=True)
        )
    if isinstance(left, dict) and isinstance(right, dict):
        env.spend(1 + len(left))
        env.compare_string(sum(map(len, left)))
        return left.keys() == right.keys() and all(
            _same(env, value, right[key], depth + 1) for key, value in left.items()
        )
    if isinstance(left, Range) and isinstance(right, Range):
        return (
            (left.start_included, left.end_included) == (right.start_included, right.end_included)
            and _same(env, left.start, right.start, depth + 1)
            and _same(env, left.end, right.end, depth + 1)
        )
    if type(left) is str:
        env.compare_string(len(left))
    return left == right


@builtin(
    "is defined",
    "value: any",
    gives="boolean",
    about="Whether a variable or an entry is there, also when null",
    origin="Camunda",
)
def is_defined(env: Env, value: Value) -> Value:
    return value is not None


@builtin(
    "get or else", "value: any, default: any", about="The value, or the default where it is null", origin="Camunda"
)
def get_or_else(env: Env, value: Value, default: Value) -> Value:
    return default if value is None else value


@builtin(
    "assert",
    "value: any, condition: any, cause?: string",
    about="The value where the condition is true, else null and a warning with the cause",
    origin="Camunda",
)
def assert_(env: Env, value: Value, condition: Value, cause: str | None = None) -> Value:
    if condition is True:
        return value
    raise FeelFault("the condition is not met" if cause is None else cause)


@builtin(
    "fromAi",
    "value: any, description?: any, type?: any, schema?: any, options?: any",
    about="The value itself, marked for a connector that lets a model supply it",
    origin="Camunda",
)
def from_ai(env: Env, value: Value, *marks: Value) -> Value:
    return value
