"""Named zones: changes of the clock, every year of the calendar, equality and order beside offsets and local values."""

from __future__ import annotations

from typing import Any
from zoneinfo import available_timezones

import pytest

from engine.feel import EvaluationContext, compile_expression, instant, temporal_text
from engine.feel.temporal_text import parse_date_time
from engine.feel.zones import Zone, tz_database


def evaluated(text: str) -> Any:
    return compile_expression(text).evaluate({}, EvaluationContext())


def offset_of(text: str) -> int | None:
    return parse_date_time(text).offset_s()


@pytest.mark.parametrize(
    ("text", "offset_s"),
    [
        ("2024-01-15T12:00:00@Europe/Berlin", 3600),
        ("2024-07-15T12:00:00@Europe/Berlin", 7200),
        ("1892-12-31T12:00:00@Europe/Berlin", 3208),
        ("0001-01-01T00:00:00@Europe/Berlin", 3208),
        ("-4000-07-15T12:00:00@Europe/Berlin", 3208),
        ("-999999999-01-01T00:00:00@Europe/Berlin", 3208),
        ("9999-07-15T12:00:00@Europe/Berlin", 7200),
        ("10000-01-15T12:00:00@Europe/Berlin", 3600),
        ("10000-07-15T12:00:00@Europe/Berlin", 7200),
        ("999999999-12-31T23:59:59@Europe/Berlin", 3600),
        ("-0500-07-15T12:00:00@America/New_York", -17_762),
        ("12024-01-15T12:00:00@Australia/Sydney", 39_600),
        ("2024-07-15T12:00:00@Etc/GMT+5", -18_000),
    ],
)
def test_a_named_zone_has_an_offset_in_every_year(text: str, offset_s: int) -> None:
    value = parse_date_time(text)
    assert value.offset_s() == offset_s
    assert instant(value.utc_ns, value.zone) == value


@pytest.mark.parametrize("year", [10_424, 12_024, 402_024, 999_998_424])
def test_the_rule_of_a_zone_repeats_with_the_calendar(year: int) -> None:
    for day in ("03-31T01:59:59", "03-31T03:00:00", "10-27T01:59:59", "10-27T03:00:00"):
        assert offset_of(f"{year}-{day}@Europe/Berlin") == offset_of(f"2024-{day}@Europe/Berlin")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("2024-03-31T01:59:59.999999999@Europe/Berlin", "2024-03-31T01:59:59.999999999@Europe/Berlin"),
        ("2024-03-31T02:00:00@Europe/Berlin", "2024-03-31T03:00:00@Europe/Berlin"),
        ("2024-03-31T02:30:00@Europe/Berlin", "2024-03-31T03:30:00@Europe/Berlin"),
        ("2024-03-31T03:00:00@Europe/Berlin", "2024-03-31T03:00:00@Europe/Berlin"),
        ("2011-12-30T12:00:00@Pacific/Apia", "2011-12-31T12:00:00@Pacific/Apia"),
    ],
)
def test_a_time_that_a_clock_never_shows_is_as_much_later_as_the_clock_is_set_forward(text: str, shown: str) -> None:
    assert temporal_text(parse_date_time(text)) == shown


