"""Owns what happens around a lease: it is renewed, and the open instances of dead processes are closed as aborted.
Never takes an instance from a process that may be alive, and never answers anybody.
Called by the runtime, which runs both sides as its side tasks.

An instance is closed by the same words as any other: its durable commands are replayed, Abort is applied, and the
records of that go through this process's own journal. Its primary key is the fence if two processes try.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

from sqlalchemy.exc import SQLAlchemyError

from engine.bpmn import parse
from engine.bpmn.spiff import Program
from engine.core.instance import has_ended
from engine.core.replay import replay
from engine.errors import Code, ConchError, LeaseLost, Rejected
from engine.job import place_of
from engine.keys import KeySource
from engine.records import Abort, Command, Key, Start
from engine.run import Run
from engine.store.database import Database
from engine.store.definitions import Definitions
from engine.store.encoding import InstanceContext
from engine.store.journal import Commit, Journal
from engine.store.leases import DeadProcess, Lease, claim_dead, mark_recovered, open_instances
from engine.store.queries import Queries

log = logging.getLogger("conch.recovery")

_MESSAGE = "the process that ran this request died before it was done"
_PROGRAMS_KEPT = 16


class StoreAway(ConchError):
    """The store cannot be asked at the moment."""


class Recorded(NamedTuple):
    """An instance as far as it is durable, and the diagram that it is pinned to."""

    commands: Sequence[tuple[Command, int]]  # with the instants of their application
    program: Program


class Ownership(Protocol):
    """This process's lease and what it may take over by it. Every method raises StoreAway."""

    @property
    def lease_s(self) -> float:
        """How long the lease holds after it was renewed."""

    @property
    def lapsed(self) -> bool:
        """Whether others may already take this process for dead."""

    async def renew(self) -> None:
        """Raises LeaseLost when another process has taken over."""

    async def claim_dead(self, leave_epochs: Collection[int]) -> list[DeadProcess]:
        """Those of `leave_epochs` are left to others."""

    async def open_instances(self, dead: DeadProcess) -> list[Key]: ...

    async def mark_recovered(self, dead: DeadProcess) -> None: ...

    async def load(self, key: Key) -> Recorded | None:
        """Null when its Start is not durable. Raises ConchError when its definition cannot be run here."""


