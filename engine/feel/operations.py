"""Owns FEEL's operators on values: equality, order, membership, arithmetic beyond plain numbers, properties.
Never looks at syntax; an operation without a result raises FeelFault.
Called by the compiled closures and the built-ins.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from decimal import Decimal
from operator import attrgetter
from typing import Any

from engine.feel import numbers, temporal
from engine.feel.environment import Env
from engine.feel.faults import FeelFault, LimitExceeded
from engine.feel.lexer import tokenize
from engine.feel.mistakes import METHODS
from engine.feel.properties import PROPERTIES
from engine.feel.temporal import (
    NS_PER_DAY,
    Date,
    DateTime,
    DaysTimeDuration,
    Time,
    YearsMonthsDuration,
    date_from_epoch_days,
)
from engine.feel.values import Definition, FeelFunction, Number, Range, Value, is_number, kind_of

SCALARS = frozenset({"number", "string", "boolean"})


def equals(env: Env, left: Value, right: Value, depth: int = 0) -> bool | None:
    """FEEL's `=`: None for values of different kinds, otherwise deep equality."""
    if left is None or right is None:
        return left is right
    if type(left) is str and type(right) is str:
        env.compare_string(len(left))
        return left == right
    kind = kind_of(left)
    if kind != kind_of(right):
        return None
    if kind in SCALARS:
        return left == right
    if depth > env.limits.max_value_depth:
        raise LimitExceeded("values nested too deeply to compare")
    env.spend(1 + len(left) if isinstance(left, list | dict) else 1)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(
            equals(env, a, b, depth + 1) is True for a, b in zip(left, right, strict=True)
        )
    if isinstance(left, dict) and isinstance(right, dict):
        env.compare_string(sum(map(len, left)))
        return left.keys() == right.keys() and all(
            equals(env, value, right[key], depth + 1) is True for key, value in left.items()
        )
    if isinstance(left, Range) and isinstance(right, Range):
        return (
            equals(env, left.start, right.start, depth + 1) is True
            and equals(env, left.end, right.end, depth + 1) is True
            and (left.start_included, left.end_included) == (right.start_included, right.end_included)
        )
    if isinstance(left, DateTime | Time) and isinstance(right, DateTime | Time):
        return temporal.same(left, right)
    if isinstance(left, FeelFunction) and isinstance(right, FeelFunction):
        return left is right or _same_function(env, left, right, depth + 1)
    return left == right


def _same_function(env: Env, left: FeelFunction, right: FeelFunction, depth: int) -> bool:
    """Whether two functions have the same parameters, body and scope (DMN 1.5, table 53).

    The scope is the same where what the bodies read of it is: the variables of the caller, and equal local values.
    """
    first, second = left.definition, right.definition
    if first is None or second is None or left.scope is not right.scope or left.parameters != right.parameters:
        return False
    env.spend((first.end - first.start + second.end - second.start) >> 3)
    if _written(left.text, first) != _written(right.text, second):
        return False
    return len(first.captured) == len(second.captured) and all(
        name == other
        and (
            (left.frame[slot] is left and right.frame[place] is right)
            or equals(env, left.frame[slot], right.frame[place], depth) is True
        )
        for (name, slot), (other, place) in zip(first.captured, second.captured, strict=True)
    )


def _written(text: str, definition: Definition) -> list[str]:
    """The tokens of a function, without white space and comments."""
    return [token.text for token in tokenize(text[definition.start : definition.end])]


# What values of one kind are ordered by. Times and instants stand below: with and without zone they differ.
_KEYS: dict[type, Callable[[Any], Any]] = {
    int: lambda value: value,
    Decimal: lambda value: value,
    str: lambda value: value,
    Date: attrgetter("year", "month", "day"),
    Time: Time.utc_ns,
    DateTime: attrgetter("utc_ns"),
    DaysTimeDuration: attrgetter("ns"),
    YearsMonthsDuration: attrgetter("months"),
}


def order_key(value: Value) -> Any:
    """A sortable key of an ordered value. Raises FeelFault for values without an order."""
    key = _KEYS.get(type(value))
    if key is None:
        raise FeelFault(f"a {kind_of(value)} has no order")
    return key(value)


def compare(left: Value, right: Value) -> int:
    """Negative, zero or positive as `left` is before, equal to or after `right`."""
    if type(left) is not type(right) and kind_of(left) != kind_of(right):
        raise FeelFault(f"cannot compare {kind_of(left)} with {kind_of(right)}")
    if isinstance(left, DateTime | Time) and isinstance(right, DateTime | Time):
        return temporal.order(left, right)
    a, b = order_key(left), order_key(right)
    return int(a > b) - int(a < b)


