"""Modeler knocks: its recorded requests, against a real gateway process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.gateway_fixtures import GatewayProcess, until
from tests.modeler.conftest import ROOT
from tests.modeler.knocking import Answer, Modeler

pytestmark = [pytest.mark.postgres, pytest.mark.modeler]

Diagram = Callable[[str], bytes]


@pytest.fixture
def modeler(door: GatewayProcess) -> Modeler:
    return Modeler(door.url)


def entries(answer: Answer, kind: str = "processDefinition") -> list[dict[str, Any]]:
    assert answer.status == 200, answer.body
    return [entry[kind] for entry in answer.json["deployments"] if kind in entry]


def test_the_connection_check_finds_camunda_8_9(modeler: Modeler) -> None:
    answer = modeler.topology()
    assert answer.status == 200
    assert answer.json["gatewayVersion"] == "8.9.0"


def test_credentials_do_not_hide_the_topology_and_are_refused_elsewhere(door: GatewayProcess) -> None:
    stranger = Modeler(door.url, "Basic ZGVtbzpkZW1v")
    assert stranger.topology().status == 200
    refused = stranger.post("/v2/process-instances/search", {})
    assert (refused.status, refused.reason, refused.kind) == (401, "Unauthorized", "application/problem+json")
    assert "set the connection's authentication to `None`" in refused.json["detail"]


def test_deploy_and_start(modeler: Modeler, diagram: Diagram) -> None:
    answer = modeler.deploy(("service-task.bpmn", diagram("service-task")))
    (process,) = entries(answer)
    assert answer.json["deploymentKey"].isdigit()
    assert answer.json["tenantId"] == "<default>"
    assert process == {
        "processDefinitionId": "service-task",
        "processDefinitionVersion": 1,
        "processDefinitionKey": process["processDefinitionKey"],
        "resourceName": "service-task.bpmn",
        "tenantId": "<default>",
    }
    started = modeler.start("service-task", {"input": 1})
    assert started.status == 200
    assert started.json == {
        "processDefinitionKey": process["processDefinitionKey"],
        "processDefinitionId": "service-task",
        "processDefinitionVersion": 1,
        "processInstanceKey": started.json["processInstanceKey"],
        "tenantId": "<default>",
        "variables": {},
        "tags": [],
        "businessId": None,
    }


def test_pressing_deploy_again_changes_nothing(modeler: Modeler, diagram: Diagram) -> None:
    first = modeler.deploy(("user-task.bpmn", diagram("user-task")))
    assert modeler.deploy(("user-task.bpmn", diagram("user-task"))).json == first.json
    changed = diagram("user-task").replace(b'name="Approve"', b'name="Approve it"')
    (process,) = entries(modeler.deploy(("user-task.bpmn", changed)))
    assert process["processDefinitionVersion"] == 2
    assert process["processDefinitionKey"] != entries(first)[0]["processDefinitionKey"]


def test_a_file_name_in_any_script_comes_back_as_it_was(modeler: Modeler, diagram: Diagram) -> None:
    named = diagram("manual-task")
    (process,) = entries(modeler.deploy(("Prüfung 検査 №1.bpmn", named)))
    assert process["resourceName"] == "Prüfung 検査 №1.bpmn"


def test_a_file_of_several_processes_has_an_entry_for_each_in_order(modeler: Modeler, diagram: Diagram) -> None:
    processes = entries(modeler.deploy(("call-activity.bpmn", diagram("call-activity"))))
    assert [each["processDefinitionId"] for each in processes] == ["call-activity", "called-process"]
    assert {each["resourceName"] for each in processes} == {"call-activity.bpmn"}


def test_a_wrong_file_keeps_all_files_of_the_request_from_being_deployed(modeler: Modeler, diagram: Diagram) -> None:
    broken = diagram("script-task").replace(b'id="script-task"', b'id="all_or_none_broken"')
    broken = broken.replace(b'sourceRef="started"', b'sourceRef="nowhere"')
    fine = diagram("script-task").replace(b'id="script-task"', b'id="all_or_none_fine"')
    fine = fine.replace(b'bpmnElement="script-task"', b'bpmnElement="all_or_none_fine"')
    refused = modeler.deploy(("fine.bpmn", fine), ("broken.bpmn", broken))
    assert (refused.status, refused.reason, refused.kind) == (400, "Bad Request", "application/problem+json")
    problem = refused.json
    assert (problem["title"], problem["instance"]) == ("INVALID_ARGUMENT", "/v2/deployments")
    lines = problem["detail"].split("\n")
    assert all(line.startswith("broken.bpmn: ") for line in lines), lines
    assert any("nowhere" in line for line in lines)
    found = modeler.post(
        "/v2/process-definitions/search", {"filter": {"processDefinitionId": {"$like": "all_or_none_*"}}}
    )
    assert found.json["items"] == []


@pytest.mark.parametrize(
    ("name", "content", "part"),
    [
        ("robot.rpa", b"{}", "unsupported-file"),
        ("diagram.bpmn", b"<bpmn:definitions", "not-xml"),
        ("diagram.bpmn", b'<!DOCTYPE d [<!ENTITY a "b">]><d>&a;</d>', "doctype-forbidden"),
        ("diagram.bpmn", b"", "diagram.bpmn"),
    ],
)
def test_what_cannot_be_deployed_is_refused_with_file_and_rule(
    modeler: Modeler, name: str, content: bytes, part: str
) -> None:
    refused = modeler.deploy((name, content))
    assert refused.status == 400
    assert part in refused.json["detail"]


def test_a_file_over_the_limit_is_refused(modeler: Modeler) -> None:
    refused = modeler.deploy(("large.bpmn", b" " * (17 * 1024 * 1024)))
    assert refused.status == 413
    assert "server.max_body_bytes" in refused.json["detail"]


def test_a_tenant_that_is_not_configured_is_refused(modeler: Modeler, diagram: Diagram) -> None:
    refused = modeler.deploy(("task.bpmn", diagram("task")), tenant="acme")
    assert refused.status == 400
    assert "tenantId must be `<default>`" in refused.json["detail"]


def test_starting_a_process_that_is_not_deployed_says_so(modeler: Modeler) -> None:
    refused = modeler.start("nobody-knows-it", {})
    assert (refused.status, refused.json["title"]) == (404, "NOT_FOUND")
    assert "`nobody-knows-it`" in refused.json["detail"]


def test_the_process_of_inference_requests_is_held_to_the_tasks_and_switched_at_once(modeler: Modeler) -> None:
    shipped = (ROOT / "processes" / "inference-request.bpmn").read_bytes()

    def serving() -> int:
        served = [each for each in modeler.get("/process-definitions").json["items"] if each["serving"]]
        version: int = next(each["version"] for each in served if each["processDefinitionId"] == "inference-request")
        return version

    before = serving()
    unfit = shipped.replace(b'type="settle"', b'type="unheard_of"')
    refused = modeler.deploy(("inference-request.bpmn", unfit))
    assert refused.status == 400
    assert "unknown-topic" in refused.json["detail"]
    assert serving() == before
    changed = shipped.replace(b"</bpmn:definitions>", b"<!-- changed --></bpmn:definitions>")
    (process,) = entries(modeler.deploy(("inference-request.bpmn", changed)))
    assert serving() == process["processDefinitionVersion"] == before + 1


class TestTab:
    """Modeler's Test tab: it runs one element of the diagram, and polls seven searches every second."""

    __test__ = False

    def __init__(self, modeler: Modeler, file: str, content: bytes, element_id: str, variables: dict[str, Any]) -> None:
        self._modeler = modeler
        key = entries(modeler.deploy((file, content)))[0]["processDefinitionKey"]
        started = modeler.post(
            "/v2/process-instances",
            {
                "processDefinitionKey": key,
                "variables": variables,
                "startInstructions": [{"elementId": element_id}],
                "runtimeInstructions": [{"type": "TERMINATE_PROCESS_INSTANCE", "afterElementId": element_id}],
            },
        )
        assert started.status == 200, started.body
        self.key = started.json["processInstanceKey"]

    def search(self, what: str, field: str = "processInstanceKey") -> list[dict[str, Any]]:
        answer = self._modeler.post(f"/v2/{what}/search", {"filter": {field: self.key}})
        assert answer.status == 200, answer.body
        items: list[dict[str, Any]] = answer.json["items"]
        assert answer.json["page"]["totalItems"] == len(items)
        return items

    def poll(self) -> dict[str, list[dict[str, Any]]]:
        """One second's worth of requests."""
        variables = self._modeler.post(
            "/v2/variables/search?truncateValues=false", {"filter": {"processInstanceKey": self.key}}
        )
        incidents = self._modeler.post(f"/v2/process-instances/{self.key}/incidents/search", {})
        return {
            "instances": self.search("process-instances"),
            "children": self.search("process-instances", "parentProcessInstanceKey"),
            "elements": self.search("element-instances"),
            "jobs": self.search("jobs"),
            "subscriptions": self.search("message-subscriptions"),
            "user_tasks": self.search("user-tasks"),
            "variables": variables.json["items"],
            "incidents": incidents.json["items"],
        }


