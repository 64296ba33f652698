"""Owns gateways that tests talk to: `conch serve` as a process of its own, on a real database and real Triton servers.

Never imports the gateway's code into the test. Called by pytest as a plugin: `gateway` (one for the session, for tests
that leave it as it was) and `make_gateway` (one of a test's own).
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import httpx
import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families
from psycopg import sql

from tests.system.audit import Audit
from tests.triton_fixtures import TritonServer

LIMIT_S = 60.0
POLL_S = 0.02
_LISTENING = re.compile(r"listening on (http://\S+)")

MODELS = """
[[prices]]
id = "tokens-2026"
input_token_usd = "0.000001"
output_token_usd = "0.000002"

[[models]]
name = "embed"
price = "tokens-2026"

[[models]]
name = "chat"
fallback = "chat-small"
price = "tokens-2026"

[[models]]
name = "chat-small"

[[models]]
name = "faulty"
probe = false

[[models]]
name = "faulty-stream"
fallback = "chat-small"
probe = false
price = "tokens-2026"
"""
SETTINGS = """
[probes]
interval_ms = 250
timeout_ms = 5000
successes_in = 1
"""


def until(what: str, condition: Callable[[], Any], limit_s: float = LIMIT_S) -> Any:
    """The first true value of `condition`. Fails, naming `what`, when there is none in time."""
    deadline_s = time.monotonic() + limit_s
    while True:
        if value := condition():
            return value
        if time.monotonic() > deadline_s:
            pytest.fail(f"{what}: not within {limit_s:g} s", pytrace=False)
        time.sleep(POLL_S)


def replicas(*servers: TritonServer) -> str:
    """The TOML of one replica per server, under the server's own name."""
    return "".join(f'[[replicas]]\nname = "{each.name}"\ngrpc = "{each.grpc_url}"\n' for each in servers)


def samples(metrics: str, name: str) -> list[tuple[dict[str, str], float]]:
    """Labels and value of every sample called `name` in a Prometheus text."""
    families = text_string_to_metric_families(metrics)
    return [(each.labels, each.value) for family in families for each in family.samples if each.name == name]


