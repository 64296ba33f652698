"""Laws of temporal values: texts, instants, calendar, order; and agreement with Python where it has the years."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise, permutations
from zoneinfo import ZoneInfo

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from engine.feel import DateTime, DaysTimeDuration, Time, YearsMonthsDuration, instant, temporal_text
from engine.feel.temporal import (
    MAX_DURATION_MONTHS,
    MAX_DURATION_NS,
    MAX_YEAR,
    NS_PER_DAY,
    NS_PER_SECOND,
    Date,
    date_and_time,
    date_from_epoch_days,
    on_clock,
    order,
    same,
)
from engine.feel.temporal_text import parse_temporal
from engine.feel.zones import UTC, Zone

NAMES = [
    "Europe/Berlin",
    "Europe/Dublin",
    "Australia/Lord_Howe",
    "America/New_York",
    "Asia/Kolkata",
    "Africa/Casablanca",
]
FIRST_DAY = Date(-MAX_YEAR, 1, 1).epoch_days()
LAST_DAY = Date(MAX_YEAR, 12, 31).epoch_days()
EPOCH = datetime(1970, 1, 1, tzinfo=ZoneInfo("UTC"))

named = st.sampled_from(NAMES).map(lambda name: Zone(None, name))
zones = st.integers(-14 * 3600, 14 * 3600).map(Zone) | named | st.none()
days = st.integers(FIRST_DAY, LAST_DAY) | st.integers(-200_000, 200_000)
dates = days.map(date_from_epoch_days)
times = st.builds(Time, st.integers(0, NS_PER_DAY - 1) | st.integers(0, 86_399).map(lambda s: s * NS_PER_SECOND), zones)
# A year within the bounds, so that an hour more or less stays within them.
far = st.integers((FIRST_DAY + 366) * NS_PER_DAY, (LAST_DAY - 366) * NS_PER_DAY)
near = st.integers(-3_000_000_000, 6_000_000_000).map(lambda seconds: seconds * NS_PER_SECOND)
moments = st.builds(instant, far | near, zones)
durations = st.builds(DaysTimeDuration, st.integers(-MAX_DURATION_NS, MAX_DURATION_NS) | st.integers(-(10**15), 10**15))
months = st.builds(YearsMonthsDuration, st.integers(-MAX_DURATION_MONTHS, MAX_DURATION_MONTHS))
clocks = st.builds(lambda moment: on_clock(moment.local_ns, moment.zone), moments)
few = settings(max_examples=150, deadline=None)


@few
@given(dates | times | clocks | durations | months)
def test_a_value_is_read_back_from_its_text(
    value: Date | Time | DateTime | DaysTimeDuration | YearsMonthsDuration,
) -> None:
    assert parse_temporal(temporal_text(value)) == value


@few
@given(days)
def test_a_day_of_the_calendar_is_found_again(day: int) -> None:
    assert date_from_epoch_days(day).epoch_days() == day


@few
@given(days)
def test_the_calendar_repeats_after_400_years(day: int) -> None:
    assume(day + 146_097 <= LAST_DAY)
    now, later = date_from_epoch_days(day), date_from_epoch_days(day + 146_097)
    assert (later.year, later.month, later.day) == (now.year + 400, now.month, now.day)
    assert (later.weekday(), later.week_of_year()) == (now.weekday(), now.week_of_year())


@few
@given(moments, st.integers(-(10**17), 10**17))
def test_a_duration_added_and_taken_away_leaves_the_moment_as_it_was(moment: DateTime, ns: int) -> None:
    assume(abs(moment.date.year) <= MAX_YEAR - 4)  # ns are up to four years
    assert moment.plus_ns(ns).plus_ns(-ns) == moment
    assert moment.plus_ns(ns).utc_ns - moment.utc_ns == ns


@few
@given(moments)
def test_a_moment_is_found_again_by_its_clock_and_offset(moment: DateTime) -> None:
    assert on_clock(moment.local_ns, moment.zone, moment.offset_s()) == moment
    assert instant(moment.utc_ns, moment.zone) == moment


@few
@given(clocks)
def test_a_moment_is_its_day_and_its_time(moment: DateTime) -> None:
    assert date_and_time(moment.date, moment.time) == moment


@few
@given(moments, st.integers(-5_000, 5_000))
def test_months_keep_the_day_or_take_the_last_one(moment: DateTime, count: int) -> None:
    assume(moment.zone is None or moment.zone.name is None)
    assume(abs(moment.date.year) <= MAX_YEAR - 5_000 // 12 - 1)
    later = moment.plus_months(count)
    assert later.time == moment.time
    assert (later.date.year - moment.date.year) * 12 + later.date.month - moment.date.month == count
    assert later.date.day == moment.date.day or (
        later.date.day < moment.date.day and date_from_epoch_days(later.date.epoch_days() + 1).month != later.date.month
    )


@few
@given(st.lists(moments, min_size=3, max_size=3) | st.lists(times, min_size=3, max_size=3))
def test_values_that_all_have_a_zone_or_all_have_none_are_in_one_order(values: list[DateTime] | list[Time]) -> None:
    assume(len({value.zone is None for value in values}) == 1)
    for a, b in permutations(values, 2):
        assert order(a, b) == -order(b, a)
        assert same(a, b) == (order(a, b) == 0)
    for a, b, c in permutations(values, 3):
        if order(a, b) <= 0 and order(b, c) <= 0:
            assert order(a, c) <= 0


@few
@given(moments, moments)
def test_the_order_of_a_local_and_a_zoned_value_does_not_depend_on_their_places(a: DateTime, b: DateTime) -> None:
    assert order(a, b) == -order(b, a)
    assert same(a, b) == same(b, a)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(NAMES), st.integers(-62_000_000_000, 253_000_000_000))
def test_instants_have_the_offset_that_python_gives_them(name: str, second: int) -> None:
    python = datetime.fromtimestamp(second, ZoneInfo(name))
    ours = instant(second * NS_PER_SECOND, Zone(None, name))
    offset = python.utcoffset()
    assert offset is not None
    assert ours.offset_s() == offset.total_seconds()
    assert (ours.date.year, ours.date.month, ours.date.day) == (python.year, python.month, python.day)
    assert (ours.time.hour, ours.time.minute, ours.time.second) == (python.hour, python.minute, python.second)
    assert (ours.date.weekday(), ours.date.week_of_year()) == (python.isoweekday(), python.isocalendar().week)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(NAMES), st.integers(0, 2_100_000_000), st.integers(-3, 3))
def test_clocks_are_read_as_python_reads_them(name: str, second: int, hours: int) -> None:
    """Near a change of the clock too: the search for one starts at a random second."""
    zone = ZoneInfo(name)
    change = _next_change(zone, second)
    local = datetime.fromtimestamp(change, zone).replace(tzinfo=None) + timedelta(hours=hours, seconds=second % 61)
    expected = local.replace(tzinfo=zone).astimezone(EPOCH.tzinfo) - EPOCH
    epoch_ns = (expected.days * 86_400 + expected.seconds) * NS_PER_SECOND
    text = f"{local.isoformat()}@{name}"
    assert parse_temporal(text) == instant(epoch_ns, Zone(None, name))


def _next_change(zone: ZoneInfo, second: int) -> int:
    """The first second after `second`, within three years, at which the zone has another offset."""
    quarters = range(second, second + 3 * 366 * 86_400, 90 * 86_400)
    for start, end in pairwise(quarters):
        low, high = start, end
        if datetime.fromtimestamp(low, zone).utcoffset() == datetime.fromtimestamp(high, zone).utcoffset():
            continue
        while high - low > 1:
            middle = (low + high) // 2
            unchanged = (
                datetime.fromtimestamp(middle, zone).utcoffset() == datetime.fromtimestamp(low, zone).utcoffset()
            )
            low, high = (middle, high) if unchanged else (low, middle)
        return high
    return second


@few
@given(dates, dates)
def test_dates_are_in_the_order_of_their_days(a: Date, b: Date) -> None:
    by_parts = (a.year, a.month, a.day) < (b.year, b.month, b.day)
    assert by_parts == (a.epoch_days() < b.epoch_days())


def test_no_zone_is_utc_where_an_instant_is_asked_for() -> None:
    assert instant(0) == DateTime(0, 0, UTC)
    assert instant(0, None) == DateTime(0, 0, None)
