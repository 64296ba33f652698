"""Owns the name, unit and labels of every metric that Conch exports.
Never computes anything or reads a clock; label values are bounded here, overflow goes to `other`.
Called by runtime, journal, api and tasks, which bind the children they need once.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from engine.tally import LoopCounter, LoopHistogram

OTHER = "other"
_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Bounded:
    """Keeps a label to at most `limit` values: the first ones seen keep their name, all later ones are `other`."""

    __slots__ = ("_limit", "_seen")

    def __init__(self, limit: int = 200):
        self._limit = limit
        self._seen: set[str] = set()

    def __call__(self, value: str) -> str:
        if value in self._seen:
            return value
        if len(self._seen) >= self._limit:
            return OTHER
        self._seen.add(value)
        return value


class Telemetry:
    """Every metric, built once per process on its own registry. Times are in seconds, as Prometheus wants them."""

    def __init__(self, registry: CollectorRegistry | None = None):
        self.registry = registry or CollectorRegistry()
        r = self.registry
        self.model = Bounded()
        self.element = Bounded(1000)
        self.requests = LoopCounter(
            "conch_requests",
            "Requests answered, by operation, model and outcome.",
            ["operation", "model", "outcome"],
            registry=r,
        )
        self.request_seconds = LoopHistogram(
            "conch_request_duration_seconds",
            "From request read to answer written.",
            ["operation"],
            buckets=_SECONDS,
            registry=r,
        )
        self.overhead_seconds = LoopHistogram(
            "conch_request_overhead_seconds",
            "Request duration minus the time spent waiting for replicas.",
            ["operation"],
            buckets=_SECONDS,
            registry=r,
        )
        self.time_to_first_token_seconds = Histogram(
            "conch_time_to_first_token_seconds",
            "Request read to first token, streams.",
            ["model"],
            buckets=_SECONDS,
            registry=r,
        )
        self.refusals = Counter(
            "conch_refusals", "Requests refused before an instance began, by code.", ["code"], registry=r
        )
        self.steps = LoopCounter(
            "conch_steps", "Activity instances ended, by element and state.", ["element", "state"], r
        )
        self.step_seconds = LoopHistogram(
            "conch_step_duration_seconds",
            "Duration of service task activities.",
            ["element"],
            buckets=_SECONDS,
            registry=r,
        )
        self.attempts = LoopCounter(
            "conch_attempts", "Calls of replicas, by replica and outcome.", ["replica", "outcome"], r
        )
        self.incidents = Counter("conch_incidents", "Incidents raised, by code.", ["code"], registry=r)
        self.instances_active = Gauge("conch_instances_active", "Process instances in memory.", registry=r)
        self.operational_instances = Gauge(
            "conch_operational_instances",
            "Open instances that outlive a process, by where they are: live, parked, unreadable.",
            ["place"],
            registry=r,
        )
        self.instances_adopted = Counter(
            "conch_instances_adopted", "Operational instances taken over from another process.", registry=r
        )
        self.timer_lateness_seconds = LoopHistogram(
            "conch_timer_lateness_seconds",
            "From the instant that a timer is due to its firing.",
            buckets=(0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10, 60, 600, 3600),
            registry=r,
        )
        self.apply_seconds = LoopHistogram(
            "conch_engine_apply_seconds",
            "CPU time of one apply.",
            buckets=(0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.005, 0.05),
            registry=r,
        )
        self.journal_rows = Counter("conch_journal_rows", "Audit rows committed.", registry=r)
        self.journal_batches = Counter("conch_journal_batches", "Group commits.", registry=r)
        self.journal_commit_seconds = Histogram(
            "conch_journal_commit_seconds", "One batch: COPY and COMMIT.", buckets=_SECONDS, registry=r
        )
        self.journal_buffered_rows = Gauge(
            "conch_journal_buffered_rows", "Audit rows waiting for a commit.", registry=r
        )
        self.journal_available = Gauge("conch_journal_available", "1 while Postgres accepts audit rows.", registry=r)
        self.replica_up = Gauge(
            "conch_replica_up", "1 while probes of the model succeed.", ["replica", "model"], registry=r
        )
        self.replica_in_flight = Gauge("conch_replica_in_flight", "Attempts under way.", ["replica"], registry=r)
        self.probe_seconds = Histogram(
            "conch_probe_duration_seconds",
            "End-to-end probes.",
            ["replica", "outcome"],
            buckets=_SECONDS,
            registry=r,
        )
        self.queue_entries = Gauge("conch_queue_entries", "Requests waiting for admission.", ["model"], registry=r)
        self.queue_bytes = Gauge("conch_queue_bytes", "Request bytes waiting for admission.", registry=r)
