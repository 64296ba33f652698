"""Owns virtual time for tests: an event loop that jumps to the next deadline instead of waiting for it.
Never waits for real time; a program that waits for nothing at all is reported as a deadlock.
Called by the simulation tests.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

EPOCH_US = 1_767_225_600_000_000  # 2026-01-01T00:00:00Z: where every simulation begins


class Deadlock(Exception):
    """Everything waits, and nothing will ever happen."""


class _Jumping(selectors.SelectSelector):
    """Asks once for real events; when there are none, moves the loop's clock to its next deadline."""

    loop: VirtualTimeLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(0)
        if events or timeout == 0:
            return events
        if timeout is None:
            raise Deadlock(f"nothing is scheduled at {self.loop.time():.6f} s")
        self.loop.jump(timeout)
        return events


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """asyncio's own loop on a clock that starts at 0 s and only moves when everybody waits."""

    def __init__(self, limit_s: float = 7 * 86_400) -> None:
        self._virtual_s = 0.0
        self._limit_s = limit_s
        selector = _Jumping()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self._virtual_s

    def jump(self, by_s: float) -> None:
        self._virtual_s += by_s
        if self._virtual_s > self._limit_s:
            raise Deadlock(f"only recurring timers are left after {self._limit_s} s")


def now_us() -> int:
    """The engine's clock in a simulation: wall time that follows the running loop."""
    return EPOCH_US + round(asyncio.get_running_loop().time() * 1_000_000)


def run_virtual(main: Coroutine[Any, Any, T], limit_s: float = 7 * 86_400) -> T:
    """Run `main` to its end in virtual time. Raises Deadlock when it cannot end."""
    with asyncio.Runner(loop_factory=lambda: VirtualTimeLoop(limit_s)) as runner:
        return runner.run(main)
