"""Owns a local Postgres server: first start, readiness, recovery, restart after a crash, shutdown.

Never touches a Postgres given by URL and never stores audit facts.
Called by the composition root and the test suites.
"""

import asyncio
import contextlib
import os
import re
import signal
import tempfile
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

import psycopg
from psycopg import sql

from engine.local import cluster as files
from engine.local.binaries import PostgresError, find_binaries
from engine.local.cluster import Cluster, PostgresConfig
from engine.local.process import ChildLog, ChildProcess, is_running, wait_ended

__all__ = [
    "EmbeddedPostgres",
    "PostgresConfig",
    "PostgresError",
    "RestartPolicy",
    "StartPatience",
    "find_binaries",
    "url_of_running",
]

ROLE = DATABASE = "conch"
_SUPERUSER = "postgres"
_POLL_S = 0.05
_FAST_SHUTDOWN_S = 60.0
_IMMEDIATE_SHUTDOWN_S = 10.0
_SHUTDOWN = ((signal.SIGINT, _FAST_SHUTDOWN_S), (signal.SIGQUIT, _IMMEDIATE_SHUTDOWN_S))


@dataclass(frozen=True)
class RestartPolicy:
    """Restart a crashed server at most `max_restarts` times within `window_s` seconds, then give up."""

    max_restarts: int = 5
    window_s: float = 60.0


class StartPatience:
    """Decides from the server's log whether a start still makes progress; knows no clock.

    Each message of the server's own (level LOG) counts: Postgres reports a long redo, a data folder being
    synced and unlogged relations being reset every log_startup_progress_interval (Postgres 15 and newer).
    Refused connections (level FATAL) do not count.
    """

    def __init__(self, timeout_s: float, now_s: float) -> None:
        self._timeout_s = timeout_s
        self._progress_at_s = now_s

    def observe(self, lines: Sequence[str], now_s: float) -> list[str]:
        """Take new log lines; return the messages that prove progress."""
        messages = [found[1] for line in lines if (found := re.search(r"\bLOG:\s+(.*)", line))]
        if messages:
            self._progress_at_s = now_s
        return messages

    def is_exhausted(self, now_s: float) -> bool:
        """Whether there was no progress for the whole timeout."""
        return now_s - self._progress_at_s >= self._timeout_s


