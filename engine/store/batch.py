"""Owns a batch: the rows of many instances that commit together, and who waits for that.
Never encodes a fact, talks to a database or decides when it is written.
Called by the journals, which fill it, store it and settle it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from engine.errors import ConchError, LeaseLost
from engine.records import Key, Record
from engine.store.encoding import EncodedRow, InstanceContext, encode_commands


@dataclass(slots=True)
class Commands:
    """Consecutive commands of one instance that will share one row."""

    instance: InstanceContext
    first_ordinal: int
    at_us: int
    encoded: list[bytes]
    sanitized: bool = False


@dataclass(slots=True, eq=False)
class Batch:
    """Rows that commit together, under one number of this writer."""

    number: int
    facts: list[tuple[InstanceContext, EncodedRow]] = field(default_factory=list)
    commands: dict[Key, Commands] = field(default_factory=dict)
    size_rows: int = 0
    size_bytes: int = 0
    due: bool = False
    settled: bool = False
    error: ConchError | None = None  # of every instance in the batch
    failures: dict[Key, ConchError] = field(default_factory=dict)  # of single instances
    waiters: list[asyncio.Future[None]] = field(default_factory=list)

    def add_command(self, instance: InstanceContext, record: Record, encoded: bytes, sanitized: bool) -> None:
        commands = self.commands.get(instance.key)
        if commands is None:
            commands = self.commands[instance.key] = Commands(instance, -record.position, record.at_us, [])
            self.size_rows += 1
            self.size_bytes += len(instance.encoded)
        commands.encoded.append(encoded)
        commands.sanitized |= sanitized
        self.size_bytes += len(encoded)

    def add_facts(self, rows: list[tuple[InstanceContext, EncodedRow]]) -> None:
        self.facts += rows
        self.size_rows += len(rows)
        for _, row in rows:
            self.size_bytes += len(row.data)

    def rows(self) -> list[tuple[InstanceContext, EncodedRow]]:
        """Every row of instances that are still ours, commands first; the index is the leaf number."""
        rows = []
        for each in self.commands.values():
            packed = encode_commands(each.instance, each.first_ordinal, each.at_us, each.encoded, each.sanitized)
            rows.append((each.instance, packed))
        rows += self.facts
        ours = [item for item in rows if item[0].owned]
        if len(ours) < len(rows):
            for instance, _ in rows:
                if not instance.owned and instance.key not in self.failures:
                    self.lose(instance, "another process owns it")
        return ours

    def lose(self, instance: InstanceContext, reason: str) -> None:
        """Give up an instance that another process owns."""
        instance.owned = False
        self.failures[instance.key] = LeaseLost(f"process instance {instance.key}: {reason}")

    def settle(self) -> None:
        """What became of it is known. Whoever keeps a Commit for long, as a stream does, does not keep the rows."""
        self.settled = True
        self.facts, self.commands = [], {}
        self.wake()

    def wake(self) -> None:
        """Let everyone who waits look at what became of the batch."""
        for waiter in self.waiters:
            if not waiter.done():
                waiter.set_result(None)
        self.waiters.clear()
