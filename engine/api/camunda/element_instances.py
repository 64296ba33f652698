"""Owns the routes that read element instances and write variables into their scopes.
Never guesses: without the key of a process instance or element instance there is nothing exact to answer.
Called by Modeler's Test tab every second and by Camunda 8 clients.
"""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from engine.api.camunda import fields
from engine.api.camunda.answers import json_answer, no_content
from engine.api.camunda.instance_view import InstanceView
from engine.api.camunda.newest import instances_of
from engine.api.camunda.reading import Body, JsonObject, described, key_in_path, read_json
from engine.api.camunda.searches import SearchBody, described_search, page_of, read_query
from engine.api.camunda.services import Instances, Services, not_found, open_here
from engine.records import VariablesSet


class NewVariables(Body):
    variables: JsonObject
    local: bool = False


def add(router: APIRouter, services: Services, instances: Instances) -> None:
    @router.post(
        "/element-instances/search",
        summary="Search element instances: of the process instance that the filter names, else of the newest 100",
        openapi_extra=described_search(fields.ELEMENT_INSTANCE),
    )
    async def search(request: Request) -> Response:
        query = read_query(await read_json(request, SearchBody), fields.ELEMENT_INSTANCE)
        keys = ("processInstanceKey", "elementInstanceKey", "elementInstanceScopeKey")
        looked = await instances_of(services, instances, query, *keys, only_open=query.exact("state") == "ACTIVE")
        found = [item for view in looked.views for item in view.elements()]
        answer = page_of(found, query, "elementInstanceKey", capped=looked.capped)
        for item in answer["items"]:
            del item["elementInstanceScopeKey"]
        return json_answer(answer)

    @router.get("/element-instances/{key}", summary="One element instance")
    async def get(request: Request) -> Response:
        key = key_in_path(request, "key")
        view = await _view(key)
        items = () if view is None else view.elements()
        item = next((each for each in items if each["elementInstanceKey"] == str(key)), None)
        if item is None:
            raise not_found("element instance", key)
        del item["elementInstanceScopeKey"]
        return json_answer(item)

    @router.put(
        "/element-instances/{key}/variables",
        status_code=204,
        summary="Write variables at an open scope or outwards",
        openapi_extra=described(NewVariables, variables={"amount": 12.5}, local=False),
    )
    async def write(request: Request) -> Response:
        key = key_in_path(request, "key")
        body = await read_json(request, NewVariables)
        root = services.runtime.find_scope(key)
        if root is None:
            view = await _view(key)
            if view is not None and view.key == key:
                open_here(services, view)
            raise not_found("open element instance or process instance", key)
        await services.runtime.tell(root, VariablesSet, key, body.variables, body.local)
        return no_content()

    async def _view(key: int) -> InstanceView | None:
        root = await instances.root_of_element(key)
        return None if root is None else await instances.view(root)
