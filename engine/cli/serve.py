"""Owns `conch serve`: the gateway as a process, its signals, and what it says on the terminal.
Never opens a part by itself (the composition does) and never handles a request (the routes do).
Called by operators, by the demo and by the tests that need a real gateway process.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import orjson
import uvicorn

from engine.api.app import build_app
from engine.cli import config_option
from engine.cli.compose import Opened, bind, open_gateway
from engine.errors import LeaseLost
from engine.settings import Settings, load_settings

EPILOG = """\b
Examples:
  conch serve                                   127.0.0.1:8080, embedded Postgres, ./conch.toml
  conch serve --config prod.toml --port 9000
  CONCH_POSTGRES__URL=postgresql://... conch serve
  CONCH_LIMITS__QUEUE_ENTRIES=64 conch serve    any setting: CONCH_<SECTION>__<KEY>

Signals: SIGTERM or SIGINT refuses new requests, lets running ones finish (server.drain_ms), then ends; a second one
aborts at once, and what was running is closed as `aborted` by the next gateway on the same database.
"""


@click.command("serve", epilog=EPILOG)
@config_option
@click.option("--host", help="Address to listen on. Default: server.host, 127.0.0.1.")
@click.option("--port", type=int, help="Port to listen on; 0 takes a free one. Default: server.port, 8080.")
def command(config: Path | None, host: str | None, port: int | None) -> None:
    """Run the gateway until it is told to stop."""
    environ = dict(os.environ)
    if host is not None:
        environ["CONCH_SERVER__HOST"] = host
    if port is not None:
        environ["CONCH_SERVER__PORT"] = str(port)
    settings = load_settings(config, environ)
    _log_to_stderr()
    try:
        listener = bind(settings)
    except OSError as error:
        raise click.ClickException(f"{error.strerror}. Choose another with --port, or 0 for a free one.") from None
    status = 1
    with listener:
        try:
            status = uvloop_run(_serve(settings, listener))
        except* LeaseLost as lost:
            say(f"stopped: {lost.exceptions[0]}")
    sys.exit(status)


def uvloop_run(main: Coroutine[Any, Any, int]) -> int:
    """Run on uvloop where there is one."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    return uvloop.run(main)


class _Server(uvicorn.Server):
    """Uvicorn without its own signal handling: stopping has to drain first. Says where it listens once it does."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or ():
            host, port = listener.getsockname()[:2]
            shown = f"[{host}]" if ":" in host else host
            say(f"listening on http://{shown}:{port}  (documentation: /docs)")

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _serve(settings: Settings, listener: socket.socket) -> int:
    """Serve until a signal, or until HTTP ends by itself, which is a failure. Returns the exit status."""
    stop = _Stop()
    async with open_gateway(settings, say) as opened:
        config = uvicorn.Config(
            build_app(opened.gateway, opened.services),
            http="httptools",
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=5,
        )
        server = _Server(config)
        _spare_the_collector()
        async with asyncio.TaskGroup() as group:
            serving = group.create_task(server.serve(sockets=[listener]), name="http")
            asked = group.create_task(stop.asked.wait(), name="signal")
            await asyncio.wait((serving, asked), return_when=asyncio.FIRST_COMPLETED)
            asked.cancel()
            if stop.asked.is_set():
                await _drain(settings, opened, stop)
            server.should_exit = True
            server.force_exit = stop.again.is_set()
    say("stopped")
    return 0 if stop.asked.is_set() and not stop.again.is_set() else 1


def _spare_the_collector() -> None:
    """Keep the garbage collector from what lives as long as the process, and from running every few requests.

    Collections took 6 to 8 % of a request's CPU time before; what a request leaves behind holds no cycles.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


async def _drain(settings: Settings, opened: Opened, stop: _Stop) -> None:
    """Let running requests finish; a second signal ends the waiting."""
    say(
        f"stopping: {opened.runtime.requests} request(s) running, up to {settings.server.drain_ms / 1000:g} s to finish"
    )
    opened.gateway.draining = True
    opened.services.work.close()
    draining = asyncio.create_task(opened.runtime.drain(settings.server.drain_ms / 1000))
    aborting = asyncio.create_task(stop.again.wait())
    await asyncio.wait((draining, aborting), return_when=asyncio.FIRST_COMPLETED)
    if stop.again.is_set():
        say("aborting")
        opened.runtime.abort()
    aborting.cancel()
    await draining


class _Stop:
    """SIGTERM and SIGINT: asked once, asked again."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.again = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signal)

    def _signal(self) -> None:
        if self.asked.is_set():
            self.again.set()
        self.asked.set()


def say(line: str) -> None:
    """One line for the operator, on standard error."""
    click.echo(f"conch: {line}", err=True)


_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class _JsonLines(logging.Formatter):
    """One JSON object per line: time, level, logger, event, and the fields that the call gave."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {
            "at": self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{int(record.msecs):03d}",
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        entry.update({name: value for name, value in vars(record).items() if name not in _FIELDS})
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(entry, default=str).decode()


def _log_to_stderr() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("alembic").setLevel(logging.WARNING)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
