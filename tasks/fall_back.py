"""Owns the task `fall_back`: the request goes on with the fallback model, openly degraded.
Never decides whether to fall back; the diagram does.
Called by the runtime, inline.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine import Code, Decision, TaskContext, TaskError, task
from tasks.resources import Resources


@dataclass(frozen=True, slots=True)
class FallBackInput:
    model: str
    fallback_model: str | None
    error: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class FallBackResult:
    model: str
    model_version: str
    degraded: bool
    degraded_reason: str
    attempts: int
    tried: list[str] = field(default_factory=list)


@task("fall_back", inline=True)
def fall_back(wanted: FallBackInput, ctx: TaskContext[Resources]) -> FallBackResult:
    """Switch to the fallback model, whose attempts are counted afresh. The version that the client asked for is one
    of the other model, so the server chooses.

    Raises TaskError (TASK_FAULT) when there is no fallback model: the diagram asked for one without looking.
    """
    if wanted.fallback_model is None:
        raise TaskError(Code.TASK_FAULT, "fall_back was reached although `fallback_model` is null")
    error = wanted.error or {}
    reason = f"model `{wanted.model}` failed with {error.get('code', 'an unknown error')}: {error.get('message', '')}"
    ctx.record_decision(Decision("fall_back", wanted.fallback_model, reason, {"from": wanted.model}))
    return FallBackResult(wanted.fallback_model, "", True, reason, 0)
