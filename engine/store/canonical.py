"""Owns the one form in which rows are compared and sealed: the fields of the binary COPY form, each with its length.
Never uses a text rendering of a row, which changes with the session's time zone and with every added column.
Called by replay and verification: `rows_from_records` on one side, Queries.stored_rows on the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from engine.records import Key, Record
from engine.store import binary, json_text
from engine.store.columns import JSON, SAYS
from engine.store.encoding import InstanceContext, encode_command, encode_fact

CANONICAL_VERSION: Final = b"\1"
_JSON_AT = frozenset(SAYS.index(name) for name in JSON)
_POSITION_AT = SAYS.index("position")


class CanonicalRow(NamedTuple):
    """A row by column, in the order of columns.SAYS; how it was stored (writer, batch, leaf) is not part of it."""

    position: int
    fields: tuple[bytes | None, ...]


def canonical_row(fields: Sequence[bytes | None]) -> CanonicalRow:
    """From the fields of a binary COPY; JSON is put into its canonical form, since jsonb keeps only its meaning."""
    said = tuple(
        json_text.canonical(binary.json_of(field)) if field is not None and at in _JSON_AT else field
        for at, field in enumerate(fields[: len(SAYS)])
    )
    position = said[_POSITION_AT]
    if position is None:
        raise ValueError("a row without a position")
    return CanonicalRow(binary.int8_of(position), said)


def canonical_bytes(row: CanonicalRow) -> bytes:
    """Version, then each field with its length before it; null has the length -1."""
    parts = [CANONICAL_VERSION]
    for field in row.fields:
        parts.append(binary.NULL if field is None else len(field).to_bytes(4, "big") + field)
    return b"".join(parts)


def rows_from_records(instance: InstanceContext, records: Iterable[Record]) -> list[CanonicalRow]:
    """The rows that the facts among `records` mean, in the order of their positions. `records` are in the order of
    their making, commands included: the closing row bears their digest."""
    rows = []
    for record in records:
        if record.position > 0:
            rows.append(canonical_row(binary.fields_of(encode_fact(instance, record).data, len(SAYS))))
        else:
            encode_command(instance, record)
    return sorted(rows, key=lambda row: row.position)


class Difference(NamedTuple):
    """One row that differs; `columns` is empty where the row is missing on one side."""

    key: Key
    position: int
    what: str  # "missing", "unexpected" or "different"
    columns: tuple[str, ...] = ()

    def __str__(self) -> str:
        columns = f": {', '.join(self.columns)}" if self.columns else ""
        return f"process instance {self.key}, position {self.position}: {self.what}{columns}"


def differences(key: Key, stored: Iterable[CanonicalRow], derived: Iterable[CanonicalRow]) -> list[Difference]:
    """Where the stored facts are not, byte for byte, what the commands mean; empty when they agree.

    The version of the record's schema is that of the engine that stored the row, and no meaning of a command.
    """
    left = {row.position: row for row in stored}
    right = {row.position: row for row in derived}
    found = []
    for position in sorted(left.keys() | right.keys()):
        mine, theirs = left.get(position), right.get(position)
        if mine is None:
            found.append(Difference(key, position, "missing"))
        elif theirs is None:
            found.append(Difference(key, position, "unexpected"))
        elif columns := tuple(
            name
            for name, a, b in zip(SAYS, mine.fields, theirs.fields, strict=True)
            if a != b and name != "schema_version"
        ):
            found.append(Difference(key, position, "different", columns))
    return found
