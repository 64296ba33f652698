"""Owns who rests: operational instances that have waited for a while leave memory as soon as they are durable.
Never writes or loads anything: a parked instance is its durable commands.
Called by the inboxes, with each operational instance that has nothing to do.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable

from engine.inbox import Inboxes
from engine.live import Live
from engine.notices import Notices
from engine.records import Key
from engine.roster import Roster


class Parking:
    """Takes instances out of memory that have rested for `after_s`; null: nobody rests."""

    def __init__(self, roster: Roster, notices: Notices, after_s: float | None, now_us: Callable[[], int]) -> None:
        self._roster = roster
        self._notices = notices
        self._after_s = after_s
        self._now_us = now_us
        self._resting: OrderedDict[Key, float] = OrderedDict()  # since when, on the loop's clock; the longest first
        self._handle: asyncio.TimerHandle | None = None

    def open(self, inboxes: Inboxes) -> None:
        self._inboxes = inboxes
        self._loop = asyncio.get_running_loop()

    def close(self) -> None:
        """Nobody goes to rest any more."""
        self._after_s = None
        if self._handle is not None:
            self._handle.cancel()

    def rest(self, live: Live) -> None:
        """Its inbox is empty: unless something happens, it leaves memory after a while."""
        self._roster.look_quiet()
        key = live.run.key
        if self._after_s is None or live.jobs:
            self._resting.pop(key, None)
            return
        self._resting[key] = self._loop.time()
        self._resting.move_to_end(key)
        if self._handle is None:
            self._look_later(self._after_s)

    def park(self, live: Live) -> None:
        """Let it leave memory, unless something has happened meanwhile or is about to."""
        if not live.left and self._may_rest(live):
            self._inboxes.park(live)

    def park_at_once(self, live: Live) -> None:
        """The same for one that has not rested yet."""
        self._resting.pop(live.run.key, None)
        self.park(live)

    def _look_later(self, after_s: float) -> None:
        since_s = next(iter(self._resting.values()))
        self._handle = self._loop.call_at(since_s + after_s, self._look)

    def _look(self) -> None:
        self._handle = None
        now_s = self._loop.time() + 1e-6
        while self._resting and self._after_s is not None:
            key, since_s = next(iter(self._resting.items()))
            if since_s + self._after_s > now_s:
                self._look_later(self._after_s)
                return
            del self._resting[key]
            live = self._roster.live.get(key)
            if live is not None:
                self._notices.add(live.run.latest_commit(), ((self.park, (live,)),))

    def _may_rest(self, live: Live) -> bool:
        if self._after_s is None or live.run.key in self._resting:
            return False
        if live.inbox or live.jobs or live.busy or live.queued or not live.run.is_durable:
            return False
        soon_us = self._now_us() + round(self._after_s * 1_000_000)
        return all(timer.due_at_us > soon_us for timer in live.instance.open_timers)
