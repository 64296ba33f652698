"""Owns the built-in functions that make temporal values.
Never reads a clock: `now()` and `today()` stand in `outside`.
Called by compiled invocations through the table of built-ins.
"""

from __future__ import annotations

from decimal import Decimal

from engine.feel.environment import Env
from engine.feel.faults import FeelFault
from engine.feel.functions.registry import builtin
from engine.feel.numbers import D34, decimal_result, whole
from engine.feel.temporal import (
    MAX_OFFSET_S,
    NS_PER_SECOND,
    Date,
    DateTime,
    DaysTimeDuration,
    Time,
    YearsMonthsDuration,
    Zone,
)
from engine.feel.temporal_text import parse_date, parse_date_time, parse_duration, parse_time
from engine.feel.values import Number, Value, kind_of

_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)


@builtin("date", "from: any", "year: integer, month: integer, day: integer")
def date(env: Env, first: Value, month: int = 0, day: int = 0) -> Value:
    if isinstance(first, int) and type(first) is not bool:
        return Date(first, month, day)
    if isinstance(first, str):
        return parse_date(first)
    if isinstance(first, DateTime):
        return first.date
    if isinstance(first, Date):
        return first
    raise FeelFault(f"cannot make a date from a {kind_of(first)}")


@builtin(
    "time",
    "from: any",
    "hour: integer, minute: integer, second: number",
    "hour: integer, minute: integer, second: number, offset: any",
)
def time(env: Env, first: Value, minute: int = 0, second: Number = 0, offset: Value = None) -> Value:
    if isinstance(first, int) and type(first) is not bool:
        if not (0 <= first < 24 and 0 <= minute < 60 and 0 <= second < 60):
            raise FeelFault("hour, minute or second is out of range")
        ns = int(decimal_result(D34.multiply, Decimal(second), Decimal(NS_PER_SECOND)))
        return Time((first * 3600 + minute * 60) * NS_PER_SECOND + ns, _offset_zone(offset))
    if isinstance(first, str):
        return parse_time(first)
    if isinstance(first, DateTime):
        return first.time
    if isinstance(first, Date):
        return Time(0, Zone(0))
    if isinstance(first, Time):
        return first
    raise FeelFault(f"cannot make a time from a {kind_of(first)}")


def _offset_zone(offset: Value) -> Zone | None:
    if offset is None:
        return None
    if not isinstance(offset, DaysTimeDuration) or abs(offset.ns) > MAX_OFFSET_S * NS_PER_SECOND:
        raise FeelFault("an offset is a duration between -PT18H and PT18H")
    return Zone(offset.ns // NS_PER_SECOND)


@builtin("date and time", "from: any", "date: any, time: any")
def date_and_time(env: Env, first: Value, *clock: Value) -> Value:
    if clock:
        return _joined(first, clock[0])
    if isinstance(first, str):
        return parse_date_time(first)
    if isinstance(first, DateTime):
        return first
    if isinstance(first, Date):
        return DateTime(first, Time(0))
    raise FeelFault(f"cannot make a date and time from a {kind_of(first)}")


def _joined(first: Value, clock: Value) -> Value:
    day = first.date if isinstance(first, DateTime) else first
    if isinstance(day, Date) and isinstance(clock, Time):
        return DateTime(day, clock)
    raise FeelFault(f"cannot join a {kind_of(first)} and a {kind_of(clock)}")


@builtin("duration", "from: any")
def duration(env: Env, text: Value) -> Value:
    if isinstance(text, str):
        return parse_duration(text)
    if isinstance(text, DaysTimeDuration | YearsMonthsDuration):
        return text
    raise FeelFault(f"cannot make a duration from a {kind_of(text)}")


def _day(value: Value) -> Date:
    if isinstance(value, DateTime):
        return value.date
    if isinstance(value, Date):
        return value
    raise FeelFault(f"'from' must be a date, found {kind_of(value)}")


@builtin("years and months duration", "from: any, to: any")
def years_and_months_duration(env: Env, start: Value, end: Value) -> Value:
    first, last = _day(start), _day(end)
    months = (last.year - first.year) * 12 + last.month - first.month
    if months > 0 and last.day < first.day:
        months -= 1
    elif months < 0 and last.day > first.day:
        months += 1
    return YearsMonthsDuration(whole(months, "the duration"))


@builtin("day of week", "date: any")
def day_of_week(env: Env, day: Value) -> Value:
    return _WEEKDAYS[_day(day).weekday() - 1]


@builtin("day of year", "date: any")
def day_of_year(env: Env, day: Value) -> Value:
    return _day(day).day_of_year()


@builtin("month of year", "date: any")
def month_of_year(env: Env, day: Value) -> Value:
    return _MONTHS[_day(day).month - 1]
