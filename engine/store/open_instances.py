"""Owns who looks after each operational instance that has not ended: instances outlive the engines that ran them.
Never opens or closes one: the rows of its start, its incidents and its end do, in the transaction that stores them.
Called by recovery, which takes over what a dead engine left, and by the searches.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import text

from engine.records import Key
from engine.store.database import Database

_OWNED = text("""
    SELECT process_instance_key FROM open_instance
    WHERE owner_epoch = :epoch AND process_instance_key > :after
    ORDER BY process_instance_key
    LIMIT :limit
""")
_TAKE_OVER = text("""
    UPDATE open_instance SET owner_epoch = :heir
    WHERE owner_epoch = :dead AND process_instance_key = ANY(CAST(:keys AS bigint[]))
    RETURNING process_instance_key
""")
_COUNT = text("SELECT count(*) FROM open_instance")


class OpenInstances:
    """Reads and hands over open operational instances. Every method raises sqlalchemy.exc.OperationalError while
    Postgres is away."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def owned_by(self, epoch: int, after: Key = 0, limit: int = 1_000) -> list[Key]:
        """Open operational instances of the engine with that lease, in the order of their keys behind `after`."""
        values = {"epoch": epoch, "after": after, "limit": limit}
        async with self._database.engine.connect() as connection:
            return list(await connection.scalars(_OWNED, values))

    async def take_over(self, dead: int, heir: int, keys: Collection[Key]) -> list[Key]:
        """Make the engine `heir` (its epoch) the owner of those of `keys` that are still `dead`'s; returns them."""
        values = {"dead": dead, "heir": heir, "keys": list(keys)}
        async with self._database.begin() as connection:
            return sorted(await connection.scalars(_TAKE_OVER, values))

    async def count(self) -> int:
        """Of all engines together."""
        async with self._database.engine.connect() as connection:
            return int((await connection.execute(_COUNT)).scalar_one())
