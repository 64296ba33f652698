"""Owns the built-in functions that make temporal values and read the calendar.
Never reads a clock: `now()` and `today()` stand in `outside`.
Called by compiled invocations through the table of built-ins.
"""

from __future__ import annotations

from engine.feel.environment import Env
from engine.feel.faults import FeelFault
from engine.feel.functions.registry import builtin
from engine.feel.numbers import ROUNDINGS, multiply, rounded
from engine.feel.temporal import (
    MAX_OFFSET_S,
    NS_PER_SECOND,
    Date,
    DateTime,
    DaysTimeDuration,
    Time,
    YearsMonthsDuration,
    date_and_time,
    days_in_month,
    instant,
)
from engine.feel.temporal_text import parse_date, parse_date_time, parse_duration, parse_time, parse_zone
from engine.feel.values import Number, Value, kind_of
from engine.feel.zones import UTC, Zone

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


@builtin("date", "from: any", "year: integer, month: integer, day: integer", about="A date, from a text or its parts")
def date(env: Env, first: Value, month: int | None = None, day: int = 0) -> Value:
    if month is not None:
        return Date(_whole(first), month, day)
    if isinstance(first, str):
        return parse_date(first)
    if isinstance(first, DateTime):
        return first.date
    if isinstance(first, Date):
        return first
    raise FeelFault(f"cannot make a date from a {kind_of(first)}")


def _whole(value: Value) -> int:
    if isinstance(value, int) and type(value) is not bool:
        return value
    raise FeelFault(f"expected a number, found {kind_of(value)}")


@builtin(
    "time",
    "from: any",
    "hour: integer, minute: integer, second: number, offset?: any",
    about="A time of day, from a text or its parts; the offset is a duration or null",
)
def time(env: Env, first: Value, minute: int | None = None, second: Number = 0, offset: Value = None) -> Value:
    if minute is not None:
        return _time_of_parts(_whole(first), minute, second, offset)
    if isinstance(first, str):
        return parse_time(first)
    if isinstance(first, DateTime):
        return first.time
    if isinstance(first, Date):
        return Time(0, UTC)
    if isinstance(first, Time):
        return first
    raise FeelFault(f"cannot make a time from a {kind_of(first)}")


def _time_of_parts(hour: int, minute: int, second: Number, offset: Value) -> Time:
    if not (0 <= hour < 24 and 0 <= minute < 60 and 0 <= second < 60):
        raise FeelFault("hour, minute or second is out of range")
    ns = int(rounded(multiply(second, NS_PER_SECOND), 0, ROUNDINGS["down"]))
    return Time((hour * 3600 + minute * 60) * NS_PER_SECOND + ns, _offset_zone(offset))


def _offset_zone(offset: Value) -> Zone | None:
    if offset is None:
        return None
    if not isinstance(offset, DaysTimeDuration) or abs(offset.ns) > MAX_OFFSET_S * NS_PER_SECOND:
        raise FeelFault("an offset is a duration between -PT14H and PT14H")
    if offset.ns % NS_PER_SECOND:
        raise FeelFault("an offset has whole seconds")
    return Zone(offset.ns // NS_PER_SECOND)


@builtin(
    "date and time",
    "from: any",
    "date: any, time: any",
    "date: any, timezone: string",
    about="A date and time, from a text, from date and time, or as another zone shows it",
)
def date_and_time_of(env: Env, first: Value, *clock: Value) -> Value:
    if clock:
        return _joined(first, clock[0])
    if isinstance(first, str):
        return parse_date_time(first)
    if isinstance(first, DateTime):
        return first
    if isinstance(first, Date):
        return date_and_time(first, Time(0))
    raise FeelFault(f"cannot make a date and time from a {kind_of(first)}")


def _joined(first: Value, clock: Value) -> Value:
    if isinstance(first, DateTime) and isinstance(clock, str):
        return instant(first.utc_ns, parse_zone(clock))
    day = first.date if isinstance(first, DateTime) else first
    if isinstance(day, Date) and isinstance(clock, Time):
        return date_and_time(day, clock)
    raise FeelFault(f"cannot join a {kind_of(first)} and a {kind_of(clock)}")


@builtin("duration", "from: any", about="A duration, from a text such as P1DT2H or P1Y6M")
def duration(env: Env, text: Value) -> Value:
    if isinstance(text, str):
        return parse_duration(text)
    if isinstance(text, DaysTimeDuration | YearsMonthsDuration):
        return text
    raise FeelFault(f"cannot make a duration from a {kind_of(text)}")


def _day(value: Value, name: str = "date") -> Date:
    if isinstance(value, DateTime):
        return value.date
    if isinstance(value, Date):
        return value
    raise FeelFault(f"'{name}' must be a date, found {kind_of(value)}")


@builtin("years and months duration", "from: any, to: any", about="Whole months between two dates")
def years_and_months_duration(env: Env, start: Value, end: Value) -> Value:
    first, last = _day(start, "from"), _day(end, "to")
    months = (last.year - first.year) * 12 + last.month - first.month
    if months > 0 and last.day < first.day:
        months -= 1
    elif months < 0 and last.day > first.day:
        months += 1
    return YearsMonthsDuration(months)


@builtin("day of week", "date: any", about="The English name of the day")
def day_of_week(env: Env, day: Value) -> Value:
    return _WEEKDAYS[_day(day).weekday() - 1]


@builtin("day of year", "date: any", about="The number of the day in its year, from 1")
def day_of_year(env: Env, day: Value) -> Value:
    return _day(day).day_of_year()


@builtin("week of year", "date: any", about="The number of the week by ISO 8601, from 1 to 53")
def week_of_year(env: Env, day: Value) -> Value:
    return _day(day).week_of_year()


@builtin("month of year", "date: any", about="The English name of the month")
def month_of_year(env: Env, day: Value) -> Value:
    return _MONTHS[_day(day).month - 1]


@builtin("last day of month", "date: any", about="The last date of the month", origin="Camunda")
def last_day_of_month(env: Env, day: Value) -> Value:
    of = _day(day)
    return Date(of.year, of.month, days_in_month(of.year, of.month))
