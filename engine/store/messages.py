"""Owns messages while they can be correlated, and who got each: of every process at most one instance.
Never decides whom a message is for, and never delivers one; EventReceived in the instance's own log does.
Called by the runtime's correlation, by recovery and by the routes that publish.

A claim comes before its delivery, and both before `delivered`. Who died in between left a claim that its heir finds
with `claims_of`, or, where the instance never began, with `orphans`. All instants are the database's.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final, NamedTuple

from sqlalchemy import text

from engine.errors import Code, Rejected
from engine.records import Key, Variables
from engine.store import json_text
from engine.store.database import Database
from engine.store.feed import Feed

CHANNEL: Final = "conch_messages"  # NOTIFY with the key of a message that was published or is free again
MAX_TIME_TO_LIVE_MS: Final = 100 * 365 * 86_400_000
GRACE_S: Final = 60.0  # an expired message stays this long, so that every engine hears of it
HELD_S: Final = 7 * 86_400.0  # a claim that nobody confirmed, or that bars others, keeps its message this long

_COLUMNS = "key, name, correlation_key, message_id, tenant, variables, published_at, expires_at"
_SAME_ID = "tenant = :tenant AND name = :name AND correlation_key = :correlation_key AND message_id = :message_id"
_FREE_ID = text(f"UPDATE message SET message_id = NULL WHERE {_SAME_ID} AND expires_at <= now()")
_PUBLISH = text("""
    WITH stored AS (
        INSERT INTO message (key, name, correlation_key, message_id, tenant, variables, expires_at)
        VALUES (
            :key, :name, :correlation_key, :message_id, :tenant, CAST(:variables AS jsonb),
            now() + make_interval(secs => CAST(:ttl_ms AS double precision) / 1000)
        )
        ON CONFLICT DO NOTHING
        RETURNING key
    )
    SELECT pg_notify(:channel, key::text) FROM stored
""")
_STORED = text(f"SELECT {_COLUMNS} FROM message WHERE key = :key")
_BUFFERED = text(f"""
    SELECT {_COLUMNS} FROM message
    WHERE name = :name AND (CAST(:correlation_key AS text) IS NULL OR correlation_key = :correlation_key)
      AND (CAST(:tenant AS text) IS NULL OR tenant = :tenant)
      AND (expires_at > now() OR key > CAST(:opened_key AS bigint))
      AND NOT EXISTS (SELECT FROM message_correlation c WHERE c.message_key = key AND c.process_id = :process_id)
    ORDER BY key
    LIMIT :limit
""")
# Claims and confirmations do not wait for the disk themselves: the instance's own rows, which do, are committed after
# the claim, and a flush of the log takes everything before it along. A confirmation that is lost is looked up.
_SOON = "set_config('synchronous_commit', 'off', true)"
# Only who starts an instance by a correlation key holds the lock on it.
_CLAIM = text(f"""
    WITH claimed AS (
        INSERT INTO message_correlation (message_key, process_id, process_instance_key, subscription_key, lock_key)
        SELECT key, :process_id, :instance_key, CAST(:subscription_key AS bigint),
            CASE WHEN CAST(:subscription_key AS bigint) IS NULL THEN nullif(correlation_key, '') END
        FROM message WHERE key = :message_key
        ON CONFLICT DO NOTHING
        RETURNING message_key
    )
    SELECT EXISTS (SELECT FROM claimed) OR EXISTS (
        SELECT FROM message_correlation
        WHERE message_key = :message_key AND process_id = :process_id AND process_instance_key = :instance_key
          AND subscription_key IS NOT DISTINCT FROM CAST(:subscription_key AS bigint) AND delivered_at IS NULL
    ), {_SOON}
""")
_CLAIMS = f"""
    SELECT c.process_id, c.process_instance_key, c.subscription_key, c.claimed_at,
        {", ".join(f"m.{name}" for name in _COLUMNS.split(", "))}
    FROM message_correlation c JOIN message m ON m.key = c.message_key
    WHERE c.delivered_at IS NULL
