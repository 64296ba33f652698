"""Owns who may write: each engine process holds a writer number under an epoch of its own, on a lease it renews.
Never ends an instance: it says which are left over, and recovery ends or resumes them under its own epoch.
Called by the composition root (acquire, release), the runtime (renew, recover) and the journal (lapsed).

All instants are the database's, so that engines need not agree on the time. Between the moment a process takes itself
for lapsed and the moment others take it for dead lies `GRACE_S`, the time that a batch on its way needs to land.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from datetime import UTC, timedelta
from typing import NamedTuple

from sqlalchemy import text

from engine.errors import ConchError, LeaseLost
from engine.keys import MAX_WRITER_ID
from engine.records import MAX_DEADLINE_MS, Key
from engine.store.database import Database
from engine.store.owner import is_gone, this_process

LEASE_S = 15.0
GRACE_S = 15.0
WRITING = 0x636F6E63  # first half of the lock that every connection of a journal holds; the second is its epoch
_LOCK = 0x636F6E6368_03  # writer numbers are handed out one at a time

_FREE_WRITER = text("""
    SELECT free.id, max(coalesce(p.released_at, p.leased_until))
    FROM generate_series(0, :last) AS free (id)
    LEFT JOIN engine_process p ON p.writer_id = free.id
    GROUP BY free.id
    HAVING coalesce(bool_and(p.released_at IS NOT NULL OR p.leased_until < now() - make_interval(secs => :grace)), true)
    ORDER BY max(p.epoch) NULLS FIRST, free.id
    LIMIT 1
""")
_ACQUIRE = text("""
    INSERT INTO engine_process (epoch, writer_id, owner, engine_version, acquired_at, leased_until)
    SELECT coalesce(max(epoch), 0) + 1, :writer_id, :owner, :version, now(), now() + make_interval(secs => :lease)
    FROM engine_process
    RETURNING epoch
""")
_RENEW = text("""
    UPDATE engine_process SET leased_until = now() + make_interval(secs => :lease)
    WHERE epoch = :epoch AND claimed_by IS NULL AND released_at IS NULL
      AND NOT EXISTS (SELECT FROM engine_process heir WHERE heir.writer_id = :writer_id AND heir.epoch > :epoch)
""")
# A process may be gone while its last batch is still being stored; the lock goes with the connection that stores it.
_HELD = text("""
    SELECT epoch, owner FROM engine_process
    WHERE recovered_at IS NULL AND released_at IS NULL AND epoch <> :claimer
      AND NOT EXISTS (
          SELECT FROM pg_locks
          WHERE locktype = 'advisory' AND objsubid = 2 AND classid = :writing AND objid = epoch
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
      )
""")
_CLAIM = text("""
    UPDATE engine_process SET claimed_by = :claimer, claimed_until = now() + make_interval(secs => :claim)
    WHERE epoch IN (
        SELECT dead.epoch FROM engine_process dead
        WHERE dead.recovered_at IS NULL AND dead.epoch <> :claimer AND dead.epoch <> ALL(CAST(:left AS bigint[]))
          AND (
              dead.released_at IS NOT NULL
              OR dead.leased_until < now() - make_interval(secs => :grace)
              OR dead.epoch = ANY(CAST(:gone AS bigint[]))
          )
          AND (
              dead.claimed_by IS NULL OR dead.claimed_by = :claimer OR dead.claimed_until < now()
              OR dead.claimed_by = ANY(CAST(:gone AS bigint[]))
              OR EXISTS (
                  SELECT FROM engine_process other
                  WHERE other.epoch = dead.claimed_by AND (
                      other.released_at IS NOT NULL OR other.claimed_by IS NOT NULL
                      OR other.leased_until < now() - make_interval(secs => :grace)
                  )
              )
          )
        ORDER BY dead.epoch
        FOR UPDATE OF dead SKIP LOCKED
    )
    RETURNING epoch, writer_id, owner
""")
_LIFE = text("SELECT acquired_at, leased_until FROM engine_process WHERE epoch = :epoch")
# An online instance cannot outlive its deadline by much, so its Start is young; BRIN finds young rows. The bounds are
# values, so that other days are not even opened; the end is asked for one by one, so that no day is read whole.
_OPEN = text("""
    SELECT s.process_instance_key
    FROM record s
    WHERE s.day BETWEEN :first_day AND :last_day AND s.recorded_at > :since
      AND s.writer_epoch = :epoch AND s.kind = 'instance_started' AND s.online
      AND (
          SELECT true FROM record e
          WHERE e.process_instance_key = s.process_instance_key AND e.day = s.day AND e.kind = 'instance_ended'
            AND e.day BETWEEN :first_day AND :last_day
          LIMIT 1
      ) IS NULL
    ORDER BY s.process_instance_key
""")
_ADOPT = text("UPDATE open_instance SET owner_epoch = :claimer WHERE owner_epoch = :dead")
_OWNED = text("SELECT process_instance_key FROM open_instance WHERE owner_epoch = :claimer ORDER BY 1")
# A process tells others of the signals in a batch right after its commit; what it stored in its last moments it may not
# have told. When the lease was renewed for the last time is known as exactly as the lease is long.
_ENDED_LATELY = text("""
    SELECT r.process_instance_key
    FROM record r JOIN engine_process p ON p.epoch = r.writer_epoch
    WHERE r.writer_epoch = :epoch AND r.kind = 'instance_ended' AND NOT r.online
      AND r.recorded_at > p.leased_until - make_interval(secs => :moments)
    ORDER BY r.process_instance_key
