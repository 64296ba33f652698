"""Owns one process's connection for the store's notifications of messages and signals.
Never reads what they are about, and never outlives its connection: who listens comes again, and then looks at all.
Called by the correlation of events.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Final

from engine.records import Key
from engine.store import messages, signals
from engine.store.database import RawConnection, open_raw

CATCH_UP_S: Final = 15.0  # a notification may be lost with its connection, and the connection without a word


class Hearing:
    """LISTENs while somebody iterates. Raises psycopg.OperationalError when the connection is lost."""

    def __init__(self, conninfo: str, catch_up_s: float = CATCH_UP_S) -> None:
        self._conninfo = conninfo
        self._catch_up_s = catch_up_s

    @asynccontextmanager
    async def listen(self) -> AsyncIterator[AsyncIterator[Collection[Key]]]:
        """Yields the keys of messages that were named, at first none; none as well when nothing came for a while."""
        connection = await open_raw(self._conninfo)
        async with connection:
            await connection.execute(f"LISTEN {messages.CHANNEL}")
            await connection.execute(f"LISTEN {signals.CHANNEL}")
            yield self._heard(connection)

    async def _heard(self, connection: RawConnection) -> AsyncIterator[Collection[Key]]:
        yield ()  # for what came before the LISTEN
        while True:
            heard = connection.notifies(timeout=self._catch_up_s, stop_after=1)
            yield {int(each.payload) async for each in heard if each.channel == messages.CHANNEL}
