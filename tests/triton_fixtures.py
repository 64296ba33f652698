"""Owns the real Triton servers that tests share, and their synchronous face.

Never hides a missing installation: in continuous integration it fails, elsewhere the tests are skipped with
the reason. Called by pytest as a plugin (`triton`, `triton_pair`) and by the launcher's own tests.
"""

import asyncio
import os
import threading
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from engine.local.triton import LocalTriton, LocalTritonError, TritonConfig, find_tritonserver

T = TypeVar("T")

LIMIT_S = 90.0


class TritonServer:
    """A LocalTriton that tests drive without an event loop of their own; its loop runs in a thread."""

    def __init__(self, config: TritonConfig) -> None:
        self.local = LocalTriton(config)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=config.name, daemon=True)
        self._thread.start()

    @property
    def grpc_url(self) -> str:
        return self.local.grpc_url

    @property
    def http_url(self) -> str:
        return self.local.http_url

    @property
    def metrics_url(self) -> str:
        return self.local.metrics_url

    @property
    def name(self) -> str:
        return self.local.config.name

    @property
    def complete(self) -> bool:
        """Whether the server and every stub live."""
        return len(self.local.process_ids()) == 1 + len(self.local.config.models)

    def start(self) -> None:
        self._call(self.local.start())

    def stop(self) -> None:
        self._call(self.local.stop())

    def kill(self) -> None:
        self._call(self.local.kill())

    def restart(self) -> None:
        """Kill what is left and start on the same ports."""
        self.kill()
        self.start()

    def close(self) -> None:
        """End the server, without the seconds that a drain takes, and its loop."""
        try:
            self.kill()
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(LIMIT_S)
            self._loop.close()

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(LIMIT_S)


def require_tritonserver() -> None:
    """Skip the test where no Triton is installed; in continuous integration that is a failure."""
    try:
        find_tritonserver()
    except LocalTritonError as error:
        if os.environ.get("CI"):
            pytest.fail(f"the triton tests may not be skipped here: {error}", pytrace=False)
        pytest.skip(f"no local Triton: {error}")


@pytest.fixture(scope="session")
def triton(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TritonServer]:
    """One server with every shipped model; ready again at the start of each test that uses it."""
    servers = _start_all(tmp_path_factory.mktemp("triton"), "triton-single")
    yield servers[0]
    servers[0].close()


@pytest.fixture(scope="session")
def triton_pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TritonServer, TritonServer]]:
    """Two servers with every shipped model; ready again at the start of each test that uses them."""
    servers = _start_all(tmp_path_factory.mktemp("triton-pair"), "triton-a", "triton-b")
    yield servers[0], servers[1]
    for server in servers:
        server.close()


@pytest.fixture(autouse=True)
def _revived_triton(request: pytest.FixtureRequest) -> None:
    # A test may have killed a server or a stub; the next one finds all of them alive, on the same ports.
    servers: list[TritonServer] = []
    if "triton" in request.fixturenames:
        servers.append(request.getfixturevalue("triton"))
    if "triton_pair" in request.fixturenames:
        servers.extend(request.getfixturevalue("triton_pair"))
    for server in servers:
        if not server.complete:
            server.restart()


def _start_all(work_dir: Path, *names: str) -> list[TritonServer]:
    require_tritonserver()
    servers = [TritonServer(TritonConfig(name=name, work_dir=work_dir)) for name in names]
    try:
        for server in servers:
            server.start()
    except BaseException:
        for server in servers:
            server.close()
        raise
    return servers
