"""Owns what a failed call of a replica means: the one table from gRPC status and text to a code of Conch.
Never calls anything, retries or decides what happens next; the diagram does.
Called by the Triton client (to name a failure) and read by infer and the probes (to act on it).

UNAVAILABLE stands for four different things, and INVALID_ARGUMENT can mean a model that is not ready, so the status
alone does not say who has to act. The client library reports a lost connection with the same status and no other sign
than its text; a text that the table does not know takes nothing out of rotation, which the probes then decide.
"""

from __future__ import annotations

from typing import NamedTuple

import grpc

from engine import Code

MAX_MESSAGE = 1_000  # characters of a server's text that are kept
PUSHBACK = "grpc-retry-pushback-ms"  # how long a server, or a proxy before it, wants to be left alone (gRPC A6)


class Row(NamedTuple):
    """`text` is part of the server's message, any case; empty fits every message. First fitting row wins."""

    status: str
    text: str
    code: Code
    takes_out: bool  # the replica cannot serve this model until a probe says otherwise


# What the client library says when there is no connection, or no longer.
NO_CONNECTION: tuple[Row, ...] = (
    Row("UNAVAILABLE", "failed to connect", Code.REPLICA_UNAVAILABLE, True),
    Row("UNAVAILABLE", "connection re", Code.REPLICA_UNAVAILABLE, True),  # refused, reset by peer
    Row("UNAVAILABLE", "stream removed", Code.REPLICA_UNAVAILABLE, True),
    Row("UNAVAILABLE", "socket closed", Code.REPLICA_UNAVAILABLE, True),
    Row("UNAVAILABLE", "broken pipe", Code.REPLICA_UNAVAILABLE, True),
    Row("UNAVAILABLE", "goaway", Code.REPLICA_UNAVAILABLE, True),
    Row("UNAVAILABLE", "keepalive", Code.REPLICA_UNAVAILABLE, True),
    Row("UNAVAILABLE", "dns resolution failed", Code.REPLICA_UNAVAILABLE, True),
)

# What the server says.
ANSWERED: tuple[Row, ...] = (
    Row("UNAVAILABLE", "exceeds maximum queue size", Code.REPLICA_OVERLOADED, False),
    Row("UNAVAILABLE", "request timeout expired", Code.REPLICA_TIMEOUT, False),
    Row("UNAVAILABLE", "is stopping", Code.REPLICA_UNAVAILABLE, True),
    Row("UNAVAILABLE", "shutting down", Code.REPLICA_UNAVAILABLE, True),
    Row("UNAVAILABLE", "not ready", Code.MODEL_NOT_READY, True),
    Row("UNAVAILABLE", "not at ready state", Code.MODEL_NOT_READY, True),
    Row("UNAVAILABLE", "", Code.REPLICA_UNAVAILABLE, False),
    Row("INVALID_ARGUMENT", "not at ready state", Code.MODEL_NOT_READY, True),
    Row("INVALID_ARGUMENT", "", Code.INPUT_REFUSED, False),
    Row("OUT_OF_RANGE", "", Code.INPUT_REFUSED, False),
    Row("NOT_FOUND", "' version ", Code.MODEL_NOT_FOUND, False),  # the caller named the version
    Row("NOT_FOUND", "", Code.MODEL_NOT_READY, True),  # the settings say that the replica has the model
    Row("RESOURCE_EXHAUSTED", "larger than max", Code.INPUT_REFUSED, False),
    Row("RESOURCE_EXHAUSTED", "", Code.REPLICA_OVERLOADED, False),
    Row("DEADLINE_EXCEEDED", "", Code.REPLICA_TIMEOUT, False),
    Row("CANCELLED", "", Code.REPLICA_UNAVAILABLE, False),
    Row("UNIMPLEMENTED", "", Code.UNSUPPORTED, False),
    Row("INTERNAL", "stub process '", Code.REPLICA_UNAVAILABLE, True),
    Row("", "", Code.REPLICA_ERROR, False),
)

TABLE = NO_CONNECTION + ANSWERED


class CallFailed(Exception):
    """One call of one replica failed. `takes_out`: the replica cannot serve this model until a probe passes.
    `retry_after_ms`: what the replica asked for, if it did."""

    def __init__(
        self,
        code: Code,
        message: str,
        grpc_status: str | None = None,
        takes_out: bool = False,
        retry_after_ms: int | None = None,
    ):
        super().__init__(message)
        self.code = code
        self.message = message[:MAX_MESSAGE]
        self.grpc_status = grpc_status
        self.takes_out = takes_out
        self.retry_after_ms = retry_after_ms


def row_for(status: str | None, text: str) -> Row:
    """The first row that fits; without a status, the first of a server's own texts that fits by the text alone."""
    lowered = text.lower()
    if status is None:
        return next((row for row in ANSWERED if row.text and row.text in lowered), ANSWERED[-1])
    return next(row for row in TABLE if row.status in ("", status) and row.text in lowered)


def failure_of(error: grpc.aio.AioRpcError) -> CallFailed:
    """What a failed RPC means."""
    status, details = error.code().name, error.details() or ""
    row = row_for(status, details)
    return CallFailed(row.code, details or status, status, row.takes_out, _pushback_ms(error))


def _pushback_ms(error: grpc.aio.AioRpcError) -> int | None:
    asked = next((str(value) for key, value in error.trailing_metadata() or () if key == PUSHBACK), "")
    return int(asked) if asked.isascii() and asked.isdigit() and len(asked) < 10 else None


def failure_within(text: str) -> CallFailed:
    """What an error within a stream means; it carries no status, so a model's refusal of its input looks like any
    other error of the model."""
    row = row_for(None, text)
    return CallFailed(row.code, text, None, row.takes_out)
