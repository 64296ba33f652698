"""Bodies of Camunda 8 requests: what is read, and that every problem of a wrong one is named at once."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import httpx
import pytest
from fastapi import APIRouter, FastAPI, Request
from starlette.responses import Response

from engine.api.camunda.answers import json_answer
from engine.api.camunda.jobs import Activation, Completion
from engine.api.camunda.problems import CamundaRoute, nothing_there
from engine.api.camunda.process_instances import Creation
from engine.api.camunda.reading import Body, key_in_path, read_json, validated
from engine.errors import Code, DefinitionInvalid, Problem, Rejected

LIMIT = 1_000


def application() -> FastAPI:
    app = FastAPI()
    app.state.max_body_bytes = LIMIT
    router = APIRouter(prefix="/v2", route_class=CamundaRoute)

    @router.post("/echo")
    async def echo(request: Request) -> Response:
        return json_answer((await read_json(request, Completion)).variables)

    @router.get("/topology")
    async def topology(request: Request) -> Response:
        return json_answer({})

    @router.get("/key/{key}")
    async def key(request: Request) -> Response:
        return json_answer(key_in_path(request, "key"))

    @router.get("/broken/{how}")
    async def broken(request: Request) -> Response:
        how = request.path_params["how"]
        if how == "definition":
            raise DefinitionInvalid(
                [
                    Problem("a.bpmn", "t1", "Do it", "unknown-topic", "nobody", "Name a topic."),
                    Problem("b.bpmn", "", "", "r", "m", "x"),
                ]
            )
        if how == "bug":
            raise ZeroDivisionError("with a secret")
        raise Rejected(Code(how), "told", retry_after_ms=1500)

    app.include_router(router)
    for status in (404, 405):
        app.add_exception_handler(status, nothing_there)
    return app


def call(method: str, path: str, **how: Any) -> httpx.Response:
    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(application(), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://conch") as client:
            return await client.request(method, path, **how)

    return asyncio.run(ask())


def test_numbers_keep_every_digit() -> None:
    text = b'{"variables": {"price": 0.1000000000000000055511151231257827, "big": 123456789012345678901234567890}}'
    answer = call("POST", "/v2/echo", content=text)
    assert answer.content == b'{"big":123456789012345678901234567890,"price":0.1000000000000000055511151231257827}'


@pytest.mark.parametrize("body", [b"", b"  ", b"null", b"{}"])
def test_an_absent_body_is_an_empty_object(body: bytes) -> None:
    assert call("POST", "/v2/echo", content=body).json() is None


@pytest.mark.parametrize(
    ("body", "part"),
    [
        (b'{"variables": {', "line 1, column 16"),
        (b'{"variables": {"a": NaN}}', "NaN is not a number of JSON"),
        (b'{"variables": {"a": 1e999999}}', "1e999999 is larger or smaller than any number here"),
        (b'{"variables": {"a": ' + b"9" * 5_00 + b"." + b"9" * 400 + b"e7000}}", "larger or smaller"),
        (b"\xff{}", "not UTF-8"),
        (b"[" * 70 + b"]" * 70, "nested too deeply"),
        (b'{"a":' * 100 + b"1" + b"}" * 100, "nested too deeply"),
    ],
)
def test_a_body_that_is_no_json_is_refused_with_its_place(body: bytes, part: str) -> None:
    answer = call("POST", "/v2/echo", content=body)
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["title"] == "INVALID_ARGUMENT"
    assert part in answer.json()["detail"]


def test_a_body_over_the_limit_is_refused() -> None:
    answer = call("POST", "/v2/echo", content=b" " * (LIMIT + 1))
    assert answer.status_code == 413
    assert "server.max_body_bytes is 1000" in answer.json()["detail"]


def problems(document: object, model: type[Body]) -> list[str]:
    with pytest.raises(Rejected) as caught:
        validated(document, model)
    return caught.value.message.split("\n")


def test_every_wrong_field_is_named_and_unknown_ones_are_passed_over() -> None:
    assert problems({"timeout": "soon", "maxJobsToActivate": [], "tenantIds": ["other"], "new": 1}, Activation) == [
        "type is missing",
        "timeout must be a whole number",
        "maxJobsToActivate must be a whole number",
        "tenantIds[0] must be `<default>`: tenants of Camunda 8 clients are not configured",
    ]
    assert problems({"processDefinitionKey": "12x", "variables": [1], "startInstructions": [{}]}, Creation) == [
        "processDefinitionKey must be a key: a decimal string below 2^63",
        "variables must be a JSON object",
        "startInstructions[0].elementId is missing",
    ]
    assert problems([], Creation) == ["the body must be a JSON object"]


@pytest.mark.parametrize("key", ["12", 12])
def test_a_key_is_a_decimal_string_or_a_number(key: object) -> None:
    assert validated({"processDefinitionKey": key}, Creation).process_definition_key == 12


@pytest.mark.parametrize("key", ["-1", "0", "x", "9223372036854775808", "1.5", "%C2%B2"])
def test_a_key_in_a_path_that_is_none_is_refused(key: str) -> None:
    answer = call("GET", f"/v2/key/{key}")
    assert answer.status_code == 400
    assert "must be a key" in answer.json()["detail"]


def test_a_problem_document_is_compact_and_has_one_line_for_each_problem() -> None:
    answer = call("GET", "/v2/broken/definition")
    assert answer.content == (
        b'{"type":"about:blank","title":"INVALID_ARGUMENT","status":400,'
        b'"detail":"a.bpmn: t1 \\"Do it\\": error: nobody [unknown-topic] Name a topic.\\nb.bpmn: error: m [r] x",'
        b'"instance":"/v2/broken/definition"}'
    )
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.reason_phrase == "Bad Request"


@pytest.mark.parametrize(
    ("code", "status", "title"),
    [
        (Code.NOT_FOUND, 404, "NOT_FOUND"),
        (Code.STALE, 409, "INVALID_STATE"),
        (Code.OVERLOADED, 503, "RESOURCE_EXHAUSTED"),
        (Code.JOURNAL_UNAVAILABLE, 503, "UNAVAILABLE"),
        (Code.DEADLINE_EXCEEDED, 504, "DEADLINE_EXCEEDED"),
        (Code.UNSUPPORTED, 501, "UNSUPPORTED"),
    ],
)
def test_a_refusal_has_camundas_status_and_title(code: Code, status: int, title: str) -> None:
    answer = call("GET", f"/v2/broken/{code}")
    assert (answer.status_code, answer.json()["title"], answer.json()["detail"]) == (status, title, "told")
    assert answer.headers["retry-after"] == "2"


def test_a_fault_is_told_without_its_text() -> None:
    answer = call("GET", "/v2/broken/bug")
    assert (answer.status_code, answer.json()["title"]) == (500, "INTERNAL_ERROR")
    assert "secret" not in answer.text


def test_an_empty_authorization_header_counts_as_none_and_any_other_is_refused() -> None:
    assert call("GET", "/v2/key/1", headers={"authorization": ""}).status_code == 200
    for credentials in ("Basic ZGVtbzpkZW1v", "Bearer x"):
        refused = call("GET", "/v2/key/1", headers={"authorization": credentials})
        assert (refused.status_code, refused.reason_phrase) == (401, "Unauthorized")
        assert "authentication is not configured" in refused.json()["detail"]
        assert call("GET", "/v2/topology", headers={"authorization": credentials}).status_code == 200


def test_a_path_that_nothing_answers_is_named() -> None:
    answer = call("POST", "/v2/batch-operations/search")
    assert answer.status_code == 404
    assert answer.json() == {
        "type": "about:blank",
        "title": "NOT_FOUND",
        "status": 404,
        "detail": "nothing answers POST /v2/batch-operations/search",
        "instance": "/v2/batch-operations/search",
    }
    wrong_method = call("DELETE", "/v2/topology")
    assert (wrong_method.status_code, wrong_method.headers["allow"]) == (405, "GET")


def test_an_exact_decimal_survives_validation() -> None:
    assert validated({"variables": {"a": Decimal("1.10")}}, Completion).variables == {"a": Decimal("1.10")}
