"""Owns the task `check_health`: on which replicas does the model answer now?
Never probes by itself or chooses; an empty list is a fact, not an error.
Called by the runtime, inline.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine import TaskContext, task
from tasks.resources import Resources


@dataclass(frozen=True, slots=True)
class CheckHealthInput:
    model: str


@dataclass(frozen=True, slots=True)
class CheckHealthResult:
    candidates: list[str]
    unhealthy: list[dict[str, str]]


@task("check_health", inline=True)
def check_health(wanted: CheckHealthInput, ctx: TaskContext[Resources]) -> CheckHealthResult:
    """Names of the replicas on which the model answers, and the others with the reason."""
    up, down = ctx.resources.fleet.health_of(wanted.model)
    return CheckHealthResult(up, [{"replica": each.replica, "reason": each.reason} for each in down])
