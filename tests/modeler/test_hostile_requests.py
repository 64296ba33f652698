"""No request, however wrong, makes a route of the door fail: each is refused in words, as a problem document."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.gateway_fixtures import GatewayProcess

pytestmark = [pytest.mark.postgres, pytest.mark.modeler]

KEYS = ("1", "385769815467360256", str(2**63 - 1), str(2**63), "x", "-1")
WORDS = ("", "a", "\0", "\u0000b", "é" * 300, "<default>", "1", "9" * 30, "2026-01-01T00:00:00Z", "2026-13-01", "*")
NUMBERS = (0, 1, -1, 2**31, 2**63, 10**40, 0.5, 1e308)


@pytest.fixture(scope="module")
def http(door: GatewayProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=door.url, verify=False, timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def operations(http: httpx.Client) -> list[tuple[str, str, dict[str, Any]]]:
    """Method, path and body's schema of every route of the door."""
    paths = http.get("/openapi.json").json()["paths"]
    found = []
    for path, methods in paths.items():
        for method, described in methods.items():
            if described.get("tags") == ["Camunda 8"]:
                content = described.get("requestBody", {}).get("content", {})
                found.append((method.upper(), path, content.get("application/json", {}).get("schema", {})))
    assert len(found) > 40
    return found


def anything(chance: random.Random, depth: int = 2) -> Any:
    kind = chance.randrange(7 if depth else 4)
    if kind == 0:
        return chance.choice((None, True, False))
    if kind == 1:
        return chance.choice(NUMBERS)
    if kind in (2, 3):
        return chance.choice(WORDS)
    if kind == 4:
        return [anything(chance, depth - 1) for _ in range(chance.randrange(3))]
    return {chance.choice(("$eq", "$in", "$like", "$or", "$gt", "name", *WORDS)): anything(chance, depth - 1)}


def nearly(schema: dict[str, Any], chance: random.Random) -> Any:
    """A body with the right names, and values that are right by chance."""
    body = {name: anything(chance) for name in schema.get("properties", {}) if chance.random() < 0.8}
    if "filter" in body:
        names = (
            "variables",
            "processInstanceKey",
            "processDefinitionId",
            "name",
            "state",
            "startDate",
            "version",
            "elementId",
        )
        body["filter"] = {chance.choice(names): anything(chance) for _ in range(2)}
    if "requestTimeout" in body:  # not to wait for what never comes
        body["requestTimeout"] = chance.choice((-1, "soon", 1))
    return body


def check(answer: httpx.Response, asked: str) -> None:
    if answer.status_code >= 400:
        assert answer.headers["content-type"] == "application/problem+json", asked
        problem = answer.json()
        assert problem["status"] == answer.status_code, asked
        assert problem["detail"], asked
    assert answer.status_code < 500 or answer.status_code == 501, f"{asked}: {answer.text}"


@pytest.mark.parametrize(
    "body", [b"", b"null", b"[]", b'"x"', b"{", b"\xff", b"[" * 500, b'{"filter": {"$or": {}}, "page": [], "sort": {}}']
)
def test_a_body_that_is_none(
    http: httpx.Client, operations: list[tuple[str, str, dict[str, Any]]], body: bytes
) -> None:
    for method, path, schema in operations:
        if schema:
            url = path.replace("{key}", KEYS[0])
            answer = http.request(method, url, content=body, headers={"content-type": "application/json"})
            check(answer, f"{method} {url} {body[:60]!r}")


@pytest.mark.parametrize("key", KEYS)
def test_a_key_that_nothing_has(
    http: httpx.Client, operations: list[tuple[str, str, dict[str, Any]]], key: str
) -> None:
    for method, path, _ in operations:
        if "{key}" in path:
            url = path.replace("{key}", key)
            answer = http.request(method, url, json={})
            check(answer, f"{method} {url}")
            assert answer.status_code in (400, 404, 501), url


@pytest.mark.parametrize("value", ["", "NaN", "{", '"\\u0000"', "1e99999", 7, {"$like": "*"}, None, ["1"]])
def test_a_variable_that_is_no_json_text_is_refused(http: httpx.Client, value: Any) -> None:
    answer = http.post("/v2/process-instances/search", json={"filter": {"variables": [{"name": "a", "value": value}]}})
    check(answer, str(value))
    assert "filter.variables[0] must have a name" in answer.json()["detail"]


def test_bodies_that_are_nearly_right(http: httpx.Client, operations: list[tuple[str, str, dict[str, Any]]]) -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    for method, path, schema in operations:
        if not schema:
            continue
        for _ in range(12):
            url = path.replace("{key}", chance.choice(KEYS))
            body = nearly(schema, chance)
            answer = http.request(method, url, content=json.dumps(body), headers={"content-type": "application/json"})
            check(answer, f"seed {seed}: {method} {url} {json.dumps(body)}")


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/json", b"{}"),
        ("multipart/form-data", b"--x--"),
        ("multipart/form-data; boundary=x", b""),
        ("multipart/form-data; boundary=x", b"garbage"),
        ("multipart/form-data; boundary=x", b"--x\r\nContent-Disposition: form-data\r\n\r\na\r\n--x--\r\n"),
        (
            "multipart/form-data; boundary=x",
            b'--x\r\nContent-Disposition: form-data; name="resources"\r\n\r\na\r\n--x--',
        ),
        (
            "multipart/form-data; boundary=x",
            b'--x\r\nContent-Disposition: form-data; name="resources"; filename=""\r\n\r\na\r\n--x--\r\n',
        ),
        (
            "multipart/form-data; boundary=x",
            b"".join(
                b'--x\r\nContent-Disposition: form-data; name="resources"; filename="a.bpmn"\r\n\r\na\r\n'
                for _ in range(300)
            )
            + b"--x--\r\n",
        ),
    ],
)
def test_a_deployment_that_is_none(http: httpx.Client, kind: str, body: bytes) -> None:
    answer = http.post("/v2/deployments", content=body, headers={"content-type": kind})
    check(answer, f"{kind} {body[:80]!r}")
    assert answer.status_code == 400


@pytest.mark.parametrize("odd", ["x\0y", "half \ud800 of a pair"])
def test_text_that_postgres_cannot_hold_is_refused_at_the_door(http: httpx.Client, odd: str) -> None:
    for path, body in (
        ("/v2/process-instances", {"processDefinitionId": "p", "variables": {"a": [odd]}}),
        ("/v2/process-instances", {"processDefinitionId": "p", "variables": {odd: 1}}),
        ("/v2/messages/publication", {"name": odd, "correlationKey": "k"}),
        ("/v2/process-instances/search", {"filter": {"businessId": odd}}),
    ):
        answer = http.post(path, content=json.dumps(body))
        assert answer.status_code == 400
        assert "cannot be stored" in answer.json()["detail"]
