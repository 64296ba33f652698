"""Owns the proof that what operators and analysts read is complete, consistent and bounded.
Never reads the gateway's memory: HTTP on one side, SQL on the other.
Called by pytest.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import re
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.gateway_fixtures import GatewayProcess, samples, until
from tests.system.bodies import INFER, prompt, texts
from tests.system.load import connected

pytestmark = [pytest.mark.postgres, pytest.mark.triton]

_MICROSECONDS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z\Z")
_PROCESSES = Path(__file__).parents[2] / "processes"


def test_health_says_what_is_so(gateway: GatewayProcess) -> None:
    assert gateway.get("/v2/health/live").json() == {"live": True}
    assert gateway.get("/v2/health/ready").json() == {"ready": True, "reasons": []}
    assert gateway.get("/v2/models/embed/ready").status_code == 200
    assert gateway.get("/v2").json()["name"] == "conch"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/process-instances/12345", 404),
        ("/process-instances/9223372036854775807", 404),
        ("/process-instances/9223372036854775808", 400),
        ("/process-instances/not-a-key", 400),
        ("/process-instances/-1", 400),
        ("/process-definitions/1/xml", 404),
        ("/v2/models/none-such/ready", 404),
    ],
)
def test_what_is_not_there_is_a_problem_document(gateway: GatewayProcess, path: str, status: int) -> None:
    answer = gateway.get(path)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    document = answer.json()
    assert (document["status"], document["instance"]) == (status, path)
    assert document["title"]
    assert document["detail"]


def test_the_serving_definition_is_the_file_of_the_processes_folder(gateway: GatewayProcess) -> None:
    (definition,) = gateway.get("/process-definitions").json()["items"]
    file = (_PROCESSES / definition["resourceName"]).read_bytes()
    assert (definition["processDefinitionId"], definition["version"]) == ("inference-request", 1)
    assert definition["serving"] is True
    assert definition["contentHash"] == hashlib.sha256(file).hexdigest()
    answer = gateway.get(f"/process-definitions/{definition['processDefinitionKey']}/xml")
    assert (answer.status_code, answer.content) == (200, file)


def test_the_openapi_document_lists_every_route(gateway: GatewayProcess) -> None:
    document = gateway.get("/openapi.json").json()
    operations = {
        (method, path)
        for path, item in document["paths"].items()
        for method, said in item.items()
        if said["tags"] != ["Camunda 8"]  # those are held to their guide
    }
    wanted = {("post", f"/v2/models/{{model}}/{verb}") for verb in ("infer", "generate", "generate_stream")}
    wanted |= {(method, path.replace("{model}", "{model}/versions/{version}")) for method, path in wanted}
    wanted |= {
        ("get", path)
        for path in (
            "/v2",
            "/v2/health/live",
            "/v2/health/ready",
            "/v2/models/{model}/ready",
            "/metrics",
            "/process-definitions",
            "/process-definitions/{key}/xml",
            "/process-instances/{key}",
        )
    }
    assert operations == wanted
    infer = document["paths"]["/v2/models/{model}/infer"]["post"]
    assert {"Conch-Tenant", "Conch-Deadline-Ms"} <= {each["name"] for each in infer["parameters"]}
    assert {"200", "400", "404", "413", "429", "500", "503", "504"} == set(infer["responses"])
    assert document["components"]["schemas"]["InferenceError"]["required"] == ["error", "code"]
    assert gateway.get("/docs").status_code == 200


def as_http(value: Any) -> Any:
    """A value of a view in the form that the API gives it."""
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    if isinstance(value, (Decimal, UUID)):
        return str(value)
    if isinstance(value, dict):
        return {name: as_http(item) for name, item in value.items()}
    return [as_http(item) for item in value] if isinstance(value, list) else value


_COUNTED = ("steps", "attempts")  # numbers in `audit.requests`, lists in the API


def assert_same(document: dict[str, Any], row: dict[str, Any], renamed: dict[str, str]) -> None:
    """Every field that both the API and the view have says the same."""
    compared = 0
    for column, value in row.items():
        name = renamed.get(column, column)
        if name in document and column not in _COUNTED:
            given = document[name]
            assert str(given) == str(as_http(value)) if name.endswith("_key") else given == as_http(value), name
            compared += 1
    assert compared >= 6


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (INFER, texts("everything about one request")),
        ("/v2/models/chat/generate_stream", {"text_input": "tokens and money", "max_tokens": 5}),
        ("/v2/models/faulty/infer", texts("retried", fault="unavailable")),
        ("/v2/models/faulty-stream/generate", prompt(fault="error", fail_after_tokens=0)),
    ],
    ids=["infer", "stream", "failed", "fell-back"],
)
def test_a_process_instance_is_told_completely_and_as_the_views_tell_it(
    gateway: GatewayProcess, path: str, body: dict[str, Any]
) -> None:
    answer = gateway.post(path, body)
    key = answer.headers["conch-process-instance"]
    audit, document = gateway.audit, gateway.get(f"/process-instances/{key}").json()
    request = audit.request(key)
    assert_same(document, request, {"error_message": "message"})
    assert document["tags"]["tenant"] == request["tenant"]
    for name, rows in (
        ("steps", audit.steps(key)),
        ("attempts", audit.attempts(key)),
        ("decisions", audit.decisions(key)),
        ("usage", audit.usage(key)),
    ):
        assert len(document[name]) == len(rows), name
        for told, row in zip(document[name], rows, strict=True):
            assert_same(told, row, {"error_message": "message"})
    instants = [value for step in document["steps"] for name, value in step.items() if name.endswith("_at") and value]
    instants += [
        value for each in document["attempts"] for name, value in each.items() if name.endswith("_at") and value
    ]
    assert all(_MICROSECONDS.match(each) for each in [*instants, document["started_at"], document["ended_at"]])
    assert len(instants) > 10
    assert any(not each.endswith("000Z") for each in instants)
    facts = sorted(each["position"] for name in ("steps", "attempts", "decisions", "usage") for each in document[name])
    assert facts == list(range(2, len(facts) + 2))  # 1 is the start; the end comes last
    assert document["commands"][0]["command"] == "Start"


def test_a_step_names_the_variables_that_it_changed_and_the_flows_that_were_taken(gateway: GatewayProcess) -> None:
    key = gateway.post(INFER, texts("a b c")).headers["conch-process-instance"]
    steps = {each["element_id"]: each for each in gateway.get(f"/process-instances/{key}").json()["steps"]}
    names = ["request_received", "admit", "check_health", "route", "infer", "settle", "succeeded", "answered"]
    assert list(steps) == names
    assert steps["route"]["variables"]["replica"] == gateway.audit.request(key)["answered_by_replica"]
    assert steps["infer"]["variables"]["usage"] == {"input_tokens": 3, "output_tokens": 0, "estimated": False}
    assert steps["succeeded"]["taken_flow_ids"] == ["succeeded_yes"]
    assert steps["infer"]["job_queued_at"] <= steps["infer"]["job_started_at"] <= steps["infer"]["job_finished_at"]
    assert steps["infer"]["duration_us"] > 0


def test_usage_is_priced_exactly(gateway: GatewayProcess) -> None:
    answer = gateway.post("/v2/models/chat/generate", prompt("one two three", max_tokens=4))
    key = answer.headers["conch-process-instance"]
    lines = {line["sku"]: line for line in gateway.audit.usage(key)}
    assert (lines["input_tokens"]["quantity"], lines["output_tokens"]["quantity"]) == (3, 4)
    assert lines["input_tokens"]["cost_usd"] == Decimal("0.000003")
    assert lines["output_tokens"]["cost_usd"] == Decimal("0.000008")
    assert gateway.audit.request(key)["cost_usd"] == Decimal("0.000011")


def test_an_unknown_price_is_null_and_flagged_never_zero(gateway: GatewayProcess) -> None:
    key = gateway.post("/v2/models/chat-small/generate", prompt()).headers["conch-process-instance"]
    request = gateway.audit.request(key)
    assert (request["cost_usd"], request["unpriced_usage"]) == (None, 2)


def test_metrics_parse_and_their_labels_stay_bounded_under_a_thousand_names(gateway: GatewayProcess) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    names = [f"model-{dice.getrandbits(64):x}" for _ in range(1_000)]

    async def ask_all() -> set[int]:
        async def ask(some: list[str]) -> set[int]:
            async with connected(gateway.url) as connection:
                return {(await connection.post(f"/v2/models/{name}/infer", texts("a"))).status for name in some}

        return set().union(*await asyncio.gather(*(ask(names[at::8]) for at in range(8))))

    assert asyncio.run(ask_all()) == {404}
    text = gateway.get("/metrics").text
    families = list(text_string_to_metric_families(text))
    assert all(family.documentation for family in families)
    per_model = [labels["model"] for labels, _ in samples(text, "conch_requests_total")]
    assert "other" in per_model
    assert len(set(per_model)) <= 201
    assert sum(len(family.samples) for family in families) < 2_000
    listed = {family.name: [sorted(each.labels) for each in family.samples] for family in families}
    assert {"conch_requests", "conch_steps", "conch_attempts", "conch_replica_up", "conch_journal_available"} <= set(
        listed
    )


def test_metrics_count_what_the_audit_counts(gateway: GatewayProcess) -> None:
    def counted() -> dict[str, float]:
        text = gateway.get("/metrics").text
        ok = [v for labels, v in samples(text, "conch_requests_total") if labels["outcome"] == "ok"]
        infer = [v for labels, v in samples(text, "conch_steps_total") if labels["element"] == "infer"]
        return {
            "ok": sum(ok),
            "infer": sum(infer),
            "attempts": sum(v for _, v in samples(text, "conch_attempts_total")),
        }

    before = counted()
    for _ in range(10):
        assert gateway.post(INFER, texts("count me")).status_code == 200
    assert counted() == {name: value + 10 for name, value in before.items()}
    (active,) = samples(gateway.get("/metrics").text, "conch_instances_active")
    assert active[1] == 0


def test_the_journal_and_the_times_are_measured(gateway: GatewayProcess) -> None:
    def measured() -> dict[str, float]:
        names = (
            *("conch_journal_available", "conch_journal_rows_total", "conch_journal_batches_total"),
            *("conch_journal_commit_seconds_count", "conch_journal_buffered_rows"),
            *("conch_request_duration_seconds_count", "conch_request_overhead_seconds_count"),
            *("conch_request_duration_seconds_sum", "conch_request_overhead_seconds_sum"),
            "conch_time_to_first_token_seconds_count",
        )
        text = gateway.get("/metrics").text
        return {name: sum(value for _, value in samples(text, name)) for name in names}

    rows, before = gateway.audit.count("record"), measured()
    answer = gateway.post("/v2/models/chat/generate_stream", {"text_input": "a", "delay_ms": 10})
    after = {name: value - before[name] for name, value in measured().items()}
    assert before["conch_journal_available"] == 1
    assert before["conch_journal_buffered_rows"] == 0
    assert after["conch_journal_rows_total"] == gateway.audit.count("record") - rows
    assert after["conch_journal_batches_total"] == after["conch_journal_commit_seconds_count"] >= 2
    assert after["conch_request_duration_seconds_count"] == after["conch_request_overhead_seconds_count"] == 1
    assert after["conch_time_to_first_token_seconds_count"] == 1
    (attempt,) = gateway.audit.attempts(answer.headers["conch-process-instance"])
    model_s = (attempt["done_at"] - attempt["sent_at"]).total_seconds()
    ours_s = after["conch_request_overhead_seconds_sum"]
    assert ours_s == pytest.approx(after["conch_request_duration_seconds_sum"] - model_s, abs=1e-5)


def test_the_log_holds_lines_of_json_and_no_payload(gateway: GatewayProcess) -> None:
    gateway.post(INFER, texts("a secret that nobody may log"))
    gateway.post("/v2/models/faulty/infer", texts("a secret that nobody may log", fault="error"))
    until("the log has grown", lambda: gateway.log)
    assert "a secret" not in gateway.log
    for line in gateway.log.splitlines():
        if not line.startswith("conch: "):
            assert {"at", "level", "logger", "event"} <= json.loads(line).keys()
