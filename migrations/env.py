"""Owns how Alembic reaches the database and what it compares.
Never proposes to drop a partition: the engine makes those by itself.
Called by Alembic for every command.
"""

import os

import psycopg
from alembic import context
from sqlalchemy import Connection, NullPool, create_engine, text

from engine.store.database import conninfo_of
from engine.store.schema import metadata

_LOCK = 0x636F6E6368_00  # one engine migrates at a time


def database_url() -> str:
    url = context.config.attributes.get("url") or os.environ.get("CONCH_POSTGRES__URL")
    if not url:
        raise SystemExit("Name the database in CONCH_POSTGRES__URL, e.g. postgresql://user@localhost/conch")
    return str(url)


def run(connection: Connection) -> None:
    partitions = set(connection.scalars(text("SELECT relname FROM pg_class WHERE relispartition")))
    context.configure(
        connection=connection,
        target_metadata=metadata,
        include_name=lambda name, kind, _: not (kind == "table" and name in partitions),
        compare_server_default=True,
    )
    with context.begin_transaction():
        connection.execute(text("SET LOCAL lock_timeout = '10s'"))
        context.run_migrations()


def main() -> None:
    conninfo = conninfo_of(database_url())
    engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(conninfo), poolclass=NullPool)
    with engine.connect() as connection:
        connection.execute(text("SELECT pg_advisory_lock(:lock)"), {"lock": _LOCK})
        connection.commit()
        run(connection)
        connection.commit()


main()
