"""Owns the task `settle`: what the request used and cost in the end; lets the next request in.
Never fails a request: an unknown price is a cost of null.
Called by the runtime, inline.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from engine import TaskContext, task
from tasks.resources import Resources


@dataclass(frozen=True, slots=True)
class SettleResult:
    total_tokens: int
    cost_usd: Decimal | None


@task("settle", inline=True)
def settle(_: None, ctx: TaskContext[Resources]) -> SettleResult:
    """Add up the billable usage of every attempt and release the slot. `cost_usd` is null when a price is unknown
    or nothing is paid for."""
    ticket = ctx.resources.ticket_of(ctx)
    ticket.release_slot()
    tokens = sum((line.quantity for line in ticket.usage if line.billable and line.unit == "Tokens"), Decimal(0))
    return SettleResult(int(tokens), ticket.cost_usd)
