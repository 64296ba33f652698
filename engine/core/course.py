"""Owns the course of a process instance: what each command does to it, and how activities and scopes begin and end.
Never checks a command (the instance has), does I/O or reads a clock.
Called by the instance; SpiffWorkflow's stepping calls it back for each element that a token reaches.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from engine.bpmn.definition import ElementType, EventKind, FlowNode
from engine.bpmn.spiff import Execution, Program, Token
from engine.core import catching, containers, joins, multi_instance
from engine.core.activity import Activity, Caught, Stuck
from engine.core.agenda import Agenda
from engine.core.chance import Chance
from engine.core.elements import ENTER
from engine.core.evaluation import EvaluationFailed, context_at, mapped
from engine.core.flow_scope import FlowScope
from engine.core.lifecycle import ActivityState, InstanceState, next_instance_state
from engine.core.orders import carry_out
from engine.core.scopes import ReadOnly, Scope, copied
from engine.errors import Code, meaning_of
from engine.feel import DEFAULT_LIMITS, EvaluationContext
from engine.records import MAX_KEYS_PER_COMMAND, Command, Key, Outcome, OutcomeState, Start, Variables

# Python 3.11 is slow to look up the members of an enum; every element needs these.
_TERMINATING, _COMPLETED, _TERMINATED = ActivityState.TERMINATING, ActivityState.COMPLETED, ActivityState.TERMINATED
_PARALLEL, _INCLUSIVE = ElementType.PARALLEL_GATEWAY, ElementType.INCLUSIVE_GATEWAY
_END = ElementType.END_EVENT


class Ending(NamedTuple):
    """Why an instance ends otherwise than by its diagram."""

    error_code: str
    message: str
    incident_key: Key | None = None

    def error(self) -> dict[str, Any]:
        """The outcome's error object."""
        retryable = meaning_of(self.error_code).retryable
        return {"code": self.error_code, "message": self.message, "retryable": retryable}


