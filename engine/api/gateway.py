"""Owns what the routes share: one object that submits calls, answers questions and counts.
Never reads a request or writes an answer, and opens nothing: every part is handed in.
Called by the routes; built by the composition root.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from engine.api.documents import iso_of_us
from engine.api.refusals import Refusals
from engine.deployments import Deployments
from engine.inference import InferenceCall, Operation
from engine.keys import KeySource
from engine.linking import DeployedDefinition
from engine.records import DefinitionRef, Tags
from engine.run import Run
from engine.runtime import Runtime
from engine.settings import Settings
from engine.store.journal import Journal
from engine.store.queries import Queries, StoredInstance
from engine.tally import Count, LoopHistogram, Observations
from engine.telemetry import Telemetry


class FleetView(Protocol):
    """What the api may know of the replicas."""

    def readiness(self) -> Mapping[str, Sequence[str]]:
        """For each configured model the names of the replicas that really serve it."""


def _by_operation(histogram: LoopHistogram) -> dict[Operation, Observations]:
    return {operation: histogram.labels(operation.value) for operation in Operation}


class Gateway:
    """Everything behind the routes. Belongs to one event loop."""

    def __init__(
        self,
        *,
        settings: Settings,
        version: str,
        runtime: Runtime,
        journal: Journal,
        keys: KeySource,
        queries: Queries,
        deployments: Deployments,
        serving: Callable[[], DeployedDefinition],
        fleet: FleetView,
        telemetry: Telemetry,
        now_us: Callable[[], int],
        lease_held: Callable[[], bool],
    ):
        self.settings = settings
        self.version = version
        self.telemetry = telemetry
        self.now_us = now_us
        self.draining = False
        self._runtime = runtime
        self._journal = journal
        self._queries = queries
        self._deployments = deployments
        self._serving = serving
        self._fleet = fleet
        self._lease_held = lease_held
        self.refusals = Refusals(journal, keys, telemetry, now_us)
        for model in settings.models:
            telemetry.model(model.name)  # seen first, so that names which clients make up cannot take their places
        self._requests: dict[tuple[Operation, str, str], Count] = {}
        self._seconds = _by_operation(telemetry.request_seconds)
        self._overhead_seconds = _by_operation(telemetry.overhead_seconds)

    # --- the hot path -------------------------------------------------------------------------------------------

    def submit(self, call: InferenceCall, tags: Tags, request_id: str, arrived_at_us: int) -> Run:
        """Begin the process instance that governs `call`. Raises Rejected; then nothing has begun."""
        deadline_at_us = arrived_at_us + tags.deadline_ms * 1000
        variables = {
            "operation": call.operation.value,
            "model": call.model,
            "model_version": call.version,
            "request_bytes": call.size_bytes,
            "streaming": call.operation is Operation.GENERATE_STREAM,
            "deadline_at": iso_of_us(deadline_at_us),
            "error": None,
            "fallback_model": None,
            "degraded": False,
            "attempts": 0,
        }
        return self._runtime.submit(
            self._serving(), call, tags, variables, request_id=request_id, deadline_at_us=deadline_at_us
        )

    def observe(self, operation: Operation, run: Run, arrived_at_us: int, outcome: str) -> None:
        """Count an answered request and the time it took."""
        model = self.telemetry.model(run.call.model)
        counter = self._requests.get((operation, model, outcome))
        if counter is None:
            counter = self.telemetry.requests.labels(operation.value, model, outcome)
            self._requests[(operation, model, outcome)] = counter
        counter.inc()
        took_us = self.now_us() - arrived_at_us
        self._seconds[operation].observe(took_us / 1_000_000)
        self._overhead_seconds[operation].observe(max(0, took_us - run.waited_us) / 1_000_000)

    def observe_first_token(self, run: Run, arrived_at_us: int) -> None:
        """Measure the time to a stream's first token, as it leaves for the client."""
        model = self.telemetry.model(run.call.model)
        seconds = (self.now_us() - arrived_at_us) / 1_000_000
        self.telemetry.time_to_first_token_seconds.labels(model).observe(seconds)

    # --- questions ----------------------------------------------------------------------------------------------

    def not_ready_because(self) -> list[str]:
        """Why requests would be refused now; empty when they would be accepted."""
        reasons = []
        if self.draining:
            reasons.append("the gateway is shutting down")
        if not self._journal.available:
            reasons.append("the audit store (Postgres) does not accept rows")
        if not self._lease_held():
            reasons.append("this gateway's lease has expired")
        return reasons

    def model_readiness(self, model: str) -> bool | None:
        """Whether some replica really serves `model`; null when it is not configured."""
        replicas = self._fleet.readiness().get(model)
        return None if replicas is None else bool(replicas)

    async def list_definitions(self) -> list[Mapping[str, Any]]:
        return [
            {
                "processDefinitionKey": str(each.key),
                "processDefinitionId": each.process_id,
                "version": each.version,
                "versionTag": each.version_tag,
                "contentHash": each.content_hash,
                "resourceName": each.resource_name,
                "deployedAt": each.deployed_at.isoformat(),
                "deployedBy": each.deployed_by,
                "serving": each.active,
            }
            for each in await self._deployments.search()
        ]

    async def definition_xml(self, key: int) -> bytes | None:
        return await self._deployments.xml(key)

    async def load_instance(self, key: int) -> StoredInstance | None:
        return await self._queries.load_instance(key)

    @property
    def serving(self) -> DefinitionRef:
        return self._serving().ref
