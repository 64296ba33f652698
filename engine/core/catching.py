"""Owns events that are caught: arming timers, messages, signals and conditions, finding who catches, and what follows.
Never throws anything and never moves a token by itself: it asks the course.
Called by the course and the elements of an instance.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from engine.bpmn.definition import ElementType, EventKind, FlowNode, TimerKind
from engine.core.activity import Activity, Caught
from engine.core.agenda import Condition, Cycle, Wait
from engine.core.due import following
from engine.core.evaluation import EvaluationFailed, correlation_key, due, event_name, first_of_cycle, truth
from engine.core.flow_scope import FlowScope
from engine.core.jobs import start_job
from engine.core.scopes import Scope
from engine.errors import Code
from engine.records import EventReceived, Key, Subscription, Timer, Variables

if TYPE_CHECKING:
    from engine.core.course import Course


class Catcher(NamedTuple):
    """Who catches: a boundary event of an activity, or without one the start of an event sub-process of a scope."""

    activity: Activity | None
    scope: FlowScope
    event: FlowNode


# --- waiting ----------------------------------------------------------------------------------------------------


def arm_all(course: Course, activity: Activity, events: Iterable[FlowNode]) -> bool | None:
    """Wait for events of an activity or of its border. True, or what its incident means for its token."""
    for event in events:
        try:
            arm(course, activity, activity.outer, event)
        except EvaluationFailed as failure:
            return course.incident(activity, Code.EXPRESSION_FAILED, f"{event.id}: {failure}")
    return True


def arm(course: Course, activity: Activity | None, scope: FlowScope, event: FlowNode) -> None:
    """Wait for an event: of the activity itself, of its border, or of an event sub-process of the scope.

    Raises EvaluationFailed.
    """
    agenda, definition = course.agenda, event.event
    assert definition is not None
    holder = activity or scope
    visible = (scope.variables if activity is None else activity.scope).visible()
    context = course.context(activity or scope.owner or scope)
    if definition.timer is not None:
        if definition.timer.kind is TimerKind.CYCLE:
            value, due_at_us, left = first_of_cycle(definition.timer, visible, context, agenda.at_us)
            cycle: Cycle | None = Cycle(value, left)
        else:
            due_at_us, cycle = due(definition.timer, visible, context, agenda.at_us), None
        agenda.wait(Wait(Timer(agenda.mint(), holder.key, event.id, due_at_us), activity, scope, event, cycle))
        return
    if definition.condition is not None:
        condition = Condition(agenda.mint(), definition.condition.names)
        agenda.wait(Wait(condition, activity, scope, event))
        course.unseen.add(condition.key)
        return
    name = event_name(definition.name, visible, context)
    is_message = definition.kind is EventKind.MESSAGE
    subscription = Subscription(
        agenda.mint(),
        holder.key,
        event.id,
        "message" if is_message else "signal",
        name,
        correlation_key(definition.correlation_key, visible, context) if is_message else None,
        event.interrupting,
        scope.program.definition.process_id,
    )
    agenda.wait(Wait(subscription, activity, scope, event))


def try_again_at(course: Course, activity: Activity, due_at_us: int) -> None:
    """Start the activity's job again at an instant."""
    timer = Timer(course.agenda.mint(), activity.key, activity.node.id, due_at_us)
    course.agenda.wait(Wait(timer, activity, activity.outer, None))


# --- what comes -------------------------------------------------------------------------------------------------


def timer_fired(course: Course, key: Key) -> None:
    wait = course.agenda.over(key)
    if wait.event is None:
        assert wait.activity is not None
        start_job(course, wait.activity)
        return
    if wait.cycle is not None and wait.cycle.left != 0 and not wait.event.interrupting:
        _go_round(course, wait, wait.cycle)
    _caught(course, wait, {})


def _go_round(course: Course, wait: Wait, cycle: Cycle) -> None:
    assert isinstance(wait.record, Timer)
    try:
        due_at_us = following(cycle.value, wait.record.due_at_us, course.agenda.at_us)
    except ValueError:
        return  # the calendar ends before it would be due again
    left = None if cycle.left is None else cycle.left - 1
    timer = wait.record._replace(key=course.agenda.mint(), due_at_us=due_at_us)
    course.agenda.wait(wait._replace(record=timer, cycle=Cycle(cycle.value, left)))


