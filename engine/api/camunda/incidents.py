"""Owns the routes that read incidents and resolve them.
Never mends a cause: whoever resolves has written the variables or set the retries before.
Called by Modeler's Test tab every second and by Camunda 8 clients.
"""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from engine.api.camunda import fields
from engine.api.camunda.answers import json_answer, no_content
from engine.api.camunda.audit_search import AuditSearch
from engine.api.camunda.process_instances import Operation
from engine.api.camunda.reading import described, key_in_path, read_json
from engine.api.camunda.searches import Item, SearchBody, described_search, page_of, read_query
from engine.api.camunda.services import Instances, Services, not_found, open_here
from engine.records import IncidentResolved

_SCOPES = ("processInstanceKey", "elementInstanceKey")


def add(router: APIRouter, services: Services, instances: Instances) -> None:
    @router.post("/incidents/search", summary="Search incidents", openapi_extra=described_search(fields.INCIDENT))
    async def search(request: Request) -> Response:
        query = read_query(await read_json(request, SearchBody), fields.INCIDENT)
        for field in _SCOPES:
            if (text := query.exact(field)) is not None:
                root = await instances.root_of_element(int(text))
                view = None if root is None else await instances.view(root)
                return json_answer(page_of([] if view is None else view.incidents(), query, "incidentKey"))
        found, capped = await AuditSearch(services, instances, query).incidents()
        return json_answer(page_of(found, query, "incidentKey", capped=capped))

    @router.get("/incidents/{key}", summary="One incident")
    async def get(request: Request) -> Response:
        key = key_in_path(request, "key")
        root = services.runtime.find_incident(key) or await services.search.root_of_incident(key)
        view = None if root is None else await instances.view(root)
        items = () if view is None else view.incidents()
        item = next((each for each in items if each["incidentKey"] == str(key)), None)
        if item is None:
            raise not_found("incident", key)
        return json_answer(item)

    @router.post(
        "/incidents/{key}/resolution",
        status_code=204,
        summary="Try again what failed",
        openapi_extra=described(Operation),
    )
    async def resolve(request: Request) -> Response:
        key = key_in_path(request, "key")
        await read_json(request, Operation)
        root = services.runtime.find_incident(key)
        if root is None:
            there = await services.search.root_of_incident(key)
            if there is not None and (view := await instances.view(there)) is not None and not view.ended:
                open_here(services, view)
            raise not_found("open incident", key)
        await services.runtime.tell(root, IncidentResolved, key)
        return no_content()

    @router.post(
        "/process-instances/{key}/incident-resolution",
        summary="Try again everything that failed in a process instance; done when answered",
        openapi_extra=described(Operation),
    )
    async def resolve_all(request: Request) -> Response:
        key = key_in_path(request, "key")
        await read_json(request, Operation)
        view = await instances.found(key)
        open_here(services, view)
        inside = view.places.within(key)
        for each in [each for each in view.incidents() if each["state"] == "ACTIVE"]:
            if int(each["elementInstanceKey"]) in inside and services.runtime.find_incident(int(each["incidentKey"])):
                await services.runtime.tell(view.key, IncidentResolved, int(each["incidentKey"]))
        return json_answer({"batchOperationKey": str(services.mint()), "batchOperationType": "RESOLVE_INCIDENT"})

    async def within(request: Request, *, element: bool) -> Response:
        key = key_in_path(request, "key")
        query = read_query(await read_json(request, SearchBody), fields.INCIDENT)
        root = await instances.root_of_element(key)
        view = None if root is None else await instances.view(root)
        if view is None:
            raise not_found("element instance" if element else "process instance", key)
        inside = view.places.within(key)
        found: list[Item] = [each for each in view.incidents() if int(each["elementInstanceKey"]) in inside]
        return json_answer(page_of(found, query, "incidentKey"))

    @router.post(
        "/process-instances/{key}/incidents/search",
        summary="Incidents of a process instance and all below",
        openapi_extra=described_search(fields.INCIDENT),
    )
    async def of_instance(request: Request) -> Response:
        return await within(request, element=False)

    @router.post(
        "/element-instances/{key}/incidents/search",
        summary="Incidents of an element instance and all below",
        openapi_extra=described_search(fields.INCIDENT),
    )
    async def of_element(request: Request) -> Response:
        return await within(request, element=True)
