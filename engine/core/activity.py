"""Owns the activity instance: one visit of one element, from activation to its end.
Never decides what happens next; it holds what the instance must remember about an element that is open.
Called by the agenda and the course of an instance, and by the fold to facts.
"""

from __future__ import annotations

from typing import Any

from engine.bpmn.definition import FlowNode
from engine.bpmn.spiff import Token
from engine.core.lifecycle import ActivityState, next_activity_state
from engine.core.scopes import Scope, copied
from engine.records import Job, JobReport, Key, Variables

_ACTIVE = ActivityState.ACTIVE  # Python 3.11 is slow to look up the members of an enum


class Activity:
    """An open activity instance. `scope` is its own where it has input mappings, else the one around it."""

    __slots__ = (
        "draws",
        "execution",
        "interrupted_at_us",
        "interrupted_by",
        "job",
        "key",
        "node",
        "report",
        "scope",
        "started_at_us",
        "state",
        "taken_flow_ids",
        "timers",
        "token",
        "tries",
        "written",
    )

    def __init__(self, key: Key, token: Token, scope: Scope, at_us: int) -> None:
        self.key = key
        self.token = token
        self.node: FlowNode = token.node
        self.scope = scope
        self.started_at_us = at_us
        self.state = _ACTIVE
        self.execution = 0  # how often its element has been entered, this time included
        self.tries = 0  # of its job
        self.draws = 0  # of chance
        self.job: Job | None = None  # the running one
        self.report: tuple[Key, JobReport] | None = None  # of the last job that ended
        self.timers: tuple[Key, ...] = ()
        self.interrupted_by: FlowNode | None = None  # whose path is taken once the job has stopped
        self.interrupted_at_us = 0
        self.taken_flow_ids: tuple[str, ...] = ()
        self.written: Variables | None = None

    def becomes(self, state: ActivityState) -> None:
        """Change state. Raises IllegalTransition."""
        self.state = next_activity_state(self.state, state)

    @property
    def is_stopping(self) -> bool:
        """Whether its job was asked to stop."""
        return self.state is ActivityState.TERMINATING

    def picture(self) -> tuple[Any, ...]:
        """What this activity is, as values that compare."""
        job = None if self.job is None else (*self.job[:5], dict(self.job.variables), *self.job[6:])
        interrupted_by = self.interrupted_by and self.interrupted_by.id
        local = copied(self.scope.local) if self.scope.parent is not None else {}
        return (
            self.key,
            self.node.id,
            self.state,
            self.started_at_us,
            self.execution,
            self.tries,
            self.draws,
            job,
            self.report,
            self.timers,
            (interrupted_by, self.interrupted_at_us),
            local,
        )
