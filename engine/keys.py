"""Owns the minting of 63-bit keys: 41 bits of milliseconds since 2024-01-01, 9 bits of writer, 13 bits of sequence.
Never reads a clock or stores a key: the caller brings the clock, and the writer number comes from the lease.
Called by the runtime once per command, by the api for refusals, and by the store to find the day of an instance.
"""

from __future__ import annotations

from collections.abc import Callable

from engine.records import KEY_EPOCH_MS, KEY_TIME_SHIFT, SEQUENCE_BITS, WRITER_BITS, Key

MAX_RUN = 1 << SEQUENCE_BITS
MAX_WRITER_ID = (1 << WRITER_BITS) - 1
KEY_EPOCH_DAY = KEY_EPOCH_MS // 86_400_000  # days from 1970-01-01 to the day of key 0
_MAX_TIME_MS = (1 << (63 - KEY_TIME_SHIFT)) - 1


def key_time_ms(key: Key) -> int:
    """The millisecond since the Unix epoch in which `key` was minted."""
    return (key >> KEY_TIME_SHIFT) + KEY_EPOCH_MS


def key_day(key: Key) -> int:
    """The UTC day in which `key` was minted, in days since 1970-01-01."""
    return (key >> KEY_TIME_SHIFT) // 86_400_000 + KEY_EPOCH_DAY


def key_writer(key: Key) -> int:
    """The writer that minted `key`."""
    return (key >> SEQUENCE_BITS) & MAX_WRITER_ID


class KeySource:
    """Mints keys that only grow, also when the clock goes backwards.

    `now_ms` returns milliseconds since the Unix epoch; `not_before_ms` is the last millisecond in which an earlier
    owner of the same writer number may have minted a key. A key counts as used once `advance` has passed it.
    """

    __slots__ = ("_end", "_next", "_now_ms", "_writer_part")

    def __init__(self, writer_id: int, now_ms: Callable[[], int], not_before_ms: int = KEY_EPOCH_MS - 1) -> None:
        if not 0 <= writer_id <= MAX_WRITER_ID:
            raise ValueError(f"writer_id must be between 0 and {MAX_WRITER_ID}, not {writer_id}")
        self._now_ms = now_ms
        self._writer_part = writer_id << SEQUENCE_BITS
        self._next = self._end = 0
        self._open(max(now_ms(), not_before_ms + 1) - KEY_EPOCH_MS)

    def peek(self) -> Key:
        """The key that the next `reserve(1)` returns at the earliest."""
        return self._next

    def reserve(self, run: int = MAX_RUN // 2) -> Key:
        """The first of `run` consecutive unused keys. Nothing is used until `advance`.

        Raises ValueError when `run` is larger than one millisecond can hold.
        """
        if run > MAX_RUN:
            raise ValueError(f"a run of {run} keys does not fit into one millisecond ({MAX_RUN})")
        elapsed_ms = self._now_ms() - KEY_EPOCH_MS
        current_ms = (self._end - 1) >> KEY_TIME_SHIFT
        if elapsed_ms > current_ms:
            self._open(elapsed_ms)
        elif self._next + run > self._end:
            self._open(current_ms + 1)
        return self._next

    def advance(self, next_key: Key) -> None:
        """Mark every key below `next_key` as used.

        Raises ValueError when `next_key` is not within the run that `reserve` promised.
        """
        if not self._next <= next_key <= self._end:
            raise ValueError(f"key {next_key} lies outside the reserved run {self._next}..{self._end}")
        self._next = next_key

    def skip_to(self, key: Key) -> None:
        """Mint nothing below `key`, which another writer with a faster clock may have left in an instance."""
        if key > self._next:
            self._open((key >> KEY_TIME_SHIFT) + 1)

    def mint(self) -> Key:
        """One key, used at once."""
        key = self.reserve(1)
        self._next = key + 1
        return key

    def mint_run(self) -> Key:
        """The first of MAX_RUN / 2 consecutive keys, all used at once: for an instance that is started later."""
        key = self.reserve()
        self._next = key + MAX_RUN // 2
        return key

    def _open(self, elapsed_ms: int) -> None:
        if not 0 <= elapsed_ms <= _MAX_TIME_MS:
            raise ValueError(f"the clock reads {elapsed_ms} ms after 2024-01-01, which no key can hold")
        self._next = elapsed_ms << KEY_TIME_SHIFT | self._writer_part
        self._end = self._next + MAX_RUN
