"""Owns the demonstration's client: which requests are sent, and a log of what came back for each of them.
Never looks into the database or repeats a request; retries are the gateway's business.
Called by the play.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson

_QUESTIONS = (
    "Where does the sea keep its shells?",
    "What did the tide bring in this morning?",
    "How long does a wave remember the wind?",
    "Which harbour lies nearest to the lighthouse?",
    "Why is the water calm behind the reef?",
)
_FEATURES = ("search", "assistant", "summary")
NO_ANSWER = "NO_ANSWER"  # the connection broke, or what came back is no answer
_TIMEOUT = aiohttp.ClientTimeout(total=60)


@dataclass(frozen=True)
class Request:
    """One request as it will be sent."""

    operation: str
    model: str
    body: dict[str, Any]
    feature: str


@dataclass(frozen=True)
class Answer:
    """What the client saw. `error_code` is None for a complete answer."""

    request: Request
    http_status: int
    error_code: str | None
    message: str
    process_instance_key: int | None
    replica: str
    attempts: int
    degraded: bool


def script(count: int, seed: int) -> list[Request]:
    """`count` requests, the same for the same seed: embeddings, streams, and whole texts."""
    chance = random.Random(seed)
    requests = []
    for number in range(count):
        text = f"{chance.choice(_QUESTIONS)} ({number})"
        feature = chance.choice(_FEATURES)
        kind = number % 5
        if kind < 2:
            tensor = {"name": "text", "datatype": "BYTES", "shape": [1, 1], "data": [text]}
            requests.append(Request("infer", "embed", {"id": str(number), "inputs": [tensor]}, feature))
            continue
        # Slow enough that some are always under way; quick enough for the small model, which answers one at a time.
        body = {"text_input": text, "max_tokens": chance.randint(6, 16), "delay_ms": chance.randint(5, 15)}
        if kind < 4:
            requests.append(Request("generate_stream", "chat", body, feature))
        else:
            requests.append(Request("generate", "chat", body | {"stream": False}, feature))
    return requests


class Client:
    """Sends requests and keeps what came back. `under_way` counts requests by operation."""

    def __init__(self, http: aiohttp.ClientSession, url: str, on_change: Callable[[], None]) -> None:
        self.answers: list[Answer] = []
        self.under_way: Counter[str] = Counter()
        self._http = http
        self._url = url
        self._on_change = on_change
        self._changed = asyncio.Event()

    async def send_all(self, requests: Sequence[Request], concurrency: int) -> None:
        """Send `concurrency` at a time; return when each has been answered, one way or another."""
        waiting = iter(requests)

        async def work() -> None:
            for request in waiting:
                self._note(request, 1)
                self.answers.append(await self._send(request))
                self._note(request, -1)

        async with asyncio.TaskGroup() as workers:
            for _ in range(concurrency):
                workers.create_task(work())

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return when `condition` holds; it is looked at whenever a request begins or ends."""
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    def _note(self, request: Request, change: int) -> None:
        self.under_way[request.operation] += change
        self._changed.set()
        self._on_change()

    async def _send(self, request: Request) -> Answer:
        url = f"{self._url}/v2/models/{request.model}/{request.operation}"
        headers = {"Conch-Product": "demo", "Conch-Feature": request.feature}
        try:
            async with self._http.post(url, json=request.body, headers=headers, timeout=_TIMEOUT) as response:
                body = await response.read()
                return _answer(request, response, _error_in(response, body))
        except (aiohttp.ClientError, TimeoutError) as error:
            return Answer(request, 0, NO_ANSWER, f"{type(error).__name__}: {error}", None, "", 0, False)


def _answer(request: Request, response: aiohttp.ClientResponse, error: dict[str, Any] | None) -> Answer:
    headers = response.headers
    key = headers.get("Conch-Process-Instance")
    return Answer(
        request=request,
        http_status=response.status,
        error_code=str(error.get("code")) if error else None,
        message=str(error.get("error", "")) if error else "",
        process_instance_key=int(key) if key else None,
        replica=headers.get("Conch-Replica", ""),
        attempts=int(headers.get("Conch-Attempts", 0)),
        degraded="Conch-Degraded" in headers,
    )


def _error_in(response: aiohttp.ClientResponse, body: bytes) -> dict[str, Any] | None:
    """The error object of an answer, None when there is none. A stream that has begun tells its error as an event."""
    last = body
    if response.content_type == "text/event-stream":
        events = [line.removeprefix(b"data: ") for line in body.split(b"\n") if line.startswith(b"data: ")]
        last = events[-1] if events else b"{}"
    try:
        document = orjson.loads(last)
    except orjson.JSONDecodeError:
        return {"code": NO_ANSWER, "error": f"the body is not JSON: {last[:200]!r}"}
    if response.status == 200 and "error" not in document:
        return None
    return dict(document)
