"""Owns the clients of operational instances: who starts them, the worker that does their jobs, who sends messages.
Never measures anything but what a client sees, and never retries.
Called by the operational benchmark as `python -m tests.bench.operational_load WHAT ...`; prints one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any

import orjson

_HEAD_END = b"\r\n\r\n"
_LENGTH = b"content-length: "
_AT_ONCE = 32  # jobs that the worker takes with one request
_TAKING = b'{"type":"work","timeout":60000,"maxJobsToActivate":%d,"requestTimeout":20000,"worker":"bench"}' % _AT_ONCE


class Connection(asyncio.Protocol):
    """One keep-alive connection, one request at a time."""

    def __init__(self) -> None:
        self._received = b""
        self._answer: asyncio.Future[bytes] | None = None

    @classmethod
    async def open(cls, port: int) -> Connection:
        _, connection = await asyncio.get_running_loop().create_connection(cls, "127.0.0.1", port)
        return connection

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionError(f"closed: {error}"))

    def data_received(self, data: bytes) -> None:
        received = self._received = self._received + data
        head_end = received.find(_HEAD_END)
        if head_end < 0:
            return
        at = received.find(_LENGTH, 0, head_end)
        length = 0 if at < 0 else int(received[at + len(_LENGTH) : received.index(b"\r\n", at)])
        if len(received) < head_end + len(_HEAD_END) + length:
            return
        self._received = b""
        assert self._answer is not None
        self._answer.set_result(received)

    async def post(self, path: str, body: bytes) -> bytes:
        """The body of a good answer. Raises RuntimeError for any other."""
        head = f"POST {path} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(head.encode() + _HEAD_END + body)
        answer = await self._answer
        if not answer.startswith(b"HTTP/1.1 2"):
            raise RuntimeError(f"{path}: {answer[:400]!r}")
        return answer.partition(_HEAD_END)[2]

    def close(self) -> None:
        self._transport.close()


class _Worker:
    """Does the jobs of type `work`: one connection takes them, others say that they are done."""

    def __init__(self) -> None:
        self.done: defaultdict[str, asyncio.Future[None]] = defaultdict(asyncio.get_running_loop().create_future)
        self.jobs = 0
        self._free: asyncio.Queue[Connection] = asyncio.Queue()
        self._completing: set[asyncio.Task[None]] = set()

    async def run(self, port: int, connections: int) -> None:
        taking = await Connection.open(port)
        for _ in range(connections):
            self._free.put_nowait(await Connection.open(port))
        while True:
            answer = orjson.loads(await taking.post("/v2/jobs/activation", _TAKING))
            for job in answer["jobs"]:
                task = asyncio.ensure_future(self._complete(job))
                self._completing.add(task)
                task.add_done_callback(self._completing.discard)

    async def _complete(self, job: dict[str, Any]) -> None:
        connection = await self._free.get()
        try:
            await connection.post(f"/v2/jobs/{job['jobKey']}/completion", b'{"variables":{"charged":12.5}}')
        except RuntimeError as error:
            self.done[job["processInstanceKey"]].set_exception(error)
        else:
            self.jobs += 1
            self.done[job["processInstanceKey"]].set_result(None)
        self._free.put_nowait(connection)


def _start(process_id: str, number: int) -> bytes:
    order = {"order": f"order {number}", "amount": 12.5, "customer": {"name": "Ada", "country": "UK"}}
    return orjson.dumps({"processDefinitionId": process_id, "variables": order})


async def _instances(options: argparse.Namespace) -> dict[str, Any]:
    """Each client starts an instance and waits until its job is done, then starts the next one."""
    worker = _Worker()
    working = asyncio.ensure_future(worker.run(options.port, options.connections))
    begins_s = time.perf_counter() + options.warmup
    ends_s = begins_s + options.seconds
    starts: list[float] = []
    lives: list[float] = []
    instances = 0

    async def client() -> None:
        nonlocal instances
        connection = await Connection.open(options.port)
        began_s = time.perf_counter()
        while began_s < ends_s:
            key = orjson.loads(await connection.post("/v2/process-instances", _start("bench-work", instances)))
            started_s = time.perf_counter()
            instances += 1
            await worker.done[key["processInstanceKey"]]
            now_s = time.perf_counter()
            if began_s >= begins_s and now_s <= ends_s:
                starts.append(started_s - began_s)
                lives.append(now_s - began_s)
            began_s = now_s

    clients = asyncio.gather(*(client() for _ in range(options.connections)))
    await asyncio.wait((clients, working), return_when=asyncio.FIRST_COMPLETED)
    working.cancel()
    await clients
    return {"instances": instances, "jobs": worker.jobs, **_told(lives, options.seconds), "starts": _us(starts)}


async def _each(options: argparse.Namespace, path: str, body: Callable[[int], bytes]) -> dict[str, Any]:
    """`count` requests, shared among the clients."""
    numbers = iter(range(options.first, options.first + options.count))
    took: list[float] = []

    async def client() -> None:
        connection = await Connection.open(options.port)
        for number in numbers:
            began_s = time.perf_counter()
            await connection.post(path, body(number))
            took.append(time.perf_counter() - began_s)

    began_at_s = time.time()
    began_s = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(options.connections)))
    return {"began_at_s": began_at_s, **_told(took, time.perf_counter() - began_s)}


def _told(took: list[float], seconds: float) -> dict[str, Any]:
    return {"per_s": len(took) / seconds, "latencies": _us(took)}


def _us(took: list[float]) -> list[int]:
    return sorted(round(each * 1e6) for each in took)


async def _starts(options: argparse.Namespace) -> dict[str, Any]:
    return await _each(options, "/v2/process-instances", lambda number: _start("bench-wait", number))


def _message(number: int, ttl_ms: int | None) -> bytes:
    message: dict[str, Any] = {"name": "payment", "correlationKey": f"order {number}", "variables": {"paid": 12.5}}
    return orjson.dumps(message if ttl_ms is None else message | {"timeToLive": ttl_ms})


async def _publications(options: argparse.Namespace) -> dict[str, Any]:
    return await _each(options, "/v2/messages/publication", lambda number: _message(number, 60_000))


async def _correlations(options: argparse.Namespace) -> dict[str, Any]:
    return await _each(options, "/v2/messages/correlation", lambda number: _message(number, None))


_MEASURES: dict[str, Callable[[argparse.Namespace], Awaitable[dict[str, Any]]]] = {
    "instances": _instances,
    "starts": _starts,
    "publications": _publications,
    "correlations": _correlations,
}


async def _measure(options: argparse.Namespace) -> dict[str, Any]:
    found = await _MEASURES[options.what](options)
    return found | {"cpu_s": time.process_time()}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.operational_load")
    parser.add_argument("what", choices=sorted(_MEASURES))
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--connections", type=int, required=True)
    parser.add_argument("--warmup", type=float, default=0.5, help="seconds")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--first", type=int, default=0, help="number of the first order")
    parser.add_argument("--count", type=int, default=0, help="orders")
    measuring = _measure(parser.parse_args())
    try:
        import uvloop
    except ImportError:
        result = asyncio.run(measuring)
    else:
        result = uvloop.run(measuring)
    sys.stdout.buffer.write(orjson.dumps(result))


if __name__ == "__main__":
    main()
