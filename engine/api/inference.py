"""Owns the routes of API clients: KServe v2 `infer`, Triton's `generate` and `generate_stream`; raw ASGI.
Never decides about a request's life: it submits the call, waits for the commit and says what the instance ended with.
Called by uvicorn through the app, once per request.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

from engine.api import kserve
from engine.api.exchange import (
    Disconnected,
    DisconnectWatch,
    Headers,
    Receive,
    Scope,
    Send,
    answer,
    mint_request_id,
    read_body,
)
from engine.api.headers import read_tags
from engine.errors import Code, Rejected, meaning_of
from engine.inference import Operation
from engine.job import place_of
from engine.records import Tags
from engine.telemetry import OTHER

if TYPE_CHECKING:
    from engine.api.gateway import Gateway
    from engine.run import Run, RunResult

log = logging.getLogger("conch.api")

OK = "ok"
COME_BACK_MS = 1_000  # said to a client that may repeat its request, where nothing better is known
_CODES = frozenset(code.value for code in Code)
_FAULT = "the gateway failed on this request"
_NO_TAGS = Tags("unknown", "unknown", "unknown", "unknown", 0)


class BrokenOff(Exception):
    """An answer that had begun cannot be finished: the connection is closed, so that nobody takes it for whole."""


class InferenceEndpoint:
    """One operation's endpoint. Path parameters: `model` and, where the client names one, `version`."""

    def __init__(self, gateway: Gateway, operation: Operation):
        self._gateway = gateway
        self._operation = operation

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        arrived_at_us = self._gateway.now_us()
        request_id = mint_request_id(arrived_at_us)
        begun = False

        async def noting(message: MutableMapping[str, Any]) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._exchange(scope, receive, noting, request_id, arrived_at_us)
        except Exception as fault:  # edge of HTTP: a fault of ours still has to be told in the protocol's shape
            _log_fault(request_id, fault)
            if begun:
                raise BrokenOff(request_id) from None
            body = kserve.write_error(Code.ENGINE_FAULT, _FAULT)
            await answer(send, meaning_of(Code.ENGINE_FAULT).http_status, _request_headers(request_id), body)

    async def _exchange(self, scope: Scope, receive: Receive, send: Send, request_id: str, arrived_at_us: int) -> None:
        gateway = self._gateway
        path = scope["path_params"]
        model, version = path["model"], path.get("version", "")
        tags = _NO_TAGS
        try:
            peer = scope["client"][0] if scope.get("client") else None
            tags = read_tags(scope["headers"], peer, gateway.settings.defaults)
            body = await read_body(scope, receive, gateway.settings.server.max_body_bytes)
            call = kserve.read_call(self._operation, model, version, body)
            run = gateway.submit(call, tags, request_id, arrived_at_us)
        except Disconnected:
            gateway.telemetry.refusals.labels(Code.CLIENT_DISCONNECTED).inc()
            return
        except Rejected as refusal:
            await self._refuse(send, refusal, tags, request_id, model)
            return
        except Exception as fault:  # nothing has begun, so the audit takes it for a refusal
            _log_fault(request_id, fault)
            await self._refuse(send, Rejected(Code.ENGINE_FAULT, _FAULT), tags, request_id, model)
            return
        streaming = self._operation is Operation.GENERATE_STREAM
        watch = DisconnectWatch(receive, lambda: run.cancel(*_LEFT), at_once=streaming)
        outcome = "unanswered"
        try:
            if streaming:
                outcome = await self._stream(send, run, request_id, call.client_id, arrived_at_us)
            else:
                outcome = await self._answer_once(send, run, request_id, call.client_id)
        except Exception:  # told at the edge above; the instance must not go on without a client
            outcome = Code.ENGINE_FAULT
            run.cancel(Code.ENGINE_FAULT, _FAULT)
            raise
        finally:
            watch.close()
            gateway.observe(self._operation, run, arrived_at_us, outcome)

    async def _refuse(self, send: Send, refusal: Rejected, tags: Tags, request_id: str, model: str) -> None:
        """Say no, once the audit knows that it was said (or has counted it, while Postgres is away)."""
        status = meaning_of(refusal.code).http_status
        await self._gateway.refusals.record(refusal, tags, request_id, model, self._operation, status)
        headers = [*_request_headers(request_id), *_retry_after(refusal.retry_after_ms)]
        if refusal.code == Code.BODY_TOO_LARGE:
            headers.append((b"connection", b"close"))
        body = kserve.write_error(
            refusal.code, refusal.message, refusal.retry_after_ms, problems=refusal.fields.get("problems")
        )
        await answer(send, status, headers, body)

    async def _answer_once(self, send: Send, run: Run, request_id: str, client_id: str) -> str:
        try:
            result = await run.result()
        except Rejected as refusal:
            return await _say_refused(send, refusal, request_id, run)
        return await _say_result(send, result, request_id, run, client_id)

    async def _stream(self, send: Send, run: Run, request_id: str, client_id: str, arrived_at_us: int) -> str:
        """Server-sent events in Triton's form. Until the first chunk an error is a plain answer with its own status."""
        opened = False
        try:
            async for chunk in run.chunks():
                if not opened:
                    await _open_stream(send, run, request_id)
                    opened = True
                    self._gateway.observe_first_token(run, arrived_at_us)
                await send(_body(b"data: " + chunk.data + b"\n\n", more=True))
            result = await run.result()
        except Rejected as refusal:
            if not opened:
                return await _say_refused(send, refusal, request_id, run)
            await send(_body(_event(refusal.code, refusal.message), more=False))
            return refusal.code
        error = result.outcome.error
        if not opened:
            if error is not None:
                return await _say_result(send, result, request_id, run, client_id)
            await _open_stream(send, run, request_id)
        ending = _event(str(error.get("code")), str(error.get("message"))) if error else b""
        await send(_body(ending, more=False))
        return _outcome_label(error)


