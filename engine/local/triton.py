"""Owns local Triton servers: the real `tritonserver` on the CPU, from the `nvidia-pytriton` wheel.
Never sends an inference request and never restarts a server on its own.
Called by the composition root for the demo and by the test suites.
"""

import asyncio
import contextlib
import fcntl
import hashlib
import os
import random
import re
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from engine.local.process import ChildLog, ChildProcess
from engine.local.tritonserver import LocalTritonError, TritonBinaries, backend_directory, find_tritonserver

__all__ = [
    "SHIPPED_MODELS",
    "SHIPPED_REPOSITORY",
    "LocalTriton",
    "LocalTritonError",
    "TritonBinaries",
    "TritonConfig",
    "find_tritonserver",
]

SHIPPED_REPOSITORY = Path(__file__).parent / "models"
SHIPPED_MODELS = ("embed", "chat", "chat-small", "faulty", "faulty-stream")

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,30}")
_SHARED_MEMORY = Path("/dev/shm")
_HOST = "127.0.0.1"
_EPHEMERAL_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")
_POLL_S = 0.05
_TAIL_LINES = 30
_PROBE_TIMEOUT_S = 2.0
_GROUP_END_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class TritonConfig:
    """One local server. A port of 0 is a free one, chosen at the first start and kept from then on."""

    name: str
    work_dir: Path
    model_repository: Path = SHIPPED_REPOSITORY
    models: tuple[str, ...] = SHIPPED_MODELS
    http_port: int = 0
    grpc_port: int = 0
    metrics_port: int = 0
    start_timeout_s: float = 60.0
    drain_timeout_s: int = 5
    """How long a stopping server waits for requests in flight."""
    log: Path | None = None
    """By default `<work_dir>/<name>.log`."""
    installation: Path | None = None
    """By default the `nvidia-pytriton` wheel."""


