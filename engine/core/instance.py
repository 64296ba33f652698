"""Owns the border of a process instance: one command in, one Step out, nothing changed by a command that is refused.
Never does I/O, reads a clock, draws a random number or keeps what happened before.
Called by the runtime for every command of a live instance, and by replay for every command of a recorded one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, assert_never

from engine.bpmn.definition import ElementType, ProcessDefinition
from engine.bpmn.spiff import Program
from engine.core.containers import is_called
from engine.core.course import Course
from engine.core.lifecycle import COMMANDS_ACCEPTED_IN, ENDED, InstanceState
from engine.core.scopes import copied, frozen
from engine.errors import Code, Rejected
from engine.feel import DEFAULT_LIMITS
from engine.records import (
    MAX_KEYS_PER_COMMAND,
    Abort,
    BpmnErrorThrown,
    Cancel,
    Command,
    Decision,
    EventReceived,
    IncidentResolved,
    Job,
    JobCompleted,
    JobFailed,
    JobReport,
    JobStopped,
    Key,
    OpenActivity,
    OpenIncident,
    Outcome,
    RetriesSet,
    Start,
    Step,
    Subscription,
    Timer,
    TimerFired,
    VariablesSet,
)


class ProcessInstance:
    """One process instance: a pure function of its commands. It has one owner, who applies them one after another.

    `fault` is the exception behind an ENGINE_FAULT, for the owner's log; it is no part of the state.
    """

    __slots__ = ("_course", "fault")

    def __init__(self, program: Program | ProcessDefinition) -> None:
        if not isinstance(program, Program):
            program = Program(program)
        self._course = Course(program)
        self.fault: Exception | None = None

    def apply(self, command: Command, at_us: int) -> Step:
        """Carry out one command at an instant (microseconds since the Unix epoch).

        Instants never run backwards within an instance: an earlier one counts as the latest so far. Raises Rejected
        and changes nothing: STALE for a command that came too late or twice, INVALID_ARGUMENT for one that could
        never be carried out here.
        """
        command = self._admitted(command)
        course = self._course
        agenda = course.agenda
        agenda.at_us = at_us = max(at_us, agenda.at_us)
        agenda.next_key = command.key
        agenda.last_key = command.key + MAX_KEYS_PER_COMMAND
        agenda.ledger.command(command, at_us)
        try:
            course.obey(command)
        except Exception as fault:  # whatever the engine did wrong, it ends this instance and no other
            self.fault = fault
            course.poison(f"{type(fault).__name__} while applying {type(command).__name__}")
        return agenda.step(course.outcome)

    @property
    def state(self) -> InstanceState:
        return self._course.state

    @property
    def key(self) -> Key:
        """The process instance's key; 0 before its Start."""
        return self._course.key

    @property
    def next_key(self) -> Key:
        """The first key that this instance has not minted."""
        return self._course.agenda.next_key

    @property
    def outcome(self) -> Outcome | None:
        return self._course.outcome

    @property
    def open_jobs(self) -> tuple[Job, ...]:
        """Jobs that run, or are being stopped, in order of their start."""
        return tuple(activity.job for activity in self._course.agenda.jobs.values() if activity.job)

    @property
    def open_timers(self) -> tuple[Timer, ...]:
        """Timers that are armed, in order of arming."""
        return tuple(self._course.agenda.open_records(Timer))

    @property
    def open_subscriptions(self) -> tuple[Subscription, ...]:
        """Messages and signals that are waited for, in order of opening."""
        return tuple(self._course.agenda.open_records(Subscription))

    @property
    def open_activities(self) -> tuple[OpenActivity, ...]:
        """Activity instances that have not ended, called processes among them; outer before inner."""
        found = []
        for scope in self._course.open_scopes():
            process_id = scope.program.definition.process_id
            if is_called(scope) and scope.owner is not None:
                name = scope.program.definition.name
                found.append(
                    OpenActivity(
                        scope.key,
                        process_id,
                        ElementType.PROCESS.value,
                        name,
                        scope.owner.state.value,
                        scope.started_at_us,
                        scope.owner.key,
                        scope.key,
                        process_id,
                        None,
                    )
                )
            for activity in scope.activities.values():
                node = activity.node
                found.append(
                    OpenActivity(
                        activity.key,
                        node.id,
                        node.type.value,
                        node.name,
                        activity.state.value,
                        activity.started_at_us,
                        scope.key,
                        scope.process_key,
                        process_id,
                        activity.stuck and activity.stuck.incident_key,
                    )
                )
        return tuple(found)

    @property
    def open_incidents(self) -> tuple[OpenIncident, ...]:
        """Incidents that wait for a person, in order of raising."""
        return tuple(
            OpenIncident(
                key,
                activity.key,
                activity.node.id,
                activity.stuck.code,
                activity.stuck.message,
                activity.stuck.raised_at_us,
                activity.report and activity.report[0],
                activity.outer.process_key,
                activity.outer.program.definition.process_id,
            )
            for key, activity in self._course.agenda.incidents.items()
            if activity.stuck is not None
        )

    @property
    def scopes(self) -> dict[Key, dict[str, Any]]:
        """A copy of the variables by the key of what has them: the process instance, called ones, open activities."""
        course = self._course
        found = {}
        for scope in course.open_scopes():
            if scope.owner is None or is_called(scope):
                found[scope.key] = copied(scope.variables.local)
            elif scope.items is not None and scope.items.outputs is not None and scope.owner.node.loop is not None:
                collected = {str(scope.owner.node.loop.output_collection): copied(scope.items.outputs)}
                found[scope.key] = found.get(scope.key, {}) | collected
            found |= {key: copied(activity.local) for key, activity in scope.activities.items() if activity.local}
        return found

    @property
    def variables(self) -> dict[str, Any]:
        """A copy of the process variables."""
        return {name: copied(value) for name, value in self._course.root.variables.local.items()}

    def snapshot(self) -> tuple[Any, ...]:
        """The whole state as plain values: equal for two instances that can never be told apart by a command."""
        course = self._course
        outcome = course.outcome and (*course.outcome[:3], dict(course.outcome.variables), course.outcome[4:])
        head = (
            course.state,
            course.key,
            course.online,
            course.max_activity_instances,
            course.feel_limits,
            course.terminate_after_id,
            course.ending,
            course.end_element_id,
            outcome,
        )
        return (*head, course.root.picture(), course.agenda.picture())

    # --- the guard: nothing is changed here -------------------------------------------------------------------

    def _admitted(self, command: Command) -> Command:
        """The command with variables of our own. Raises Rejected."""
        course = self._course
        accepted_in = COMMANDS_ACCEPTED_IN.get(type(command))
        if accepted_in is None:
            raise Rejected(Code.INVALID_ARGUMENT, f"a {type(command).__name__} is no command")
        if course.state not in accepted_in:
            raise Rejected(Code.STALE, f"a {course.state} instance takes no {type(command).__name__}")
        if command.key < course.agenda.next_key or command.key < 1:
            raise Rejected(Code.INVALID_ARGUMENT, f"the key {command.key} is used: {course.agenda.next_key} is free")
        match command:
            case JobCompleted():
                self._job_must_run(command.job_key)
                key, job_key, variables, report = command
                return JobCompleted(key, job_key, frozen(variables), _frozen_report(report))
            case BpmnErrorThrown():
                self._job_must_run(command.job_key)
                return command._replace(variables=frozen(command.variables), report=_frozen_report(command.report))
            case JobFailed():
                self._job_must_run(command.job_key)
                if command.back_off_ms is not None and command.back_off_ms < 0:
                    raise Rejected(Code.INVALID_ARGUMENT, f"a back-off is 0 ms or more, not {command.back_off_ms}")
                return command._replace(report=_frozen_report(command.report), variables=frozen(command.variables))
            case Start():
                self._start_must_fit(command)
                return command._replace(variables=frozen(command.variables))
            case TimerFired():
                self._must_wait_for(Timer, command.timer_key, "timer")
            case EventReceived():
                self._must_wait_for(Subscription, command.subscription_key, "subscription")
                return command._replace(variables=frozen(command.variables))
            case VariablesSet():
                try:
                    course.holder_of(command.scope_key)
                except KeyError:
                    raise Rejected(Code.STALE, f"nothing with the key {command.scope_key} is open") from None
                return command._replace(variables=frozen(command.variables))
            case RetriesSet():
                if command.retries < 1:
                    raise Rejected(Code.INVALID_ARGUMENT, f"retries must be 1 or more, not {command.retries}")
                try:
                    course.activity_of_job(command.job_key)
                except KeyError:
                    raise Rejected(Code.STALE, f"the job {command.job_key} belongs to nothing that is open") from None
            case IncidentResolved():
                if command.incident_key not in course.agenda.incidents:
                    raise Rejected(Code.STALE, f"the incident {command.incident_key} is not open")
            case JobStopped():
                self._job_must_be_stopping(command.job_key)
                return command._replace(report=_frozen_report(command.report))
            case Cancel() | Abort():
                pass
            case _:
                assert_never(command)
        return command

    def _job_must_run(self, job_key: Key) -> None:
        if job_key not in self._course.agenda.jobs:
            raise Rejected(Code.STALE, f"the job {job_key} does not run")

    def _job_must_be_stopping(self, job_key: Key) -> None:
        self._job_must_run(job_key)
        if not self._course.agenda.jobs[job_key].is_stopping:
            raise Rejected(Code.INVALID_ARGUMENT, f"nobody asked the job {job_key} to stop")

    def _must_wait_for(self, kind: type[Any], key: Key, what: str) -> None:
        wait = self._course.agenda.waits.get(key)
        if wait is None or type(wait.record) is not kind:
            raise Rejected(Code.STALE, f"the {what} {key} is not open")

    def _start_must_fit(self, start: Start) -> None:
        program = self._course.program
        definition = program.definition
        if start.definition.content_hash != definition.content_hash:
            found = f"{start.definition.process_id} {start.definition.content_hash[:12]}"
            raise Rejected(
                Code.INVALID_ARGUMENT,
                f"this is {definition.process_id} {definition.content_hash[:12]}, the command is for {found}",
            )
        problems = [f"there is no element `{each}`" for each in _named_by(start) if each not in definition.nodes]
        if start.start_event_id is not None and not problems:
            event = definition.nodes[start.start_event_id]
            if event.type is not ElementType.START_EVENT or event.parent is not None:
                problems.append(f"`{event.id}` is no start event of the process itself")
        if not problems:
            problems = [f"`{each}`: {why}" for each in start.start_element_ids for why in _no_start(program, each)]
        if not start.start_element_ids and start.start_event_id is None and not definition.start_id:
            problems.append(
                "the process has no start event without a symbol: something has to trigger one of the others"
            )
        problems += _no_calls(program)
        try:
            DEFAULT_LIMITS.but(start.feel_limits)
        except ValueError as unfit:
            problems.append(str(unfit))
        if problems:
            raise Rejected(Code.INVALID_ARGUMENT, f"{definition.process_id}: {'; '.join(problems)}")


