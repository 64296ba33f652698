"""Owns databases with the audit's schema: one template per session, a copy per test.

Never shares rows between tests. Used by the tests of the store and by whoever needs a gateway's database.
"""

import asyncio
import uuid
from collections.abc import Iterator
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from psycopg import sql

from engine.store import partitions
from engine.store.database import migrate, open_raw


def _renamed(url: str, name: str) -> str:
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))


@pytest.fixture(scope="session")
def audit_template(postgres_url: str) -> Iterator[str]:
    """The name of a migrated database with today's partitions that nobody is connected to."""
    name = f"template_{uuid.uuid4().hex}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            asyncio.run(_fill(_renamed(postgres_url, name)))
            yield name
        finally:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture
def audit_url(postgres_url: str, audit_template: str) -> Iterator[str]:
    """The URL of an empty audit, dropped after the test even if connections are still open."""
    name = f"audit_{uuid.uuid4().hex}"
    create = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(audit_template))
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(create)
        try:
            yield _renamed(postgres_url, name)
        finally:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


async def _fill(url: str) -> None:
    await migrate(url)
    connection = await open_raw(url)
    await partitions.ensure_ahead(connection)
    await connection.close()