class LocalTriton:
    """One `tritonserver` process with its stubs, listening on the loopback interface alone.

    One event loop starts and stops it, in a thread that lives as long as the server should. A second owner of
    the same `work_dir` and `name` is refused; what a killed owner left behind is removed at the next start.
    """

    def __init__(self, config: TritonConfig) -> None:
        self.config = config
        self.log_path = config.log or config.work_dir / f"{config.name}.log"
        self._ports = (config.http_port, config.grpc_port, config.metrics_port)
        identity = hashlib.sha256(f"{config.work_dir.resolve()}\n{config.name}".encode()).hexdigest()
        self.shm_prefix = f"conch_{identity[:12]}_"
        self._child: ChildProcess | None = None
        self._lock: int | None = None

    @property
    def http_url(self) -> str:
        return f"http://{_HOST}:{self._ports[0]}"

    @property
    def grpc_url(self) -> str:
        """`host:port`, as gRPC channels want it."""
        return f"{_HOST}:{self._ports[1]}"

    @property
    def metrics_url(self) -> str:
        return f"http://{_HOST}:{self._ports[2]}/metrics"

    @property
    def pid(self) -> int | None:
        """The server's process (and process group) id; None before start and after stop or kill."""
        return None if self._child is None else self._child.pid

    @property
    def running(self) -> bool:
        """Whether the server process lives; a dead stub does not change it."""
        return self._child is not None and self._child.returncode is None

    def process_ids(self) -> list[int]:
        """The live processes of the server's group: the server and one stub for each model instance."""
        return [] if self._child is None else sorted(_group_members(self._child.pid))

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start the server and wait until it and every model are ready.

        Raises LocalTritonError: with all problems of the configuration before anything is started, or with
        the log's tail when the server ends or stays unready for `start_timeout_s`; nothing is left running.
        """
        if self.running:
            raise LocalTritonError(self.config.name, [f"it runs already, as process {self.pid}"])
        await self._clear()
        binaries = find_tritonserver(self.config.installation)
        self._refuse_bad_config()
        self.config.work_dir.mkdir(parents=True, exist_ok=True)
        self._lock = self._take_lock()
        try:
            await self._end_orphans()
            self._ports = _settle_ports(self.config.name, self._ports)
            self._child = await ChildProcess.start(
                self._argv(binaries),
                log=ChildLog(self.log_path),
                env=self._environment(binaries),
                cwd=self.config.work_dir,
            )
            await self._until_ready(self._child)
        except BaseException:
            await self.kill()
            raise

    async def stop(self) -> None:
        """SIGTERM: requests in flight get `drain_timeout_s`; SIGKILL a few seconds later. Idempotent."""
        if self._child is not None:
            await self._child.end((signal.SIGTERM, self.config.drain_timeout_s + 5.0))
        await self._clear()

    async def kill(self) -> None:
        """SIGKILL the server and its stubs, as a crash of the machine would. Idempotent."""
        if self._child is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child.pid, signal.SIGKILL)
            # A child that was just forked has no group of its own yet.
            self._child.send_signal(signal.SIGKILL)
            await self._child.wait()
        await self._clear()

    def _refuse_bad_config(self) -> None:
        config, problems = self.config, []
        if not _NAME.fullmatch(config.name):
            problems.append("a name is 1 to 31 lower-case letters, digits and hyphens, as in 'triton-a'")
        known = sorted(path.parent.name for path in config.model_repository.glob("*/config.pbtxt"))
        if not known:
            problems.append(f"{config.model_repository} holds no model (<model>/config.pbtxt)")
        problems += [
            f"model '{model}' is not in {config.model_repository}; it holds {', '.join(known)}"
            for model in config.models
            if known and model not in known
        ]
        if not config.models:
            problems.append("no model to load is named")
        if problems:
            raise LocalTritonError(config.name, problems)

    def _take_lock(self) -> int:
        path = self.config.work_dir / f"{self.config.name}.lock"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            problem = f"another owner runs it from {self.config.work_dir}; stop that one or use another folder"
            raise LocalTritonError(self.config.name, [problem]) from None
        return descriptor

    async def _end_orphans(self) -> None:
        # Only the owner of the lock comes here, so a process that carries the prefix has lost its owner.
        orphans = _processes_naming(self.shm_prefix)
        for pid in orphans:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await self._until_gone(lambda: _processes_naming(self.shm_prefix))
        self._remove_shared_memory()

    async def _clear(self) -> None:
        if self._child is not None:
            group = self._child.pid
            await self._until_gone(lambda: _group_members(group))
            self._child = None
        if self._lock is not None:
            self._remove_shared_memory()
            os.close(self._lock)
            self._lock = None

    async def _until_gone(self, remaining: Callable[[], set[int]]) -> None:
        # A killed process keeps its memory and ports until the kernel has taken it apart.
        deadline = time.monotonic() + _GROUP_END_TIMEOUT_S
        while pids := remaining():
            if time.monotonic() > deadline:
                raise LocalTritonError(self.config.name, [f"processes {sorted(pids)} do not end on SIGKILL"])
            await asyncio.sleep(0.005)

    def _remove_shared_memory(self) -> None:
        for region in _SHARED_MEMORY.glob(f"{self.shm_prefix}*"):
            region.unlink(missing_ok=True)

    def _argv(self, binaries: TritonBinaries) -> list[str]:
        http_port, grpc_port, metrics_port = self._ports
        python = {
            "shm-region-prefix-name": self.shm_prefix,
            "shm-default-byte-size": 1 << 20,
            "shm-growth-byte-size": 1 << 20,
            "thread-pool-size": 4,
        }
        return [
            str(binaries.server),
            f"--id={self.config.name}",
            f"--model-repository={self.config.model_repository.resolve()}",
            "--model-control-mode=explicit",
            *(f"--load-model={model}" for model in self.config.models),
            f"--backend-directory={backend_directory(binaries, self.config.work_dir / 'backends')}",
            *(f"--backend-config=python,{key}={value}" for key, value in python.items()),
            *(f"--{protocol}-address={_HOST}" for protocol in ("http", "grpc", "metrics")),
            f"--http-port={http_port}",
            f"--grpc-port={grpc_port}",
            f"--metrics-port={metrics_port}",
            "--http-thread-count=2",
            "--disable-auto-complete-config",
            f"--model-load-thread-count={len(self.config.models)}",
            "--pinned-memory-pool-byte-size=0",
            "--allow-gpu-metrics=false",
            f"--exit-timeout-secs={self.config.drain_timeout_s}",
        ]

    def _environment(self, binaries: TritonBinaries) -> dict[str, str]:
        # Nothing else is inherited: a model has no business with the gateway's secrets. The stub finds its
        # Python, and with it numpy, as the first `python3` on PATH; one thread each is enough for numpy.
        return {
            "PATH": f"{Path(sys.executable).parent}:{os.defpath}",
            "LD_LIBRARY_PATH": binaries.library_path,
            "HOME": str(self.config.work_dir.resolve()),
            "LC_ALL": "C.UTF-8",
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }

    async def _until_ready(self, child: ChildProcess) -> None:
        ended = asyncio.create_task(child.wait())
        pending = ["health", *(f"models/{model}" for model in self.config.models)]
        deadline = time.monotonic() + self.config.start_timeout_s
        try:
            while pending:
                if ended.done():
                    problem = f"the server ended with status {ended.result()} before it was ready"
                    raise LocalTritonError(self.config.name, [problem], child.log.tail(_TAIL_LINES))
                if time.monotonic() > deadline:
                    problem = f"not ready within {self.config.start_timeout_s:g} s: {', '.join(pending)}"
                    raise LocalTritonError(self.config.name, [problem], child.log.tail(_TAIL_LINES))
                if await _http_status(self._ports[0], f"/v2/{pending[0]}/ready") == 200:
                    del pending[0]
                else:
                    await asyncio.wait({ended}, timeout=_POLL_S)
        finally:
            ended.cancel()


async def _http_status(port: int, path: str) -> int:
    """The status of a GET on the loopback interface; 0 if nobody answers."""
    try:
        async with asyncio.timeout(_PROBE_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(_HOST, port)
            try:
                writer.write(f"GET {path} HTTP/1.1\r\nHost: {_HOST}\r\nConnection: close\r\n\r\n".encode())
                status_line = await reader.readline()
            finally:
                writer.close()
    except OSError:  # TimeoutError is one
        return 0
    words = status_line.split()
    return int(words[1]) if len(words) > 1 and words[1].isdigit() else 0


def _settle_ports(server: str, wanted: tuple[int, int, int]) -> tuple[int, int, int]:
    """The ports to listen on, zeros replaced; raises LocalTritonError that names every taken one."""
    problems = [
        f"its {use} port {port} is taken on {_HOST}: stop what listens there, or choose another port"
        for use, port in zip(("HTTP", "gRPC", "metrics"), wanted, strict=True)
        if port and not _is_free(port)
    ]
    if problems:
        raise LocalTritonError(server, problems)
    chosen: list[int] = []
    for port in wanted:
        chosen.append(port or _free_port({*wanted, *chosen}))
    return chosen[0], chosen[1], chosen[2]


def _free_port(taken: set[int]) -> int:
    # Below the range from which the kernel gives ports to outgoing connections: a client that reconnects to
    # a killed server on a port of that range may be given the very same port, and then talks to itself.
    lowest_ephemeral = int(_EPHEMERAL_PORTS.read_text().split()[0]) if _EPHEMERAL_PORTS.exists() else 32768
    for _ in range(1000):
        port = random.randrange(10240, max(lowest_ephemeral, 10241 + 1000))
        if port not in taken and _is_free(port):
            return port
    raise LocalTritonError("tritonserver", ["no free port was found; stop other servers or set the ports"])


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As the server itself binds: a port of a killed server is free although its connections linger.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except OSError:
            return False
    return True


def _group_members(group: int) -> set[int]:
    """The live processes of a process group; zombies have ended."""
    members = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, process_group = stat.read_text(errors="replace").rpartition(")")[2].split()[:3]
            if int(process_group) == group and state not in {"Z", "X"}:
                members.add(int(stat.parent.name))
    return members


def _processes_naming(text: str) -> set[int]:
    """The live processes whose command line contains `text`."""
    found = set()
    for command_line in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if text.encode() in command_line.read_bytes():
                found.add(int(command_line.parent.name))
    return found
