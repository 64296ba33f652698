"""Owns the routes that read deployed processes: search, one of them, its diagram, its start form.
Never deploys or switches a version.
Called by Camunda 8 clients.
"""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from engine.api.camunda import fields
from engine.api.camunda.answers import json_answer, no_content
from engine.api.camunda.items import definition_item
from engine.api.camunda.reading import key_in_path, read_json
from engine.api.camunda.searches import Item, SearchBody, described_search, page_of, read_query
from engine.api.camunda.services import Services, not_found
from engine.store.definitions import MAX_LISTED, PROCESS, StoredDefinition


def add(router: APIRouter, services: Services) -> None:
    async def found(request: Request) -> StoredDefinition:
        key = key_in_path(request, "key")
        definition = await services.deployments.definition(key)
        if definition is None or definition.kind != PROCESS:
            raise not_found("process definition", key)
        return definition

    @router.post(
        "/process-definitions/search",
        summary="Search deployed processes, every version",
        openapi_extra=described_search(fields.PROCESS_DEFINITION),
    )
    async def search(request: Request) -> Response:
        query = read_query(await read_json(request, SearchBody), fields.PROCESS_DEFINITION)
        stored = await services.deployments.search(process_id=query.exact("processDefinitionId"))
        answer = page_of(_items(stored), query, "processDefinitionKey", capped=len(stored) >= MAX_LISTED)
        for item in answer["items"]:
            del item["isLatestVersion"]
        return json_answer(answer)

    @router.get("/process-definitions/{key}", summary="One version of a process")
    async def get(request: Request) -> Response:
        return json_answer(definition_item(await found(request)))

    @router.get("/process-definitions/{key}/xml", summary="The diagram as it was deployed")
    async def xml(request: Request) -> Response:
        definition = await found(request)
        return Response(await services.deployments.xml(definition.key), media_type="text/xml")

    @router.get("/process-definitions/{key}/form", status_code=204, summary="204: start events have no forms here")
    async def form(request: Request) -> Response:
        await found(request)
        return no_content()


def _items(stored: list[StoredDefinition]) -> list[Item]:
    latest: dict[str, int] = {}
    for each in stored:
        latest[each.process_id] = max(each.version, latest.get(each.process_id, 0))
    return [definition_item(each) | {"isLatestVersion": each.version == latest[each.process_id]} for each in stored]
