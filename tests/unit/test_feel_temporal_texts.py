"""The texts of temporal values: every form that DMN 1.5 takes from XML Schema, no other, and the one written."""

from __future__ import annotations

import pytest

from engine.feel import DateTime, FeelFunction, Range, Time, compile_expression, temporal_text
from engine.feel.faults import FeelFault
from engine.feel.temporal_text import (
    parse_date,
    parse_date_time,
    parse_duration,
    parse_temporal,
    parse_time,
    parse_zone,
)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("2024-02-29", "2024-02-29"),
        ("0000-01-01", "0000-01-01"),
        ("-0001-12-31", "-0001-12-31"),
        ("0999-12-31", "0999-12-31"),
        ("12024-02-29", "12024-02-29"),
        ("999999999-12-31", "999999999-12-31"),
        ("-999999999-01-01", "-999999999-01-01"),
    ],
)
def test_a_date_is_written_as_it_is_read(text: str, canonical: str) -> None:
    assert temporal_text(parse_date(text)) == canonical


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2024",
        "2024-02",
        "2024-2-29",
        "24-02-29",
        "+2024-02-29",
        "02024-02-29",
        "00000-01-01",
        "9999999999-01-01",
        "2024-00-01",
        "2024-13-01",
        "2024-02-00",
        "2023-02-29",
        "1900-02-29",
        "2024-04-31",
        "2024-02-29Z",
        "2024-02-29T",
        "2024-02-29T10:00:00",
        "2024/02/29",
        "20240229",
        "2024-W09-4",
        "2024-060",
        " 2024-02-29",
        "2024-02-29\n",
        "२०२४-02-29",
        "2" * 200,
    ],
)
def test_other_forms_are_no_dates(text: str) -> None:
    with pytest.raises(FeelFault):
        parse_date(text)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("10:30:00", "10:30:00"),
        ("T10:30:00", "10:30:00"),
        ("00:00:00", "00:00:00"),
        ("24:00:00", "00:00:00"),
        ("24:00:00.000Z", "00:00:00Z"),
        ("23:59:59.999999999", "23:59:59.999999999"),
        ("10:30:00.500", "10:30:00.5"),
        ("10:30:00.0", "10:30:00"),
        ("10:30:00.1234567899", "10:30:00.123456789"),
        ("10:30:00Z", "10:30:00Z"),
        ("10:30:00z", "10:30:00Z"),
        ("10:30:00+00:00", "10:30:00Z"),
        ("10:30:00-00:00", "10:30:00Z"),
        ("10:30:00+05:45", "10:30:00+05:45"),
        ("10:30:00-02:45:55", "10:30:00-02:45:55"),
        ("10:30:00+01:00:00", "10:30:00+01:00"),
        ("10:30:00-00:00:01", "10:30:00-00:00:01"),
        ("10:30:00+14:00", "10:30:00+14:00"),
        ("10:30:00-14:00", "10:30:00-14:00"),
        ("10:30:00@Etc/UTC", "10:30:00@Etc/UTC"),
        ("10:30:00@America/Argentina/Buenos_Aires", "10:30:00@America/Argentina/Buenos_Aires"),
        ("10:30:00@Etc/GMT+5", "10:30:00@Etc/GMT+5"),
        ("10:30:00@UTC", "10:30:00@UTC"),
    ],
)
def test_a_time_is_written_in_one_form(text: str, canonical: str) -> None:
    assert temporal_text(parse_time(text)) == canonical


@pytest.mark.parametrize(
    "text",
    [
        "",
        "T",
        "10",
        "10:30",
        "1:30:00",
        "10:3:00",
        "10:30:0",
        "103000",
        "24:00:01",
        "24:00:00.000000001",
        "24:01:00",
        "25:00:00",
        "10:60:00",
        "10:30:60",
        "-10:30:00",
        "10:30:00.",
        "10:30:00,5",
        "10:30:00 Z",
        "10:30:00+1:00",
        "10:30:00+01",
        "10:30:00+0100",
        "10:30:00+01:60",
        "10:30:00+01:00:60",
        "10:30:00+14:00:01",
        "10:30:00-15:00",
        "10:30:00Z@Europe/Berlin",
        "10:30:00+01:00@Europe/Berlin",
        "10:30:00+01:00[Europe/Berlin]",
        "10:30:00@",
        "10:30:00@+01:00",
        "10:30:00@europe/berlin",
        "10:30:00@Mars/Base",
        "10:30:00@localtime",
        "10:30:00@posixrules",
        "10:30:00@right/Europe/Berlin",
        "10:30:00@posix/Europe/Berlin",
        "10:30:00@/Europe/Berlin",
        "10:30:00@Europe",
        "10:30:00@../../etc/passwd",
        "2024-02-29",
        "TT10:30:00",
    ],
)
def test_other_forms_are_no_times(text: str) -> None:
    with pytest.raises(FeelFault):
        parse_time(text)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("2024-02-29", "2024-02-29T00:00:00"),
        ("2024-02-29T10:30:00", "2024-02-29T10:30:00"),
        ("2024-02-29T10:30:00.250z", "2024-02-29T10:30:00.25Z"),
        ("2024-02-28T24:00:00", "2024-02-29T00:00:00"),
        ("2023-12-31T24:00:00+01:00", "2024-01-01T00:00:00+01:00"),
        ("-0001-12-31T24:00:00Z", "0000-01-01T00:00:00Z"),
        ("-999999999-01-01T00:00:00Z", "-999999999-01-01T00:00:00Z"),
        ("999999999-12-31T23:59:59.999999999@Europe/Paris", "999999999-12-31T23:59:59.999999999@Europe/Paris"),
        ("2024-07-01T10:30:00@Europe/Berlin", "2024-07-01T10:30:00@Europe/Berlin"),
        ("2024-07-01T10:30:00+02:00[Europe/Berlin]", "2024-07-01T10:30:00@Europe/Berlin"),
        ("2024-07-01T10:30:00Z[Etc/UTC]", "2024-07-01T10:30:00@Etc/UTC"),
    ],
)
def test_a_date_and_time_is_written_in_one_form(text: str, canonical: str) -> None:
    assert temporal_text(parse_date_time(text)) == canonical


