"""Owns the named properties of dates, times, durations and ranges (DMN 1.5, tables 65 to 67).
Never looks into a context: its entries are its own.
Called by the operators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, Final

from engine.feel.numbers import divide
from engine.feel.temporal import NS_PER_SECOND, Date, DateTime, DaysTimeDuration, Time, YearsMonthsDuration
from engine.feel.values import Number, Range, Value

_NS_PER_MINUTE = 60 * NS_PER_SECOND


def _toward_zero(value: int, unit: int) -> int:
    return value // unit if value >= 0 else -(-value // unit)


def _rest(value: int, unit: int) -> int:
    return value - _toward_zero(value, unit) * unit


def _second(ns: int) -> Number:
    """Seconds and their fraction in a number of nanoseconds, without its whole minutes; negative where it is."""
    return divide(_rest(ns, _NS_PER_MINUTE), NS_PER_SECOND)


def _time_offset(value: Time | DateTime) -> Value:
    offset_s = value.offset_s()
    return None if offset_s is None else DaysTimeDuration(offset_s * NS_PER_SECOND)


def _timezone(value: Time | DateTime) -> Value:
    return None if value.zone is None else value.zone.name


# A negative duration has negative parts: together they are the duration.
PROPERTIES: Final[Mapping[type, Mapping[str, Callable[[Any], Value]]]] = {
    Date: {
        "year": attrgetter("year"),
        "month": attrgetter("month"),
        "day": attrgetter("day"),
        "weekday": Date.weekday,
    },
    Time: {
        "hour": attrgetter("hour"),
        "minute": attrgetter("minute"),
        "second": lambda time: _second(time.ns_of_day),
        "time offset": _time_offset,
        "timezone": _timezone,
    },
    DateTime: {
        "year": attrgetter("date.year"),
        "month": attrgetter("date.month"),
        "day": attrgetter("date.day"),
        "weekday": lambda moment: moment.date.weekday(),
        "hour": attrgetter("time.hour"),
        "minute": attrgetter("time.minute"),
        "second": lambda moment: _second(moment.time.ns_of_day),
        "time offset": _time_offset,
        "timezone": _timezone,
    },
    DaysTimeDuration: {
        "days": lambda length: _toward_zero(length.ns, 1440 * _NS_PER_MINUTE),
        "hours": lambda length: _rest(_toward_zero(length.ns, 60 * _NS_PER_MINUTE), 24),
        "minutes": lambda length: _rest(_toward_zero(length.ns, _NS_PER_MINUTE), 60),
        "seconds": lambda length: _second(length.ns),
    },
    YearsMonthsDuration: {
        "years": lambda length: _toward_zero(length.months, 12),
        "months": lambda length: _rest(length.months, 12),
    },
    Range: {
        "start": attrgetter("start"),
        "end": attrgetter("end"),
        "start included": attrgetter("start_included"),
        "end included": attrgetter("end_included"),
    },
}
