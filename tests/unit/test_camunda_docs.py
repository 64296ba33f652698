"""The guide for Modeler names every route that is there, and none that is not."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from fastapi import FastAPI

from engine.api.camunda.routes import routes

GUIDE = Path(__file__).parent.parent.parent / "docs" / "modeler.md"


@pytest.fixture(scope="module")
def described() -> dict[tuple[str, str], Any]:
    """What OpenAPI says of each method and path."""
    app = FastAPI()
    app.include_router(routes(cast(Any, SimpleNamespace())))
    return {
        (method.upper(), path): said
        for path, methods in app.openapi()["paths"].items()
        for method, said in methods.items()
    }


def test_every_search_names_its_fields_and_every_route_how_it_fails(described: dict[tuple[str, str], Any]) -> None:
    for (method, path), said in described.items():
        assert "application/problem+json" in said["responses"]["default"]["content"], path
        if path.endswith("/search") or ("/statistics/" in path and method == "POST"):
            schema = said["requestBody"]["content"]["application/json"]["schema"]["properties"]
            names = set(schema["filter"]["properties"])
            assert names == set(schema["sort"]["items"]["properties"]["field"]["enum"]), path
            assert "tenantId" in names, path
            assert set(schema["page"]["properties"]) == {"limit", "from", "after", "before"}, path


def test_what_answers_nothing_says_so(described: dict[tuple[str, str], Any]) -> None:
    for path in ("jobs/{key}/completion", "jobs/{key}/failure", "jobs/{key}/error", "incidents/{key}/resolution"):
        assert "204" in described["POST", f"/v2/{path}"]["responses"], path
    assert "501" in described["POST", "/v2/user-tasks/{key}/assignment"]["responses"]
    example = described["POST", "/v2/jobs/activation"]["requestBody"]["content"]["application/json"]["example"]
    assert example["type"] == "charge_card"


def test_every_route_is_in_the_guide(described: dict[tuple[str, str], Any]) -> None:
    table = GUIDE.read_text(encoding="utf-8").split("## Every route")[1].split("## Errors")[0]
    documented = set(re.findall(r"`(GET|POST|PUT|PATCH|DELETE) (/v2/[^`]*)`", table))
    assert documented == set(described)
