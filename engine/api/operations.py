"""Owns the routes of operators and analysts: health, metrics, server metadata, process definitions, process instances.
Never changes anything: every route here only reads.
Called by uvicorn through the app; errors are problem+json (RFC 9457).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import orjson
from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from engine.api.documents import instance_document

if TYPE_CHECKING:
    from engine.api.gateway import Gateway

log = logging.getLogger("conch.api")

PROBLEM_JSON = "application/problem+json"
_MAX_KEY = 2**63 - 1


def json_answer(document: Any, status: int = 200) -> Response:
    return Response(orjson.dumps(document, default=str), status, media_type="application/json")


def problem(status: int, title: str, detail: str, instance: str) -> Response:
    document = {"type": "about:blank", "title": title, "status": status, "detail": detail, "instance": instance}
    return Response(orjson.dumps(document), status, media_type=PROBLEM_JSON)


async def audit_away(request: Request, error: Exception) -> Response:
    """The answer of every route that reads the audit while Postgres is away."""
    log.warning("audit not readable", extra={"reason": type(error).__name__})
    detail = "the audit store (Postgres) does not answer at the moment"
    answer = problem(503, "Service Unavailable", detail, request.url.path)
    answer.headers["retry-after"] = "1"
    return answer


def routes(gateway: Gateway) -> APIRouter:
    router = APIRouter()
    _health(router, gateway)
    _definitions(router, gateway)
    _instances(router, gateway)
    return router


def _health(router: APIRouter, gateway: Gateway) -> None:
    @router.get("/v2/health/live", tags=["health"], summary="The process runs and its loop turns")
    async def live() -> Response:
        return json_answer({"live": True})

    @router.get("/v2/health/ready", tags=["health"], summary="Requests would be accepted now")
    async def ready() -> Response:
        reasons = gateway.not_ready_because()
        return json_answer({"ready": not reasons, "reasons": reasons}, 503 if reasons else 200)

    @router.get("/v2", tags=["health"], summary="Server metadata, as KServe v2 gives it")
    async def metadata() -> Response:
        return json_answer({"name": "conch", "version": gateway.version, "extensions": ["generate"]})

    @router.get("/v2/models/{model}/ready", tags=["health"], summary="Some replica really serves the model")
    async def model_ready(model: str) -> Response:
        state = gateway.model_readiness(model)
        if state is None:
            return problem(404, "Not Found", f"no model `{model}` is configured", f"/v2/models/{model}/ready")
        return json_answer({"name": model, "ready": state}, 200 if state else 503)

    @router.get("/metrics", tags=["health"], summary="Prometheus metrics")
    async def metrics() -> Response:
        return Response(generate_latest(gateway.telemetry.registry), media_type=CONTENT_TYPE_LATEST)


def _definitions(router: APIRouter, gateway: Gateway) -> None:
    @router.get("/process-definitions", tags=["processes"], summary="Every deployed version, newest first")
    async def definitions() -> Response:
        return json_answer({"items": await gateway.list_definitions()})

    @router.get("/process-definitions/{key}/xml", tags=["processes"], summary="The diagram as it was deployed")
    async def definition_xml(key: str) -> Response:
        path = f"/process-definitions/{key}/xml"
        number = _read_key(key)
        xml = await gateway.definition_xml(number) if number is not None else None
        if xml is None:
            return problem(404, "Not Found", f"no process definition has the key {key}", path)
        return Response(xml, media_type="application/xml")


def _instances(router: APIRouter, gateway: Gateway) -> None:
    @router.get("/process-instances/{key}", tags=["processes"], summary="One request: every step, attempt and decision")
    async def instance(key: str) -> Response:
        path = f"/process-instances/{key}"
        number = _read_key(key)
        if number is None:
            return problem(400, "Bad Request", "a process instance key is a whole number below 2^63", path)
        try:
            stored = await gateway.load_instance(number)
        except ValueError as error:  # stored by another version, or changed by hand
            return problem(500, "Internal Server Error", f"process instance {number} cannot be read: {error}", path)
        if stored is None:
            return problem(404, "Not Found", f"the audit holds no process instance with the key {key}", path)
        return json_answer(instance_document(stored))


def _read_key(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= _MAX_KEY else None