class Recovery:
    """Closes what others, or a fault of this process, have left open."""

    def __init__(
        self,
        ownership: Ownership,
        journal: Journal,
        keys: KeySource,
        now_us: Callable[[], int],
    ):
        self._ownership = ownership
        self._beat_s = ownership.lease_s / 3
        self._claimed: list[DeadProcess] = []  # by us, and not yet looked after
        self._left: set[int] = set()  # epochs with instances that this process could not close
        self._journal = journal
        self._keys = keys
        self._now_us = now_us

    async def beat(self) -> None:
        """Renew the lease for ever. Raises LeaseLost when it is another's; ends with the runtime otherwise."""
        while True:
            try:
                await self._ownership.renew()
            except StoreAway as away:
                log.warning("lease not renewed", extra={"reason": str(away)})
            await asyncio.sleep(self._beat_s)

    async def watch(self, strays: list[Run]) -> None:
        """Take over for ever, and close the runs that a fault of this process has put into `strays`."""
        while True:
            try:
                await self._close_strays(strays)
                await self.take_over()
            except StoreAway as away:
                log.warning("nothing taken over", extra={"reason": str(away)})
            await asyncio.sleep(self._beat_s)

    async def _close_strays(self, strays: list[Run]) -> None:
        """What cannot be closed now stays, for the next look and, if this process ends before, for its heir."""
        for run in tuple(strays):
            try:
                await run.durable()  # what was handed over before the fault comes first
            except LeaseLost:
                strays.remove(run)  # another process closes it
                continue
            except Rejected as refused:
                if refused.code == Code.JOURNAL_UNAVAILABLE:
                    raise StoreAway(refused.message) from refused
            if await self.close([run.key]):
                strays.remove(run)

    async def take_over(self) -> None:
        """Close every open instance of the processes that are dead by now."""
        self._claimed += await self._ownership.claim_dead(self._left)
        while self._claimed:
            await self._recover(self._claimed[0])  # while the store is away it stays claimed, and first in line
            self._claimed.pop(0)

    async def _recover(self, dead: DeadProcess) -> None:
        keys = await self._ownership.open_instances(dead)
        done = await self.close(keys)
        if done == len(keys):
            await self._ownership.mark_recovered(dead)
        else:
            self._left.add(dead.epoch)  # another version may be able to read what this one cannot
        log.warning(
            "dead process recovered",
            extra={"owner": dead.owner, "epoch": dead.epoch, "closed": done, "left_open": len(keys) - done},
        )

    async def close(self, keys: Sequence[Key]) -> int:
        """End these instances as aborted; returns how many have a durable end now."""
        commits: list[Commit] = []
        done = 0
        for key in keys:
            try:
                commit = await self._abort(key)
            except StoreAway:
                raise
            except Exception as error:  # recovery edge: one instance that cannot be read must not keep others open
                reason = (
                    str(error)[:500] if isinstance(error, ConchError) else f"{type(error).__name__} {place_of(error)}"
                )
                log.error("instance cannot be closed", extra={"process_instance_key": key, "reason": reason})
                continue
            if commit is None:
                done += 1
            else:
                commits.append(commit)
        for commit in commits:
            try:
                await commit
                done += 1
            except LeaseLost:
                done += 1  # another process has closed it, or is about to
            except Rejected as refused:
                log.error("closing is not durable", extra={"code": refused.code})
        return done

    async def _abort(self, key: Key) -> Commit | None:
        recorded = await self._ownership.load(key)
        if recorded is None:
            return None
        instance = replay(recorded.program, recorded.commands)
        if has_ended(instance):
            return None
        start = recorded.commands[0][0]
        assert isinstance(start, Start)
        if not start.online:
            raise Rejected(Code.UNSUPPORTED, "an instance that outlives its process cannot be resumed yet")
        # The dead process may have had a faster clock. Abort mints nothing, so its next key stays unused.
        abort = Abort(max(self._keys.mint(), instance.next_key), _MESSAGE)
        step = instance.apply(abort, self._now_us())
        return self._journal.append(InstanceContext.of_commands(recorded.commands), step.records, flush=True)


class PostgresOwnership:
    """Ownership as Postgres keeps it."""

    def __init__(self, database: Database, lease: Lease):
        self._database = database
        self._lease = lease
        self._queries = Queries(database)
        self._definitions = Definitions(database)
        self._programs: dict[Key, Program] = {}

    @property
    def lease_s(self) -> float:
        return self._lease.lease_s

    @property
    def lapsed(self) -> bool:
        return self._lease.lapsed

    async def renew(self) -> None:
        with _asking():
            await self._lease.renew()

    async def claim_dead(self, leave_epochs: Collection[int]) -> list[DeadProcess]:
        with _asking():
            return await claim_dead(self._database, self._lease, leave_epochs)

    async def open_instances(self, dead: DeadProcess) -> list[Key]:
        with _asking():
            return await open_instances(self._database, dead)

    async def mark_recovered(self, dead: DeadProcess) -> None:
        with _asking():
            await mark_recovered(self._database, dead)

    async def load(self, key: Key) -> Recorded | None:
        with _asking():
            stored = await self._queries.load_instance(key)
            if stored is None:
                return None
            program = await self._program(stored.definition.key, stored.definition.process_id)
        return Recorded([(logged.command, logged.at_us) for logged in stored.commands], program)

    async def _program(self, key: Key, process_id: str) -> Program:
        program = self._programs.get(key)
        if program is None:
            loaded = await self._definitions.load(key)
            if loaded is None:
                raise Rejected(Code.NOT_FOUND, f"process definition {key} ({process_id}) is not deployed here")
            definitions = parse(loaded.xml, loaded.resource_name)
            program = Program(next(each for each in definitions if each.process_id == process_id))
            if len(self._programs) >= _PROGRAMS_KEPT:
                self._programs.clear()
            self._programs[key] = program
        return program


@contextmanager
def _asking() -> Iterator[None]:
    try:
        yield
    except (SQLAlchemyError, OSError) as error:
        raise StoreAway(type(error).__name__) from error
