"""The short way to a route is the way that the framework would have found."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from engine.api.camunda.problems import CamundaRoute
from engine.api.directory import Directory, answer_with


def router() -> APIRouter:
    made = APIRouter(prefix="/v2", route_class=CamundaRoute)

    @made.get("/status")
    async def status() -> Response:
        return Response("needs the framework")

    @made.post("/jobs/search")
    async def search(request: Request) -> Response:
        return Response("search")

    @made.get("/jobs/{key}")
    async def job(request: Request) -> Response:
        return Response(f"job {request.path_params['key']}")

    @made.post("/jobs/{key}/completion")
    async def complete(request: Request) -> Response:
        return Response(f"complete {request.path_params['key']}")

    return made


def ask(method: str, path: str) -> str | None:
    scope: dict[str, Any] = {"type": "http", "method": method, "path": path, "headers": []}
    found = Directory(router().routes).find(scope)
    if found is None:
        return None
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    asyncio.run(answer_with(found, scope, receive, send))
    return bytes(sent[1]["body"]).decode()


@pytest.mark.parametrize(
    ("method", "path", "answer"),
    [
        ("POST", "/v2/jobs/search", "search"),
        ("GET", "/v2/jobs/7", "job 7"),
        ("POST", "/v2/jobs/7/completion", "complete 7"),
        ("POST", "/v2/jobs/7", None),
        ("GET", "/v2/jobs/search", None),
        ("GET", "/v2/jobs/x7", None),
        ("POST", "/v2/jobs/7/completion/", None),
        ("POST", "/v2/jobs/²/completion", None),
        ("POST", "/v2/jobs//completion", None),
        ("GET", "/v2/jobs", None),
        ("GET", "/v2/status", None),
        ("GET", "/", None),
        ("GET", "", None),
    ],
)
def test_a_route_is_found_by_method_and_path_and_all_else_goes_the_long_way(
    method: str, path: str, answer: str | None
) -> None:
    assert ask(method, path) == answer