def _named_by(start: Start) -> tuple[str, ...]:
    return (*start.start_element_ids, *filter(None, (start.start_event_id, start.terminate_after_id)))


def _no_start(program: Program, element_id: str) -> Iterator[str]:
    """Why an instance cannot begin before an element."""
    node = program.definition.nodes[element_id]
    if node.type in (ElementType.START_EVENT, ElementType.BOUNDARY_EVENT, ElementType.EVENT_SUB_PROCESS):
        yield "an instance cannot begin before a start event, a boundary event or an event sub-process"
    if node.for_compensation:
        yield "a compensation handler begins only by compensation"
    if any(each.loop is not None for each in program.structure.around(node)):
        yield "it is inside a multi-instance sub-process, which begins with its items"


def _no_calls(program: Program) -> Iterator[str]:
    """Why what an instance calls, directly or through others, cannot be called."""
    programs = [program]
    for caller in programs:
        for element_id, called in caller.calls.items():
            if not called.definition.start_id:
                process_id = called.definition.process_id
                yield f"`{element_id}` calls `{process_id}`, which has no start event without a symbol"
            if called not in programs:
                programs.append(called)


def _frozen_report(report: JobReport) -> JobReport:
    if not report.decisions:
        return report
    queued_at_us, started_at_us, finished_at_us, attempts, decisions, usage = report
    own = tuple([Decision(name, chosen, reason, frozen(details)) for name, chosen, reason, details in decisions])
    return JobReport(queued_at_us, started_at_us, finished_at_us, attempts, own, usage)


def has_ended(instance: ProcessInstance) -> bool:
    """Whether nothing can happen to the instance any more."""
    return instance.state in ENDED
