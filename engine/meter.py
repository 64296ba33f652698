"""Owns what the runtime counts: steps and incidents, with every metric child bound once.
Never names a metric (telemetry does), reads a clock or decides anything.
Called by the runtime with the records of each step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from engine.bpmn.definition import ElementType
from engine.records import ActivityEnded, AttemptMade, DecisionMade, IncidentRaised, Record
from engine.run import Run
from engine.telemetry import OTHER, Telemetry

_ROUTE = "route"  # the decision that chooses a replica


class _Step(NamedTuple):
    label: str
    inc: Callable[[], None]
    observe: Callable[[float], None] | None  # the seconds of a service task


class Meter:
    """Metric children by the plain values that pick them. Every table is as bounded as the labels are."""

    def __init__(self, telemetry: Telemetry):
        self._telemetry = telemetry
        self.apply_seconds: Callable[[float], None] = telemetry.apply_seconds.observe
        self._steps: dict[tuple[str, str, str], _Step] = {}

    def count(self, run: Run, records: tuple[Record, ...]) -> None:
        """Count the facts of one step, and note on the run which replica was tried last and how long it took."""
        for position, _, body in records:
            if position < 0:
                continue
            if type(body) is ActivityEnded:
                self._step(body)
            elif type(body) is AttemptMade:
                run.attempts = body.attempt_no
                run.replica = body.attempt.replica
                run.waited_us += body.attempt.done_at_us - body.attempt.sent_at_us
            elif type(body) is DecisionMade:
                if body.decision.name == _ROUTE:
                    run.routed_to = body.decision.chosen
            elif type(body) is IncidentRaised:
                self._telemetry.incidents.labels(body.error_code).inc()

    def _step(self, ended: ActivityEnded) -> None:
        picked = (ended.element_id, ended.element_type, ended.state)
        step = self._steps.get(picked)
        if step is None:
            step = self._bound(*picked)
            if step.label != OTHER:
                self._steps[picked] = step
        step.inc()
        if step.observe is not None:
            step.observe((ended.ended_at_us - ended.started_at_us) / 1e6)

    def _bound(self, element_id: str, element_type: str, state: str) -> _Step:
        label = self._telemetry.element(element_id)
        timed = element_type == ElementType.SERVICE_TASK.value
        observe = self._telemetry.step_seconds.labels(label).observe if timed else None
        return _Step(label, self._telemetry.steps.labels(label, state).inc, observe)
