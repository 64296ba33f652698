"""Owns what is open in a process instance: jobs, timers, subscriptions, their keys, and what the shell must do.
Never decides when something opens or ends, evaluates an expression or moves a token.
Called by the course of the instance; its parts leave as the Step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from engine.bpmn.definition import FlowNode
from engine.bpmn.spiff import Token
from engine.core.activity import Activity, Compensating
from engine.core.facts import Ledger
from engine.core.flow_scope import FlowScope
from engine.core.lifecycle import ActivityState
from engine.core.scopes import ReadOnly, Scope
from engine.records import Job, JobReport, Key, Outcome, Signal, Step, Subscription, Timer


class Condition(NamedTuple):
    """A conditional event that waits for its condition to hold."""

    key: Key
    names: frozenset[str]  # of the variables that it reads


class Cycle(NamedTuple):
    """A timer that fires again."""

    value: Any  # what the diagram says, evaluated
    left: int | None  # how often it fires after this; null: for ever


class Wait(NamedTuple):
    """Something that the instance waits for.

    Without an activity it starts an event sub-process of `scope`; without an event it is the next try of a job.
    """

    record: Timer | Subscription | Condition
    activity: Activity | None
    scope: FlowScope
    event: FlowNode | None  # boundary event, catching event or start event
    cycle: Cycle | None = None


class Agenda:
    """Running jobs and open waits by key, in order of their start."""

    __slots__ = (
        "arm",
        "at_us",
        "broadcast",
        "conditions",
        "disarm",
        "entered",
        "incidents",
        "jobs",
        "last_key",
        "ledger",
        "next_key",
        "start",
        "stirred",
        "stop",
        "subscribe",
        "unsubscribe",
        "visits",
        "waits",
    )

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.at_us = 0
        self.next_key: Key = 0
        self.last_key: Key = 0  # that this command should mint
        self.jobs: dict[Key, Activity] = {}
        self.waits: dict[Key, Wait] = {}
        self.conditions: dict[Key, Wait] = {}  # those of the waits that look at variables
        self.incidents: dict[Key, Activity] = {}
        self.visits = 0  # activity instances so far
        self.entered: dict[str, int] = {}  # the same by element
        self.stirred: dict[Key, FlowScope] = {}  # with tokens at joins that may wait for nothing any more
        self.start: list[Job] = []
        self.stop: list[Key] = []
        self.arm: dict[Key, Timer] = {}
        self.disarm: list[Key] = []
        self.subscribe: dict[Key, Subscription] = {}
        self.unsubscribe: list[Key] = []
        self.broadcast: list[Signal] = []

    def mint(self) -> Key:
        """The next key of this command."""
        key = self.next_key
        self.next_key = key + 1
        return key

    # --- activities -------------------------------------------------------------------------------------------

    def activate(self, token: Token) -> Activity:
        """Open an activity instance for a token that reached its element."""
        key = self.mint()
        outer: FlowScope = token.scope
        name: str = token.task_spec.name  # tells a multi-instance body from what it runs
        if outer.fact_process_id is not None:
            name = f"{outer.fact_process_id}/{name}"
        self.visits += 1
        self.entered[name] = execution = self.entered.get(name, 0) + 1
        activity = Activity(key, token, execution, self.at_us)
        outer.activities[key] = token.activity = activity
        if outer.items is not None:
            activity.index = index = token.payload
            loop = None if outer.owner is None else outer.owner.node.loop
            local: dict[str, Any] = {"loopCounter": index + 1}
            if loop is not None and loop.output_variable is not None:
                local[loop.output_variable] = None
            if loop is not None and loop.input_element is not None:
                local[loop.input_element] = outer.items.all[index]
            activity.scope = Scope(outer.variables, local)
        elif type(token.payload) is Compensating:
            activity.compensates, variables = token.payload
            activity.keep(variables)
        return activity

    def end(self, activity: Activity, state: ActivityState, code: str | None, message: str | None) -> None:
        """Close an activity instance and all that was open in it."""
        if activity.waits:
            self.drop_waits(activity)
        if activity.job is not None:
            del self.jobs[activity.job.key]
        if activity.stuck is not None:
            self.incident_ended(activity, resolved=False)
        activity.becomes(state)
        outer = activity.outer
        del outer.activities[activity.key]
        if outer.arrivals:
            self.stirred[outer.key] = outer
        activity.token.activity = activity.inside = None  # no cycle of references outlives it
        self.ledger.activity_ended(activity, code, message)

    def incident_ended(self, activity: Activity, *, resolved: bool) -> None:
        """Nobody has to look at an activity any more."""
        if activity.stuck is not None:
            key = activity.stuck.incident_key
            activity.stuck = None
            del self.incidents[key]
            self.ledger.incident_ended(key, activity, resolved)

    def take_back(self, activity: Activity) -> None:
        """Undo what began with an activity that cannot go on: once its incident is resolved, it begins anew."""
        self.drop_waits(activity)
        if activity.before_inputs is not None:
            activity.scope.local = activity.before_inputs
            activity.before_inputs = None

    # --- jobs -------------------------------------------------------------------------------------------------

    def start_job(self, activity: Activity, topic: str, headers: Mapping[str, str]) -> None:
        """Ask the shell for one call of the activity's task."""
        node, outer = activity.node, activity.outer
        activity.tries += 1
        activity.job = job = Job(
            self.mint(),
            activity.key,
            node.id,
            topic,
            headers,
            ReadOnly(activity.scope.visible()),
            activity.execution,
            activity.tries,
            activity.retries,
            outer.process_key,
            outer.program.definition.process_id,
        )
        self.jobs[job.key] = activity
        self.start.append(job)

    def job_ended(self, job_key: Key, report: JobReport) -> Activity:
        """The activity of a job that is over, and what the job measured."""
        activity = self.jobs.pop(job_key)
        activity.job = None
        activity.report = (job_key, report)
        self.ledger.job_ended(activity, report)
        return activity

    def stop_job(self, activity: Activity) -> None:
        """Ask the shell to stop the activity's job; a JobStopped will follow."""
        assert activity.job is not None
        self.stop.append(activity.job.key)

    def stop_running_jobs(self) -> None:
        """Ask the shell to stop every job that it has, without waiting for their reports."""
        unheard_of = {job.key for job in self.start}
        running = (key for key, activity in self.jobs.items() if not activity.is_stopping)
        self.stop = [key for key in (*self.stop, *running) if key not in unheard_of]
        self.start.clear()

    # --- waits ------------------------------------------------------------------------------------------------

    def wait(self, wait: Wait) -> None:
        """Open a wait, and tell the shell of it where it concerns the shell."""
        record = wait.record
        key = record.key
        self.waits[key] = wait
        holder = wait.activity or wait.scope
        holder.waits = (*holder.waits, key)
        if type(record) is Timer:
            self.arm[key] = record
        elif type(record) is Subscription:
            self.subscribe[key] = record
        else:
            self.conditions[key] = wait

    def over(self, key: Key) -> Wait:
        """A timer that fired, or any other wait that is over."""
        wait = self.waits.pop(key)
        self.conditions.pop(key, None)
        holder = wait.activity or wait.scope
        holder.waits = tuple(other for other in holder.waits if other != key)
        return wait

    def drop_waits(self, holder: Activity | FlowScope) -> None:
        """Take back every wait of an activity, or of a scope's event sub-processes."""
        for key in holder.waits:
            self._take_back(self.waits.pop(key).record)
        holder.waits = ()

    def drop_wait(self, key: Key) -> Wait:
        """Take back one wait."""
        wait = self.over(key)
        self._take_back(wait.record)
        return wait

    def _take_back(self, record: Timer | Subscription | Condition) -> None:
        key = record.key
        if type(record) is Timer:
            if self.arm.pop(key, None) is None:  # else the shell has not heard of it yet
                self.disarm.append(key)
        elif type(record) is Subscription:
            if self.subscribe.pop(key, None) is None:
                self.unsubscribe.append(key)
        else:
            self.conditions.pop(key, None)

    def open_records(self, kind: type[Any]) -> Iterator[Any]:
        """The open timers or subscriptions, in order of their opening."""
        return (wait.record for wait in self.waits.values() if type(wait.record) is kind)

    # --- the whole --------------------------------------------------------------------------------------------

    def step(self, outcome: Outcome | None) -> Step:
        """What this command asks of the shell, handed over once."""
        start: tuple[Job, ...] = ()
        if self.start:
            start = tuple(self.start)
            self.start.clear()
        if not (self.stop or self.arm or self.disarm or self.subscribe or self.unsubscribe or self.broadcast):
            return Step(self.ledger.take(), start, (), (), (), outcome, self.next_key)  # as nearly always
        return Step(
            self.ledger.take(),
            start,
            _handed_over(self.stop),
            _handed_over(self.arm),
            _handed_over(self.disarm),
            outcome,
            self.next_key,
            _handed_over(self.subscribe),
            _handed_over(self.unsubscribe),
            _handed_over(self.broadcast),
        )

    def picture(self) -> tuple[Any, ...]:
        """Everything that is waited for, as values that compare."""
        waits = tuple(
            (wait.record, wait.activity and wait.activity.key, wait.scope.key, wait.event and wait.event.id, wait.cycle)
            for wait in self.waits.values()
        )
        return self.next_key, self.visits, tuple(self.entered.items()), tuple(self.jobs), waits, tuple(self.incidents)


def _handed_over(waiting: list[Any] | dict[Key, Any]) -> tuple[Any, ...]:
    """What has gathered, once."""
    if not waiting:
        return ()
    handed = tuple(waiting.values() if type(waiting) is dict else waiting)
    waiting.clear()
    return handed
