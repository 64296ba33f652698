"""Owns the routes that serve deployed forms: by key, and that of a user task.
Never reads what a form holds; it is handed out as it was deployed.
Called by task lists.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from engine.api.camunda.answers import json_answer, no_content
from engine.api.camunda.reading import DEFAULT_TENANT, key_in_path
from engine.api.camunda.services import Services, not_found
from engine.store.definitions import FORM, StoredDefinition


def add(router: APIRouter, services: Services) -> None:
    @router.get("/forms/{key}", summary="One version of a form, as it was deployed")
    async def get(request: Request) -> Response:
        key = key_in_path(request, "key")
        definition = await services.deployments.definition(key)
        if definition is None or definition.kind != FORM:
            raise not_found("form", key)
        return json_answer(await _item(services, definition))


async def form_of(services: Services, form_id: str | None) -> Response:
    """The version of a form that serves now; 204 where none is deployed with that id."""
    found = (
        [] if form_id is None else await services.deployments.search(kind=FORM, process_id=form_id, active_only=True)
    )
    return json_answer(await _item(services, found[0])) if found else no_content()


async def _item(services: Services, definition: StoredDefinition) -> dict[str, Any]:
    content = await services.deployments.xml(definition.key) or b""
    return {
        "tenantId": DEFAULT_TENANT,
        "formId": definition.process_id,
        "formKey": str(definition.key),
        "version": definition.version,
        "schema": content.decode(),
    }
