"""Owns deployment: files become immutable, numbered versions, all of one call or none.
Never parses or judges a diagram; the caller has, and says which processes each file holds.
Called by the composition root at start, by the api's deployment route and by recovery, which loads pinned versions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from sqlalchemy import ColumnElement, insert, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from engine.records import DefinitionRef, Key
from engine.store.database import Database
from engine.store.schema import process_definition

_LOCK = 0x636F6E6368_02  # deployments take turns, so that versions have no gaps
_REF = (
    process_definition.c.key,
    process_definition.c.process_id,
    process_definition.c.version,
    process_definition.c.content_hash,
)


class Deployable(NamedTuple):
    """One process of one file."""

    process_id: str
    content_hash: str  # sha256 of the file, hex
    resource_name: str
    xml: bytes


class Deployed(NamedTuple):
    """What became of a Deployable: `new` is false when the latest version has this very content."""

    ref: DefinitionRef
    new: bool


class LoadedDefinition(NamedTuple):
    ref: DefinitionRef
    resource_name: str
    xml: bytes


class Definitions:
    """Deploys and loads process definitions."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def deploy(
        self, deployables: Sequence[Deployable], mint: Callable[[], Key], deployed_by: str
    ) -> list[Deployed]:
        """Each becomes the next version of its process, unless the latest has the same content; all or none.

        Deploying an older content again makes a new version of it: that is how to go back. Raises ValueError when
        two of them claim the same process id.
        """
        ids = [each.process_id for each in deployables]
        if twice := sorted({each for each in ids if ids.count(each) > 1}):
            raise ValueError(f"deployed twice in one call: {', '.join(twice)}")
        async with self._database.begin() as connection:
            await connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
            return [await _deploy(connection, each, mint, deployed_by) for each in deployables]

    async def latest(self, process_id: str) -> LoadedDefinition | None:
        """The newest version of a process; null when there is none."""
        return await self._load(process_definition.c.process_id == process_id)

    async def load(self, key: Key) -> LoadedDefinition | None:
        """The very version that an instance is pinned to; null when it was never deployed here."""
        return await self._load(process_definition.c.key == key)

    async def _load(self, which: ColumnElement[bool]) -> LoadedDefinition | None:
        query = (
            select(*_REF, process_definition.c.resource_name, process_definition.c.xml)
            .where(which)
            .order_by(process_definition.c.version.desc())
            .limit(1)
        )
        async with self._database.engine.connect() as connection:
            row = (await connection.execute(query)).mappings().one_or_none()
        if row is None:
            return None
        ref = DefinitionRef(row["key"], row["process_id"], row["version"], row["content_hash"])
        return LoadedDefinition(ref, row["resource_name"], bytes(row["xml"]))


async def _deploy(
    connection: AsyncConnection, wanted: Deployable, mint: Callable[[], Key], deployed_by: str
) -> Deployed:
    query = (
        select(*_REF)
        .where(process_definition.c.process_id == wanted.process_id)
        .order_by(process_definition.c.version.desc())
        .limit(1)
    )
    row = (await connection.execute(query)).one_or_none()
    latest = None if row is None else DefinitionRef(*row)
    if latest is not None and latest.content_hash == wanted.content_hash:
        return Deployed(latest, False)
    version = 1 if latest is None else latest.version + 1
    ref = DefinitionRef(mint(), wanted.process_id, version, wanted.content_hash)
    await connection.execute(
        insert(process_definition).values(
            **ref._asdict(), resource_name=wanted.resource_name, xml=wanted.xml, deployed_by=deployed_by
        )
    )
    return Deployed(ref, True)
