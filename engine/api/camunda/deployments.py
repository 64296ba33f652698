"""Owns the route that deploys: several files in one request, all of them or none.
Never judges a file; the deployments do, and say everything that is wrong with any of them.
Called by Modeler at every press of Deploy, and again by its client library when the answer was 503.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fastapi import APIRouter, Request
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.responses import Response

from engine.api.camunda.answers import json_answer
from engine.api.camunda.problems import refused
from engine.api.camunda.reading import DEFAULT_TENANT, bounded_stream
from engine.api.camunda.searches import Item
from engine.api.camunda.services import Services
from engine.errors import Code, Rejected
from engine.store.definitions import DECISION, FORM, PROCESS, REQUIREMENTS, StoredDefinition
from engine.uploads import MAX_RESOURCES, Resource

MAX_FIELDS = 16
_BODY = {
    "type": "object",
    "required": ["resources"],
    "properties": {
        "resources": {"type": "array", "items": {"type": "string", "format": "binary"}},
        "tenantId": {"type": "string", "default": DEFAULT_TENANT},
    },
}


def add(router: APIRouter, services: Services) -> None:
    described = {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": _BODY}}}}

    @router.post("/deployments", summary="Deploy files, all or none", openapi_extra=described)
    async def deploy(request: Request) -> Response:
        resources = await _read(request)
        peer = request.client.host if request.client else "unix socket"
        deployment = await services.deployments.deploy(resources, deployed_by=f"Camunda 8 client at {peer}")
        return json_answer(
            {
                "deploymentKey": str(deployment.key),
                "tenantId": DEFAULT_TENANT,
                "deployments": _entries([each.definition for each in deployment.items]),
            }
        )


async def _read(request: Request) -> list[Resource]:
    """The files of a multipart body. Raises Rejected with INVALID_ARGUMENT or BODY_TOO_LARGE."""
    if not request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
        raise refused(["a deployment is a multipart/form-data body with one part `resources` for each file"])
    limit: int = request.app.state.max_body_bytes
    parser = MultiPartParser(
        request.headers,
        bounded_stream(request),
        max_files=MAX_RESOURCES,
        max_fields=MAX_FIELDS,
        max_part_size=limit,
    )
    try:
        form = await parser.parse()
    except MultiPartException as error:
        raise Rejected(Code.INVALID_ARGUMENT, f"the multipart body cannot be read: {error.message}") from None
    try:
        return await _resources(form)
    finally:
        await form.close()


async def _resources(form: FormData) -> list[Resource]:
    wrong = [
        f"the part `{name}` is unknown; a deployment has the parts `resources` and `tenantId`"
        for name in dict.fromkeys(form)
        if name not in ("resources", "tenantId")
    ]
    wrong += [
        f"tenantId must be `{DEFAULT_TENANT}`: tenants of Camunda 8 clients are not configured"
        for tenant in form.getlist("tenantId")
        if tenant not in ("", DEFAULT_TENANT)
    ]
    files = form.getlist("resources")
    if not files:
        wrong.append("there is no part `resources`: a deployment has at least one file")
    if not all(isinstance(file, UploadFile) and file.filename for file in files):
        wrong.append("a part `resources` has no file name")
    if wrong:
        raise refused(wrong)
    return [Resource(file.filename or "", await file.read()) for file in files if isinstance(file, UploadFile)]


def _entries(definitions: Iterable[StoredDefinition]) -> list[Item]:
    """One entry for each process, decision, set of requirements and form, in the order of the files."""
    given = list(definitions)
    requirements = {each.resource_name: each for each in given if each.kind == REQUIREMENTS}
    return [_entry(each, requirements.get(each.resource_name)) for each in given]


def _entry(each: StoredDefinition, requirements: StoredDefinition | None) -> Item:
    common: dict[str, Any] = {"resourceName": each.resource_name, "tenantId": DEFAULT_TENANT}
    match each.kind:
        case kind if kind == PROCESS:
            said = {
                "processDefinitionId": each.process_id,
                "processDefinitionVersion": each.version,
                "processDefinitionKey": str(each.key),
            }
            return {"processDefinition": said | common}
        case kind if kind == DECISION:
            said = {
                "decisionDefinitionId": each.process_id,
                "decisionDefinitionKey": str(each.key),
                "name": each.name or each.process_id,
                "version": each.version,
                "decisionRequirementsId": "" if requirements is None else requirements.process_id,
                "decisionRequirementsKey": str(each.key if requirements is None else requirements.key),
            }
            return {"decisionDefinition": said | common}
        case kind if kind == REQUIREMENTS:
            said = {
                "decisionRequirementsId": each.process_id,
                "decisionRequirementsKey": str(each.key),
                "decisionRequirementsName": each.name or each.process_id,
                "version": each.version,
            }
            return {"decisionRequirements": said | common}
        case kind if kind == FORM:
            return {"form": {"formId": each.process_id, "formKey": str(each.key), "version": each.version} | common}
    raise AssertionError(f"a deployed file of the unknown kind {each.kind}")
