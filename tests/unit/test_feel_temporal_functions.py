"""The built-ins and properties of temporal values: domains, null rules, calls by name, and what they give."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from engine.feel import EvaluationContext, compile_expression, temporal_text

NOW_US = 1_709_203_507_250_000  # 2024-02-29T10:45:07.25Z


def evaluated(text: str) -> tuple[Any, list[str]]:
    context = EvaluationContext(now_us=NOW_US)
    result = compile_expression(text).evaluate({}, context)
    return result, [warning.cause for warning in context.warnings]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("date(-44, 3, 15)", "-0044-03-15"),
        ("date(0, 1, 1)", "0000-01-01"),
        ("date(2024.0, 2, 29)", "2024-02-29"),
        ('date(from: @"2024-02-29T23:59:59-10:00")', "2024-02-29"),
        ('date(["2024-02-29"])', "2024-02-29"),
        ("time(0, 0, 0)", "00:00:00"),
        ("time(10, 30, 1.123456789)", "10:30:01.123456789"),
        ("time(10, 30, 1.1234567899)", "10:30:01.123456789"),
        ("time(23, 59, 59.9999999999)", "23:59:59.999999999"),
        ("time(10, 30, 0, null)", "10:30:00"),
        ('time(10, 30, 0, @"PT0S")', "10:30:00Z"),
        ('time(10, 30, 0, @"-PT14H")', "10:30:00-14:00"),
        ('time(hour: 10, minute: 30, second: 0, offset: @"PT2H45M55S")', "10:30:00+02:45:55"),
        ('time(from: @"2024-02-29T10:30:00@Europe/Berlin")', "10:30:00@Europe/Berlin"),
        ('time(@"2024-02-29")', "00:00:00Z"),
        ('time(@"10:30:00Z")', "10:30:00Z"),
        ('date and time(date: @"2024-02-29T01:00:00Z", time: @"10:30:00+01:00")', "2024-02-29T10:30:00+01:00"),
        ('date and time(@"2024-02-29", @"10:30:00@Europe/Berlin")', "2024-02-29T10:30:00@Europe/Berlin"),
        ('date and time(@"2024-02-29T10:30:00+01:00", "Z")', "2024-02-29T09:30:00Z"),
        ('date and time(date: @"2024-02-29T10:30:00", timezone: "Asia/Tokyo")', "2024-02-29T19:30:00@Asia/Tokyo"),
        ('duration(from: "P1DT2H")', "P1DT2H"),
        ('duration(@"P1Y")', "P1Y"),
        ('years and months duration(@"2011-12-22", @"2013-08-24")', "P1Y8M"),
        ('years and months duration(@"2013-08-24", @"2011-12-22")', "-P1Y8M"),
        ('years and months duration(@"2024-01-31", @"2024-02-29")', "P0M"),
        ('years and months duration(@"2024-02-29", @"2024-01-31")', "P0M"),
        ('years and months duration(@"2024-02-29", @"2025-02-28")', "P11M"),
        ('years and months duration(from: @"2024-01-01T00:00:00Z", to: @"2024-03-01")', "P2M"),
        ('years and months duration(@"-999999999-01-01", @"999999999-12-31")', "P1999999998Y11M"),
        ('@"999999999-12-31" - @"-999999999-01-01"', "P730484999633D"),
        ('last day of month(@"2024-02-01")', "2024-02-29"),
        ('last day of month(@"1900-02-01T10:00:00Z")', "1900-02-28"),
        ('last day of month(date: @"2024-12-31")', "2024-12-31"),
        ("now()", "2024-02-29T10:45:07.25Z"),
        ("today()", "2024-02-29"),
        ('date and time(now(), "Asia/Tokyo")', "2024-02-29T19:45:07.25@Asia/Tokyo"),
    ],
)
def test_constructors(text: str, expected: str | None) -> None:
    result, warnings = evaluated(text)
    assert (None if result is None else temporal_text(result), bool(warnings)) == (expected, expected is None)


@pytest.mark.parametrize(
    "text",
    [
        "date()",
        "date(null)",
        "date(1)",
        "date(true)",
        "date(2024, 2)",
        "date(2024, 2, null)",
        "date(null, 2, 29)",
        'date("2024", 2, 29)',
        "date(2024.5, 2, 29)",
        "date(2024, 2, 30)",
        "date(2024, 0, 1)",
        "date(2024, -2, 1)",
        "date(1000000000, 1, 1)",
        "date(-1000000000, 1, 1)",
        "date(year: 2024, month: 2)",
        "date(text: 2024)",
        'date(@"10:30:00")',
        "time()",
        "time(12)",
        "time(null)",
        "time(12, 30)",
        "time(24, 0, 0)",
        "time(-1, 0, 0)",
        "time(12, 60, 0)",
        "time(12, 0, 60)",
        "time(12, 0, -0.5)",
        "time(12.5, 0, 0)",
        "time(12, 0, null)",
        'time(12, 0, 0, "PT1H")',
        'time(12, 0, 0, @"PT14H1S")',
        'time(12, 0, 0, @"-PT15H")',
        'time(12, 0, 0, @"PT0.5S")',
        'time(12, 0, 0, @"P1M")',
        "date and time(null)",
        "date and time(2024)",
        'date and time(@"10:30:00")',
        'date and time(@"2024-02-29", null)',
        'date and time(null, @"10:30:00")',
        'date and time(@"2024-02-29", @"2024-02-29")',
        'date and time(@"10:30:00", @"2024-02-29")',
        'date and time(@"2024-02-29", "Europe/Berlin")',
        'date and time(@"2024-02-29T10:30:00", "Mars/Base")',
        'date and time(@"2024-02-29T10:30:00", "")',
        "duration(null)",
        "duration(1)",
        'duration("P1Y1D")',
        'years and months duration(@"2024-02-29", null)',
        'years and months duration(@"2024-02-29", "2024-02-29")',
        'years and months duration(@"10:30:00", @"10:30:00")',
        'week of year("2024-02-29")',
        'last day of month(@"10:30:00")',
        "day of week(null)",
        "day of year(1)",
        "month of year([])",
    ],
)
def test_outside_its_domain_a_constructor_gives_null_and_a_warning(text: str) -> None:
    result, warnings = evaluated(text)
    assert result is None
    assert warnings


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('week of year(@"2019-09-17")', 38),
        ('week of year(@"2003-12-29")', 1),
        ('week of year(@"2004-01-04")', 1),
        ('week of year(@"2005-01-01T10:00:00Z")', 53),
        ('week of year(date: @"2005-01-03")', 1),
        ('week of year(@"2021-01-03")', 53),
        ('week of year(@"-0001-12-31")', 52),
        ('day of year(@"2024-03-01")', 61),
        ('day of year(@"2023-03-01")', 60),
        ('day of year(@"2023-12-31")', 365),
        ('day of week(@"2024-02-29T10:00:00@Europe/Berlin")', "Thursday"),
        ('day of week(@"0000-03-01")', "Wednesday"),
        ('month of year(date: @"2024-12-31")', "December"),
    ],
)
def test_functions_of_the_calendar(text: str, expected: Any) -> None:
    assert evaluated(text) == (expected, [])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('@"-0044-03-15".year', -44),
        ('@"2024-02-29".weekday', 4),
        ('@"2024-02-29T10:30:15.25Z".second', Decimal("15.25")),
        ('@"2024-02-29T10:30:15.00Z".second', 15),
        ('@"10:30:59.999999999".second', Decimal("59.999999999")),
        ('@"10:30:00+01:30".minute', 30),
        ('@"10:30:00".timezone', None),
        ('@"10:30:00Z".timezone', None),
        ('@"10:30:00@Europe/Berlin".timezone', "Europe/Berlin"),
        ('@"10:30:00@Europe/Berlin".time offset', None),
        ('string(@"10:30:00-01:30".time offset)', "-PT1H30M"),
        ('string(@"10:30:00Z".time offset)', "PT0S"),
        ('string(@"2024-07-01T10:30:00@Europe/Berlin".time offset)', "PT2H"),
        ('string(@"2024-01-01T10:30:00@Europe/Berlin".time offset)', "PT1H"),
        ('@"2024-07-01T10:30:00".time offset', None),
        ('@"PT100H".days', 4),
        ('@"PT100H".hours', 4),
        ('@"-P1DT2H3M4.5S".days', -1),
        ('@"-P1DT2H3M4.5S".hours', -2),
        ('@"-P1DT2H3M4.5S".minutes', -3),
        ('@"-P1DT2H3M4.5S".seconds', Decimal("-4.5")),
        ('@"P26M".years', 2),
        ('@"P26M".months', 2),
        ('@"-P26M".years', -2),
        ('@"-P26M".months', -2),
    ],
)
def test_properties(text: str, expected: Any) -> None:
    assert evaluated(text) == (expected, [])


@pytest.mark.parametrize(
    "text", ['@"P1Y".days', '@"P1D".months', '@"10:30:00".year', '@"2024-02-29".hour', '@"P1D".weekday']
)
def test_a_property_of_another_kind_is_null_with_a_warning(text: str) -> None:
    result, warnings = evaluated(text)
    assert result is None
    assert warnings


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('@"23:30:00+01:00" + @"P1DT1H"', "00:30:00+01:00"),
        ('@"00:30:00" - @"PT1H"', "23:30:00"),
        ('@"PT1H" + @"23:30:00@Europe/Berlin"', "00:30:00@Europe/Berlin"),
        ('@"10:00:00+01:00" - @"10:00:00Z"', "-PT1H"),
        ('@"2024-02-29" - @"PT1S"', "2024-02-28"),
        ('@"P1D" + @"2024-02-29"', "2024-03-01"),
        ('@"2024-02-29" - @"2024-02-28T23:00:00Z"', "PT1H"),
        ('@"2024-02-29T10:00:00@Europe/Berlin" - @"2024-02-29"', "PT9H"),
        ('@"2024-02-29T10:00:00" - @"P4Y"', "2020-02-29T10:00:00"),
        ('@"PT1S" / 3', "PT0.333333333S"),
        ('@"PT0.000000001S" / 2', "PT0S"),
        ('@"P1Y11M" * -2.5', "-P4Y9M"),
    ],
)
def test_arithmetic(text: str, expected: str) -> None:
    result, warnings = evaluated(text)
    assert (temporal_text(result), warnings) == (expected, [])


@pytest.mark.parametrize(
    "text",
    [
        '@"P1D" - @"2024-02-29"',
        '@"P1Y" - @"2024-02-29T10:00:00"',
        '@"PT1H" - @"10:00:00"',
        '@"10:00:00" - @"P1M"',
        '@"10:00:00" - @"2024-02-29"',
        '@"P1D" * @"P1D"',
        '1 / @"P1D"',
        '@"P1D" / @"P1M"',
        '@"P1D" / 0',
        '@"P1D" / @"PT0S"',
        '@"P1D" < @"P1M"',
        '@"2024-02-29" < @"2024-02-29T10:00:00Z"',
        '@"999999999-12-31T23:59:59Z" + @"PT1S"',
        '@"-999999999-01-01" - @"P1M"',
    ],
)
def test_what_the_tables_of_the_standard_do_not_define_is_null(text: str) -> None:
    result, warnings = evaluated(text)
    assert result is None
    assert warnings