class Course:
    """One process instance in motion. The tokens are SpiffWorkflow's, what is waited for is the agenda's."""

    __slots__ = (
        "agenda",
        "changed",
        "end_element_id",
        "ending",
        "execution",
        "feel_limits",
        "halted",
        "key",
        "max_activity_instances",
        "online",
        "outcome",
        "program",
        "root",
        "state",
        "terminate_after_id",
        "unseen",
    )

    def __init__(self, program: Program) -> None:
        self.program = program
        self.state = InstanceState.CREATED
        self.key: Key = 0
        self.online = True
        self.max_activity_instances = 0  # as the Start says
        self.feel_limits = DEFAULT_LIMITS
        self.terminate_after_id: str | None = None
        self.root = FlowScope(0, None, program, None, Scope(None, {}), 0, 0)
        self.end_element_id: str | None = None  # the end event reached last
        self.ending: Ending | None = None
        self.outcome: Outcome | None = None
        self.halted = False  # no token runs any more
        self.changed: set[tuple[Scope, str]] = set()  # variables that conditions have not looked at yet
        self.unseen: set[Key] = set()  # conditions that nobody has looked at yet
        self.agenda = Agenda()
        self.execution = Execution(program, self)

    # --- commands ---------------------------------------------------------------------------------------------

    def obey(self, command: Command) -> None:
        """Carry out a command that was found legal, and let tokens move on."""
        carry_out(self, command)
        if not self.halted:
            self.execution.do_engine_steps()
        if self.halted and self.outcome is None:  # the element after which to end has ended
            self.halted = False
            said = f"ended after {self.terminate_after_id}, as its start asked"
            self.end_early(Code.CANCELLED.value, said)
            self.execution.do_engine_steps()

    def begin(self, command: Start) -> None:
        """Open the process itself; no token is in it yet."""
        root = self.root
        self.key = root.key = root.process_key = self.agenda.mint()
        root.started_at_us = self.agenda.at_us
        self._becomes(InstanceState.ACTIVE)
        self.agenda.ledger.instance_started(command)
        self.online = command.online
        self.max_activity_instances = command.max_activity_instances
        if command.feel_limits:
            self.feel_limits = DEFAULT_LIMITS.but(command.feel_limits)
        self.terminate_after_id = command.terminate_after_id

    # --- what is open -----------------------------------------------------------------------------------------

    def holder_of(self, key: Key) -> Activity | FlowScope:
        """The process instance, called instance or open activity of a key. Raises KeyError."""
        for scope in self.open_scopes():
            if scope.key == key and (scope.owner is None or containers.is_called(scope)):
                return scope
            if key in scope.activities:
                return scope.activities[key]
        raise KeyError(key)

    def activity_of_job(self, job_key: Key) -> Activity:
        """The open activity whose job this is, or whose next try it waits for. Raises KeyError."""
        if job_key in self.agenda.jobs:
            return self.agenda.jobs[job_key]
        for activity in self.open_activities():
            if activity.job is None and activity.report is not None and activity.report[0] == job_key:
                return activity
        raise KeyError(job_key)

    def open_activities(self) -> list[Activity]:
        """Every open activity instance, outer before inner."""
        return [activity for scope in self.open_scopes() for activity in scope.activities.values()]

    def open_scopes(self) -> list[FlowScope]:
        """Every open flow scope, outer before inner."""
        scopes = [self.root]
        for scope in scopes:
            scopes += [each.inside for each in scope.activities.values() if each.inside and not each.inside.left]
        return scopes

    # --- elements ---------------------------------------------------------------------------------------------

    def enter(self, token: Token) -> bool | None:
        """A token has reached its element. True: passed it; None: waits in it; False: failed there."""
        node = token.node
        kind = node.type
        if (kind is _PARALLEL or kind is _INCLUSIVE) and len(node.incoming) > 1 and not joins.arrive(self, token):
            return None
        return self.visit(token)

    def visit(self, token: Token) -> bool | None:
        """Open an activity instance for a token that need not wait for others, and let its element begin."""
        agenda = self.agenda
        activity = agenda.activate(token)
        if agenda.visits > self.max_activity_instances:
            limit = f"more than {self.max_activity_instances} activity instances"
            return self.incident(activity, Code.LIMIT_EXCEEDED, limit)
        if agenda.next_key > agenda.last_key:
            limit = f"more than {MAX_KEYS_PER_COMMAND} activities, jobs and waits begin at once"
            return self.incident(activity, Code.LIMIT_EXCEEDED, limit)
        return ENTER[token.node.type](self, activity)

    def open(self, activity: Activity) -> bool | None:
        """Evaluate an activity's inputs and arm its boundary events. True, or what its incident means for its token."""
        node = activity.node
        if node.inputs:
            activity.before_inputs = activity.local
            try:
                activity.keep(mapped(node.inputs, activity.scope.visible(), self.context(activity)))
            except EvaluationFailed as failure:
                return self.incident(activity, Code.EXPRESSION_FAILED, str(failure))
        if activity.index is None:
            awaited = activity.outer.program.structure.awaited_by(node.id)
            return catching.arm_all(self, activity, awaited) if awaited else True
        return True

    def complete(self, activity: Activity, results: Variables) -> bool | None:
        """Write what the activity leaves behind and end it. True, or what its incident means for its token."""
        node, around = activity.node, activity.outer.variables
        changes: Variables = results
        if node.outputs:
            if activity.index is not None:
                activity.keep(results)
            try:
                changes = mapped(node.outputs, {**activity.scope.visible(), **results}, self.context(activity))
            except EvaluationFailed as failure:
                activity.keep(results)  # for whoever has to mend them
                return self.incident(activity, Code.EXPRESSION_FAILED, str(failure), "complete")
        if activity.index is not None:
            try:
                multi_instance.collect(self, activity, {**results, **changes})
            except EvaluationFailed as failure:
                return self.incident(activity, Code.EXPRESSION_FAILED, str(failure), "complete", results)
        if changes:
            scope = around if activity.index is None and (node.outputs or node.loop) else activity.scope
            left = scope.write(changes)
            activity.written = (left if scope is not around and activity.index is None else changes) or None
            if self.agenda.conditions:
                catching.written(self, scope, changes)
        activity.taken_flow_ids = activity.taken_flow_ids or node.outgoing
        if node.type is _END and activity.outer.fact_process_id is None:
            self.end_element_id = node.id
        if activity.outer.program.structure.compensates:
            containers.remember_compensation(activity)
        self._end(activity, _COMPLETED, None, None)
        if activity.compensates is not None:
            containers.has_compensated(self, activity)
        if activity.index is not None and activity.outer.items is not None and activity.outer.items.satisfied:
            self.clear(activity.outer, None, "the completion condition holds")
        return True

    def finish(self, activity: Activity, results: Variables) -> None:
        """Complete an activity whose token waits in it, and let the token go on."""
        if self.complete(activity, results):
            activity.token.complete()

    def _end(self, activity: Activity, state: ActivityState, code: str | None, message: str | None) -> None:
        self.agenda.end(activity, state, code, message)
        if activity.node.id == self.terminate_after_id and self.ending is None:
            self.halted = self.halted or (activity.index is None and activity.outer.fact_process_id is None)

    def context(self, drawer: Activity | FlowScope) -> EvaluationContext:
        """The context of expressions of an activity, or of a scope as it opens."""
        return context_at(self.agenda.at_us, Chance(self.key, drawer), self.feel_limits)

    # --- scopes -----------------------------------------------------------------------------------------------

    def leave(self, scope: FlowScope) -> None:
        """The last token of a scope is gone: what waited for that goes on, or the scope ends."""
        if scope.tokens or scope.left:
            return
        owner = scope.owner
        if scope.pending is not None:
            start, caught = scope.pending
            scope.pending = None
            catching.start_reaction(self, scope, start, caught)
        elif owner is None:
            self._finish("completed" if self.ending is None else "terminated")
        elif owner.state is _TERMINATING:
            self._close(scope, "terminated")
            self.terminated(owner)
        elif not multi_instance.go_on(self, scope):
            self._close(scope, "completed")
            self.finish(owner, containers.results_of(scope, owner))

    def _close(self, scope: FlowScope, state: str) -> None:
        scope.left = True
        self.agenda.drop_waits(scope)
        if containers.is_called(scope):
            self.agenda.ledger.process_ended(scope, state)

    def settle(self) -> bool:
        """No token is ready: look at conditions and joins. Whether one is ready now."""
        if (self.changed or self.unseen) and catching.conditions_met(self):
            return True
        agenda = self.agenda
        if agenda.stirred and joins.settle(self):
            return True
        return not (agenda.jobs or agenda.waits or agenda.incidents) and joins.unstick(self)

    def clear(self, scope: FlowScope, code: str | None, message: str | None) -> None:
        """End everything in a scope, at once or when what runs has stopped; the scope itself stays open."""
        self.agenda.drop_waits(scope)
        scope.pending = None
        self.execution.withdraw(scope)
        joins.forget(self, scope)
        for activity in list(scope.activities.values()):
            self.terminate(activity, code, message)

    def terminate(
        self, activity: Activity, code: str | None, message: str | None, after: tuple[FlowNode, Caught] | None = None
    ) -> None:
        """End an activity from outside, at once or when what runs in it has stopped; `after` names where to go on."""
        inside = activity.inside
        activity.interrupted_by = after
        activity.ended_by = (code, message)
        self.agenda.drop_waits(activity)
        if activity.state is _TERMINATING:
            if inside is not None:
                self.clear(inside, code, message)
        elif activity.job is not None:
            activity.becomes(_TERMINATING)
            self.agenda.stop_job(activity)
        elif inside is not None and not inside.left:
            activity.becomes(_TERMINATING)
            self.clear(inside, code, message)
        else:
            self.terminated(activity)

    def terminated(self, activity: Activity) -> None:
        """What ran in a terminating activity is over, in whatever way: what ended it takes effect now."""
        token, after = activity.token, activity.interrupted_by
        self._end(activity, _TERMINATED, *activity.ended_by)
        if activity.index is not None and activity.outer.items is not None:
            activity.outer.items.terminated += 1
        if after is not None:
            event, caught = after
            self.execution.place(activity.outer.program.spec_of(event), activity.outer, caught)
        if activity.compensates is not None:
            containers.has_compensated(self, activity)
        token.cancel()

    # --- errors -----------------------------------------------------------------------------------------------

    def throw_error(
        self, activity: Activity, code: str, message: str, variables: Variables, phase: str = "enter"
    ) -> bool | None:
        """Give an error to the one event that catches it, the nearest one out; an incident where none does."""
        catcher = catching.find(self, activity, EventKind.ERROR, code)
        if catcher is None:
            job = phase == "job"
            if job:
                self.agenda.ledger.try_failed(activity, code, message, None, {})
            said = f"no boundary event catches {code}: {message}" if job else f"nothing catches {code}, {message}"
            return self.incident(activity, Code.UNHANDLED_BPMN_ERROR, said, phase)
        caught = Caught(self.agenda.at_us, variables)
        token = activity.token
        self._end(activity, ActivityState.FAILED, code, message)
        if catcher.activity is activity:
            self.execution.place(activity.outer.program.spec_of(catcher.event), activity.outer, caught)
        else:
            catching.react(self, catcher, caught)
        if activity.compensates is not None:
            containers.has_compensated(self, activity)
        if not token.is_ready:
            token.error()
        return False

    def incident(
        self, activity: Activity, code: Code, message: str, phase: str = "enter", results: Variables | None = None
    ) -> bool | None:
        """An online instance ends with it (False); any other waits for a person (None), if one could mend it."""
        key = self.agenda.mint()
        self.agenda.ledger.incident_raised(key, activity, code.value, message)
        if not self.online and code is not Code.LIMIT_EXCEEDED:
            activity.becomes(ActivityState.INCIDENT)
            if phase == "enter":
                self.agenda.take_back(activity)
            activity.stuck = Stuck(key, phase, code.value, message, self.agenda.at_us, results or {})
            self.agenda.incidents[key] = activity
            return None
        token = activity.token
        self.agenda.end(activity, ActivityState.FAILED, code.value, message)
        self.end_early(code.value, message, key)
        if not token.is_ready:
            token.error()
        return False

    def poison(self, message: str) -> None:
        """The engine itself failed: end this instance, and stop its jobs without waiting for them."""
        key = self.agenda.mint()
        self.agenda.stop_running_jobs()
        self.agenda.ledger.incident_raised(key, None, Code.ENGINE_FAULT.value, message)
        self.end_now("terminated", Code.ENGINE_FAULT.value, message, key)

    # --- endings ----------------------------------------------------------------------------------------------

    def _becomes(self, state: InstanceState) -> None:
        self.state = next_instance_state(self.state, state)

    def end_early(self, code: str, message: str, incident_key: Key | None = None) -> None:
        """End everything that is open; what has a running job ends when that job has stopped."""
        self.ending = ending = Ending(code, message, incident_key)
        self.clear(self.root, ending.error_code, ending.message)
        if self.root.tokens and self.state is InstanceState.ACTIVE:
            self._becomes(InstanceState.TERMINATING)

    def end_now(self, state: OutcomeState, code: str, message: str, incident_key: Key | None = None) -> None:
        """End everything at once; nobody waits for running jobs."""
        self.ending = Ending(code, message, incident_key)
        for scope in reversed(self.open_scopes()):  # inner before outer, as ever
            self.agenda.drop_waits(scope)
            for activity in list(scope.activities.values()):
                self.agenda.end(activity, _TERMINATED, code, message)
            if containers.is_called(scope):
                self.agenda.ledger.process_ended(scope, "terminated")
            scope.arrivals.clear()  # their tokens know the scope: no cycle of references outlives it
        self._finish(state)

    def _finish(self, state: OutcomeState) -> None:
        ending, variables = self.ending, self.root.variables.local
        error = _error_of(variables.get("error")) if ending is None else ending.error()
        incident_key = None if ending is None else ending.incident_key
        end_element_id = self.end_element_id if ending is None else None
        self.agenda.drop_waits(self.root)
        self.root.left = True
        self._becomes(InstanceState(state))
        self.outcome = Outcome(state, end_element_id, error, ReadOnly(variables), incident_key)
        self.agenda.ledger.instance_ended(self.outcome)
        self.halted = True
        self.execution.close()


def _error_of(variable: Any) -> dict[str, Any] | None:
    """The process variable `error` as an outcome's error: whatever a diagram put there, code and message exist."""
    if variable is None:
        return None
    said = copied(variable) if type(variable) is dict else {"message": str(variable)}
    return {"code": "UNSPECIFIED", "message": "", "retryable": False, **said}
