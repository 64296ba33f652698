"""Owns the proof that a bad request gets every reason at once, leaves its row in the audit and changes nothing else.
Never repeats what the units of parsing prove case by case.
Called by pytest.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.gateway_fixtures import GatewayProcess, samples
from tests.system.bodies import INFER, prompt, tensor, texts

pytestmark = [pytest.mark.postgres, pytest.mark.triton]


def send(
    gateway: GatewayProcess, body: bytes | Iterator[bytes], headers: dict[str, str] | None = None, path: str = INFER
) -> tuple[int, dict[str, str], dict[str, Any]]:
    """One POST as bytes; an iterator is sent in chunks."""
    connection = http.client.HTTPConnection(gateway.url.removeprefix("http://"), timeout=60)
    try:
        connection.request("POST", path, body, headers or {}, encode_chunked=isinstance(body, Iterator))
        answer = connection.getresponse()
        named = {name.lower(): value for name, value in answer.getheaders()}
        return answer.status, named, json.loads(answer.read())
    finally:
        connection.close()


def expect_refusal(
    gateway: GatewayProcess, answer: tuple[int, dict[str, str], dict[str, Any]], status: int, code: str
) -> dict[str, Any]:
    """The answer is that refusal, it has one row, and no process instance began for it."""
    got, headers, document = answer
    assert (got, document["code"]) == (status, code)
    assert document["error"]
    assert "conch-process-instance" not in headers
    row = gateway.audit.refusal(headers["conch-request-id"])
    assert (row["http_status"], row["error_code"], row["refusals"]) == (status, code, 1)
    assert row["error_message"] == document["error"][:500]
    begun = "SELECT * FROM audit.requests WHERE request_id = %s"
    assert gateway.audit.ask(begun, headers["conch-request-id"]) == []
    return document


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"inputs": [', "line 1, column"),
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b'{"inputs": NaN}', "not JSON"),
    ],
)
def test_malformed_json_is_refused_with_the_place(gateway: GatewayProcess, body: bytes, words: str) -> None:
    document = expect_refusal(gateway, send(gateway, body), 400, "MALFORMED_JSON")
    assert words in document["error"]


def test_a_body_that_is_no_object_is_refused(gateway: GatewayProcess) -> None:
    expect_refusal(gateway, send(gateway, b"[1, 2]"), 400, "INVALID_ARGUMENT")


def test_every_problem_of_a_body_is_named_at_once(gateway: GatewayProcess) -> None:
    body = {
        "id": 7,
        "inputs": [
            {"name": "text", "datatype": "TEXT", "shape": [1, 1], "data": ["a"]},
            {"name": "more", "datatype": "BYTES", "shape": [3, 1], "data": ["a"]},
            {"name": "ragged", "datatype": "INT32", "shape": [3], "data": [[1, 2], [3]]},
            {"name": "", "datatype": "INT32", "shape": [-1], "data": None},
        ],
        "outputs": [{}],
    }
    document = expect_refusal(gateway, send(gateway, json.dumps(body).encode()), 400, "INVALID_ARGUMENT")
    for word in (
        "`id`",
        "inputs[0].datatype",
        "inputs[1]",
        "inputs[2]",
        "inputs[3].name",
        "inputs[3].shape",
        "outputs[0]",
    ):
        assert any(word in problem for problem in document["problems"]), word


def test_values_that_do_not_fit_their_datatype_are_refused_before_any_replica(gateway: GatewayProcess) -> None:
    body = {"inputs": [tensor("a", "INT8", [1, 400]), tensor("b", "BYTES", [1]), tensor("c", "BOOL", ["yes"])]}
    answer = gateway.post(INFER, body)
    assert (answer.status_code, answer.json()["code"]) == (400, "INPUT_REFUSED")
    assert all(f"`{name}`" in answer.json()["error"] for name in "abc")
    request = gateway.audit.request(answer.headers["conch-process-instance"])
    assert (request["state"], request["attempts"], request["end_element_id"]) == ("completed", 0, "refused")


@pytest.mark.parametrize("operation", ["infer", "generate", "generate_stream"])
def test_an_unknown_model_is_not_found_and_has_its_rows(gateway: GatewayProcess, operation: str) -> None:
    body = texts("a") if operation == "infer" else prompt()
    answer = gateway.post(f"/v2/models/none-such/{operation}", body)
    assert (answer.status_code, answer.json()["code"]) == (404, "MODEL_NOT_FOUND")
    assert "none-such" in answer.json()["error"]
    request = gateway.audit.request(answer.headers["conch-process-instance"])
    assert (request["error_code"], request["http_status"], request["attempts"]) == ("MODEL_NOT_FOUND", 404, 0)
    assert request["model"] == "none-such"
    assert gateway.audit.broken([request["process_instance_key"]]) == []


LIMIT = 16 * 1024 * 1024


def test_an_announced_oversized_body_is_refused_unread(gateway: GatewayProcess) -> None:
    connection = http.client.HTTPConnection(gateway.url.removeprefix("http://"), timeout=60)
    connection.putrequest("POST", INFER)
    connection.putheader("Content-Length", str(LIMIT + 1))
    connection.endheaders()
    answer = connection.getresponse()  # although not one byte of the body was sent
    named = {name.lower(): value for name, value in answer.getheaders()}
    document = expect_refusal(gateway, (answer.status, named, json.loads(answer.read())), 413, "BODY_TOO_LARGE")
    connection.close()
    assert f"server.max_body_bytes is {LIMIT}" in document["error"]
    assert named["connection"] == "close"


def test_an_oversized_body_in_chunks_is_refused_at_the_limit(gateway: GatewayProcess) -> None:
    sent = 0

    def endless() -> Iterator[bytes]:
        nonlocal sent
        while sent <= LIMIT:
            sent += 1024 * 1024
            yield b" " * (1024 * 1024)

    expect_refusal(gateway, send(gateway, endless()), 413, "BODY_TOO_LARGE")
    assert gateway.post(INFER, texts("the next request is served")).status_code == 200


def test_every_bad_value_of_our_headers_is_named_at_once(gateway: GatewayProcess) -> None:
    headers = {
        "Conch-Tenant": "not a name",
        "Conch-Product": "-",
        "Conch-Feature": "a" * 64,
        "Conch-Priority": "urgent",
        "Conch-Deadline-Ms": "soon",
    }
    document = expect_refusal(gateway, send(gateway, json.dumps(texts("a")).encode(), headers), 400, "INVALID_HEADER")
    assert sorted(problem.split()[0] for problem in document["problems"]) == sorted(headers)


def test_headers_that_are_not_ours_are_ignored(gateway: GatewayProcess) -> None:
    headers = {"Conch-Colour": "blue", "X-Tenant": "someone", "Inference-Header-Content-Length": "12"}
    answer = gateway.post(INFER, texts("ignore them"), headers)
    assert answer.status_code == 200
    request = gateway.audit.request(answer.headers["conch-process-instance"])
    assert (request["tenant"], request["product"], request["feature"]) == ("default", "none", "none")


def test_our_headers_are_in_every_row_of_a_request(gateway: GatewayProcess) -> None:
    headers = {
        "Conch-Tenant": "acme",
        "Conch-Product": "search",
        "Conch-Feature": "autocomplete",
        "Conch-Priority": "high",
        "Conch-Deadline-Ms": "12345",
    }
    key = gateway.post(INFER, texts("whose is it"), headers).headers["conch-process-instance"]
    query = (
        "SELECT DISTINCT tenant, product, feature, priority, deadline_ms FROM record WHERE process_instance_key = %s"
    )
    (row,) = gateway.audit.ask(query, int(key))
    assert list(row.values()) == [*list(headers.values())[:4], 12345]


@pytest.mark.parametrize("path", [INFER, "/v2/models/chat/generate", "/v2/models/chat/generate_stream"])
def test_inference_is_posted(gateway: GatewayProcess, path: str) -> None:
    answer = gateway.get(path)
    assert answer.status_code == 405
    assert "POST" in answer.headers["allow"]


def test_a_refusal_is_counted_and_takes_nothing_with_it(gateway: GatewayProcess) -> None:
    def measured() -> tuple[float, float, int]:
        text = gateway.get("/metrics").text
        refusals = {labels["code"]: value for labels, value in samples(text, "conch_refusals_total")}
        ((_, active),) = samples(text, "conch_instances_active")
        return refusals.get("MALFORMED_JSON", 0.0), active, gateway.audit.count("audit.requests")

    before = measured()
    for _ in range(5):
        expect_refusal(gateway, send(gateway, b"{"), 400, "MALFORMED_JSON")
    assert measured() == (before[0] + 5, before[1], before[2])
