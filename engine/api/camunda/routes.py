"""Owns the list of the Camunda 8 routes: every module's, under /v2, each failing in Camunda's words.
Never handles a request itself.
Called by the app.
"""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.routing import APIRoute

from engine.api.camunda import (
    cluster,
    decisions,
    deployments,
    element_instances,
    expressions,
    forms,
    incidents,
    jobs,
    messages,
    process_definitions,
    process_instances,
    statistics,
    user_tasks,
    variables,
)
from engine.api.camunda.problems import CamundaRoute
from engine.api.camunda.services import Instances, Services

_KEY = {"name": "key", "in": "path", "required": True, "schema": {"type": "string", "pattern": "^[0-9]{1,19}$"}}
_TEXTS = {name: {"type": "string"} for name in ("type", "title", "detail", "instance")}
_PROBLEM = {
    "description": "What is wrong, one line of `detail` for each problem",
    "content": {
        "application/problem+json": {
            "schema": {"type": "object", "properties": {**_TEXTS, "status": {"type": "integer"}}},
            "example": {
                "type": "about:blank",
                "title": "NOT_FOUND",
                "status": 404,
                "detail": "there is no process instance with the key 1",
                "instance": "/v2/process-instances/1",
            },
        }
    },
}


def routes(services: Services) -> APIRouter:
    router = APIRouter(prefix="/v2", route_class=CamundaRoute, tags=["Camunda 8"])
    instances = Instances(services)
    cluster.add(router, services)
    deployments.add(router, services)
    statistics.add(router, services, instances)
    process_definitions.add(router, services)
    process_instances.add(router, services, instances)
    element_instances.add(router, services, instances)
    variables.add(router, services, instances)
    incidents.add(router, services, instances)
    jobs.add(router, services, instances)
    messages.add(router, services, instances)
    user_tasks.add(router, services, instances)
    forms.add(router, services)
    expressions.add(router, services, instances)
    decisions.add(router, services)
    for route in router.routes:
        if isinstance(route, APIRoute) and "{key}" in route.path:
            route.openapi_extra = {**(route.openapi_extra or {}), "parameters": [_KEY]}
        if isinstance(route, APIRoute):
            route.openapi_extra = {**(route.openapi_extra or {}), "responses": {"default": _PROBLEM}}
    return router
