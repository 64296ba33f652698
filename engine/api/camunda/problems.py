"""Owns how the Camunda 8 routes say that something is wrong: problem+json (RFC 9457), one line of `detail` per problem.
Never decides what is wrong, and never shows a variable or the text of an unexpected exception.
Called by every Camunda 8 route through its route class, and by the app for paths that nothing answers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Iterable
from math import ceil
from typing import Any

from fastapi.routing import APIRoute
from sqlalchemy import exc
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from engine.api.exchange import Disconnected
from engine.api.operations import problem
from engine.errors import Code, CodedError, DefinitionInvalid, Rejected, meaning_of
from engine.job import place_of

log = logging.getLogger("conch.api")

PUBLIC_PATHS = frozenset(("/v2/topology",))  # Modeler takes a 401 here for a server that speaks only gRPC
AUDIT_AWAY = (exc.OperationalError, exc.InterfaceError, exc.TimeoutError)

# Camunda 8's words for our codes, and its status where that differs; clients back off at 503 RESOURCE_EXHAUSTED.
_TITLES: dict[str, str] = {
    Code.MALFORMED_JSON: "INVALID_ARGUMENT",
    Code.INVALID_HEADER: "INVALID_ARGUMENT",
    Code.STALE: "INVALID_STATE",
    Code.CANCELLED: "INVALID_STATE",
    Code.OVERLOADED: "RESOURCE_EXHAUSTED",
    Code.QUEUE_FULL: "RESOURCE_EXHAUSTED",
    Code.DRAINING: "UNAVAILABLE",
    Code.JOURNAL_UNAVAILABLE: "UNAVAILABLE",
    Code.ABORTED: "UNAVAILABLE",
    Code.ENGINE_FAULT: "INTERNAL_ERROR",
}
_STATUS: dict[str, int] = {Code.OVERLOADED: 503, Code.QUEUE_FULL: 503}
_NO_CREDENTIALS = (
    "credentials were sent, but authentication is not configured on this gateway; set the connection's authentication"
    " to `None`"
)


def refused(lines: Iterable[str], code: Code = Code.INVALID_ARGUMENT) -> Rejected:
    """The refusal of a request for everything that is wrong with it, one line each."""
    return Rejected(code, "\n".join(lines))


class CamundaRoute(APIRoute):
    """A route whose every failure is a problem document."""

    @property
    def takes_request(self) -> bool:
        """Its function is given the request and nothing else, so it needs none of the framework's layers."""
        return self.dependant.request_param_name is not None

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle: Callable[[Request], Coroutine[Any, Any, Response]] = super().get_route_handler()
        if self.takes_request:
            handle = self.endpoint

        async def answer(request: Request) -> Response:
            path = request.url.path
            # Modeler sends an empty header for "None".
            if request.headers.get("authorization", "").strip() and path not in PUBLIC_PATHS:
                return problem(401, "UNAUTHENTICATED", _NO_CREDENTIALS, path)
            try:
                return await handle(request)
            except DefinitionInvalid as invalid:
                return problem(400, Code.INVALID_ARGUMENT, "\n".join(map(str, invalid.problems)), path)
            except CodedError as error:
                return problem_of(error, path)
            except AUDIT_AWAY as away:
                log.warning("audit not readable", extra={"reason": type(away).__name__})
                message = "the audit store (Postgres) does not answer at the moment"
                return problem_of(Rejected(Code.JOURNAL_UNAVAILABLE, message, retry_after_ms=1000), path)
            except Disconnected:
                return Response(status_code=499)  # to nobody
            except HTTPException:
                raise
            except Exception as fault:  # edge of HTTP: a fault of ours still has to be told in the protocol's shape
                extra = {"path": path, "error_type": type(fault).__name__, "place": place_of(fault)}
                log.error("request failed", extra=extra)
                return problem(500, "INTERNAL_ERROR", "the gateway failed on this request", path)

        return answer


def problem_of(error: CodedError, path: str) -> Response:
    """What went wrong, in Camunda's words; with Retry-After where coming back makes sense."""
    code = error.code
    title = _TITLES.get(code, code)
    status = _STATUS.get(code) or meaning_of(code).http_status
    answer = problem(status, title, error.message, path)
    if error.retry_after_ms is not None:
        answer.headers["retry-after"] = str(ceil(error.retry_after_ms / 1000))
    return answer


async def nothing_there(request: Request, error: Exception) -> Response:
    """The answer for a path, or a method on a path, that no route has."""
    assert isinstance(error, HTTPException)
    path = request.url.path
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "another method")
        detail = f"{request.method} {path}: this path is answered for {allowed}"
        answer = problem(405, "METHOD_NOT_ALLOWED", detail, path)
        answer.headers["allow"] = allowed
        return answer
    detail = str(error.detail) if error.detail != "Not Found" else f"nothing answers {request.method} {path}"
    return problem(error.status_code, "NOT_FOUND" if error.status_code == 404 else "ERROR", detail, path)