def received(course: Course, came: EventReceived) -> None:
    """A message or a signal has come for a subscription."""
    wait = course.agenda.waits[came.subscription_key]
    assert isinstance(wait.record, Subscription)
    course.agenda.ledger.event_taken(wait.activity or wait.scope, wait.record, came.event_key, came.variables)
    if wait.record.interrupting:
        course.agenda.drop_wait(came.subscription_key)
    _caught(course, wait, came.variables)


def written(course: Course, scope: Scope, names: Iterable[str]) -> None:
    """Variables were written from a scope: conditions that see them are looked at again."""
    course.changed.update((scope.home(name), name) for name in names)


def conditions_met(course: Course) -> bool:
    """Trigger the conditional events that hold now, of those that are new or read what has changed. Whether one did."""
    changed, course.changed = course.changed, set()
    unseen, course.unseen = course.unseen, set()
    met = False
    for key, wait in list(course.agenda.conditions.items()):
        record, event = wait.record, wait.event
        assert isinstance(record, Condition)
        assert event is not None
        assert event.event is not None
        assert event.event.condition is not None
        scope = wait.scope.variables if wait.activity is None else wait.activity.scope
        sees_change = key in unseen or any((scope.home(name), name) in changed for name in record.names)
        if key not in course.agenda.conditions or not sees_change:
            continue
        context = course.context(wait.activity or wait.scope.owner or wait.scope)
        try:
            holds = truth(event.event.condition, scope.visible(), context, f"the condition of `{event.id}`")
        except EvaluationFailed:
            continue  # a variable that it reads is not there yet; Camunda 8 waits for the next change as well
        if holds:
            met = True
            if event.interrupting:
                course.agenda.drop_wait(key)
            _caught(course, wait, {})
            if course.halted:
                return True
    return met


def _caught(course: Course, wait: Wait, variables: Variables) -> None:
    activity, event = wait.activity, wait.event
    assert event is not None
    caught = Caught(course.agenda.at_us, variables)
    if activity is None or event.attached_to is not None:
        react(course, Catcher(activity, wait.scope, event), caught)
    elif activity.node.type is ElementType.EVENT_BASED_GATEWAY:
        flows = activity.outer.program.definition.flows
        taken = next(flow_id for flow_id in activity.node.outgoing if flows[flow_id].target == event.id)
        activity.token.taken = activity.taken_flow_ids = (taken,)
        activity.token.forward = caught
        course.finish(activity, {})
    else:
        course.finish(activity, variables)


def react(course: Course, catcher: Catcher, caught: Caught) -> None:
    """Go on from a boundary event or an event sub-process, ending what it interrupts."""
    activity, scope, event = catcher
    if activity is None:
        if event.interrupting:
            scope.interrupted = True
            course.clear(scope, None, f"interrupted by {event.id}")
            scope.pending = (event, caught)
        else:
            start_reaction(course, scope, event, caught)
    elif event.interrupting:
        course.terminate(activity, None, f"interrupted by {event.id}", (event, caught))
    else:
        course.execution.place(activity.outer.program.spec_of(event), activity.outer, caught)


def start_reaction(course: Course, scope: FlowScope, start: FlowNode, caught: Caught) -> None:
    """Begin an event sub-process in its scope."""
    assert start.parent is not None
    sub_process = scope.program.definition.nodes[start.parent]
    course.execution.place(scope.program.spec_of(sub_process), scope, (start, caught))


# --- errors and escalations -------------------------------------------------------------------------------------


def find(course: Course, activity: Activity, kind: EventKind, code: str) -> Catcher | None:
    """The one event that catches what an activity throws: the nearest one out, a matching code before a catch-all.

    On each way out: the border of the activity, then the event sub-processes of the scope around it.
    """
    at: Activity | None = activity
    while at is not None:
        scope, structure = at.outer, at.outer.program.structure
        event = structure.caught_at(at.node.id, kind, code) if at.index is None else None
        if event is not None:
            return Catcher(at, scope, event)
        event = None if scope.interrupted else structure.caught_in(scope.scope_id, kind, code)
        if event is not None:
            return Catcher(None, scope, event)
        at = scope.owner
    return None


def throw_escalation(course: Course, activity: Activity, code: str) -> None:
    """Give an escalation to the one event that catches it; without one, nothing happens."""
    catcher = find(course, activity, EventKind.ESCALATION, code)
    if catcher is not None:
        react(course, catcher, Caught(course.agenda.at_us, {}))
