"""Owns the course of a process instance: what each command and each element does to it.
Never checks a command (the instance has), does I/O or reads a clock.
Called by the instance; SpiffWorkflow's stepping calls it back for each element that a token reaches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, assert_never

from engine.bpmn.definition import ElementType, FlowNode
from engine.bpmn.spiff import Execution, Program, Token
from engine.core.activity import Activity
from engine.core.agenda import Agenda
from engine.core.chance import Chance
from engine.core.due import job_back_off_us
from engine.core.evaluation import EvaluationFailed, context_at, due, holds, mapped, no_flow_holds
from engine.core.lifecycle import ActivityState, InstanceState, next_instance_state
from engine.core.scopes import ReadOnly, Scope, copied
from engine.errors import Code, meaning_of
from engine.feel import EvaluationContext
from engine.records import (
    Abort,
    BpmnErrorThrown,
    Cancel,
    Command,
    JobCompleted,
    JobFailed,
    JobStopped,
    Key,
    Outcome,
    OutcomeState,
    Start,
    TimerFired,
    Variables,
)

# Python 3.11 is slow to look up the members of an enum; every job needs these two.
_TERMINATING, _COMPLETED = ActivityState.TERMINATING, ActivityState.COMPLETED


class Ending(NamedTuple):
    """Why an instance ends otherwise than by its diagram."""

    error_code: str
    message: str
    incident_key: Key | None = None

    def error(self) -> dict[str, Any]:
        """The outcome's error object."""
        retryable = meaning_of(self.error_code).retryable
        return {"code": self.error_code, "message": self.message, "retryable": retryable}


class Caught(NamedTuple):
    """What reaches a boundary event: since when, and with which variables."""

    at_us: int
    variables: Variables