def test_a_time_that_a_clock_shows_twice_is_the_first_one() -> None:
    assert offset_of("2024-10-27T02:30:00@Europe/Berlin") == 7200
    assert offset_of("2024-10-27T02:30:00+02:00[Europe/Berlin]") == 7200
    assert offset_of("2024-10-27T02:30:00+01:00[Europe/Berlin]") == 3600


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('@"2024-03-30T12:00:00@Europe/Berlin" + @"P1D"', "2024-03-31T13:00:00@Europe/Berlin"),
        ('@"2024-03-30T12:00:00@Europe/Berlin" + @"PT24H"', "2024-03-31T13:00:00@Europe/Berlin"),
        ('@"2024-03-31T13:00:00@Europe/Berlin" - @"PT24H"', "2024-03-30T12:00:00@Europe/Berlin"),
        ('@"2024-10-27T02:30:00@Europe/Berlin" + @"PT1H" - @"2024-10-27T02:30:00@Europe/Berlin"', "PT1H"),
        ('@"2024-10-27T02:30:00@Europe/Berlin" + @"PT2H"', "2024-10-27T03:30:00@Europe/Berlin"),
        ('@"2024-10-27T02:30:00@Europe/Berlin" + @"PT1H" + @"PT1H"', "2024-10-27T03:30:00@Europe/Berlin"),
        ('@"2024-02-29T02:30:00@Europe/Berlin" + @"P1M"', "2024-03-29T02:30:00@Europe/Berlin"),
        ('@"2024-02-29T02:30:00@Europe/Berlin" + @"P1M" + @"P2D"', "2024-03-31T03:30:00@Europe/Berlin"),
        ('@"2024-01-31T02:30:00@Europe/Berlin" + @"P2M"', "2024-03-31T03:30:00@Europe/Berlin"),
        ('@"2024-07-27T02:30:00@Europe/Berlin" + @"P3M" - @"2024-10-27T00:30:00Z"', "PT0S"),
        ('@"2024-11-27T02:30:00@Europe/Berlin" - @"P1M" - @"2024-10-27T01:30:00Z"', "PT0S"),
        ('@"-0044-03-15T12:00:00@Europe/Rome" + @"P1DT1H"', "-0044-03-16T13:00:00@Europe/Rome"),
        ('@"12024-03-31T01:30:00@Europe/Berlin" + @"PT1H"', "12024-03-31T03:30:00@Europe/Berlin"),
        ('date and time(@"2024-07-31T14:27:30@Europe/Berlin", "America/Los_Angeles")', None),
    ],
)
def test_days_and_time_run_on_the_instants_and_months_on_the_calendar(text: str, expected: str | None) -> None:
    expected = expected or "2024-07-31T05:27:30@America/Los_Angeles"
    assert temporal_text(evaluated(text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('@"2024-07-01T10:00:00@Europe/Berlin" = @"2024-07-01T10:00:00+02:00"', True),
        ('@"2024-07-01T10:00:00@Europe/Berlin" = @"2024-07-01T10:00:00+01:00"', False),
        ('@"2024-07-01T10:00:00@Europe/Berlin" = @"2024-07-01T08:00:00Z"', True),
        ('@"2024-07-01T10:00:00@Europe/Berlin" = @"2024-07-01T10:00:00@Europe/Paris"', True),
        ('@"2024-07-01T10:00:00" = @"2024-07-01T10:00:00Z"', False),
        ('@"2024-07-01T10:00:00" != @"2024-07-01T10:00:00Z"', True),
        ('@"2024-07-01T10:00:00" = @"2024-07-01T10:00:00"', True),
        ('@"2024-07-01T10:00:00" < @"2024-07-01T10:00:01-10:00"', True),
        ('@"2024-07-01T10:00:00+10:00" > @"2024-07-01T09:59:59"', True),
        ('@"2024-07-01T10:00:00" < @"2024-07-01T10:00:00@Asia/Dhaka"', False),
        ('@"2024-07-01T10:00:00" > @"2024-07-01T10:00:00@Asia/Dhaka"', False),
        ('@"10:00:00" = @"10:00:00Z"', False),
        ('@"10:00:00Z" = @"11:00:00+01:00"', True),
        ('@"10:00:00" < @"10:00:01+14:00"', True),
        ('@"10:30:00@Europe/Berlin" = @"10:30:00@Europe/Berlin"', True),
        ('@"10:30:00@Europe/Berlin" = @"10:30:00+01:00"', True),
        ('@"10:30:00@Asia/Dhaka" = @"10:30:00@Europe/Berlin"', False),
        ('@"10:30:00@Etc/UTC" = @"10:30:00Z"', True),
        ('@"10:30:00@Australia/Melbourne" = @"10:30:00+10:00"', True),
        ('@"10:30:00@Australia/Melbourne" < @"00:30:01Z"', True),
    ],
)
def test_moments_are_compared_as_instants_and_a_local_one_on_the_clock_of_the_other(text: str, expected: bool) -> None:
    assert evaluated(text) is expected


def test_values_are_identical_only_with_the_same_zone() -> None:
    values = [
        parse_date_time(f"2024-07-01T{rest}")
        for rest in ("10:00:00", "10:00:00+02:00", "10:00:00@Europe/Berlin", "10:00:00@Europe/Paris", "08:00:00Z")
    ]
    assert len(set(values)) == len(values)
    assert parse_date_time("2024-07-01T10:00:00+00:00") == parse_date_time("2024-07-01T10:00:00Z")


def test_a_fixed_offset_needs_no_rules() -> None:
    assert Zone(5400).offsets_at_local(0) == (5400, 5400)
    assert Zone(5400).offset_at_utc(0) == 5400


def test_wrong_and_many_names_of_zones_cost_no_more_than_other_texts() -> None:
    """Each is looked up in memory: the files of the tz database are read once."""
    context = EvaluationContext()
    wrong = compile_expression('for i in 1..2000 return time("10:00:00@Bad/Zone" + string(i))').evaluate({}, context)
    assert wrong == [None] * 2000
    assert context.warnings[0].cause == "time: unknown time zone 'Bad/Zone1'"
    before = tz_database.cache_info().misses
    for _ in range(2):
        for name in sorted(available_timezones() - {"localtime", "Factory"}):
            tz_database(name)
    assert tz_database.cache_info().misses - before <= len(available_timezones())
