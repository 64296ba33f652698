"""Owns what the durable records say of events: who took which message or signal, and what nobody followed up.
Never changes who got what, but for a message that nobody has claimed and its sender takes back.
Called by the correlation of events, after a crash or when an answer was lost.

All instants are the database's.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from sqlalchemy import TextClause, text

from engine.records import EventReceived, Key
from engine.store.database import Database
from engine.store.messages import Claim, Message
from engine.store.queries import Queries
from engine.store.signals import StoredSignal

_DAY = "DATE '2024-01-01' + (({key} >> 22) / 86400000)::integer"
_BEGAN = text(f"""
    SELECT EXISTS (
        SELECT FROM record WHERE process_instance_key = :key AND position = 1 AND day = {_DAY.format(key=":key")}
    )
""")
_GOT = text("""
    SELECT process_instance_key FROM message_correlation
    WHERE message_key = :key AND process_instance_key > 0
    ORDER BY claimed_at, process_instance_key
    LIMIT 1
""")
_WITHDRAW = text("""
    DELETE FROM message m
    WHERE key = :key AND NOT EXISTS (SELECT FROM message_correlation c WHERE c.message_key = m.key)
""")
_STRANDED = text(f"""
    SELECT c.process_id, c.process_instance_key, c.subscription_key, c.claimed_at, m.key, m.name, m.correlation_key,
        m.message_id, m.tenant, m.variables, m.published_at, m.expires_at
    FROM message_correlation c JOIN message m ON m.key = c.message_key
    WHERE c.delivered_at IS NULL AND c.subscription_key IS NOT NULL
      AND c.claimed_at < now() - make_interval(secs => :older_than_s)
      AND EXISTS (
          SELECT FROM record r
          WHERE r.process_instance_key = c.process_instance_key AND r.kind = 'instance_ended'
            AND r.day = {_DAY.format(key="c.process_instance_key")}
      )
    ORDER BY c.message_key
    LIMIT :limit
""")
_UNSTARTED = text(f"""
    SELECT b.process_id, b.process_instance_key, s.key, s.name, s.variables, s.thrown_by, s.broadcast_at
    FROM signal_start b JOIN signal s ON s.key = b.signal_key
    WHERE b.claimed_at < now() - make_interval(secs => :older_than_s)
      AND NOT EXISTS (
          SELECT FROM record r
          WHERE r.process_instance_key = b.process_instance_key AND r.position = 1
            AND r.day = {_DAY.format(key="b.process_instance_key")}
      )
    ORDER BY s.key
    LIMIT :limit
""")
_OTHERS = text("""
    SELECT EXISTS (
        SELECT FROM engine_process WHERE epoch <> :epoch AND released_at IS NULL AND recovered_at IS NULL
    )
""")


class SignalStart(NamedTuple):
    """A signal that was to start an instance, which never began."""

    signal: StoredSignal
    process_id: str
    process_instance_key: Key


class EventLog:
    """Asks for the engine with the lease `epoch`. Every method raises sqlalchemy.exc.OperationalError while Postgres
    is away; every one may be repeated after that."""

    def __init__(self, database: Database, epoch: int) -> None:
        self._database = database
        self._queries = Queries(database)
        self._epoch = epoch

    async def received(self, instance_key: Key) -> Collection[tuple[Key, Key]]:
        """Every event that the instance has taken: subscription, and message or signal."""
        packed = (await self._queries.commands_of([instance_key])).get(instance_key, [])
        commands = (logged.command for row in packed for logged in row.unpacked())
        return {(each.subscription_key, each.event_key) for each in commands if isinstance(each, EventReceived)}

    async def began(self, instance_key: Key) -> bool:
        """Whether the instance's Start is durable."""
        return bool(await self._one(_BEGAN, key=instance_key))

    async def got(self, message_key: Key) -> Key | None:
        """The first instance that has claimed a message."""
        found: Key | None = await self._one(_GOT, key=message_key)
        return found

    async def withdraw(self, message_key: Key) -> bool:
        """Delete a message that nobody has claimed; false when somebody has."""
        async with self._database.begin() as connection:
            return (await connection.execute(_WITHDRAW, {"key": message_key})).rowcount == 1

    async def stranded(self, older_than_s: float, limit: int = 1_000) -> list[Claim]:
        """Unconfirmed claims for subscriptions of instances that have ended since."""
        async with self._database.engine.connect() as connection:
            rows = await connection.execute(_STRANDED, {"older_than_s": older_than_s, "limit": limit})
            return [Claim(row[0], row[1], row[2], row[3], Message(*row[4:])) for row in rows]

    async def unstarted(self, older_than_s: float, limit: int = 1_000) -> list[SignalStart]:
        """Signals that were to start an instance which never began."""
        async with self._database.engine.connect() as connection:
            rows = await connection.execute(_UNSTARTED, {"older_than_s": older_than_s, "limit": limit})
            return [SignalStart(StoredSignal(*row[2:]), row[0], row[1]) for row in rows]

    async def others(self) -> bool:
        """Whether other engines may be alive."""
        return bool(await self._one(_OTHERS, epoch=self._epoch))

    async def _one(self, query: TextClause, **values: object) -> Any:
        async with self._database.engine.connect() as connection:
            return (await connection.execute(query, values)).scalar_one_or_none()
