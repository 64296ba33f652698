"""Workers that leave, and gateways that die: no job and no waiting instance is lost."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from urllib.parse import urlsplit

import pytest

from tests.gateway_fixtures import GatewayProcess, until
from tests.modeler.knocking import Modeler

pytestmark = [pytest.mark.postgres, pytest.mark.modeler]

Diagram = Callable[[str], bytes]


def take(modeler: Modeler, topic: str, wait_ms: int = 30_000) -> list[dict[str, str]]:
    request = {"type": topic, "timeout": 300_000, "maxJobsToActivate": 10, "requestTimeout": wait_ms, "worker": "w"}
    answer = modeler.post("/v2/jobs/activation", request)
    assert answer.status == 200, answer.body
    jobs: list[dict[str, str]] = answer.json["jobs"]
    return jobs


def test_a_job_goes_to_the_next_worker_when_one_left_while_waiting(door: GatewayProcess, diagram: Diagram) -> None:
    modeler = Modeler(door.url)
    renamed = diagram("service-task").replace(b'"service-task"', b'"left-alone"').replace(b'"work"', b'"left_work"')
    assert modeler.deploy(("left-alone.bpmn", renamed)).status == 200
    address = urlsplit(door.url)
    body = json.dumps({"type": "left_work", "timeout": 300_000, "maxJobsToActivate": 10, "requestTimeout": 60_000})
    head = f"POST /v2/jobs/activation HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection((address.hostname or "", address.port or 0)) as leaving:
        leaving.sendall((head + body).encode())
        # A second request on the same loop is answered only after the first has been read.
        assert modeler.topology().status == 200
    assert modeler.start("left-alone", {}).status == 200
    # Were the job lent to who left, it would be locked for five minutes.
    (job,) = take(modeler, "left_work")
    assert modeler.post(f"/v2/jobs/{job['jobKey']}/completion", {}).status == 204


def test_waiting_instances_go_on_in_the_next_gateway(
    make_gateway: Callable[..., GatewayProcess], diagram: Diagram
) -> None:
    toml = "[runtime]\nlease_ms = 1000\n"
    first = make_gateway(toml).start()
    modeler = Modeler(first.url)
    files = [(f"{name}.bpmn", diagram(name)) for name in ("service-task", "user-task", "message-catch")]
    assert modeler.deploy(*files).status == 200
    keys = {
        process_id: modeler.start(process_id, {"owner": "ada", "remind_at": None, "order_id": "o-1"}).json[
            "processInstanceKey"
        ]
        for process_id in ("service-task", "user-task", "message-catch")
    }
    first.kill()
    modeler = Modeler(make_gateway(toml).start().url)

    def found(what: str, process_id: str) -> list[dict[str, str]]:
        filter_ = {"filter": {"processInstanceKey": keys[process_id]}}
        items: list[dict[str, str]] = modeler.post(f"/v2/{what}/search", filter_).json["items"]
        return items

    (job,) = take(modeler, "work")
    assert job["processInstanceKey"] == keys["service-task"]
    assert modeler.post(f"/v2/jobs/{job['jobKey']}/completion", {"variables": {"done": 1}}).status == 204
    (task,) = found("user-tasks", "user-task")
    until(
        "the task can be completed",
        lambda: modeler.post(f"/v2/user-tasks/{task['userTaskKey']}/completion", {}).status == 204,
    )
    message = {"name": "payment", "correlationKey": "o-1", "variables": {"amount": 1}}
    until("the message is taken", lambda: modeler.post("/v2/messages/correlation", message).status == 200)
    for process_id in ("service-task", "user-task"):
        (instance,) = found("process-instances", process_id)
        assert instance["state"] == "COMPLETED"
    assert found("jobs", "message-catch")[0]["type"] == "after"


def test_another_gateway_reads_what_it_does_not_run(
    make_gateway: Callable[..., GatewayProcess], diagram: Diagram
) -> None:
    owner, other = Modeler(make_gateway("").start().url), Modeler(make_gateway("").start().url)
    assert owner.deploy(("user-task.bpmn", diagram("user-task"))).status == 200
    key = owner.start("user-task", {"owner": "ada", "remind_at": None}).json["processInstanceKey"]
    search = {"filter": {"processInstanceKey": key}}
    for what in ("process-instances", "element-instances", "variables", "user-tasks"):
        mine, theirs = (each.post(f"/v2/{what}/search", search).json["items"] for each in (owner, other))
        assert theirs == mine, what
    (task,) = other.post("/v2/user-tasks/search", search).json["items"]
    refused = other.post(f"/v2/user-tasks/{task['userTaskKey']}/completion", {})
    assert refused.status == 404
    for path in (f"process-instances/{key}/cancellation", f"process-instances/{key}/incident-resolution"):
        refused = other.post(f"/v2/{path}", {})
        assert refused.status == 404
        assert "is open at another gateway of this database" in refused.json["detail"]
    assert owner.post(f"/v2/user-tasks/{task['userTaskKey']}/completion", {}).status == 204
    (seen,) = other.post("/v2/process-instances/search", search).json["items"]
    assert seen["state"] == "COMPLETED"
