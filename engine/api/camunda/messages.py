"""Owns the routes through which the world reaches instances: messages and signals.
Never chooses who gets one; the correlation does.
Called by Camunda 8 clients, and by Modeler's Test tab, which reads what is waited for.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response

from engine.api.camunda import fields
from engine.api.camunda.answers import json_answer
from engine.api.camunda.newest import instances_of
from engine.api.camunda.reading import DEFAULT_TENANT, Body, JsonObject, Tenant, described, read_json
from engine.api.camunda.searches import SearchBody, described_search, page_of, read_query
from engine.api.camunda.services import Instances, Services

Name = Annotated[str, Field(min_length=1, max_length=1000)]


class Publication(Body):
    name: Name
    correlation_key: str = ""
    time_to_live: Annotated[int, Field(ge=0)] = 0
    message_id: str | None = None
    variables: JsonObject | None = None
    tenant_id: Tenant | None = None


class Correlating(Body):
    name: Name
    correlation_key: str = ""
    variables: JsonObject | None = None
    tenant_id: Tenant | None = None


class Broadcast(Body):
    signal_name: Name
    variables: JsonObject | None = None
    tenant_id: Tenant | None = None


def add(router: APIRouter, services: Services, instances: Instances) -> None:
    @router.post(
        "/messages/publication",
        summary="Publish a message; it waits for its time to live",
        openapi_extra=described(Publication, name="payment", correlationKey="order-7", timeToLive=60_000),
    )
    async def publish(request: Request) -> Response:
        body = await read_json(request, Publication)
        key = await services.correlation.publish(
            body.name,
            body.correlation_key,
            ttl_ms=body.time_to_live,
            variables=body.variables or {},
            message_id=body.message_id or "",
        )
        return json_answer({"messageKey": str(key), "tenantId": DEFAULT_TENANT})

    @router.post(
        "/messages/correlation",
        summary="Correlate a message now; 404 when nothing waits for it",
        openapi_extra=described(Correlating, name="payment", correlationKey="order-7", variables={"amount": 12.5}),
    )
    async def correlate(request: Request) -> Response:
        body = await read_json(request, Correlating)
        key, instance_key = await services.correlation.correlate(body.name, body.correlation_key, body.variables or {})
        return json_answer(
            {"messageKey": str(key), "processInstanceKey": str(instance_key), "tenantId": DEFAULT_TENANT}
        )

    @router.post(
        "/signals/broadcast",
        summary="Broadcast a signal to all that wait for it",
        openapi_extra=described(Broadcast, signalName="closing", variables={}),
    )
    async def broadcast(request: Request) -> Response:
        body = await read_json(request, Broadcast)
        key = await services.correlation.broadcast(body.signal_name, body.variables or {})
        return json_answer({"signalKey": str(key), "tenantId": DEFAULT_TENANT})

    @router.post(
        "/message-subscriptions/search",
        summary="Search awaited messages: of the process instance that the filter names, else of the newest 100 open",
        openapi_extra=described_search(fields.MESSAGE_SUBSCRIPTION),
    )
    async def search(request: Request) -> Response:
        query = read_query(await read_json(request, SearchBody), fields.MESSAGE_SUBSCRIPTION)
        keys = ("processInstanceKey", "elementInstanceKey")
        looked = await instances_of(services, instances, query, *keys, only_open=True)
        found = [item for view in looked.views for item in view.subscriptions()]
        return json_answer(page_of(found, query, "messageSubscriptionKey", capped=looked.capped))
