"""The guide for Modeler names every route that is there, and none that is not."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from fastapi import FastAPI

from engine.api.camunda.routes import routes

GUIDE = Path(__file__).parent.parent.parent / "docs" / "modeler.md"


def test_every_route_is_in_the_guide() -> None:
    app = FastAPI()
    app.include_router(routes(cast(Any, SimpleNamespace())))
    served = {(method.upper(), path) for path, methods in app.openapi()["paths"].items() for method in methods}
    table = GUIDE.read_text(encoding="utf-8").split("## Every route")[1].split("## Errors")[0]
    documented = set(re.findall(r"`(GET|POST|PUT|PATCH|DELETE) (/v2/[^`]*)`", table))
    assert documented == served
