"""Owns the tests of the local Triton launcher against the real server.

Never asks what a model answers; see test_models.py. Called by pytest.
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engine.local.triton import (
    SHIPPED_REPOSITORY,
    LocalTriton,
    LocalTritonError,
    TritonConfig,
    find_tritonserver,
)
from engine.local.tritonserver import backend_directory
from tests.triton_fixtures import TritonServer, require_tritonserver

pytestmark = pytest.mark.triton

DEADLINE_S = 30.0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[TritonServer]:
    """A server with one model that is not started yet."""
    require_tritonserver()
    server = TritonServer(TritonConfig(name="alone", work_dir=tmp_path, models=("embed",)))
    yield server
    server.close()


def until(condition: Callable[[], bool]) -> None:
    """Return once the condition holds; fail after a generous deadline."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "the condition never held"
        time.sleep(0.01)


def status(url: str) -> int:
    with urllib.request.urlopen(url, timeout=DEADLINE_S) as answer:
        return int(answer.status)


def answers(server: TritonServer) -> bool:
    """Whether the server runs the model `embed` on a request, not only says that it would."""
    body = b'{"inputs":[{"name":"text","datatype":"BYTES","shape":[1,1],"data":["a"]}]}'
    request = urllib.request.Request(f"{server.http_url}/v2/models/embed/infer", data=body)
    with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
        return b'"embedding"' in answer.read()


def alive(pids: list[int]) -> list[int]:
    """Those of the processes that still run; a zombie does not."""
    running = []
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state not in {"Z", "X"}:
            running.append(pid)
    return running


def regions(server: LocalTriton) -> list[Path]:
    return list(Path("/dev/shm").glob(f"{server.shm_prefix}*"))


def test_a_started_server_runs_its_model(server: TritonServer) -> None:
    server.start()
    assert answers(server)
    assert status(f"{server.http_url}/v2/models/embed/ready") == 200
    assert status(server.metrics_url) == 200
    assert server.complete


def test_stop_leaves_no_process_and_no_shared_memory(server: TritonServer) -> None:
    server.start()
    pids = server.local.process_ids()
    assert len(pids) == 2
    assert regions(server.local)
    server.stop()
    assert alive(pids) == []
    assert regions(server.local) == []
    assert server.local.pid is None
    server.stop()


def test_a_killed_server_comes_back_on_the_same_ports(server: TritonServer) -> None:
    server.start()
    urls = server.grpc_url, server.http_url, server.metrics_url
    pids = server.local.process_ids()
    server.kill()
    assert alive(pids) == []
    assert regions(server.local) == []
    server.start()
    assert (server.grpc_url, server.http_url, server.metrics_url) == urls
    assert answers(server)


def test_a_server_that_crashed_by_itself_can_be_started_again(server: TritonServer) -> None:
    server.start()
    pids = server.local.process_ids()
    os.kill(pids[0], signal.SIGKILL)
    until(lambda: not server.local.running)
    server.start()
    assert alive(pids) == []
    assert answers(server)
    assert len(regions(server.local)) == 1


def test_a_running_server_refuses_a_second_start(server: TritonServer) -> None:
    server.start()
    with pytest.raises(LocalTritonError, match="it runs already, as process"):
        server.start()
    assert answers(server)


def test_a_second_owner_of_the_same_folder_and_name_is_refused(server: TritonServer) -> None:
    server.start()
    rival = TritonServer(server.local.config)
    try:
        with pytest.raises(LocalTritonError, match="another owner runs it"):
            rival.start()
    finally:
        rival.close()
    assert answers(server)


def test_taken_ports_are_all_named_and_nothing_is_started(tmp_path: Path) -> None:
    require_tritonserver()
    with socket.create_server(("127.0.0.1", 0)) as first, socket.create_server(("127.0.0.1", 0)) as second:
        http_port, grpc_port = first.getsockname()[1], second.getsockname()[1]
        config = TritonConfig("taken", tmp_path, models=("embed",), http_port=http_port, grpc_port=grpc_port)
        with pytest.raises(LocalTritonError) as caught:
            asyncio.run(LocalTriton(config).start())
    for port, problem in zip((http_port, grpc_port), caught.value.problems, strict=True):
        assert str(port) in problem
    assert not config.work_dir.joinpath("taken.log").exists()


