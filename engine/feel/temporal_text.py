"""Owns the ISO 8601 texts of temporal values: reading and writing them in FEEL's form.
Never guesses: a text that does not fit the form exactly raises FeelFault with the reason.
Called by the temporal built-ins, the `@"..."` literal, `string()`, `to_json` and the timers of the engine.
"""

from __future__ import annotations

import re

from engine.feel.faults import FeelFault, FeelValueError
from engine.feel.temporal import (
    MAX_OFFSET_S,
    NS_PER_DAY,
    NS_PER_SECOND,
    NS_PER_US,
    Date,
    DateTime,
    DaysTimeDuration,
    Time,
    YearsMonthsDuration,
    Zone,
    date_from_epoch_days,
    tz_database,
)

Temporal = Date | Time | DateTime | DaysTimeDuration | YearsMonthsDuration

MAX_TEMPORAL_TEXT = 128
_DATE = re.compile(r"(-?)(\d{4}|[1-9]\d{4,8})-(\d\d)-(\d\d)", re.ASCII)
_TIME = re.compile(
    r"T?(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9})\d*)?(?:(Z|z)|([+-])(\d\d):(\d\d)(?::(\d\d))?|@([A-Za-z0-9_+\-/]+))?",
    re.ASCII,
)
_DAYS_TIME = re.compile(
    r"(-?)P(?:(\d{1,18})D)?(?:T(?:(\d{1,18})H)?(?:(\d{1,18})M)?(?:(\d{1,18})(?:\.(\d{1,18}))?S)?)?", re.ASCII
)
_YEARS_MONTHS = re.compile(r"(-?)P(?:(\d{1,12})Y)?(?:(\d{1,12})M)?", re.ASCII)


def _bounded(text: str) -> str:
    if len(text) > MAX_TEMPORAL_TEXT:
        raise FeelFault(f"a temporal text has at most {MAX_TEMPORAL_TEXT} characters")
    return text


def parse_date(text: str) -> Date:
    """A date such as 2024-02-29."""
    match = _DATE.fullmatch(_bounded(text))
    if match is None:
        raise FeelFault(f"{text!r} is not a date; write it as 2024-02-29")
    year = int(match[2])
    return Date(-year if match[1] else year, int(match[3]), int(match[4]))


def _fraction_ns(digits: str | None) -> int:
    return int(digits.ljust(9, "0")) if digits else 0


def _zone(match: re.Match[str]) -> Zone | None:
    if match[5]:
        return Zone(0)
    if match[6]:
        hours, minutes, seconds = int(match[7]), int(match[8]), int(match[9] or 0)
        offset_s = hours * 3600 + minutes * 60 + seconds
        if minutes > 59 or seconds > 59 or offset_s > MAX_OFFSET_S:
            raise FeelFault("a zone offset lies between -18:00 and +18:00")
        return Zone(-offset_s if match[6] == "-" else offset_s)
    if match[10]:
        tz_database(match[10])
        return Zone(None, match[10])
    return None


def parse_time(text: str) -> Time:
    """A time of day such as 10:30:00, 10:30:00.5Z, 10:30:00+01:00 or 10:30:00@Europe/Berlin."""
    match = _TIME.fullmatch(_bounded(text))
    if match is None:
        raise FeelFault(f"{text!r} is not a time; write it as 10:30:00, 10:30:00Z or 10:30:00@Europe/Berlin")
    hour, minute, second = int(match[1]), int(match[2]), int(match[3])
    if hour > 23 or minute > 59 or second > 59:
        raise FeelFault(f"{text!r} is not a time of day")
    return Time((hour * 3600 + minute * 60 + second) * NS_PER_SECOND + _fraction_ns(match[4]), _zone(match))


def parse_date_time(text: str) -> DateTime:
    """A date and time such as 2024-02-29T10:30:00Z; a bare date means midnight without a zone."""
    day, separator, rest = _bounded(text).partition("T")
    if rest.startswith("24:00:00"):  # the end of a day is the start of the next one
        end = parse_date(day)
        return DateTime(date_from_epoch_days(end.epoch_days() + 1), parse_time("00" + rest[2:]))
    return DateTime(parse_date(day), parse_time(rest) if separator else Time(0))


