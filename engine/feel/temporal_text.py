"""Owns the ISO 8601 texts of temporal values: reading and writing them in FEEL's form.
Never guesses: a text that does not fit the form exactly raises FeelFault with the reason.
Called by the temporal built-ins, the `@"..."` literal, `string()`, `to_json` and the timers of the engine.
"""

from __future__ import annotations

import re
from functools import lru_cache

from engine.feel.faults import FeelFault
from engine.feel.temporal import (
    MAX_OFFSET_S,
    NS_PER_DAY,
    NS_PER_SECOND,
    Date,
    DateTime,
    DaysTimeDuration,
    Time,
    YearsMonthsDuration,
    on_clock,
)
from engine.feel.zones import UTC, Zone, tz_database

Temporal = Date | Time | DateTime | DaysTimeDuration | YearsMonthsDuration

MAX_TEMPORAL_TEXT = 128
_DAY = r"(-?)(\d{4}|[1-9]\d{4,8})-(\d\d)-(\d\d)"
_CLOCK = r"(\d\d):(\d\d):(\d\d)(?:\.(\d+))?"
_OFFSET = r"([Zz]|[+-]\d\d:\d\d(?::\d\d)?)"
_NAME = r"([A-Za-z0-9_+\-/]+)"
_DATE = re.compile(_DAY, re.ASCII)
_TIME = re.compile(f"T?{_CLOCK}(?:{_OFFSET}|@{_NAME})?", re.ASCII)
# An offset with a zone in brackets is how Camunda writes a date and time with a zone into variables.
_DATE_TIME = re.compile(rf"{_DAY}(?:T{_CLOCK}(?:{_OFFSET}(?:\[{_NAME}\])?|@{_NAME})?)?", re.ASCII)
_DAYS_TIME = re.compile(r"(-?)P(?=[\dT])(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d*))?S)?)?", re.ASCII)
_YEARS_MONTHS = re.compile(r"(-?)P(?=\d)(?:(\d+)Y)?(?:(\d+)M)?", re.ASCII)


def _bounded(text: str) -> str:
    if len(text) > MAX_TEMPORAL_TEXT:
        raise FeelFault(f"a temporal text has at most {MAX_TEMPORAL_TEXT} characters")
    return text


def _day(sign: str, year: str, month: str, day: str) -> Date:
    return Date(-int(year) if sign else int(year), int(month), int(day))


def _clock_ns(text: str, hour: str, minute: str, second: str, fraction: str | None) -> int:
    """Nanoseconds from midnight; 24:00:00 is the end of the day. Digits after the ninth of a fraction are cut."""
    hours, minutes, seconds = int(hour), int(minute), int(second)
    ns = (hours * 3600 + minutes * 60 + seconds) * NS_PER_SECOND
    if fraction:
        ns += int(fraction[:9].ljust(9, "0"))
    if (hours > 23 and ns != NS_PER_DAY) or minutes > 59 or seconds > 59:
        raise FeelFault(f"{text!r} is not a time of day")
    return ns


@lru_cache(maxsize=64)
def _offset_zone(text: str) -> Zone:
    if text in ("Z", "z"):
        return UTC
    hours, minutes, seconds = (int(part or 0) for part in (text[1:3], text[4:6], text[7:9]))
    offset_s = hours * 3600 + minutes * 60 + seconds
    if minutes > 59 or seconds > 59 or offset_s > MAX_OFFSET_S:
        raise FeelFault(f"{text!r} is no offset: it lies between -14:00 and +14:00")
    return Zone(-offset_s if text[0] == "-" else offset_s)


def named_zone(name: str) -> Zone:
    """A zone of the tz database. Raises FeelFault for an unknown name."""
    tz_database(name)
    return Zone(None, name)


def parse_zone(text: str) -> Zone:
    """A zone as it stands behind a time or is named alone: Z, +01:00 or Europe/Berlin."""
    return _offset_zone(text) if re.fullmatch(_OFFSET, _bounded(text), re.ASCII) else named_zone(text)


def parse_date(text: str) -> Date:
    """A date such as 2024-02-29."""
    match = _DATE.fullmatch(_bounded(text))
    if match is None:
        raise FeelFault(f"{text!r} is not a date; write it as 2024-02-29")
    return _day(*match.groups())


