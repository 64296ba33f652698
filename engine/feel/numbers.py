"""Owns FEEL numbers: exact integers, else decimals of 34 digits (IEEE 754 decimal128), and their arithmetic.
Never uses binary floating point; a result out of range raises FeelFault.
Called by the operators and the numeric built-ins.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import (
    ROUND_CEILING,
    ROUND_DOWN,
    ROUND_FLOOR,
    ROUND_HALF_DOWN,
    ROUND_HALF_EVEN,
    ROUND_HALF_UP,
    ROUND_UP,
    Context,
    Decimal,
    DecimalException,
    DivisionByZero,
    InvalidOperation,
    Overflow,
    Underflow,
)

from engine.feel.faults import FeelFault
from engine.feel.values import Number

ROUNDINGS = {
    "floor": ROUND_FLOOR,
    "ceiling": ROUND_CEILING,
    "up": ROUND_UP,
    "down": ROUND_DOWN,
    "half up": ROUND_HALF_UP,
    "half down": ROUND_HALF_DOWN,
    "half even": ROUND_HALF_EVEN,
}
DIGITS = 34
# A power, exponential or logarithm of 34 digits takes about as long as this many steps.
COSTLY_STEPS = 50
INT_LIMIT = 10**DIGITS
D34 = Context(
    prec=DIGITS,
    rounding=ROUND_HALF_EVEN,
    Emin=-6143,
    Emax=6144,
    capitals=1,
    clamp=0,
    flags=[],
    traps=[InvalidOperation, DivisionByZero, Overflow, Underflow],
)
# Wide enough for the whole quotient of the largest and the smallest number.
_EXACT = Context(prec=12_500, Emin=-20_000, Emax=20_000, traps=[InvalidOperation, DivisionByZero])


def _rounding_context(rounding: str) -> Context:
    context = D34.copy()
    context.rounding = rounding
    return context


_ROUNDING_CONTEXTS = {rounding: _rounding_context(rounding) for rounding in ROUNDINGS.values()}


def decimal_result(operation: Callable[..., Decimal], *operands: Number | str) -> Decimal:
    """`operation` of the decimal context on the operands; a decimal error becomes a FeelFault."""
    try:
        return operation(*operands)
    except DivisionByZero as error:
        raise FeelFault("division by zero") from error
    except Overflow as error:
        raise FeelFault("the number is too large") from error
    except Underflow as error:
        raise FeelFault("the number is too near to zero") from error
    except DecimalException as error:
        raise FeelFault("the operation has no numeric result") from error


def bounded(value: int) -> Number:
    """An integer as it is while it has at most 34 digits, else rounded to 34 digits."""
    if -INT_LIMIT < value < INT_LIMIT:
        return value
    if value.bit_length() > 25_000:
        raise FeelFault("the number is too large")
    return decimal_result(D34.create_decimal, value)


def narrowed(value: Decimal) -> Number:
    """A decimal without fraction as an integer when it has at most 34 digits."""
    if value.adjusted() < DIGITS and value == value.to_integral_value():
        return int(value)
    return value


def add(left: Number, right: Number) -> Number:
    if type(left) is int and type(right) is int:
        return bounded(left + right)
    return decimal_result(D34.add, left, right)


def subtract(left: Number, right: Number) -> Number:
    if type(left) is int and type(right) is int:
        return bounded(left - right)
    return decimal_result(D34.subtract, left, right)


def multiply(left: Number, right: Number) -> Number:
    if type(left) is int and type(right) is int:
        return bounded(left * right)
    return decimal_result(D34.multiply, left, right)


def divide(left: Number, right: Number) -> Number:
    if right == 0:
        raise FeelFault("division by zero")
    if type(left) is int and type(right) is int and left % right == 0:
        return bounded(left // right)
    return decimal_result(D34.divide, left, right)


def power(base: Number, exponent: Number) -> Number:
    if base == 0 and exponent < 0:
        raise FeelFault("division by zero")
    if type(base) is int and type(exponent) is int and 0 <= exponent <= 128 and base.bit_length() * exponent <= 128:
        return bounded(base**exponent)
    return decimal_result(D34.power, Decimal(base), Decimal(exponent))


def rounded(value: Number, scale: int, rounding: str) -> Number:
    """`value` with at most `scale` decimal places (negative: tens, hundreds, ...), rounded as named."""
    if not -6111 <= scale <= 6176:
        raise FeelFault(f"'scale' must lie between -6111 and 6176, found {scale}")
    if type(value) is int and scale >= 0:
        return value
    number = Decimal(value)
    exponent = number.as_tuple().exponent
    if isinstance(exponent, int) and exponent >= -scale:
        return narrowed(number) if scale <= 0 else number
    result = decimal_result(_ROUNDING_CONTEXTS[rounding].quantize, number, Decimal((0, (1,), -scale)))
    return narrowed(result) if scale <= 0 else result


def modulo(dividend: Number, divisor: Number) -> Number:
    """The remainder with the sign of the divisor: dividend - divisor * floor(dividend / divisor)."""
    if divisor == 0:
        raise FeelFault("division by zero")
    if type(dividend) is int and type(divisor) is int:
        return dividend % divisor
    remainder = decimal_result(_EXACT.remainder, dividend, divisor)
    if remainder and (remainder < 0) != (divisor < 0):
        remainder = decimal_result(_EXACT.add, remainder, divisor)
    return decimal_result(D34.plus, remainder)


def whole(value: Number, what: str) -> int:
    """`value` as an integer. Raises FeelFault when it has a fraction or more than 34 digits."""
    if type(value) is int:
        return value
    number = narrowed(Decimal(value))
    if type(number) is not int:
        raise FeelFault(f"{what} must be a whole number, found {value}")
    return number


def number_text(value: Number) -> str:
    """Plain digits without exponent and without trailing zeros."""
    if type(value) is int:
        return str(value)
    text = f"{value:f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text
