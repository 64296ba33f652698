"""Owns messages while they can be correlated, and who got each: of every process at most one instance.
Never decides whom a message is for, and never delivers one; EventReceived in the instance's own log does.
Called by the runtime's correlation, by recovery and by the routes that publish.

A claim comes before its delivery, and both before `delivered`. Who died in between left a claim that its heir finds
with `claims_of`, or, where the instance never began, with `orphans`. All instants are the database's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from sqlalchemy import text

from engine.errors import Code, Rejected
from engine.records import Key, Variables
from engine.store import json_text
from engine.store.database import Database
from engine.store.feed import Feed
from engine.store.gathering import Gathering

CHANNEL: Final = "conch_messages"  # NOTIFY when messages were published, or with the key of one that is free again
LOOKED_AT: Final = 16  # messages that one look into the buffer for one subscription brings
MAX_TIME_TO_LIVE_MS: Final = 100 * 365 * 86_400_000
GRACE_S: Final = 60.0  # an expired message stays this long, so that every engine hears of it
HELD_S: Final = 7 * 86_400.0  # a claim that nobody confirmed, or that bars others, keeps its message this long

_MOST_PUBLISHED: Final = 256  # with one statement, and these bytes of variables
_MOST_BYTES: Final = 4 * 1024 * 1024
_MOST_CLAIMED: Final = 500
_MOST_LOOKS: Final = 64

_COLUMNS = "key, name, correlation_key, message_id, tenant, variables, published_at, expires_at"
# The rows of several messages stand in one order everywhere, so that two engines cannot wait for one another.
_FREE_IDS = """
    WITH over AS (
        SELECT m.key FROM message m
        JOIN unnest(
            %(tenants)s::text[], %(names)s::text[], %(correlation_keys)s::text[],
            %(message_ids)s::text[]
        ) AS given (tenant, name, correlation_key, message_id) USING (tenant, name, correlation_key, message_id)
        WHERE m.expires_at <= now()
        ORDER BY m.key
        FOR UPDATE OF m
    )
    UPDATE message SET message_id = NULL WHERE key IN (SELECT key FROM over)
"""
_PUBLISH = f"""
    WITH given AS (
        SELECT * FROM unnest(
            %(keys)s::bigint[], %(names)s::text[], %(correlation_keys)s::text[],
            %(message_ids)s::text[], %(tenants)s::text[], %(variables)s::text[],
            %(ttls_ms)s::double precision[]
        ) AS given (key, name, correlation_key, message_id, tenant, variables, ttl_ms)
    ), stored AS (
        INSERT INTO message (key, name, correlation_key, message_id, tenant, variables, expires_at)
        SELECT key, name, correlation_key, message_id, tenant, CAST(variables AS jsonb),
            now() + make_interval(secs => ttl_ms / 1000)
        FROM given ORDER BY tenant, name, correlation_key, message_id, key
        ON CONFLICT DO NOTHING
        RETURNING {_COLUMNS}
    ), told AS MATERIALIZED (
        SELECT count(pg_notify(%(channel)s, '')) AS times WHERE EXISTS (SELECT FROM stored)
    )
    SELECT {_COLUMNS}, times FROM stored CROSS JOIN told
    UNION ALL
    SELECT {_COLUMNS}, 0 FROM message WHERE key = ANY(%(keys)s::bigint[])
"""
_PUBLISHED = f"SELECT {_COLUMNS} FROM message WHERE key = ANY(%(keys)s::bigint[])"
_FREE = """
    (m.expires_at > now() OR m.key > {opened_key})
    AND NOT EXISTS (SELECT FROM message_correlation c WHERE c.message_key = m.key AND c.process_id = {process_id})
    ORDER BY m.key
    LIMIT {limit}
"""
_BUFFERED = text(f"""
    SELECT {_COLUMNS} FROM message m
    WHERE name = :name AND (CAST(:correlation_key AS text) IS NULL OR correlation_key = :correlation_key)
      AND (CAST(:tenant AS text) IS NULL OR tenant = :tenant)
      AND {_FREE.format(opened_key="CAST(:opened_key AS bigint)", process_id=":process_id", limit=":limit")}
""")
_LOOK = f"""
    SELECT looked.place, found.*
    FROM unnest(
        %(tenants)s::text[], %(names)s::text[], %(correlation_keys)s::text[],
        %(process_ids)s::text[], %(opened_keys)s::bigint[]
    ) WITH ORDINALITY AS looked (tenant, name, correlation_key, process_id, opened_key, place)
    CROSS JOIN LATERAL (
        SELECT {_COLUMNS} FROM message m
        WHERE m.name = looked.name AND m.correlation_key = looked.correlation_key AND m.tenant = looked.tenant
          AND {_FREE.format(opened_key="looked.opened_key", process_id="looked.process_id", limit=LOOKED_AT)}
    ) AS found
    ORDER BY looked.place, found.key
