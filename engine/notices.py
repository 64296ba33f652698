"""Owns the order in which others hear what instances wait for: never before it is durable, never out of turn.
Never knows what a notice says.
Called by the runtime, which hands notices over with the commit that they wait for.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from engine.errors import ConchError
from engine.job import place_of
from engine.live import Notice
from engine.store.journal import Commit

log = logging.getLogger("conch.notices")

A_FEW = 128  # at once; then everybody else gets a turn


class _Waiting(NamedTuple):
    commit: Commit | None
    notices: Sequence[Notice]
    failed: Callable[[ConchError], None] | None


class Notices:
    """A queue as long as the journal's, because each entry belongs to records that wait in it."""

    def __init__(self) -> None:
        self._queue: deque[_Waiting] = deque()
        self._filled = asyncio.Event()
        self._emptied = asyncio.Event()
        self._emptied.set()

    def add(
        self,
        commit: Commit | None,
        notices: Sequence[Notice],
        failed: Callable[[ConchError], None] | None = None,
    ) -> None:
        """Give `notices` once `commit` is durable, after all that came before; null: it is already.

        `failed` is called instead when it never will be.
        """
        self._queue.append(_Waiting(commit, notices, failed))
        self._filled.set()
        self._emptied.clear()

    async def flushed(self) -> None:
        """Return when everything that was added has been given."""
        await self._emptied.wait()

    async def run(self) -> None:
        """Give notices for ever."""
        while True:
            given = 0
            while self._queue:
                commit, notices, failed = self._queue[0]
                if commit is not None and not commit.done:
                    await commit.settled()
                    given = 0
                self._queue.popleft()
                if commit is None or commit.error is None:
                    _give(notices)
                elif failed is not None:
                    failed(commit.error)
                given += 1
                if given % A_FEW == 0:
                    await asyncio.sleep(0)
            self._emptied.set()
            self._filled.clear()
            await self._filled.wait()


def _give(notices: Sequence[Notice]) -> None:
    for notice, arguments in notices:
        try:
            notice(*arguments)
        except Exception as error:  # what one listener does wrong must not keep the others from hearing
            extra = {"notice": notice.__name__, "error_type": type(error).__name__, "place": place_of(error)}
            log.critical("notice failed", extra=extra)