""")
_MOMENTS_S = 5.0
_DAY = timedelta(days=1)
_OLDEST = timedelta(milliseconds=MAX_DEADLINE_MS)
# A lease that outlasts its process, what a request does after its deadline, and two clocks.
_MARGIN = timedelta(minutes=15)


class DeadProcess(NamedTuple):
    """An engine process whose lease ran out, or that left without having been looked after."""

    epoch: int
    writer_id: int
    owner: str


class Lease:
    """The right to write as `writer_id` under `epoch`."""

    def __init__(
        self, database: Database, writer_id: int, epoch: int, not_before_ms: int, asked_at_s: float, lease_s: float
    ) -> None:
        self.writer_id = writer_id
        self.epoch = epoch
        self.not_before_ms = not_before_ms  # for KeySource: no key of an earlier owner is younger
        self._database = database
        self.lease_s = lease_s
        self._valid_until_s = asked_at_s + lease_s  # on the loop's clock
        self._released = False

    @property
    def lapsed(self) -> bool:
        return self._released or asyncio.get_running_loop().time() >= self._valid_until_s

    async def renew(self) -> None:
        """Extend the lease; to be called every third of it.

        A lease that ran out, because Postgres was away, can be renewed while nobody has taken its place. Raises
        LeaseLost when another process has: it claimed the instances, or holds the writer number now.
        """
        asked_at_s = asyncio.get_running_loop().time()
        values = {"epoch": self.epoch, "writer_id": self.writer_id, "lease": self.lease_s}
        async with self._database.begin() as connection:
            await connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
            renewed = await connection.execute(_RENEW, values)
        if renewed.rowcount == 0:
            raise LeaseLost(f"engine epoch {self.epoch} was taken for dead; its instances belong to another process")
        self._valid_until_s = asked_at_s + self.lease_s

    async def release(self, *, recovered: bool) -> None:
        """Give the lease back; `recovered` says that no instance of it is open."""
        self._released = True
        statement = text(
            "UPDATE engine_process SET released_at = now(), recovered_at = CASE WHEN :recovered THEN now() END"
            " WHERE epoch = :epoch AND claimed_by IS NULL"
        )
        async with self._database.begin() as connection:
            await connection.execute(statement, {"epoch": self.epoch, "recovered": recovered})


async def acquire(database: Database, engine_version: str, owner: str | None = None, lease_s: float = LEASE_S) -> Lease:
    """A free writer number under a new epoch, for this process unless `owner` names another.

    Raises ConchError when all 512 are taken.
    """
    asked_at_s = asyncio.get_running_loop().time()
    async with database.begin() as connection:
        await connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        free = (await connection.execute(_FREE_WRITER, {"last": MAX_WRITER_ID, "grace": GRACE_S})).one_or_none()
        if free is None:
            raise ConchError(f"all {MAX_WRITER_ID + 1} writer numbers are leased")
        writer_id, used_until = free
        values = {"writer_id": writer_id, "owner": owner or this_process(), "version": engine_version, "lease": lease_s}
        epoch = (await connection.execute(_ACQUIRE, values)).scalar_one()
    not_before_ms = 0 if used_until is None else int(used_until.timestamp() * 1000) + 1
    return Lease(database, writer_id, epoch, not_before_ms, asked_at_s, lease_s)


async def claim_dead(
    database: Database, lease: Lease, leave_epochs: Collection[int] = (), claim_s: float = 300.0
) -> list[DeadProcess]:
    """Take over every dead process that nobody else is looking after; the claim ends by itself after `claim_s`.

    Those of `leave_epochs` are left to others.
    """
    async with database.begin() as connection:
        held = await connection.execute(_HELD, {"claimer": lease.epoch, "writing": WRITING})
        gone = [epoch for epoch, owner in held if is_gone(owner)]
        values = {"claimer": lease.epoch, "claim": claim_s, "grace": GRACE_S, "gone": gone}
        values["left"] = list(leave_epochs)
        return [DeadProcess(*row) for row in await connection.execute(_CLAIM, values)]


async def open_instances(database: Database, dead: DeadProcess) -> list[Key]:
    """Online instances of `dead` whose Start is committed and whose end is not.

    No deadline is longer than is looked back.
    """
    async with database.begin() as connection:
        acquired_at, leased_until = (await connection.execute(_LIFE, {"epoch": dead.epoch})).one()
        since = max(acquired_at - _MARGIN, leased_until - _OLDEST - _MARGIN)
        days = {
            "first_day": since.astimezone(UTC).date() - _DAY,
            "last_day": leased_until.astimezone(UTC).date() + _DAY,
        }
        return list(await connection.scalars(_OPEN, {"epoch": dead.epoch, "since": since, **days}))


async def adopt(database: Database, lease: Lease, dead: DeadProcess) -> list[Key]:
    """Make the operational instances of `dead` this process's own; returns all that are, the oldest first.

    All, so that none is forgotten when the answer to an earlier call was lost on its way.
    """
    async with database.begin() as connection:
        await connection.execute(_ADOPT, {"claimer": lease.epoch, "dead": dead.epoch})
        return list(await connection.scalars(_OWNED, {"claimer": lease.epoch}))


async def ended_lately(database: Database, lease: Lease, dead: DeadProcess) -> list[Key]:
    """Operational instances whose end `dead` has stored in its last moments."""
    values = {"epoch": dead.epoch, "moments": lease.lease_s + _MOMENTS_S}
    async with database.begin() as connection:
        return list(await connection.scalars(_ENDED_LATELY, values))


async def mark_recovered(database: Database, dead: DeadProcess) -> None:
    """No instance of `dead` is open any more."""
    async with database.begin() as connection:
        statement = text("UPDATE engine_process SET recovered_at = now() WHERE epoch = :epoch")
        await connection.execute(statement, {"epoch": dead.epoch})
