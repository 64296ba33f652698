"""Owns the writing of answers: JSON with exact numbers, the empty 204, and waiting for what is to be said.
Never decides what is said.
Called by every Camunda 8 route.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from engine.api.exchange import Disconnected, DisconnectWatch
from engine.store import json_text

T = TypeVar("T")


def json_answer(document: Any, status: int = 200) -> Response:
    """`document` as JSON; Decimals become number literals of all their digits."""
    try:
        data = json_text.dumps(document)
    except json_text.Poison:  # a variable that no row could hold; shown as it is stored
        data = json_text.dumps(json_text.clean(document))
    return Response(data, status, media_type="application/json")


def no_content() -> Response:
    return Response(status_code=204)


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """What `work` gives. When the client leaves, `work` is cancelled. Raises Disconnected then.

    The body has to be read before.
    """
    task = asyncio.ensure_future(work)
    left = False

    def leave() -> None:
        nonlocal left
        left = True
        task.cancel()

    watch = DisconnectWatch(request.receive, leave, at_once=True)
    try:
        return await task
    except asyncio.CancelledError:
        if left:
            raise Disconnected from None
        raise
    finally:
        watch.close()