def includes(interval: Range, value: Value) -> bool:
    """Whether the value lies in the interval."""
    if interval.start is not None:
        side = compare(value, interval.start)
        if side < 0 or (side == 0 and not interval.start_included):
            return False
    if interval.end is not None:
        side = compare(value, interval.end)
        if side > 0 or (side == 0 and not interval.end_included):
            return False
    return True


def satisfies(env: Env, value: Value, test: Value) -> bool | None:
    """Whether `value` passes one unary test that was evaluated to `test`: a range, a list, or an equal value."""
    if isinstance(test, Range):
        if isinstance(value, Range):
            return equals(env, value, test)
        if type(value) is str:
            env.compare_string(len(value))
        return includes(test, value)
    if isinstance(test, list) and not isinstance(value, list):
        env.compare_list(len(test))
        return any(member_matches(env, value, member) for member in test)
    if isinstance(test, list) and isinstance(value, list):
        env.compare_list(len(test))
        return equals(env, value, test) is True or any(equals(env, value, member) is True for member in test)
    return equals(env, value, test)


def member_matches(env: Env, value: Value, member: Value) -> bool:
    """Whether one element of a list of tests is equal to the value or is a range around it."""
    if isinstance(member, Range) and value is not None and not isinstance(value, Range):
        if type(value) is str:
            env.compare_string(len(value))
        try:
            return includes(member, value)
        except FeelFault:
            return False
    return equals(env, value, member) is True


