"""The client that is inside Camunda Modeler (npm `@camunda8/sdk`), on Node, against a real gateway process."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.gateway_fixtures import GatewayProcess
from tests.modeler.conftest import DIAGRAMS

pytestmark = [pytest.mark.postgres, pytest.mark.modeler]

HERE = Path(__file__).parent
FILES = ("service-task", "message-catch", "user-task")
LIMIT_S = 120.0


@pytest.fixture(scope="module")
def seen(door: GatewayProcess, node: Path, client_packages: Path) -> dict[str, Any]:
    """What the client saw, in its own words."""
    command = [str(node), str(HERE / "drive.js"), door.url, *(str(DIAGRAMS / f"{name}.bpmn") for name in FILES)]
    environ = os.environ | {"NODE_PATH": str(client_packages / "node_modules")}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_it_deploys_and_starts(seen: dict[str, Any]) -> None:
    assert seen["topology"]["gatewayVersion"] == "8.9.0"
    processes = seen["deployed"]["processes"]
    assert [each["processDefinitionId"] for each in processes] == list(FILES)
    assert [each["resourceName"] for each in processes] == [f"{name}.bpmn" for name in FILES]
    assert seen["again"] == seen["deployed"]
    assert seen["started"]["processDefinitionKey"] == processes[0]["processDefinitionKey"]


def test_its_log_panel_shows_every_problem(seen: dict[str, Any]) -> None:
    assert seen["broken"]["status"] == 400
    assert "broken.bpmn" in seen["broken"]["detail"]
    assert "Response code 400 (Bad Request)" in seen["broken"]["message"]
    assert seen["unknown"]["status"] == 404
    assert "`nobody`" in seen["unknown"]["detail"]


def test_its_worker_does_jobs(seen: dict[str, Any]) -> None:
    assert seen["result"]["variables"] == {"order": {"total": 4}, "total": 8}
    assert seen["completed"]["state"] == "COMPLETED"
    assert ["work", "COMPLETED"] in seen["elements"]
    assert sorted(seen["variables"]) == [["order", '{"total":12.5}'], ["total", "25"]]
    assert seen["variable"] in (25, {"total": 12.5})


def test_it_reaches_instances_by_messages_and_ends_them(seen: dict[str, Any]) -> None:
    assert seen["correlatedWithStarted"] is True
    assert seen["published"]["messageKey"].isdigit()
    assert seen["broadcast"]["signalKey"].isdigit()
    assert seen["cancelled"] == "TERMINATED"


def test_it_completes_user_tasks_and_mends_incidents(seen: dict[str, Any]) -> None:
    assert (seen["task"]["name"], seen["task"]["assignee"]) == ("Approve", "ada")
    assert seen["taskAfter"] == "COMPLETED"
    assert seen["incident"]["errorType"] == "JOB_NO_RETRIES"
    assert "no paper" in seen["incident"]["errorMessage"]
    assert seen["resolved"] == "RESOLVED"
