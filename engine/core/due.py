"""Owns the arithmetic of waiting: when a timer of a diagram is due, and again, and how long a failed job backs off.
Never reads a clock: every instant is computed from the instant of the command.
Called by the instance when it activates a timer or starts a failed job again, and by the starts of processes.

A cycle is `R[n]/[<start>/]<duration>` or a cron expression (engine.bpmn.cron). It keeps to its own rhythm however late
it fires. When it could not keep up - the next repetition is due already, after a suspension or a downtime - what was
missed is not made up for in a burst: it fires once and goes on one whole interval from then, as Camunda 8 does
(RepeatingInterval.nextOccurrenceAfter of its bpmn-model). A missed repetition is not counted.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

from engine.bpmn.cron import Cron, parse_cron
from engine.bpmn.definition import TimerKind
from engine.feel import DateTime, DaysTimeDuration, kind_of
from engine.feel.faults import FeelFault
from engine.feel.temporal import NS_PER_US, YearsMonthsDuration, instant
from engine.feel.temporal_text import parse_date_time, parse_duration

FIRST_BACK_OFF_US = 100_000
LAST_BACK_OFF_US = 10_000_000
FURTHEST_US = 253_402_300_800_000_000  # the year 10000

_PLAIN = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{3}(?:\d{3})?)?Z", re.ASCII)
_CYCLE = re.compile(r"R(\d{0,9})/(?:([^/]*)/)?([^/]*)", re.ASCII)
_WEEKS = re.compile(r"P(\d{1,6})W", re.ASCII)
_MAX_TEXT = 256
_WEEK_US = 7 * 86_400_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Repetition(NamedTuple):
    """When a cycle is due, and how often again after that; null means for ever."""

    due_at_us: int
    left: int | None


def due_at_us(kind: TimerKind, value: Any, at_us: int) -> int:
    """The instant at which a timer fires, a cycle for the first time; one in the past means at once.

    `value` is a FEEL temporal value or an ISO 8601 text. Raises ValueError with what is wrong with it.
    """
    if kind is TimerKind.CYCLE:
        return next_cycle(value, at_us).due_at_us
    try:
        due = _instant(value) if kind is TimerKind.DATE else at_us + _duration(value)
    except FeelFault as fault:
        raise ValueError(str(fault)) from fault
    return max(_bounded(due), at_us)


def next_cycle(value: Any, at_us: int) -> Repetition:
    """The first repetition of the cycle `value` that begins now; a start in the past means at once.

    Raises ValueError with what is wrong with it.
    """
    cycle = _cycle(value)
    if isinstance(cycle, Cron):
        return Repetition(_later(cycle, at_us), None)
    first = cycle.after(at_us) if cycle.start_at_us is None else max(cycle.start_at_us, at_us)
    return Repetition(_bounded(first), None if cycle.times is None else cycle.times - 1)


def following(value: Any, last_due_at_us: int, at_us: int) -> int:
    """The instant of the next repetition of a cycle that was due at `last_due_at_us` and fired at `at_us`.

    Always later than `at_us`. Raises ValueError as `next_cycle` does.
    """
    cycle = _cycle(value)
    if isinstance(cycle, Cron):
        return _later(cycle, max(last_due_at_us, at_us))
    natural = cycle.after(last_due_at_us)
    return _bounded(natural if natural > at_us else cycle.after(at_us))


class _Interval(NamedTuple):
    times: int | None
    start_at_us: int | None
    us: int  # either of both is zero
    months: int

    def after(self, at_us: int) -> int:
        """One interval later. Months are those of the calendar in UTC; a day that a month lacks is its last."""
        if not self.months:
            return at_us + self.us
        try:
            return instant(at_us * NS_PER_US).plus_months(self.months).epoch_us
        except FeelFault as fault:
            raise ValueError(str(fault)) from fault


def _cycle(value: Any) -> _Interval | Cron:
    if not isinstance(value, str):
        raise ValueError(f"a cycle timer needs a text as R3/PT10S or 0 0 9 * * MON-FRI, not a {kind_of(value)}")
    return _read_cycle(value.strip())


@lru_cache(maxsize=256)
def _read_cycle(text: str) -> _Interval | Cron:
    if not text.startswith("R"):
        return parse_cron(text)
    match = _CYCLE.fullmatch(text) if len(text) <= _MAX_TEXT else None
    if match is None:
        raise ValueError(f"{text[:_MAX_TEXT]!r} is not a cycle; write it as R/PT10S, R3/PT10S or R3/<date>/PT10S")
    times, start, length = match.groups()
    if times and int(times) == 0:
        raise ValueError(f"{text!r} repeats zero times; a cycle fires at least once")
    try:
        us, months = _length(length)
        start_at_us = None if start is None else _instant(start)
    except FeelFault as fault:
        raise ValueError(str(fault)) from fault
    if us <= 0 and months <= 0:
        raise ValueError(f"{text!r} has an interval that is not longer than zero")
    return _Interval(int(times) if times else None, start_at_us, us, months)


def _length(text: str) -> tuple[int, int]:
    """Microseconds and months of an ISO 8601 duration; one of both is zero."""
    if weeks := _WEEKS.fullmatch(text):
        return int(weeks[1]) * _WEEK_US, 0
    duration = parse_duration(text)
    return (0, duration.months) if isinstance(duration, YearsMonthsDuration) else (duration.us, 0)


def _later(cron: Cron, at_us: int) -> int:
    found = cron.after(at_us)
    if found is None:
        raise ValueError("the cron expression names a day that never comes")
    return _bounded(found)


def _bounded(due: int) -> int:
    if due > FURTHEST_US:
        raise ValueError("the timer is due after the year 9999")
    return due


def _instant(value: Any) -> int:
    if isinstance(value, str):
        plain = _plain_instant(value)
        if plain is not None:
            return plain
        value = parse_date_time(value)
    if not isinstance(value, DateTime):
        raise ValueError(f"a date timer needs a date and time, not a {kind_of(value)}")
    if value.offset_s() is None:
        raise ValueError("a date timer needs an offset from UTC, as in 2024-02-29T10:30:00Z")
    return value.epoch_us


def _plain_instant(text: str) -> int | None:
    """The instant of a text as the gateway writes deadlines, read five times as fast; null for any other text."""
    if _PLAIN.fullmatch(text) is None:
        return None
    try:
        return (datetime.fromisoformat(text) - _EPOCH) // _MICROSECOND
    except ValueError:  # the year 0, the hour 24, or what the full reading has words for
        return None


def _duration(value: Any) -> int:
    if isinstance(value, str):
        value = parse_duration(value)
    if not isinstance(value, DaysTimeDuration):
        raise ValueError(f"a duration timer needs a days and time duration, not a {kind_of(value)}")
    return value.us


def job_back_off_us(attempt: int, jitter: Decimal) -> int:
    """How long a failed job waits: doubling from 0.1 s to 10 s, times 0.5 to 1.5. `jitter` is in [0, 1)."""
    doubled = min(FIRST_BACK_OFF_US << min(attempt - 1, 20), LAST_BACK_OFF_US)
    return int(doubled * (Decimal("0.5") + jitter))