def _plus_duration(value: Value, duration: DaysTimeDuration | YearsMonthsDuration, sign: int) -> Value:
    if isinstance(duration, YearsMonthsDuration):
        months = sign * duration.months
        if isinstance(value, Date):
            return value.plus_months(months)
        if isinstance(value, DateTime):
            return value.plus_months(months)
        if isinstance(value, YearsMonthsDuration):
            return YearsMonthsDuration(value.months + months)
    else:
        ns = sign * duration.ns
        if isinstance(value, Date):
            return date_from_epoch_days(value.epoch_days() + ns // NS_PER_DAY)
        if isinstance(value, DateTime):
            return value.plus_ns(ns)
        if isinstance(value, Time):
            return Time((value.ns_of_day + ns) % NS_PER_DAY, value.zone)
        if isinstance(value, DaysTimeDuration):
            return DaysTimeDuration(value.ns + ns)
    raise FeelFault(f"cannot add a {kind_of(duration)} to a {kind_of(value)}")


def add(env: Env, left: Value, right: Value) -> Value:
    """FEEL's `+` for every pair of kinds that has one."""
    if isinstance(left, str) and isinstance(right, str):
        env.check_string(len(left) + len(right))
        return left + right
    if is_number(left) and is_number(right):
        return numbers.add(left, right)
    if isinstance(right, DaysTimeDuration | YearsMonthsDuration):
        return _plus_duration(left, right, 1)
    if isinstance(left, DaysTimeDuration | YearsMonthsDuration):
        return _plus_duration(right, left, 1)
    raise FeelFault(f"cannot add {kind_of(left)} and {kind_of(right)}")


def _same_ground(left: Value, right: Value) -> None:
    """Refuse a local instant beside one with a zone: they have no order and no distance. A date is midnight UTC."""
    zoned = [
        value.zone is not None if isinstance(value, DateTime) else isinstance(value, Date) for value in (left, right)
    ]
    if zoned[0] is not zoned[1]:
        raise FeelFault("one of the two instants has no zone")


def _instant_of(value: Date | DateTime) -> int:
    return value.utc_ns if isinstance(value, DateTime) else value.epoch_days() * NS_PER_DAY


def subtract(env: Env, left: Value, right: Value) -> Value:
    """FEEL's `-` for every pair of kinds that has one."""
    if is_number(left) and is_number(right):
        return numbers.subtract(left, right)
    if isinstance(right, DaysTimeDuration | YearsMonthsDuration):
        if isinstance(left, DaysTimeDuration | YearsMonthsDuration) and type(left) is not type(right):
            raise FeelFault(f"cannot subtract a {kind_of(right)} from a {kind_of(left)}")
        return _plus_duration(left, right, -1)
    if isinstance(left, Date | DateTime) and isinstance(right, Date | DateTime):
        _same_ground(left, right)
        return DaysTimeDuration(_instant_of(left) - _instant_of(right))
    if isinstance(left, Time) and isinstance(right, Time):
        return DaysTimeDuration(left.utc_ns() - right.utc_ns())
    raise FeelFault(f"cannot subtract {kind_of(right)} from {kind_of(left)}")


def _scaled(duration: Value, operation: Callable[[Number, Number], Number], factor: Number) -> Value:
    if isinstance(duration, DaysTimeDuration):
        return DaysTimeDuration(int(numbers.rounded(operation(duration.ns, factor), 0, numbers.ROUNDINGS["half even"])))
    if isinstance(duration, YearsMonthsDuration):
        return YearsMonthsDuration(
            int(numbers.rounded(operation(duration.months, factor), 0, numbers.ROUNDINGS["down"]))
        )
    raise FeelFault(f"cannot scale a {kind_of(duration)}")


def multiply(env: Env, left: Value, right: Value) -> Value:
    """FEEL's `*`: numbers, and a duration with a number (days and time round to the nanosecond)."""
    if is_number(right):
        if is_number(left):
            return numbers.multiply(left, right)
        if isinstance(left, DaysTimeDuration | YearsMonthsDuration):
            return _scaled(left, numbers.multiply, right)
    elif is_number(left) and isinstance(right, DaysTimeDuration | YearsMonthsDuration):
        return _scaled(right, numbers.multiply, left)
    raise FeelFault(f"cannot multiply {kind_of(left)} by {kind_of(right)}")


def divide(env: Env, left: Value, right: Value) -> Value:
    """FEEL's `/`: numbers, a duration by a number, a duration by one of its kind."""
    if is_number(right):
        if is_number(left):
            return numbers.divide(left, right)
        if isinstance(left, DaysTimeDuration | YearsMonthsDuration):
            return _scaled(left, numbers.divide, right)
    if isinstance(left, DaysTimeDuration) and isinstance(right, DaysTimeDuration):
        return numbers.divide(left.ns, right.ns)
    if isinstance(left, YearsMonthsDuration) and isinstance(right, YearsMonthsDuration):
        return numbers.divide(left.months, right.months)
    raise FeelFault(f"cannot divide {kind_of(left)} by {kind_of(right)}")


def power(env: Env, left: Value, right: Value) -> Value:
    """FEEL's `**` on numbers."""
    if is_number(left) and is_number(right):
        env.spend(numbers.COSTLY_STEPS)
        return numbers.power(left, right)
    raise FeelFault(f"cannot raise {kind_of(left)} to the power of {kind_of(right)}")


def negate(value: Value) -> Value:
    """FEEL's unary minus: numbers and durations."""
    if isinstance(value, int | Decimal) and type(value) is not bool:
        return -value if type(value) is int else numbers.decimal_result(numbers.D34.minus, value)
    if isinstance(value, DaysTimeDuration):
        return DaysTimeDuration(-value.ns)
    if isinstance(value, YearsMonthsDuration):
        return YearsMonthsDuration(-value.months)
    raise FeelFault(f"cannot negate a {kind_of(value)}")


def properties(value: Value) -> Collection[str]:
    """The names of what `value.name` gives: the keys of a context, the properties of another value."""
    if isinstance(value, dict):
        return value.keys()
    known = PROPERTIES.get(type(value))
    if known is None:
        raise FeelFault(f"a {kind_of(value)} has no properties")
    return known.keys()


def property_of(env: Env, value: Value, name: str) -> Value:
    """`value.name`; on a list, the list of that property of each element."""
    if isinstance(value, list):
        env.check_list(len(value))
        env.spend(2 * sum(type(element) is not dict for element in value))
        return [
            element.get(name) if isinstance(element, dict) else property_of_element(element, name) for element in value
        ]
    if value is None:
        raise FeelFault(f"no property {name!r}: the value is null")
    if name in METHODS and not isinstance(value, dict):
        raise FeelFault(f"a {kind_of(value)} has no entry {name!r}; write {METHODS[name]}")
    if name not in properties(value):
        raise FeelFault(f"a {kind_of(value)} has no entry {name!r}")
    return value[name] if isinstance(value, dict) else PROPERTIES[type(value)][name](value)


def property_of_element(element: Value, name: str) -> Value:
    """A property of a list's element, null where the element has none."""
    read = PROPERTIES.get(type(element), {}).get(name)
    return None if read is None else read(element)