def _log_fault(request_id: str, fault: Exception) -> None:
    """The exception's text may quote a payload, so only its type and place are told."""
    extra = {"request_id": request_id, "error_type": type(fault).__name__, "place": place_of(fault)}
    log.critical("engine fault", extra=extra)


_LEFT = (Code.CLIENT_DISCONNECTED, "the client closed the connection")


def _event(code: str, message: str) -> bytes:
    return b"data: " + kserve.write_error(code, message) + b"\n\n"


def _body(data: bytes, *, more: bool) -> dict[str, Any]:
    return {"type": "http.response.body", "body": data, "more_body": more}


async def _open_stream(send: Send, run: Run, request_id: str) -> None:
    headers = [
        (b"content-type", b"text/event-stream; charset=utf-8"),
        (b"cache-control", b"no-cache"),
        *_request_headers(request_id),
        *_run_headers(run),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})


async def _say_refused(send: Send, refusal: Rejected, request_id: str, run: Run) -> str:
    retry_after_ms = _come_back_ms(refusal.code, refusal.retry_after_ms)
    headers = [*_request_headers(request_id), *_run_headers(run), *_retry_after(retry_after_ms)]
    status = meaning_of(refusal.code).http_status
    await answer(send, status, headers, kserve.write_error(refusal.code, refusal.message, retry_after_ms))
    return refusal.code


async def _say_result(send: Send, result: RunResult, request_id: str, run: Run, client_id: str) -> str:
    outcome = result.outcome
    headers = [*_request_headers(request_id), *_run_headers(run)]
    if reason := outcome.variables.get("degraded_reason"):
        headers.append((b"conch-degraded", _one_line(str(reason))))
    if outcome.error is None and result.answer is not None:
        await answer(send, 200, headers, kserve.write_answer(result.answer, client_id))
        return OK
    error = outcome.error or {"code": Code.ENGINE_FAULT, "message": "the process ended without an answer"}
    code = str(error.get("code", Code.ENGINE_FAULT))
    retry_after_ms = _come_back_ms(code, _whole(error.get("retry_after_ms")))
    incident = str(outcome.incident_key) if outcome.incident_key is not None else None
    body = kserve.write_error(
        code, str(error.get("message", "")), retry_after_ms, replica=error.get("replica"), incident_key=incident
    )
    await answer(send, meaning_of(code).http_status, [*headers, *_retry_after(retry_after_ms)], body)
    return _outcome_label(error)


def _one_line(text: str) -> bytes:
    """A header's value. It holds what a model said of its failure: a line break would end the header, or the head."""
    return "".join(char if " " <= char <= "~" else " " for char in text).strip().encode()


def _outcome_label(error: Mapping[str, Any] | None) -> str:
    """A metric label: a code of ours, or `other` for one that a diagram made up."""
    if error is None:
        return OK
    return str(error.get("code")) if error.get("code") in _CODES else OTHER


def _whole(value: object) -> int | None:
    return int(value) if isinstance(value, int) else None


def _request_headers(request_id: str) -> Headers:
    return [(b"conch-request-id", request_id.encode())]


def _run_headers(run: Run) -> Headers:
    """What a client may want to quote to the operator: the process instance, who answered, after how many attempts."""
    headers = [
        (b"conch-process-instance", str(run.key).encode()),
        (b"conch-attempts", str(run.attempts).encode()),
    ]
    if run.replica:
        headers.append((b"conch-replica", run.replica.encode()))
    return headers


def _come_back_ms(code: str, known_ms: int | None) -> int | None:
    """When to repeat the request: as far as is known, and always for a want of capacity (429, 503)."""
    if known_ms is None and meaning_of(code).http_status in (429, 503):
        return COME_BACK_MS
    return known_ms


def _retry_after(retry_after_ms: int | None) -> Headers:
    """RFC 9110 Retry-After has whole seconds: rounded up, so that nobody comes back too early."""
    if retry_after_ms is None:
        return []
    return [(b"retry-after", str(max(1, -(-retry_after_ms // 1000))).encode())]
