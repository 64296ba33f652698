"""Owns the load: one request over and over on a number of keep-alive connections, in a process that costs little.
Never measures anything but what a client sees, and never retries.
Called by the gateway's benchmark as `python -m tests.bench.load`; prints one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

_HEAD_END = b"\r\n\r\n"
_LENGTH = b"content-length: "


class _Connection(asyncio.Protocol):
    """Sends the next request as soon as the answer to the last one is complete."""

    def __init__(self, request: bytes, run: _Run) -> None:
        self._request = request
        self._run = run
        self._received = b""
        self._sent_ns = 0

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._send()

    def data_received(self, data: bytes) -> None:
        received = self._received = self._received + data if self._received else data
        head_end = received.find(_HEAD_END)
        if head_end < 0:
            return
        at = received.find(_LENGTH) + len(_LENGTH)
        length = int(received[at : received.index(b"\r\n", at)])
        if len(received) < head_end + len(_HEAD_END) + length:
            return
        self._received = b""
        self._run.answered(time.perf_counter_ns(), self._sent_ns, received)
        if self._run.over:
            self._transport.close()
        else:
            self._send()

    def connection_lost(self, error: Exception | None) -> None:
        self._run.closed(error)

    def _send(self) -> None:
        self._sent_ns = time.perf_counter_ns()
        self._transport.write(self._request)


class _Run:
    """One measurement: answers that were sent for after the warm-up and came before the end."""

    def __init__(self, connections: int, warmup_s: float, seconds: float) -> None:
        now_ns = time.perf_counter_ns()
        self._begins_ns = now_ns + int(warmup_s * 1e9)
        self._ends_ns = self._begins_ns + int(seconds * 1e9)
        self._open = connections
        self.over = False
        self.answers = 0
        self.latencies_ns: list[int] = []
        self.failures: dict[str, int] = {}
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def answered(self, now_ns: int, sent_ns: int, answer: bytes) -> None:
        self.answers += 1
        if not answer.startswith(b"HTTP/1.1 200"):
            text = answer.partition(_HEAD_END)[2][:200].decode(errors="replace")
            self.failures[text] = self.failures.get(text, 0) + 1
        elif now_ns > self._ends_ns:
            self.over = True
        elif sent_ns >= self._begins_ns:
            self.latencies_ns.append(now_ns - sent_ns)

    def closed(self, error: Exception | None) -> None:
        if not self.over:
            text = f"connection closed: {error}"
            self.failures[text] = self.failures.get(text, 0) + 1
        self._open -= 1
        if self._open == 0 and not self.done.done():
            self.done.set_result(None)


async def _measure(options: argparse.Namespace, body: bytes) -> dict[str, Any]:
    head = (
        f"POST {options.path} HTTP/1.1\r\nHost: {options.host}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    request = head.encode() + body
    loop = asyncio.get_running_loop()
    run = _Run(options.connections, options.warmup, options.seconds)
    for _ in range(options.connections):
        await loop.create_connection(lambda: _Connection(request, run), options.host, options.port)
    await run.done
    return {
        "answers": run.answers,
        "failures": run.failures,
        "rps": len(run.latencies_ns) / options.seconds,
        "latencies_us": sorted(latency // 1000 for latency in run.latencies_ns),
        "cpu_s": time.process_time(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.load")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--path", required=True)
    parser.add_argument("--body", required=True, help="file with the request's body")
    parser.add_argument("--connections", type=int, required=True)
    parser.add_argument("--warmup", type=float, default=1.0, help="seconds")
    parser.add_argument("--seconds", type=float, required=True)
    options = parser.parse_args()
    measuring = _measure(options, Path(options.body).read_bytes())
    try:
        import uvloop
    except ImportError:
        result = asyncio.run(measuring)
    else:
        result = uvloop.run(measuring)
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
