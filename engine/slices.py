"""Owns the share of the loop that applies may take: after a slice of work everybody else gets a turn.
Never works on an instance by itself, and never lets one wait while nothing is running.
Called by the runtime.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from engine.live import Live


class Slices:
    """Counts the seconds that applies have taken in this pass of the loop, and keeps who has to wait for the next."""

    __slots__ = ("_length_s", "_ready", "_spent_s", "_turn")

    def __init__(self, length_s: float, turn: Callable[[Live], None]):
        self._length_s = length_s
        self._turn = turn
        self._spent_s = 0.0  # above 0 only while the next slice is scheduled
        self._ready: deque[Live] = deque()

    @property
    def spent(self) -> bool:
        return self._spent_s >= self._length_s

    def charge(self, seconds: float) -> None:
        """Count work that was done in this slice."""
        if self._spent_s == 0.0:
            asyncio.get_running_loop().call_soon(self._next)
        self._spent_s += seconds or 1e-9

    def queue(self, live: Live) -> None:
        """Give an instance its next turn in a later slice. To be called in a slice that is spent."""
        live.queued = True
        self._ready.append(live)

    def _next(self) -> None:
        self._spent_s = 0.0
        while self._ready and not self.spent:
            self._turn(self._ready.popleft())
