"""Owns cron expressions: six fields, seconds first, as Camunda 8 reads them, and the next instant that matches one.
Never reads a clock or a time zone: fields are UTC, and the instant to count from comes with the call.
Called by engine.core.due for cycles that do not begin with R, and by the dialect to check such texts.

Source: the expressions of Spring Framework 5.3 (org.springframework.scheduling.support.CronExpression), which is the
dialect that Camunda 8 names in its documentation of timer events. Every field has to match, both day fields included.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

from engine.feel.faults import FeelFault
from engine.feel.temporal import Date, date_from_epoch_days, days_in_month

_SECOND_US = 1_000_000
_DAY_S = 86_400
_FURTHEST_DAYS = 366 * 100  # 29 February falls on one weekday again within 40 years: what is later never comes
_MAX_TEXT = 256

MACROS = {
    "@yearly": "0 0 0 1 1 *",
    "@annually": "0 0 0 1 1 *",
    "@monthly": "0 0 0 1 * *",
    "@weekly": "0 0 0 * * 0",
    "@daily": "0 0 0 * * *",
    "@midnight": "0 0 0 * * *",
    "@hourly": "0 0 * * * *",
}
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")

_ITEM = re.compile(r"(?:(\*|\?)|(\w+)(?:-(\w+))?)(?:/(\d{1,4}))?", re.ASCII)
_LAST_DAY = re.compile(r"L(?:-(\d{1,2}))?", re.ASCII)
_NEAREST = re.compile(r"(\d{1,2}|L)W", re.ASCII)
_LAST_WEEKDAY = re.compile(r"([0-7]|[A-Z]{3})L", re.ASCII)
_NTH_WEEKDAY = re.compile(r"([0-7]|[A-Z]{3})#([1-5])", re.ASCII)


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    least: int
    most: int
    names: dict[str, int] = field(default_factory=dict)
    blank: bool = False  # whether `?` may stand for `*`


_FIELDS = (
    _Field("second", 0, 59),
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of month", 1, 31, blank=True),
    _Field("month", 1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    _Field("day of week", 0, 7, {name: number for number, name in enumerate(_WEEKDAYS)}, blank=True),
)
_DAY, _WEEKDAY = _FIELDS[3], _FIELDS[5]


@dataclass(frozen=True, slots=True)
class _Days:
    """The days of a month that one item of a day field means, where plain numbers cannot say it."""

    kind: str  # last | nearest | last weekday | nth weekday
    number: int  # days before the last; the day; the ISO weekday
    nth: int = 0

    def of(self, year: int, month: int) -> int:
        """The day of that month; 0 where it has none."""
        length = days_in_month(year, month)
        if self.kind == "last":
            return max(length - self.number, 0)
        if self.kind == "nearest":
            return _nearest(year, month, self.number or length) if self.number <= length else 0
        first = (self.number - Date(year, month, 1).weekday()) % 7 + 1
        if self.kind == "last weekday":
            return first + (length - first) // 7 * 7
        day = first + 7 * (self.nth - 1)
        return day if day <= length else 0


def _nearest(year: int, month: int, day: int) -> int:
    """The working day, Monday to Friday, of that month that lies nearest to `day`."""
    weekday = Date(year, month, day).weekday()
    if weekday == 6:
        return day - 1 if day > 1 else 3
    if weekday == 7:
        return day + 1 if day < days_in_month(year, month) else day - 2
    return day


@dataclass(frozen=True, slots=True)
class Cron:
    """A parsed expression. Numbers are sorted; weekdays are ISO (1 is Monday)."""

    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    special_days: tuple[_Days, ...]
    special_weekdays: tuple[_Days, ...]

    def after(self, at_us: int) -> int | None:
        """The first matching instant later than `at_us`, whole seconds; null when there is none."""
        day, second = divmod(at_us // _SECOND_US + 1, _DAY_S)
        last = day + _FURTHEST_DAYS
        while day <= last:
            try:
                date = date_from_epoch_days(day)
            except FeelFault:
                return None
            if date.month not in self.months:
                day += days_in_month(date.year, date.month) - date.day + 1
                second = 0
                continue
            found = self._second_of_day(second) if self._falls_on(date) else None
            if found is not None:
                return (day * _DAY_S + found) * _SECOND_US
            day, second = day + 1, 0
        return None

    def _falls_on(self, date: Date) -> bool:
        return (
            date.day in self.days or any(each.of(date.year, date.month) == date.day for each in self.special_days)
        ) and (
            date.weekday() in self.weekdays
            or any(each.of(date.year, date.month) == date.day for each in self.special_weekdays)
        )

    def _second_of_day(self, earliest: int) -> int | None:
        for hour in self.hours:
            if hour * 3600 + 3599 < earliest:
                continue
            for minute in self.minutes:
                start = hour * 3600 + minute * 60
                if start + 59 < earliest:
                    continue
                for second in self.seconds:
                    if start + second >= earliest:
                        return start + second
        return None


@lru_cache(maxsize=256)
def parse_cron(text: str) -> Cron:
    """The expression that `text` is: six fields or a macro such as @daily. Raises ValueError with every problem."""
    if len(text) > _MAX_TEXT:
        raise ValueError(f"a cron expression has at most {_MAX_TEXT} characters")
    if text.startswith("@") and text not in MACROS:
        raise ValueError(f"`{text}` is no macro of cron; there are {', '.join(MACROS)}")
    parts = MACROS.get(text, text).split()
    if len(parts) != len(_FIELDS):
        names = ", ".join(each.name for each in _FIELDS)
        raise ValueError(f"`{text}` is no cron expression: it has {len(parts)} fields, and needs 6: {names}")
    problems: list[str] = []
    numbers: list[frozenset[int]] = []
    special: dict[str, list[_Days]] = {_DAY.name: [], _WEEKDAY.name: []}
    for which, part in zip(_FIELDS, parts, strict=True):
        found: set[int] = set()
        for item in part.upper().split(","):
            try:
                if which.blank and (rule := _special(which, item)) is not None:
                    special[which.name].append(rule)
                else:
                    found.update(_numbers(which, item))
            except ValueError as error:
                problems.append(str(error))
        numbers.append(frozenset(found))
    if problems:
        raise ValueError(f"`{text}` is no cron expression: {'; '.join(problems)}")
    seconds, minutes, hours, days, months, weekdays = numbers
    return Cron(
        tuple(sorted(seconds)),
        tuple(sorted(minutes)),
        tuple(sorted(hours)),
        days,
        months,
        frozenset(_iso(each) for each in weekdays),
        tuple(special[_DAY.name]),
        tuple(special[_WEEKDAY.name]),
    )


def _iso(weekday: int) -> int:
    return weekday or 7


def _special(which: _Field, item: str) -> _Days | None:
    if which is _DAY:
        if match := _LAST_DAY.fullmatch(item):
            return _Days("last", int(match[1] or 0))
        if match := _NEAREST.fullmatch(item):
            return _Days("nearest", 0 if match[1] == "L" else _number(which, match[1]))
        return None
    if match := _LAST_WEEKDAY.fullmatch(item):
        return _Days("last weekday", _iso(_number(which, match[1])))
    if match := _NTH_WEEKDAY.fullmatch(item):
        return _Days("nth weekday", _iso(_number(which, match[1])), int(match[2]))
    return None


def _number(which: _Field, text: str) -> int:
    number = which.names.get(text)
    if number is None:
        if not text.isdecimal():
            raise ValueError(f"`{text}` is no {which.name}")
        number = int(text)
    if not which.least <= number <= which.most:
        raise ValueError(f"the {which.name} {text} is outside {which.least}..{which.most}")
    return number


def _numbers(which: _Field, item: str) -> range:
    match = _ITEM.fullmatch(item)
    if match is None or (match[1] == "?" and not which.blank):
        raise ValueError(f"`{item}` is no {which.name}")
    every, first, last, step = match.groups()
    if step is not None and int(step) == 0:
        raise ValueError(f"`{item}` steps by zero")
    least, most = which.least, which.most
    if every is None:
        least = _number(which, first)
        most = _number(which, last) if last else (most if step else least)
        if which is _WEEKDAY and last in ("SUN", "0"):
            most = 7
        if least > most and which is _WEEKDAY and least == 7:
            least = 0
        if least > most:
            raise ValueError(f"`{item}` begins after its end")
    return range(least, most + 1, int(step or 1))
