"""Owns what engines of a simulation share and survive them: durable rows, and leases on writer numbers.
Never encodes or decides anything by itself: rows are those of the real journal, commands are read as recovery reads.
Called by the simulation tests.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from engine.bpmn.spiff import Program
from engine.core.replay import derive_records
from engine.errors import ConchError, LeaseLost
from engine.keys import key_writer
from engine.ownership import Recorded, StoreAway
from engine.records import Key, Start
from engine.store.batch import Batch
from engine.store.binary import NULL, fields_of
from engine.store.columns import COLUMNS, TAIL
from engine.store.command_log import LoggedCommand, unpack
from engine.store.encoding import EncodedRow, InstanceContext, encode_fact
from engine.store.journal import JournalDown, JournalLimits, MemoryJournal
from engine.store.json_text import loads
from engine.store.leases import GRACE_S, LEASE_S, DeadProcess

CLAIM_S = 300.0


class Fact(NamedTuple):
    """The columns of a fact's row that tests ask for."""

    kind: str
    element_id: str
    state: str
    error_code: str
    outcome: str


@dataclass
class _Process:
    leased_until_s: float
    claimed: bool = False
    claimed_until_s: float = 0.0
    recovered: bool = False


@dataclass
class Disk:
    """What is durable."""

    rows: dict[tuple[Key, int], EncodedRow] = field(default_factory=dict)
    processes: dict[int, _Process] = field(default_factory=dict)
    programs: dict[str, Program] = field(default_factory=dict)  # deployed, by content
    owners: dict[Key, int] = field(default_factory=dict)  # of operational instances that were adopted

    def instances(self) -> dict[Key, Stored]:
        """Every instance with a durable row."""
        by_key: dict[Key, dict[int, EncodedRow]] = defaultdict(dict)
        for (key, position), row in self.rows.items():
            by_key[key][position] = row
        return {key: Stored(rows) for key, rows in by_key.items()}


class Stored(NamedTuple):
    """The durable rows of one instance by position."""

    rows: dict[int, EncodedRow]

    @property
    def commands(self) -> list[LoggedCommand]:
        packed = sorted((-position, row) for position, row in self.rows.items() if position < 0)
        return [each for first, row in packed for each in unpack(first, loads(_columns(row, "payload")[0][1:]))]

    @property
    def start(self) -> Start:
        start = self.commands[0].command
        assert isinstance(start, Start)
        return start

    @property
    def online(self) -> bool:
        """As its first row says, which can be read also when its commands cannot."""
        return _columns(self.rows[1], "online") == [b"\x01"]

    @property
    def facts(self) -> list[Fact]:
        return [_fact(row) for position, row in sorted(self.rows.items()) if position > 0]

    @property
    def kinds(self) -> list[str]:
        return [fact.kind for fact in self.facts]

    @property
    def end(self) -> str | None:
        """The state that the instance ended in; null while it is open."""
        last = _fact(self.rows[max(self.rows)])
        return last.state if last.kind == "instance_ended" else None

    def is_what_its_commands_mean(self, program: Program) -> bool:
        """Whether replaying the commands gives these facts, byte for byte."""
        logged = self.commands
        commands = [(each.command, each.at_us) for each in logged]
        records = derive_records(program, commands)
        context = InstanceContext.of_commands(commands)
        derived = {record.position: encode_fact(context, record) for record in records if record.position > 0}
        return derived == {position: row for position, row in self.rows.items() if position > 0}


def _fact(row: EncodedRow) -> Fact:
    return Fact(*(column.decode() for column in _columns(row, *Fact._fields)))


def _columns(row: EncodedRow, *names: str) -> list[bytes]:
    fields = fields_of(row.data + NULL * len(TAIL))
    return [fields[COLUMNS.index(name)] or b"" for name in names]


