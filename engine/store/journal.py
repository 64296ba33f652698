"""Owns group commit: rows gather into batches, one writer stores a batch at a time, waiters learn the result.
Never drops a row that it took, never waits in `append`, never decides what an instance does next.
Called by the runtime (append, then await the Commit before an answer or effect) and by the api (refusals, room).

A batch is written as soon as the writer is idle and something in it asked to be flushed; while the writer is busy the
next batch gathers. Rows that need no flush ride with the next batch, at the latest after `linger_s`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple, Protocol

from engine.errors import Code, ConchError, LeaseLost, Rejected
from engine.records import Key, Record, Refusal
from engine.store.batch import Batch
from engine.store.encoding import EncodedRow, InstanceContext, encode_command, encode_fact
from engine.telemetry import Telemetry

log = logging.getLogger("conch.journal")

_FAULT_PAUSE_S = 0.1


class Journal(Protocol):
    """Where the records of instances become durable."""

    def append(self, instance: InstanceContext, records: Sequence[Record], *, flush: bool) -> Commit:
        """Take records in the order of their positions; returns at once. Without records, the Commit is that of
        everything taken before.

        Raises LeaseLost for a lost instance; TypeError, ValueError or struct.error for a record that no row can hold.
        """

    def refuse(self, refusal: Refusal, at_us: int) -> Commit:
        """Take one refusal."""

    @property
    def room(self) -> int:
        """Rows that admission may still bring in; 0 means refuse. What was admitted may always finish."""

    @property
    def available(self) -> bool:
        """Whether batches are being stored; false from the first failure until the next success."""

    @property
    def last_error(self) -> str | None:
        """Why the journal is not available, else null."""

    async def start(self) -> None:
        """Begin to write. Raises ConchError when the store cannot be trusted or reached."""

    async def close(self, wait_s: float = 30.0) -> int:
        """Store everything taken, then stop; returns the rows that could not be stored within `wait_s`."""


class JournalLimits(NamedTuple):
    max_rows: int = 50_000  # taken and not yet stored, above which `room` is 0
    max_bytes: int = 64 * 1024 * 1024
    batch_rows: int = 2_000
    linger_s: float = 0.005  # the longest that rows without flush wait for company
    outage_wait_s: float = 5.0  # how long a waiter waits once the store has failed


class JournalDown(ConchError):
    """The store cannot be reached; the batch may or may not be committed and has to be written again."""


@dataclass(slots=True)
class JournalStats:
    """Counted since start, read by telemetry."""

    batches: int = 0
    rows: int = 0
    bytes: int = 0
    replayed_batches: int = 0  # an interrupted commit turned out to have happened
    lost_instances: int = 0
    dead_letters: int = 0
    outages: int = 0


class Commit:
    """Awaiting it returns once the appended records are durable.

    Raises LeaseLost when another process owns the instance, Rejected(JOURNAL_UNAVAILABLE) when the store has been
    away for too long (the rows stay with the journal and are written once it is back), Rejected(ENGINE_FAULT) when a
    row had to go to the dead letters. Any number of tasks may await it; cancelling one disturbs nobody else.
    """

    __slots__ = ("_batch", "_journal", "_key")

    def __init__(self, journal: GroupCommitJournal, batch: Batch, key: Key) -> None:
        self._journal = journal
        self._batch = batch
        self._key = key

    @property
    def done(self) -> bool:
        return self._batch.settled

    @property
    def stored(self) -> bool:
        """Whether the records are known to be durable."""
        return self._batch.settled and self.error is None

    @property
    def error(self) -> ConchError | None:
        """Why the records are not durable; null as long as they may still be."""
        return self._batch.error or self._batch.failures.get(self._key)

    async def settled(self) -> None:
        """Return once it is known what became of the records, however long the store is away."""
        while not self._batch.settled:
            waiter = asyncio.get_running_loop().create_future()
            self._batch.waiters.append(waiter)
            await waiter

    def __await__(self) -> Generator[asyncio.Future[None], None, None]:
        batch = self._batch
        if not batch.settled and not self._journal.gave_up:
            waiter = asyncio.get_running_loop().create_future()
            batch.waiters.append(waiter)
            yield from waiter
        if not batch.settled:
            raise self._journal.unconfirmed()
        error = self.error
        if error is not None:
            raise error


class GroupCommitJournal:
    """What every journal shares: gathering, the writer task, outages. A subclass stores one batch in `write`."""

    def __init__(self, limits: JournalLimits | None = None, telemetry: Telemetry | None = None) -> None:
        self.limits = limits or JournalLimits()
        self.stats = JournalStats()
        self.gave_up = False  # the outage has outlasted the patience of those who wait
        self.last_error: str | None = None
        self.fenced: LeaseLost | None = None  # this process has been taken for dead: nothing is written any more
        self._queue: deque[Batch] = deque()  # full batches, oldest first
        self._gathering = Batch(1)
        self._writing: Batch | None = None
        self._rows = self._bytes = 0  # taken and not yet settled
        self._wake = asyncio.Event()
        self._linger: asyncio.TimerHandle | None = None
        self._outage: asyncio.TimerHandle | None = None
        self._writer: asyncio.Task[None] | None = None
        self._closing = False
        self._telemetry = telemetry or Telemetry()
        self._telemetry.journal_available.set_function(lambda: float(self.available))
        self._telemetry.journal_buffered_rows.set_function(lambda: float(self._rows))

    # --- for the runtime and the api ---

    @property
    def room(self) -> int:
        return 0 if self._bytes >= self.limits.max_bytes else max(0, self.limits.max_rows - self._rows)

    @property
    def available(self) -> bool:
        return self.last_error is None and self._writer is not None and not self._closing

    def append(self, instance: InstanceContext, records: Sequence[Record], *, flush: bool = True) -> Commit:
        if self.fenced is not None:
            raise self.fenced
        if not instance.owned:
            raise LeaseLost(f"process instance {instance.key} is owned by another process")
        if not records:
            return self._barrier(instance, flush)
        # Everything is encoded before anything is taken: a record that cannot be leaves the batch as it was.
        facts, commands = [], []
        for record in records:
            if record.position > 0:
                facts.append((instance, encode_fact(instance, record)))
            else:
                commands.append((record, *encode_command(instance, record)))
        batch = self._gathering
        rows_before, bytes_before = batch.size_rows, batch.size_bytes
        for command in commands:
            batch.add_command(instance, *command)
        batch.add_facts(facts)
        self._rows += batch.size_rows - rows_before
        self._bytes += batch.size_bytes - bytes_before
        if batch.size_rows >= self.limits.batch_rows:
            batch.due = True
            self._queue.append(batch)
            self._gathering = Batch(batch.number + 1)
            self._wake.set()
        elif flush:
            self._flush()
        elif self._linger is None and not batch.due:
            self._linger = asyncio.get_running_loop().call_later(self.limits.linger_s, self._flush)
        return Commit(self, batch, instance.key)

    def refuse(self, refusal: Refusal, at_us: int) -> Commit:
        return self.append(InstanceContext.of_refusal(refusal), (Record(1, at_us, refusal),), flush=False)

    async def start(self) -> None:
        await self.open()
        self._writer = asyncio.create_task(self._write_batches(), name="journal")

    async def close(self, wait_s: float = 30.0) -> int:
        self._closing = True
        self._gathering.due = True
        self._wake.set()
        if self._writer is not None:
            await asyncio.wait((self._writer,), timeout=wait_s)
            if not self._writer.done():
                self._writer.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await self._writer
            elif not self._writer.cancelled():
                self._writer.result()
            self._writer = None
        for timer in (self._linger, self._outage):
            if timer is not None:
                timer.cancel()
        await self.shut()
        return self._abandon()

    # --- for the subclass ---

    async def open(self) -> None:
        """Get ready to write."""

    async def write(self, batch: Batch) -> None:
        """Store `batch` exactly once, or raise JournalDown to be called again with it."""
        raise NotImplementedError

    async def recover(self) -> None:
        """After JournalDown: return when writing may succeed again."""

    async def shut(self) -> None:
        """Release what `open` took."""

    def went_down(self, error: BaseException) -> None:
        """Report that the store is away, at once, before `recover` has tried anything."""
        if self.last_error is None:
            self.stats.outages += 1
            log.error("journal unavailable: %s", type(error).__name__)
            self._outage = asyncio.get_running_loop().call_later(self.limits.outage_wait_s, self._give_up)
        self.last_error = f"{type(error).__name__}: {error}"

    def unconfirmed(self) -> Rejected:
        """What those who wait are told when the store is away for too long."""
        return Rejected(
            Code.JOURNAL_UNAVAILABLE,
            "The audit store cannot be reached, so nothing can be confirmed",
            retry_after_ms=int(self.limits.outage_wait_s * 1000),
        )

    # --- inside ---

    def _barrier(self, instance: InstanceContext, flush: bool) -> Commit:
        if flush:
            self._flush()
        taken = [batch for batch in self._unsettled() if batch.size_rows]
        return Commit(self, taken[-1] if taken else Batch(0, settled=True), instance.key)

    def _flush(self) -> None:
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None
        if self._gathering.size_rows:
            self._gathering.due = True
            self._wake.set()

    def _take(self) -> Batch | None:
        if self._queue:
            return self._queue.popleft()
        batch = self._gathering
        if not batch.due or not batch.size_rows:
            return None
        self._gathering = Batch(batch.number + 1)
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None
        return batch

    async def _write_batches(self) -> None:
        while not self._closing or self._queue or self._gathering.size_rows:
            await self._wake.wait()
            self._wake.clear()
            self._gathering.due |= self._closing
            while (batch := self._take()) is not None:
                await self._store(batch)

    async def _store(self, batch: Batch) -> None:
        self._writing = batch  # until its commit is known
        down = False
        while self.fenced is None:
            began = perf_counter()
            try:
                if down:
                    await self.recover()
                await self.write(batch)
            except LeaseLost as error:
                self.fenced = error
                self.last_error = str(error)
                log.critical("journal stopped: another process has taken over")
            except JournalDown as error:
                down = True
                self.went_down(error.__cause__ or error)
            except Exception as error:  # a fault of ours must show as an outage: nobody would see a writer that died
                down = True
                log.exception("journal failed")
                self.went_down(error)
                await asyncio.sleep(_FAULT_PAUSE_S)
            else:
                self._telemetry.journal_commit_seconds.observe(perf_counter() - began)
                self._came_up()
                break
        batch.error = self.fenced
        self._settle(batch)
        self._writing = None

    def _settle(self, batch: Batch) -> None:
        self._rows -= batch.size_rows
        self._bytes -= batch.size_bytes
        if batch.error is None:
            self.stats.batches += 1
            self.stats.rows += batch.size_rows
            self.stats.bytes += batch.size_bytes
            self._telemetry.journal_batches.inc()
            self._telemetry.journal_rows.inc(batch.size_rows)
        batch.settle()

    def _came_up(self) -> None:
        if self.last_error is not None:
            log.warning("journal available again")
        self.last_error = None
        self.gave_up = False
        if self._outage is not None:
            self._outage.cancel()
            self._outage = None

    def _give_up(self) -> None:
        """The outage outlasts the waiters' patience; the rows stay here and are written once the store is back."""
        self.gave_up = True
        for batch in self._unsettled():
            batch.wake()

    def _unsettled(self) -> list[Batch]:
        return [*filter(None, (self._writing,)), *self._queue, self._gathering]

    def _abandon(self) -> int:
        lost = self._rows
        error = Rejected(Code.JOURNAL_UNAVAILABLE, "The gateway stopped before these records were stored")
        for batch in self._unsettled():
            batch.error = error
            batch.settle()
        if lost:
            log.critical("journal closed with %d rows not stored", lost)
        return lost


class MemoryJournal(GroupCommitJournal):
    """The journal of tests: the same gathering and the same rows, kept in a dict. Subclass `write` to inject faults."""

    def __init__(self, limits: JournalLimits | None = None) -> None:
        super().__init__(limits)
        self.stored: dict[tuple[Key, int], EncodedRow] = {}

    async def write(self, batch: Batch) -> None:
        for instance, row in batch.rows():
            if (instance.key, row.position) in self.stored:
                batch.lose(instance, f"position {row.position} is already stored")
        for instance, row in batch.rows():
            self.stored[instance.key, row.position] = row