"""
_CLAIMS_OF = text(f"{_CLAIMS} AND c.process_instance_key = :instance_key ORDER BY c.message_key LIMIT :limit")
_ORPHANS = text(f"""
    {_CLAIMS} AND c.subscription_key IS NULL AND c.claimed_at < now() - make_interval(secs => :older_than_s)
      AND NOT EXISTS (
          SELECT FROM record r
          WHERE r.process_instance_key = c.process_instance_key AND r.position = 1
            AND r.day = DATE '2024-01-01' + ((c.process_instance_key >> 22) / 86400000)::integer
      )
    ORDER BY c.message_key
    LIMIT :limit
""")
_DELIVERED = text(f"""
    WITH soon AS (SELECT {_SOON})
    UPDATE message_correlation SET delivered_at = now() FROM soon
    WHERE delivered_at IS NULL
      AND (message_key, process_id) IN (SELECT * FROM unnest(CAST(:keys AS bigint[]), CAST(:process_ids AS text[])))
""")
_RELEASE = text("""
    WITH freed AS (
        DELETE FROM message_correlation
        WHERE message_key = :message_key AND process_id = :process_id AND process_instance_key = :instance_key
          AND delivered_at IS NULL
        RETURNING message_key
    )
    SELECT pg_notify(:channel, message_key::text) FROM freed
""")
_EXPIRE = text("""
    DELETE FROM message WHERE key IN (
        SELECT key FROM message m
        WHERE expires_at <= now() - make_interval(secs => :grace_s)
          AND NOT EXISTS (
              SELECT FROM message_correlation c
              WHERE c.message_key = m.key AND c.claimed_at > now() - make_interval(secs => :held_s)
                AND (c.delivered_at IS NULL OR c.lock_key IS NOT NULL)
          )
        ORDER BY expires_at
        LIMIT :limit
        FOR UPDATE SKIP LOCKED
    )
