"""Owns reading timer definitions: one date, duration or cycle, whose constant must be one that can come due.
Never computes when a timer is due.
Called by the readers of events and activities.
"""

from __future__ import annotations

import re
from typing import Final

from lxml import etree

from engine.bpmn.cron import parse_cron
from engine.bpmn.definition import EventDefinition, EventKind, Static, TimerDefinition, TimerKind
from engine.bpmn.expressions import read_value
from engine.bpmn.findings import Findings
from engine.bpmn.xml import BPMN
from engine.feel import DateTime, YearsMonthsDuration
from engine.feel.faults import FeelFault
from engine.feel.temporal_text import parse_date_time, parse_duration

_TAGS: Final = {
    "timeDate": TimerKind.DATE,
    "timeDuration": TimerKind.DURATION,
    "timeCycle": TimerKind.CYCLE,
}
_EXAMPLES: Final = {
    TimerKind.DATE: "2026-01-31T12:00:00Z",
    TimerKind.DURATION: "PT0.5S",
    TimerKind.CYCLE: "R3/PT10S, R/PT1H or the cron expression 0 0 9 * * MON-FRI",
}
_CALENDAR_DURATION: Final = re.compile(r"P\d+[YMW][\dYMWDTHS.]*", re.ASCII)
_WEEKS: Final = re.compile(r"P\d{1,6}W", re.ASCII)
_CYCLE: Final = re.compile(r"R(\d{0,9})/(?:([^/]*)/)?([^/]*)", re.ASCII)


def read_timer(
    findings: Findings, element: etree._Element, event: etree._Element, allowed: frozenset[TimerKind]
) -> EventDefinition:
    """The timer of an event; without a value, and with a problem, where it cannot be read."""
    values = [child for child in event.iterfind(f"{{{BPMN}}}*") if etree.QName(child).localname in _TAGS]
    kinds = [_TAGS[etree.QName(child).localname] for child in values]
    names = " or ".join(f"a {kind}" for kind in TimerKind if kind in allowed)
    if len(kinds) != 1 or kinds[0] not in allowed:
        found = " and ".join(f"a {kind}" for kind in kinds) or "no value"
        findings.add(element, "invalid-timer", f"the timer has {found}", f"Give it {names}.")
        return EventDefinition(EventKind.TIMER)
    kind = kinds[0]
    value = read_value(findings, element, values[0].text or "", f"the timer's {kind}")
    if isinstance(value, Static):
        problem = _problem(kind, value.text)
        if problem is not None:
            what, remedy = problem
            message = f"the timer's {kind} `{value.text}` {what}"
            findings.add(element, "invalid-timer", message, f"Write it like {_EXAMPLES[kind]}, or {remedy}.")
    return EventDefinition(EventKind.TIMER, timer=None if value is None else TimerDefinition(kind, value))


def is_instant(text: str) -> bool:
    """Whether `text` is a date and time with an offset from UTC."""
    try:
        value = parse_date_time(text)
    except FeelFault:
        return False
    return isinstance(value, DateTime) and value.offset_s() is not None


def _problem(kind: TimerKind, text: str) -> tuple[str, str] | None:
    """What is wrong with a constant, and what to do beside writing it like the example; null if nothing is."""
    expression = "start it with = to make it a FEEL expression"
    match kind:
        case TimerKind.DATE:
            return None if is_instant(text) else ("is not an ISO 8601 date with a time and an offset", expression)
        case TimerKind.DURATION:
            return _duration_problem(text, expression)
        case TimerKind.CYCLE:
            fault = _cycle_fault(text)
            return None if fault is None else (f"is not a cycle: {fault}", expression)


def _duration_problem(text: str, expression: str) -> tuple[str, str] | None:
    if _CALENDAR_DURATION.fullmatch(text):
        return "has years, months or weeks, which do not run here", "count it in days"
    try:
        parse_duration(text)
    except FeelFault:
        return "is not an ISO 8601 duration", expression
    return ("is negative", expression) if text.startswith("-") else None


def _cycle_fault(text: str) -> str | None:
    """What keeps `text` from being `R[n]/[<start>/]<duration>` or a cron expression."""
    match = _CYCLE.fullmatch(text)
    try:
        if match is None:
            parse_cron(text)
            return None
        times, start, length = match.groups()
        if times and int(times) == 0:
            return "it repeats zero times"
        if start is not None and not is_instant(start):
            return f"its start `{start}` is not a date with a time and an offset"
        return None if _is_longer_than_zero(length) else "its interval is not longer than zero"
    except (FeelFault, ValueError) as fault:
        return str(fault)


def _is_longer_than_zero(length: str) -> bool:
    if _WEEKS.fullmatch(length):
        return any(digit != "0" for digit in length[1:-1])
    duration = parse_duration(length)
    return (duration.months if isinstance(duration, YearsMonthsDuration) else duration.ns) > 0
