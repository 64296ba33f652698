"""Owns the built-in functions on numbers and on booleans.
Never uses binary floating point.
Called by compiled invocations through the table of built-ins.
"""

from __future__ import annotations

from decimal import Decimal

from engine.feel import numbers, operations
from engine.feel.environment import Env
from engine.feel.faults import FeelFault
from engine.feel.functions.registry import builtin
from engine.feel.temporal import DaysTimeDuration, YearsMonthsDuration
from engine.feel.values import Number, Value, is_number, kind_of


@builtin("floor", "n: number, scale?: integer")
def floor(env: Env, n: Number, scale: int | None = None) -> Value:
    return numbers.rounded(n, scale or 0, numbers.ROUNDINGS["floor"])


@builtin("ceiling", "n: number, scale?: integer")
def ceiling(env: Env, n: Number, scale: int | None = None) -> Value:
    return numbers.rounded(n, scale or 0, numbers.ROUNDINGS["ceiling"])


@builtin("decimal", "n: number, scale: integer")
def decimal(env: Env, n: Number, scale: int) -> Value:
    return numbers.rounded(n, scale, numbers.ROUNDINGS["half even"])


@builtin("round up", "n: number, scale: integer", "n: number")
def round_up(env: Env, n: Number, scale: int = 0) -> Value:
    return numbers.rounded(n, scale, numbers.ROUNDINGS["up"])


@builtin("round down", "n: number, scale: integer", "n: number")
def round_down(env: Env, n: Number, scale: int = 0) -> Value:
    return numbers.rounded(n, scale, numbers.ROUNDINGS["down"])


@builtin("round half up", "n: number, scale: integer", "n: number")
def round_half_up(env: Env, n: Number, scale: int = 0) -> Value:
    return numbers.rounded(n, scale, numbers.ROUNDINGS["half up"])


@builtin("round half down", "n: number, scale: integer", "n: number")
def round_half_down(env: Env, n: Number, scale: int = 0) -> Value:
    return numbers.rounded(n, scale, numbers.ROUNDINGS["half down"])


@builtin("modulo", "dividend: number, divisor: number")
def modulo(env: Env, dividend: Number, divisor: Number) -> Value:
    return numbers.modulo(dividend, divisor)


@builtin("sqrt", "number: number")
def sqrt(env: Env, number: Number) -> Value:
    if number < 0:
        raise FeelFault("a negative number has no square root")
    return numbers.narrowed(numbers.decimal_result(numbers.D34.sqrt, Decimal(number)))


@builtin("exp", "number: number")
def exp(env: Env, number: Number) -> Value:
    env.spend(numbers.COSTLY_STEPS)
    return numbers.decimal_result(numbers.D34.exp, Decimal(number))


@builtin("log", "number: number")
def log(env: Env, number: Number) -> Value:
    if number <= 0:
        raise FeelFault("only a positive number has a logarithm")
    env.spend(numbers.COSTLY_STEPS)
    return numbers.decimal_result(numbers.D34.ln, Decimal(number))


@builtin("abs", "n: any")
def abs_(env: Env, n: Value) -> Value:
    if isinstance(n, list) and len(n) == 1:
        n = n[0]
    if is_number(n):
        return operations.negate(n) if n < 0 else n
    if isinstance(n, DaysTimeDuration):
        return DaysTimeDuration(abs(n.ns))
    if isinstance(n, YearsMonthsDuration):
        return YearsMonthsDuration(abs(n.months))
    raise FeelFault(f"'n' must be a number or a duration, found {kind_of(n)}")


@builtin("odd", "number: number")
def odd(env: Env, number: Number) -> Value:
    return numbers.whole(number, "the number") % 2 == 1


@builtin("even", "number: number")
def even(env: Env, number: Number) -> Value:
    return numbers.whole(number, "the number") % 2 == 0


@builtin("not", "negand: any")
def not_(env: Env, negand: Value) -> Value:
    if type(negand) is bool:
        return not negand
    if negand is None:
        return None
    raise FeelFault("the argument is neither true nor false")
