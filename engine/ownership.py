"""Owns what a process may do with instances by its lease: renew it, take over those of the dead, load any by its key.
Never changes an instance or decides what becomes of one.
Called by the runtime, recovery and the loader; one implementation asks Postgres, simulations have one in memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

from sqlalchemy.exc import SQLAlchemyError

from engine.bpmn.spiff import Program
from engine.errors import ConchError
from engine.linking import Programs
from engine.records import Command, Key, Start
from engine.store import leases
from engine.store.database import Database
from engine.store.definitions import Definitions
from engine.store.leases import DeadProcess, Lease
from engine.store.queries import PackedCommands, Queries


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

    async def open_instances(self, dead: DeadProcess) -> list[Key]:
        """The online ones, which somebody has to close."""

    async def adopt(self, dead: DeadProcess) -> list[Key]:
        """Make its operational instances this process's own; returns all that are, the oldest first."""

    async def ended_lately(self, dead: DeadProcess) -> list[Key]:
        """Operational instances whose end it has stored in its last moments, maybe without telling of their signals."""

    async def mark_recovered(self, dead: DeadProcess) -> None: ...

    async def load(self, key: Key) -> Recorded | None:
        """Null when its Start is not durable. Raises ConchError when its definition cannot be run here."""

    async def load_all(self, keys: Sequence[Key]) -> Mapping[Key, Recorded | ConchError]:
        """The same for several: one whose Start is not durable is left out, one that cannot be run has its reason."""


class PostgresOwnership:
    """Ownership as Postgres keeps it."""

    def __init__(self, database: Database, lease: Lease, programs: Programs | None = None):
        self._database = database
        self._lease = lease
        self._queries = Queries(database)
        self._definitions = Definitions(database)
        self._programs = programs or Programs()

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
            return await leases.claim_dead(self._database, self._lease, leave_epochs)

    async def open_instances(self, dead: DeadProcess) -> list[Key]:
        with _asking():
            return await leases.open_instances(self._database, dead)

    async def adopt(self, dead: DeadProcess) -> list[Key]:
        with _asking():
            return await leases.adopt(self._database, self._lease, dead)

    async def ended_lately(self, dead: DeadProcess) -> list[Key]:
        with _asking():
            return await leases.ended_lately(self._database, self._lease, dead)

    async def mark_recovered(self, dead: DeadProcess) -> None:
        with _asking():
            await leases.mark_recovered(self._database, dead)

    async def load(self, key: Key) -> Recorded | None:
        found = (await self.load_all([key])).get(key)
        if isinstance(found, ConchError):
            raise found
        return found

    async def load_all(self, keys: Sequence[Key]) -> Mapping[Key, Recorded | ConchError]:
        found: dict[Key, Recorded | ConchError] = {}
        with _asking():
            for key, stored in (await self._queries.commands_of(keys)).items():
                try:
                    found[key] = await self._recorded(stored)
                except ConchError as error:
                    found[key] = error
        return found

    async def _recorded(self, packed: Sequence[PackedCommands]) -> Recorded:
        try:
            logged = [each for row in packed for each in row.unpacked()]
        except ValueError as error:
            raise ConchError(str(error)) from error
        start = logged[0].command
        if not isinstance(start, Start) or [each.ordinal for each in logged] != list(range(1, len(logged) + 1)):
            raise ConchError("some of its commands are missing")
        program = await self._programs.of_start(self._definitions, start)
        return Recorded([(each.command, each.at_us) for each in logged], program)


@contextmanager
def _asking() -> Iterator[None]:
    try:
        yield
    except (SQLAlchemyError, OSError) as error:
        raise StoreAway(type(error).__name__) from error