""")


class Message(NamedTuple):
    key: Key
    name: str
    correlation_key: str  # "" for one that can only start instances
    message_id: str | None
    tenant: str
    variables: Variables
    published_at: datetime
    expires_at: datetime


class Claim(NamedTuple):
    """A message that belongs to one instance of a process and may not have reached it yet."""

    process_id: str
    process_instance_key: Key
    subscription_key: Key | None  # null: the message starts that instance
    claimed_at: datetime
    message: Message


class Messages:
    """Publishes, buffers and claims messages. Every method raises sqlalchemy.exc.OperationalError while Postgres is
    away; every one may be repeated after that."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def publish(
        self,
        key: Key,
        name: str,
        correlation_key: str,
        variables: Variables,
        *,
        ttl_ms: int = 0,
        message_id: str | None = None,
        tenant: str = "default",
    ) -> Message:
        """Store a message under a key of the caller's and tell every engine.

        It is buffered for `ttl_ms` milliseconds; with 0 it reaches only who waits already. Raises Rejected:
        ALREADY_EXISTS while another one with the same tenant, name, correlation key and id is buffered,
        INVALID_ARGUMENT for a text that Postgres cannot hold.
        """
        values: dict[str, Any] = {"key": key, "name": name, "correlation_key": correlation_key, "tenant": tenant}
        values |= {"message_id": message_id, "ttl_ms": min(max(ttl_ms, 0), MAX_TIME_TO_LIVE_MS), "channel": CHANNEL}
        values["variables"] = storable([*values.values()], variables)
        async with self._database.begin() as connection:
            if message_id is not None:
                await connection.execute(_FREE_ID, values)
            await connection.execute(_PUBLISH, values)
            stored = (await connection.execute(_STORED, {"key": key})).one_or_none()
        if stored is None:
            raise Rejected(
                Code.ALREADY_EXISTS,
                f"a message `{name}` with the id {message_id!r} and the correlation key {correlation_key!r} is "
                "buffered already",
            )
        return Message(*stored)

    async def get(self, key: Key) -> Message | None:
        async with self._database.engine.connect() as connection:
            row = (await connection.execute(_STORED, {"key": key})).one_or_none()
        return None if row is None else Message(*row)

    async def buffered(
        self,
        name: str,
        correlation_key: str | None,
        process_id: str,
        *,
        tenant: str | None = "default",
        opened_key: Key | None = None,
        limit: int = 100,
    ) -> list[Message]:
        """Messages that no instance of the process has claimed, oldest first; null: of any correlation key, tenant.

        Those that have expired are left out, but for those that came after the subscription with `opened_key` was
        opened: it waited for them, and nobody was there to say so.
        """
        values = {"name": name, "correlation_key": correlation_key, "process_id": process_id, "tenant": tenant}
        async with self._database.engine.connect() as connection:
            rows = await connection.execute(_BUFFERED, {**values, "opened_key": opened_key, "limit": limit})
            return [Message(*row) for row in rows]

    async def claim(self, message_key: Key, process_id: str, instance_key: Key, subscription_key: Key | None) -> bool:
        """Take a message for one instance; true when it is that instance's, now or since an earlier call, and has not
        been confirmed as delivered.

        Without a subscription the message is to start the instance: it fails as well while another instance of the
        process that was started by the same correlation key is open.
        """
        values = {"message_key": message_key, "process_id": process_id, "instance_key": instance_key}
        async with self._database.begin() as connection:
            claimed = await connection.execute(_CLAIM, {**values, "subscription_key": subscription_key})
            return bool(claimed.scalar_one())

    async def claims_of(self, instance_key: Key, limit: int = 1_000) -> list[Claim]:
        """Claims of the instance that nobody confirmed as delivered, oldest message first."""
        async with self._database.engine.connect() as connection:
            rows = await connection.execute(_CLAIMS_OF, {"instance_key": instance_key, "limit": limit})
            return [_claim(*row) for row in rows]

    async def orphans(self, older_than_s: float = 300.0, limit: int = 1_000) -> list[Claim]:
        """Claims for instances that never began, by who took so long that it must have died: to be released."""
        async with self._database.engine.connect() as connection:
            rows = await connection.execute(_ORPHANS, {"older_than_s": older_than_s, "limit": limit})
            return [_claim(*row) for row in rows]

    async def delivered(self, claims: Iterable[tuple[Key, str]]) -> None:
        """The EventReceived, or the Start, of these claims (message key, process id) is durable."""
        pairs = list(claims)
        values = {"keys": [key for key, _ in pairs], "process_ids": [process_id for _, process_id in pairs]}
        async with self._database.begin() as connection:
            await connection.execute(_DELIVERED, values)

    async def release(self, message_key: Key, process_id: str, instance_key: Key) -> None:
        """Give back a claim that came to nothing, and tell every engine that the message is free."""
        values = {"message_key": message_key, "process_id": process_id, "instance_key": instance_key}
        async with self._database.begin() as connection:
            await connection.execute(_RELEASE, {**values, "channel": CHANNEL})

    async def expire(self, *, grace_s: float = GRACE_S, limit: int = 1_000) -> int:
        """Delete messages whose time is over and that nobody waits for any more; returns how many went."""
        async with self._database.begin() as connection:
            return (await connection.execute(_EXPIRE, {"grace_s": grace_s, "held_s": HELD_S, "limit": limit})).rowcount

    def feed(self) -> Feed[Message]:
        """What is published from its `begin` on."""
        return Feed(self._database, "message", _COLUMNS, Message)


def storable(texts: Iterable[object], variables: Variables) -> str:
    """`variables` as JSON. Raises Rejected(INVALID_ARGUMENT) for what Postgres cannot hold, in them or in `texts`."""
    try:
        json_text.dumps([each for each in texts if isinstance(each, str)])
        return json_text.dumps(variables).decode()
    except json_text.Poison as error:
        raise Rejected(Code.INVALID_ARGUMENT, f"a text cannot be stored: {error}") from error


def _claim(process_id: str, instance_key: Key, subscription_key: Key | None, claimed_at: datetime, *rest: Any) -> Claim:
    return Claim(process_id, instance_key, subscription_key, claimed_at, Message(*rest))
