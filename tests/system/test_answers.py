"""Owns the proof that the gateway answers as Triton answers, for what succeeds and for what fails.
Never compares with a recorded answer: the same request goes to the server's own HTTP face.
Called by pytest.
"""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
import numpy as np
import pytest
import tritonclient.http as triton_http

from tests.gateway_fixtures import GatewayProcess
from tests.system.bodies import INFER, prompt, tensor, texts
from tests.triton_fixtures import TritonServer

pytestmark = [pytest.mark.postgres, pytest.mark.triton]

Pair = tuple[TritonServer, TritonServer]


def straight(server: TritonServer, path: str, body: Any) -> httpx.Response:
    return httpx.post(server.http_url + path, json=body, timeout=60)


def events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line.removeprefix("data: ")) for line in text.splitlines() if line]


def words_of(answer: httpx.Response) -> str:
    """An error's text. The server quotes the request id, which between us and it is our own."""
    text: str = answer.json()["error"]
    return re.sub(r"\[request id: \S+\] ", "", text)


@pytest.mark.parametrize(
    "body",
    [
        texts("one text"),
        texts("two", "rows of three words"),
        texts("naïve 漢字 \N{SPIRAL SHELL}"),
        {"id": "my-own-id", **texts("with an id")},
        {**texts("one output"), "outputs": [{"name": "input_tokens"}]},
        {"inputs": [{"name": "text", "datatype": "BYTES", "shape": [2, 1], "data": [["nested"], ["rows"]]}]},
        {**texts("a timeout"), "parameters": {"timeout": 5_000_000, "priority": 0}},
    ],
    ids=["one", "batch", "unicode", "id", "outputs", "nested", "parameters"],
)
@pytest.mark.parametrize("path", [INFER, "/v2/models/embed/versions/1/infer"])
def test_infer_answers_as_triton_does(gateway: GatewayProcess, triton_pair: Pair, path: str, body: Any) -> None:
    ours, theirs = gateway.post(path, body), straight(triton_pair[0], path, body)
    assert (ours.status_code, ours.headers["content-type"]) == (200, "application/json")
    assert ours.json() == theirs.json()
    assert list(ours.json()) == list(theirs.json())


def test_an_answer_names_its_process_instance_its_replica_and_its_attempts(
    gateway: GatewayProcess, triton_pair: Pair
) -> None:
    answer = gateway.post(INFER, texts("who answers"))
    request = gateway.audit.request(answer.headers["conch-process-instance"])
    assert str(request["request_id"]) == answer.headers["conch-request-id"]
    assert request["answered_by_replica"] == answer.headers["conch-replica"]
    assert answer.headers["conch-replica"] in {each.name for each in triton_pair}
    assert answer.headers["conch-attempts"] == "1" == str(request["attempts"])
    assert request["succeeded"]
    assert not request["incomplete"]


@pytest.mark.parametrize("model", ["chat", "chat-small"])
def test_generate_answers_as_triton_does(gateway: GatewayProcess, triton_pair: Pair, model: str) -> None:
    path, body = f"/v2/models/{model}/generate", prompt(max_tokens=7)
    ours, theirs = gateway.post(path, body), straight(triton_pair[0], path, body)
    assert (ours.status_code, ours.json()) == (200, theirs.json())


def test_a_stream_has_the_events_that_triton_sends(gateway: GatewayProcess, triton_pair: Pair) -> None:
    path, body = "/v2/models/chat/generate_stream", {"text_input": "waves", "max_tokens": 6}
    ours, theirs = gateway.post(path, body), straight(triton_pair[0], path, body)
    assert ours.status_code == 200
    assert ours.headers["content-type"].partition(";")[0] == theirs.headers["content-type"].partition(";")[0]
    assert events(ours.text) == events(theirs.text)
    assert len(events(ours.text)) == 6


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v2/models/faulty/infer", texts("a", fault="invalid")),
        ("/v2/models/faulty/infer", texts("a", fault="unavailable")),
        ("/v2/models/faulty/infer", texts("a", fault="error")),
        ("/v2/models/embed/infer", {"inputs": [tensor("words", "BYTES", ["a"])]}),
        ("/v2/models/embed/infer", {"inputs": [tensor("text", "INT32", [1])]}),
        ("/v2/models/embed/infer", texts(*["more than max_batch_size"] * 9)),
        ("/v2/models/embed/infer", {**texts("a"), "outputs": [{"name": "none such"}]}),
        ("/v2/models/embed/versions/9/infer", texts("a")),
        ("/v2/models/chat/versions/9/generate", prompt()),
    ],
    ids=["invalid", "unavailable", "error", "name", "datatype", "batch", "output", "version", "chat-version"],
)
def test_an_error_has_the_words_and_the_status_of_triton(
    gateway: GatewayProcess, triton_pair: Pair, path: str, body: Any
) -> None:
    ours, theirs = gateway.post(path, body), straight(triton_pair[0], path, body)
    assert ours.status_code == theirs.status_code
    assert words_of(ours) == words_of(theirs)
    request = gateway.audit.request(ours.headers["conch-process-instance"])
    assert (request["http_status"], request["error_code"]) == (ours.status_code, ours.json()["code"])
    assert gateway.audit.broken([request["process_instance_key"]]) == []


def test_a_stream_that_cannot_begin_is_a_plain_error(gateway: GatewayProcess) -> None:
    answer = gateway.post("/v2/models/chat/generate_stream", {"text_input": "a", "max_tokens": 0})
    assert answer.status_code >= 400
    assert "max_tokens must be 1 to 4096, got 0" in answer.json()["error"]


def test_the_client_library_of_triton_works_against_the_gateway(gateway: GatewayProcess) -> None:
    with triton_http.InferenceServerClient(gateway.url.removeprefix("http://")) as client:
        assert client.is_server_live()
        assert client.is_server_ready()
        assert client.is_model_ready("embed")
        assert client.get_server_metadata()["name"] == "conch"
        text = triton_http.InferInput("text", [1, 1], "BYTES")
        text.set_data_from_numpy(np.array([["a client library"]], dtype=np.object_), binary_data=False)
        wanted = [triton_http.InferRequestedOutput(name, binary_data=False) for name in ("embedding", "input_tokens")]
        result = client.infer("embed", [text], outputs=wanted, request_id="7")
        assert result.as_numpy("embedding").shape == (1, 8)
        assert result.as_numpy("input_tokens").tolist() == [[3]]
        assert result.get_response()["id"] == "7"
