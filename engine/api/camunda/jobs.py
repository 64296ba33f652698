"""Owns the routes of job workers in any language: take jobs, and say how each went.
Never does a job or holds one; the work service lends them.
Called by Camunda 8 job workers, which wait here for work, and by Modeler's Test tab.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response

from engine.api.camunda import fields
from engine.api.camunda.answers import json_answer, no_content, while_connected
from engine.api.camunda.items import key_text, tags_of
from engine.api.camunda.open_work import OpenWork
from engine.api.camunda.reading import (
    DEFAULT_TENANT,
    Body,
    JsonObject,
    Milliseconds,
    Tenant,
    described,
    key_in_path,
    read_json,
)
from engine.api.camunda.searches import Item, SearchBody, described_search, page_of, read_query
from engine.api.camunda.services import Instances, Services
from engine.work import ActivatedJob


class Activation(Body):
    type: str
    timeout: Milliseconds
    max_jobs_to_activate: int
    worker: str = ""
    fetch_variable: list[str] | None = None
    request_timeout: int = 0
    tenant_ids: list[Tenant] | None = None


class Completion(Body):
    variables: JsonObject | None = None


class Failure(Body):
    retries: int = 0
    error_message: str | None = None
    retry_back_off: Annotated[int, Field(ge=0)] = 0
    variables: JsonObject | None = None


class ErrorThrown(Body):
    error_code: str
    error_message: str | None = None
    variables: JsonObject | None = None


class Changeset(Body):
    retries: int | None = None
    timeout: Milliseconds | None = None


class Update(Body):
    changeset: Changeset


def add(router: APIRouter, services: Services, instances: Instances) -> None:
    _taking(router, services)
    _answering(router, services)

    @router.patch(
        "/jobs/{key}",
        status_code=204,
        summary="Set the retries or the timeout of a job",
        openapi_extra=described(Update, changeset={"retries": 1}),
    )
    async def update(request: Request) -> Response:
        key = key_in_path(request, "key")
        change = (await read_json(request, Update)).changeset
        await services.work.update(key, retries=change.retries, timeout_ms=change.timeout)
        return no_content()

    @router.post(
        "/jobs/search",
        summary="Search jobs: of a process instance all of them, else the open ones",
        openapi_extra=described_search(fields.JOB),
    )
    async def search(request: Request) -> Response:
        query = read_query(await read_json(request, SearchBody), fields.JOB)
        key = query.exact("processInstanceKey") or query.exact("elementInstanceKey")
        job = query.exact("jobKey")
        if key is None and job is None:
            return json_answer(page_of(await OpenWork(services, instances).jobs(), query, "jobKey"))
        root = await (instances.root_of_element(int(key)) if key else instances.root_of_job(int(job or 0)))
        view = None if root is None else await instances.view(root)
        found: list[Item] = [] if view is None else list(view.jobs(instances.lent(view.key)))
        return json_answer(page_of(found, query, "jobKey"))


def _taking(router: APIRouter, services: Services) -> None:
    @router.post(
        "/jobs/activation",
        summary="Take jobs of one type, waiting for the first",
        openapi_extra=described(Activation, type="charge_card", timeout=60_000, maxJobsToActivate=5, worker="bank"),
    )
    async def activate(request: Request) -> Response:
        body = await read_json(request, Activation)
        taking = services.work.activate(
            body.type,
            worker=body.worker,
            timeout_ms=body.timeout,
            max_jobs=body.max_jobs_to_activate,
            fetch_variables=body.fetch_variable,
            request_timeout_ms=body.request_timeout,
        )
        jobs = await while_connected(request, taking)
        return json_answer({"jobs": [_activated(job, services) for job in jobs]})


def _activated(job: ActivatedJob, services: Services) -> dict[str, Any]:
    root = services.runtime.find_job(job.key)
    start = None if root is None else services.runtime.start_of(root)
    return {
        "jobKey": str(job.key),
        "type": job.topic,
        "processInstanceKey": str(job.process_instance_key),
        "rootProcessInstanceKey": key_text(root),
        "processDefinitionKey": str(job.definition.key),
        "processDefinitionId": job.definition.process_id,
        "processDefinitionVersion": job.definition.version,
        "elementId": job.element_id,
        "elementInstanceKey": str(job.element_instance_key),
        "customHeaders": job.headers,
        "worker": job.worker,
        "retries": job.retries,
        "deadline": job.deadline_at_us // 1000,
        "variables": job.variables,
        "tenantId": DEFAULT_TENANT,
        "physicalTenantId": "default",
        "kind": "BPMN_ELEMENT",
        "listenerEventType": "UNSPECIFIED",
        "userTask": None,
        "tags": [] if start is None else tags_of(start.tags),
        "businessId": None if start is None else start.business_id,
        "priority": 0,
        "jobLeaseToken": None,
    }


def _answering(router: APIRouter, services: Services) -> None:
    @router.post(
        "/jobs/{key}/completion",
        status_code=204,
        summary="A job is done",
        openapi_extra=described(Completion, variables={"charged": 12.5}),
    )
    async def complete(request: Request) -> Response:
        key = key_in_path(request, "key")
        body = await read_json(request, Completion)
        await services.work.complete(key, body.variables or {})
        return no_content()

    @router.post(
        "/jobs/{key}/failure",
        status_code=204,
        summary="A try of a job has failed; with no retries left, an incident",
        openapi_extra=described(Failure, retries=2, errorMessage="bank away", retryBackOff=5_000),
    )
    async def fail(request: Request) -> Response:
        key = key_in_path(request, "key")
        body = await read_json(request, Failure)
        await services.work.fail(
            key,
            retries=max(body.retries, 0),  # who counts down from none means none
            message=body.error_message or "the worker gave no reason",
            back_off_ms=body.retry_back_off,
            variables=body.variables or {},
        )
        return no_content()

    @router.post(
        "/jobs/{key}/error",
        status_code=204,
        summary="A job ended in a BPMN error, for the diagram to catch",
        openapi_extra=described(ErrorThrown, errorCode="CARD_REFUSED"),
    )
    async def throw(request: Request) -> Response:
        key = key_in_path(request, "key")
        body = await read_json(request, ErrorThrown)
        await services.work.throw(key, body.error_code, body.error_message or "", body.variables or {})
        return no_content()
