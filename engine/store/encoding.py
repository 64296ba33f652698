"""Owns the row of the audit: which record fills which columns, and its bytes in binary COPY form.
Never touches a connection; the same bytes serve the journal, the seals and `replay`.
Called by the journal for every record and by the queries for the rows that a replay derives.

A row is head (position, instant, everything constant for the instance), body (by kind), and tail (how it was stored),
in the order of engine.store.columns.COLUMNS.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

from engine.keys import key_day
from engine.records import (
    RECORD_SCHEMA_VERSION,
    Command,
    DefinitionRef,
    InstanceEnded,
    Key,
    Record,
    Refusal,
    Start,
    Tags,
)
from engine.store import binary, command_log, json_text
from engine.store.binary import NULL, PG_EPOCH_US, jsonb, label
from engine.store.bodies import BODY_OF, COMMAND_BODY, digest_of_commands, operational
from engine.store.columns import COLUMNS
from engine.store.json_text import Poison

DIGEST_BYTES: Final = 16
_head = struct.Struct(">hiqiq").pack
_WIDTH = len(COLUMNS)
_keys_and_day = struct.Struct(">iqiqiiiiiiih").pack
_key_and_day = struct.Struct(">iq4siiiiiih").pack  # no definition: process_definition_key and process_version null


class InstanceContext:
    """What every row of one instance repeats, encoded once.

    `owned` turns false when another process is found to own the instance: its rows are refused from then on.
    `said` is the digest of the commands encoded so far; the closing row bears it, so that a replay finds a change of
    any of them, also of what no other row repeats.
    """

    __slots__ = ("definition", "encoded", "key", "online", "owned", "said", "sanitized", "tags")

    def __init__(self, key: Key, tags: Tags, definition: DefinitionRef | None, online: bool = True) -> None:
        self.key = key
        self.tags = tags
        self.definition = definition
        self.online = online
        self.owned = True
        self.sanitized = False
        self.said = blake2b(digest_size=DIGEST_BYTES)
        try:
            self.encoded = _constant(key, tags, definition)
        except Poison:
            self.encoded = _constant(key, json_text.clean(tags), definition)
            self.sanitized = True

    @classmethod
    def of_start(cls, start: Start) -> InstanceContext:
        return cls(start.key, start.tags, start.definition, start.online)

    @classmethod
    def of_commands(cls, commands: Sequence[tuple[Command, int]]) -> InstanceContext:
        """The context of an instance that goes on after these commands, each with its instant; the first is a Start."""
        (start, _), *_ = commands
        if not isinstance(start, Start):
            raise ValueError("the first command of an instance is its Start")
        instance = cls.of_start(start)
        for ordinal, (command, at_us) in enumerate(commands, 1):
            encode_command(instance, Record(-ordinal, at_us, command))
        return instance

    @classmethod
    def of_refusal(cls, refusal: Refusal) -> InstanceContext:
        return cls(refusal.key, refusal.tags, None)


class EncodedRow(NamedTuple):
    """A row without its tail."""

    position: int
    data: bytes
    sanitized: bool


def encode_fact(instance: InstanceContext, record: Record) -> EncodedRow:
    """The row of a fact or refusal. What Postgres cannot store is replaced by U+FFFD and the row flagged.

    Raises TypeError for a value that is no JSON, ValueError for a request id that is no UUID.
    """
    position, at_us, body = record
    encode = BODY_OF[type(body)]
    sanitized = instance.sanitized
    try:
        encoded = encode(body)
    except Poison:
        encoded, sanitized = encode(json_text.clean(body)), True
    if not instance.online:
        encoded = operational(encoded)
    if type(body) is InstanceEnded:
        encoded += digest_of_commands(instance.said.hexdigest())
    head = _head(_WIDTH, 8, position, 8, at_us - PG_EPOCH_US)
    return EncodedRow(position, b"".join((head, instance.encoded, encoded)), sanitized)


def encode_command(instance: InstanceContext, record: Record) -> tuple[bytes, bool]:
    """A command as JSON, and whether it had to be cleaned. Commands are encoded in their order, from the first."""
    position, at_us, command = record
    cleaned = False
    try:
        encoded = command_log.encode(command, at_us)  # type: ignore[arg-type]  # the sign of position tells
    except Poison:
        encoded, cleaned = command_log.encode(json_text.clean(command), at_us), True
    if position == -1:
        instance.said = blake2b(digest_size=DIGEST_BYTES)
    instance.said.update(encoded)
    return encoded, cleaned


def encode_commands(
    instance: InstanceContext, first_ordinal: int, at_us: int, commands: list[bytes], sanitized: bool
) -> EncodedRow:
    """One row for consecutive commands of an instance; its instant is that of the first."""
    head = _head(_WIDTH, 8, -first_ordinal, 8, at_us - PG_EPOCH_US) + instance.encoded
    data = head + COMMAND_BODY + jsonb(command_log.pack(commands)) + NULL * 2
    return EncodedRow(-first_ordinal, data, sanitized or instance.sanitized)


def tail_of_batch(writer_id: int, writer_epoch: int, batch_no: int) -> bytes:
    """What the tails of one batch share, between `sanitized` and the leaf number."""
    return binary.int2(2, writer_id) + binary.int8(8, writer_epoch) + binary.int8(8, batch_no) + b"\0\0\0\4"


def _constant(key: Key, tags: Tags, definition: DefinitionRef | None) -> bytes:
    day = key_day(key) - binary.PG_EPOCH_DAY
    if definition is None:
        numbers = _key_and_day(8, key, NULL, 4, day, -1, 4, tags.deadline_ms, 2, RECORD_SCHEMA_VERSION)
    else:
        numbers = _keys_and_day(
            *(8, key, 8, definition.key, 4, day, 4, definition.version),
            *(4, tags.deadline_ms, 2, RECORD_SCHEMA_VERSION),
        )
    process_id = NULL if definition is None else label(definition.process_id)
    return b"".join(
        (numbers, label(tags.tenant), label(tags.product), label(tags.feature), label(tags.priority), process_id)
    )
