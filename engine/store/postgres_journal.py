"""Owns the journal's way into Postgres: one binary COPY, which is one transaction, per batch, each stored exactly once.
Never trusts an answer that did not arrive: an interrupted commit is written again and recognised if it had happened.
Called by the composition root, which hands it the lease; everything else sees only the Journal protocol.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections import Counter
from typing import Any, Final, Protocol

import psycopg
from psycopg import errors
from tenacity import stop_after_delay, stop_never

from engine.errors import Code, ConchError, Rejected
from engine.records import Key
from engine.store import binary, partitions
from engine.store.batch import Batch
from engine.store.columns import COLUMNS
from engine.store.copy_in import copy_in
from engine.store.database import RawConnection, conninfo_of, open_raw, retrying
from engine.store.encoding import EncodedRow, InstanceContext, tail_of_batch
from engine.store.journal import GroupCommitJournal, JournalDown, JournalLimits
from engine.store.leases import GRACE_S, WRITING
from engine.telemetry import Telemetry

COPY_IN: Final = f"COPY record ({', '.join(COLUMNS)}) FROM STDIN (FORMAT BINARY)".encode()
WRITE_TIMEOUT_S: Final = GRACE_S - 2  # begun under a lease, a batch is over before others take its process for dead
_REFUSED: Final = (errors.DataError, errors.ProgramLimitExceeded, errors.StatementTooComplex)  # the fault of a row
_leaf = struct.Struct(">i").pack
_Rows = list[tuple[InstanceContext, EncodedRow]]

_STORED = """
    SELECT r.process_instance_key, r.position, r.writer_epoch, r.batch_no
    FROM unnest(%s::bigint[], %s::bigint[], %s::date[]) AS mine (key, position, day)
    JOIN record r ON r.process_instance_key = mine.key AND r.position = mine.position AND r.day = mine.day
"""
_BURY = """
    INSERT INTO dead_letter
        (process_instance_key, position, writer_id, writer_epoch, batch_no, leaf_no, sqlstate, error, raw)
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)
    ON CONFLICT (writer_epoch, batch_no, leaf_no) DO NOTHING
