"""Owns what is open in a process instance: activities, jobs, timers, their keys, and what the shell must do.
Never decides when something opens or ends, evaluates an expression or moves a token.
Called by the course of the instance; its parts leave as the Step.
"""

from __future__ import annotations

from typing import Any

from engine.bpmn.definition import FlowNode
from engine.bpmn.spiff import Token
from engine.core.activity import Activity
from engine.core.facts import Ledger
from engine.core.lifecycle import ActivityState
from engine.core.scopes import ReadOnly, Scope
from engine.records import Job, JobReport, Key, Outcome, Step, Timer


class Agenda:
    """Open activities, running jobs and armed timers by key, in order of their start."""

    __slots__ = (
        "activities",
        "arm",
        "at_us",
        "disarm",
        "entered",
        "jobs",
        "ledger",
        "next_key",
        "start",
        "stop",
        "timers",
        "visits",
    )

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.at_us = 0
        self.next_key: Key = 0
        self.activities: dict[Key, Activity] = {}
        self.jobs: dict[Key, Activity] = {}
        self.timers: dict[Key, tuple[Timer, Activity, FlowNode | None]] = {}
        self.visits = 0  # activity instances so far
        self.entered: dict[str, int] = {}  # the same by element
        self.start: list[Job] = []
        self.stop: list[Key] = []
        self.arm: dict[Key, Timer] = {}
        self.disarm: list[Key] = []

    def mint(self) -> Key:
        """The next key of this command."""
        key = self.next_key
        self.next_key = key + 1
        return key

    # --- activities -------------------------------------------------------------------------------------------

    def activate(self, token: Token, scope: Scope) -> Activity:
        """Open an activity instance for a token that reached its element."""
        key = self.mint()
        activity = Activity(key, token, scope, self.at_us)
        element_id = activity.node.id
        self.visits += 1
        self.entered[element_id] = activity.execution = self.entered.get(element_id, 0) + 1
        self.activities[key] = token.activity = activity
        return activity

    def end(self, activity: Activity, state: ActivityState, code: str | None, message: str | None) -> None:
        """Close an activity instance and all that was open in it."""
        if activity.timers:
            self.disarm_timers(activity)
        if activity.job is not None:
            del self.jobs[activity.job.key]
        activity.becomes(state)
        del self.activities[activity.key]
        activity.token.activity = None
        self.ledger.activity_ended(activity, code, message)

    # --- jobs -------------------------------------------------------------------------------------------------

    def start_job(self, activity: Activity) -> None:
        """Ask the shell for one call of the activity's task."""
        node = activity.node
        activity.tries += 1
        activity.job = job = Job(
            self.mint(),
            activity.key,
            node.id,
            node.topic or node.id,
            node.headers,
            ReadOnly(activity.scope.visible()),
            activity.execution,
            activity.tries,
        )
        self.jobs[job.key] = activity
        self.start.append(job)

    def job_ended(self, job_key: Key, report: JobReport) -> Activity:
        """Take the report of a job that is over."""
        activity = self.jobs.pop(job_key)
        activity.job = None
        activity.report = (job_key, report)
        self.ledger.job_ended(activity, report)
        return activity

    def stop_job(self, activity: Activity) -> None:
        """Ask the shell to stop the running job; the activity ends when it has reported."""
        if activity.state is not ActivityState.TERMINATING and activity.job is not None:
            activity.becomes(ActivityState.TERMINATING)
            self.stop.append(activity.job.key)

    def stop_running_jobs(self) -> None:
        """Ask the shell to stop every job that it has, without waiting for their reports."""
        unheard_of = {job.key for job in self.start}
        running = (key for key, activity in self.jobs.items() if not activity.is_stopping)
        self.stop = [key for key in running if key not in unheard_of]
        self.start.clear()

    # --- timers -----------------------------------------------------------------------------------------------

    def arm_timer(self, activity: Activity, boundary: FlowNode | None, due_at_us: int) -> None:
        """Ask the shell for a timer: of a boundary event, of the activity itself, or of its next try."""
        element_id = activity.node.id if boundary is None else boundary.id
        timer = Timer(self.mint(), activity.key, element_id, due_at_us)
        self.timers[timer.key] = (timer, activity, boundary)
        activity.timers = (*activity.timers, timer.key)
        self.arm[timer.key] = timer

    def timer_fired(self, key: Key) -> tuple[Activity, FlowNode | None]:
        """The activity of a timer that fired, and the boundary event that it belongs to."""
        _, activity, boundary = self.timers.pop(key)
        activity.timers = tuple(other for other in activity.timers if other != key)
        return activity, boundary

    def disarm_timers(self, activity: Activity) -> None:
        """Take back every timer of an activity."""
        for key in activity.timers:
            del self.timers[key]
            if self.arm.pop(key, None) is None:  # else the shell has not heard of it yet
                self.disarm.append(key)
        activity.timers = ()

    # --- the whole --------------------------------------------------------------------------------------------

    def step(self, outcome: Outcome | None) -> Step:
        """What this command asks of the shell, handed over once."""
        step = Step(
            self.ledger.take(),
            tuple(self.start),
            tuple(self.stop),
            tuple(self.arm.values()),
            tuple(self.disarm),
            outcome,
            self.next_key,
        )
        self.start.clear()
        self.stop.clear()
        self.arm.clear()
        self.disarm.clear()
        return step

    def picture(self) -> tuple[Any, ...]:
        """Everything that is open, as values that compare."""
        activities = tuple(activity.picture() for activity in self.activities.values())
        timers = tuple((timer, boundary and boundary.id) for timer, _, boundary in self.timers.values())
        return self.next_key, self.visits, tuple(self.entered.items()), activities, tuple(self.jobs), timers
