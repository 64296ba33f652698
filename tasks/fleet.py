"""Owns what is known of every replica: its channel, what is in flight, and whether each model answers on it.
Never picks a replica, retries a request or waits for one; traffic is never delayed by a probe.
Called by check_health, route and infer; the probes and failed attempts write what they saw.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import NamedTuple

from engine import ModelSettings, ReplicaSettings, Settings, Telemetry
from tasks.generate import ModelCard
from tasks.pool import Candidate
from tasks.triton import TritonClient


class Lease:
    """One attempt in flight on a replica, counted from the choice on. Ending it twice is the same as once."""

    __slots__ = ("_ended", "replica")

    def __init__(self, replica: Replica):
        self.replica = replica
        self._ended = False
        replica.in_flight += 1

    def end(self) -> None:
        if not self._ended:
            self._ended = True
            self.replica.in_flight -= 1


class Replica:
    """One Triton server: its settings, its channel, its load."""

    def __init__(self, settings: ReplicaSettings, telemetry: Telemetry):
        self.settings = settings
        self.name = settings.name
        self.client = TritonClient(settings.grpc)
        self.in_flight = 0
        self.cards: dict[tuple[str, str], ModelCard] = {}
        telemetry.replica_in_flight.labels(settings.name).set_function(lambda: self.in_flight)

    async def card_of(self, model: str, version: str, timeout_s: float) -> ModelCard:
        """What this replica says about a model, asked once. Raises CallFailed."""
        key = (model, version)
        card = self.cards.get(key)
        if card is None:
            card = await self.client.card(model, version, timeout_s)
            if not version:  # versions come from clients: keeping theirs would grow without a bound
                self.cards[key] = card
        return card

    def forget_card(self, model: str) -> None:
        """Ask again next time: the replica may serve another model under this name now."""
        self.cards.pop((model, ""), None)


class ModelHealth:
    """Whether one model answers on one replica. Up after the first probe that passes; down at once when the replica
    is known to be unable, or after `failures_out` failed probes; up again after `successes_in` in a row."""

    def __init__(self, replica: Replica, model: ModelSettings, settings: Settings, telemetry: Telemetry):
        self.replica = replica
        self.model = model
        self.up = False
        self.reason = "not probed yet"
        self.probe_soon = asyncio.Event()
        self.answers = 0  # that attempts got: a model that answers them is alive, however late the probe's turn comes
        self._failures_out = settings.probes.failures_out
        self._successes_in = 1
        self._successes_after_down = settings.probes.successes_in
        self._failures = 0
        self._successes = 0
        self._gauge = telemetry.replica_up.labels(replica.name, telemetry.model(model.name))
        self._gauge.set(0)

    def passed(self) -> None:
        """A probe got an answer from the model."""
        self._failures = 0
        self._successes += 1
        if not self.up and self._successes >= self._successes_in:
            self.up, self.reason = True, ""
            self._gauge.set(1)

    def failed(self, reason: str, *, at_once: bool) -> None:
        """A probe failed. `at_once`: the failure says that the replica cannot serve the model at all."""
        self._successes = 0
        self._failures += 1
        if at_once or self._failures >= self._failures_out:
            self._take_out(reason if at_once else f"{self._failures} probes failed in a row, the last: {reason}")
        elif not self.up:
            self.reason = reason

    def lost(self, reason: str) -> None:
        """An attempt found that the replica cannot serve the model: out of rotation until probes pass again."""
        self._successes = 0
        self._take_out(reason)
        self.probe_soon.set()

    def suspect(self) -> None:
        """An attempt took too long: probe now rather than at the next interval."""
        self.probe_soon.set()

    def _take_out(self, reason: str) -> None:
        self.up, self.reason = False, reason
        self._successes_in = self._successes_after_down
        self.replica.forget_card(self.model.name)
        self._gauge.set(0)


class Unhealthy(NamedTuple):
    replica: str
    reason: str


class Fleet:
    """Every replica and the health of every model on it. For one event loop."""

    def __init__(self, settings: Settings, telemetry: Telemetry):
        self.replicas = {each.name: Replica(each, telemetry) for each in settings.replicas}
        self.models = {model.name: model for model in settings.models}
        self.health: dict[str, dict[str, ModelHealth]] = {
            model.name: {
                replica.name: ModelHealth(replica, model, settings, telemetry)
                for replica in self.replicas.values()
                if replica.settings.pool in model.pools
            }
            for model in settings.models
        }
        self._turns: dict[tuple[str, str], float] = {}

    def health_of(self, model: str) -> tuple[list[str], list[Unhealthy]]:
        """The replicas on which `model` answers, and the others with the reason, in the order of the settings."""
        known = self.health.get(model, {}).values()
        up = [each.replica.name for each in known if each.up]
        return up, [Unhealthy(each.replica.name, each.reason) for each in known if not each.up]

    def candidates(self, model: str, names: Iterable[str]) -> list[Candidate]:
        """What the choice has to know of each named replica. A name that the settings do not know is left out."""
        return [
            Candidate(
                name,
                replica.settings.pool,
                replica.settings.weight,
                replica.in_flight,
                replica.settings.max_concurrency,
                self._turns.get((model, name), 0.0),
            )
            for name in names
            if (replica := self.replicas.get(name)) is not None
        ]

    def take(self, model: str, replica: str, next_turn: float) -> Lease:
        """Count an attempt on a replica from now on, before it is sent: simultaneous choices see each other."""
        if model in self.models:
            self._turns[model, replica] = next_turn
        return Lease(self.replicas[replica])

    def readiness(self) -> dict[str, list[str]]:
        """For each model the replicas on which it answers."""
        return {model: self.health_of(model)[0] for model in self.models}

    async def close(self) -> None:
        """Close every channel; attempts under way are cancelled."""
        await asyncio.gather(*(replica.client.close() for replica in self.replicas.values()))
