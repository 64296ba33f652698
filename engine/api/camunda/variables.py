"""Owns the routes that read variables: search in process instances, and one by its key.
Never logs a value, and never cuts one unless the client wants it cut.
Called by Modeler's Test tab every second and by Camunda 8 clients.
"""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from engine.api.camunda import fields
from engine.api.camunda.answers import json_answer
from engine.api.camunda.items import truncated
from engine.api.camunda.newest import instances_of
from engine.api.camunda.reading import flag_in_query, key_in_path, read_json
from engine.api.camunda.searches import SearchBody, described_search, page_of, read_query
from engine.api.camunda.services import Instances, Services, not_found


def add(router: APIRouter, services: Services, instances: Instances) -> None:
    @router.post(
        "/variables/search",
        summary="Search variables: of the process instance or scope that the filter names, else of the newest 100",
        openapi_extra=described_search(fields.VARIABLE),
    )
    async def search(request: Request) -> Response:
        cut = flag_in_query(request, "truncateValues", True)
        query = read_query(await read_json(request, SearchBody), fields.VARIABLE)
        looked = await instances_of(services, instances, query, "processInstanceKey", "scopeKey", variables=True)
        found = [item for view in looked.views for item in view.variables()]
        answer = page_of(found, query, "variableKey", capped=looked.capped)
        for item in answer["items"]:
            instances.remember(int(item["variableKey"]), int(item["rootProcessInstanceKey"]))
        if cut:
            answer["items"] = [truncated(item) for item in answer["items"]]
        return json_answer(answer)

    @router.get("/variables/{key}", summary="One variable that a search has told of, with its whole value")
    async def get(request: Request) -> Response:
        key = key_in_path(request, "key")
        root = instances.root_of_variable(key)
        view = None if root is None else await instances.view(root)
        items = () if view is None else view.variables()
        item = next((each for each in items if each["variableKey"] == str(key)), None)
        if item is None:
            raise not_found("variable", key)
        del item["isTruncated"]
        return json_answer(item)
