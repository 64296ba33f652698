"""Owns the states of process instances and activity instances, and the literal tables of what may follow what.
Never holds an instance, decides a transition or looks at a diagram.
Called by the instance: a transition that is not in a table is a fault of the engine, a command that is not is refused.
"""

from __future__ import annotations

from enum import StrEnum

from engine.records import (
    Abort,
    BpmnErrorThrown,
    Cancel,
    Command,
    EventReceived,
    IncidentResolved,
    JobCompleted,
    JobFailed,
    JobStopped,
    RetriesSet,
    Start,
    TimerFired,
    VariablesSet,
)


class InstanceState(StrEnum):
    CREATED = "created"
    ACTIVE = "active"
    TERMINATING = "terminating"  # ends as soon as its running jobs have stopped
    COMPLETED = "completed"
    TERMINATED = "terminated"
    ABORTED = "aborted"


class ActivityState(StrEnum):
    ACTIVE = "active"
    TERMINATING = "terminating"  # what runs in it was asked to stop and has not reported yet
    INCIDENT = "incident"  # waits for a person
    COMPLETED = "completed"
    TERMINATED = "terminated"  # ended by something else: a timer, a cancellation, the end of its instance
    FAILED = "failed"  # ended by its own error


INSTANCE_TRANSITIONS: dict[InstanceState, frozenset[InstanceState]] = {
    InstanceState.CREATED: frozenset({InstanceState.ACTIVE}),
    InstanceState.ACTIVE: frozenset(
        {
            InstanceState.TERMINATING,
            InstanceState.COMPLETED,
            InstanceState.TERMINATED,
            InstanceState.ABORTED,
        }
    ),
    InstanceState.TERMINATING: frozenset({InstanceState.TERMINATED, InstanceState.ABORTED}),
    InstanceState.COMPLETED: frozenset(),
    InstanceState.TERMINATED: frozenset(),
    InstanceState.ABORTED: frozenset(),
}

ACTIVITY_TRANSITIONS: dict[ActivityState, frozenset[ActivityState]] = {
    ActivityState.ACTIVE: frozenset(
        {
            ActivityState.TERMINATING,
            ActivityState.INCIDENT,
            ActivityState.COMPLETED,
            ActivityState.TERMINATED,
            ActivityState.FAILED,
        }
    ),
    ActivityState.TERMINATING: frozenset({ActivityState.TERMINATED}),
    ActivityState.INCIDENT: frozenset({ActivityState.ACTIVE, ActivityState.TERMINATED}),
    ActivityState.COMPLETED: frozenset(),
    ActivityState.TERMINATED: frozenset(),
    ActivityState.FAILED: frozenset(),
}

_RUNNING = frozenset({InstanceState.ACTIVE, InstanceState.TERMINATING})

COMMANDS_ACCEPTED_IN: dict[type[Command], frozenset[InstanceState]] = {
    Start: frozenset({InstanceState.CREATED}),
    JobCompleted: _RUNNING,
    JobFailed: _RUNNING,
    BpmnErrorThrown: _RUNNING,
    JobStopped: _RUNNING,
    TimerFired: frozenset({InstanceState.ACTIVE}),
    EventReceived: frozenset({InstanceState.ACTIVE}),
    VariablesSet: frozenset({InstanceState.ACTIVE}),
    RetriesSet: frozenset({InstanceState.ACTIVE}),
    IncidentResolved: frozenset({InstanceState.ACTIVE}),
    Cancel: frozenset({InstanceState.ACTIVE}),
    Abort: _RUNNING,
}

ENDED = frozenset({InstanceState.COMPLETED, InstanceState.TERMINATED, InstanceState.ABORTED})


class IllegalTransition(Exception):
    """The engine contradicted its own tables; the instance is poisoned, never silently repaired."""


def next_instance_state(now: InstanceState, then: InstanceState) -> InstanceState:
    """`then`, if the table allows it. Raises IllegalTransition."""
    if then not in INSTANCE_TRANSITIONS[now]:
        raise IllegalTransition(f"process instance: {now} -> {then}")
    return then


def next_activity_state(now: ActivityState, then: ActivityState) -> ActivityState:
    """`then`, if the table allows it. Raises IllegalTransition."""
    if then not in ACTIVITY_TRANSITIONS[now]:
        raise IllegalTransition(f"activity instance: {now} -> {then}")
    return then
