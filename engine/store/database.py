"""Owns the ways to the database: a bounded pool for reads, raw connections for the journal, and the migrations.
Never holds a statement of its own beyond the first that proves a connection.
Called by the composition root, and by every other file of the store through the Database it hands out.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, LiteralString

import psycopg
from alembic import command
from alembic.config import Config
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.types.json import set_json_dumps, set_json_loads
from sqlalchemy import exc, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_delay, wait_random_exponential
from tenacity.stop import stop_base

from engine.store import json_text

_MIGRATIONS = Path(__file__).parents[2] / "migrations"

# A network that swallows packets is taken for an outage after about 15 s. The kernel's own patience is a quarter of an
# hour, in which no lease would be renewed: the pool's statements have no limit of their own.
_SILENCE = {"tcp_user_timeout": 15_000, "keepalives_idle": 5, "keepalives_interval": 5, "keepalives_count": 2}

RawConnection = psycopg.AsyncConnection[tuple[Any, ...]]


class Direct:
    """One connection for statements that many wait for, one at a time: no pool, prepared, no transaction around them.

    Taking a connection from the pool, beginning and ending cost several times what such a statement does. Each may be
    repeated, and is, once, when the connection was lost.
    """

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self._connection: RawConnection | None = None
        self._turn = asyncio.Lock()

    async def rows(self, statement: LiteralString, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """What the statement returns. Raises psycopg.OperationalError while Postgres is away."""
        async with self._turn:
            known = self._connection
            if known is not None:
                try:
                    return await _rows(known, statement, values)
                except psycopg.OperationalError:
                    if not known.closed:
                        raise
            self._connection = opened = await open_raw(self._conninfo)
            return await _rows(opened, statement, values)

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()


async def _rows(
    connection: RawConnection, statement: LiteralString, values: Mapping[str, Any]
) -> list[tuple[Any, ...]]:
    cursor = await connection.execute(statement, values, prepare=True)
    return [] if cursor.description is None else await cursor.fetchall()


class Database:
    """A bounded pool of connections to one Postgres, for everything but the journal's writes; and two beside it.

    `publishing` is for what has to reach the disk before anybody is answered, `correlating` for what does not wait.
    """

    def __init__(self, url: str, *, pool_size: int = 4, pool_wait_s: float = 5.0) -> None:
        self.conninfo = conninfo_of(url)
        self.publishing = Direct(self.conninfo)
        self.correlating = Direct(self.conninfo)
        self.engine: AsyncEngine = create_async_engine(
            "postgresql+psycopg://",
            async_creator=self._connect,
            pool_size=pool_size,
            max_overflow=0,
            pool_timeout=pool_wait_s,
            pool_pre_ping=True,
            json_serializer=lambda value: json_text.dumps(value).decode(),
            json_deserializer=json_text.loads,
        )

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[AsyncConnection]:
        """One transaction on a pooled connection."""
        async with self.engine.begin() as connection:
            yield connection

    async def close(self) -> None:
        for direct in (self.publishing, self.correlating):
            await direct.close()
        await self.engine.dispose()

    async def _connect(self) -> RawConnection:
        return await open_raw(self.conninfo, autocommit=False)


async def connect(url: str, *, pool_size: int = 4, wait_s: float = 30.0) -> Database:
    """A Database that has answered once. Raises sqlalchemy.exc.OperationalError when none does within `wait_s`."""
    database = Database(url, pool_size=pool_size)
    try:
        async for attempt in retrying(stop_after_delay(wait_s)):
            with attempt:
                async with database.engine.connect() as connection:
                    await connection.execute(text("SELECT 1"))
    except BaseException:
        await database.close()
        raise
    return database


def retrying(stop: stop_base) -> AsyncRetrying:
    """Connecting again while the server is away; at random, at first within 50 ms, at most 1 s apart."""
    return AsyncRetrying(
        stop=stop,
        wait=wait_random_exponential(multiplier=0.05, max=1.0),
        retry=retry_if_exception_type((psycopg.OperationalError, exc.OperationalError, OSError)),
        reraise=True,
    )


async def open_raw(conninfo: str, *, autocommit: bool = True) -> RawConnection:
    """A connection of its own that reads JSON numbers exactly. Raises psycopg.OperationalError."""
    connection = await psycopg.AsyncConnection.connect(
        make_conninfo("", **{**_SILENCE, **conninfo_to_dict(conninfo)}),
        autocommit=autocommit,
        connect_timeout=5,
        application_name="conch",
    )
    set_json_loads(json_text.loads, connection)
    set_json_dumps(json_text.dumps, connection)
    return connection


def conninfo_of(url: str) -> str:
    """A URL for libpq; SQLAlchemy's spelling of the scheme is accepted too."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme.partition("+")[0] not in ("postgresql", "postgres"):
        raise ValueError("the database URL must begin with postgresql://")
    return f"postgresql://{rest}"


async def migrate(url: str) -> None:
    """Bring the schema to this version's. Processes that start together take turns; within one, call it once."""
    await asyncio.to_thread(command.upgrade, alembic_config(url), "head")


def alembic_config(url: str) -> Config:
    """Alembic's configuration for `url`. The migrations lie beside the engine, in a checkout and when installed."""
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.attributes["url"] = url
    return config
