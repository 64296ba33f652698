"""Owns rows of the audit as people read them: columns by name, and one digest over their bytes.
Never loses anything: what reads differently is stored differently, and the other way round.
Called by the recorder and by the replay of golden logs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, datetime
from decimal import Decimal
from hashlib import sha256
from typing import Any, Final

from psycopg.adapt import Transformer
from psycopg.pq import Format
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from engine.store import json_text, schema
from engine.store.canonical import CanonicalRow
from engine.store.columns import CONSTANT, SAYS

UNSAID: Final = "schema_version"  # of the engine that stored the row; no meaning of a command
REPEATED: Final = frozenset(CONSTANT) - {UNSAID}
_OIDS: Final = {
    "BIGINT": 20,
    "SMALLINT": 21,
    "INTEGER": 23,
    "TEXT": 25,
    "BOOLEAN": 16,
    "TIMESTAMP": 1184,
    "DATE": 1082,
    "NUMERIC": 1700,
    "UUID": 2950,
}
_TEXT_ARRAY: Final = 1009
_TRANSFORMER: Final = Transformer()


def readable(row: CanonicalRow) -> dict[str, Any]:
    """The columns that are not null, in the order of the table."""
    fields = zip(SAYS, row.fields, strict=True)
    return {name: _value(name, field) for name, field in fields if field is not None and name != UNSAID}


def _value(name: str, field: bytes) -> Any:
    kind = schema.record.columns[name].type
    if isinstance(kind, JSONB):
        return json_text.loads(field)
    oid = _TEXT_ARRAY if isinstance(kind, ARRAY) else _OIDS[str(kind).split()[0]]
    value = _TRANSFORMER.get_loader(oid, Format.BINARY).load(field)
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds").replace("+00:00", "Z")
    return str(value) if isinstance(value, (date, Decimal)) or name == "request_id" else value


def digest(rows: Iterable[CanonicalRow]) -> str:
    """sha256 over each row in turn: a byte 1, then each column that is not null: name, byte 0, length, bytes.

    A column that is added later, and null in old rows, leaves it as it is.
    """
    said = sha256()
    for row in rows:
        said.update(b"\1")
        for name, field in zip(SAYS, row.fields, strict=True):
            if field is not None and name != UNSAID:
                said.update(name.encode() + b"\0" + len(field).to_bytes(4, "big") + field)
    return said.hexdigest()


def line(said: Mapping[str, Any]) -> str:
    """One JSON object as one line: its own names in the order given, those of values inside sorted; bytes are JSON."""
    entries = (b'"%b":%b' % (name.encode(), _json(value)) for name, value in said.items())
    return (b"{" + b",".join(entries) + b"}").decode()


def _json(value: Any) -> bytes:
    return value if isinstance(value, bytes) else json_text.dumps(value)
