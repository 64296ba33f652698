"""Owns a wire between the journal and Postgres that a test can cut at an exact moment of the protocol.
Never changes a byte: it forwards, or it cuts.
Called by the tests of the journal. Messages: PostgreSQL manual, "Message Formats".
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import tempfile
from pathlib import Path
from typing import Literal, Self

from psycopg.conninfo import conninfo_to_dict

COPY_DONE = b"c\x00\x00\x00\x04"
COPIED = re.compile(rb"C\x00\x00\x00.COPY \d+\x00", re.DOTALL)

Moment = Literal["before_commit", "after_commit"]


class Proxy:
    """`cut_next` cuts once: before Postgres learns that the COPY is complete, or after it has said that it is."""

    def __init__(self, url: str) -> None:
        self._target = {name: str(value) for name, value in conninfo_to_dict(url).items()}
        self._folder = tempfile.TemporaryDirectory(prefix="conch-proxy-")
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.cut_next: Moment | None = None
        self.cuts = 0
        user, password, name = (self._target.get(part, "") for part in ("user", "password", "dbname"))
        self.url = f"postgresql://{user}:{password}@/{name}?host={self._folder.name}&port=5432&sslmode=disable"

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
        self._folder.cleanup()

    async def open(self) -> None:
        path = Path(self._folder.name) / ".s.PGSQL.5432"
        self._server = await asyncio.start_unix_server(self._serve, path)

    async def close(self) -> None:
        """Refuse new connections and cut those there are: Postgres is away."""
        if self._server is not None:
            self._server.close()
            self._server = None
        (Path(self._folder.name) / ".s.PGSQL.5432").unlink(missing_ok=True)
        self.cut()
        while self._tasks:
            await asyncio.wait(self._tasks)

    def cut(self) -> None:
        for writer in self._writers:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, port = self._target["host"], self._target.get("port", "5432")
        if host.startswith("/"):
            there = await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
        else:
            there = await asyncio.open_connection(host, int(port))
        self._writers |= {writer, there[1]}
        for pump in (self._pump(reader, there[1], "before_commit"), self._pump(there[0], writer, "after_commit")):
            task = asyncio.create_task(pump)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, moment: Moment) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(1 << 20):
                if self.cut_next == moment and self._is_the_moment(moment, data):
                    self.cut_next = None
                    self.cuts += 1
                    self.cut()
                    break
                writer.write(data)
                await writer.drain()
        writer.close()
        self._writers.discard(writer)

    def _is_the_moment(self, moment: Moment, data: bytes) -> bool:
        return COPY_DONE in data[-20:] if moment == "before_commit" else COPIED.search(data) is not None