@pytest.mark.parametrize(
    "text",
    [
        "",
        "10:30:00",
        "2024-02-29T",
        "2024-02-29T10:30",
        "2024-02-29 10:30:00",
        "2024-02-29t10:30:00",
        "2024-02-29TT10:30:00",
        "2024-02-30T10:30:00",
        "2024-02-29T24:00:01",
        "2024-02-29T10:30:60",
        "2024-02-29Z",
        "2024-02-29T10:30:00+02:00@Europe/Berlin",
        "2024-02-29T10:30:00@Europe/Berlin[Europe/Berlin]",
        "2024-02-29T10:30:00[Europe/Berlin]",
        "2024-02-29T10:30:00+02:00[Europe/Berlin]",
        "2024-02-29T10:30:00+01:00[Europe/Berlin",
        "999999999-12-31T24:00:00",
        "9999999999-12-31T10:30:00",
    ],
)
def test_other_forms_are_no_date_and_time(text: str) -> None:
    with pytest.raises(FeelFault):
        parse_date_time(text)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("PT0S", "PT0S"),
        ("P0D", "PT0S"),
        ("-PT0S", "PT0S"),
        ("PT0.S", "PT0S"),
        ("PT1.S", "PT1S"),
        ("PT0.000000001S", "PT0.000000001S"),
        ("PT0.2500000000000000S", "PT0.25S"),
        ("PT26H", "P1DT2H"),
        ("PT1000M", "PT16H40M"),
        ("PT86400S", "P1D"),
        ("P1DT24H60M60S", "P2DT1H1M"),
        ("-P1DT2H3M4.5S", "-P1DT2H3M4.5S"),
        ("PT0000000000000000000000001S", "PT1S"),
        ("P730000000000D", "P730000000000D"),
        ("P0Y", "P0M"),
        ("P0M", "P0M"),
        ("-P0Y0M", "P0M"),
        ("P12M", "P1Y"),
        ("P1Y27M", "P3Y3M"),
        ("-P14M", "-P1Y2M"),
        ("P1999999998Y", "P1999999998Y"),
    ],
)
def test_a_duration_is_written_normalised(text: str, canonical: str) -> None:
    assert temporal_text(parse_duration(text)) == canonical


@pytest.mark.parametrize(
    "text",
    [
        "",
        "P",
        "-P",
        "PT",
        "P1DT",
        "T1H",
        "1D",
        "P1",
        "P1H",
        "P1S",
        "PT1D",
        "PT1Y",
        "P1Y1D",
        "P1YT1H",
        "P1M1Y",
        "PT1S1M",
        "P1DT1M1H",
        "+P1D",
        "--P1D",
        "P-1D",
        "PT-1S",
        "PT.5S",
        "PT1.5M",
        "P1.5D",
        "PT1,5S",
        "P1W",
        "p1d",
        "P1D ",
        "PT0.0000000001S",
        "P999999999999999999D",
        "P99999999999Y",
        "PT 5S",
        "PT٣S",
        "PT" + "1" * 200 + "S",
    ],
)
def test_other_forms_are_no_durations(text: str) -> None:
    with pytest.raises(FeelFault):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("10:30:00@Europe/Tallinn", Time),
        ("T10:30:00", Time),
        ("2024-02-29T10:30:00", DateTime),
        ("-2024-02-29T10:30:00", DateTime),
    ],
)
def test_an_at_literal_has_the_kind_of_its_form(text: str, kind: type) -> None:
    assert type(parse_temporal(text)) is kind


@pytest.mark.parametrize(("text", "offset_s"), [("Z", 0), ("z", 0), ("+01:00", 3600), ("-00:30", -1800)])
def test_an_offset_is_a_zone(text: str, offset_s: int) -> None:
    assert parse_zone(text).offset_s == offset_s


def test_string_writes_the_canonical_form() -> None:
    text = 'string([@"24:00:00z", @"PT90M", {at: @"2024-07-01T10:30:00.50+00:00"}])'
    value = compile_expression(text).evaluate({})
    assert not isinstance(value, Range | FeelFunction)
    assert value == "[00:00:00Z, PT1H30M, {at:2024-07-01T10:30:00.5Z}]"
