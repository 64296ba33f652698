"""Owns the task `infer`: one attempt on one replica, from request to answer, measured however it ends.
Never retries, falls back or waits for a better time; every outcome that a diagram decides on is a BpmnError.
Called by the runtime; cancelling the task cancels the call on the replica.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, NoReturn

import orjson

from engine import Chunk, Code, InferenceAnswer, Operation, TaskContext, TaskError, Tensor, task
from tasks.fleet import Lease
from tasks.generate import EXACTLY_ONE, ModelCard, body_of, map_body
from tasks.meter import Meter
from tasks.resources import Resources, refusal
from tasks.triton import StreamStalled, address_to, outputs_of, parameters_of, request_of
from tasks.verdicts import CallFailed


@dataclass(frozen=True, slots=True)
class InferInput:
    model: str
    replica: str
    pool: str
    model_version: str = ""
    attempts: int = 0
    tried: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class InferResult:
    attempts: int
    tried: list[str]
    error: None
    usage: Mapping[str, Any]
    served_by: str
    served_model: str


@task("infer")
async def infer(wanted: InferInput, ctx: TaskContext[Resources]) -> InferResult:
    """Make one attempt and deliver its answer.

    Raises BpmnError for every outcome of the attempt, with `error`, `attempts` and `tried` for the diagram. When it is
    cancelled, what was used until then is recorded; the message of the cancellation says who ended it.
    """
    attempt = _Attempt(wanted, ctx)
    try:
        await attempt.run()
    except CallFailed as failure:
        attempt.refuse(failure)
    except asyncio.CancelledError as stop:
        if attempt.sent:
            attempt.meter.stopped(str(stop.args[0]) if stop.args else "")
        raise
    except Exception:  # a fault of ours: what the replica has done for it is recorded all the same
        if attempt.sent:
            attempt.meter.failed(CallFailed(Code.TASK_FAULT, "the gateway failed on this attempt"))
        raise
    finally:
        attempt.lease.end()
    meter = attempt.meter
    meter.succeeded()
    usage = {
        "input_tokens": meter.input_tokens,
        "output_tokens": meter.output_tokens,
        "estimated": meter.estimated,
    }
    return InferResult(attempt.number, attempt.tried, None, usage, wanted.replica, wanted.model)


class _Attempt:
    def __init__(self, wanted: InferInput, ctx: TaskContext[Resources]):
        self.ctx = ctx
        self.wanted = wanted
        self.sent = False  # what is refused before the replica was called is no attempt
        self.asked_us: object = ctx.call.parameters.get("timeout")  # the caller's own limit of Triton's queue
        self.number = wanted.attempts + 1
        self.tried = [*wanted.tried, wanted.replica]
        self.settings = ctx.resources.models[wanted.model]
        self.health = ctx.resources.fleet.health[wanted.model][wanted.replica]
        self.replica = self.health.replica
        self.lease = ctx.resources.ticket_of(ctx).take_lease(wanted.replica) or Lease(self.replica)
        self.meter = Meter(ctx, wanted.replica, wanted.pool, wanted.model)

    async def run(self) -> None:
        operation = self.ctx.call.operation
        if operation is Operation.INFER:
            await self._infer()
        else:
            await self._generate(streaming=operation is Operation.GENERATE_STREAM)

    async def _infer(self) -> None:
        request = self.ctx.resources.ticket_of(self.ctx).request
        if request is None:
            raise TaskError(Code.TASK_FAULT, "infer needs the request that admit encodes: put admit before it")
        response, outputs = await self._unary(request)
        self._deliver(response, outputs=outputs, parameters=parameters_of(response))

    async def _generate(self, *, streaming: bool) -> None:
        card = await self._card()
        mapped = map_body(card, self.ctx.call.body)
        if mapped.problems:
            raise CallFailed(Code.INPUT_REFUSED, "; ".join(mapped.problems))
        self.asked_us = mapped.parameters.get("timeout")
        request = request_of("", "", "", mapped.tensors, (), mapped.parameters)
        if streaming and card.decoupled:
            await self._stream_to_client(request)
        elif streaming:
            await self._one_chunk(request)
        else:
            ask = self._exactly_one if card.decoupled else self._unary
            response, outputs = await ask(request)
            self._deliver(response, body=self._body(response, outputs))

    async def _card(self) -> ModelCard:
        limit_s, own = self._limit_s()
        try:
            return await self.replica.card_of(self.wanted.model, self.wanted.model_version, limit_s)
        except CallFailed as failure:
            self.sent = True
            self.meter.model_asked = False
            raise self._explained(failure, own) from None

    async def _unary(self, request: Any, *, streamed: bool = False) -> tuple[Any, tuple[Tensor, ...]]:
        limit_s, own = self._limit_s()
        try:
            response = await self.replica.client.infer(self._addressed(request, limit_s), limit_s)
        except CallFailed as failure:
            raise self._explained(failure, own) from None
        return response, self._seen(response, streamed=streamed)

    async def _exactly_one(self, request: Any) -> tuple[Any, tuple[Tensor, ...]]:
        """A decoupled model may answer with any number of responses; generate stands for one."""
        limit_s, own = self._limit_s()
        answers: list[Any] = []
        try:
            stream = self.replica.client.stream(self._addressed(request, limit_s), limit_s, limit_s, limit_s)
            async with aclosing(stream) as responses:
                async for response in responses:
                    answers.append(response)
                    if len(answers) > 1:
                        break
        except StreamStalled:
            raise self._too_slow(own, "DEADLINE_EXCEEDED") from None
        except CallFailed as failure:
            raise self._explained(failure, own) from None
        seen = [self._seen(answer, streamed=False) for answer in answers]
        if len(answers) != 1:
            raise CallFailed(Code.INPUT_REFUSED, EXACTLY_ONE)
        return answers[0], seen[0]

    def _seen(self, response: Any, *, streamed: bool) -> tuple[Tensor, ...]:
        self.health.answers += 1
        outputs = outputs_of(response)
        self.meter.saw(response.model_version, outputs, streamed=streamed)
        return outputs

    async def _one_chunk(self, request: Any) -> None:
        """A model that is not decoupled has one answer; the unary call tells errors apart by their status."""
        response, outputs = await self._unary(request, streamed=True)
        await self._emit(response, outputs)
        self._deliver(response)

    async def _emit(self, response: Any, outputs: Sequence[Tensor]) -> None:
        await self.ctx.emit(Chunk(orjson.dumps(self._body(response, outputs))))

    async def _stream_to_client(self, request: Any) -> None:
        left_s = self._left_s()
        settings = self.settings
        first_s, stall_s = settings.first_token_timeout_ms / 1000, settings.stall_timeout_ms / 1000
        stream = self.replica.client.stream(self._addressed(request, left_s), left_s, first_s, stall_s)
        try:
            async with aclosing(stream) as responses:
                async for response in responses:
                    await self._emit(response, self._seen(response, streamed=True))
        except StreamStalled:
            raise self._stalled() from None
        except CallFailed as failure:
            raise self._explained(failure, own=False) from None
        self.ctx.deliver(InferenceAnswer(self.wanted.model, self.meter.version))

    def refuse(self, failure: CallFailed) -> NoReturn:
        """Record the failed attempt and throw it at the diagram."""
        if not self.sent:
            attempts, tried = self.number - 1, self.tried[:-1]
            raise refusal(failure.code, failure.message, attempts=attempts, tried=tried) from None
        self._learn(failure)
        self.meter.failed(failure)
        streamed = self.meter.chunks > 0
        raise refusal(
            Code.STREAM_BROKEN if streamed and failure.code is not Code.DEADLINE_EXCEEDED else failure.code,
            failure.message,
            attempts=self.number,
            tried=self.tried,
            replica=self.wanted.replica,
            grpc_status=failure.grpc_status,
            retry_after_ms=failure.retry_after_ms,
            streamed=streamed,
        ) from None

    def _learn(self, failure: CallFailed) -> None:
        """What the failure says about the replica. Its text may repeat what this caller sent, and other callers see
        the reason, so the text is not told; and an error without a status is believed only when a probe gets it too."""
        if failure.takes_out and failure.grpc_status:
            self.health.lost(f"an attempt ended with {failure.code} ({failure.grpc_status})")
        elif failure.takes_out or failure.code is Code.REPLICA_TIMEOUT:
            self.health.suspect()
        elif failure.code is Code.INPUT_REFUSED and failure.grpc_status:
            self.replica.forget_card(self.wanted.model)  # the server's inputs may have changed

    def _addressed(self, request: Any, limit_s: float) -> Any:
        wanted, asked_us = self.wanted, self.asked_us
        self.sent = True
        limit_us = int(limit_s * 1_000_000)
        if type(asked_us) is int and 0 < asked_us < limit_us:
            limit_us = asked_us
        return address_to(request, wanted.model, wanted.model_version, self.ctx.request_id, limit_us)

    def _left_s(self) -> float:
        """Seconds until the request's deadline. Raises CallFailed (DEADLINE_EXCEEDED) when it has passed."""
        left_us = self.ctx.deadline_at_us - self.ctx.now_us()
        if left_us <= 0:
            raise CallFailed(Code.DEADLINE_EXCEEDED, "the request's deadline had passed before the attempt")
        return left_us / 1_000_000

    def _limit_s(self) -> tuple[float, bool]:
        """How long a unary attempt may take, in seconds, and whether that is the attempt's own limit rather than the
        request's deadline."""
        left_s, own_s = self._left_s(), self.settings.attempt_timeout_ms / 1000
        return min(left_s, own_s), own_s < left_s

    def _explained(self, failure: CallFailed, own: bool) -> CallFailed:
        """gRPC says only that a deadline passed; say whose."""
        if failure.grpc_status == "DEADLINE_EXCEEDED" and failure.code is Code.REPLICA_TIMEOUT:
            return self._too_slow(own, failure.grpc_status)
        return failure

    def _too_slow(self, own: bool, grpc_status: str) -> CallFailed:
        if own:
            limit = f"models.{self.settings.name}.attempt_timeout_ms ({self.settings.attempt_timeout_ms})"
            text = f"replica {self.wanted.replica} did not answer within {limit}"
            return CallFailed(Code.REPLICA_TIMEOUT, text, grpc_status)
        text = f"the request's deadline passed while replica {self.wanted.replica} was working"
        return CallFailed(Code.DEADLINE_EXCEEDED, text, grpc_status)

    def _stalled(self) -> CallFailed:
        name, settings = self.settings.name, self.settings
        if self.meter.chunks == 0:
            text = f"no first piece within models.{name}.first_token_timeout_ms ({settings.first_token_timeout_ms})"
        else:
            text = (
                f"no further piece after {self.meter.chunks} within "
                f"models.{name}.stall_timeout_ms ({settings.stall_timeout_ms})"
            )
        return CallFailed(Code.REPLICA_TIMEOUT, f"replica {self.wanted.replica} sent {text}", "CANCELLED")

    def _body(self, response: Any, outputs: Sequence[Tensor]) -> dict[str, Any]:
        return body_of(response.model_name, response.model_version, outputs)

    def _deliver(self, response: Any, **parts: Any) -> None:
        self.ctx.deliver(InferenceAnswer(response.model_name, response.model_version, **parts))
