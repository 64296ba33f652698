"""Owns what a failed call of a replica means: the one table from gRPC status and text to a code of Conch.
Never calls anything, retries or decides what happens next; the diagram does.
Called by the Triton client (to name a failure) and read by infer and the probes (to act on it).

Triton answers UNAVAILABLE for four different things and INVALID_ARGUMENT for a model that is not ready, so the status
alone does not say who has to act. The texts were read from servers 2.51 to 2.73.
"""

from __future__ import annotations

from typing import NamedTuple

import grpc

from engine import Code

MAX_MESSAGE = 1_000  # characters of a server's text that are kept


class Row(NamedTuple):
    """`text` is part of the server's message, any case; empty fits every message. First fitting row wins."""

    status: str
    text: str
    code: Code
    takes_out: bool  # the replica cannot serve this model until a probe says otherwise


TABLE: tuple[Row, ...] = (
    Row("UNAVAILABLE", "exceeds maximum queue size", Code.REPLICA_OVERLOADED, False),
    Row("UNAVAILABLE", "request timeout expired", Code.REPLICA_TIMEOUT, False),
    Row("UNAVAILABLE", "server is stopping", Code.REPLICA_UNAVAILABLE, True),
    Row("UNAVAILABLE", "shutting down", Code.REPLICA_UNAVAILABLE, True),
    Row("UNAVAILABLE", "is not ready", Code.MODEL_NOT_READY, True),
    Row("UNAVAILABLE", "not at ready state", Code.MODEL_NOT_READY, True),
    Row("UNAVAILABLE", "is not found", Code.MODEL_NOT_READY, True),
    Row("UNAVAILABLE", "", Code.REPLICA_UNAVAILABLE, False),
    Row("INVALID_ARGUMENT", "not at ready state", Code.MODEL_NOT_READY, True),
    Row("INVALID_ARGUMENT", "", Code.INPUT_REFUSED, False),
    Row("OUT_OF_RANGE", "", Code.INPUT_REFUSED, False),
    Row("NOT_FOUND", "has no available versions", Code.MODEL_NOT_READY, True),
    Row("NOT_FOUND", "", Code.MODEL_NOT_FOUND, False),
    Row("RESOURCE_EXHAUSTED", "larger than max", Code.INPUT_REFUSED, False),
    Row("RESOURCE_EXHAUSTED", "", Code.REPLICA_OVERLOADED, False),
    Row("DEADLINE_EXCEEDED", "", Code.REPLICA_TIMEOUT, False),
    Row("CANCELLED", "", Code.REPLICA_UNAVAILABLE, False),
    Row("UNIMPLEMENTED", "", Code.UNSUPPORTED, False),
    Row("INTERNAL", "stub process", Code.REPLICA_UNAVAILABLE, True),
    Row("INTERNAL", "failed to initialize the response", Code.REPLICA_UNAVAILABLE, False),
    Row("", "", Code.REPLICA_ERROR, False),
)


class CallFailed(Exception):
    """One call of one replica failed. `takes_out`: the replica cannot serve this model until a probe passes."""

    def __init__(self, code: Code, message: str, grpc_status: str | None = None, takes_out: bool = False):
        super().__init__(message)
        self.code = code
        self.message = message[:MAX_MESSAGE]
        self.grpc_status = grpc_status
        self.takes_out = takes_out


def row_for(status: str, text: str) -> Row:
    """The first row of the table that fits."""
    lowered = text.lower()
    return next(row for row in TABLE if row.status in ("", status) and row.text in lowered)


def failure_of(error: grpc.aio.AioRpcError) -> CallFailed:
    """What a failed RPC means. A connection that failed is told from a server that answered UNAVAILABLE."""
    status, details = error.code().name, error.details() or ""
    if status == "UNAVAILABLE" and not _server_said_so(error):
        return CallFailed(Code.REPLICA_UNAVAILABLE, f"no connection to the replica: {details}", status, True)
    row = row_for(status, details)
    return CallFailed(row.code, details or status, status, row.takes_out)


def _server_said_so(error: grpc.aio.AioRpcError) -> bool:
    """gRPC reports the origin of a status only in its debug text."""
    return "Error received from peer" in (error.debug_error_string() or "")
