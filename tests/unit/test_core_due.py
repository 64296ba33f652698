"""When a timer is due: the quick reading of plain instants says what the full reading of FEEL says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.bpmn.definition import TimerKind
from engine.core.due import due_at_us
from engine.feel.faults import FeelFault
from engine.feel.temporal_text import parse_date_time

LONG_AGO_US = -(10**17)


# mostly what a calendar has, now and then what it has not
instants = st.builds(
    "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}{}{}".format,
    st.integers(0, 9999),
    st.integers(0, 13),
    st.integers(0, 32),
    st.integers(0, 24),
    st.integers(0, 60),
    st.integers(0, 60),
    st.sampled_from(["", ".5", ".000", ".999", ".000001", ".999999", ".999999999"]),
    st.sampled_from(["Z", "z", "+01:00", ""]),
)


def read(text: str) -> int | str:
    try:
        return due_at_us(TimerKind.DATE, text, LONG_AGO_US)
    except ValueError as error:
        return str(error)


def read_in_full(text: str) -> int | str:
    try:
        return due_at_us(TimerKind.DATE, parse_date_time(text), LONG_AGO_US)
    except (FeelFault, ValueError) as error:
        return str(error)


@given(instants)
def test_a_text_is_due_when_its_date_and_time_is(text: str) -> None:
    assert read(text) == read_in_full(text)


@pytest.mark.parametrize(
    "text",
    [
        "1969-12-31T23:59:59.999999Z",
        "2024-02-29T00:00:00Z",
        "2023-02-29T00:00:00Z",
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00.000Z",
        "9999-12-31T23:59:59.999999Z",
        "9999-12-31T24:00:00Z",
        "2024-06-30T23:59:60Z",
        "2024-02-29T10:30:00.123Z\n",
        "２０２４-02-29T10:30:00Z",
    ],
)
def test_the_edges_of_the_calendar_read_alike(text: str) -> None:
    assert read(text) == read_in_full(text)
