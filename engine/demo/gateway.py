"""Owns one gateway in a process of its own: start, readiness, the end, and its last words when it dies.
Never knows what the gateway is used for.
Called by the demo's stage and by the benchmarks.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

import aiohttp

from engine.demo.errors import DemoError
from engine.local.process import ChildLog, ChildProcess

HOST = "127.0.0.1"
_READY_TIMEOUT_S = 60.0
_POLL_S = 0.05
_DRAIN_S = 10.0
_TAIL_LINES = 15
_LINE_CHARS = 400


class GatewayProcess:
    """`conch serve` as a child, ready once it and every model named in `models` are."""

    def __init__(
        self, config: Path, port: int, log: Path, models: Sequence[str], launch: Sequence[str] = ("-m", "engine.cli")
    ) -> None:
        self.url = f"http://{HOST}:{port}"
        self.log_path = log
        self._config = config
        self._models = models
        self._launch = launch
        self._child: ChildProcess | None = None

    @property
    def pid(self) -> int:
        if self._child is None:
            raise DemoError("the gateway is not running")
        return self._child.pid

    async def start(self, http: aiohttp.ClientSession) -> None:
        """Start and wait until requests would be answered. Raises DemoError with the log's tail when it ends or stays
        unready; then nothing is left running."""
        argv = [sys.executable, *self._launch, "serve", "--config", str(self._config)]
        # What the user has set for a gateway of their own must not reach this one.
        env = {name: value for name, value in os.environ.items() if not name.startswith("CONCH_")}
        self._child = await ChildProcess.start(argv, log=ChildLog(self.log_path), env=env)
        try:
            async with asyncio.timeout(_READY_TIMEOUT_S):
                for path in ("/v2/health/ready", *(f"/v2/models/{model}/ready" for model in self._models)):
                    await self._until_ok(http, path)
        except TimeoutError:
            words = _words(self._child)
            await self.stop()
            raise DemoError(f"the gateway was not ready within {_READY_TIMEOUT_S:g} s. {words}") from None
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Let it drain, then end it. Idempotent."""
        child, self._child = self._child, None
        if child is not None:
            await child.end((signal.SIGTERM, _DRAIN_S))

    async def ended(self) -> str:
        """Wait until the process is gone; says with which status and the last lines of its log."""
        child = self._child
        if child is None:
            return "the gateway is not running"
        return f"the gateway ended with status {await child.wait()}. {_words(child)}"

    async def _until_ok(self, http: aiohttp.ClientSession, path: str) -> None:
        child = self._child
        while child is not None:
            if child.returncode is not None:
                raise DemoError(await self.ended())
            try:
                async with http.get(self.url + path) as answer:
                    if answer.status == 200:
                        return
                    if answer.status != 503:
                        raise DemoError(f"the gateway answers {answer.status} on {path}. {_words(child)}")
            except aiohttp.ClientError:
                pass  # not listening yet
            await asyncio.sleep(_POLL_S)


def _words(child: ChildProcess) -> str:
    """The end of a gateway's log, long lines cut: tracebacks are lines of JSON there."""
    lines = child.log.tail(_TAIL_LINES).splitlines()
    return "\n".join([f"The end of {child.log.path}:", *(line[:_LINE_CHARS] for line in lines)])


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])
