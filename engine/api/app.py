"""Owns the application: which path is answered by what, and the OpenAPI document that says so.
Never holds state or opens anything; the gateway is given.
Called by the composition root.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from sqlalchemy import exc
from starlette.routing import Route

from engine.api import operations
from engine.api.camunda.problems import nothing_there
from engine.api.camunda.routes import routes as camunda_routes
from engine.api.directory import Directory, answer_with
from engine.api.exchange import Receive, Scope, Send
from engine.api.inference import InferenceEndpoint
from engine.inference import Operation

if TYPE_CHECKING:
    from engine.api.camunda.services import Services
    from engine.api.gateway import Gateway

_PATHS = {
    Operation.INFER: ("infer", "KServe v2 inference"),
    Operation.GENERATE: ("generate", "Triton generate extension, one answer"),
    Operation.GENERATE_STREAM: ("generate_stream", "Triton generate extension, server-sent events"),
}
_OUR_HEADERS = {
    "Conch-Tenant": "Whom the request is for; default `default`. Trusted from loopback only.",
    "Conch-Product": "Product the cost belongs to; default `none`. Trusted from loopback only.",
    "Conch-Feature": "Feature the cost belongs to; default `none`. Trusted from loopback only.",
    "Conch-Priority": "low, normal or high; default `normal`. Trusted from loopback only.",
    "Conch-Deadline-Ms": "Milliseconds the client will wait, retries and fallback included; default 30000.",
}


class _App(FastAPI):
    """A FastAPI application whose inference requests, and those of Camunda 8 clients, go straight to their endpoints.

    The layers of middleware and the search through the routes would take as long as all else that HTTP costs here;
    they have nothing to do for a request that the endpoint answers whole, errors included.
    """

    endpoints: Mapping[str, InferenceEndpoint] = {}
    directory = Directory()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "POST":
            match scope["path"].split("/"):
                case ["", "v2", "models", model, verb] if model and verb in self.endpoints:
                    scope["path_params"] = {"model": model}
                    return await self.endpoints[verb](scope, receive, send)
                case ["", "v2", "models", model, "versions", version, verb] if (
                    model and version and verb in self.endpoints
                ):
                    scope["path_params"] = {"model": model, "version": version}
                    return await self.endpoints[verb](scope, receive, send)
        if scope["type"] == "http" and (found := self.directory.find(scope)) is not None:
            scope["app"] = self
            return await answer_with(found, scope, receive, send)
        return await super().__call__(scope, receive, send)


def build_app(gateway: Gateway, services: Services | None = None) -> FastAPI:
    """The ASGI application. Inference routes are raw endpoints: no dependency injection, no models per request.

    Without `services` there is no door for Camunda 8 clients.
    """
    app = _App(
        title="Conch",
        version=gateway.version,
        summary="Every inference request is a process you can read.",
        docs_url="/docs",
    )
    app.endpoints = {verb: InferenceEndpoint(gateway, operation) for operation, (verb, _) in _PATHS.items()}
    for verb, endpoint in app.endpoints.items():
        for path in (f"/v2/models/{{model}}/{verb}", f"/v2/models/{{model}}/versions/{{version}}/{verb}"):
            app.router.routes.append(Route(path, endpoint, methods=["POST"]))
    app.include_router(operations.routes(gateway))
    if services is not None:
        app.state.max_body_bytes = services.max_body_bytes
        doors = camunda_routes(services)
        app.include_router(doors)
        app.directory = Directory(doors.routes)
    for status in (404, 405):
        app.add_exception_handler(status, nothing_there)
    for away in (exc.OperationalError, exc.InterfaceError, exc.TimeoutError):
        app.add_exception_handler(away, operations.audit_away)
    described = app.openapi

    def openapi() -> dict[str, Any]:
        document = described()
        document["paths"].update(_inference_paths())
        document.setdefault("components", {}).setdefault("schemas", {})["InferenceError"] = _ERROR_SCHEMA
        return document

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documented way to extend the document
    return app


def _inference_paths() -> dict[str, Any]:
    headers = [
        {"name": name, "in": "header", "required": False, "description": text, "schema": {"type": "string"}}
        for name, text in _OUR_HEADERS.items()
    ]
    paths = {}
    for verb, summary in _PATHS.values():
        for prefix, names in (
            ("/v2/models/{model}", ["model"]),
            ("/v2/models/{model}/versions/{version}", ["model", "version"]),
        ):
            parameters = [{"name": n, "in": "path", "required": True, "schema": {"type": "string"}} for n in names]
            paths[f"{prefix}/{verb}"] = {
                "post": {
                    "tags": ["inference"],
                    "summary": summary,
                    "parameters": parameters + headers,
                    "requestBody": {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}},
                    "responses": _responses(verb),
                }
            }
    return paths


def _responses(verb: str) -> dict[str, Any]:
    kind = "text/event-stream" if verb == "generate_stream" else "application/json"
    error = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/InferenceError"}}}}
    retry = "Come back after Retry-After (or the finer retry_after_ms); the request was not begun or can be repeated."
    return {
        "200": {
            "description": "The model's answer, as Triton gives it.",
            "content": {kind: {"schema": {"type": "object"}}},
        },
        "400": {"description": "The request is wrong; every problem is named. Do not repeat it unchanged.", **error},
        "404": {"description": "No such model or version. Do not repeat it unchanged.", **error},
        "413": {"description": "The body is over server.max_body_bytes.", **error},
        "429": {"description": f"The queue is full. {retry}", **error},
        "500": {
            "description": "A replica or the process failed; `incident_key` names an incident, if one was raised.",
            **error,
        },
        "503": {"description": f"No capacity, no replica or no audit. {retry}", **error},
        "504": {"description": "The deadline passed.", **error},
    }


_ERROR_SCHEMA = {
    "type": "object",
    "required": ["error", "code"],
    "properties": {
        "error": {"type": "string", "description": "What went wrong and what to do, for a person."},
        "code": {"type": "string", "description": "What went wrong, for a machine."},
        "retry_after_ms": {"type": "integer", "description": "When to come back."},
        "problems": {"type": "array", "items": {"type": "string"}},
        "replica": {"type": "string"},
        "incident_key": {"type": "string"},
    },
}
