"""What operators, worker authors and task lists ask beside the routes of one instance, through Camunda's own client."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.gateway_fixtures import GatewayProcess

sdk = pytest.importorskip(
    "camunda_orchestration_sdk", reason="Camunda's client is missing: install the extra `modeler`"
)

from camunda_orchestration_sdk import models  # noqa: E402  # only where there is such a package

pytestmark = [pytest.mark.postgres, pytest.mark.modeler]

Diagram = Callable[[str], bytes]
Deploy = Callable[..., Any]


@pytest.fixture
def client(door: GatewayProcess) -> Iterator[Any]:
    with sdk.CamundaClient(configuration={"CAMUNDA_REST_ADDRESS": door.url}) as connected:
        yield connected


def of(model: str, **fields: Any) -> Any:
    """A request, in the words of the wire."""
    return getattr(models, model).from_dict(fields)


@pytest.fixture
def deploy(client: Any, diagram: Diagram, tmp_path: Path) -> Deploy:
    """Deploys a diagram under an id of its own, and other files beside it; returns that id."""

    def deploy(name: str, **others: str) -> str:
        process_id = f"{name}-{uuid4().hex[:8]}"
        text = diagram(name).decode().replace(f'process id="{name}"', f'process id="{process_id}"')
        (file := tmp_path / f"{process_id}.bpmn").write_text(text)
        files = [str(file)]
        for kind, content in others.items():
            (other := tmp_path / f"{process_id}.{kind}").write_text(content)
            files.append(str(other))
        client.deploy_resources_from_files(files)
        return process_id

    return deploy


def start(client: Any, process_id: str, **variables: Any) -> Any:
    return client.create_process_instance(
        data=of("ProcessCreationById", processDefinitionId=process_id, variables=variables)
    ).process_instance_key


def stop(client: Any, key: Any) -> None:
    """Bring an instance of `service-task` to an incident."""
    (job,) = client.search_jobs(data=of("JobSearchQuery", filter={"processInstanceKey": str(key)})).items
    client.fail_job(job.job_key, data=of("JobFailRequest", retries=0, errorMessage=f"no paper in {key}"))


def test_searches_without_an_instance_look_into_the_newest(client: Any, deploy: Deploy) -> None:
    process_id = deploy("message-catch")
    keys = {str(start(client, process_id, order_id=f"{process_id}-{n}")) for n in range(3)}
    ours = {"processDefinitionId": process_id}
    waiting = client.search_message_subscriptions(data=of("MessageSubscriptionSearchQuery", filter=ours)).items
    assert {str(each.process_instance_key) for each in waiting} == keys
    assert {each.correlation_key for each in waiting} == {f"{process_id}-{n}" for n in range(3)}
    active = of("ElementInstanceSearchQuery", filter=ours | {"elementId": "paid", "state": "ACTIVE"})
    assert {str(each.process_instance_key) for each in client.search_element_instances(data=active).items} == keys
    wanted = of("VariableSearchQuery", filter={"name": "order_id", "value": f'"{process_id}-1"'})
    (variable,) = client.search_variables(data=wanted).items
    assert str(variable.process_instance_key) in keys
    assert client.get_variable(variable.variable_key).value == f'"{process_id}-1"'


def test_all_incidents_of_an_instance_are_resolved_at_once(client: Any, deploy: Deploy) -> None:
    key = start(client, deploy("service-task"))
    stop(client, key)
    assert client.get_process_instance(key).has_incident is True
    done = client.resolve_process_instance_incidents(key)
    assert done.batch_operation_type.value == "RESOLVE_INCIDENT"
    assert client.get_process_instance(key).has_incident is False
    wanted = of("JobSearchQuery", filter={"processInstanceKey": str(key), "state": "CREATED"})
    (job,) = client.search_jobs(data=wanted).items
    client.complete_job(job.job_key)
    with pytest.raises(sdk.errors.ApiError) as caught:
        client.resolve_process_instance_incidents(key)
    assert caught.value.status_code == 404
    assert "has ended already" in caught.value.parsed.detail


def test_the_path_to_a_called_instance_is_told_from_outside_in(client: Any, deploy: Deploy) -> None:
    process_id = deploy("call-activity")
    key = start(client, process_id, question="why")
    below = of("ProcessInstanceSearchQuery", filter={"parentProcessInstanceKey": str(key)})
    (called,) = client.search_process_instances(data=below).items
    path = client.get_process_instance_call_hierarchy(called.process_instance_key)
    assert [each.process_instance_key for each in path] == [key, called.process_instance_key]
    assert path[1].process_definition_name == "Called process"
    client.cancel_process_instance(key, data=None)


def test_open_instances_are_counted_by_process_and_version(client: Any, deploy: Deploy) -> None:
    process_id = deploy("service-task")
    key, stopped, _ = (start(client, process_id) for _ in range(3))
    stop(client, stopped)
    counted = client.get_process_definition_instance_statistics(
        data=of("ProcessDefinitionInstanceStatisticsQuery", page={"from": 0, "limit": 1000})
    ).items
    (ours,) = [each for each in counted if each.process_definition_id == process_id]
    assert (ours.active_instances_with_incident_count, ours.active_instances_without_incident_count) == (1, 2)
    assert (ours.has_multiple_versions, ours.latest_process_definition_name) == (False, "Service task")
    (version,) = client.get_process_definition_instance_version_statistics(
        data=of("ProcessDefinitionInstanceVersionStatisticsQuery", filter={"processDefinitionId": process_id})
    ).items
    assert version.process_definition_key == client.get_process_instance(key).process_definition_key
    assert (version.active_instances_with_incident_count, version.active_instances_without_incident_count) == (1, 2)


def test_stopped_instances_are_counted_by_what_stops_them(client: Any, deploy: Deploy) -> None:
    process_id = deploy("service-task")
    key = start(client, process_id)
    stop(client, key)
    errors = client.get_process_instance_statistics_by_error(
        data=of("IncidentProcessInstanceStatisticsByErrorQuery", page={"limit": 1000})
    ).items
    (ours,) = [each for each in errors if f"no paper in {key}" in each.error_message]
    assert ours.active_instances_with_error_count == 1
    (of_version,) = client.get_process_instance_statistics_by_definition(
        data=of("IncidentProcessInstanceStatisticsByDefinitionQuery", filter={"errorHashCode": ours.error_hash_code})
    ).items
    assert (of_version.process_definition_id, of_version.active_instances_with_error_count) == (process_id, 1)


def test_a_task_list_finds_its_tasks_by_candidates_and_shows_their_form(client: Any, deploy: Deploy) -> None:
    form = {"id": "approval", "type": "default", "components": [{"type": "textfield", "key": "why"}]}
    process_id = deploy("user-task", form=json.dumps(form))
    key = start(client, process_id, owner="ada", remind_at=None)
    ours = {"processDefinitionId": process_id}
    for wanted, found in (
        ({"candidateGroup": "clerks"}, True),
        ({"candidateGroup": {"$in": ["clerks", "others"]}}, True),
        ({"candidateGroup": "bosses"}, False),
        ({"candidateGroup": {"$neq": "clerks"}}, False),
        ({"candidateUser": "ada"}, False),
    ):
        tasks = client.search_user_tasks(data=of("UserTaskSearchQuery", filter=ours | wanted)).items
        assert [str(each.process_instance_key) for each in tasks] == [str(key)] * found, wanted
    (task,) = client.search_user_tasks(data=of("UserTaskSearchQuery", filter=ours)).items
    shown = client.get_user_task_form(task.user_task_key)
    assert (shown.form_id, json.loads(shown.schema)) == ("approval", form)
    assert client.get_form_by_key(shown.form_key).version == shown.version
    seen = client.search_user_task_effective_variables(task.user_task_key).items
    assert {each.name: each.value for each in seen}["owner"] == '"ada"'


def test_a_decision_file_is_found_and_read(client: Any, tmp_path: Path) -> None:
    file = Path(__file__).parent.parent / "diagrams" / "called" / "discount.dmn"
    (deployed,) = client.deploy_resources_from_files([str(file)]).decision_requirements
    wanted = of("DecisionRequirementsSearchQuery", filter={"decisionRequirementsId": "discounts"})
    found = client.search_decision_requirements(data=wanted).items
    assert deployed.decision_requirements_key in [each.decision_requirements_key for each in found]
    one = client.get_decision_requirements(deployed.decision_requirements_key)
    assert (one.decision_requirements_name, one.resource_name) == ("Discounts", "discount.dmn")
    assert client.get_decision_requirements_xml(deployed.decision_requirements_key) == file.read_text()
    newest = of("DecisionDefinitionSearchQuery", filter={"decisionDefinitionId": "discount", "isLatestVersion": True})
    assert len(client.search_decision_definitions(data=newest).items) == 1


def test_a_state_that_does_not_exist_is_refused_with_those_that_do(door: GatewayProcess) -> None:
    for path, words in (
        ("process-instances", "ACTIVE, COMPLETED, SUSPENDED, TERMINATED"),
        ("incidents", "ACTIVE, MIGRATED, PENDING, RESOLVED, UNKNOWN"),
        ("jobs", "CANCELED, COMPLETED, CREATED"),
        ("user-tasks", "ASSIGNING, CANCELED, CANCELING"),
        ("element-instances", "ACTIVE, COMPLETED, TERMINATED"),
    ):
        answer = door.post(f"/v2/{path}/search", {"filter": {"state": {"$in": ["ACTIV"]}}})
        assert answer.status_code == 400, path
        assert f"filter.state must be one of {words}" in answer.json()["detail"]


def test_what_refuses_a_deployment_is_told_before_what_only_warns(door: GatewayProcess, diagram: Diagram) -> None:
    good, bad = diagram("service-task"), diagram("service-task").replace(b'targetRef="ended"', b'targetRef="nowhere"')
    files = [("resources", ("a.bpmn", good)), ("resources", ("b.bpmn", bad.replace(b"service-task", b"other")))]
    lines = httpx.post(f"{door.url}/v2/deployments", files=files).json()["detail"].splitlines()
    severities = ["error" if ": error: " in line else "warning" for line in lines]
    assert severities == sorted(severities)
    assert set(severities) == {"error", "warning"}
