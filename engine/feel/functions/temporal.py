"""Owns the built-in functions that make temporal values and read the calendar.
Never reads a clock: `now()` and `today()` stand in `outside`.
Called by compiled invocations through the table of built-ins.
"""

from __future__ import annotations

from engine.feel.environment import Env
from engine.feel.faults import FeelFault
from engine.feel.functions.registry import builtin
from engine.feel.numbers import ROUNDINGS, multiply, number_text, rounded
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
from engine.feel.temporal_text import (
    parse_date,
    parse_date_time,
    parse_duration,
    parse_time,
    parse_zone,
    temporal_text,
)
from engine.feel.values import Number, Value
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


@builtin(
    "date",
    "from: date source",
    "year: integer, month: integer, day: integer",
    gives="date",
    about="A date, from a text or its parts",
)
def date(env: Env, first: str | Date | DateTime | int, month: int = 0, day: int = 0) -> Value:
    if isinstance(first, int):
        return Date(first, month, day)
    return parse_date(first) if isinstance(first, str) else _day(first)


@builtin(
    "time",
    "from: time source",
    "hour: integer, minute: integer, second: number, offset?: offset|null",
    gives="time",
    about="A time of day, from a text or its parts; the offset is a duration or null",
)
def time(
    env: Env,
    first: str | Time | Date | DateTime | int,
    minute: int = 0,
    second: Number = 0,
    offset: DaysTimeDuration | None = None,
) -> Value:
    if isinstance(first, int):
        return _time_of_parts(first, minute, second, offset)
    if isinstance(first, str):
        return parse_time(first)
    if isinstance(first, DateTime):
        return first.time
    return Time(0, UTC) if isinstance(first, Date) else first


def _time_of_parts(hour: int, minute: int, second: Number, offset: DaysTimeDuration | None) -> Time:
    for name, value, end in (("hour", hour, 24), ("minute", minute, 60), ("second", second, 60)):
        if not 0 <= value < end:
            raise FeelFault(f"'{name}' must be at least 0 and less than {end}, found {number_text(value)}")
    ns = int(rounded(multiply(second, NS_PER_SECOND), 0, ROUNDINGS["down"]))
    return Time((hour * 3600 + minute * 60) * NS_PER_SECOND + ns, _offset_zone(offset))


def _offset_zone(offset: DaysTimeDuration | None) -> Zone | None:
    if offset is None:
        return None
    if abs(offset.ns) > MAX_OFFSET_S * NS_PER_SECOND or offset.ns % NS_PER_SECOND:
        found = temporal_text(offset)
        raise FeelFault(f"'offset' must be of whole seconds between -PT14H and PT14H, found {found}")
    return Zone(offset.ns // NS_PER_SECOND)


@builtin(
    "date and time",
    "from: date source",
    "date: day, time: time",
    "date: instant, timezone: string",
    gives="date and time",
    about="A date and time, from a text, from date and time, or as another zone shows it",
)
def date_and_time_of(env: Env, first: str | Date | DateTime, clock: Time | str | None = None) -> Value:
    if isinstance(clock, str):
        if isinstance(first, DateTime):
            return instant(first.utc_ns, parse_zone(clock))
        raise FeelFault("'date' must be a date and time where the second argument is a time zone, found date")
    if clock is not None and not isinstance(first, str):
        return date_and_time(_day(first), clock)
    if isinstance(first, str):
        return parse_date_time(first)
    return first if isinstance(first, DateTime) else date_and_time(first, Time(0))


@builtin("duration", "from: duration source", about="A duration, from a text such as P1DT2H or P1Y6M")
def duration(env: Env, text: str | DaysTimeDuration | YearsMonthsDuration) -> Value:
    return parse_duration(text) if isinstance(text, str) else text


def _day(value: Date | DateTime) -> Date:
    return value.date if isinstance(value, DateTime) else value


@builtin(
    "years and months duration",
    "from: day, to: day",
    gives="years and months duration",
    about="Whole months between two dates",
)
def years_and_months_duration(env: Env, start: Date | DateTime, end: Date | DateTime) -> Value:
    first, last = _day(start), _day(end)
    months = (last.year - first.year) * 12 + last.month - first.month
    if months > 0 and last.day < first.day:
        months -= 1
    elif months < 0 and last.day > first.day:
        months += 1
    return YearsMonthsDuration(months)


@builtin("day of week", "date: day", gives="string", about="The English name of the day")
def day_of_week(env: Env, day: Date | DateTime) -> Value:
    return _WEEKDAYS[_day(day).weekday() - 1]


@builtin("day of year", "date: day", gives="number", about="The number of the day in its year, from 1")
def day_of_year(env: Env, day: Date | DateTime) -> Value:
    return _day(day).day_of_year()


@builtin("week of year", "date: day", gives="number", about="The number of the week by ISO 8601, from 1 to 53")
def week_of_year(env: Env, day: Date | DateTime) -> Value:
    return _day(day).week_of_year()


@builtin("month of year", "date: day", gives="string", about="The English name of the month")
def month_of_year(env: Env, day: Date | DateTime) -> Value:
    return _MONTHS[_day(day).month - 1]


@builtin("last day of month", "date: day", gives="date", about="The last date of the month", origin="Camunda")
def last_day_of_month(env: Env, day: Date | DateTime) -> Value:
    of = _day(day)
    return Date(of.year, of.month, days_in_month(of.year, of.month))
