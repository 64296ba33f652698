"""Owns the arithmetic of waiting: when a timer of a diagram is due and how long a failed job backs off.
Never reads a clock: every instant is computed from the instant of the command.
Called by the instance when it activates a timer or starts a failed job again.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from engine.bpmn.definition import TimerKind
from engine.feel import DateTime, DaysTimeDuration, kind_of
from engine.feel.faults import FeelFault
from engine.feel.temporal_text import parse_date_time, parse_duration

FIRST_BACK_OFF_US = 100_000
LAST_BACK_OFF_US = 10_000_000
FURTHEST_US = 253_402_300_800_000_000  # the year 10000

_PLAIN = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{3}(?:\d{3})?)?Z", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def due_at_us(kind: TimerKind, value: Any, at_us: int) -> int:
    """The instant at which a timer fires; one in the past means at once.

    `value` is a FEEL temporal value or an ISO 8601 text. Raises ValueError with what is wrong with it.
    """
    try:
        due = _instant(value) if kind is TimerKind.DATE else at_us + _duration(value)
    except FeelFault as fault:
        raise ValueError(str(fault)) from fault
    if due > FURTHEST_US:
        raise ValueError("the timer is due after the year 9999")
    return max(due, at_us)


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
