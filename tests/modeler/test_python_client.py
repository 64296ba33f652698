"""Camunda's own Python client, whose types refuse an answer with any field missing, against a real gateway process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.gateway_fixtures import GatewayProcess, until

sdk = pytest.importorskip(
    "camunda_orchestration_sdk", reason="Camunda's client is missing: install the extra `modeler`"
)

from camunda_orchestration_sdk import models  # noqa: E402  # only where there is such a package

pytestmark = [pytest.mark.postgres, pytest.mark.modeler]

HERE = Path(__file__).parent
Diagram = Callable[[str], bytes]


@pytest.fixture
def client(door: GatewayProcess) -> Iterator[Any]:
    with sdk.CamundaClient(configuration={"CAMUNDA_REST_ADDRESS": door.url}) as connected:
        yield connected


def of(model: str, **fields: Any) -> Any:
    """A request, in the words of the wire."""
    return getattr(models, model).from_dict(fields)


def within(key: Any, query: str) -> Any:
    return of(query, filter={"processInstanceKey": str(key)})


@pytest.fixture
def deploy(client: Any, diagram: Diagram, tmp_path: Path) -> Callable[..., Any]:
    def deploy(*names: str) -> Any:
        files = []
        for name in names:
            (file := tmp_path / f"{name}.bpmn").write_bytes(diagram(name))
            files.append(str(file))
        return client.deploy_resources_from_files(files)

    return deploy


def start(client: Any, process_id: str, **more: Any) -> Any:
    return client.create_process_instance(data=of("ProcessCreationById", processDefinitionId=process_id, **more))


def test_the_cluster_is_described_in_full(client: Any) -> None:
    topology = client.get_topology()
    assert topology.gateway_version == "8.9.0"
    assert topology.brokers[0].partitions[0].role == "leader"
    assert client.get_authentication().username == "anonymous"
    assert client.get_license().is_commercial is False


def test_a_job_goes_from_a_diagram_to_a_worker_and_back(client: Any, deploy: Callable[..., Any]) -> None:
    deployed = deploy("service-task")
    (process,) = deployed.processes
    started = start(client, "service-task", variables={"order": {"total": 12.5}}, businessId="order-7")
    assert started.process_definition_key == process.process_definition_key
    assert started.business_id == "order-7"
    request = of("JobActivationRequest", type="work", timeout=60_000, maxJobsToActivate=100, worker="tester")
    jobs = client.activate_jobs(data=request).jobs
    job = next(each for each in jobs if each.process_instance_key == started.process_instance_key)
    assert job.variables.to_dict() == {"order": {"total": 12.5}}
    assert job.custom_headers.to_dict() == {"kind": "small"}
    assert (job.worker, job.retries, job.business_id) == ("tester", 1, "order-7")
    for other in jobs:
        client.complete_job(other.job_key, data=of("JobCompletionRequest", variables={"done": True}))
    instance = client.get_process_instance(started.process_instance_key)
    assert (instance.state.value, instance.business_id) == ("COMPLETED", "order-7")
    found = client.search_process_instances(data=of("ProcessInstanceSearchQuery", filter={"businessId": "order-7"}))
    assert [each.process_instance_key for each in found.items] == [started.process_instance_key]
    by_variable = of(
        "ProcessInstanceSearchQuery", filter={"variables": [{"name": "order", "value": '{"total": 12.5}'}]}
    )
    assert started.process_instance_key in {
        each.process_instance_key for each in client.search_process_instances(data=by_variable).items
    }
    elements = client.search_element_instances(data=within(started.process_instance_key, "ElementInstanceSearchQuery"))
    assert {each.element_id: each.state.value for each in elements.items} == {
        "service-task": "COMPLETED",
        "started": "COMPLETED",
        "work": "COMPLETED",
        "ended": "COMPLETED",
    }
    work = next(each for each in elements.items if each.element_id == "work")
    assert client.get_element_instance(work.element_instance_key).type_.value == "SERVICE_TASK"
    flows = client.get_process_instance_sequence_flows(started.process_instance_key)
    assert [each.element_id for each in flows.items] == ["started_to_work", "work_to_ended"]
    variables = client.search_variables(data=within(started.process_instance_key, "VariableSearchQuery"))
    assert {each.name: each.value for each in variables.items} == {"order": '{"total":12.5}', "done": "true"}
    order = next(each for each in variables.items if each.name == "order")
    assert client.get_variable(order.variable_key).value == '{"total":12.5}'


def test_a_start_may_wait_for_the_end_and_fetch_variables(client: Any, deploy: Callable[..., Any]) -> None:
    deploy("script-task")
    done = start(client, "script-task", variables={"amount": 4, "a": 1, "b": 2}, awaitCompletion=True)
    assert done.variables.to_dict().items() >= {"amount": 4, "a": 1}.items()
    some = start(
        client, "script-task", variables={"amount": 4, "a": 1}, awaitCompletion=True, fetchVariables=["a", "none"]
    )
    assert some.variables.to_dict() == {"a": 1}


def test_an_instance_that_runs_on_is_told_as_a_timeout(client: Any, deploy: Callable[..., Any]) -> None:
    deploy("user-task")
    with pytest.raises(sdk.errors.ApiError) as caught:
        start(
            client, "user-task", variables={"owner": "ada", "remind_at": None}, awaitCompletion=True, requestTimeout=50
        )
    assert caught.value.status_code == 504
    assert "runs on" in caught.value.parsed.detail


def test_a_failure_becomes_an_incident_that_is_resolved_with_new_retries(
    client: Any, deploy: Callable[..., Any]
) -> None:
    deploy("service-task")
    key = start(client, "service-task").process_instance_key
    (job,) = client.search_jobs(data=within(key, "JobSearchQuery")).items
    client.fail_job(job.job_key, data=of("JobFailRequest", retries=0, errorMessage="no paper"))
    (incident,) = client.search_incidents(data=within(key, "IncidentSearchQuery")).items
    assert (incident.error_type.value, incident.state.value, incident.job_key) == (
        "JOB_NO_RETRIES",
        "ACTIVE",
        job.job_key,
    )
    assert client.get_process_instance(key).has_incident is True
    found = client.search_process_instances(data=of("ProcessInstanceSearchQuery", filter={"hasIncident": True}))
    assert key in {each.process_instance_key for each in found.items}
    assert client.get_incident(incident.incident_key).element_id == "work"
    client.update_job(job.job_key, data=of("JobUpdateRequest", changeset={"retries": 2}))
    client.create_element_instance_variables(
        sdk.ElementInstanceKey(str(key)), data=of("SetVariableRequest", variables={"paper": "A4"})
    )
    client.resolve_incident(incident.incident_key)
    open_jobs = of("JobSearchQuery", filter={"processInstanceKey": str(key), "state": "CREATED"})
    (job,) = until("the job is back", lambda: client.search_jobs(data=open_jobs).items)
    assert job.retries == 2
    client.throw_job_error(job.job_key, data=of("JobErrorRequest", errorCode="NO_INK", errorMessage="none left"))
    (incident,) = client.search_process_instance_incidents(
        sdk.ProcessInstanceKey(str(key)), data=of("IncidentSearchQuery", filter={"state": "ACTIVE"})
    ).items
    assert incident.error_type.value == "UNHANDLED_ERROR_EVENT"
    client.cancel_process_instance(key, data=of("CancelProcessInstanceRequest"))
    assert client.get_process_instance(key).state.value == "TERMINATED"
    with pytest.raises(sdk.errors.ApiError) as caught:
        client.cancel_process_instance(key, data=of("CancelProcessInstanceRequest"))
    assert caught.value.status_code == 404


def test_a_person_completes_a_user_task(client: Any, deploy: Callable[..., Any]) -> None:
    deploy("user-task")
    key = start(client, "user-task", variables={"owner": "ada", "remind_at": None}).process_instance_key
    (task,) = until(
        "the task is there", lambda: client.search_user_tasks(data=within(key, "UserTaskSearchQuery")).items
    )
    assert (task.name, task.assignee, task.priority, task.candidate_groups) == ("Approve", "ada", 70, ["clerks"])
    assert task.due_date.isoformat() == "2030-01-31T12:00:00+00:00"
    everywhere = client.search_user_tasks(data=of("UserTaskSearchQuery", filter={"assignee": "ada"}))
    assert task.user_task_key in {each.user_task_key for each in everywhere.items}
    seen = client.search_user_task_variables(task.user_task_key)
    assert {each.name for each in seen.items} == {"owner", "remind_at"}
    client.complete_user_task(task.user_task_key, data=of("UserTaskCompletionRequest", variables={"approved": True}))
    assert client.get_process_instance(key).state.value == "COMPLETED"
    assert client.get_user_task(task.user_task_key).state.value == "COMPLETED"
    with pytest.raises(sdk.errors.ApiError) as caught:
        client.complete_user_task(task.user_task_key)
    assert caught.value.status_code == 404


def test_messages_are_correlated_and_buffered(client: Any, deploy: Callable[..., Any]) -> None:
    deploy("message-catch")
    key = start(client, "message-catch", variables={"order_id": "o-1"}).process_instance_key
    (waiting,) = until(
        "it waits",
        lambda: client.search_message_subscriptions(data=within(key, "MessageSubscriptionSearchQuery")).items,
    )
    assert (waiting.element_id, waiting.message_subscription_state.value) == ("paid", "CREATED")
    message = {"name": waiting.message_name, "correlationKey": waiting.correlation_key, "variables": {"amount": 3}}
    with pytest.raises(sdk.errors.ApiError) as caught:
        client.correlate_message(data=of("MessageCorrelationRequest", **message | {"correlationKey": "another"}))
    assert caught.value.status_code == 404
    correlated = client.correlate_message(data=of("MessageCorrelationRequest", **message))
    assert correlated.process_instance_key == key
    published = client.publish_message(
        data=of("MessagePublicationRequest", **message | {"correlationKey": "o-2"}, timeToLive=60_000, messageId="m-1")
    )
    assert published.message_key
    late = start(client, "message-catch", variables={"order_id": "o-2"}).process_instance_key
    until("the buffered message arrives", lambda: client.search_jobs(data=within(late, "JobSearchQuery")).items)


def test_a_signal_reaches_whoever_waits(client: Any, deploy: Callable[..., Any], diagram: Diagram) -> None:
    deploy("signal-catch")
    key = start(client, "signal-catch").process_instance_key

    def waits() -> bool:
        elements = client.search_element_instances(data=within(key, "ElementInstanceSearchQuery")).items
        return any(each.type_.value == "INTERMEDIATE_CATCH_EVENT" for each in elements)

    until("it waits", waits)
    name = diagram("signal-catch").decode().split("<bpmn:signal ")[1].split('name="')[1].split('"')[0]
    assert client.broadcast_signal(data=of("SignalBroadcastRequest", signalName=name)).signal_key

    def caught() -> bool:
        elements = client.search_element_instances(data=within(key, "ElementInstanceSearchQuery")).items
        return any(
            each.type_.value == "INTERMEDIATE_CATCH_EVENT" and each.state.value == "COMPLETED" for each in elements
        )

    until("it was caught", caught)


def test_called_processes_are_child_instances(client: Any, deploy: Callable[..., Any]) -> None:
    deploy("call-activity")
    key = start(client, "call-activity", variables={"a": 1}).process_instance_key
    children = of("ProcessInstanceSearchQuery", filter={"parentProcessInstanceKey": str(key)})
    (child,) = until("it calls", lambda: client.search_process_instances(data=children).items)
    assert (child.process_definition_id, child.root_process_instance_key) == ("called-process", key)
    assert client.get_process_instance(child.process_instance_key).state.value == "ACTIVE"
    jobs = client.search_jobs(data=within(child.process_instance_key, "JobSearchQuery")).items
    assert [each.type_ for each in jobs] == ["called_work"]
    assert client.search_jobs(data=within(key, "JobSearchQuery")).items == []
    client.complete_job(jobs[0].job_key, data=of("JobCompletionRequest", variables={"b": 2}))
    assert client.get_process_instance(key).state.value == "COMPLETED"
    assert client.get_process_instance(child.process_instance_key).state.value == "COMPLETED"
    elements = client.search_element_instances(
        data=within(child.process_instance_key, "ElementInstanceSearchQuery")
    ).items
    assert {each.element_id for each in elements} >= {"called_started", "called_work", "called_ended"}


def test_deployed_processes_are_found_and_read_back(client: Any, deploy: Callable[..., Any], diagram: Diagram) -> None:
    (process,) = deploy("exclusive-gateway").processes
    query = of(
        "ProcessDefinitionSearchQuery", filter={"processDefinitionId": "exclusive-gateway", "isLatestVersion": True}
    )
    (found,) = client.search_process_definitions(data=query).items
    assert (found.process_definition_key, found.name) == (process.process_definition_key, "Exclusive gateway")
    assert client.get_process_definition(process.process_definition_key).resource_name == "exclusive-gateway.bpmn"
    assert client.get_process_definition_xml(process.process_definition_key).encode() == diagram("exclusive-gateway")


def test_an_expression_is_evaluated(client: Any) -> None:
    variables = models.ExpressionEvaluationRequestVariables.from_dict({"total": 10})
    answer = client.evaluate_expression(data=models.ExpressionEvaluationRequest("=total * 1.1", variables=variables))
    assert answer.result == 11
    with pytest.raises(sdk.errors.ApiError) as caught:
        client.evaluate_expression(data=models.ExpressionEvaluationRequest("=total *"))
    assert caught.value.status_code == 400


def test_a_worker_of_the_package_does_jobs_as_they_come(door: GatewayProcess, deploy: Callable[..., Any]) -> None:
    deploy("service-task")

    async def work() -> dict[str, Any]:
        async with sdk.CamundaAsyncClient(configuration={"CAMUNDA_REST_ADDRESS": door.url}) as client:
            config = sdk.WorkerConfig("work", job_timeout_milliseconds=30_000, request_timeout_milliseconds=5_000)

            async def handle(job: Any) -> dict[str, Any]:
                return {"doubled": 2 * job.variables.to_dict().get("number", 0)}

            client.create_job_worker(config, handle)
            running = asyncio.create_task(client.run_workers())
            try:
                data = of(
                    "ProcessCreationById",
                    processDefinitionId="service-task",
                    variables={"number": 21},
                    awaitCompletion=True,
                    requestTimeout=30_000,
                )
                result: dict[str, Any] = (await client.create_process_instance(data=data)).variables.to_dict()
                return result
            finally:
                running.cancel()
                await asyncio.wait([running])

    assert asyncio.run(work()) == {"number": 21, "doubled": 42}


def test_a_message_and_a_signal_start_what_is_deployed(client: Any, deploy: Callable[..., Any]) -> None:
    deploy("start-message", "start-signal")

    def instances(process_id: str) -> list[Any]:
        query = of("ProcessInstanceSearchQuery", filter={"processDefinitionId": process_id})
        return list(client.search_process_instances(data=query).items)

    message = of("MessageCorrelationRequest", name="order", correlationKey="", variables={"order": "o-9"})

    def correlated() -> Any:
        with suppress(sdk.errors.NotFoundError):  # the start events follow what is deployed a moment later
            return client.correlate_message(data=message)

    started = until("the message starts an instance", correlated)
    assert started.process_instance_key in {each.process_instance_key for each in instances("start-message")}
    client.broadcast_signal(data=of("SignalBroadcastRequest", signalName="opening", variables={}))
    until("the signal starts an instance", lambda: instances("start-signal"))


def test_a_decision_is_deployed_and_evaluated(client: Any, tmp_path: Path) -> None:
    file = HERE.parent / "diagrams" / "called" / "discount.dmn"
    deployed = client.deploy_resources_from_files([str(file)])
    (decision,) = deployed.decisions
    (requirements,) = deployed.decision_requirements
    assert decision.decision_requirements_key == requirements.decision_requirements_key
    (found,) = client.search_decision_definitions(
        data=of("DecisionDefinitionSearchQuery", filter={"decisionDefinitionId": decision.decision_definition_id})
    ).items
    assert found.decision_definition_key == decision.decision_definition_key
    assert client.get_decision_definition_xml(decision.decision_definition_key).encode() == file.read_bytes()
    evaluated = client.evaluate_decision(
        data=of(
            "DecisionEvaluationByID",
            decisionDefinitionId=decision.decision_definition_id,
            variables={"amount": 100},
        )
    )
    assert evaluated.decision_definition_key == decision.decision_definition_key
    assert evaluated.evaluated_decisions[-1].decision_definition_id == decision.decision_definition_id
    assert evaluated.output == "2.5"
    (rule,) = evaluated.evaluated_decisions[-1].matched_rules
    assert rule.rule_id == "large"
    nothing = client.evaluate_decision(
        data=of("DecisionEvaluationByID", decisionDefinitionId=decision.decision_definition_id, variables={})
    )
    assert "no variable 'amount'" in nothing.additional_properties["warnings"][0]["message"]


def test_elements_and_variables_of_nested_scopes_are_told_apart(client: Any, deploy: Callable[..., Any]) -> None:
    deploy("multi-instance-sub-process")
    key = start(client, "multi-instance-sub-process", variables={"items": ["a", "b"]}).process_instance_key
    (job,) = until("it picks", lambda: client.search_jobs(data=within(key, "JobSearchQuery")).items)
    assert job.type_ == "pick"

    def elements() -> dict[tuple[str, str], Any]:
        found = client.search_element_instances(data=within(key, "ElementInstanceSearchQuery")).items
        return {(each.element_id, each.type_.value): each for each in found}

    seen = elements()
    body, inner = seen["each_item", "MULTI_INSTANCE_BODY"], seen["each_item", "SUB_PROCESS"]
    assert (body.state.value, inner.state.value) == ("ACTIVE", "ACTIVE")
    assert seen["pick", "SERVICE_TASK"].element_instance_key == job.element_instance_key
    inside = of("ElementInstanceSearchQuery", filter={"elementInstanceScopeKey": str(inner.element_instance_key)})
    found = client.search_element_instances(data=inside).items
    assert {each.element_id for each in found} == {"each_started", "pick"}
    variables = client.search_variables(data=within(key, "VariableSearchQuery")).items
    values = {(each.name, each.scope_key): each.value for each in variables}
    assert values["items", key] == '["a","b"]'
    (scope,) = [each.scope_key for each in variables if each.name == "item"]
    assert scope in (body.element_instance_key, inner.element_instance_key)
    evaluated = client.evaluate_expression(
        data=models.ExpressionEvaluationRequest("=item", scope_key=job.element_instance_key)
    )
    assert evaluated.result == "a"
    client.cancel_process_instance(key, data=of("CancelProcessInstanceRequest"))
    assert {each.state.value for each in elements().values()} == {"TERMINATED", "COMPLETED"}


def test_a_user_task_of_the_older_kind_is_a_user_task_too(client: Any, deploy: Callable[..., Any]) -> None:
    deploy("user-task-job")
    key = start(client, "user-task-job").process_instance_key
    (task,) = until(
        "the task is there", lambda: client.search_user_tasks(data=within(key, "UserTaskSearchQuery")).items
    )
    assert client.search_jobs(data=within(key, "JobSearchQuery")).items == []
    client.complete_user_task(task.user_task_key, data=of("UserTaskCompletionRequest"))
    assert client.get_process_instance(key).state.value == "COMPLETED"
    assert client.search_jobs(data=within(key, "JobSearchQuery")).items == []
