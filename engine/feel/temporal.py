"""Owns FEEL's temporal values: dates, times, instants, the two durations, and the calendar arithmetic on them.
Never reads a clock and never formats or parses text; the one thing read from outside is the tz database.
Called by the FEEL operators and built-ins; callers of the engine read `DaysTimeDuration.us` and `DateTime.epoch_us`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from engine.feel.faults import FeelFault

NS_PER_US = 1_000
NS_PER_SECOND = 1_000_000_000
SECONDS_PER_DAY = 86_400
NS_PER_DAY = SECONDS_PER_DAY * NS_PER_SECOND
MAX_YEAR = 999_999_999
MAX_DURATION_NS = MAX_YEAR * 366 * NS_PER_DAY
MAX_DURATION_MONTHS = MAX_YEAR * 12
MAX_OFFSET_S = 18 * 3600
_ZONE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+\-]*(?:/[A-Za-z0-9_+\-]+){0,2}\Z")


def days_in_month(year: int, month: int) -> int:
    """Number of days of a month in the proleptic Gregorian calendar."""
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


# Days of 400 Gregorian years, and days from 0000-03-01 to 1970-01-01.
_DAYS_PER_ERA = 146_097
_EPOCH_FROM_MARCH_0 = 719_468


@dataclass(frozen=True, slots=True)
class Date:
    """A calendar day, proleptic Gregorian, years -999,999,999 to 999,999,999."""

    year: int
    month: int
    day: int

    def __post_init__(self) -> None:
        if not -MAX_YEAR <= self.year <= MAX_YEAR:
            raise FeelFault(f"year {self.year} is outside {-MAX_YEAR}..{MAX_YEAR}")
        if not 1 <= self.month <= 12:
            raise FeelFault(f"month {self.month} is outside 1..12")
        if not 1 <= self.day <= days_in_month(self.year, self.month):
            raise FeelFault(f"month {self.year}-{self.month:02} has no day {self.day}")

    def day_of_year(self) -> int:
        """1 for the first of January."""
        return sum(days_in_month(self.year, month) for month in range(1, self.month)) + self.day

    def epoch_days(self) -> int:
        """Days since 1970-01-01, counted from March in eras of 400 years (H. Hinnant, low-level date algorithms)."""
        era, year = divmod(self.year - (self.month <= 2), 400)
        since_march = (153 * ((self.month + 9) % 12) + 2) // 5 + self.day - 1
        return era * _DAYS_PER_ERA + year * 365 + year // 4 - year // 100 + since_march - _EPOCH_FROM_MARCH_0

    def weekday(self) -> int:
        """ISO weekday: 1 is Monday, 7 is Sunday."""
        return (self.epoch_days() + 3) % 7 + 1

    def plus_months(self, months: int) -> Date:
        """The same day `months` later, or the last day of that month when it is shorter."""
        total = self.year * 12 + self.month - 1 + months
        year, month = total // 12, total % 12 + 1
        return Date(year, month, min(self.day, days_in_month(year, month)))


def date_from_epoch_days(days: int) -> Date:
    """The date `days` after 1970-01-01, the inverse of `Date.epoch_days`. Raises FeelFault outside the years."""
    era, day_of_era = divmod(days + _EPOCH_FROM_MARCH_0, _DAYS_PER_ERA)
    year = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    since_march = day_of_era - (365 * year + year // 4 - year // 100)
    from_march = (5 * since_march + 2) // 153
    month = from_march + 3 if from_march < 10 else from_march - 9
    return Date(era * 400 + year + (month <= 2), month, since_march - (153 * from_march + 2) // 5 + 1)


@dataclass(frozen=True, slots=True)
class Zone:
    """A fixed offset from UTC in seconds, or a name of the tz database (then `offset_s` is None)."""

    offset_s: int | None
    name: str | None = None

    def offset_at(self, local: Date, ns_of_day: int) -> int:
        """Offset from UTC in seconds for a local instant; the earlier one where the clock is set back."""
        if self.offset_s is not None:
            return self.offset_s
        if not 1 <= local.year <= 9999:
            raise FeelFault(f"zone {self.name} is unknown for the year {local.year}")
        seconds = ns_of_day // NS_PER_SECOND
        at = datetime(local.year, local.month, local.day) + timedelta(seconds=seconds)  # noqa: DTZ001 - local on purpose
        offset = tz_database(str(self.name)).utcoffset(at)
        return int(offset.total_seconds()) if offset is not None else 0

    def offset_at_utc(self, epoch_ns: int) -> int:
        """Offset from UTC in seconds at an instant."""
        if self.offset_s is not None:
            return self.offset_s
        day = date_from_epoch_days(epoch_ns // NS_PER_DAY)
        if not 2 <= day.year <= 9998:
            raise FeelFault(f"zone {self.name} is unknown for the year {day.year}")
        zone = tz_database(str(self.name))
        seconds = epoch_ns % NS_PER_DAY // NS_PER_SECOND
        at = datetime(day.year, day.month, day.day, tzinfo=zone) + timedelta(seconds=seconds)
        offset = zone.fromutc(at).utcoffset()
        return int(offset.total_seconds()) if offset is not None else 0


UTC = Zone(0)


@lru_cache(maxsize=64)
def tz_database(name: str) -> ZoneInfo:
    """The rules of a named zone. Raises FeelFault for an unknown name."""
    if not _ZONE_NAME.match(name):
        raise FeelFault(f"{name!r} is not a time zone name")
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise FeelFault(f"unknown time zone {name!r}") from error


@dataclass(frozen=True, slots=True)
class Time:
    """A time of day, to the nanosecond, with or without a zone."""

    ns_of_day: int
    zone: Zone | None = None

    @property
    def hour(self) -> int:
        return self.ns_of_day // (3600 * NS_PER_SECOND)

    @property
    def minute(self) -> int:
        return self.ns_of_day // (60 * NS_PER_SECOND) % 60

    @property
    def second(self) -> int:
        return self.ns_of_day // NS_PER_SECOND % 60

    def offset_s(self) -> int | None:
        """Offset from UTC in seconds; None without a zone or with a named one, which needs a date."""
        return self.zone.offset_s if self.zone is not None else None

    def utc_ns(self) -> int:
        """Nanoseconds of day in UTC, not wrapped; a time without zone counts as UTC."""
        return self.ns_of_day - (self.offset_s() or 0) * NS_PER_SECOND


@dataclass(frozen=True, slots=True)
class DateTime:
    """A date with a time of day. Without a zone it is compared and subtracted as UTC."""

    date: Date
    time: Time

    def offset_s(self) -> int | None:
        """Offset from UTC in seconds at this instant; None without a zone."""
        zone = self.time.zone
        return None if zone is None else zone.offset_at(self.date, self.time.ns_of_day)

    def epoch_ns(self) -> int:
        """Nanoseconds since 1970-01-01T00:00:00Z."""
        offset_s = self.offset_s() or 0
        return self.date.epoch_days() * NS_PER_DAY + self.time.ns_of_day - offset_s * NS_PER_SECOND

    @property
    def epoch_us(self) -> int:
        """Microseconds since 1970-01-01T00:00:00Z, rounded down."""
        return self.epoch_ns() // NS_PER_US


def instant(epoch_ns: int, zone: Zone | None = UTC) -> DateTime:
    """The instant `epoch_ns` nanoseconds after 1970-01-01T00:00:00Z as seen in `zone` (None: local, as UTC)."""
    shifted = epoch_ns if zone is None else epoch_ns + zone.offset_at_utc(epoch_ns) * NS_PER_SECOND
    return DateTime(date_from_epoch_days(shifted // NS_PER_DAY), Time(shifted % NS_PER_DAY, zone))


@dataclass(frozen=True, slots=True)
class DaysTimeDuration:
    """A length of time in nanoseconds, negative backwards."""

    ns: int

    def __post_init__(self) -> None:
        if not -MAX_DURATION_NS <= self.ns <= MAX_DURATION_NS:
            raise FeelFault("the duration is too long")

    @property
    def us(self) -> int:
        """The duration in microseconds, rounded down."""
        return self.ns // NS_PER_US


@dataclass(frozen=True, slots=True)
class YearsMonthsDuration:
    """A length of time in calendar months, negative backwards."""

    months: int

    def __post_init__(self) -> None:
        if not -MAX_DURATION_MONTHS <= self.months <= MAX_DURATION_MONTHS:
            raise FeelFault("the duration is too long")
