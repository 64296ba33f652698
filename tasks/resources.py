"""Owns what the tasks of one process share, and what the tasks of one instance share beside its variables.
Never holds a payload, a slot or a lease longer than its instance lives in memory.
Called by every task through its context, and by the runtime, which opens it once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from decimal import Decimal
from functools import partial
from typing import Any

from engine import BpmnError, Code, PriceSettings, Settings, TaskContext, Telemetry, Usage, meaning_of
from tasks.admission import Admission, Slot
from tasks.fleet import Fleet, Lease
from tasks.prices import total_cost_usd
from tasks.probes import Probes
from tasks.verdicts import MAX_MESSAGE


class Ticket:
    """What the tasks of one instance hold for it: its slot, its reservations, the encoded request, what it used."""

    __slots__ = ("_closed", "_slot", "leases", "request", "usage")

    def __init__(self) -> None:
        self._slot: Slot | None = None
        self._closed = False
        self.request: Any = None
        self.leases: list[Lease] = []
        self.usage: list[Usage] = []

    def take_lease(self, replica: str) -> Lease | None:
        """The reservation that route made, now the attempt's own."""
        for lease in self.leases:
            if lease.replica.name == replica:
                self.leases.remove(lease)
                return lease
        return None

    def hold(self, slot: Slot) -> None:
        """Keep a slot until it is released; given back at once when the instance left memory while it queued."""
        if self._closed:
            slot.release()
        else:
            self._slot = slot

    def release_slot(self) -> None:
        """Let the next request in."""
        if self._slot is not None:
            self._slot.release()
            self._slot = None

    def close(self) -> None:
        """Give back everything that is still held."""
        self._closed = True
        self.release_slot()
        for lease in self.leases:
            lease.end()
        self.leases.clear()

    @property
    def cost_usd(self) -> Decimal | None:
        return total_cost_usd(self.usage)


class Resources:
    """What the tasks of one process share. For one event loop."""

    def __init__(self, settings: Settings, telemetry: Telemetry, now_us: Callable[[], int]):
        self.settings = settings
        self.telemetry = telemetry
        self.fleet = Fleet(settings, telemetry)
        self.admission = Admission(settings, telemetry, now_us)
        self.models = self.fleet.models
        self._prices = {price.id: price for price in settings.prices}
        self._tickets: dict[int, Ticket] = {}

    def price_of(self, model: str) -> PriceSettings | None:
        """The price of a model, None when the settings name none."""
        settings = self.models.get(model)
        return self._prices.get(settings.price) if settings and settings.price else None

    def ticket_of(self, ctx: TaskContext[Resources]) -> Ticket:
        """The ticket of the context's instance; it is closed when the instance leaves memory, however that ends."""
        ticket = self._tickets.get(ctx.instance_key)
        if ticket is None:
            ticket = self._tickets[ctx.instance_key] = Ticket()
            ctx.defer(partial(self._close, ctx.instance_key))
        return ticket

    def _close(self, instance_key: int) -> None:
        ticket = self._tickets.pop(instance_key, None)
        if ticket is not None:
            ticket.close()

    @property
    def tickets(self) -> int:
        """Instances that hold anything now."""
        return len(self._tickets)

    def readiness(self) -> dict[str, list[str]]:
        """For each model the replicas on which it answers."""
        return self.fleet.readiness()


@asynccontextmanager
async def open_resources(
    settings: Settings, telemetry: Telemetry, now_us: Callable[[], int]
) -> AsyncIterator[Resources]:
    """Open what the tasks of this process share. Every model is probed once before it yields, for at most the probe
    timeout: a dead replica does not stop the start. `now_us`: microseconds since the Unix epoch."""
    resources = Resources(settings, telemetry, now_us)
    probes = Probes(resources.fleet, settings, telemetry)
    try:
        await probes.first_round()
        probes.start()
        yield resources
    finally:
        await probes.stop()
        await resources.fleet.close()


def refusal(
    code: Code,
    message: str,
    *,
    attempts: int | None = None,
    tried: list[str] | None = None,
    replica: str | None = None,
    grpc_status: str | None = None,
    retry_after_ms: int | None = None,
    streamed: bool = False,
) -> BpmnError:
    """The BpmnError that a diagram decides on, with the variable `error` that its gateways read.

    The message may name what a caller wrote, so its length is bounded before it becomes a variable.
    After the first streamed piece no code is retryable: the client has seen output that cannot be taken back.
    """
    message = message[:MAX_MESSAGE]
    error: dict[str, object] = {
        "code": str(code),
        "message": message,
        "retryable": meaning_of(code).retryable and not streamed,
        "replica": replica,
        "grpc_status": grpc_status,
        "retry_after_ms": retry_after_ms,
        "streamed": streamed,
    }
    variables: dict[str, object] = {"error": error}
    if attempts is not None:
        variables |= {"attempts": attempts, "tried": tried or []}
    return BpmnError(code, message, variables=variables, retry_after_ms=retry_after_ms)
