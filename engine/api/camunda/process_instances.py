"""Owns the routes that start, read and end process instances.
Never waits longer than a client asked for, and never shows a variable that was not asked for.
Called by Modeler (Start, and its Test tab every second) and by Camunda 8 clients.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response

from engine.api.camunda import fields
from engine.api.camunda.answers import json_answer, no_content, while_connected
from engine.api.camunda.audit_search import AuditSearch
from engine.api.camunda.items import tags_of
from engine.api.camunda.problems import refused
from engine.api.camunda.reading import (
    DEFAULT_TENANT,
    Body,
    JsonObject,
    KeyField,
    Milliseconds,
    Tenant,
    described,
    key_in_path,
    parsed,
    read_json,
)
from engine.api.camunda.searches import SearchBody, described_search, page_of, read_query
from engine.api.camunda.services import Instances, Services, not_found, open_here
from engine.api.exchange import mint_request_id
from engine.api.headers import PRIORITIES, read_tags
from engine.errors import Code, Rejected
from engine.linking import DeployedDefinition
from engine.records import Cancel, Tags
from engine.run import Run, RunResult

DEFAULT_WAIT_MS = 10_000  # for the end of an instance, where a request says nothing or 0; Camunda's default
LONGEST_WAIT_MS = 600_000
ACTIVE_VERSION = -1
_TAGS = ("product", "feature", "priority")


class StartInstruction(Body):
    element_id: str


class RuntimeInstruction(Body):
    type: str = "TERMINATE_PROCESS_INSTANCE"
    after_element_id: str


class Creation(Body):
    process_definition_id: str | None = None
    process_definition_key: KeyField | None = None
    process_definition_version: int | None = None
    variables: JsonObject | None = None
    tenant_id: Tenant | None = None
    business_id: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    tags: Annotated[list[str], Field(max_length=10)] | None = None
    start_instructions: list[StartInstruction] | None = None
    runtime_instructions: list[RuntimeInstruction] | None = None
    await_completion: bool = False
    fetch_variables: list[str] | None = None
    request_timeout: Milliseconds | None = None


class Operation(Body):
    """The body of an operation that needs nothing but its path."""


def add(router: APIRouter, services: Services, instances: Instances) -> None:
    _creation(router, services)
    _reading(router, services, instances)

    @router.post(
        "/process-instances/{key}/cancellation",
        status_code=204,
        summary="End a process instance and all that it called",
        openapi_extra=described(Operation),
    )
    async def cancel(request: Request) -> Response:
        key = key_in_path(request, "key")
        await read_json(request, Operation)
        view = await instances.found(key)
        if view.key != key:
            message = f"{key} was started by a call activity; cancel {view.key}, the process instance around it"
            raise Rejected(Code.INVALID_ARGUMENT, message)
        open_here(services, view)
        await services.runtime.tell(key, Cancel, Code.CANCELLED, "cancelled by a Camunda 8 client")
        return no_content()


def _creation(router: APIRouter, services: Services) -> None:
    @router.post(
        "/process-instances",
        summary="Start a process instance",
        openapi_extra=described(
            Creation, processDefinitionId="order", variables={"amount": 12.5}, awaitCompletion=False
        ),
    )
    async def create(request: Request) -> Response:
        arrived_at_us = services.now_us()
        body = await read_json(request, Creation)
        peer = request.client.host if request.client else None
        tags = _tags(read_tags(request.scope["headers"], peer, services.defaults), body.tags or ())
        _check(body)
        deployed = await _definition(body, services)
        run = services.runtime.start(
            deployed,
            body.variables or {},
            tags=tags,
            request_id=mint_request_id(arrived_at_us),
            business_id=body.business_id,
            start_element_ids=tuple(each.element_id for each in body.start_instructions or ()),
            terminate_after_id=next((each.after_element_id for each in body.runtime_instructions or ()), None),
        )
        await run.started()
        variables: Mapping[str, Any] = {}
        if body.await_completion:
            result = await while_connected(request, _end(run, body.request_timeout or DEFAULT_WAIT_MS))
            variables = _fetched(result, body.fetch_variables)
        return json_answer(
            {
                "processDefinitionKey": str(deployed.ref.key),
                "processDefinitionId": deployed.ref.process_id,
                "processDefinitionVersion": deployed.ref.version,
                "processInstanceKey": str(run.key),
                "tenantId": DEFAULT_TENANT,
                "variables": variables,
                "tags": tags_of(tags),
                "businessId": body.business_id,
            }
        )


def _check(body: Creation) -> None:
    """What no single field can tell. Raises Rejected with one line per problem."""
    wrong = []
    if (body.process_definition_id is None) == (body.process_definition_key is None):
        wrong.append("give either processDefinitionId or processDefinitionKey")
    if body.process_definition_key is not None and body.process_definition_version is not None:
        wrong.append("processDefinitionVersion goes with processDefinitionId; a key names its version already")
    version = body.process_definition_version
    if version is not None and version < 1 and version != ACTIVE_VERSION:
        wrong.append("processDefinitionVersion must be at least 1, or -1 for the version that serves")
    if (body.request_timeout or 0) > LONGEST_WAIT_MS:
        wrong.append(f"requestTimeout must be at most {LONGEST_WAIT_MS}")
    instructions = body.runtime_instructions or ()
    wrong += [
        f"runtimeInstructions[{i}].type must be TERMINATE_PROCESS_INSTANCE"
        for i, each in enumerate(instructions)
        if each.type != "TERMINATE_PROCESS_INSTANCE"
    ]
    if len(instructions) > 1:
        wrong.append("runtimeInstructions must be at most one: an instance ends after one element")
    if wrong:
        raise refused(wrong)


def _tags(tags: Tags, given: list[str] | tuple[()]) -> Tags:
    """The tags of an instance: `product:`, `feature:` and `priority:` go before what the headers say.

    Raises Rejected for any other tag, which nothing here would keep.
    """
    said: dict[str, str] = {}
    wrong = []
    for i, tag in enumerate(given):
        name, _, value = tag.partition(":")
        if name not in _TAGS or not value or len(value) > 63:
            wrong.append(f"tags[{i}] must be {', '.join(f'{each}:<value>' for each in _TAGS)}: only those are kept")
        elif name == "priority" and value not in PRIORITIES:
            wrong.append(f"tags[{i}]: the priority must be one of {', '.join(PRIORITIES)}")
        else:
            said[name] = value
    if wrong:
        raise refused(wrong)
    return tags._replace(**said)  # type: ignore[arg-type]  # names and values are checked above


async def _definition(body: Creation, services: Services) -> DeployedDefinition:
    """The version to start. Raises Rejected(NOT_FOUND), and DefinitionInvalid when it cannot be run any more."""
    version = None if body.process_definition_version == ACTIVE_VERSION else body.process_definition_version
    deployed = await services.deployments.find(
        key=body.process_definition_key, process_id=body.process_definition_id, version=version
    )
    if deployed is None:
        if body.process_definition_key is not None:
            raise not_found("process definition", body.process_definition_key)
        which = "" if version is None else f" in version {version}"
        raise Rejected(Code.NOT_FOUND, f"no process `{body.process_definition_id}` is deployed{which}")
    return deployed


async def _end(run: Run, wait_ms: int) -> RunResult:
    """How the run ended. Raises Rejected with DEADLINE_EXCEEDED when it runs on, CANCELLED when it did not complete."""
    try:
        async with asyncio.timeout(wait_ms / 1000):
            result = await run.result()
    except TimeoutError:
        message = f"the process instance {run.key} did not end within {wait_ms} ms; it runs on"
        raise Rejected(Code.DEADLINE_EXCEEDED, message) from None
    if result.outcome.state != "completed":
        error = result.outcome.error or {}
        told = f": {error.get('code')}: {error.get('message')}" if error else ""
        raise Rejected(Code.CANCELLED, f"the process instance {run.key} was {result.outcome.state}{told}")
    return result


def _fetched(result: RunResult, names: list[str] | None) -> Mapping[str, Any]:
    variables = result.outcome.variables
    return variables if not names else {name: variables[name] for name in names if name in variables}


def _wanted_variables(body: SearchBody) -> dict[str, Any]:
    """What `filter.variables` asks for: names, each with the value that it must have. Raises Rejected.

    Taken out of the filter, whose other fields are of the instance itself.
    """
    given = (body.filter or {}).pop("variables", [])
    wanted: dict[str, Any] = {}
    wrong = []
    for i, each in enumerate(given if isinstance(given, list) else [given]):
        name, value = (each.get("name"), each.get("value")) if isinstance(each, dict) else (None, None)
        text = value.get("$eq") if isinstance(value, dict) and len(value) == 1 else value
        try:
            wanted[str(name)] = parsed(text.encode() if isinstance(name, str) and isinstance(text, str) else b"")
        except Rejected:
            wrong.append(f"filter.variables[{i}] must have a name, and as value the JSON text that it must equal")
    if wrong:
        raise refused(wrong)
    return wanted


def _reading(router: APIRouter, services: Services, instances: Instances) -> None:
    @router.post(
        "/process-instances/search",
        summary="Search process instances, called ones included",
        openapi_extra=described_search(fields.PROCESS_INSTANCE),
    )
    async def search(request: Request) -> Response:
        body = await read_json(request, SearchBody)
        wanted = _wanted_variables(body)
        query = read_query(body, fields.PROCESS_INSTANCE)
        for field in ("processInstanceKey", "parentProcessInstanceKey"):
            if (text := query.exact(field)) is not None:
                root = await instances.root_of(int(text))
                view = None if root is None else await instances.view(root)
                found = [] if view is None else [each for each in view.process_instances() if view.has(each, wanted)]
                return json_answer(page_of(found, query, "processInstanceKey"))
        found, capped = await AuditSearch(services, instances, query).instances(wanted)
        return json_answer(page_of(found, query, "processInstanceKey", capped=capped))

    @router.get("/process-instances/{key}", summary="One process instance")
    async def get(request: Request) -> Response:
        key = key_in_path(request, "key")
        view = await instances.found(key)
        item = next(each for each in view.process_instances() if each["processInstanceKey"] == str(key))
        return json_answer(item)

    @router.get("/process-instances/{key}/call-hierarchy", summary="The process instances around one, from outside in")
    async def call_hierarchy(request: Request) -> Response:
        key = key_in_path(request, "key")
        view = await instances.found(key)
        around = {each["processInstanceKey"]: each for each in view.process_instances()}
        path: list[dict[str, Any]] = []
        at: str | None = str(key)
        while at is not None:
            path.insert(0, around[at])
            at = around[at]["parentProcessInstanceKey"]
        names = ("processInstanceKey", "processDefinitionKey")
        said = [{name: each[name] for name in names} for each in path]
        titles = [each["processDefinitionName"] or each["processDefinitionId"] for each in path]
        return json_answer([item | {"processDefinitionName": title} for item, title in zip(said, titles, strict=True)])

    @router.get("/process-instances/{key}/sequence-flows", summary="The sequence flows that were taken")
    async def flows(request: Request) -> Response:
        key = key_in_path(request, "key")
        view = await instances.found(key)
        taken = dict.fromkeys(flow for owner, flow in view.taken_flows() if owner.key == key)
        said = view.places.owner(key).fields
        return json_answer({"items": [said | {"sequenceFlowId": f"{key}_{flow}", "elementId": flow} for flow in taken]})

    @router.get("/process-instances/{key}/statistics/element-instances", summary="How often each element was entered")
    async def statistics(request: Request) -> Response:
        key = key_in_path(request, "key")
        view = await instances.found(key)
        counts: dict[str, dict[str, Any]] = {}
        for item in view.elements():
            if item["processInstanceKey"] == str(key) and item["type"] != "PROCESS":
                none = {"elementId": item["elementId"], "active": 0, "canceled": 0, "incidents": 0, "completed": 0}
                count = counts.setdefault(item["elementId"], none)
                count[_COUNTED[item["state"]] if not item["hasIncident"] else "incidents"] += 1
        return json_answer({"items": list(counts.values())})


_COUNTED = {"ACTIVE": "active", "COMPLETED": "completed", "TERMINATED": "canceled"}