def parse_time(text: str) -> Time:
    """A time of day such as 10:30:00, 10:30:00.5Z, 10:30:00+01:00 or 10:30:00@Europe/Berlin."""
    match = _TIME.fullmatch(_bounded(text))
    if match is None:
        raise FeelFault(f"{text!r} is not a time; write it as 10:30:00, 10:30:00Z or 10:30:00@Europe/Berlin")
    hour, minute, second, fraction, offset, name = match.groups()
    zone = _offset_zone(offset) if offset else named_zone(name) if name else None
    return Time(_clock_ns(text, hour, minute, second, fraction) % NS_PER_DAY, zone)


def parse_date_time(text: str) -> DateTime:
    """A date and time such as 2024-02-29T10:30:00Z; a bare date means midnight without a zone."""
    match = _DATE_TIME.fullmatch(_bounded(text))
    if match is None:
        raise FeelFault(f"{text!r} is not a date and time; write it as 2024-02-29T10:30:00Z")
    sign, year, month, day, hour, minute, second, fraction, offset, exact, name = match.groups()
    local_ns = _day(sign, year, month, day).epoch_days() * NS_PER_DAY
    if hour:
        local_ns += _clock_ns(text, hour, minute, second, fraction)
    if exact:
        return _exactly(text, local_ns, _offset_zone(offset), named_zone(exact))
    return on_clock(local_ns, _offset_zone(offset) if offset else named_zone(name) if name else None)


def _exactly(text: str, local_ns: int, offset: Zone, zone: Zone) -> DateTime:
    """The time that a clock shows while its zone has this offset, also where it shows it twice."""
    if offset.offset_s not in zone.offsets_at_local(local_ns // NS_PER_SECOND):
        raise FeelFault(f"{text!r} has an offset that is not the one of {zone.name} at that time")
    return on_clock(local_ns, zone, offset.offset_s)


@lru_cache(maxsize=256)
def parse_duration(text: str) -> DaysTimeDuration | YearsMonthsDuration:
    """A duration such as PT0.25S, P1DT2H or P1Y6M. Timers read the same few over and over: they are kept."""
    match = _DAYS_TIME.fullmatch(_bounded(text))
    if match is not None:
        return DaysTimeDuration(_days_time_ns(text, *match.groups()))
    match = _YEARS_MONTHS.fullmatch(text)
    if match is None:
        raise FeelFault(f"{text!r} is not a duration; write it as PT0.25S, P1DT2H or P1Y6M")
    sign, years, months = match.groups()
    total = int(years or 0) * 12 + int(months or 0)
    return YearsMonthsDuration(-total if sign else total)


def _days_time_ns(
    text: str,
    sign: str,
    days: str | None,
    hours: str | None,
    minutes: str | None,
    seconds: str | None,
    fraction: str | None,
) -> int:
    total = int(seconds) if seconds else 0
    if minutes:
        total += int(minutes) * 60
    if hours:
        total += int(hours) * 3600
    if days:
        total += int(days) * 86_400
    ns = total * NS_PER_SECOND
    if fraction:
        if fraction[9:].strip("0"):
            raise FeelFault(f"{text!r} is finer than a nanosecond")
        ns += int(fraction[:9].ljust(9, "0"))
    return -ns if sign else ns


def parse_temporal(text: str) -> Temporal:
    """What `@"text"` means: the one temporal value whose form the text has."""
    if text[:1] == "P" or text[:2] == "-P":
        return parse_duration(text)
    colon = text.find(":")
    if colon < 0:
        return parse_date(text)
    return parse_date_time(text) if 0 < text.find("T") < colon else parse_time(text)


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


def _time_text(ns_of_day: int, zone: Zone | None) -> str:
    seconds, fraction = divmod(ns_of_day, NS_PER_SECOND)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    if fraction:
        text += f".{fraction:09}".rstrip("0")
    return text + _zone_text(zone)


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
            return _time_text(value.ns_of_day, value.zone)
        case DateTime():
            return f"{_date_text(value.date)}T{_time_text(value.local_ns % NS_PER_DAY, value.zone)}"
        case DaysTimeDuration():
            return _days_time_text(value)
        case YearsMonthsDuration():
            return _years_months_text(value)
