"""Owns the built-in functions on numbers.
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
from engine.feel.values import Number, Value


@builtin(
    "floor", "n: number, scale?: position", gives="number", about="The number rounded down, to `scale` decimal places"
)
def floor(env: Env, n: Number, scale: int | None = None) -> Value:
    return numbers.rounded(n, scale or 0, numbers.ROUNDINGS["floor"])


@builtin(
    "ceiling", "n: number, scale?: position", gives="number", about="The number rounded up, to `scale` decimal places"
)
def ceiling(env: Env, n: Number, scale: int | None = None) -> Value:
    return numbers.rounded(n, scale or 0, numbers.ROUNDINGS["ceiling"])


@builtin(
    "decimal",
    "n: number, scale: position, mode?: string",
    gives="number",
    about="The number rounded to `scale` decimal places, halves to even or by Camunda's `mode`",
)
def decimal(env: Env, n: Number, scale: int, mode: str | None = None) -> Value:
    name = "half even" if mode is None else mode.lower().replace("_", " ")
    if name == "unnecessary":
        result = numbers.rounded(n, scale, numbers.ROUNDINGS["half even"])
        if result != n:
            raise FeelFault(f"{numbers.number_text(n)} has more than {scale} decimal places")
        return result
    if name not in numbers.ROUNDINGS:
        raise FeelFault(f"'mode' must be one of {', '.join(numbers.ROUNDINGS)} or unnecessary, found {name[:40]!r}")
    return numbers.rounded(n, scale, numbers.ROUNDINGS[name])


@builtin("round up", "n: number, scale?: position", gives="number", about="The number rounded away from zero")
def round_up(env: Env, n: Number, scale: int | None = None) -> Value:
    return numbers.rounded(n, scale or 0, numbers.ROUNDINGS["up"])


@builtin("round down", "n: number, scale?: position", gives="number", about="The number rounded towards zero")
def round_down(env: Env, n: Number, scale: int | None = None) -> Value:
    return numbers.rounded(n, scale or 0, numbers.ROUNDINGS["down"])


@builtin(
    "round half up",
    "n: number, scale?: position",
    gives="number",
    about="The number rounded to the nearest, halves away from zero",
)
def round_half_up(env: Env, n: Number, scale: int | None = None) -> Value:
    return numbers.rounded(n, scale or 0, numbers.ROUNDINGS["half up"])


@builtin(
    "round half down",
    "n: number, scale?: position",
    gives="number",
    about="The number rounded to the nearest, halves towards zero",
)
def round_half_down(env: Env, n: Number, scale: int | None = None) -> Value:
    return numbers.rounded(n, scale or 0, numbers.ROUNDINGS["half down"])


@builtin(
    "modulo",
    "dividend: number, divisor: number",
    gives="number",
    about="The remainder of a division, with the sign of the divisor",
)
def modulo(env: Env, dividend: Number, divisor: Number) -> Value:
    if divisor == 0:
        raise FeelFault("'divisor' must not be 0")
    if type(dividend) is Decimal or type(divisor) is Decimal:
        env.spend(numbers.COSTLY_STEPS)
    return numbers.modulo(dividend, divisor)


@builtin("sqrt", "number: number", gives="number", about="The square root")
def sqrt(env: Env, number: Number) -> Value:
    if number < 0:
        raise FeelFault(f"'number' must not be negative, found {numbers.number_text(number)}")
    return numbers.narrowed(numbers.decimal_result(numbers.D34.sqrt, Decimal(number)))


@builtin("exp", "number: number", gives="number", about="e to the power of the number")
def exp(env: Env, number: Number) -> Value:
    env.spend(numbers.COSTLY_STEPS)
    return numbers.decimal_result(numbers.D34.exp, Decimal(number))


@builtin("log", "number: number", gives="number", about="The natural logarithm")
def log(env: Env, number: Number) -> Value:
    if number <= 0:
        raise FeelFault(f"'number' must be positive, found {numbers.number_text(number)}")
    env.spend(numbers.COSTLY_STEPS)
    return numbers.decimal_result(numbers.D34.ln, Decimal(number))


@builtin("abs", "n: quantity", about="The number or duration without its sign")
def abs_(env: Env, n: Number | DaysTimeDuration | YearsMonthsDuration) -> Value:
    if isinstance(n, DaysTimeDuration):
        return DaysTimeDuration(abs(n.ns))
    if isinstance(n, YearsMonthsDuration):
        return YearsMonthsDuration(abs(n.months))
    return operations.negate(n) if n < 0 else n


@builtin("odd", "number: number", gives="boolean", about="Whether a whole number is odd")
def odd(env: Env, number: Number) -> Value:
    return _parity(number) == 1


@builtin("even", "number: number", gives="boolean", about="Whether a whole number is even")
def even(env: Env, number: Number) -> Value:
    return _parity(number) == 0


def _parity(number: Number) -> int:
    # Beyond 34 digits a number is a multiple of ten.
    wide = isinstance(number, Decimal) and number.adjusted() >= numbers.DIGITS
    return 0 if wide else numbers.whole(number, "'number'") % 2