def parse_duration(text: str) -> DaysTimeDuration | YearsMonthsDuration:
    """A duration such as PT0.25S, P1DT2H or P1Y6M."""
    match = _DAYS_TIME.fullmatch(_bounded(text))
    if match is not None and text[-1] not in "PT":
        return DaysTimeDuration(_days_time_ns(match, text))
    match = _YEARS_MONTHS.fullmatch(text)
    if match is not None and text[-1] != "P":
        months = int(match[2] or 0) * 12 + int(match[3] or 0)
        return YearsMonthsDuration(-months if match[1] else months)
    raise FeelFault(f"{text!r} is not a duration; write it as PT0.25S, P1DT2H or P1Y6M")


def _days_time_ns(match: re.Match[str], text: str) -> int:
    fraction = match[6] or ""
    if fraction[9:].strip("0"):
        raise FeelFault(f"{text!r} is finer than a nanosecond")
    seconds = int(match[2] or 0) * 86_400 + int(match[3] or 0) * 3600 + int(match[4] or 0) * 60 + int(match[5] or 0)
    ns = seconds * NS_PER_SECOND + _fraction_ns(fraction[:9])
    return -ns if match[1] else ns


def parse_temporal(text: str) -> Temporal:
    """What `@"text"` means: the one temporal value whose form the text has."""
    if text[:1] == "P" or text[:2] == "-P":
        return parse_duration(text)
    if ":" not in text:
        return parse_date(text)
    return parse_date_time(text) if _DATE.match(text) else parse_time(text)


def parse_duration_us(text: str) -> int:
    """Microseconds of an ISO 8601 days-and-time duration such as PT5S, PT0.25S or P1DT2H.

    Raises FeelValueError when the text is no such duration, is measured in months or years (they have no fixed
    length), or is finer than a microsecond.
    """
    try:
        duration = parse_duration(text)
    except FeelFault as fault:
        raise FeelValueError(fault.cause) from fault
    if isinstance(duration, YearsMonthsDuration):
        raise FeelValueError(f"{text!r} is measured in months, which have no fixed length; use days and time")
    if duration.ns % NS_PER_US:
        raise FeelValueError(f"{text!r} is finer than a microsecond")
    return duration.us


def _seconds_text(ns: int) -> str:
    whole, fraction = divmod(ns, NS_PER_SECOND)
    return f"{whole}.{fraction:09}".rstrip("0") if fraction else str(whole)


def _zone_text(zone: Zone | None) -> str:
    if zone is None:
        return ""
    if zone.offset_s is None:
        return f"@{zone.name}"
    if zone.offset_s == 0:
        return "Z"
    minutes, seconds = divmod(abs(zone.offset_s), 60)
    text = f"{'-' if zone.offset_s < 0 else '+'}{minutes // 60:02}:{minutes % 60:02}"
    return f"{text}:{seconds:02}" if seconds else text


def _date_text(day: Date) -> str:
    return f"{'-' if day.year < 0 else ''}{abs(day.year):04}-{day.month:02}-{day.day:02}"


def _time_text(time: Time) -> str:
    text = f"{time.hour:02}:{time.minute:02}:{time.second:02}"
    fraction = time.ns_of_day % NS_PER_SECOND
    if fraction:
        text += f".{fraction:09}".rstrip("0")
    return text + _zone_text(time.zone)


def _days_time_text(duration: DaysTimeDuration) -> str:
    days, rest = divmod(abs(duration.ns), NS_PER_DAY)
    hours, rest = divmod(rest, 3600 * NS_PER_SECOND)
    minutes, rest = divmod(rest, 60 * NS_PER_SECOND)
    clock = (f"{hours}H" if hours else "") + (f"{minutes}M" if minutes else "")
    clock += f"{_seconds_text(rest)}S" if rest else ""
    if not days and not clock:
        return "PT0S"
    return f"{'-' if duration.ns < 0 else ''}P{f'{days}D' if days else ''}{f'T{clock}' if clock else ''}"


def _years_months_text(duration: YearsMonthsDuration) -> str:
    years, months = divmod(abs(duration.months), 12)
    if not years and not months:
        return "P0M"
    return f"{'-' if duration.months < 0 else ''}P{f'{years}Y' if years else ''}{f'{months}M' if months else ''}"


def temporal_text(value: Temporal) -> str:
    """The canonical ISO 8601 text of a temporal value."""
    match value:
        case Date():
            return _date_text(value)
        case Time():
            return _time_text(value)
        case DateTime():
            return f"{_date_text(value.date)}T{_time_text(value.time)}"
        case DaysTimeDuration():
            return _days_time_text(value)
        case YearsMonthsDuration():
            return _years_months_text(value)
