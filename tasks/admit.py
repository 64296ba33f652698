"""Owns the task `admit`: is the request one that can be served, and is there room for it now?
Never looks at replicas or sends anything.
Called by the runtime, inline; it waits only when the request has to queue.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Any

from engine import BpmnError, Code, Decision, InferenceCall, ModelSettings, Operation, TaskContext, task
from tasks.admission import Slot
from tasks.prices import estimated_tokens
from tasks.resources import Resources, Ticket, refusal
from tasks.tensors import encode
from tasks.triton import request_of

_MAX_TOKENS_FIELD = "max_tokens"
_SEQUENCE = "sequence_id"


@dataclass(frozen=True, slots=True)
class AdmitInput:
    model: str
    request_bytes: int = 0


@dataclass(frozen=True, slots=True)
class AdmitResult:
    estimated_input_tokens: int
    max_output_tokens: int
    fallback_model: str | None
    queue_time_ms: int


@task("admit", inline=True)
def admit(wanted: AdmitInput, ctx: TaskContext[Resources]) -> AdmitResult | Awaitable[AdmitResult]:
    """Check the request and take a slot of its model; the slot is released by settle, or when the instance ends.

    Raises BpmnError: MODEL_NOT_FOUND, UNSUPPORTED, INPUT_REFUSED (every problem at once), QUEUE_FULL; when it had to
    wait QUEUE_TIMEOUT or DEADLINE_EXCEEDED.
    """
    resources = ctx.resources
    model = resources.models.get(wanted.model)
    if model is None:
        raise refusal(Code.MODEL_NOT_FOUND, f"model `{wanted.model}` is not known here")
    if any(_SEQUENCE in fields for fields in _parameters(ctx.call)):
        text = f"`{_SEQUENCE}`: a sequence needs one replica for all its requests, which is not supported"
        raise refusal(Code.UNSUPPORTED, text)
    ticket = resources.ticket_of(ctx)
    if ctx.call.operation is Operation.INFER:
        ticket.request = _encoded(ctx.call)
    try:
        entered = resources.admission.enter(model.name, wanted.request_bytes, ctx.deadline_at_us)
    except BpmnError as error:
        raise _refused(error, ctx) from None
    if isinstance(entered, Slot):
        return _admitted(wanted, model, ctx.call, ticket, entered)
    return _queued(wanted, model, ctx, ticket, entered)


async def _queued(
    wanted: AdmitInput, model: ModelSettings, ctx: TaskContext[Resources], ticket: Ticket, entered: Awaitable[Slot]
) -> AdmitResult:
    try:
        slot = await entered
    except BpmnError as error:
        raise _refused(error, ctx) from None
    result = _admitted(wanted, model, ctx.call, ticket, slot)
    reason = f"every slot of model `{model.name}` was taken; waited {slot.queue_time_us // 1000} ms in the queue"
    ctx.record_decision(Decision("admission", "admitted", reason, {"queue_time_ms": result.queue_time_ms}))
    return result


def _admitted(wanted: AdmitInput, model: ModelSettings, call: InferenceCall, ticket: Ticket, slot: Slot) -> AdmitResult:
    ticket.hold(slot)
    asked = next((fields[_MAX_TOKENS_FIELD] for fields in _parameters(call) if _MAX_TOKENS_FIELD in fields), None)
    return AdmitResult(
        estimated_input_tokens=estimated_tokens(wanted.request_bytes),
        max_output_tokens=asked if type(asked) is int and asked > 0 else model.max_output_tokens,
        fallback_model=model.fallback,
        queue_time_ms=slot.queue_time_us // 1000,
    )


def _refused(error: BpmnError, ctx: TaskContext[Resources]) -> BpmnError:
    ctx.record_decision(Decision("admission", None, error.message, {"retry_after_ms": error.retry_after_ms}))
    return refusal(Code(error.code), error.message, retry_after_ms=error.retry_after_ms)


def _parameters(call: InferenceCall) -> tuple[Mapping[str, Any], ...]:
    """Where a call may carry request parameters."""
    nested = call.body.get("parameters")
    return call.parameters, call.body, nested if isinstance(nested, Mapping) else {}


def _encoded(call: InferenceCall) -> object:
    """The request's tensors, encoded once for all attempts. Raises BpmnError (INPUT_REFUSED)."""
    tensors, problems, seen = [], [], set[str]()
    for tensor in call.inputs:
        if tensor.name in seen:
            problems.append(f"input `{tensor.name}` is given twice")
        seen.add(tensor.name)
        raw, wrong = encode(tensor)
        tensors.append((tensor, raw))
        problems.extend(wrong)
    if not call.inputs:
        problems.append("`inputs` is empty")
    if problems:
        raise refusal(Code.INPUT_REFUSED, "; ".join(problems))
    return request_of(call.model, call.version, call.client_id, tensors, call.outputs, call.parameters)
