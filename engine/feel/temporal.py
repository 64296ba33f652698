"""Owns FEEL's temporal values: dates, times, instants, the two durations, and the calendar arithmetic on them.
Never reads a clock and never formats or parses text.
Called by the FEEL operators and built-ins; callers of the engine read `DaysTimeDuration.us` and `DateTime.epoch_us`.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.feel.faults import FeelFault
from engine.feel.zones import DAYS_PER_ERA, SECONDS_PER_DAY, UTC, Zone

NS_PER_US = 1_000
NS_PER_SECOND = 1_000_000_000
NS_PER_DAY = SECONDS_PER_DAY * NS_PER_SECOND
MAX_YEAR = 999_999_999
# A duration may span from the first to the last of all dates.
MAX_DURATION_MONTHS = (2 * MAX_YEAR + 1) * 12
MAX_DURATION_NS = (2 * MAX_YEAR + 1) * 366 * NS_PER_DAY
# The bounds of XML Schema's time zone.
MAX_OFFSET_S = 14 * 3600
# Days from 0000-03-01 to 1970-01-01.
_EPOCH_FROM_MARCH_0 = 719_468
_DAYS_BEFORE_MONTH = (0, 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)

# The values below never change once they are made, like every FEEL value. They are not frozen, because that would
# triple the price of making one, and `now() + delay` makes two.


def days_in_month(year: int, month: int) -> int:
    """Number of days of a month in the proleptic Gregorian calendar."""
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


@dataclass(slots=True, unsafe_hash=True)
class Date:
    """A calendar day, proleptic Gregorian, years -999,999,999 to 999,999,999; the year 0 comes before the year 1."""

    year: int
    month: int
    day: int

    def __post_init__(self) -> None:
        if not -MAX_YEAR <= self.year <= MAX_YEAR:
            raise FeelFault(f"year {self.year} is outside {-MAX_YEAR}..{MAX_YEAR}")
        if not 1 <= self.month <= 12:
            raise FeelFault(f"month {self.month} is outside 1..12")
        if not 1 <= self.day <= 28 and not 1 <= self.day <= days_in_month(self.year, self.month):
            raise FeelFault(f"month {self.year}-{self.month:02} has no day {self.day}")

    def day_of_year(self) -> int:
        """1 for the first of January."""
        leap = self.month > 2 and days_in_month(self.year, 2) == 29
        return _DAYS_BEFORE_MONTH[self.month] + leap + self.day

    def week_of_year(self) -> int:
        """The week of ISO 8601: it begins on a Monday and belongs to the year in which its Thursday lies."""
        thursday = self.epoch_days() + 4 - self.weekday()
        return (date_from_epoch_days(thursday).day_of_year() - 1) // 7 + 1

    def epoch_days(self) -> int:
        """Days since 1970-01-01, counted from March in eras of 400 years (H. Hinnant, low-level date algorithms)."""
        era, year = divmod(self.year - (self.month <= 2), 400)
        since_march = (153 * ((self.month + 9) % 12) + 2) // 5 + self.day - 1
        return era * DAYS_PER_ERA + year * 365 + year // 4 - year // 100 + since_march - _EPOCH_FROM_MARCH_0

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
    era, day_of_era = divmod(days + _EPOCH_FROM_MARCH_0, DAYS_PER_ERA)
    year = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    since_march = day_of_era - (365 * year + year // 4 - year // 100)
    from_march = (5 * since_march + 2) // 153
    month = from_march + 3 if from_march < 10 else from_march - 9
    return Date(era * 400 + year + (month <= 2), month, since_march - (153 * from_march + 2) // 5 + 1)


@dataclass(slots=True, unsafe_hash=True)
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
        """Nanoseconds of day in UTC, not wrapped, what times are compared and subtracted by.

        A time without zone counts as UTC. One with a named zone counts by the zone's offset in winter: of the instants
        that it may mean it takes the ones that do not depend on the day on which somebody asks.
        """
        zone = self.zone
        if zone is None:
            return self.ns_of_day
        offset_s = zone.standard_offset_s() if zone.offset_s is None else zone.offset_s
        return self.ns_of_day - offset_s * NS_PER_SECOND


@dataclass(slots=True, unsafe_hash=True)
class DateTime:
    """What a clock shows at one moment: nanoseconds from 1970-01-01T00:00:00 to it, on its clock and in UTC.

    Where a zone sets its clock back, two values show the same and differ in `utc_ns`. Without a zone both are the same.
    Made by `date_and_time`, `on_clock` and `instant`, which keep clock, UTC and zone consistent.
    """

    local_ns: int
    utc_ns: int
    zone: Zone | None

    def __post_init__(self) -> None:
        if not _FIRST_NS <= self.local_ns < _END_NS:
            date_from_epoch_days(self.local_ns // NS_PER_DAY)  # raises, and says which year it is

    @property
    def date(self) -> Date:
        """The day that the clock shows."""
        return date_from_epoch_days(self.local_ns // NS_PER_DAY)

    @property
    def time(self) -> Time:
        """The time that the clock shows, with its zone."""
        return Time(self.local_ns % NS_PER_DAY, self.zone)

    def offset_s(self) -> int | None:
        """Offset from UTC in seconds at this instant; None without a zone."""
        return None if self.zone is None else (self.local_ns - self.utc_ns) // NS_PER_SECOND

    @property
    def epoch_us(self) -> int:
        """Microseconds since 1970-01-01T00:00:00Z, rounded down; a value without zone counts as UTC."""
        return self.utc_ns // NS_PER_US

    def plus_ns(self, ns: int) -> DateTime:
        """The moment `ns` nanoseconds later, in the same zone, counted through every change of its clock."""
        return instant(self.utc_ns + ns, self.zone)

    def plus_months(self, months: int) -> DateTime:
        """The same day and time `months` later on the calendar, or the last day of that month when it is shorter.

        Where the clock shows that twice, the offset stays as it is if it is one of the two.
        """
        days, ns_of_day = divmod(self.local_ns, NS_PER_DAY)
        later = date_from_epoch_days(days).plus_months(months)
        return on_clock(later.epoch_days() * NS_PER_DAY + ns_of_day, self.zone, self.offset_s())


_FIRST_NS = Date(-MAX_YEAR, 1, 1).epoch_days() * NS_PER_DAY
_END_NS = (Date(MAX_YEAR, 12, 31).epoch_days() + 1) * NS_PER_DAY


def instant(epoch_ns: int, zone: Zone | None = UTC) -> DateTime:
    """The instant `epoch_ns` nanoseconds after 1970-01-01T00:00:00Z as seen in `zone` (None: local, as UTC)."""
    if zone is None:
        return DateTime(epoch_ns, epoch_ns, None)
    offset_s = zone.offset_at_utc(epoch_ns // NS_PER_SECOND) if zone.offset_s is None else zone.offset_s
    return DateTime(epoch_ns + offset_s * NS_PER_SECOND, epoch_ns, zone)


def on_clock(local_ns: int, zone: Zone | None, offset_s: int | None = None) -> DateTime:
    """The moment at which the clock of `zone` shows `local_ns` nanoseconds after 1970-01-01T00:00:00.

    Where it shows that twice, the first time, unless `offset_s` is the offset of the second. Where it is set forward
    past that, as much later as it is set forward.
    """
    if zone is None:
        return DateTime(local_ns, local_ns, None)
    if zone.offset_s is not None:
        return DateTime(local_ns, local_ns - zone.offset_s * NS_PER_SECOND, zone)
    first_s, second_s = zone.offsets_at_local(local_ns // NS_PER_SECOND)
    if second_s > first_s:
        return DateTime(local_ns + (second_s - first_s) * NS_PER_SECOND, local_ns - first_s * NS_PER_SECOND, zone)
    chosen_s = second_s if offset_s == second_s else first_s
    return DateTime(local_ns, local_ns - chosen_s * NS_PER_SECOND, zone)


def date_and_time(day: Date, time: Time) -> DateTime:
    """The moment at which a clock shows this day and this time, in the zone of the time."""
    return on_clock(day.epoch_days() * NS_PER_DAY + time.ns_of_day, time.zone)


def midnight_utc(day: Date) -> DateTime:
    """What a date stands for where a date and time is needed."""
    ns = day.epoch_days() * NS_PER_DAY
    return DateTime(ns, ns, UTC)


@dataclass(slots=True, unsafe_hash=True)
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


@dataclass(slots=True, unsafe_hash=True)
class YearsMonthsDuration:
    """A length of time in calendar months, negative backwards."""

    months: int

    def __post_init__(self) -> None:
        if not -MAX_DURATION_MONTHS <= self.months <= MAX_DURATION_MONTHS:
            raise FeelFault("the duration is too long")


def same(left: DateTime | Time, right: DateTime | Time) -> bool:
    """Whether two values of one kind are the same moment; one on a local clock never is one with a zone."""
    return (left.zone is None) is (right.zone is None) and _moment(left) == _moment(right)


def order(left: DateTime | Time, right: DateTime | Time) -> int:
    """Negative, zero or positive as `left` is before, at or after `right`, both of one kind.

    A value without zone is read on the clock of the other (DMN 1.5, table 54).
    """
    if (left.zone is None) is (right.zone is None):
        a, b = _moment(left), _moment(right)
    else:
        a, b = _shown(left), _shown(right)
    return (a > b) - (a < b)


def _moment(value: DateTime | Time) -> int:
    return value.utc_ns if isinstance(value, DateTime) else value.utc_ns()


def _shown(value: DateTime | Time) -> int:
    return value.local_ns if isinstance(value, DateTime) else value.ns_of_day
