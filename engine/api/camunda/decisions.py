"""Owns the routes that read deployed decisions and evaluate one.
Never writes an audit row: what is evaluated here governs nobody.
Called by Camunda 8 clients; a business rule task evaluates its decision inside the engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from engine.api.camunda import fields
from engine.api.camunda.answers import json_answer
from engine.api.camunda.problems import refused
from engine.api.camunda.reading import (
    DEFAULT_TENANT,
    Body,
    JsonObject,
    KeyField,
    Tenant,
    described,
    key_in_path,
    read_json,
)
from engine.api.camunda.searches import Item, SearchBody, described_search, page_of, read_query
from engine.api.camunda.services import Services, not_found
from engine.dmn import Decision, DecisionFailed, EvaluatedDecision
from engine.errors import Code, Rejected
from engine.feel import FeelValueError, to_json
from engine.records import Key
from engine.store import json_text
from engine.store.definitions import DECISION, MAX_LISTED, REQUIREMENTS, StoredDefinition


class DecisionEvaluation(Body):
    decision_definition_id: str | None = None
    decision_definition_key: KeyField | None = None
    variables: JsonObject | None = None
    tenant_id: Tenant | None = None


def add(router: APIRouter, services: Services) -> None:
    _requirements_routes(router, services)

    async def found(key: Key) -> StoredDefinition:
        definition = await services.deployments.definition(key)
        if definition is None or definition.kind != DECISION:
            raise not_found("decision definition", key)
        return definition

    @router.post(
        "/decision-definitions/search",
        summary="Search deployed decisions, every version",
        openapi_extra=described_search(fields.DECISION_REQUIREMENTS),
    )
    async def search(request: Request) -> Response:
        query = read_query(await read_json(request, SearchBody), fields.DECISION_DEFINITION)
        stored = await services.deployments.search(kind=DECISION, process_id=query.exact("decisionDefinitionId"))
        requirements = await _requirements(services)
        latest = {each.process_id: each.version for each in sorted(stored, key=lambda each: each.version)}
        found = [
            _item(each, requirements) | {"isLatestVersion": each.version == latest[each.process_id]} for each in stored
        ]
        answer = page_of(found, query, "decisionDefinitionKey", capped=len(stored) >= MAX_LISTED)
        for item in answer["items"]:
            del item["isLatestVersion"]
        return json_answer(answer)

    @router.post(
        "/decision-definitions/evaluation",
        summary="Evaluate a decision; nothing is recorded",
        openapi_extra=described(DecisionEvaluation, decisionDefinitionId="discount", variables={"amount": 250}),
    )
    async def evaluate(request: Request) -> Response:
        body = await read_json(request, DecisionEvaluation)
        if (body.decision_definition_id is None) == (body.decision_definition_key is None):
            raise refused(["give either decisionDefinitionId or decisionDefinitionKey"])
        if body.decision_definition_key is not None:
            definition = await found(body.decision_definition_key)
        else:
            definition = await _serving(services, body.decision_definition_id or "")
        return json_answer(await _evaluated(services, definition, body.variables or {}))

    @router.get("/decision-definitions/{key}", summary="One version of a decision")
    async def get(request: Request) -> Response:
        definition = await found(key_in_path(request, "key"))
        return json_answer(_item(definition, await _requirements(services)))

    @router.get("/decision-definitions/{key}/xml", summary="The decision's file as it was deployed")
    async def xml(request: Request) -> Response:
        definition = await found(key_in_path(request, "key"))
        return Response(await services.deployments.xml(definition.key), media_type="text/xml")


def _requirements_routes(router: APIRouter, services: Services) -> None:
    async def found(key: Key) -> StoredDefinition:
        definition = await services.deployments.definition(key)
        if definition is None or definition.kind != REQUIREMENTS:
            raise not_found("decision requirements", key)
        return definition

    @router.post(
        "/decision-requirements/search",
        summary="Search deployed .dmn files, every version",
        openapi_extra=described_search(fields.DECISION_DEFINITION),
    )
    async def search(request: Request) -> Response:
        query = read_query(await read_json(request, SearchBody), fields.DECISION_REQUIREMENTS)
        stored = await services.deployments.search(kind=REQUIREMENTS, process_id=query.exact("decisionRequirementsId"))
        items = [_requirements_item(each) for each in stored]
        return json_answer(page_of(items, query, "decisionRequirementsKey", capped=len(stored) >= MAX_LISTED))

    @router.get("/decision-requirements/{key}", summary="One version of a .dmn file")
    async def get(request: Request) -> Response:
        return json_answer(_requirements_item(await found(key_in_path(request, "key"))))

    @router.get("/decision-requirements/{key}/xml", summary="The .dmn file as it was deployed")
    async def xml(request: Request) -> Response:
        definition = await found(key_in_path(request, "key"))
        return Response(await services.deployments.xml(definition.key), media_type="text/xml")


def _requirements_item(definition: StoredDefinition) -> Item:
    return {
        "decisionRequirementsId": definition.process_id,
        "decisionRequirementsKey": str(definition.key),
        "decisionRequirementsName": definition.name or definition.process_id,
        "resourceName": definition.resource_name,
        "version": definition.version,
        "tenantId": DEFAULT_TENANT,
    }


async def _serving(services: Services, decision_id: str) -> StoredDefinition:
    active = await services.deployments.search(kind=DECISION, process_id=decision_id, active_only=True)
    if not active:
        raise Rejected(Code.NOT_FOUND, f"no decision `{decision_id}` is deployed")
    return active[0]


Requirements = Mapping[tuple[Key, str], StoredDefinition]


async def _requirements(services: Services) -> Requirements:
    """The decision requirements of every file, by deployment and file."""
    stored = await services.deployments.search(kind=REQUIREMENTS)
    return {(each.deployment_key, each.resource_name): each for each in stored}


def _item(definition: StoredDefinition, requirements: Requirements) -> Item:
    graph = requirements.get((definition.deployment_key, definition.resource_name), definition)
    return {
        "decisionDefinitionId": definition.process_id,
        "decisionDefinitionKey": str(definition.key),
        "name": definition.name or definition.process_id,
        "version": definition.version,
        "decisionRequirementsId": graph.process_id,
        "decisionRequirementsKey": str(graph.key),
        "decisionRequirementsName": graph.name or graph.process_id,
        "decisionRequirementsVersion": graph.version,
        "tenantId": DEFAULT_TENANT,
    }


async def _evaluated(services: Services, definition: StoredDefinition, variables: Mapping[str, Any]) -> dict[str, Any]:
    async with services.definitions.reading() as catalog:
        decision = await services.programs.part(catalog, definition)
        assert isinstance(decision, Decision)
        known = {
            step.id: await catalog.deployed_with(definition.deployment_key, DECISION, step.id)
            for step in decision.steps
        }
    evaluation_key = services.mint()
    said = _item(definition, await _requirements(services))
    answer = {
        "decisionDefinitionId": said["decisionDefinitionId"],
        "decisionDefinitionKey": said["decisionDefinitionKey"],
        "decisionDefinitionName": said["name"],
        "decisionDefinitionVersion": said["version"],
        "decisionRequirementsId": said["decisionRequirementsId"],
        "decisionRequirementsKey": said["decisionRequirementsKey"],
        "decisionEvaluationKey": str(evaluation_key),
        "decisionInstanceKey": str(evaluation_key),
        "tenantId": DEFAULT_TENANT,
        "failedDecisionDefinitionId": None,
        "failureMessage": None,
        "evaluatedDecisions": [],
        "output": "null",
        "warnings": [],
    }
    try:
        result = await asyncio.to_thread(decision.evaluate, variables, services.trial_context())
        answer["output"] = _text(result.value)
    except (DecisionFailed, FeelValueError) as failed:
        return answer | {"failedDecisionDefinitionId": definition.process_id, "failureMessage": str(failed)}
    answer["warnings"] = [{"message": cause} for cause in result.causes()]
    answer["evaluatedDecisions"] = [
        _step(each, known.get(each.id), f"{evaluation_key}-{position}")
        for position, each in enumerate(result.evaluated, start=1)
    ]
    return answer


def _step(each: EvaluatedDecision, definition: StoredDefinition | None, key: str) -> Item:
    return {
        "decisionDefinitionId": each.id,
        "decisionDefinitionKey": "0" if definition is None else str(definition.key),
        "decisionDefinitionName": each.name,
        "decisionDefinitionVersion": 0 if definition is None else definition.version,
        "decisionDefinitionType": "DECISION_TABLE" if each.hits else "UNSPECIFIED",
        "decisionEvaluationInstanceKey": key,
        "output": _text(each.value),
        "tenantId": DEFAULT_TENANT,
        "evaluatedInputs": [
            {"inputId": name, "inputName": name, "inputValue": _text(value)} for name, value in each.inputs.items()
        ],
        "matchedRules": [
            {
                "ruleId": hit.rule_id,
                "ruleIndex": hit.row,
                "evaluatedOutputs": [
                    {
                        "outputId": str(column),
                        "outputName": str(column),
                        "outputValue": _text(output),
                        "ruleId": hit.rule_id,
                        "ruleIndex": hit.row,
                    }
                    for column, output in enumerate(hit.outputs, start=1)
                ],
            }
            for hit in each.hits
        ],
    }


def _text(value: Any) -> str:
    return json_text.dumps(to_json(value)).decode()
