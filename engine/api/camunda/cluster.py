"""Owns what a Camunda 8 client asks of the cluster itself: its topology, its status, its licence and who one is.
Never tells more than a version to somebody unknown.
Called by Modeler every five seconds, and by client libraries as they start.
"""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from engine.api.camunda.answers import json_answer, no_content
from engine.api.camunda.problems import refused
from engine.api.camunda.reading import DEFAULT_TENANT
from engine.api.camunda.services import Services
from engine.errors import Code

# The Camunda minor whose behaviour this is. Modeler compares it with a file's target and hides what is newer.
GATEWAY_VERSION = "8.9.0"


def add(router: APIRouter, services: Services) -> None:
    @router.get("/topology", summary="Version and shape of the cluster; answered to everybody")
    async def topology(request: Request) -> Response:
        host, port = request.scope.get("server") or ("localhost", 0)
        partition = {"partitionId": 1, "role": "leader", "health": "healthy", "state": "active"}
        broker = {
            "nodeId": 0,
            "brokerId": "0",
            "host": host,
            "port": port or 0,
            "partitions": [partition],
            "version": GATEWAY_VERSION,
        }
        return json_answer(
            {
                "brokers": [broker],
                "clusterId": "conch",
                "clusterSize": 1,
                "partitionsCount": 1,
                "replicationFactor": 1,
                "gatewayVersion": GATEWAY_VERSION,
                "lastCompletedChangeId": "-1",
            }
        )

    @router.get("/status", status_code=204, summary="204 while requests would be accepted")
    async def status() -> Response:
        if reasons := services.not_ready_because():
            raise refused(reasons, Code.JOURNAL_UNAVAILABLE)
        return no_content()

    @router.get("/license", summary="There is nothing to license")
    async def licence() -> Response:
        return json_answer({"validLicense": True, "licenseType": "unknown", "isCommercial": False, "expiresAt": None})

    @router.get("/authentication/me", summary="Who the caller is: nobody in particular, as authentication is not there")
    async def me() -> Response:
        return json_answer(
            {
                "username": "anonymous",
                "displayName": None,
                "email": None,
                "authorizedComponents": ["*"],
                "tenants": [{"tenantId": DEFAULT_TENANT, "name": "Default", "description": None}],
                "groups": [],
                "roles": [],
                "salesPlanType": None,
                "c8Links": {},
                "canLogout": False,
            }
        )
