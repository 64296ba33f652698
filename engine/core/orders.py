"""Owns what each command does to a process instance.
Never checks a command: the instance has found it legal.
Called by the course of the instance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from engine.core import catching, containers, jobs
from engine.core.activity import Activity, Caught
from engine.core.chance import Chance
from engine.core.due import FURTHEST_US, job_back_off_us
from engine.core.elements import ENTER
from engine.core.lifecycle import ActivityState
from engine.errors import Code
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

if TYPE_CHECKING:
    from engine.core.course import Course

_TERMINATING = ActivityState.TERMINATING  # Python 3.11 is slow to look up the members of an enum


def carry_out(course: Course, command: Command) -> None:
    """What a command does before tokens move on."""
    match command:
        case JobCompleted():
            _job_completed(course, command)
        case Start():
            _begin(course, command)
        case JobFailed():
            _job_failed(course, command)
        case BpmnErrorThrown():
            _error_thrown(course, command)
        case JobStopped():
            course.terminated(course.agenda.job_ended(command.job_key, command.report))
        case TimerFired():
            catching.timer_fired(course, command.timer_key)
        case EventReceived():
            catching.received(course, command)
        case VariablesSet():
            _variables_set(course, command)
        case RetriesSet():
            activity = course.activity_of_job(command.job_key)
            activity.retries = command.retries
            course.agenda.ledger.retries_given(activity, command.job_key, command.retries)
        case IncidentResolved():
            _incident_resolved(course, course.agenda.incidents[command.incident_key])
        case Cancel():
            course.end_early(command.error_code, command.message)
        case Abort():
            course.end_now("aborted", Code.ABORTED.value, command.message)
        case _:
            assert_never(command)


def _begin(course: Course, command: Start) -> None:
    root, program = course.root, course.program
    course.begin(command)
    event = None if command.start_event_id is None else program.definition.nodes[command.start_event_id]
    brought = None
    if event is not None and event.outputs:  # they choose what becomes a variable of the process
        brought = Caught(course.agenda.at_us, command.variables)
    else:
        root.variables.write(command.variables)
    problem = containers.arm_reactions(course, root)
    if problem is not None:
        key = course.agenda.mint()
        course.agenda.ledger.incident_raised(key, None, Code.EXPRESSION_FAILED.value, problem)
        course.end_now("terminated", Code.EXPRESSION_FAILED.value, problem, key)
    elif command.start_element_ids:
        containers.start_before(course, command.start_element_ids)
    else:
        course.execution.place(program.spec_of(event or program.structure.start_of(None)), root, brought)


def _job_completed(course: Course, command: JobCompleted) -> None:
    activity = course.agenda.job_ended(command.job_key, command.report)
    if activity.state is _TERMINATING:
        course.terminated(activity)
    else:
        course.finish(activity, command.variables)


def _job_failed(course: Course, command: JobFailed) -> None:
    activity = course.agenda.job_ended(command.job_key, command.report)
    if activity.state is _TERMINATING:
        course.terminated(activity)
        return
    if command.variables:
        activity.keep(command.variables)
        catching.written(course, activity.scope, command.variables)
    if command.retries is not None:
        activity.retries = command.retries
    else:
        activity.retries = activity.retries - 1 if command.retryable else 0
    ledger, failure = course.agenda.ledger, (command.error_code, command.message)
    if activity.retries <= 0:
        ledger.try_failed(activity, *failure, None, command.variables)
        code = Code.NO_RETRIES_LEFT if command.retryable else Code.TASK_FAULT
        tries = f"try {activity.tries} of {activity.node.retries}"
        course.incident(activity, code, f"{command.error_code}: {command.message} ({tries})", "job")
        return
    if command.back_off_ms is not None:
        again_at_us = min(course.agenda.at_us + command.back_off_ms * 1000, FURTHEST_US)
    else:
        again_at_us = course.agenda.at_us + job_back_off_us(activity.tries, Chance(course.key, activity).number())
    ledger.try_failed(activity, *failure, again_at_us, command.variables)
    catching.try_again_at(course, activity, again_at_us)


def _error_thrown(course: Course, command: BpmnErrorThrown) -> None:
    activity = course.agenda.job_ended(command.job_key, command.report)
    if activity.state is _TERMINATING:
        course.terminated(activity)
    else:
        course.throw_error(activity, command.error_code, command.message, command.variables, "job")


def _variables_set(course: Course, command: VariablesSet) -> None:
    holder = course.holder_of(command.scope_key)
    course.agenda.ledger.variables_written(holder, command.variables, command.local)
    if isinstance(holder, Activity) and command.local:
        holder.keep(command.variables)
    scope = holder.scope if isinstance(holder, Activity) else holder.variables
    if not command.local:
        scope.write(command.variables)
    elif not isinstance(holder, Activity):
        scope.local = {**scope.local, **command.variables}
    catching.written(course, scope, command.variables)


def _incident_resolved(course: Course, activity: Activity) -> None:
    stuck = activity.stuck
    assert stuck is not None
    course.agenda.incident_ended(activity, resolved=True)
    activity.becomes(ActivityState.ACTIVE)
    if stuck.phase == "job":
        activity.retries = max(activity.retries, 1)
        jobs.start_job(course, activity)
    elif stuck.phase == "complete":
        course.finish(activity, stuck.results)
    elif ENTER[activity.node.type](course, activity):
        activity.token.complete()
