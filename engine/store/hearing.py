"""Owns one process's connection for the store's notifications of messages and signals.
Never reads what they are about, and never outlives its connection: who listens comes again, and then looks at all.
Called by the correlation of events.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from engine.records import Key
from engine.store import messages, signals
from engine.store.database import RawConnection, open_raw

CATCH_UP_S: Final = 15.0  # a notification may be lost with its connection, and the connection without a word


class Heard(NamedTuple):
    """What there is to look at."""

    messages: bool  # some may have been published
    signals: bool  # some may have been broadcast
    freed: frozenset[Key] = frozenset()  # messages that were given back


EVERYTHING: Final = Heard(True, True)


class Hearing:
    """LISTENs while somebody iterates. Raises psycopg.OperationalError when the connection is lost."""

    def __init__(self, conninfo: str, catch_up_s: float = CATCH_UP_S) -> None:
        self._conninfo = conninfo
        self._catch_up_s = catch_up_s

    @asynccontextmanager
    async def listen(self) -> AsyncIterator[AsyncIterator[Heard]]:
        """Yields what there is to look at: at first, and when nothing came for a while, everything."""
        connection = await open_raw(self._conninfo)
        async with connection:
            await connection.execute(f"LISTEN {messages.CHANNEL}")
            await connection.execute(f"LISTEN {signals.CHANNEL}")
            yield self._heard(connection)

    async def _heard(self, connection: RawConnection) -> AsyncIterator[Heard]:
        yield EVERYTHING  # for what came before the LISTEN
        while True:
            heard = {
                (each.channel, each.payload)
                async for each in connection.notifies(timeout=self._catch_up_s, stop_after=1)
            }
            channels = {channel for channel, _ in heard}
            freed = frozenset(int(named) for channel, named in heard if channel == messages.CHANNEL and named)
            yield Heard(messages.CHANNEL in channels, signals.CHANNEL in channels, freed) if heard else EVERYTHING
