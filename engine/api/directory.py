"""Owns the short way from a method and a path to what answers it: one look into a table.
Never answers by itself; what it does not know goes the long way, where it is refused in words.
Called by the app, for the routes of Camunda 8 clients.

A web framework tries its routes one after another, and wraps each request into layers that these routes do not use:
it took longer than all else that such a request costs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeAlias

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from engine.api.camunda.problems import CamundaRoute
from engine.api.exchange import Receive, Scope, Send

Answer: TypeAlias = Callable[[Request], Awaitable[Response]]

_KEY_AT = 3  # `/v2/jobs/{key}/completion`: the only place of a parameter


class Directory:
    """Routes that take the request itself, by method and path; a parameter is a number and has one place."""

    def __init__(self, routes: Iterable[BaseRoute] = ()) -> None:
        self._answers: Mapping[tuple[str, str], Answer] = {
            (method, route.path): route.get_route_handler()
            for route in routes
            if isinstance(route, CamundaRoute) and route.takes_request
            for method in route.methods or ()
        }

    def find(self, scope: Scope) -> Answer | None:
        """What answers; the key of the path is in the scope then."""
        method, path = scope["method"], scope["path"]
        answer = self._answers.get((method, path))
        if answer is not None:
            scope["path_params"] = {}
            return answer
        parts = path.split("/")
        if len(parts) <= _KEY_AT or not (parts[_KEY_AT].isascii() and parts[_KEY_AT].isdigit()):
            return None
        key, parts[_KEY_AT] = parts[_KEY_AT], "{key}"
        scope["path_params"] = {"key": key}
        return self._answers.get((method, "/".join(parts)))


async def answer_with(answer: Answer, scope: Scope, receive: Receive, send: Send) -> None:
    response = await answer(Request(scope, receive, send))
    await response(scope, receive, send)