class EmbeddedPostgres:
    """A Postgres server that lives and dies with this process.

    It is a direct child: its exit is seen at once and leaves no zombie. When this process is killed, the
    kernel asks the server for a fast shutdown (Linux); the next start stops a survivor the same way and never
    runs a second server beside it. `on_progress` gets lines for a person, `on_restart` the reason of a restart;
    both are called on the event loop. `failure` says why the server is finally down, None before and after a
    wanted stop.
    """

    def __init__(
        self,
        config: PostgresConfig,
        *,
        on_progress: Callable[[str], None] = lambda _: None,
        restart: RestartPolicy | None = None,
        on_restart: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._config = config
        self._say = on_progress
        self._restart = restart or RestartPolicy(max_restarts=0)
        self._on_restart = on_restart
        self._cluster: Cluster | None = None
        self._lock: int | None = None
        self._password = ""
        self._child: ChildProcess | None = None
        self._watch: asyncio.Task[None] | None = None
        self._exited: asyncio.Future[int] | None = None
        self.failure: str | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def url(self) -> str:
        """The connection URL of the gateway's database, over the Unix socket; it contains the password."""
        return self._url(ROLE, DATABASE)

    @property
    def pid(self) -> int:
        """The process id of the postmaster; a restart changes it."""
        return self._running_child().pid

    @property
    def home(self) -> Path:
        """The folder that really holds data, password and log (see PostgresConfig.data_dir)."""
        return self._located().home

    async def start(self) -> None:
        """Start the server and return when it answers `SELECT 1`; initialise an empty folder first.

        Raises PostgresError with the remedy; then nothing is left running and the folder is free again.
        """
        if self._lock is not None:
            raise PostgresError("this Postgres is already started")
        said: list[str] = []
        self._cluster = await asyncio.to_thread(files.locate_cluster, self._config, said.append)
        for line in said:
            self._say(line)
        self._lock = files.lock_home(self._cluster.home)
        self.failure = None
        try:
            files.check_data(self._cluster)
            await self._end_leftovers()
            self._password = files.read_or_make_password(self._cluster)
            if not (self._cluster.data / "PG_VERSION").exists():
                await self._initialise()
            await self._launch()
            await self._ensure_database()
        except (OSError, psycopg.Error) as error:
            await self.stop()
            raise PostgresError(f"cannot start Postgres in {self._cluster.home}: {error}") from error
        except BaseException:
            await self.stop()
            raise
        self._exited = asyncio.get_running_loop().create_future()
        self._watch = asyncio.create_task(self._watch_child(self._exited))
        self._watch.add_done_callback(self._settle_on_error)

    async def stop(self) -> None:
        """Fast shutdown (SIGINT), then immediate (SIGQUIT), then SIGKILL; free the folder. Idempotent."""
        if self._watch:
            self._watch.cancel()
            await asyncio.wait([self._watch])
            self._watch = None
        if self._child:
            code = await self._child.end(*_SHUTDOWN)
            self._child = None
            if self._exited and not self._exited.done():
                self._exited.set_result(code)
        if self._lock is not None:
            files.remove_socket_folder(self._located())
            os.close(self._lock)
            self._lock = None

    async def wait_exited(self) -> int:
        """Wait until the server is finally down: stopped, or crashed beyond the restart policy (`failure`).

        Returns its exit status, minus the signal number for a signal's victim.
        """
        if self._exited is None:
            raise PostgresError("this Postgres was never started")
        return await asyncio.shield(self._exited)

    async def _initialise(self) -> None:
        """Run initdb in a folder of its own, then move that into place: data exists whole or not at all."""
        cluster = self._located()
        self._say(f"initialising a Postgres {cluster.major} data folder in {cluster.data}")
        draft = cluster.home / "data.new"
        files.make_owned_folder(draft, cluster.account)
        descriptor, name = tempfile.mkstemp(dir=cluster.home)
        try:
            with os.fdopen(descriptor, "w") as file:
                file.write(self._password)
                if cluster.account:
                    os.fchown(file.fileno(), cluster.account.uid, cluster.account.gid)
            # The builtin provider sorts and folds the same way on every system, but exists only since 17.
            builtin = ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"] if cluster.major >= 17 else []
            child = await self._spawn(
                *("initdb", "-D", str(draft), "-U", _SUPERUSER, f"--pwfile={name}", "--data-checksums"),
                *("--auth-local=scram-sha-256", "--auth-host=scram-sha-256"),
                *("-E", "UTF8", "--locale=C", *builtin),
            )
            try:
                code = await child.wait()
            finally:
                await child.end()
        finally:
            os.unlink(name)
        if code != 0:
            raise PostgresError(f"initdb failed with status {code}:\n{child.log.tail()}")
        if cluster.data.exists():
            cluster.data.rmdir()
        draft.rename(cluster.data)

    async def _launch(self) -> None:
        cluster = self._located()
        files.make_owned_folder(cluster.socket_folder, cluster.account)
        self._child = await self._spawn("postgres", *files.server_arguments(self._config, cluster))
        try:
            await self._wait_ready(self._child)
        except BaseException:
            await self._child.end(*_SHUTDOWN)
            raise

    async def _spawn(self, program: str, *arguments: str) -> ChildProcess:
        cluster = self._located()
        kept = {key: os.environ[key] for key in ("PATH", "LD_LIBRARY_PATH") if key in os.environ}
        return await ChildProcess.start(
            [str(cluster.binaries / program), *arguments],
            log=ChildLog(cluster.log_file),
            env={**kept, "LC_ALL": "C", "TZ": "UTC"},
            cwd=cluster.home,
            account=cluster.account,
            death_signal=signal.SIGINT,
        )

    async def _wait_ready(self, child: ChildProcess) -> None:
        data = self._located().data
        now_s = asyncio.get_running_loop().time
        patience = StartPatience(self._config.start_timeout_s, now_s())
        while True:
            for message in patience.observe(child.log.new_lines(), now_s()):
                self._say(f"Postgres: {message}")
            if child.returncode is not None:
                raise PostgresError(self._start_failure(child))
            if files.is_accepting(data, child.pid) and await self._answers():
                return
            if patience.is_exhausted(now_s()):
                raise PostgresError(
                    f"Postgres made no progress for {self._config.start_timeout_s:g} s. End of its log:\n"
                    + child.log.tail()
                )
            await asyncio.sleep(_POLL_S)

    def _start_failure(self, child: ChildProcess) -> str:
        tail = child.log.tail()
        if self._config.port is not None and "could not bind IPv4 address" in tail:
            return f"port {self._config.port} on 127.0.0.1 is taken: choose another, or none (socket only)"
        return f"Postgres {_exit_text(child.returncode)} while starting. End of its log:\n{tail}"

    async def _answers(self) -> bool:
        try:
            async with await self._connect_as_superuser() as connection:
                await connection.execute("SELECT 1")
        except psycopg.OperationalError as error:
            if "password authentication failed" in str(error):
                raise PostgresError(
                    f"{self._located().password_file} does not hold the password of this data: restore it"
                ) from error
            return False
        return True

    async def _ensure_database(self) -> None:
        """Make the gateway's role and database unless they exist. The role is no superuser."""
        async with await self._connect_as_superuser() as connection:
            found = await connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [ROLE])
            if not await found.fetchone():
                verifier = connection.pgconn.encrypt_password(self._password.encode(), ROLE.encode(), b"scram-sha-256")
                await connection.execute(
                    sql.SQL("CREATE ROLE {} LOGIN CREATEDB CREATEROLE PASSWORD {} IN ROLE pg_monitor").format(
                        sql.Identifier(ROLE), sql.Literal(verifier.decode())
                    )
                )
            found = await connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE])
            if not await found.fetchone():
                await connection.execute(
                    sql.SQL("CREATE DATABASE {} OWNER {}").format(sql.Identifier(DATABASE), sql.Identifier(ROLE))
                )

    async def _connect_as_superuser(self) -> psycopg.AsyncConnection[tuple[object, ...]]:
        url = self._url(_SUPERUSER, "postgres")
        return await psycopg.AsyncConnection.connect(url, autocommit=True, connect_timeout=10)

    async def _end_leftovers(self) -> None:
        """Stop a server that outlived its owner, then clear what a dead one left behind."""
        cluster = self._located()
        for number, grace_s in (*_SHUTDOWN, (signal.SIGKILL, _IMMEDIATE_SHUTDOWN_S)):
            survivors = await asyncio.to_thread(files.server_processes, cluster.data)
            if not survivors:
                break
            owner = files.postmaster_pid(cluster.data)
            self._say(f"stopping what an earlier Postgres left running ({len(survivors)} processes)")
            # Backends without a postmaster end by themselves; SIGKILL is for all that are left.
            for pid in survivors if number == signal.SIGKILL or owner not in survivors else [owner]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            await wait_ended(survivors, grace_s)
        else:
            raise PostgresError(f"an earlier Postgres in {cluster.data} cannot be stopped (pids {survivors})")
        files.remove_leftovers(cluster)

    def _settle_on_error(self, watch: asyncio.Task[None]) -> None:
        """Nobody may wait for ever because the watch itself has a bug."""
        if not watch.cancelled() and (error := watch.exception()) and self._exited and not self._exited.done():
            self._exited.set_exception(error)

    async def _watch_child(self, exited: asyncio.Future[int]) -> None:
        """Restart a crashed server as the policy allows; else settle `wait_exited` and say why."""
        now_s = asyncio.get_running_loop().time
        crashes: deque[float] = deque(maxlen=self._restart.max_restarts + 1)
        launch_error = ""
        while True:
            code = await self._running_child().wait()
            crashes.append(now_s())
            reason = launch_error or f"Postgres {_exit_text(code)}"
            if len(crashes) > self._restart.max_restarts and crashes[-1] - crashes[0] <= self._restart.window_s:
                self.failure = f"{reason} ({len(crashes)} crashes in {self._restart.window_s:g} s)"
                self._say(f"giving up: {self.failure}")
                exited.set_result(code)
                return
            self._say(f"{reason}; restarting")
            await asyncio.sleep(min(0.1 * 2 ** (len(crashes) - 1), 5.0))
            try:
                await self._end_leftovers()
                await self._launch()
                launch_error = ""
            except (PostgresError, OSError, psycopg.Error) as error:
                # The child has ended: the next turn counts it as one more crash.
                launch_error = str(error)
            else:
                self._on_restart(reason)

    def _url(self, role: str, database: str) -> str:
        return _socket_url(self._located(), self._config.port, self._password, role, database)

    def _located(self) -> Cluster:
        if self._cluster is None:
            raise PostgresError("this Postgres was never started")
        return self._cluster

    def _running_child(self) -> ChildProcess:
        if self._child is None:
            raise PostgresError("this Postgres is not running")
        return self._child


def url_of_running(config: PostgresConfig) -> str | None:
    """The URL of the server that another process of this account runs in `config.data_dir`; None when none accepts
    connections there. Starts and changes nothing. Raises PostgresError for an unusable folder."""
    cluster = files.locate_cluster(config, lambda _: None)
    pid = files.postmaster_pid(cluster.data)
    if pid is None or not is_running(pid) or not files.is_accepting(cluster.data, pid):
        return None
    return _socket_url(cluster, config.port, files.read_or_make_password(cluster), ROLE, DATABASE)


def _socket_url(cluster: Cluster, port: int | None, password: str, role: str, database: str) -> str:
    folder = quote(str(cluster.socket_folder), safe="/")
    query = f"host={folder}" if port is None else f"host={folder}&port={port}"
    return f"postgresql://{role}:{quote(password, safe='')}@/{database}?{query}"


def _exit_text(code: int | None) -> str:
    if code is not None and code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"exited with status {code}"
