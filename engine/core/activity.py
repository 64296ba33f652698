"""Owns the activity instance: one visit of one element, from activation to its end.
Never decides what happens next; it holds what the instance must remember about an element that is open.
Called by the agenda and the course of an instance, and by the fold to facts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from engine.bpmn.definition import FlowNode
from engine.bpmn.spiff import Token
from engine.core.lifecycle import ActivityState, next_activity_state
from engine.core.scopes import Scope, copied
from engine.records import Job, JobReport, Key, Variables

if TYPE_CHECKING:
    from engine.core.flow_scope import FlowScope

_ACTIVE = ActivityState.ACTIVE  # Python 3.11 is slow to look up the members of an enum


class Caught(NamedTuple):
    """What reaches a catching event: since when, and with which variables."""

    at_us: int
    variables: Variables


class Compensating(NamedTuple):
    """What reaches a compensation handler: who asked for it, and the variables that its activity had."""

    thrower: Activity
    local: Variables


class Stuck(NamedTuple):
    """An incident that waits for a person, and from where to go on once it is resolved."""

    incident_key: Key
    phase: str  # enter: activate again; job: start the job again; complete: end again, with `results`
    code: str
    message: str
    raised_at_us: int
    results: Variables


class Activity:
    """An open activity instance. `scope` is its own where it has variables, else that of the scope around."""

    # What most activities never change stays here, with the class: half the price of setting it for each.
    inside: FlowScope | None = None  # what runs in it
    tries = 0  # of its job
    draws = 0  # of chance
    job: Job | None = None  # the running one
    report: tuple[Key, JobReport] | None = None  # of the last job that ended
    waits: tuple[Key, ...] = ()  # timers, subscriptions and conditions
    index: int | None = None  # of its item, where it is one of many
    compensates: Activity | None = None  # the throw event that waits for it
    awaited = 0  # compensation handlers that this throw event waits for
    interrupted_by: tuple[FlowNode, Caught] | None = None  # whose path is taken once it has ended
    ended_by: tuple[str | None, str | None] = (None, None)  # code and message of what ends it from outside
    stuck: Stuck | None = None
    taken_flow_ids: tuple[str, ...] = ()
    written: Variables | None = None
    before_inputs: dict[str, Any] | None = None  # its own variables without those of its input mappings
    state = _ACTIVE

    def __init__(self, key: Key, token: Token, execution: int, at_us: int) -> None:
        self.key = key
        self.token = token
        self.node = node = token.node
        self.outer: FlowScope = token.scope  # the flow scope that it runs in
        self.scope: Scope = self.outer.variables
        self.started_at_us = at_us
        self.execution = execution  # how often its element has been entered, this time included
        self.retries = node.retries  # tries left of its job, the running one included

    def becomes(self, state: ActivityState) -> None:
        """Change state. Raises IllegalTransition."""
        self.state = next_activity_state(self.state, state)

    def keep(self, variables: Variables) -> None:
        """Write variables that only this activity sees."""
        around = self.outer.variables
        if self.scope is around:
            self.scope = Scope(around, dict(variables))
        else:
            self.scope.local = {**self.scope.local, **variables}

    @property
    def local(self) -> dict[str, Any]:
        """Its own variables."""
        return {} if self.scope is self.outer.variables else self.scope.local

    @property
    def is_stopping(self) -> bool:
        """Whether it ends once what runs in it has stopped."""
        return self.state is ActivityState.TERMINATING

    def picture(self) -> tuple[Any, ...]:
        """What this activity is, as values that compare."""
        job = None if self.job is None else (*self.job[:5], dict(self.job.variables), *self.job[6:])
        interrupted_by = self.interrupted_by and (self.interrupted_by[0].id, *self.interrupted_by[1])
        return (
            self.key,
            self.node.id,
            self.node.type,
            self.state,
            self.started_at_us,
            (self.execution, self.tries, self.retries, self.draws, self.index),
            job,
            self.report,
            self.waits,
            (self.compensates and self.compensates.key, self.awaited),
            (interrupted_by, self.ended_by),
            self.stuck and (*self.stuck[:5], dict(self.stuck.results)),
            copied(self.local),
            self.inside and self.inside.picture(),
        )