class Course:
    """One process instance in motion. The tokens are SpiffWorkflow's, what is open is the agenda's."""

    __slots__ = (
        "agenda",
        "end_element_id",
        "ending",
        "execution",
        "key",
        "max_activity_instances",
        "online",
        "outcome",
        "program",
        "root",
        "state",
    )

    def __init__(self, program: Program) -> None:
        self.program = program
        self.state = InstanceState.CREATED
        self.key: Key = 0
        self.online = True
        self.max_activity_instances = 0  # as the Start says
        self.root = Scope(None, {})
        self.end_element_id: str | None = None  # the end event reached last
        self.ending: Ending | None = None
        self.outcome: Outcome | None = None
        self.agenda = Agenda()
        self.execution = Execution(program, self)

    # --- commands ---------------------------------------------------------------------------------------------

    def obey(self, command: Command) -> None:
        """Carry out a command that was found legal."""
        match command:
            case JobCompleted():
                self._job_completed(command)
            case Start():
                self._begin(command)
            case JobFailed():
                self._job_failed(command)
            case BpmnErrorThrown():
                self._error_thrown(command)
            case JobStopped():
                self._job_stopped(self.agenda.job_ended(command.job_key, command.report))
            case TimerFired():
                self._timer_fired(command.timer_key)
            case Cancel():
                self._end_early(Ending(command.error_code, command.message))
            case Abort():
                self.end_now("aborted", Ending(Code.ABORTED.value, command.message))
            case _:
                assert_never(command)
        if self.outcome is None and self.execution.is_completed():
            self._finish("completed" if self.ending is None else "terminated")

    def _begin(self, command: Start) -> None:
        self.key = self.agenda.mint()
        self._becomes(InstanceState.ACTIVE)
        self.agenda.ledger.instance_started(command)
        self.online = command.online
        self.max_activity_instances = command.max_activity_instances
        self.root.write(command.variables)
        self.execution.begin()

    def _job_completed(self, command: JobCompleted) -> None:
        activity = self.agenda.job_ended(command.job_key, command.report)
        if activity.state is _TERMINATING:
            self._job_stopped(activity)
        elif self._complete(activity, command.variables):
            self.execution.resume(activity.token)

    def _job_failed(self, command: JobFailed) -> None:
        activity = self.agenda.job_ended(command.job_key, command.report)
        tries, allowed = activity.tries, activity.node.retries
        if activity.state is ActivityState.TERMINATING:
            self._job_stopped(activity)
        elif command.retryable and tries < allowed:
            jitter = Chance(self.key, activity).number()
            self.agenda.arm_timer(activity, None, self.agenda.at_us + job_back_off_us(tries, jitter))
        else:
            code = Code.NO_RETRIES_LEFT if command.retryable else Code.TASK_FAULT
            self._incident(activity, code, f"{command.error_code}: {command.message} (try {tries} of {allowed})")

    def _error_thrown(self, command: BpmnErrorThrown) -> None:
        activity = self.agenda.job_ended(command.job_key, command.report)
        code, message = command.error_code, command.message
        boundary = self.program.catching(activity.node.id, code)
        if activity.state is ActivityState.TERMINATING:
            self._job_stopped(activity)
        elif boundary is None:
            self._incident(activity, Code.UNHANDLED_BPMN_ERROR, f"no boundary event catches {code}: {message}")
        else:
            self.agenda.end(activity, ActivityState.FAILED, code, message)
            caught = Caught(self.agenda.at_us, command.variables)
            self.execution.interrupt(activity.token, boundary, caught)

    def _job_stopped(self, activity: Activity) -> None:
        """The job of a terminating activity is over, in whatever way: what stopped it takes effect now."""
        if activity.interrupted_by is not None:
            self._interrupt(activity, activity.interrupted_by)
        else:
            self._terminate(activity, self.ending)

    def _timer_fired(self, key: Key) -> None:
        activity, boundary = self.agenda.timer_fired(key)
        if boundary is not None:
            activity.interrupted_at_us = self.agenda.at_us
            if activity.job is None:
                self._interrupt(activity, boundary)
            else:
                activity.interrupted_by = boundary
                self.agenda.disarm_timers(activity)
                self.agenda.stop_job(activity)
        elif activity.node.type is ElementType.SERVICE_TASK:
            self.agenda.start_job(activity)
        elif self._complete(activity, {}):
            self.execution.resume(activity.token)

    def _interrupt(self, activity: Activity, boundary: FlowNode) -> None:
        self.agenda.end(activity, ActivityState.TERMINATED, None, f"interrupted by {boundary.id}")
        self.execution.interrupt(activity.token, boundary, Caught(activity.interrupted_at_us, {}))

    # --- endings ----------------------------------------------------------------------------------------------

    def _becomes(self, state: InstanceState) -> None:
        self.state = next_instance_state(self.state, state)

    def _terminate(self, activity: Activity, ending: Ending | None) -> None:
        code, message = (None, None) if ending is None else ending[:2]
        self.agenda.end(activity, ActivityState.TERMINATED, code, message)
        activity.token.cancel()

    def _end_early(self, ending: Ending) -> None:
        """End everything that is open; what has a running job ends when that job has stopped."""
        self.ending = ending
        for activity in list(self.agenda.activities.values()):
            activity.interrupted_by = None
            if activity.job is None:
                self._terminate(activity, ending)
            else:
                self.agenda.disarm_timers(activity)
                self.agenda.stop_job(activity)
        if self.agenda.activities:
            self._becomes(InstanceState.TERMINATING)

    def end_now(self, state: OutcomeState, ending: Ending) -> None:
        """End everything at once; nobody waits for running jobs."""
        self.ending = ending
        for activity in list(self.agenda.activities.values()):
            self.agenda.end(activity, ActivityState.TERMINATED, ending.error_code, ending.message)
        self._finish(state)

    def _finish(self, state: OutcomeState) -> None:
        ending = self.ending
        error = _error_of(self.root.local.get("error")) if ending is None else ending.error()
        incident_key = None if ending is None else ending.incident_key
        end_element_id = self.end_element_id if ending is None else None
        self._becomes(InstanceState(state))
        self.outcome = Outcome(state, end_element_id, error, ReadOnly(self.root.local), incident_key)
        self.agenda.ledger.instance_ended(self.outcome)
        self.execution.close()

    def _incident(self, activity: Activity, code: Code, message: str) -> bool | None:
        """An online instance ends with it (False); any other waits for a person (None), if one could mend it."""
        key = self.agenda.mint()
        self.agenda.ledger.incident_raised(key, activity, code.value, message)
        if not self.online and code is not Code.LIMIT_EXCEEDED:
            activity.becomes(ActivityState.INCIDENT)
            return None
        self.agenda.end(activity, ActivityState.FAILED, code.value, message)
        activity.token.error()
        self._end_early(Ending(code.value, message, key))
        return False

    def poison(self, message: str) -> None:
        """The engine itself failed: end this instance, and stop its jobs without waiting for them."""
        key = self.agenda.mint()
        self.agenda.stop_running_jobs()
        self.agenda.ledger.incident_raised(key, None, Code.ENGINE_FAULT.value, message)
        self.end_now("terminated", Ending(Code.ENGINE_FAULT.value, message, key))

    # --- elements ---------------------------------------------------------------------------------------------

    def enter(self, token: Token) -> bool | None:
        """A token has reached its element. True: passed it; None: waits in it; False: failed there."""
        activity = self.agenda.activate(token, self.root)
        if self.agenda.visits > self.max_activity_instances:
            limit = f"more than {self.max_activity_instances} activity instances"
            return self._incident(activity, Code.LIMIT_EXCEEDED, limit)
        return _ENTER[activity.node.type](self, activity)

    def _enter_start_event(self, activity: Activity) -> bool | None:
        return self._complete(activity, {})

    def _enter_catch_event(self, activity: Activity) -> bool | None:
        return self._arm(activity, None)

    def _enter_boundary_event(self, activity: Activity) -> bool | None:
        caught: Caught = activity.token.payload
        activity.started_at_us = caught.at_us
        return self._complete(activity, caught.variables)

    def _enter_service_task(self, activity: Activity) -> bool | None:
        node = activity.node
        if node.inputs:
            try:
                local = mapped(node.inputs, self.root.local, self._context(activity))
            except EvaluationFailed as failure:
                return self._incident(activity, Code.EXPRESSION_FAILED, str(failure))
            activity.scope = Scope(self.root, local)
        for boundary in self.program.timers_of(node.id):
            failed = self._arm(activity, boundary)
            if activity.state is not ActivityState.ACTIVE:
                return failed
        self.agenda.start_job(activity)
        return None

    def _enter_exclusive_gateway(self, activity: Activity) -> bool | None:
        node, flows = activity.node, self.program.definition.flows
        context = self._context(activity)
        taken = node.default_flow
        try:
            for flow_id in node.outgoing:
                if flow_id != node.default_flow and holds(flows[flow_id], self.root.local, context):
                    taken = flow_id
                    break
        except EvaluationFailed as failure:
            return self._incident(activity, Code.CONDITION_FAILED, str(failure))
        if taken is None:
            return self._incident(activity, Code.CONDITION_FAILED, no_flow_holds(context))
        activity.token.flow_id = taken
        activity.taken_flow_ids = (taken,)
        return self._complete(activity, {})

    def _enter_end_event(self, activity: Activity) -> bool | None:
        node = activity.node
        if node.error_code is not None:
            message = f"nothing catches {node.error_code}, thrown by {node.id}"
            return self._incident(activity, Code.UNHANDLED_BPMN_ERROR, message)
        self.end_element_id = node.id
        return self._complete(activity, {})

    def _arm(self, activity: Activity, boundary: FlowNode | None) -> bool | None:
        """Arm the timer of an activity or of one of its boundary events."""
        event = boundary or activity.node
        if event.timer is None:
            raise AssertionError(f"{event.id} waits for no timer")
        at_us = self.agenda.at_us
        try:
            due_at_us = due(event.timer, activity.scope.visible(), self._context(activity), at_us)
        except EvaluationFailed as failure:
            return self._incident(activity, Code.EXPRESSION_FAILED, f"{event.id}: {failure}")
        self.agenda.arm_timer(activity, boundary, due_at_us)
        return None

    def _complete(self, activity: Activity, results: Variables) -> bool | None:
        """Write what the activity leaves behind and end it. True, or what its incident means for its token."""
        node, scope = activity.node, activity.scope
        if node.outputs:
            visible = {**scope.visible(), **results}
            try:
                changes = mapped(node.outputs, visible, self._context(activity))
            except EvaluationFailed as failure:
                return self._incident(activity, Code.EXPRESSION_FAILED, str(failure))
            activity.written = (scope.parent or scope).write(changes)
        elif results:
            activity.written = scope.write(results) or None
        activity.taken_flow_ids = activity.taken_flow_ids or node.outgoing
        self.agenda.end(activity, _COMPLETED, None, None)
        return True

    def _context(self, activity: Activity) -> EvaluationContext:
        return context_at(self.agenda.at_us, Chance(self.key, activity))


_ENTER: dict[ElementType, Callable[[Course, Activity], bool | None]] = {
    ElementType.START_EVENT: Course._enter_start_event,
    ElementType.END_EVENT: Course._enter_end_event,
    ElementType.SERVICE_TASK: Course._enter_service_task,
    ElementType.EXCLUSIVE_GATEWAY: Course._enter_exclusive_gateway,
    ElementType.INTERMEDIATE_CATCH_EVENT: Course._enter_catch_event,
    ElementType.BOUNDARY_EVENT: Course._enter_boundary_event,
}


def _error_of(variable: Any) -> dict[str, Any] | None:
    """The process variable `error` as an outcome's error: whatever a diagram put there, code and message exist."""
    if variable is None:
        return None
    said = copied(variable) if type(variable) is dict else {"message": str(variable)}
    return {"code": "UNSPECIFIED", "message": "", "retryable": False, **said}
