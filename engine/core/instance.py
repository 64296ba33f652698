"""Owns the border of a process instance: one command in, one Step out, nothing changed by a command that is refused.
Never does I/O, reads a clock, draws a random number or keeps what happened before.
Called by the runtime for every command of a live instance, and by replay for every command of a recorded one.
"""

from __future__ import annotations

from typing import Any, assert_never

from engine.bpmn.definition import ProcessDefinition
from engine.bpmn.spiff import Program
from engine.core.course import Course
from engine.core.lifecycle import COMMANDS_ACCEPTED_IN, ENDED, InstanceState
from engine.core.scopes import copied, frozen
from engine.errors import Code, Rejected
from engine.records import (
    Abort,
    BpmnErrorThrown,
    Cancel,
    Command,
    Decision,
    Job,
    JobCompleted,
    JobFailed,
    JobReport,
    JobStopped,
    Key,
    Outcome,
    Start,
    Step,
    Timer,
    TimerFired,
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
        return tuple(timer for timer, _, _ in self._course.agenda.timers.values())

    @property
    def variables(self) -> dict[str, Any]:
        """A copy of the process variables."""
        return {name: copied(value) for name, value in self._course.root.local.items()}

    def snapshot(self) -> tuple[Any, ...]:
        """The whole state as plain values: equal for two instances that can never be told apart by a command."""
        course = self._course
        outcome = course.outcome and (*course.outcome[:3], dict(course.outcome.variables), course.outcome[4:])
        head = (
            course.state,
            course.key,
            course.online,
            course.max_activity_instances,
            course.ending,
            course.end_element_id,
            outcome,
        )
        return (*head, self.variables, course.agenda.picture())

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
                return command._replace(report=_frozen_report(command.report))
            case Start():
                self._definition_must_match(command)
                return command._replace(variables=frozen(command.variables))
            case TimerFired():
                if command.timer_key not in course.agenda.timers:
                    raise Rejected(Code.STALE, f"the timer {command.timer_key} is not armed")
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

    def _definition_must_match(self, start: Start) -> None:
        definition = self._course.program.definition
        if start.definition.content_hash != definition.content_hash:
            found = f"{start.definition.process_id} {start.definition.content_hash[:12]}"
            raise Rejected(
                Code.INVALID_ARGUMENT,
                f"this is {definition.process_id} {definition.content_hash[:12]}, the command is for {found}",
            )


def _frozen_report(report: JobReport) -> JobReport:
    if not report.decisions:
        return report
    queued_at_us, started_at_us, finished_at_us, attempts, decisions, usage = report
    own = tuple([Decision(name, chosen, reason, frozen(details)) for name, chosen, reason, details in decisions])
    return JobReport(queued_at_us, started_at_us, finished_at_us, attempts, own, usage)


def has_ended(instance: ProcessInstance) -> bool:
    """Whether nothing can happen to the instance any more."""
    return instance.state in ENDED