def test_unknown_models_are_all_named_with_the_known_ones(tmp_path: Path) -> None:
    require_tritonserver()
    config = TritonConfig("Bad Name", tmp_path, models=("nope", "embed", "nada"))
    with pytest.raises(LocalTritonError) as caught:
        asyncio.run(LocalTriton(config).start())
    text = str(caught.value)
    assert len(caught.value.problems) == 3
    assert "'nope'" in text
    assert "'nada'" in text
    assert "chat, chat-small, embed, faulty, faulty-stream" in text
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_cannot_load_fails_the_start_with_its_own_words(tmp_path: Path) -> None:
    require_tritonserver()
    model = tmp_path / "models" / "broken"
    (model / "1").mkdir(parents=True)
    config = (SHIPPED_REPOSITORY / "embed" / "config.pbtxt").read_text().replace('"embed"', '"broken"')
    (model / "config.pbtxt").write_text(config)
    (model / "1" / "model.py").write_text("raise RuntimeError('no weights on board')\n")
    server = LocalTriton(TritonConfig("broken", tmp_path, model_repository=tmp_path / "models", models=("broken",)))
    with pytest.raises(LocalTritonError, match="no weights on board") as caught:
        asyncio.run(server.start())
    assert "before it was ready" in caught.value.problems[0]
    assert server.process_ids() == []
    assert regions(server) == []


def test_a_start_that_takes_too_long_leaves_nothing_behind(tmp_path: Path) -> None:
    require_tritonserver()
    server = LocalTriton(TritonConfig("late", tmp_path, models=("embed",), start_timeout_s=0.0))
    with pytest.raises(LocalTritonError, match="not ready within 0 s: health, models/embed"):
        asyncio.run(server.start())
    assert server.pid is None
    assert regions(server) == []


def test_a_cancelled_start_leaves_nothing_behind(tmp_path: Path) -> None:
    require_tritonserver()
    server = LocalTriton(TritonConfig("cancelled", tmp_path, models=("embed",)))

    async def cancel_once_it_runs() -> list[int]:
        start = asyncio.create_task(server.start())
        await asyncio.to_thread(until, lambda: bool(regions(server)))
        pids = server.process_ids()
        start.cancel()
        with pytest.raises(asyncio.CancelledError):
            await start
        return pids

    pids = asyncio.run(cancel_once_it_runs())
    assert pids
    assert alive(pids) == []
    assert regions(server) == []


def test_what_a_killed_owner_left_behind_is_removed_by_the_next(tmp_path: Path) -> None:
    require_tritonserver()
    owner = subprocess.Popen(
        [sys.executable, "-c", _OWNER, str(tmp_path)], stdout=subprocess.PIPE, text=True, env=dict(os.environ)
    )
    try:
        assert owner.stdout is not None
        pids = [int(pid) for pid in owner.stdout.readline().split()]
        assert len(pids) == 2
        # Stopped processes cannot follow the death of their owner: the worst that can be left behind.
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
    finally:
        owner.kill()
        owner.communicate()
    leftover = Path("/dev/shm") / f"{LocalTriton(TritonConfig('heir', tmp_path)).shm_prefix}leftover"
    leftover.touch()
    heir = TritonServer(TritonConfig(name="heir", work_dir=tmp_path, models=("embed",)))
    try:
        heir.start()
        assert alive(pids) == []
        assert not leftover.exists()
        assert answers(heir)
    finally:
        heir.close()


_OWNER = """
import asyncio, pathlib, sys
from engine.local.triton import LocalTriton, TritonConfig

async def main():
    server = LocalTriton(TritonConfig("heir", pathlib.Path(sys.argv[1]), models=("embed",)))
    await server.start()
    print(*server.process_ids(), flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def test_the_servers_inherit_nothing_secret(server: TritonServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONCH_POSTGRES__URL", "postgresql://u:secret@h/d")
    server.start()
    for pid in server.local.process_ids():
        assert b"secret" not in Path(f"/proc/{pid}/environ").read_bytes()


def test_two_servers_run_side_by_side_and_one_survives_the_other(
    triton_pair: tuple[TritonServer, TritonServer],
) -> None:
    first, second = triton_pair
    first.kill()
    assert answers(second)
    first.start()
    assert answers(first)


def test_a_backend_directory_is_assembled_once_by_many_at_the_same_time(tmp_path: Path) -> None:
    require_tritonserver()
    binaries = find_tritonserver()
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: backend_directory(binaries, tmp_path / "cache"), range(32)))
    assert len(found) == 1
    assert list((tmp_path / "cache").iterdir()) == list(found)
    assert {path.name for path in (found.pop() / "python").iterdir()} == {
        "libtriton_python.so",
        "triton_python_backend_stub",
        "triton_python_backend_utils.py",
    }


def test_a_folder_without_a_triton_is_refused_with_every_missing_file(tmp_path: Path) -> None:
    with pytest.raises(LocalTritonError) as caught:
        find_tritonserver(tmp_path)
    assert len(caught.value.problems) == 4
    assert "conch[triton]" in str(caught.value)
