"""Owns what the reading commands share: a key argument, and the audit opened for reading.
Never migrates, deploys or writes.
Called by `conch replay`, `conch explain`, `conch process` and `conch deploy`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import click

from engine.cli.compose import database_url, embedded_config
from engine.errors import Code, Rejected
from engine.local.cluster import has_data
from engine.local.postgres import url_of_running
from engine.records import Key
from engine.settings import Settings
from engine.store import database as databases
from engine.store.definitions import Definitions
from engine.store.queries import Queries, StoredInstance
from engine.store.search import Search

CONNECT_WAIT_S = 5.0


class _KeyType(click.ParamType[int | str]):
    name = "key"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        text = str(value)
        if text.isascii() and text.isdigit() and int(text) < 2**63:
            return int(text)
        if len(text) != 36 or text.count("-") != 4:
            self.fail("give a process instance key (a whole number) or a request id (a UUID)", param, ctx)
        return text


KEY = _KeyType()


class Audit(NamedTuple):
    """The audit, open for reading."""

    queries: Queries
    definitions: Definitions
    search: Search

    async def load(self, key: Key | str) -> StoredInstance:
        """The instance by its key, by that of a called process that has ended inside it, or by its request id.

        Raises Rejected: NOT_FOUND, or UNSUPPORTED for commands that this version cannot read.
        """
        number = key if isinstance(key, int) else await self._key_of(key)
        number = await self.search.root_of(number) or number
        try:
            stored = await self.queries.load_instance(number)
        except ValueError as error:
            raise Rejected(Code.UNSUPPORTED, f"process instance {number} cannot be read: {error}") from error
        if stored is None:
            raise Rejected(Code.NOT_FOUND, f"the audit holds no process instance with the key {number}")
        return stored

    async def xml_of(self, stored: StoredInstance) -> bytes:
        """The very file that governed the instance. Raises Rejected(NOT_FOUND)."""
        async with self.definitions.reading() as catalog:
            xml = await catalog.xml(stored.definition.key)
        if xml is None:
            raise Rejected(Code.NOT_FOUND, f"the audit holds no process definition {stored.definition.key}")
        return xml

    async def _key_of(self, request_id: str) -> Key:
        found = await self.queries.find_request(request_id)
        if not found:
            raise Rejected(Code.NOT_FOUND, f"the audit knows no request {request_id}")
        return found[-1].key


@asynccontextmanager
async def reading(settings: Settings) -> AsyncIterator[Audit]:
    """Open the configured database, or the embedded one: the running gateway's, else started for this command.

    Raises click.ClickException where there is none: what only reads makes no new one.
    """
    config = embedded_config(settings)
    if settings.postgres.url is None and not has_data(config):
        raise click.ClickException(
            f"there is no database in {config.data_dir}, so there is nothing to read; run this in the folder in which "
            "the gateway was started, or name the database: `postgres.data_dir`, or `postgres.url`"
        )
    async with connected(settings) as database:
        yield Audit(Queries(database), Definitions(database), Search(database))


@asynccontextmanager
async def connected(settings: Settings) -> AsyncIterator[databases.Database]:
    """The database of the settings, as `reading` opens it."""
    async with _url(settings) as url:
        database = await databases.connect(url, pool_size=2, wait_s=CONNECT_WAIT_S)
        try:
            yield database
        finally:
            await database.close()


@asynccontextmanager
async def _url(settings: Settings) -> AsyncIterator[str]:
    running = None if settings.postgres.url else url_of_running(embedded_config(settings))
    if running is not None:
        yield running
        return
    async with database_url(settings, lambda line: click.echo(f"conch: {line}", err=True)) as url:
        yield url