"""
# Claims and confirmations do not wait for the disk themselves: the instance's own rows, which do, are committed after
# the claim, and a flush of the log takes everything before it along. A confirmation that is lost is looked up.
_SOON = "set_config('synchronous_commit', 'off', true)"
# Only who starts an instance by a correlation key holds the lock on it.
_CLAIM = f"""
    WITH wanted AS (
        SELECT * FROM unnest(
            %(message_keys)s::bigint[], %(process_ids)s::text[], %(instance_keys)s::bigint[],
            %(subscription_keys)s::bigint[]
        ) WITH ORDINALITY AS wanted (message_key, process_id, process_instance_key, subscription_key, place)
    ), claimed AS (
        INSERT INTO message_correlation (message_key, process_id, process_instance_key, subscription_key, lock_key)
        SELECT message_key, process_id, process_instance_key, subscription_key,
            CASE WHEN subscription_key IS NULL THEN nullif(correlation_key, '') END AS lock_key
        FROM wanted JOIN message m ON m.key = message_key
        ORDER BY process_id, lock_key, message_key, place
        ON CONFLICT DO NOTHING
        RETURNING message_key, process_id, process_instance_key, subscription_key
    ), held AS (
        SELECT * FROM claimed
        UNION ALL
        SELECT message_key, process_id, process_instance_key, subscription_key
        FROM message_correlation WHERE message_key = ANY(%(message_keys)s::bigint[]) AND delivered_at IS NULL
    )
    SELECT DISTINCT place, {_SOON} FROM wanted JOIN held USING (message_key, process_id, process_instance_key)
    WHERE held.subscription_key IS NOT DISTINCT FROM wanted.subscription_key
"""
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
_DELIVERED = f"""
    WITH soon AS (SELECT {_SOON})
    UPDATE message_correlation SET delivered_at = now() FROM soon
    WHERE delivered_at IS NULL
      AND (message_key, process_id) IN (SELECT * FROM unnest(%(keys)s::bigint[], %(process_ids)s::text[]))
"""
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


class _Published(NamedTuple):
    key: Key
    name: str
    correlation_key: str
    message_id: str | None
    tenant: str
    variables: str  # JSON
    ttl_ms: float


class Messages:
    """Publishes, buffers and claims messages. Every method raises an OperationalError, of SQLAlchemy or psycopg,
    while Postgres is away; every one may be repeated after that."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._publishing = Gathering(self._publish, _MOST_PUBLISHED, lambda asked: len(asked.variables), _MOST_BYTES)
        self._looking = Gathering(self._look, _MOST_LOOKS)
        self._claiming = Gathering(self._claim, _MOST_CLAIMED)
        self._confirming = Gathering(self._confirm, _MOST_CLAIMED)

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
        stored = storable([name, correlation_key, message_id, tenant], variables)
        ttl_ms = min(max(ttl_ms, 0), MAX_TIME_TO_LIVE_MS)
        message = await self._publishing(
            _Published(key, name, correlation_key, message_id, tenant, stored, float(ttl_ms))
        )
        if message is None:
            raise Rejected(
                Code.ALREADY_EXISTS,
                f"a message `{name}` with the id {message_id!r} and the correlation key {correlation_key!r} is "
                "buffered already",
            )
        return message

    async def _publish(self, asked: Sequence[_Published]) -> list[Message | None]:
        columns = ("keys", "names", "correlation_keys", "message_ids", "tenants", "variables", "ttls_ms")
        values = _columns(columns, asked)
        identified = [each for each in asked if each.message_id is not None]
        publishing = self._database.publishing
        if identified:
            await publishing.rows(_FREE_IDS, _columns(columns, identified))
        rows = await publishing.rows(_PUBLISH, {**values, "channel": CHANNEL})
        stored = {row[0]: Message(*row[:-1]) for row in rows}
        missing = [each.key for each in asked if each.key not in stored]
        if missing:  # another one is buffered, or this one was stored at the same moment by a call whose answer is lost
            stored |= {row[0]: Message(*row) for row in await publishing.rows(_PUBLISHED, {"keys": missing})}
        return [stored.get(each.key) for each in asked]

    async def get(self, key: Key) -> Message | None:
        rows = await self._database.correlating.rows(_PUBLISHED, {"keys": [key]})
        return Message(*rows[0]) if rows else None

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

    async def look(
        self, tenant: str, name: str, correlation_key: str, process_id: str, opened_key: Key
    ) -> list[Message]:
        """The first LOOKED_AT of `buffered`, for one subscription; many look at the same time."""
        return await self._looking((tenant, name, correlation_key, process_id, opened_key))

    async def _look(self, asked: Sequence[tuple[str, str, str, str, Key]]) -> list[list[Message]]:
        found: list[list[Message]] = [[] for _ in asked]
        columns = ("tenants", "names", "correlation_keys", "process_ids", "opened_keys")
        for place, *row in await self._database.correlating.rows(_LOOK, _columns(columns, asked)):
            found[place - 1].append(Message(*row))
        return found

    async def claim(self, message_key: Key, process_id: str, instance_key: Key, subscription_key: Key | None) -> bool:
        """Take a message for one instance; true when it is that instance's, now or since an earlier call, and has not
        been confirmed as delivered.

        Without a subscription the message is to start the instance: it fails as well while another instance of the
        process that was started by the same correlation key is open.
        """
        return await self._claiming((message_key, process_id, instance_key, subscription_key))

    async def _claim(self, asked: Sequence[tuple[Key, str, Key, Key | None]]) -> list[bool]:
        columns = ("message_keys", "process_ids", "instance_keys", "subscription_keys")
        places = {place for place, _ in await self._database.correlating.rows(_CLAIM, _columns(columns, asked))}
        return [place in places for place in range(1, len(asked) + 1)]

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
        await asyncio.gather(*(self._confirming(claim) for claim in claims))

    async def _confirm(self, asked: Sequence[tuple[Key, str]]) -> list[None]:
        await self._database.correlating.rows(_DELIVERED, _columns(("keys", "process_ids"), asked))
        return [None] * len(asked)

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


def _columns(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """Rows as one list for each column."""
    return {name: list(values) for name, values in zip(names, zip(*rows, strict=True), strict=True)}