def test_the_test_tab_runs_one_task_to_its_end(modeler: Modeler, diagram: Diagram) -> None:
    tab = TestTab(modeler, "service-task.bpmn", diagram("service-task"), "work", {"input": {"a": [1, "x"]}})
    seen = until("the job is there", lambda: (polled := tab.poll())["jobs"] and polled)
    (instance,) = seen["instances"]
    assert (instance["state"], instance["hasIncident"]) == ("ACTIVE", False)
    (task,) = [each for each in seen["elements"] if each["elementId"] == "work"]
    assert (task["type"], task["state"], task["elementName"], task["endDate"]) == (
        "SERVICE_TASK",
        "ACTIVE",
        "Work",
        None,
    )
    (job,) = seen["jobs"]
    assert (job["type"], job["state"], job["kind"], job["elementInstanceKey"]) == (
        "work",
        "CREATED",
        "BPMN_ELEMENT",
        task["elementInstanceKey"],
    )
    (variable,) = seen["variables"]
    assert (variable["name"], variable["value"], variable["scopeKey"]) == ("input", '{"a":[1,"x"]}', tab.key)
    assert (seen["children"], seen["incidents"], seen["user_tasks"], seen["subscriptions"]) == ([], [], [], [])

    assert modeler.post(f"/v2/jobs/{job['jobKey']}/completion", {"variables": {"result": 0.1}}).status == 204
    done = tab.poll()
    (instance,) = done["instances"]
    assert instance["state"] in ("COMPLETED", "TERMINATED")
    assert instance["endDate"] is not None
    (task,) = [each for each in done["elements"] if each["elementId"] == "work"]
    assert (task["state"], task["endDate"] is not None) == ("COMPLETED", True)
    (job,) = done["jobs"]
    assert (job["state"], job["type"], job["endTime"] is not None) == ("COMPLETED", "work", True)
    assert {each["name"]: each["value"] for each in done["variables"]} == {
        "input": '{"a":[1,"x"]}',
        "result": "0.1",
    }


