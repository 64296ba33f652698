"""Owns the route that evaluates one FEEL expression, for designers who want to see what it gives.
Never touches an instance, and bounds what an evaluation may take as every other evaluation is bounded.
Called by Camunda 8 clients.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from engine.api.camunda.answers import json_answer
from engine.api.camunda.reading import Body, JsonObject, KeyField, Tenant, described, read_json
from engine.api.camunda.services import Instances, Services, not_found
from engine.errors import Code, Rejected
from engine.feel import EvaluationContext, FeelSyntaxError, FeelValueError, compile_expression, to_json


class Evaluation(Body):
    expression: str
    variables: JsonObject | None = None
    scope_key: KeyField | None = None
    tenant_id: Tenant | None = None


def add(router: APIRouter, services: Services, instances: Instances) -> None:
    @router.post("/expression/evaluation", summary="Evaluate a FEEL expression", openapi_extra=described(Evaluation))
    async def evaluate(request: Request) -> Response:
        body = await read_json(request, Evaluation)
        if not body.expression.startswith("="):
            return _said(body.expression, body.expression, [])
        variables = dict(body.variables or {})
        if body.scope_key is not None:
            root = await instances.root_of_element(body.scope_key)
            view = None if root is None else await instances.view(root)
            if view is None:
                raise not_found("scope", body.scope_key)
            variables = {name: value for name, (_, value) in view.seen_from(body.scope_key).items()} | variables
        # An evaluation is bounded, and yet long enough to keep everybody else waiting.
        return await asyncio.to_thread(_evaluated, body.expression, variables, services.trial_context())


def _evaluated(expression: str, variables: Mapping[str, Any], context: EvaluationContext) -> Response:
    try:
        compiled = compile_expression(expression.removeprefix("="), names=variables)
        result = to_json(compiled.evaluate(variables, context))
    except FeelSyntaxError as error:
        raise Rejected(Code.INVALID_ARGUMENT, f"expression: {error}") from None
    except FeelValueError as error:
        raise Rejected(Code.INVALID_ARGUMENT, f"expression: its value is no JSON: {error}") from None
    warnings = dict.fromkeys((*compiled.remarks, *context.warnings))
    return _said(expression, result, [warning.in_one_line() for warning in warnings])


def _said(expression: str, result: object, warnings: list[str]) -> Response:
    listed = [{"message": warning} for warning in warnings]
    return json_answer({"expression": expression, "result": result, "warnings": listed, "referencedSecrets": []})
