"""Owns the timers of operational instances, also of those that are parked, and the one look at the clock for all.
Never knows what a timer means; a timer that was taken back is left in the heap and skipped when its turn comes.
Called by the runtime, which is told which timer of which instance is due, the earliest first, a few at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from heapq import heapify, heappop, heappush

from engine.records import Key, Timer

LONGEST_LOOK_S = 60.0  # the wall clock may be set meanwhile, and timers follow the wall clock
RETRY_S = 1.0  # while the store is away nothing fires
A_FEW = 64  # of those that are due at once; then everybody else gets a turn
_SLACK = 1_000  # dead entries of the heap that are never worth sweeping


class Alarms:
    """Every armed timer by its due instant. `ring` is called with the instance, the timer and the due instant.

    `ready` says whether timers may fire now.
    """

    def __init__(self, now_us: Callable[[], int], ready: Callable[[], bool], ring: Callable[[Key, Key, int], None]):
        self._now_us = now_us
        self._ready = ready
        self._ring = ring
        self._owners: dict[Key, Key] = {}  # timer -> instance, for those that are armed
        self._heap: list[tuple[int, Key]] = []
        self._handle: asyncio.TimerHandle | asyncio.Handle | None = None
        self._looking_at_us = 0  # the due instant that the handle waits for
        self._closed = False

    def __len__(self) -> int:
        return len(self._owners)

    def __contains__(self, timer_key: Key) -> bool:
        return timer_key in self._owners

    def arm(self, instance_key: Key, timer: Timer) -> None:
        self._owners[timer.key] = instance_key
        heappush(self._heap, (timer.due_at_us, timer.key))
        if self._handle is None or timer.due_at_us < self._looking_at_us:
            self._look_later()

    def disarm(self, timer_key: Key) -> None:
        """Take a timer back. Nothing happens when it has fired, or was never armed."""
        if self._owners.pop(timer_key, None) is not None and len(self._heap) > 2 * len(self._owners) + _SLACK:
            self._heap = [entry for entry in self._heap if entry[1] in self._owners]
            heapify(self._heap)

    def close(self) -> None:
        """Nothing rings any more; what is armed stays known."""
        self._closed = True
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _look_later(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        if self._heap and not self._closed:
            self._looking_at_us = self._heap[0][0]
            delay_s = min(max(self._looking_at_us - self._now_us(), 0) / 1_000_000, LONGEST_LOOK_S)
            self._handle = asyncio.get_running_loop().call_later(delay_s, self._look)

    def _look(self) -> None:
        self._handle = None
        if not self._ready():
            self._looking_at_us = 0  # nothing that is armed meanwhile makes this look any earlier
            self._handle = asyncio.get_running_loop().call_later(RETRY_S, self._look)
            return
        now_us = self._now_us()
        for _ in range(A_FEW):
            if not self._heap or self._heap[0][0] > now_us:
                break
            due_at_us, timer_key = heappop(self._heap)
            instance_key = self._owners.pop(timer_key, None)
            if instance_key is not None:
                self._ring(instance_key, timer_key, due_at_us)
        self._look_later()
