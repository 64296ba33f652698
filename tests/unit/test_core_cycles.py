"""When a cycle is due: repetitions, what happens after a downtime, and cron expressions against reference values."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.bpmn.cron import MACROS, parse_cron
from engine.bpmn.definition import TimerKind
from engine.core.due import due_at_us, following, next_cycle

SECOND = 1_000_000


def us(text: str) -> int:
    return (datetime.fromisoformat(text).replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(
        microseconds=1
    )


def text(at_us: int) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at_us)).replace(tzinfo=None).isoformat()


AT = us("2026-01-31T10:00:00.123456")


@pytest.mark.parametrize(
    ("value", "due", "left"),
    [
        ("R/PT10S", AT + 10 * SECOND, None),
        ("R3/PT10S", AT + 10 * SECOND, 2),
        ("R1/PT0.000001S", AT + 1, 0),
        ("R2/P1DT2H", AT + 26 * 3600 * SECOND, 1),
        ("R/P2W", AT + 14 * 86_400 * SECOND, None),
        ("R/P1M", us("2026-02-28T10:00:00.123456"), None),
        ("R/P1Y", us("2027-01-31T10:00:00.123456"), None),
        ("R3/2026-02-01T00:00:00Z/PT10S", us("2026-02-01T00:00:00"), 2),
        ("R3/2026-02-01T01:00:00+01:00/PT10S", us("2026-02-01T00:00:00"), 2),
        ("R3/2001-02-01T00:00:00Z/PT10S", AT, 2),
        ("@daily", us("2026-02-01T00:00:00"), None),
    ],
)
def test_the_first_repetition_of_a_cycle(value: str, due: int, left: int | None) -> None:
    assert next_cycle(value, AT) == (due, left)
    assert due_at_us(TimerKind.CYCLE, value, AT) == due


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("R0/PT10S", "at least once"),
        ("R3", "R3/PT10S"),
        ("R/PT0S", "longer than zero"),
        ("R/-PT1S", "longer than zero"),
        ("R/P1M1D", "not a duration"),
        ("R/2026-02-01T00:00:00/PT1S", "offset"),
        ("R/tomorrow/PT1S", "tomorrow"),
        ("R" + "9" * 10 + "/PT1S", "not a cycle"),
        ("R/P99999999Y", "9999"),
        ("R/P999999999Y", "year"),
        ("PT10S", "6"),
        ("", "6"),
        (10, "number"),
        (None, "null"),
        ("* * * * *", "5 fields"),
        ("0 60 25 32 13 8", "minute.*hour.*day of month.*month.*day of week"),
        ("? * * * * *", "second"),
        ("0/0 * * * * *", "zero"),
        ("30-10 * * * * *", "begins after"),
        ("0 0 0 * FOO *", "FOO"),
        ("0 0 0 * * L", "L"),
        ("0 0 0 * * MON#6", "MON#6"),
        ("0 0 0 30 2 *", "never"),
        ("@reboot", "@daily"),
        ("0 0 0 H * *", "H"),
        ("٣ * * * * *", "second"),
        ("0" * 300, "256"),
    ],
)
def test_what_is_no_cycle_says_why(value: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        next_cycle(value, AT)


def test_a_cycle_keeps_its_rhythm_however_late_it_fires() -> None:
    assert following("R/PT10S", AT, AT + 3 * SECOND) == AT + 10 * SECOND
    assert following("R/PT10S", AT, AT + 10 * SECOND - 1) == AT + 10 * SECOND


@pytest.mark.parametrize("late_s", [10, 11, 25, 86_400])
def test_what_was_missed_is_not_made_up_for_in_a_burst(late_s: int) -> None:
    fired = AT + late_s * SECOND
    assert following("R/PT10S", AT, fired) == fired + 10 * SECOND


def test_months_follow_the_calendar() -> None:
    assert text(following("R/P1M", us("2024-01-31T12:00:00"), us("2024-01-31T12:00:00"))) == "2024-02-29T12:00:00"
    assert text(following("R/P1M", us("2024-12-15T12:00:00"), us("2024-12-15T12:00:00"))) == "2025-01-15T12:00:00"


@given(
    st.sampled_from(["R/PT0.000001S", "R5/PT0.1S", "R/PT1H", "R/P1M", "*/7 * * * * *", "0 0 9 * * MON-FRI", "@yearly"]),
    st.integers(0, 4_000_000_000_000_000),
    st.integers(0, 10_000_000_000),
)
def test_the_next_repetition_is_always_later(value: str, last_due: int, late_us: int) -> None:
    at_us = last_due + late_us
    assert following(value, last_due, at_us) > at_us


# Reference values: the examples of Spring's documentation, evaluated by hand on the calendar of 2026.
@pytest.mark.parametrize(
    ("expression", "instants"),
    [
        ("0 0 * * * *", ["2026-01-31T11:00:00", "2026-01-31T12:00:00"]),
        ("*/10 * * * * *", ["2026-01-31T10:00:10", "2026-01-31T10:00:20"]),
        (
            "0 0 8-10 * * *",
            ["2026-02-01T08:00:00", "2026-02-01T09:00:00", "2026-02-01T10:00:00", "2026-02-02T08:00:00"],
        ),
        ("0 0/30 8-10 * * *", ["2026-01-31T10:30:00", "2026-02-01T08:00:00", "2026-02-01T08:30:00"]),
        ("0 0 6,19 * * *", ["2026-01-31T19:00:00", "2026-02-01T06:00:00"]),
        ("0 0 9-17 * * MON-FRI", ["2026-02-02T09:00:00", "2026-02-02T10:00:00"]),
        ("0 0 0 25 DEC ?", ["2026-12-25T00:00:00", "2027-12-25T00:00:00"]),
        ("0 0 0 L * *", ["2026-02-28T00:00:00", "2026-03-31T00:00:00"]),
        ("0 0 0 L-3 * *", ["2026-02-25T00:00:00", "2026-03-28T00:00:00"]),
        ("0 0 0 1W * *", ["2026-02-02T00:00:00", "2026-03-02T00:00:00", "2026-04-01T00:00:00"]),
        ("0 0 0 15W * *", ["2026-02-16T00:00:00", "2026-03-16T00:00:00", "2026-04-15T00:00:00"]),
        ("0 0 0 LW * *", ["2026-02-27T00:00:00", "2026-03-31T00:00:00"]),
        ("0 0 0 31W * *", ["2026-03-31T00:00:00", "2026-05-29T00:00:00"]),
        ("0 0 0 * * 5L", ["2026-02-27T00:00:00", "2026-03-27T00:00:00"]),
        ("0 0 0 * * THUL", ["2026-02-26T00:00:00", "2026-03-26T00:00:00"]),
        ("0 0 0 ? * 5#2", ["2026-02-13T00:00:00", "2026-03-13T00:00:00"]),
        ("0 0 0 ? * MON#1", ["2026-02-02T00:00:00", "2026-03-02T00:00:00"]),
        ("0 0 0 ? * SUN#5", ["2026-03-29T00:00:00", "2026-05-31T00:00:00"]),
        ("0 0 0 29 2 *", ["2028-02-29T00:00:00", "2032-02-29T00:00:00"]),
        ("0 0 0 29 2 mon", ["2044-02-29T00:00:00", "2072-02-29T00:00:00"]),
        ("0 0 0 13 * FRI", ["2026-02-13T00:00:00", "2026-03-13T00:00:00", "2026-11-13T00:00:00"]),
        ("0 0 0 * * SAT-SUN", ["2026-02-01T00:00:00", "2026-02-07T00:00:00"]),
        ("0 0 0 * * SUN-MON", ["2026-02-01T00:00:00", "2026-02-02T00:00:00", "2026-02-08T00:00:00"]),
        ("0 0 0 * * 7", ["2026-02-01T00:00:00", "2026-02-08T00:00:00"]),
        ("59 59 23 31 12 ?", ["2026-12-31T23:59:59", "2027-12-31T23:59:59"]),
        ("1,2 0 0 1,L 1-3/2 *", ["2026-03-01T00:00:01", "2026-03-01T00:00:02", "2026-03-31T00:00:01"]),
        ("@yearly", ["2027-01-01T00:00:00"]),
        ("@annually", ["2027-01-01T00:00:00"]),
        ("@monthly", ["2026-02-01T00:00:00", "2026-03-01T00:00:00"]),
        ("@weekly", ["2026-02-01T00:00:00", "2026-02-08T00:00:00"]),
        ("@midnight", ["2026-02-01T00:00:00", "2026-02-02T00:00:00"]),
        ("@hourly", ["2026-01-31T11:00:00"]),
    ],
)
def test_a_cron_expression_matches_as_its_documentation_says(expression: str, instants: list[str]) -> None:
    found, at_us = [], AT
    for _ in instants:
        at_us = following(expression, at_us, at_us)
        found.append(text(at_us))

    assert found == instants


def test_an_instant_that_matches_is_not_its_own_successor() -> None:
    noon = us("2026-01-31T12:00:00")
    assert next_cycle("0 0 12 * * *", noon - 1).due_at_us == noon
    assert next_cycle("0 0 12 * * *", noon).due_at_us == noon + 86_400 * SECOND


def test_before_the_epoch_counts_alike() -> None:
    assert text(next_cycle("0 0 12 * * *", -1).due_at_us) == "1970-01-01T12:00:00"
    assert text(next_cycle("0 0 12 * * *", -86_400 * SECOND).due_at_us) == "1969-12-31T12:00:00"


@given(
    st.lists(st.integers(0, 59), min_size=1, max_size=3),
    st.lists(st.integers(0, 23), min_size=1, max_size=3),
    st.lists(st.integers(1, 31), min_size=1, max_size=3),
    st.lists(st.integers(0, 7), min_size=1, max_size=4),
    st.integers(0, 4_000_000_000),
)
def test_no_match_is_skipped(
    minutes: list[int], hours: list[int], days: list[int], weekdays: list[int], at_s: int
) -> None:
    """Against the naive reading: walk minute by minute of every day that matches."""
    fields = (",".join(map(str, each)) for each in (minutes, hours, days))
    mins, hrs, dom = fields
    cron = parse_cron(f"0 {mins} {hrs} {dom} * {','.join(map(str, weekdays))}")
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=at_s)
    expected = None
    for ahead in range(1500):
        day = (moment + timedelta(days=ahead)).replace(hour=0, minute=0, second=0)
        if day.day in days and day.isoweekday() % 7 in {each % 7 for each in weekdays}:
            times = [day.replace(hour=hour, minute=minute) for hour in hours for minute in minutes]
            later = [each for each in times if each > moment]
            if later:
                expected = min(later)
                break
    found = cron.after(at_s * SECOND)
    if expected is not None:
        assert found == int(expected.timestamp()) * SECOND
    else:
        assert found is None or found > (at_s + 1499 * 86_400) * SECOND - 86_400 * SECOND


def test_every_macro_is_an_expression() -> None:
    assert all(math.isfinite(following(macro, AT, AT)) for macro in MACROS)
