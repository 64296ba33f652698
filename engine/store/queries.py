"""Owns the questions to the audit that the engine itself asks: one instance whole, commands of many, requests by id.
Never writes, and never answers an analyst's question: those are the views of the schema `audit`.
Called by the api's read routes, by recovery, and by `conch replay` and `conch explain`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import select, text

from engine.records import DefinitionRef, Key, Start
from engine.store import binary, partitions
from engine.store.canonical import CanonicalRow, canonical_row
from engine.store.columns import SAYS
from engine.store.command_log import LoggedCommand, unpack
from engine.store.database import Database, open_raw
from engine.store.schema import record

_UNIX_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_STORED_FACTS = (
    f"COPY (SELECT {', '.join(SAYS)} FROM record WHERE process_instance_key = {{key}} AND day = '{{day}}'"
    " AND position > 0 ORDER BY position) TO STDOUT (FORMAT BINARY)"
)

_OF_REQUEST = (
    "SELECT process_instance_key, kind, recorded_at, tenant FROM record WHERE request_id = CAST(:request_id AS uuid)"
)
_REQUEST = text(f"{_OF_REQUEST} ORDER BY recorded_at")
_REQUEST_OF_DAY = text(
    f"{_OF_REQUEST} AND day BETWEEN DATE '1970-01-01' + CAST(:first_day AS integer)"
    " AND DATE '1970-01-01' + CAST(:last_day AS integer) ORDER BY recorded_at"
)


class StoredInstance(NamedTuple):
    """A process instance as the audit holds it."""

    key: Key
    definition: DefinitionRef
    start: Start
    commands: tuple[LoggedCommand, ...]  # in the order of their application
    facts: tuple[Mapping[str, Any], ...]  # rows by position: column -> value, nulls left out, instants as datetime

    @property
    def started_at(self) -> datetime:
        """When the Start was applied."""
        return _UNIX_EPOCH + timedelta(microseconds=self.commands[0].at_us)

    @property
    def ended(self) -> bool:
        return any(fact["kind"] == "instance_ended" for fact in self.facts)


class PackedCommands(NamedTuple):
    """Consecutive commands of an instance, as one row holds them."""

    first_ordinal: int
    payload: Any

    def unpacked(self) -> list[LoggedCommand]:
        """Raises ValueError for commands that this version cannot read."""
        return unpack(self.first_ordinal, self.payload)


class FoundRequest(NamedTuple):
    """Where a request's rows are: a process instance, or a refusal under a key of its own."""

    key: Key
    kind: str  # instance_started | refusal
    recorded_at: datetime
    tenant: str


class Queries:
    """Reads on pooled connections. Every method raises sqlalchemy.exc.OperationalError while Postgres is away."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def load_instance(self, key: Key) -> StoredInstance | None:
        """Every command and fact of one instance; null when its Start is not in the audit.

        Raises ValueError for commands that this version cannot read.
        """
        query = (
            select(record)
            .where(record.c.process_instance_key == key, record.c.day == partitions.day_of(key))
            .order_by(record.c.position)
        )
        async with self._database.engine.connect() as connection:
            rows = [
                {name: value for name, value in row.items() if value is not None}
                for row in (await connection.execute(query)).mappings()
            ]
        packed = sorted((row for row in rows if row["position"] < 0), key=lambda row: -row["position"])
        commands = tuple(each for row in packed for each in unpack(-row["position"], row["payload"]))
        if not commands or not isinstance(commands[0].command, Start):
            return None
        start = commands[0].command
        facts = tuple(row for row in rows if row["position"] > 0)
        return StoredInstance(key, start.definition, start, commands, facts)

    async def commands_of(self, keys: Sequence[Key]) -> dict[Key, list[PackedCommands]]:
        """The commands of several instances, each in the order of their application; unknown ones are left out."""
        key, position = record.c.process_instance_key, record.c.position
        days = {partitions.day_of(each) for each in keys}
        query = select(key, -position, record.c.payload).where(key.in_(keys), record.c.day.in_(days), position < 0)
        found: dict[Key, list[PackedCommands]] = {}
        async with self._database.engine.connect() as connection:
            for owner, first_ordinal, payload in await connection.execute(query.order_by(key, position.desc())):
                found.setdefault(owner, []).append(PackedCommands(first_ordinal, payload))
        return found

    async def stored_rows(self, key: Key) -> list[CanonicalRow]:
        """The stored facts of one instance in canonical form, to compare with what its commands mean."""
        connection = await open_raw(self._database.conninfo)
        try:
            statement = _STORED_FACTS.format(key=int(key), day=partitions.day_of(key))
            output = bytearray()
            async with connection.cursor() as cursor, cursor.copy(statement.encode()) as copy:
                async for block in copy:
                    output += block
        finally:
            await connection.close()
        return [canonical_row(fields) for fields in binary.rows_of(bytes(output))]

    async def find_request(self, request_id: str) -> list[FoundRequest]:
        """The rows that opened or refused the request; empty when the audit does not know it or it is no UUID.

        A UUIDv7 (RFC 9562) is looked for around the day that it bears, any other in every day.
        """
        try:
            number = int.from_bytes(binary.uuid(request_id)[4:])
        except ValueError:
            return []
        values: dict[str, Any] = {"request_id": request_id}
        query = _REQUEST
        if number >> 76 & 0xF == 7:
            day = (number >> 80) // 86_400_000
            # The key that says the row's day is minted a little later, by a clock that may have been set.
            query = _REQUEST_OF_DAY
            values |= {"first_day": day - 1, "last_day": day + 1}
        async with self._database.engine.connect() as connection:
            return [FoundRequest(*row) for row in await connection.execute(query, values)]
