"""Owns a Postgres of a test's own that the test may kill and bring back: same data, same address.

Never restarts it by itself. Called by the tests of outages.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from engine.local.postgres import EmbeddedPostgres, PostgresConfig
from tests.gateway_fixtures import until

T = TypeVar("T")
LIMIT_S = 120.0


class KillablePostgres:
    """Listens on a port, as a server elsewhere would. Its loop runs in a thread, to which the server is bound."""

    def __init__(self, folder: Path, port: int) -> None:
        self._config = PostgresConfig(folder, port=port)
        self._port = port
        self._server = EmbeddedPostgres(self._config)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="postgres", daemon=True)
        self._thread.start()

    def start(self) -> None:
        self._call(self._server.start())

    def kill(self) -> None:
        """SIGKILL of the postmaster: clients see their connections break, and nobody listens any more."""
        os.kill(self._server.pid, signal.SIGKILL)
        until("the postmaster is gone", lambda: self._server.failure is not None)
        self._call(self._server.stop())

    def close(self) -> None:
        self._call(self._server.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LIMIT_S)
        self._loop.close()

    @property
    def url(self) -> str:
        """Over TCP; a Unix socket's folder changes with each start."""
        credentials = self._server.url.partition("://")[2].partition("@")[0]
        return f"postgresql://{credentials}@127.0.0.1:{self._port}/conch"

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(LIMIT_S)
