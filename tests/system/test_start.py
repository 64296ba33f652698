"""Owns the proof that a gateway starts completely or not at all, and says why not in full.
Never needs a replica.
Called by pytest.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from engine.cli import group
from tests.gateway_fixtures import GatewayProcess, conch, until

pytestmark = pytest.mark.postgres

Make = Callable[..., GatewayProcess]
_ROOT = Path(__file__).parents[2]


def refused(gateway: GatewayProcess, *options: str) -> str:
    """What a gateway says that must not start: exit 1, and nothing was touched in the database."""
    gateway.launch(*options)
    assert gateway.wait() == 1
    assert "listening" not in gateway.log
    assert "Traceback" not in gateway.log
    assert gateway.audit.ask("SELECT FROM process_definition") == []
    assert gateway.audit.ask("SELECT FROM engine_process") == []
    return gateway.log


def test_a_taken_port_is_said_before_anything_is_started(make_gateway: Make) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = refused(make_gateway(""), "--port", str(port))
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in said
    assert "--port" in said


def test_every_problem_of_the_settings_is_named_at_once(make_gateway: Make) -> None:
    toml = """
        colour = "blue"
        [server]
        port = 70000
        prot = 1
        [limits]
        queue_entries = -1
        [[replicas]]
        name = "a"
        grpc = "no-port"
        [[models]]
        name = "not a name"
        [[models]]
        name = "chat"
    """
    said = refused(make_gateway(toml), "--host", "127.0.0.1")
    for place in (
        *("colour", "server.port", "server.prot", "limits.queue_entries", "replicas.0.grpc", "models.0.name"),
        "6 problem(s); nothing was started or changed",
    ):
        assert place in said, place


def test_references_that_lead_nowhere_are_named_at_once(make_gateway: Make) -> None:
    toml = """
        [[replicas]]
        name = "a"
        grpc = "localhost:8001"
        [[models]]
        name = "chat"
        fallback = "none"
        price = "unknown"
        pools = ["missing"]
    """
    said = refused(make_gateway(toml))
    assert all(word in said for word in ("no model `none`", "no price `unknown`", "`missing`"))


def test_an_unknown_variable_of_ours_is_an_error(make_gateway: Make) -> None:
    said = refused(make_gateway("", {"CONCH_SERVER__PROT": "1", "CONCH_COLOUR": "blue", "CONCH_MODELS": "[]"}))
    for variable in ("CONCH_SERVER__PROT", "CONCH_COLOUR", "CONCH_MODELS"):
        assert variable in said, variable


def test_a_file_that_is_not_there_or_no_toml_is_named(make_gateway: Make, tmp_path: Path) -> None:
    gateway = make_gateway("[server\n")
    said = refused(gateway)
    assert str(gateway.config) in said
    assert "is not TOML" in said
    done = conch("serve", "--config", str(tmp_path / "none.toml"), environ=gateway.environ)
    assert (done.returncode, "none.toml" in done.stderr) == (1, True)


def test_a_broken_diagram_refuses_the_start_and_everything_is_named(make_gateway: Make, tmp_path: Path) -> None:
    processes = tmp_path / "processes"
    shutil.copytree(_ROOT / "processes", processes)
    good = processes / "inference-request.bpmn"
    broken = good.read_text().replace('type="route"', 'type="rout"').replace('type="settle"', 'type="setle"')
    (processes / "second.bpmn").write_text("<not-bpmn/>")
    good.write_text(broken)
    said = refused(make_gateway(f'processes = "{processes}"\n'))
    assert all(word in said for word in ("`rout`", "`setle`", "second.bpmn"))


def test_a_process_that_no_file_holds_refuses_the_start(make_gateway: Make) -> None:
    said = refused(make_gateway('process = "another-process"\n'))
    assert "another-process" in said


def test_a_database_that_does_not_answer_is_said_without_its_password(make_gateway: Make) -> None:
    gateway = make_gateway("", url="postgresql://conch:a-secret@127.0.0.1:1/conch")
    gateway.launch()
    assert gateway.wait() == 1
    assert "the database cannot be used" in gateway.log
    assert "Traceback" not in gateway.log
    assert "a-secret" not in gateway.log


def test_a_database_that_is_no_postgres_is_a_problem_of_the_settings(make_gateway: Make) -> None:
    gateway = make_gateway("", url="mysql://conch:a-secret@127.0.0.1/conch")
    gateway.launch()
    assert gateway.wait() == 1
    assert "postgres.url: error: must begin with postgresql://" in gateway.log
    assert "a-secret" not in gateway.log


def test_who_reads_where_it_listens_can_connect(make_gateway: Make) -> None:
    gateway = make_gateway("")
    gateway.launch()
    gateway.wait_listening()
    assert gateway.get("/v2/health/live").status_code == 200


def test_a_changed_file_is_the_next_version_and_an_unchanged_one_is_not(make_gateway: Make, tmp_path: Path) -> None:
    processes = tmp_path / "processes"
    shutil.copytree(_ROOT / "processes", processes)
    gateway = make_gateway(f'processes = "{processes}"\n')

    def deployed() -> list[tuple[int, bool]]:
        items = gateway.start().get("/process-definitions").json()["items"]
        assert gateway.stop() == 0
        return [(item["version"], item["serving"]) for item in items]

    assert deployed() == [(1, True)]
    assert deployed() == [(1, True)]
    file = processes / "inference-request.bpmn"
    file.write_text(file.read_text().replace('name="Admit request"', 'name="Let the request in"'))
    assert deployed() == [(2, True), (1, False)]


def test_without_a_url_the_embedded_postgres_lives_and_dies_with_the_gateway(
    make_gateway: Make, cluster_dir: Path, postgres_binaries: Path
) -> None:
    gateway = make_gateway(f'[postgres]\ndata_dir = "{cluster_dir}/data"\nbinaries = "{postgres_binaries}"\n', url="")
    gateway.start()
    children = _children(gateway.pid)
    assert gateway.get("/v2/health/ready").status_code == 200
    assert children
    assert gateway.stop() == 0
    until("Postgres has ended", lambda: not any(Path(f"/proc/{pid}").exists() for pid in children))
    gateway.start()
    children = _children(gateway.pid)
    os.kill(gateway.pid, signal.SIGKILL)
    gateway.wait()
    until("Postgres has ended", lambda: not any(Path(f"/proc/{pid}").exists() for pid in children))


def _children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize("command", ["serve", "deploy", "process", "check", "explain", "replay", "migrate", "demo"])
def test_every_command_has_help_with_examples(command: str) -> None:
    done = CliRunner().invoke(group, [command, "--help"])
    assert done.exit_code == 0
    assert "Examples:" in done.stdout
    assert f"conch {command}" in done.stdout
