"""Owns the Postgres that tests run against: one real server per session, one fresh database per test.

Never mocks. Used by every test that is marked `postgres`.
"""

import asyncio
import os
import shutil
import tempfile
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from psycopg import sql

from engine.local.postgres import EmbeddedPostgres, PostgresConfig, PostgresError, find_binaries


@pytest.fixture(scope="session")
def postgres_binaries() -> Path:
    """The folder of the Postgres binaries. Without any: a skip with the reason, in CI (CI=true) a failure."""
    try:
        return find_binaries(None)
    except PostgresError as error:
        reason = str(error)
    if os.environ.get("CI") == "true":
        pytest.fail(f"the postgres tests may not be skipped in CI: {reason}", pytrace=False)
    pytest.skip(reason)


@pytest.fixture
def cluster_dir() -> Iterator[Path]:
    """An empty folder for a server's data that every account can reach; pytest's own are closed to others."""
    with tempfile.TemporaryDirectory(prefix="conch-test-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture(scope="session")
def postgres_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """A Postgres whose role may create databases: CONCH_TEST_DATABASE_URL, else an embedded one."""
    if given := os.environ.get("CONCH_TEST_DATABASE_URL"):
        yield given
        return
    request.getfixturevalue("postgres_binaries")
    folder = Path(tempfile.mkdtemp(prefix="conch-test-"))
    folder.chmod(0o755)
    started: Future[tuple[str, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def serve() -> None:
        try:
            async with EmbeddedPostgres(PostgresConfig(folder)) as postgres:
                stop = asyncio.Event()
                started.set_result((postgres.url, asyncio.get_running_loop(), stop))
                await stop.wait()
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)

    # The server is bound to the life of the thread that starts it; this one lives as long as the session.
    thread = threading.Thread(target=asyncio.run, args=[serve()], name="postgres")
    thread.start()
    try:
        url, loop, stop = started.result()
        try:
            yield url
        finally:
            loop.call_soon_threadsafe(stop.set)
    finally:
        thread.join()
        shutil.rmtree(folder)


@pytest.fixture
def database_url(postgres_url: str) -> Iterator[str]:
    """The URL of a fresh, empty database, dropped after the test even if connections are still open."""
    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        yield urlunsplit(urlsplit(postgres_url)._replace(path=f"/{name}"))
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
