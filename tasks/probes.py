"""Owns the background probes: for each model on each replica, a tiny inference that the model really runs.
Never delays traffic, stops a start, or is billed; each probe has its own timeout and a marked request id.
Called by open_resources, which ends the probes with the process.

A server's own readiness is not trusted: it stays ready while the process that runs a model is dead. A probe that times
out while the model answers requests says that the model is busy, which must not take it out of rotation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from itertools import count
from math import prod
from time import perf_counter

from engine import Code, Settings, Telemetry, Tensor
from tasks.fleet import Fleet, ModelHealth
from tasks.generate import ModelCard, fit_shape
from tasks.tensors import encode
from tasks.triton import StreamStalled, request_of
from tasks.verdicts import CallFailed

REQUEST_ID_PREFIX = "conch-probe-"
_WHILE_DOWN_S = 0.25  # at most: a replica that comes back is noticed soon
_TOO_LATE = "DEADLINE_EXCEEDED"
_MIN_PAUSE_S = 0.05  # a probe that took its whole interval must not be followed by the next without a pause
_VALUES: dict[str, object] = {"BYTES": "probe", "BOOL": False}  # numbers are 0
_ONE_TOKEN = "max_tokens"  # an optional input of this name is set to 1, so that a text model answers briefly


class Probes:
    """One loop per model and replica. `first_round` has each probed once."""

    def __init__(self, fleet: Fleet, settings: Settings, telemetry: Telemetry):
        self._healths = [health for by_replica in fleet.health.values() for health in by_replica.values()]
        self._interval_s = settings.probes.interval_ms / 1000
        self._timeout_s = settings.probes.timeout_ms / 1000
        self._seconds = telemetry.probe_seconds
        self._numbers = count(1)
        self._loops: list[asyncio.Task[None]] = []

    async def first_round(self) -> None:
        """Probe everything once, side by side; ends after the probe timeout at the latest, whatever is dead."""
        await asyncio.gather(*(self.probe(health) for health in self._healths))

    def start(self) -> None:
        """Start the loops, spread over one interval."""
        for position, health in enumerate(self._healths):
            delay_s = self._interval_s * (position + 1) / len(self._healths)
            name = f"probe {health.replica.name} {health.model.name}"
            self._loops.append(asyncio.create_task(self._loop(health, delay_s), name=name))

    async def stop(self) -> None:
        """End the loops; a probe under way is cancelled."""
        for loop in self._loops:
            loop.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)

    async def _loop(self, health: ModelHealth, first_delay_s: float) -> None:
        delay_s = first_delay_s
        while True:
            await _wait(health.probe_soon, delay_s)
            health.probe_soon.clear()
            began = perf_counter()
            await self.probe(health)
            pace_s = self._interval_s if health.up else min(self._interval_s, _WHILE_DOWN_S)
            delay_s = max(_MIN_PAUSE_S, pace_s - (perf_counter() - began))

    async def probe(self, health: ModelHealth) -> None:
        """Probe once and note the result."""
        began, answers = perf_counter(), health.answers
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._ask(health)
            outcome = "ok"
            health.passed()
        except (TimeoutError, CallFailed) as error:
            if isinstance(error, CallFailed) and error.grpc_status != _TOO_LATE:
                outcome = "failed"
                health.failed(f"{error.code}: {error.message}", at_once=error.takes_out)
            elif health.answers != answers:
                outcome = "busy"
            else:
                outcome = "timeout"
                text = f"no answer within probes.timeout_ms ({self._timeout_s * 1000:.0f})"
                health.failed(text, at_once=False)
        except Exception as fault:  # a fault of ours must fail this probe, not end all later ones
            outcome = "failed"
            health.failed(f"the probe itself failed: {fault!r}", at_once=False)
        self._seconds.labels(health.replica.name, outcome).observe(perf_counter() - began)

    async def _ask(self, health: ModelHealth) -> None:
        client, model = health.replica.client, health.model
        if not model.probe:
            if not await client.ready(model.name, self._timeout_s):
                raise CallFailed(
                    Code.MODEL_NOT_READY, f"the server says that model `{model.name}` is not ready", None, True
                )
            return
        card = await health.replica.card_of(model.name, "", self._timeout_s)
        request_id = f"{REQUEST_ID_PREFIX}{next(self._numbers)}"
        request = request_of(model.name, "", request_id, list(_smallest_inputs(card)))
        if not card.decoupled:
            await client.infer(request, self._timeout_s)
            return
        try:
            async with aclosing(client.stream(request, self._timeout_s, self._timeout_s, self._timeout_s)) as responses:
                async for _ in responses:
                    pass
        except StreamStalled:
            raise TimeoutError from None


def _smallest_inputs(card: ModelCard) -> Iterator[tuple[Tensor, bytes]]:
    """Zeros and a short text in the smallest shape, for every input that a request must have."""
    for name, spec in card.inputs.items():
        one_token = name == _ONE_TOKEN and spec.datatype not in _VALUES
        if spec.optional and not one_token:
            continue
        shape = fit_shape(spec.shape, prod(d for d in spec.shape if d != -1)) or spec.shape
        value = 1 if one_token else _VALUES.get(spec.datatype, 0)
        tensor = Tensor(name, spec.datatype, shape, [value] * prod(shape))
        yield tensor, encode(tensor).raw


async def _wait(event: asyncio.Event, timeout_s: float) -> None:
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        return
