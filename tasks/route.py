"""Owns the task `route`: which replica gets this attempt, and why.
Never sends anything or asks a replica; the choice itself is tasks.pool.
Called by the runtime, inline.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine import Code, Decision, TaskContext, task
from tasks.pool import Candidate, Choice, pick
from tasks.resources import Resources, refusal


@dataclass(frozen=True, slots=True)
class RouteInput:
    model: str
    candidates: list[str]
    unhealthy: list[Any] = field(default_factory=list)
    tried: list[str] = field(default_factory=list)
    attempts: int = 0


@dataclass(frozen=True, slots=True)
class RouteResult:
    replica: str
    pool: str
    route_reason: str


@task("route", inline=True)
def route(wanted: RouteInput, ctx: TaskContext[Resources]) -> RouteResult:
    """Pick a replica and count the attempt on it from now on, so that simultaneous choices see each other.

    Raises BpmnError: NO_REPLICA when none is healthy, REPLICA_OVERLOADED when all that are have no room.
    """
    fleet = ctx.resources.fleet
    choice = pick(fleet.candidates(wanted.model, wanted.candidates), wanted.tried, ctx.idempotency_key)
    picked = choice.picked
    ctx.record_decision(Decision("route", picked and picked.name, choice.reason, _details(wanted, choice)))
    if picked is None:
        raise _no_replica(wanted, choice)
    ticket = ctx.resources.ticket_of(ctx)
    ticket.leases.append(fleet.take(wanted.model, picked.name, choice.next_turn))
    return RouteResult(picked.name, picked.pool, choice.reason)


def _details(wanted: RouteInput, choice: Choice) -> dict[str, Any]:
    considered = [choice.picked, *choice.runners_up] if choice.picked else []
    return {
        "considered": [_described(each) for each in considered],
        "filtered": {rule: number for rule, number in choice.filtered.items() if number},
        "unhealthy": list(wanted.unhealthy),
    }


def _described(candidate: Candidate) -> dict[str, object]:
    return {
        "replica": candidate.name,
        "pool": candidate.pool,
        "weight": candidate.weight,
        "in_flight": candidate.in_flight,
    }


def _no_replica(wanted: RouteInput, choice: Choice) -> Exception:
    full = choice.filtered["at_max_concurrency"]
    code = Code.REPLICA_OVERLOADED if full else Code.NO_REPLICA
    reasons = "; ".join(
        f"{each['replica']}: {each['reason']}" for each in wanted.unhealthy if isinstance(each, Mapping)
    )
    message = f"no replica for model `{wanted.model}`: {choice.reason}" + (f" ({reasons})" if reasons else "")
    return refusal(code, message, attempts=wanted.attempts, tried=list(wanted.tried))