"""


class WriterLease(Protocol):
    """The right to write under one writer number; see engine.store.leases."""

    @property
    def writer_id(self) -> int: ...

    @property
    def epoch(self) -> int: ...

    @property
    def lapsed(self) -> bool:
        """Whether others may already take this process for dead."""

    async def renew(self) -> None:
        """Raises LeaseLost when another process has taken over."""


class PostgresJournal(GroupCommitJournal):
    """Stores batches in `record`.

    `allow_unsafe` admits a server that may lose confirmed commits (fsync or full_page_writes off); never in production.
    """

    def __init__(
        self,
        url: str,
        lease: WriterLease,
        limits: JournalLimits | None = None,
        *,
        telemetry: Telemetry | None = None,
        allow_unsafe: bool = False,
        connect_wait_s: float = 30.0,
        write_timeout_s: float = WRITE_TIMEOUT_S,
    ) -> None:
        super().__init__(limits, telemetry)
        self._conninfo = conninfo_of(url)
        self._lease = lease
        self._allow_unsafe = allow_unsafe
        self._connect_wait_s = connect_wait_s
        self._write_timeout_s = write_timeout_s
        self._connection: RawConnection | None = None

    async def open(self) -> None:
        async for attempt in retrying(stop_after_delay(self._connect_wait_s)):
            with attempt:
                self._connection = await self._connect()

    async def shut(self) -> None:
        await self._disconnect()

    async def recover(self) -> None:
        await self._disconnect()
        # The first pause also paces errors that a fresh connection does not cure, such as a full disk.
        await asyncio.sleep(0.05)
        async for attempt in retrying(stop_never):
            with attempt:
                self._connection = await self._connect()
                if self._lease.lapsed:
                    await self._lease.renew()

    async def write(self, batch: Batch) -> None:
        if self._lease.lapsed:
            raise JournalDown("the lease has lapsed: others may take this process for dead")
        if self._connection is None:
            raise JournalDown("not connected")
        try:
            async with asyncio.timeout(self._write_timeout_s):
                await self._write(self._connection, batch)
        except (psycopg.Error, OSError, TimeoutError) as error:
            raise JournalDown(str(error)) from error

    # --- one batch ---

    async def _write(self, connection: RawConnection, batch: Batch) -> None:
        made_partitions = False
        while rows := batch.rows():
            try:
                await self._copy(connection, batch, list(enumerate(rows)))
                return
            except errors.UniqueViolation:
                if await self._resolve(connection, batch, rows):
                    return
            except errors.IntegrityError as error:
                if made_partitions or not _lacks_partition(error):
                    await self._bury(connection, batch, rows)
                    return
                await partitions.ensure(connection, (partitions.day_of(each.key) for each, _ in rows))
                made_partitions = True
            except _REFUSED as error:
                if isinstance(error, errors.BadCopyFileFormat):
                    raise  # the table is not the one that this version writes: no row is to blame
                await self._bury(connection, batch, rows)
                return

    async def _copy(
        self, connection: RawConnection, batch: Batch, rows: list[tuple[int, tuple[Any, EncodedRow]]]
    ) -> None:
        """Outside a transaction the COPY is one by itself, which saves the round trips of BEGIN and COMMIT."""
        tail = tail_of_batch(self._lease.writer_id, self._lease.epoch, batch.number)
        plain_tail, flagged_tail = binary.NULL + tail, binary.TRUE + tail
        parts = [binary.HEADER]
        for leaf_no, (_, row) in rows:
            parts += (row.data, flagged_tail if row.sanitized else plain_tail, _leaf(leaf_no))
        parts.append(binary.TRAILER)
        await copy_in(connection.pgconn, COPY_IN, b"".join(parts))

    async def _resolve(self, connection: RawConnection, batch: Batch, rows: _Rows) -> bool:
        """After a duplicate key: whether this very batch is stored already; if not, it gives up its lost instances."""
        keys = [each.key for each, _ in rows]
        cursor = await connection.execute(
            _STORED, (keys, [row.position for _, row in rows], [partitions.day_of(key) for key in keys])
        )
        stored = await cursor.fetchall()
        if any(epoch == self._lease.epoch and number == batch.number for _, _, epoch, number in stored):
            self.stats.replayed_batches += 1
            await self._recall_dead_letters(connection, batch)
            return True
        owners = {key: epoch for key, _, epoch, _ in stored}
        twice = _positions_twice(rows)
        if not owners and not twice:
            raise JournalDown("a duplicate key was reported that cannot be found")
        for instance, row in rows:
            if not instance.owned:
                continue
            if owners.get(instance.key, self._lease.epoch) != self._lease.epoch:
                batch.lose(instance, f"written to by engine epoch {owners[instance.key]}")
                self.stats.lost_instances += 1
            elif instance.key in owners or (instance.key, row.position) in twice:
                batch.lose(instance, f"position {row.position} was written twice by this process")
                self.stats.lost_instances += 1
        return False

    async def _bury(self, connection: RawConnection, batch: Batch, rows: _Rows) -> None:
        """Store what Postgres takes and the rest as dead letters, all in one transaction."""
        async with connection.transaction():
            buried = await self._halve(connection, batch, list(enumerate(rows)))
        for key in buried:
            batch.failures[key] = _buried()
        self.stats.dead_letters += len(buried)

    async def _halve(
        self, connection: RawConnection, batch: Batch, rows: list[tuple[int, tuple[InstanceContext, EncodedRow]]]
    ) -> list[Key]:
        try:
            async with connection.transaction():
                await self._copy(connection, batch, rows)
            return []
        except errors.UniqueViolation:
            raise
        except (errors.IntegrityError, *_REFUSED) as error:
            if len(rows) > 1:
                middle = len(rows) // 2
                return [
                    *await self._halve(connection, batch, rows[:middle]),
                    *await self._halve(connection, batch, rows[middle:]),
                ]
            leaf_no, (instance, row) = rows[0]
            lease = self._lease
            where = (instance.key, row.position, lease.writer_id, lease.epoch, batch.number, leaf_no)
            await connection.execute(_BURY, (*where, error.sqlstate, str(error.diag.message_primary), row.data))
            return [instance.key]

    async def _recall_dead_letters(self, connection: RawConnection, batch: Batch) -> None:
        cursor = await connection.execute(
            "SELECT process_instance_key FROM dead_letter WHERE writer_epoch = %s AND batch_no = %s",
            (self._lease.epoch, batch.number),
        )
        for (key,) in await cursor.fetchall():
            batch.failures[key] = _buried()

    # --- the connection ---

    async def _connect(self) -> RawConnection:
        connection = await open_raw(self._conninfo)
        try:
            # Stronger settings of the server, such as remote_apply, stay.
            await connection.execute(
                "SELECT set_config('synchronous_commit', 'on', false)"
                " WHERE current_setting('synchronous_commit') IN ('off', 'local')"
            )
            await connection.execute("SELECT pg_advisory_lock_shared(%s, %s)", (WRITING, self._lease.epoch))
            if not self._allow_unsafe:
                await _refuse_unsafe(connection)
        except BaseException:
            await connection.close()
            raise
        return connection

    async def _disconnect(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            with contextlib.suppress(psycopg.Error, OSError):
                await connection.close()


async def _refuse_unsafe(connection: RawConnection) -> None:
    cursor = await connection.execute(
        "SELECT name FROM pg_settings WHERE name IN ('fsync', 'full_page_writes') AND setting = 'off' ORDER BY name"
    )
    if off := [name for (name,) in await cursor.fetchall()]:
        raise ConchError(
            f"Postgres runs with {' and '.join(off)} off and can lose what it has confirmed; "
            "switch them on, or set the development flag that accepts the loss"
        )


def _lacks_partition(error: errors.IntegrityError) -> bool:
    return isinstance(error, errors.CheckViolation) and error.diag.constraint_name is None


def _positions_twice(rows: _Rows) -> set[tuple[Key, int]]:
    counted = Counter((instance.key, row.position) for instance, row in rows)
    return {each for each, times in counted.items() if times > 1}


def _buried() -> ConchError:
    return Rejected(Code.ENGINE_FAULT, "Postgres refused a row of this instance; it lies in dead_letter")
