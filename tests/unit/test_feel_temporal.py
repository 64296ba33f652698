"""Dates, times, instants and durations: texts, arithmetic, zones, and the microseconds that timers need."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from engine.feel import (
    DateTime,
    DaysTimeDuration,
    EvaluationContext,
    compile_expression,
    temporal_text,
)
from engine.feel.temporal import date_from_epoch_days
from tests.feel_values import evaluated


@pytest.mark.parametrize(
    "text",
    [
        "2024-02-29",
        "-0044-03-15",
        "123456-01-01",
        "10:30:00",
        "10:30:00.5",
        "10:30:00.123456789Z",
        "10:30:00+01:00",
        "10:30:00-05:30:15",
        "10:30:00@Europe/Berlin",
        "2024-02-29T10:30:00",
        "2024-02-29T10:30:00.000001Z",
        "2024-02-29T10:30:00+01:00",
        "2024-02-29T10:30:00@Europe/Berlin",
        "PT0S",
        "PT0.25S",
        "-PT5.5S",
        "P1DT2H3M4S",
        "PT36H",
        "P1Y6M",
        "-P2M",
        "P0M",
    ],
)
def test_a_temporal_text_survives_reading_and_writing(text: str) -> None:
    canonical = {"PT36H": "P1DT12H"}.get(text, text)
    assert temporal_text(evaluated(f'@"{text}"')[0]) == canonical


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('@"PT5S" + @"PT0.25S"', "PT5.25S"),
        ('@"PT5S" - @"PT6S"', "-PT1S"),
        ('@"PT1S" * 1.5', "PT1.5S"),
        ('2 * @"P1Y6M"', "P3Y"),
        ('@"PT1S" / 4', "PT0.25S"),
        ('@"P1Y" / 5', "P2M"),
        ('-@"PT1S"', "-PT1S"),
        ('@"2024-02-28" + @"P2D"', "2024-03-01"),
        ('@"2024-01-31" + @"P1M"', "2024-02-29"),
        ('@"2024-03-31" - @"P1M"', "2024-02-29"),
        ('@"2024-03-01" - @"2024-02-01"', "P29D"),
        ('@"2024-02-29T23:59:59.75Z" + @"PT0.25S"', "2024-03-01T00:00:00Z"),
        ('@"2024-02-29T10:00:00+01:00" - @"2024-02-29T08:00:00Z"', "PT1H"),
        ('@"2024-03-31T01:30:00@Europe/Berlin" + @"PT1H"', "2024-03-31T03:30:00@Europe/Berlin"),
        ('@"2024-10-27T02:30:00@Europe/Berlin" + @"PT1H"', "2024-10-27T02:30:00@Europe/Berlin"),
        ('@"2024-02-28T24:00:00Z"', "2024-02-29T00:00:00Z"),
        ('@"23:30:00" + @"PT1H"', "00:30:00"),
        ('@"10:00:00" - @"09:30:00"', "PT30M"),
        ('date("2024-02-29")', "2024-02-29"),
        ("date(2024, 2, 29)", "2024-02-29"),
        ("date(year: 2024, month: 2, day: 29)", "2024-02-29"),
        ('date(@"2024-02-29T10:00:00Z")', "2024-02-29"),
        ('time("10:30:00Z")', "10:30:00Z"),
        ("time(10, 30, 1.5)", "10:30:01.5"),
        ('time(10, 30, 0, @"-PT2H")', "10:30:00-02:00"),
        ('date and time("2024-02-29T10:30:00Z")', "2024-02-29T10:30:00Z"),
        ('date and time("2024-02-29")', "2024-02-29T00:00:00"),
        ('date and time(@"2024-02-29", @"10:30:00")', "2024-02-29T10:30:00"),
        ('duration("PT0.25S")', "PT0.25S"),
        ('years and months duration(@"2023-05-20", @"2024-05-19")', "P11M"),
        ('abs(@"-P1Y")', "P1Y"),
    ],
)
def test_temporal_arithmetic_and_constructors(text: str, expected: str) -> None:
    result, warnings = evaluated(text)
    assert (temporal_text(result), warnings) == (expected, [])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('@"PT60S" = @"PT1M"', True),
        ('@"2024-02-29T10:00:00Z" = @"2024-02-29T11:00:00+01:00"', True),
        ('@"10:00:00" < @"10:00:01"', True),
        ('@"2024-02-29" in [@"2024-01-01"..@"2024-12-31"]', True),
        ('@"PT1M" / @"PT15S"', 4),
        ('@"P1Y" / @"P5M" > 2.39', True),
        ('@"2024-02-29".year', 2024),
        ('@"2024-02-29T10:30:15.5+01:00".second', Decimal("15.5")),
        ('@"2024-07-01T10:00:00@Europe/Berlin".time offset = @"PT2H"', True),
        ('@"2024-07-01T10:00:00@Europe/Berlin".timezone', "Europe/Berlin"),
        ('@"P1DT2H3M4.5S".hours', 2),
        ('@"-P1DT2H".days', -1),
        ('@"P1Y6M".months', 6),
        ('day of week(@"2024-02-29")', "Thursday"),
        ('day of year(@"2024-12-31")', 366),
        ('month of year(@"2024-02-29")', "February"),
        ('for d in @"2024-02-28"..@"2024-03-01" return d.day', [28, 29, 1]),
    ],
)
def test_temporal_comparison_and_properties(text: str, expected: Any) -> None:
    assert evaluated(text) == (expected, [])


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ('@"2024-02-29" + 1', "cannot add date and number"),
        ('@"2024-02-29" + @"2024-02-29"', "cannot add date and date"),
        ('@"PT1S" + @"P1M"', "cannot add a years and months duration"),
        ('@"PT1S" - @"P1M"', "cannot subtract"),
        ('@"PT1S" < @"P1M"', "cannot compare"),
        ('@"10:00:00" + @"P1Y"', "cannot add"),
        ('@"PT1S" / 0', "division by zero"),
        ('@"PT1S" * 10 ** 40', "too long"),
        ('@"999999999-12-31" + @"P1D"', "year 1000000000"),
        ('time("25:00:00")', "not a time of day"),
        ('time("10:30:00+19:00")', "-14:00 and +14:00"),
        ('date and time("2024-02-29T10:30:00@Mars/Base")', "unknown time zone"),
        ('date and time("2024-02-29T10:30:00@../etc/passwd")', "is not a date and time"),
        ("date(2024, 13, 1)", "month 13"),
        ('@"2024-02-29T10:00:00Z" - @"2024-02-29T10:00:00"', "no zone"),
        ('@"2024-02-29T10:00:00" - @"2024-02-29"', "no zone"),
        ('years and months duration("2024-01-01", @"2024-01-01")', "must be a date"),
    ],
)
def test_temporal_nonsense_is_null_with_a_warning(text: str, cause: str) -> None:
    result, warnings = evaluated(text)
    assert result is None
    assert any(cause in warning for warning in warnings), warnings


def test_the_calendar_agrees_with_pythons_where_both_have_one() -> None:
    for ordinal in [1, 2, 366, 719_163, 730_120, 3_652_059, *range(1, 3_652_059, 9_973)]:
        python = date.fromordinal(ordinal)
        ours = date_from_epoch_days(ordinal - date(1970, 1, 1).toordinal())
        assert (ours.year, ours.month, ours.day) == (python.year, python.month, python.day)
        assert ours.weekday() == python.isoweekday()
        assert ours.day_of_year() == python.timetuple().tm_yday


def test_days_of_the_calendar_survive_the_way_there_and_back_over_all_years() -> None:
    for days in range(-300_000_000_000, 300_000_000_000, 59_999_999_999):
        for shift in range(-400, 400, 7):
            assert date_from_epoch_days(days + shift).epoch_days() == days + shift


def test_timers_read_durations_and_instants_in_microseconds() -> None:
    context = EvaluationContext(now_us=1_700_000_000_000_001)
    delay = compile_expression('duration("PT0.1S") * 2 ** attempt * 1.0000055').evaluate({"attempt": 2}, context)
    assert isinstance(delay, DaysTimeDuration)
    assert delay.us == 400_002
    due = compile_expression('now() + @"PT5S"').evaluate({}, context)
    assert isinstance(due, DateTime)
    assert due.epoch_us == 1_700_000_005_000_001
