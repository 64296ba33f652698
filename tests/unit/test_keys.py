"""Keys: time-ordered, never repeated, in runs that fit into one millisecond."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.keys import MAX_RUN, KeySource, key_day, key_time_ms, key_writer
from engine.records import KEY_EPOCH_MS

NOON_MS = int(datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp() * 1000)


class Clock:
    def __init__(self, now_ms: int = NOON_MS) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms


def test_a_key_names_its_millisecond_its_writer_and_its_day() -> None:
    key = KeySource(511, Clock()).mint()
    assert key_time_ms(key) == NOON_MS
    assert key_writer(key) == 511
    assert key_day(key) == (datetime(2026, 3, 1, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)).days
    assert 0 < key < 1 << 63


def test_reserving_uses_nothing_up_and_advancing_does() -> None:
    source = KeySource(0, Clock())
    first = source.reserve(10)
    assert source.reserve(10) == first == source.peek()
    source.advance(first + 3)
    assert source.reserve(10) == first + 3


def test_a_run_that_no_longer_fits_begins_with_the_next_millisecond() -> None:
    source = KeySource(0, Clock())
    source.advance(source.reserve(MAX_RUN) + MAX_RUN - 1)
    assert key_time_ms(source.reserve(1)) == NOON_MS
    assert key_time_ms(source.reserve(2)) == NOON_MS + 1


def test_a_full_millisecond_spills_into_the_next_of_the_same_writer() -> None:
    source = KeySource(5, Clock())
    source.advance(source.reserve(MAX_RUN) + MAX_RUN)
    key = source.mint()
    assert (key_time_ms(key), key_writer(key)) == (NOON_MS + 1, 5)


def test_what_lies_outside_the_reserved_run_cannot_be_used() -> None:
    source = KeySource(0, Clock())
    first = source.reserve(1)
    for wrong in (first - 1, first + MAX_RUN + 1):
        with pytest.raises(ValueError, match="outside the reserved run"):
            source.advance(wrong)
    with pytest.raises(ValueError, match="does not fit"):
        source.reserve(MAX_RUN + 1)


def test_a_successor_begins_after_the_last_millisecond_of_its_predecessor() -> None:
    assert key_time_ms(KeySource(0, Clock(), not_before_ms=NOON_MS + 5_000).mint()) == NOON_MS + 5_001


@pytest.mark.parametrize("writer_id", [-1, 512])
def test_a_writer_number_beyond_nine_bits_is_refused(writer_id: int) -> None:
    with pytest.raises(ValueError, match="writer_id"):
        KeySource(writer_id, Clock())


@pytest.mark.parametrize("now_ms", [KEY_EPOCH_MS - 1, KEY_EPOCH_MS + (1 << 41)])
def test_a_clock_beyond_what_a_key_can_hold_is_refused(now_ms: int) -> None:
    with pytest.raises(ValueError, match="which no key can hold"):
        KeySource(0, Clock(now_ms), not_before_ms=0)


@given(st.lists(st.tuples(st.integers(-5_000, 5_000), st.integers(1, MAX_RUN), st.integers(0, MAX_RUN)), max_size=40))
def test_no_key_is_ever_minted_twice_whatever_the_clock_does(moves: list[tuple[int, int, int]]) -> None:
    clock = Clock()
    source = KeySource(7, clock)
    used_until = 0
    for shift_ms, run, used in moves:
        clock.now_ms += shift_ms
        first = source.reserve(run)
        assert first >= used_until
        assert key_writer(first) == key_writer(first + run - 1) == 7
        assert key_time_ms(first) == key_time_ms(first + run - 1)
        used_until = first + min(used, run)
        source.advance(used_until)


def test_keys_skip_those_that_a_writer_with_a_faster_clock_has_left() -> None:
    source, faster = KeySource(3, Clock()), KeySource(5, Clock(NOON_MS + 60_000))
    left = faster.mint()
    source.skip_to(left)
    key = source.mint()
    assert key > left
    assert key_writer(key) == 3
    source.skip_to(left)
    assert source.mint() == key + 1