def test_the_test_tab_shows_why_a_task_is_stuck(modeler: Modeler, diagram: Diagram) -> None:
    tab = TestTab(modeler, "service-task.bpmn", diagram("service-task"), "work", {})
    (job,) = until("the job is there", lambda: tab.search("jobs"))
    failure = {"retries": 0, "errorMessage": "the card was refused", "retryBackOff": 0}
    assert modeler.post(f"/v2/jobs/{job['jobKey']}/failure", failure).status == 204
    seen = tab.poll()
    assert seen["instances"][0]["hasIncident"] is True
    (incident,) = seen["incidents"]
    assert (incident["errorType"], incident["elementId"]) == ("JOB_NO_RETRIES", "work")
    assert "the card was refused" in incident["errorMessage"]
    assert seen["jobs"][0]["state"] == "FAILED"


def test_the_test_tab_shows_the_try_that_failed_beside_the_one_that_was_done(
    modeler: Modeler, diagram: Diagram
) -> None:
    tab = TestTab(modeler, "service-task.bpmn", diagram("service-task"), "work", {})
    (first,) = until("the job is there", lambda: tab.search("jobs"))
    failure = {"retries": 3, "errorMessage": "the line was busy", "retryBackOff": 0}
    assert modeler.post(f"/v2/jobs/{first['jobKey']}/failure", failure).status == 204
    (second,) = until("it is tried again", lambda: [each for each in tab.search("jobs") if each["state"] == "CREATED"])
    assert modeler.post(f"/v2/jobs/{second['jobKey']}/completion", {}).status == 204
    jobs = {each["jobKey"]: each for each in tab.poll()["jobs"]}
    assert {key: each["state"] for key, each in jobs.items()} == {
        first["jobKey"]: "FAILED",
        second["jobKey"]: "COMPLETED",
    }
    failed = jobs[first["jobKey"]]
    assert (failed["type"], failed["retries"], failed["hasFailedWithRetriesLeft"]) == ("work", 3, True)
    assert (failed["errorMessage"], failed["endTime"] is not None) == ("the line was busy", True)
    found = modeler.post("/v2/jobs/search", {"filter": {"jobKey": first["jobKey"]}}).json
    assert [each["jobKey"] for each in found["items"]] == [first["jobKey"]]


def test_the_test_tab_shows_user_tasks_awaited_messages_and_called_processes(
    modeler: Modeler, diagram: Diagram
) -> None:
    people = TestTab(modeler, "user-task.bpmn", diagram("user-task"), "approve", {"owner": "ada", "remind_at": None})
    (task,) = until("the task is there", lambda: people.search("user-tasks"))
    assert (task["name"], task["state"], task["assignee"], task["priority"]) == ("Approve", "CREATED", "ada", 70)
    assert task["candidateGroups"] == ["clerks"]
    assert people.search("jobs") == []

    caller = TestTab(modeler, "call-activity.bpmn", diagram("call-activity"), "call", {})
    (child,) = until("the called process runs", lambda: caller.search("process-instances", "parentProcessInstanceKey"))
    assert (child["processDefinitionId"], child["state"]) == ("called-process", "ACTIVE")
    assert child["parentElementInstanceKey"] in {
        each["elementInstanceKey"] for each in caller.search("element-instances")
    }


def test_an_unknown_path_is_answered_with_its_name(modeler: Modeler) -> None:
    answer = modeler.post("/v2/batch-operations/search", {})
    assert (answer.status, answer.kind) == (404, "application/problem+json")
    assert answer.json["detail"] == "nothing answers POST /v2/batch-operations/search"


def test_kserve_answers_beside_it(modeler: Modeler) -> None:
    assert modeler.get("/v2").json["name"] == "conch"
    assert modeler.get("/v2/health/live").json == {"live": True}
    refused = modeler.post("/v2/models/nothing/infer", {"inputs": [{}]})
    assert "error" in refused.json
