"""Owns signals that were broadcast, for as long as an engine may still have to hear of them, and what each started.
Never decides who waits for a signal, and never delivers one; EventReceived in each instance's own log does.
Called by the runtime (for signals that instances throw), by its correlation, by recovery and by the routes.

An engine that takes over an instance asks `since` for what was broadcast while nobody looked after it. All instants
are the database's.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Final, NamedTuple

from sqlalchemy import text

from engine.records import Key, Variables
from engine.store.database import Database
from engine.store.feed import Feed
from engine.store.messages import storable

CHANNEL: Final = "conch_signals"  # NOTIFY with the key of a signal
KEPT_S: Final = 86_400.0

_COLUMNS = "key, name, variables, thrown_by, broadcast_at"
_BROADCAST = text("""
    WITH stored AS (
        INSERT INTO signal (key, name, variables, thrown_by)
        VALUES (:key, :name, CAST(:variables AS jsonb), :thrown_by)
        ON CONFLICT DO NOTHING
        RETURNING key
    )
    SELECT pg_notify(:channel, key::text) FROM stored
""")
_SINCE = text(f"""
    SELECT {_COLUMNS} FROM signal
    WHERE name = ANY(CAST(:names AS text[])) AND broadcast_at > :since
    ORDER BY key
    LIMIT :limit
""")
_CLAIM_START = text("""
    WITH claimed AS (
        INSERT INTO signal_start (signal_key, process_id, process_instance_key)
        SELECT key, :process_id, :instance_key FROM signal WHERE key = :signal_key
        ON CONFLICT DO NOTHING
        RETURNING signal_key
    )
    SELECT EXISTS (SELECT FROM claimed) OR EXISTS (
        SELECT FROM signal_start
        WHERE signal_key = :signal_key AND process_id = :process_id AND process_instance_key = :instance_key
    )
""")
_FORGET = text("""
    DELETE FROM signal WHERE key IN (
        SELECT key FROM signal WHERE broadcast_at <= now() - make_interval(secs => :kept_s)
        ORDER BY broadcast_at
        LIMIT :limit
        FOR UPDATE SKIP LOCKED
    )
""")


class StoredSignal(NamedTuple):
    key: Key
    name: str
    variables: Variables
    thrown_by: Key | None  # the process instance; null: from outside
    broadcast_at: datetime


class Signals:
    """Broadcasts signals. Every method raises sqlalchemy.exc.OperationalError while Postgres is away; every one may
    be repeated after that."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def broadcast(self, key: Key, name: str, variables: Variables, thrown_by: Key | None = None) -> None:
        """Store a signal and tell every engine; once for each key, however often it is called.

        Raises Rejected(INVALID_ARGUMENT) for a text that Postgres cannot hold.
        """
        values = {"key": key, "name": name, "thrown_by": thrown_by, "channel": CHANNEL}
        async with self._database.begin() as connection:
            await connection.execute(_BROADCAST, {**values, "variables": storable([name], variables)})

    async def since(self, names: Collection[str], since: datetime, limit: int = 1_000) -> list[StoredSignal]:
        """Signals of these names that were broadcast after `since` and are still kept, in the order of their keys."""
        values = {"names": list(names), "since": since, "limit": limit}
        async with self._database.engine.connect() as connection:
            return [StoredSignal(*row) for row in await connection.execute(_SINCE, values)]

    async def claim_start(self, signal_key: Key, process_id: str, instance_key: Key) -> bool:
        """Take a signal to start an instance of a process; true when it is that instance's, now or since before."""
        values = {"signal_key": signal_key, "process_id": process_id, "instance_key": instance_key}
        async with self._database.begin() as connection:
            return bool((await connection.execute(_CLAIM_START, values)).scalar_one())

    async def forget(self, *, kept_s: float = KEPT_S, limit: int = 1_000) -> int:
        """Delete signals that are older than any engine has to hear of; returns how many went."""
        async with self._database.begin() as connection:
            return (await connection.execute(_FORGET, {"kept_s": kept_s, "limit": limit})).rowcount

    def feed(self) -> Feed[StoredSignal]:
        """What is broadcast from its `begin` on."""
        return Feed(self._database, "signal", _COLUMNS, StoredSignal)