class FaultyJournal(MemoryJournal):
    """The journal in memory with a disk that takes `write_s` per batch, may be away, and may die for ever."""

    def __init__(
        self,
        disk: Disk | None = None,
        *,
        write_s: float = 0.002,
        crash_after: int | None = None,
        unheard: bool = False,
        limits: JournalLimits | None = None,
    ):
        super().__init__(limits)
        self.disk = disk or Disk()
        self.stored = self.disk.rows
        self.write_s = write_s
        self.crash_after = crash_after  # rows that reach the disk before the machine dies
        self.unheard = unheard  # the batch that the machine dies with is stored, and nobody learns of it
        self.crashed = asyncio.Event()
        self.back = asyncio.Event()
        self.back.set()

    async def write(self, batch: Batch) -> None:
        await asyncio.sleep(self.write_s)
        if not self.back.is_set():
            raise JournalDown("the disk is away")
        if self.crash_after is not None and len(self.stored) + len(batch.rows()) > self.crash_after:
            if self.unheard and not self.crashed.is_set():
                await super().write(batch)
            self.crashed.set()
            await asyncio.get_running_loop().create_future()
        await super().write(batch)

    async def recover(self) -> None:
        await self.back.wait()

    def of(self, key: Key) -> Stored:
        return self.disk.instances()[key]


class MemoryOwnership:
    """Leases as Postgres keeps them, on the loop's clock. `away` cuts this process off."""

    lease_s = LEASE_S

    def __init__(self, disk: Disk, epoch: int, program: Program):
        self._disk = disk
        self._epoch = epoch
        self._program = program
        self._mine = disk.processes[epoch] = _Process(self._now_s() + LEASE_S)
        self._valid_until_s = self._mine.leased_until_s
        self.away = False

    def _now_s(self) -> float:
        return asyncio.get_running_loop().time()

    def _ask(self) -> None:
        if self.away:
            raise StoreAway("cut off")

    @property
    def lapsed(self) -> bool:
        return self._now_s() >= self._valid_until_s

    async def renew(self) -> None:
        self._ask()
        if self._mine.claimed:
            raise LeaseLost(f"epoch {self._epoch} was taken for dead")
        self._valid_until_s = self._mine.leased_until_s = self._now_s() + LEASE_S

    async def claim_dead(self, leave_epochs: Collection[int]) -> list[DeadProcess]:
        self._ask()
        dead = []
        for epoch, process in self._disk.processes.items():
            expired = process.leased_until_s + GRACE_S < self._now_s()
            looked_after = process.recovered or process.claimed_until_s > self._now_s()
            if epoch != self._epoch and expired and not looked_after and epoch not in leave_epochs:
                process.claimed = True
                process.claimed_until_s = self._now_s() + CLAIM_S
                dead.append(DeadProcess(epoch, epoch, f"engine {epoch}"))
        return dead

    def _open(self, *, online: bool) -> list[Key]:
        instances = self._disk.instances().items()
        return [key for key, stored in instances if stored.end is None and stored.online == online]

    async def open_instances(self, dead: DeadProcess) -> list[Key]:
        self._ask()
        return [key for key in self._open(online=True) if key_writer(key) == dead.writer_id]

    async def adopt(self, dead: DeadProcess) -> list[Key]:
        self._ask()
        owners = {key: self._disk.owners.get(key, key_writer(key)) for key in self._open(online=False)}
        self._disk.owners |= {key: self._epoch for key, owner in owners.items() if owner == dead.epoch}
        return [key for key, owner in owners.items() if owner in (dead.epoch, self._epoch)]

    async def ended_lately(self, dead: DeadProcess) -> list[Key]:
        self._ask()
        instances = self._disk.instances().items()
        ended = [key for key, stored in instances if stored.end is not None and not stored.online]
        return [key for key in ended if self._disk.owners.get(key, key_writer(key)) == dead.epoch]

    async def mark_recovered(self, dead: DeadProcess) -> None:
        self._ask()
        self._disk.processes[dead.epoch].recovered = True

    async def load(self, key: Key) -> Recorded | None:
        self._ask()
        stored = self._disk.instances().get(key)
        if stored is None:
            return None
        program = self._disk.programs.get(stored.start.definition.content_hash, self._program)
        return Recorded([(each.command, each.at_us) for each in stored.commands], program)

    async def load_all(self, keys: Sequence[Key]) -> dict[Key, Recorded | ConchError]:
        self._ask()
        await asyncio.sleep(0.001)
        found: dict[Key, Recorded | ConchError] = {}
        for key in keys:
            try:
                recorded = await self.load(key)
            except ValueError as error:
                found[key] = ConchError(str(error))
            else:
                if recorded is not None:
                    found[key] = recorded
        return found
