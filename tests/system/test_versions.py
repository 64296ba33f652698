"""Owns the proof that a running gateway serves what was switched to, and that a restart undoes nothing.
Never needs a replica: a request that finds none is governed, and recorded, all the same.
Called by pytest.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.gateway_fixtures import GatewayProcess, until
from tests.system.bodies import prompt

pytestmark = pytest.mark.postgres

Make = Callable[..., GatewayProcess]
_NO_REPLICA = '[[models]]\nname = "chat"\n[[replicas]]\nname = "away"\ngrpc = "127.0.0.1:1"\n'
_SHIPPED = Path(__file__).parents[2] / "processes"


def test_a_switch_reaches_every_running_gateway_and_outlives_a_restart(make_gateway: Make, tmp_path: Path) -> None:
    processes = tmp_path / "processes"
    shutil.copytree(_SHIPPED, processes)
    toml = f'processes = "{processes}"\n{_NO_REPLICA}'
    first, second = make_gateway(toml).start(), make_gateway(toml).start()

    def governed_by(gateway: GatewayProcess) -> int:
        answer = gateway.post("/v2/models/chat/generate", prompt(), {"Conch-Deadline-Ms": "50"})
        return int(gateway.audit.request(answer.headers["conch-process-instance"])["process_version"])

    def serve(version: int) -> None:
        for gateway in (first, second):
            until(f"version {version} governs", lambda each=gateway: governed_by(each) == version)  # type: ignore[misc]

    serve(1)
    changed = tmp_path / "inference-request.bpmn"
    changed.write_text((_SHIPPED / changed.name).read_text().replace('name="Admit request"', 'name="Let it in"'))
    deployed = first.run("deploy", str(changed))
    assert deployed.returncode == 0, deployed.stderr
    serve(2)
    (processes / "second.bpmn").write_text("<broken")
    refused = first.run("deploy", str(processes / "second.bpmn"))
    assert (refused.returncode, "not-xml" in refused.stderr) == (1, True)
    assert "nothing was started or changed" in refused.stderr
    (processes / "second.bpmn").unlink()
    assert first.run("process", "rollback", "inference-request", "--reason", "a test").returncode == 0
    serve(1)
    shutil.copy(changed, processes)
    assert second.stop() == 0
    second.start()
    serve(1)  # although its folder holds the file of version 2
    turns = first.audit.ask("SELECT process_version, cause, reason FROM audit.activations ORDER BY activation_no")
    assert [tuple(each.values()) for each in turns] == [
        *((version, "deployed", "") for version in (1, 2)),
        (1, "rolled_back", "a test"),
    ]
