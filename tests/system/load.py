"""Owns a small HTTP client for many requests at once, and for clients that leave: keep-alive, cheap, in one loop.

It says what really arrived and when the connection broke, and never retries. Called by the system tests.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from urllib.parse import urlsplit


class Broken(Exception):
    """The connection ended before the answer did, or there was none."""


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def key(self) -> int | None:
        """The process instance; none for a refusal."""
        found = self.headers.get("conch-process-instance")
        return int(found) if found else None

    def json(self) -> Any:
        return json.loads(self.body)


class Connection:
    """One connection to a gateway; it connects again when the last answer, or an accident, has closed it."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = str(parts.hostname), int(parts.port or 80)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, path: str, body: Any, headers: Mapping[str, str] | None = None) -> Answer:
        """One whole exchange. Raises Broken."""
        try:
            status, named, reader = await self.open(path, body, headers)
            parts = [part async for part in _parts(reader, named)]
        except (OSError, EOFError, ValueError) as error:
            self.close()
            raise Broken(repr(error)) from error
        if named.get("connection") == "close":
            self.close()
        return Answer(status, named, b"".join(parts))

    async def open(
        self, path: str, body: Any, headers: Mapping[str, str] | None = None
    ) -> tuple[int, dict[str, str], asyncio.StreamReader]:
        """Send a request and read the answer's head; the body is up to the caller."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._host, self._port)
        reader, writer = self._streams
        data = json.dumps(body).encode()
        more = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        head = f"POST {path} HTTP/1.1\r\nHost: {self._host}\r\nContent-Length: {len(data)}\r\n{more}\r\n"
        writer.write(head.encode() + data)
        await writer.drain()
        status_line, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        named = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
        return int(status_line.split()[1]), named, reader

    def close(self) -> None:
        """Leave, in the middle of an answer too."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Connection]:
    connection = Connection(url)
    try:
        yield connection
    finally:
        connection.close()


async def events(reader: asyncio.StreamReader) -> AsyncIterator[dict[str, Any]]:
    """The server-sent events of a chunked answer, as they come."""
    async for part in _chunks(reader):
        for line in part.splitlines():
            if line.startswith(b"data: "):
                yield json.loads(line[6:])


async def _parts(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> AsyncIterator[bytes]:
    if "content-length" in headers:
        yield await reader.readexactly(int(headers["content-length"]))
        return
    async for part in _chunks(reader):
        yield part


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """The chunked transfer coding of RFC 9112, section 7.1."""
    while size := int(await reader.readuntil(b"\r\n"), 16):
        yield (await reader.readexactly(size + 2))[:-2]
    await reader.readuntil(b"\r\n")
