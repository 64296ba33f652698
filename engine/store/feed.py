"""Owns one process's reading of a table that many processes add to: every row once, whatever the order of commits.
Never waits for rows or keeps them; a notification says when to look, a slow look finds what no notification told.
Called by the stores of messages and signals.

Keys and clocks do not tell what is new: a transaction that began earlier may commit later. Every row bears the number
of its transaction (`stored_in`); what is below the oldest transaction that still runs (`pg_snapshot_xmin`) is complete
and never looked at again. PostgreSQL manual, "Transaction ID and Snapshot Information Functions".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, LiteralString, TypeVar

from engine.store.database import Database

T = TypeVar("T")

_NOW = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint"


class Feed(Generic[T]):
    """Rows of `table` that were stored since `begin`, each once. One owner, who calls one method at a time.

    `columns` begin with the key; `build` makes an item of them.
    """

    def __init__(
        self, database: Database, table: LiteralString, columns: LiteralString, build: Callable[..., T]
    ) -> None:
        self._database = database
        self._build = build
        self._complete_below: int | None = None
        self._seen: dict[int, int] = {}  # key -> transaction, of rows that are not below that
        self._query: LiteralString = f"""
            SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint, unread.*
            FROM (SELECT) AS always
            LEFT JOIN LATERAL (
                SELECT stored_in, {columns} FROM {table}
                WHERE stored_in >= %(complete_below)s AND key <> ALL(%(seen)s::bigint[])
                ORDER BY stored_in, key
                LIMIT %(limit)s
            ) AS unread ON true
        """

    async def begin(self) -> None:
        """From now on; what was stored before is the caller's to read."""
        ((complete_below,),) = await self._database.correlating.rows(_NOW, {})
        self._complete_below = int(complete_below)
        self._seen = {}

    async def unread(self, limit: int = 1_000) -> list[T]:
        """At most `limit` rows that were not returned yet, in the order of their keys; empty when there are none."""
        if self._complete_below is None:
            raise ValueError("a feed is read after it has begun")
        values = {"complete_below": self._complete_below, "seen": list(self._seen), "limit": limit}
        rows = await self._database.correlating.rows(self._query, values)
        found = sorted((row for row in rows if row[1] is not None), key=lambda row: row[2])
        self._seen |= {key: stored_in for _, stored_in, key, *_ in found}
        if len(found) < limit:
            self._complete_below = complete_below = int(rows[0][0])
            self._seen = {key: stored_in for key, stored_in in self._seen.items() if stored_in >= complete_below}
        return [self._build(*row[2:]) for row in found]
