"""Owns the timer start events that are armed: when each is due, and for which instance an engine has claimed it.
Never computes when a timer is due, and never starts an instance.
Called by the deployments (arm, disarm) and by the runtime, which looks for what is due.

A claim names the instance that will be started. Once its Start is durable, `advance` sets the next due time. A claim
whose engine died in between is old and can be taken over; whoever does looks first whether that instance began.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from sqlalchemy import text

from engine.records import Key
from engine.store.database import Database

STALE_S: Final = 60.0  # a claim that is older may be taken over
_UNIX_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_ARM = text("""
    INSERT INTO start_schedule (process_definition_key, element_id, due_at, repetitions_left)
    VALUES (:definition_key, :element_id, :due_at, :repetitions_left)
    ON CONFLICT DO NOTHING
""")
_DISARM = text("DELETE FROM start_schedule WHERE process_definition_key = ANY(CAST(:keys AS bigint[]))")
_COLUMNS = "process_definition_key, element_id, due_at, repetitions_left, claimed_key"
_DUE = text(f"""
    SELECT {_COLUMNS} FROM start_schedule
    WHERE due_at <= :at AND (claimed_key IS NULL OR claimed_at < now() - make_interval(secs => :stale_s))
    ORDER BY due_at
    LIMIT :limit
""")
_NEXT = text("SELECT min(due_at) FROM start_schedule WHERE claimed_key IS NULL")
_ALL = text(f"SELECT {_COLUMNS} FROM start_schedule ORDER BY due_at LIMIT :limit")
_THIS = """
    process_definition_key = :definition_key AND element_id = :element_id AND due_at = :due_at
"""
_CLAIM = text(f"""
    UPDATE start_schedule SET claimed_key = :instance_key, claimed_at = now()
    WHERE {_THIS} AND claimed_key IS NOT DISTINCT FROM CAST(:claimed_key AS bigint)
""")
_ADVANCE = text(f"""
    UPDATE start_schedule
    SET due_at = :next_due_at, repetitions_left = :repetitions_left, claimed_key = NULL, claimed_at = NULL
    WHERE {_THIS} AND claimed_key = :instance_key
""")
_FINISH = text(f"DELETE FROM start_schedule WHERE {_THIS} AND claimed_key = :instance_key")


class Scheduled(NamedTuple):
    """A timer start event as it was read; a claim compares with that."""

    process_definition_key: Key
    element_id: str
    due_at: datetime
    repetitions_left: int | None  # after the one that is due; null: for ever
    claimed_key: Key | None  # the instance that a claim names; null: nobody's

    @property
    def due_at_us(self) -> int:
        return (self.due_at - _UNIX_EPOCH) // timedelta(microseconds=1)


class StartSchedule:
    """Arms and claims timer start events. Every method raises sqlalchemy.exc.OperationalError while Postgres is
    away; every one may be repeated after that."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def arm(self, definition_key: Key, element_id: str, due_at_us: int, repetitions_left: int | None = 0) -> None:
        """Let a timer start event become due; one that is armed already keeps its time."""
        values: dict[str, Any] = {"definition_key": definition_key, "element_id": element_id}
        values |= {"due_at": _instant(due_at_us), "repetitions_left": repetitions_left}
        async with self._database.begin() as connection:
            await connection.execute(_ARM, values)

    async def disarm(self, definition_keys: Collection[Key]) -> None:
        """Forget every timer start event of these definitions."""
        async with self._database.begin() as connection:
            await connection.execute(_DISARM, {"keys": list(definition_keys)})

    async def armed(self, limit: int = 10_000) -> list[Scheduled]:
        """Everything that is armed, claimed or not, the earliest first."""
        async with self._database.engine.connect() as connection:
            return [Scheduled(*row) for row in await connection.execute(_ALL, {"limit": limit})]

    async def due(self, at_us: int, *, stale_s: float = STALE_S, limit: int = 100) -> list[Scheduled]:
        """What is due at the instant and can be claimed, the earliest first; with a `claimed_key`, of one who died."""
        values = {"at": _instant(at_us), "stale_s": stale_s, "limit": limit}
        async with self._database.engine.connect() as connection:
            return [Scheduled(*row) for row in await connection.execute(_DUE, values)]

    async def next_due_at_us(self) -> int | None:
        """When the next of those that nobody claimed is due; null when there is none."""
        async with self._database.engine.connect() as connection:
            due_at: datetime | None = (await connection.execute(_NEXT)).scalar_one()
        return None if due_at is None else (due_at - _UNIX_EPOCH) // timedelta(microseconds=1)

    async def claim(self, scheduled: Scheduled, instance_key: Key) -> bool:
        """Take what was read for an instance; false when another engine was faster."""
        values = {**_place(scheduled), "claimed_key": scheduled.claimed_key, "instance_key": instance_key}
        async with self._database.begin() as connection:
            return (await connection.execute(_CLAIM, values)).rowcount == 1

    async def advance(
        self, scheduled: Scheduled, instance_key: Key, next_due_at_us: int | None, repetitions_left: int | None = None
    ) -> bool:
        """The Start of the claim's instance is durable: set the next due time, or forget the event where there is
        none. False when the claim is not that instance's any more."""
        values = {**_place(scheduled), "instance_key": instance_key, "repetitions_left": repetitions_left}
        statement = _FINISH
        if next_due_at_us is not None:
            statement, values["next_due_at"] = _ADVANCE, _instant(next_due_at_us)
        async with self._database.begin() as connection:
            return (await connection.execute(statement, values)).rowcount == 1


def _place(scheduled: Scheduled) -> dict[str, Any]:
    return {
        "definition_key": scheduled.process_definition_key,
        "element_id": scheduled.element_id,
        "due_at": scheduled.due_at,
    }


def _instant(at_us: int) -> datetime:
    return _UNIX_EPOCH + timedelta(microseconds=at_us)
