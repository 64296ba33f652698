"""Owns the routes of tasks for people: search, one of them, what it sees, completing it.
Never assigns one: whose task it is says the diagram.
Called by task lists, and by Modeler's Test tab every second.
"""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from engine.api.camunda import fields
from engine.api.camunda.answers import json_answer, no_content
from engine.api.camunda.forms import form_of
from engine.api.camunda.instance_view import InstanceView
from engine.api.camunda.items import truncated
from engine.api.camunda.open_work import OpenWork
from engine.api.camunda.reading import Body, JsonObject, described, flag_in_query, key_in_path, read_json
from engine.api.camunda.searches import Item, SearchBody, described_search, page_of, read_query
from engine.api.camunda.services import Instances, Services, not_found
from engine.errors import Code, Rejected
from engine.records import Key

_NOT_ASSIGNED = "a user task is whose the diagram says it is; assignment from outside is not supported"


class UserTaskCompletion(Body):
    variables: JsonObject | None = None
    action: str | None = None


def add(router: APIRouter, services: Services, instances: Instances) -> None:
    _reading(router, services, instances)

    @router.post(
        "/user-tasks/{key}/completion",
        status_code=204,
        summary="A person has done the task",
        openapi_extra=described(UserTaskCompletion, variables={"approved": True}),
    )
    async def complete(request: Request) -> Response:
        key = key_in_path(request, "key")
        body = await read_json(request, UserTaskCompletion)
        await services.work.complete_user_task(key, body.variables or {})
        return no_content()

    @router.post("/user-tasks/{key}/assignment", status_code=501, summary="501: the diagram assigns")
    @router.delete("/user-tasks/{key}/assignee", status_code=501, summary="501: the diagram assigns")
    @router.patch("/user-tasks/{key}", status_code=501, summary="501: the diagram says what a task is")
    async def assign(request: Request) -> Response:
        key_in_path(request, "key")
        raise Rejected(Code.UNSUPPORTED, _NOT_ASSIGNED)


def _reading(router: APIRouter, services: Services, instances: Instances) -> None:
    async def found(key: Key) -> tuple[InstanceView, Item]:
        root = await instances.root_of_job(key)
        view = None if root is None else await instances.view(root)
        items = () if view is None else view.user_tasks()
        item = next((each for each in items if each["userTaskKey"] == str(key)), None)
        if view is None or item is None:
            raise not_found("user task", key)
        return view, item

    @router.post(
        "/user-tasks/search",
        summary="Search user tasks: of a process instance all, else the open ones",
        openapi_extra=described_search(fields.USER_TASK),
    )
    async def search(request: Request) -> Response:
        query = read_query(await read_json(request, SearchBody), fields.USER_TASK)
        key = query.exact("processInstanceKey") or query.exact("elementInstanceKey")
        if key is None:
            return json_answer(page_of(await OpenWork(services, instances).user_tasks(), query, "userTaskKey"))
        root = await instances.root_of_element(int(key))
        view = None if root is None else await instances.view(root)
        return json_answer(page_of([] if view is None else view.user_tasks(), query, "userTaskKey"))

    @router.get("/user-tasks/{key}", summary="One user task")
    async def get(request: Request) -> Response:
        _, item = await found(key_in_path(request, "key"))
        return json_answer(item)

    @router.get("/user-tasks/{key}/form", summary="The form of a user task; 204 when it has none that is deployed")
    async def form(request: Request) -> Response:
        _, item = await found(key_in_path(request, "key"))
        return await form_of(services, item["externalFormReference"])

    @router.post(
        "/user-tasks/{key}/effective-variables/search",
        summary="Search the variables that a user task sees",
        openapi_extra=described_search(fields.VARIABLE),
    )
    @router.post(
        "/user-tasks/{key}/variables/search",
        summary="Search the variables that a user task sees",
        openapi_extra=described_search(fields.VARIABLE),
    )
    async def variables(request: Request) -> Response:
        cut = flag_in_query(request, "truncateValues", True)
        query = read_query(await read_json(request, SearchBody), fields.VARIABLE)
        view, item = await found(key_in_path(request, "key"))
        seen = view.variables_seen_from(int(item["elementInstanceKey"]))
        answer = page_of(seen, query, "variableKey")
        if cut:
            answer["items"] = [truncated(each) for each in answer["items"]]
        return json_answer(answer)