class GatewayProcess:
    """`conch serve --port 0`. Its log is kept in a file. Without a `database_url` it has an embedded Postgres of
    its own. `stop`, `kill` and `close` leave nothing running."""

    def __init__(self, folder: Path, toml: str, database_url: str, environ: Mapping[str, str] | None = None) -> None:
        self.config = folder / "conch.toml"
        self.config.write_text(toml, encoding="utf-8")
        self.database_url = database_url
        self.audit = Audit(database_url)
        self.url = ""
        self._folder = folder
        self._environ = environ or {}
        self._process: subprocess.Popen[bytes] | None = None
        self._log_path = folder / "gateway.log"
        # Connections are not kept, because gateways come and go; without TLS there are no certificates to read.
        self._http = httpx.Client(verify=False, timeout=LIMIT_S, limits=httpx.Limits(max_keepalive_connections=0))

    def __enter__(self) -> GatewayProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def environ(self) -> dict[str, str]:
        """What a command beside the gateway needs to use the same database; nothing else of ours from outside."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("CONCH_", _NO_BYTECODE))}
        database = {"CONCH_POSTGRES__URL": self.database_url} if self.database_url else {}
        return {**kept, **database, **self._environ}

    @property
    def log(self) -> str:
        """Everything that this process, and those before it, wrote."""
        return self._log_path.read_text(encoding="utf-8") if self._log_path.exists() else ""

    @property
    def ended(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    @property
    def pid(self) -> int:
        assert self._process is not None, "not started"
        return self._process.pid

    def launch(self, *options: str) -> None:
        """Start the process and do not wait for anything."""
        self.url = ""
        self._log_from = len(self.log)
        argv = [sys.executable, "-m", "engine.cli", "serve", "--config", str(self.config), *(options or _ANY_PORT)]
        with self._log_path.open("ab") as log:
            self._process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environ, start_new_session=True
            )

    def start(self, *models: str) -> GatewayProcess:
        """Start and wait until it, and each of `models`, is ready."""
        self.launch()
        self.wait_listening()
        paths = ("/v2/health/ready", *(f"/v2/models/{model}/ready" for model in models))
        until(f"all of {paths} are 200", lambda: self._alive() and all(self._status(path) == 200 for path in paths))
        return self

    def wait_listening(self) -> None:
        found = until("the gateway listens", lambda: self._alive() and _LISTENING.search(self.log[self._log_from :]))
        self.url = found[1]

    def wait_up(self, *replicas: str) -> None:
        """Wait until every model answers on each of `replicas`."""

        def down() -> list[str]:
            up = samples(self.get("/metrics").text, "conch_replica_up")
            return [str(labels) for labels, value in up if labels["replica"] in replicas and value != 1]

        until(f"every model answers on {', '.join(replicas)}", lambda: self._alive() and not down())

    def _alive(self) -> bool:
        if self._process is not None and self.ended:
            pytest.fail(f"the gateway ended with {self._process.returncode}:\n{self.log[-4000:]}", pytrace=False)
        return True

    def _status(self, path: str) -> int:
        return self.get(path).status_code

    def get(self, path: str) -> httpx.Response:
        return self._http.get(self.url + path)

    def post(self, path: str, body: Any, headers: Mapping[str, str] | None = None) -> httpx.Response:
        """One request on a connection of its own."""
        return self._http.post(self.url + path, json=body, headers=dict(headers or {}))

    def signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def wait(self) -> int:
        """The exit status, once the process has ended."""
        assert self._process is not None
        return self._process.wait(LIMIT_S)

    def stop(self) -> int:
        """SIGTERM, and the exit status."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        """SIGKILL: no last words."""
        if self._process is not None and not self.ended:
            self._process.kill()
            self._process.wait(LIMIT_S)

    def close(self) -> None:
        self.kill()
        self.audit.close()
        self._http.close()

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A command of `conch` beside this gateway, with the same settings."""
        return conch(*arguments, "--config", str(self.config), environ=self.environ)


_ANY_PORT = ("--port", "0")
_NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"  # would have every start compile everything anew


def conch(*arguments: str, environ: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    argv = [sys.executable, "-m", "engine.cli", *arguments]
    return subprocess.run(argv, capture_output=True, text=True, env=environ, timeout=LIMIT_S, check=False)


def _create(postgres_url: str, template: str) -> tuple[str, str]:
    name = f"gateway_{uuid.uuid4().hex}"
    create = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template))
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(create)
    return name, urlunsplit(urlsplit(postgres_url)._replace(path=f"/{name}"))


def _drop(postgres_url: str, name: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture(scope="session")
def session_gateway(
    postgres_url: str,
    audit_template: str,
    triton_pair: tuple[TritonServer, TritonServer],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[GatewayProcess]:
    """A gateway in front of both Triton servers, for tests that leave it as it was."""
    name, url = _create(postgres_url, audit_template)
    toml = SETTINGS + MODELS + replicas(*triton_pair)
    with GatewayProcess(tmp_path_factory.mktemp("gateway"), toml, url) as process:
        yield process.start("embed", "chat", "chat-small", "faulty", "faulty-stream")
    _drop(postgres_url, name)


@pytest.fixture
def gateway(session_gateway: GatewayProcess, triton_pair: tuple[TritonServer, TritonServer]) -> GatewayProcess:
    """The gateway of the session, once every model answers on both servers: an earlier test may have killed one."""
    session_gateway.wait_up(*(each.name for each in triton_pair))
    return session_gateway


@pytest.fixture
def make_gateway(audit_url: str, tmp_path: Path) -> Iterator[Callable[..., GatewayProcess]]:
    """Makes gateways of the test's own, on one fresh database; not started."""
    made: list[GatewayProcess] = []

    def make(toml: str, environ: Mapping[str, str] | None = None, url: str = audit_url) -> GatewayProcess:
        folder = tmp_path / f"gateway-{len(made)}"
        folder.mkdir()
        made.append(GatewayProcess(folder, toml, url, environ))
        return made[-1]

    yield make
    for process in made:
        process.close()
