"""Owns the words in which tests say what happens to an instance from outside, one after the other.
Never drives an instance by itself.
Called by the tests of the element diagrams and by the golden logs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from engine.records import (
    Abort,
    BpmnErrorThrown,
    Cancel,
    EventReceived,
    IncidentResolved,
    JobCompleted,
    JobFailed,
    RetriesSet,
    VariablesSet,
)
from tests.builders import EMPTY_REPORT
from tests.driven import Driven

Act: TypeAlias = Callable[[Driven], object]


class Play(NamedTuple):
    """How an instance is started, what happens to it, and the way that it takes: `element:state` in the order of their
    ends, without the state where it is completed."""

    variables: dict[str, Any]
    acts: tuple[Act, ...]
    path: str
    start: dict[str, Any] = {}  # noqa: RUF012  # read only


def done(element_id: str, **variables: Any) -> Act:
    """The first open job of an element is completed."""
    return lambda run: run.done(element_id, variables)


def threw(element_id: str, code: str, **variables: Any) -> Act:
    """The first open job of an element throws a BPMN error."""
    return lambda run: run.do(
        BpmnErrorThrown(run.key, run.job_at(element_id).key, code, "it broke", variables, EMPTY_REPORT)
    )


def failed(element_id: str, *, retries: int | None = None, back_off_ms: int | None = None, **variables: Any) -> Act:
    """The first open job of an element fails for a technical reason."""
    return lambda run: run.do(
        JobFailed(
            *(run.key, run.job_at(element_id).key, "TASK_FAULT", "the disk is full", True, EMPTY_REPORT),
            *(retries, back_off_ms, variables),
        )
    )


def stopped(element_id: str) -> Act:
    """The first open job of an element has stopped, as it was asked to."""
    return lambda run: run.stopped(element_id)


def fired(element_id: str) -> Act:
    """The first timer of an element is due."""
    return lambda run: run.fire(element_id)


def came(element_id: str, **variables: Any) -> Act:
    """A message or a signal comes for the first subscription of an element."""
    return lambda run: run.receive(element_id, variables)


def came_with_key(element_id: str, event_key: int, **variables: Any) -> Act:
    """The same, for a message or broadcast whose key matters."""

    def act(run: Driven) -> None:
        found = next(each for each in run.instance.open_subscriptions if each.element_id == element_id)
        run.do(EventReceived(run.key, found.key, event_key, variables))

    return act


def wrote(scope_of: str = "", *, local: bool = False, **variables: Any) -> Act:
    """Somebody writes variables, at the instance or at the first open activity of an element."""

    def act(run: Driven) -> None:
        keys = [activity.key for activity in run.instance.open_activities if activity.element_id == scope_of]
        run.do(VariablesSet(run.key, keys[0] if scope_of else run.instance.key, variables, local))

    return act


def given_retries(element_id: str, retries: int) -> Act:
    """Somebody says how many tries the job behind the incident of an element has left."""

    def act(run: Driven) -> None:
        job_key = next(each.job_key for each in run.instance.open_incidents if each.element_id == element_id)
        assert job_key is not None
        run.do(RetriesSet(run.key, job_key, retries))

    return act


def resolved(element_id: str) -> Act:
    """Somebody resolves the incident of an element."""

    def act(run: Driven) -> None:
        key = next(each.key for each in run.instance.open_incidents if each.element_id == element_id)
        run.do(IncidentResolved(run.key, key))

    return act


def completed_late(element_id: str, **variables: Any) -> Act:
    """A job that was asked to stop is completed all the same."""
    return lambda run: run.do(JobCompleted(run.key, run.job_at(element_id).key, variables, EMPTY_REPORT))


def cancelled(code: str = "CANCELLED") -> Act:
    return lambda run: run.do(Cancel(run.key, code, "asked for from outside"))


def aborted() -> Act:
    return lambda run: run.do(Abort(run.key, "the process that owned it has died"))
