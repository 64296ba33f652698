"""Owns one HTTP exchange on the hot path: reading a bounded body, noticing a disconnect, writing an answer. Raw ASGI.
Never knows a protocol's shape or a request's life.
Called by the inference routes, which avoid a web framework's request objects for their cost.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, TypeAlias

from engine.errors import Code, Rejected

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers: TypeAlias = list[tuple[bytes, bytes]]

# Most requests are over before this; only those that are not pay for a task that waits for the disconnect.
WATCH_AFTER_S = 0.1


class Disconnected(Exception):
    """The client went away before its request was read."""


async def read_body(scope: Scope, receive: Receive, limit_bytes: int) -> bytes:
    """The whole body. Raises Rejected(BODY_TOO_LARGE) as soon as that is known, Disconnected when the client left."""
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit() and int(value) > limit_bytes:
            raise _too_large(int(value), limit_bytes)
    message = await receive()
    if message["type"] == "http.request" and not message.get("more_body"):
        body: bytes = message.get("body", b"")
        if len(body) > limit_bytes:
            raise _too_large(len(body), limit_bytes)
        return body
    parts: list[bytes] = []
    size = 0
    while message["type"] == "http.request":
        part = message.get("body", b"")
        size += len(part)
        if size > limit_bytes:
            raise _too_large(size, limit_bytes)
        parts.append(part)
        if not message.get("more_body"):
            return b"".join(parts)
        message = await receive()
    raise Disconnected


def _too_large(size_bytes: int, limit_bytes: int) -> Rejected:
    message = f"the body has at least {size_bytes} bytes, and server.max_body_bytes is {limit_bytes}"
    return Rejected(Code.BODY_TOO_LARGE, message)


class DisconnectWatch:
    """Calls `on_disconnect` when the client closes the connection; cheap for exchanges that end soon."""

    __slots__ = ("_on_disconnect", "_receive", "_task", "_timer")

    def __init__(self, receive: Receive, on_disconnect: Callable[[], None], *, at_once: bool):
        self._receive = receive
        self._on_disconnect = on_disconnect
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        if at_once:
            self._begin()
        else:
            self._timer = asyncio.get_running_loop().call_later(WATCH_AFTER_S, self._begin)

    def _begin(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._wait())

    async def _wait(self) -> None:
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self._on_disconnect()
                return

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()


async def answer(send: Send, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> None:
    """Write a whole JSON answer."""
    all_headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        *headers,
    ]
    await send({"type": "http.response.start", "status": status, "headers": all_headers})
    await send({"type": "http.response.body", "body": body})


def mint_request_id(now_us: int) -> str:
    """A UUIDv7 (RFC 9562): 48 bits of milliseconds, then random bits."""
    value = ((now_us // 1000) << 80) | int.from_bytes(os.urandom(10), "big")
    value = (value & ~(0xF << 76)) | (0x7 << 76)
    value = (value & ~(0x3 << 62)) | (0x2 << 62)
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
