"""Owns the daily partitions of `record`: one per UTC day, made ahead, none by default.
Never drops one; retention does, once no instance of the day is open.
Called by the runtime at start and hourly, and by the journal when a row finds no partition.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, timedelta

from psycopg import sql

from engine.keys import KEY_EPOCH_DAY, key_day
from engine.records import Key
from engine.store.database import RawConnection

DAYS_AHEAD = 7
_UNIX_EPOCH = date(1970, 1, 1)
_LOCK = 0x636F6E6368_01  # one engine makes partitions at a time


def day_of(key: Key) -> date:
    """The UTC day whose partition holds every row of the instance `key`."""
    return _UNIX_EPOCH + timedelta(days=key_day(key))


FIRST_DAY = _UNIX_EPOCH + timedelta(days=KEY_EPOCH_DAY)


def name_of(day: date) -> str:
    return f"record_{day:%Y%m%d}"


async def ensure_ahead(connection: RawConnection, days: int = DAYS_AHEAD) -> list[date]:
    """Make today's partition and those of the next `days` days; returns the days that were missing."""
    cursor = await connection.execute("SELECT (now() AT TIME ZONE 'UTC')::date")
    row = await cursor.fetchone()
    assert row is not None
    return await ensure(connection, (row[0] + timedelta(days=ahead) for ahead in range(days + 1)))


async def ensure(connection: RawConnection, days: Iterable[date]) -> list[date]:
    """Make the partitions of `days` that do not exist; returns those days.

    A table is made beside `record` and then attached, because that lets writers and readers carry on meanwhile.
    Raises psycopg.errors.LockNotAvailable when another transaction holds `record` against it.
    """
    made = []
    for day in sorted(set(days)):
        if not await _exists(connection, day) and await _make(connection, day):
            made.append(day)
    return made


async def runway_days(connection: RawConnection) -> int:
    """For how many days after today rows have a partition; below 2 is a reason to alarm."""
    cursor = await connection.execute("SELECT (now() AT TIME ZONE 'UTC')::date")
    row = await cursor.fetchone()
    assert row is not None
    days = 0
    while await _exists(connection, row[0] + timedelta(days=days + 1)):
        days += 1
    return days


async def _exists(connection: RawConnection, day: date) -> bool:
    # Straight from the catalog: to_regclass may answer from what this session remembered before it had the lock.
    cursor = await connection.execute(
        "SELECT EXISTS (SELECT FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid"
        " WHERE inhparent = 'record'::regclass AND relname = %s)",
        (name_of(day),),
    )
    row = await cursor.fetchone()
    return row is not None and bool(row[0])


async def _make(connection: RawConnection, day: date) -> bool:
    async with connection.transaction():
        await connection.execute("SET LOCAL lock_timeout = '2s'")
        await connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        if await _exists(connection, day):
            return False
        name = sql.Identifier(name_of(day))
        await connection.execute(sql.SQL("CREATE TABLE {} (LIKE record INCLUDING ALL)").format(name))
        await connection.execute(
            sql.SQL("ALTER TABLE record ATTACH PARTITION {} FOR VALUES FROM ({}) TO ({})").format(
                name, sql.Literal(day), sql.Literal(day + timedelta(days=1))
            )
        )
    return True
