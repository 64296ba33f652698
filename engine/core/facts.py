"""Owns the fold: how what happens to an instance becomes numbered records, the rows of the audit.
Never decides what happens; the same code folds live, in replay and in verification.
Called by the instance while it applies one command.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.core.activity import Activity
from engine.records import (
    ActivityEnded,
    AttemptMade,
    Command,
    Decision,
    DecisionMade,
    EventTaken,
    Fact,
    IncidentEnded,
    IncidentRaised,
    InstanceEnded,
    InstanceStarted,
    JobReport,
    Key,
    Outcome,
    Record,
    RetriesGiven,
    Signal,
    SignalThrown,
    Start,
    Subscription,
    TryFailed,
    UsageMeasured,
    Variables,
    VariablesWritten,
)

if TYPE_CHECKING:
    from engine.core.flow_scope import FlowScope

# Engines whose facts said less. An instance that one of them began is told in its words to the end, whoever goes on
# with it: the positions of its rows are in the audit.
_SAID_LESS: Final = frozenset({"0.1.0"})
_HID_FAILED_DECISIONS: Final = frozenset({"0.1.0", "0.2.0"})


class Ledger:
    """The records of one instance: two number lines and the counts that the closing row repeats."""

    __slots__ = (
        "activities",
        "answered",
        "at_us",
        "attempts",
        "commands",
        "facts",
        "hides_failed_decisions",
        "pending",
        "says_less",
        "started_at_us",
    )

    def __init__(self) -> None:
        self.commands = 0
        self.facts = 0
        self.activities = 0  # ended
        self.attempts = 0
        self.at_us = 0
        self.started_at_us = 0
        self.answered = True
        self.says_less = False
        self.hides_failed_decisions = False
        self.pending: list[Record] = []

    def take(self) -> tuple[Record, ...]:
        """The records since the last call."""
        taken = tuple(self.pending)
        self.pending.clear()
        return taken

    def command(self, command: Command, at_us: int) -> None:
        self.at_us = at_us
        self.commands += 1
        self.pending.append(Record(-self.commands, at_us, command))

    def _fact(self, fact: Fact) -> None:
        self.facts += 1
        self.pending.append(Record(self.facts, self.at_us, fact))

    def instance_started(self, start: Start) -> None:
        self.started_at_us = self.at_us
        self.says_less = start.engine_version in _SAID_LESS
        self.hides_failed_decisions = start.engine_version in _HID_FAILED_DECISIONS
        self.answered = start.online or self.says_less
        self._fact(InstanceStarted(start))

    def job_ended(self, activity: Activity, report: JobReport) -> None:
        """What a job measured: attempts, decisions, usage, in that order; usage belongs to the latest attempt."""
        key, element_id = activity.key, activity.node.id
        for attempt in report.attempts:
            self.attempts += 1
            self._fact(AttemptMade(key, element_id, self.attempts, attempt))
        for decision in report.decisions:
            self._fact(DecisionMade(key, element_id, decision))
        for usage in report.usage:
            self._fact(UsageMeasured(key, element_id, self.attempts, usage))

    def activity_ended(self, activity: Activity, error_code: str | None, message: str | None) -> None:
        node, outer, job, index = activity.node, activity.outer, activity.job, activity.index
        job_key = queued = started = finished = None
        if job is not None and not self.says_less:  # nobody waits for its report
            job_key = job.key
        elif activity.report is not None:
            job_key, report = activity.report
            queued, started, finished = report.queued_at_us, report.started_at_us, report.finished_at_us
        self.activities += 1
        self._fact(
            ActivityEnded(
                activity.key,
                node.id,
                node.type._value_,  # .value is a descriptor in Python, ten times slower
                node.name,
                activity.state._value_,
                activity.started_at_us,
                self.at_us,
                job_key,
                queued,
                started,
                finished,
                error_code,
                message,
                activity.taken_flow_ids,
                activity.written,
                outer.fact_key,
                outer.fact_process_id,
                None if index is None or self.says_less else index + 1,
            )
        )

    def try_failed(
        self, activity: Activity, error_code: str, message: str, again_at_us: int | None, variables: Variables
    ) -> None:
        """The job of an activity that has just ended was no success."""
        if self.says_less or activity.report is None:
            return
        job_key, report = activity.report
        job = job_key, report.queued_at_us, report.started_at_us, report.finished_at_us, activity.tries
        said = activity.retries, error_code, message, again_at_us, variables
        self._fact(TryFailed(activity.key, activity.node.id, *job, *said, *_place(activity)[2:]))

    def event_taken(
        self, holder: Activity | FlowScope, subscription: Subscription, event_key: Key, variables: Variables
    ) -> None:
        if self.says_less:
            return
        key, _, scope_key, process_id = _place(holder)
        kind, name, correlation_key = subscription.kind, subscription.name, subscription.correlation_key
        event = subscription.element_id, kind, name, correlation_key, subscription.key, event_key, variables
        self._fact(EventTaken(key, *event, scope_key, process_id))

    def signal_thrown(self, activity: Activity, signal: Signal) -> None:
        if not self.says_less:
            event = signal.name, signal.key, signal.variables
            self._fact(SignalThrown(activity.key, activity.node.id, *event, *_place(activity)[2:]))

    def variables_written(self, holder: Activity | FlowScope, variables: Variables, local: bool) -> None:
        if not self.says_less:
            key, element_id, scope_key, process_id = _place(holder)
            self._fact(VariablesWritten(key, element_id, variables, local, scope_key, process_id))

    def retries_given(self, activity: Activity, job_key: Key, retries: int) -> None:
        if not self.says_less:
            self._fact(RetriesGiven(activity.key, activity.node.id, job_key, retries, *_place(activity)[2:]))

    def process_ended(self, scope: FlowScope, state: str) -> None:
        """A called process is over: its own row, as the activity instance that it is inside its caller."""
        definition = scope.program.definition
        caller = None if scope.owner is None else scope.owner.key
        self._fact(
            ActivityEnded(
                scope.key,
                definition.process_id,
                "PROCESS",
                definition.name,
                state,
                scope.started_at_us,
                self.at_us,
                scope_key=caller,
                process_id=definition.process_id,
            )
        )

    def decided(self, activity: Activity, decision: Decision) -> None:
        """A choice that the engine itself made for an activity."""
        self._fact(DecisionMade(activity.key, activity.node.id, decision))

    def decision_failed(self, activity: Activity, decision: Decision) -> None:
        """What a decision without a result saw."""
        if not self.hides_failed_decisions:
            self.decided(activity, decision)

    def incident_raised(self, key: Key, activity: Activity | None, error_code: str, message: str) -> None:
        if activity is None:
            self._fact(IncidentRaised(key, None, None, error_code, message))
        else:
            self._fact(IncidentRaised(key, activity.key, activity.node.id, error_code, message))

    def incident_ended(self, key: Key, activity: Activity, resolved: bool) -> None:
        self._fact(IncidentEnded(key, activity.key, activity.node.id, resolved))

    def instance_ended(self, outcome: Outcome) -> None:
        error = outcome.error or {}
        self._fact(
            InstanceEnded(
                outcome.state,
                outcome.end_element_id,
                _text(error.get("code")),
                _text(error.get("message")),
                self.started_at_us,
                self.at_us,
                self.attempts,
                self.activities,
                self.answered,
            )
        )


def _place(holder: Activity | FlowScope) -> tuple[Key | None, str | None, Key | None, str | None]:
    """The activity and its element, if it is one; then the activity instance and the called process around it."""
    if isinstance(holder, Activity):
        return holder.key, holder.node.id, holder.outer.fact_key, holder.outer.fact_process_id
    return None, None, holder.fact_key, holder.fact_process_id


def _text(value: object) -> str | None:
    return None if value is None else str(value)  # a diagram may put anything into its `error`
