"""Owns backpressure: how many requests of a model run at once, how many wait, how long, and how many bytes wait.
Never looks at replicas, reorders the queue or waits without a limit; first come, first served.
Called by admit (to enter) and settle (to leave).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from engine import BpmnError, Code, ModelSettings, Settings, Telemetry

_DRAIN_SAMPLES = 64
_MIN_RETRY_AFTER_MS = 50
_MAX_RETRY_AFTER_MS = 60_000


class Slot:
    """The right to run one request of a model. Releasing it twice is the same as once."""

    __slots__ = ("_gate", "queue_time_us")

    def __init__(self, gate: Gate, queue_time_us: int):
        self._gate: Gate | None = gate
        self.queue_time_us = queue_time_us

    def release(self) -> None:
        """Give the slot to the request that has waited longest, or back."""
        gate, self._gate = self._gate, None
        if gate is not None:
            gate.leave()


class _Waiter(NamedTuple):
    granted: asyncio.Future[None]
    size_bytes: int


class Admission:
    """The gates of all models and what they share: the bytes that wait. For one event loop."""

    def __init__(self, settings: Settings, telemetry: Telemetry, now_us: Callable[[], int]):
        self.limits = settings.limits
        self.now_us = now_us
        self.queued_bytes = 0
        self._gates = {model.name: Gate(self, model, telemetry) for model in settings.models}
        telemetry.queue_bytes.set_function(lambda: self.queued_bytes)

    def enter(self, model: str, size_bytes: int, deadline_at_us: int) -> Slot | Awaitable[Slot]:
        """A slot at once, or something to await for it.

        Raises BpmnError: QUEUE_FULL with retry_after_ms from the measured drain rate; when awaited, QUEUE_TIMEOUT, or
        DEADLINE_EXCEEDED when the request's own deadline passed first.
        """
        return self._gates[model].enter(size_bytes, deadline_at_us)

    def in_use(self, model: str) -> int:
        """Slots that are taken now."""
        return self._gates[model].in_use

    def waiting(self, model: str) -> int:
        """Requests that wait now."""
        return len(self._gates[model].queue)


class Gate:
    """The slots and the queue of one model."""

    def __init__(self, admission: Admission, model: ModelSettings, telemetry: Telemetry):
        self.name = model.name
        self.limit = model.max_concurrency or admission.limits.max_concurrency
        own = model.max_concurrency is not None
        self.knob = f"models.{model.name}.max_concurrency" if own else "limits.max_concurrency"
        self.in_use = 0
        self.queue: deque[_Waiter] = deque()
        self._admission = admission
        self._full_at_us = 0  # since when no slot was given back although all are taken
        self._drain_us: deque[int] = deque(maxlen=_DRAIN_SAMPLES)  # how long that lasted, each time
        telemetry.queue_entries.labels(telemetry.model(model.name)).set_function(lambda: len(self.queue))

    def enter(self, size_bytes: int, deadline_at_us: int) -> Slot | Awaitable[Slot]:
        if self.in_use < self.limit and not self.queue:
            self.in_use += 1
            if self.in_use == self.limit:
                self._full_at_us = self._admission.now_us()
            return Slot(self, 0)
        self._refuse_when_full(size_bytes)
        waiter = _Waiter(asyncio.get_running_loop().create_future(), size_bytes)
        self.queue.append(waiter)
        self._admission.queued_bytes += size_bytes
        return self._wait(waiter, deadline_at_us)

    def leave(self) -> None:
        if self.in_use == self.limit:
            now_us = self._admission.now_us()
            self._drain_us.append(now_us - self._full_at_us)
            self._full_at_us = now_us
        while self.queue:
            waiter = self.queue.popleft()
            self._admission.queued_bytes -= waiter.size_bytes
            if not waiter.granted.done():
                waiter.granted.set_result(None)
                return
        self.in_use -= 1

    async def _wait(self, waiter: _Waiter, deadline_at_us: int) -> Slot:
        queued_at_us = self._admission.now_us()
        limit_ms = self._admission.limits.queue_timeout_ms
        left_ms = (deadline_at_us - queued_at_us) / 1000
        try:
            async with asyncio.timeout(max(0.0, min(limit_ms, left_ms)) / 1000):
                await waiter.granted
        except TimeoutError:
            if not self._withdraw(waiter):
                return self._slot(queued_at_us)
            waited_ms = (self._admission.now_us() - queued_at_us) // 1000
            raise self._waited_too_long(waited_ms, limit_ms, left_ms) from None
        except asyncio.CancelledError:
            if not self._withdraw(waiter):
                self._slot(queued_at_us).release()
            raise
        return self._slot(queued_at_us)

    def _slot(self, queued_at_us: int) -> Slot:
        return Slot(self, self._admission.now_us() - queued_at_us)

    def _withdraw(self, waiter: _Waiter) -> bool:
        """Leave the queue; False when the slot had been granted in the same turn of the loop."""
        if waiter.granted.done() and not waiter.granted.cancelled():
            return False
        if waiter in self.queue:
            self.queue.remove(waiter)
            self._admission.queued_bytes -= waiter.size_bytes
        return True

    def _refuse_when_full(self, size_bytes: int) -> None:
        limits, waiting = self._admission.limits, len(self.queue)
        queued_bytes = self._admission.queued_bytes
        if waiting >= limits.queue_entries:
            knob = f"limits.queue_entries is {limits.queue_entries} and {waiting} requests wait"
        elif queued_bytes + size_bytes > limits.queue_bytes:
            knob = (
                f"limits.queue_bytes is {limits.queue_bytes}, requests of {queued_bytes} bytes wait and this one "
                f"has {size_bytes}"
            )
        else:
            return
        raise BpmnError(
            Code.QUEUE_FULL,
            f"the queue of model `{self.name}` is full: {knob}; {self.in_use} run ({self.knob} is {self.limit})",
            retry_after_ms=self.retry_after_ms(),
        )

    def _waited_too_long(self, waited_ms: int, limit_ms: int, left_ms: float) -> BpmnError:
        where = f"in the queue of model `{self.name}` ({self.in_use} run, {self.knob} is {self.limit})"
        if left_ms < limit_ms:
            text = f"the request's deadline passed after {waited_ms} ms {where}"
            return BpmnError(Code.DEADLINE_EXCEEDED, text)
        text = f"waited {waited_ms} ms {where}: limits.queue_timeout_ms is {limit_ms}"
        return BpmnError(Code.QUEUE_TIMEOUT, text, retry_after_ms=self.retry_after_ms())

    def retry_after_ms(self) -> int:
        """When everything that waits now will have drained, at the rate of the last departures while every slot was
        taken; the queue's time limit while no rate is known."""
        if not self._drain_us:
            return self._admission.limits.queue_timeout_ms
        measured_us = sum(self._drain_us) + self._admission.now_us() - self._full_at_us
        drain_us = measured_us * (len(self.queue) + 1) // len(self._drain_us)
        return min(max(drain_us // 1000, _MIN_RETRY_AFTER_MS), _MAX_RETRY_AFTER_MS)
