"""Owns the writing of answers: JSON with exact numbers, and the empty 204.
Never decides what is said.
Called by every Camunda 8 route.
"""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from engine.store import json_text


def json_answer(document: Any, status: int = 200) -> Response:
    """`document` as JSON; Decimals become number literals of all their digits."""
    try:
        data = json_text.dumps(document)
    except json_text.Poison:  # a variable that no row could hold; shown as it is stored
        data = json_text.dumps(json_text.clean(document))
    return Response(data, status, media_type="application/json")


def no_content() -> Response:
    return Response(status_code=204)
