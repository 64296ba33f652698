"""Owns the measurement of one attempt: instants, chunks, tokens, and whether what it used is paid for.
Never calls a replica or decides anything; it is told what happened.
Called by infer, which records the Attempt and its Usage however the attempt ends.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine import Attempt, Code, TaskContext, Tensor
from tasks.prices import BYTES_PER_TOKEN, estimated_tokens, usage_lines
from tasks.resources import Resources
from tasks.verdicts import CallFailed

INPUT_TOKENS, OUTPUT_TOKENS, FINISH_REASON = "input_tokens", "output_tokens", "finish_reason"

# The model did not run, as far as anybody can tell: no use is recorded.
_NOT_RUN = frozenset(
    {
        Code.REPLICA_UNAVAILABLE,
        Code.REPLICA_OVERLOADED,
        Code.MODEL_NOT_READY,
        Code.MODEL_NOT_FOUND,
        Code.INPUT_REFUSED,
        Code.UNSUPPORTED,
    }
)


class Meter:
    """What is known of one attempt so far. Tokens come from outputs of the model named `input_tokens` and
    `output_tokens` (in a stream: counted so far); where a model reports none they are estimated and flagged."""

    def __init__(self, ctx: TaskContext[Resources], replica: str, pool: str, model: str):
        self._ctx = ctx
        self._replica, self._pool, self._model = replica, pool, model
        self.version = ""
        self.chunks = 0
        self.model_asked = True  # False: only what the model takes was asked for
        self._answered = False
        self._texts = False
        self._text_bytes = 0
        self._reported: dict[str, int] = {}
        self._finish_reason: str | None = None
        self._sent_at_us = ctx.now_us()
        self._first_chunk_at_us: int | None = None
        self._first_token_at_us: int | None = None
        self._last_token_at_us: int | None = None
        self.input_tokens = 0
        self.output_tokens = 0
        self.estimated = False

    def saw(self, version: str, outputs: Sequence[Tensor], *, streamed: bool) -> None:
        """Outputs arrived from the replica."""
        self.version = version
        self._answered = True
        text = self._read(outputs)
        if not streamed:
            return
        now_us = self._ctx.now_us()
        self.chunks += 1
        self._first_chunk_at_us = self._first_chunk_at_us or now_us
        if text:
            self._first_token_at_us = self._first_token_at_us or now_us
            self._last_token_at_us = now_us

    def _read(self, outputs: Sequence[Tensor]) -> int:
        text_bytes = 0
        for tensor in outputs:
            if tensor.name in (INPUT_TOKENS, OUTPUT_TOKENS) and tensor.datatype.removeprefix("U").startswith("INT"):
                self._reported[tensor.name] = max(0, sum(tensor.data))
            elif tensor.datatype == "BYTES":
                if tensor.name == FINISH_REASON and tensor.data:
                    self._finish_reason = tensor.data[-1] or None
                else:
                    self._texts = True
                    text_bytes += sum([len(text.encode()) for text in tensor.data])
        self._text_bytes += text_bytes
        return text_bytes

    def succeeded(self) -> None:
        """Record the attempt and its usage: it gave the answer."""
        self._record("ok", None, ran=True, billable=True)

    def failed(self, failure: CallFailed) -> None:
        """Record the attempt and its usage. Only output that reached the client is paid for."""
        outcome = "timeout" if failure.code in (Code.REPLICA_TIMEOUT, Code.DEADLINE_EXCEEDED) else "error"
        ran = self.model_asked and (self._answered or failure.code not in _NOT_RUN)
        self._record(outcome, failure, ran=ran, billable=self.chunks > 0)

    def stopped(self, code: str) -> None:
        """Record the attempt and its usage so far: it was cancelled. A client that went away pays for what it had
        asked for; otherwise only output that reached the client is paid for."""
        left = code == Code.CLIENT_DISCONNECTED
        past = self._ctx.now_us() >= self._ctx.deadline_at_us
        outcome = "client_disconnected" if left else "timeout" if past else "cancelled"
        why = CallFailed(
            Code.CLIENT_DISCONNECTED if left else Code.DEADLINE_EXCEEDED if past else Code.CANCELLED,
            "the client disconnected" if left else "the request's deadline passed" if past else "the attempt was ended",
            "CANCELLED",
        )
        self._record(outcome, why, ran=True, billable=left or self.chunks > 0)

    def _record(self, outcome: str, failure: CallFailed | None, *, ran: bool, billable: bool) -> None:
        ctx = self._ctx
        if ran:
            self._count_tokens()
            self._record_usage(billable)
        ctx.record_attempt(
            Attempt(
                replica=self._replica,
                pool=self._pool,
                model=self._model,
                model_version=self.version,
                protocol="grpc",
                outcome=outcome,
                sent_at_us=self._sent_at_us,
                done_at_us=ctx.now_us(),
                first_chunk_at_us=self._first_chunk_at_us,
                first_token_at_us=self._first_token_at_us,
                last_token_at_us=self._last_token_at_us,
                chunks=self.chunks,
                input_tokens=self.input_tokens if ran else None,
                output_tokens=self.output_tokens if ran else None,
                tokens_estimated=self.estimated,
                finish_reason=self._finish_reason,
                error_code=str(failure.code) if failure else None,
                grpc_status=failure.grpc_status if failure else "OK",
                message=failure.message if failure else None,
                billable=billable,
            )
        )
        ctx.resources.telemetry.attempts.labels(self._replica, outcome).inc()

    def _count_tokens(self) -> None:
        reported = self._reported
        # Several chunks are about one token each; one chunk is a whole text.
        estimate = self.chunks if self.chunks > 1 else -(-self._text_bytes // BYTES_PER_TOKEN)
        self.input_tokens = reported.get(INPUT_TOKENS, estimated_tokens(self._ctx.call.size_bytes))
        self.output_tokens = reported.get(OUTPUT_TOKENS, estimate if self._texts else 0)
        self.estimated = INPUT_TOKENS not in reported or (self._texts and OUTPUT_TOKENS not in reported)

    def _record_usage(self, billable: bool) -> None:
        resources = self._ctx.resources
        lines = usage_lines(
            resources.price_of(self._model),
            self._model,
            self._replica,
            self.input_tokens,
            self.output_tokens,
            estimated=self.estimated,
            billable=billable,
        )
        resources.ticket_of(self._ctx).usage.extend(lines)
        for line in lines:
            self._ctx.record_usage(line)
