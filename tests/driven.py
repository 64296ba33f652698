"""Owns a process instance that a test drives command by command, and all that came out of it.
Never sends a command on its own.
Called by the tests of the core.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.bpmn.definition import ProcessDefinition
from engine.bpmn.spiff import Program
from engine.core import ProcessInstance, derive_records, replay
from engine.records import (
    ActivityEnded,
    BpmnErrorThrown,
    Command,
    EventReceived,
    IncidentResolved,
    Job,
    JobCompleted,
    JobFailed,
    JobReport,
    JobStopped,
    Outcome,
    Record,
    Step,
    TimerFired,
    VariablesSet,
)
from tests.builders import EMPTY_REPORT, Diagram, start_command

AT = 1_700_000_000_000_000  # 2023-11-14T22:13:20Z


class Driven:
    """A process instance, its latest Step and every record so far; commands get the next free key."""

    def __init__(
        self,
        diagram: Diagram | ProcessDefinition | Program,
        variables: Mapping[str, Any] | None = None,
        *,
        online: bool = True,
        max_activity_instances: int = 500,
        **start: Any,
    ) -> None:
        built = diagram.build() if isinstance(diagram, Diagram) else diagram
        self.program = built if isinstance(built, Program) else Program(built)
        self.definition = self.program.definition
        self.instance = ProcessInstance(self.program)
        self.records: list[Record] = []
        self.log: list[tuple[Command, int]] = []
        self.at_us = AT
        command = start_command(
            self.definition, variables, online=online, max_activity_instances=max_activity_instances
        )
        self.do(command._replace(**start))

    def do(self, command: Command) -> Step:
        self.step = self.instance.apply(command, self.at_us)
        self.records += self.step.records
        self.log.append((self.step.records[0].body, self.at_us))  # type: ignore[arg-type]
        return self.step

    @property
    def key(self) -> int:
        return self.instance.next_key

    @property
    def job(self) -> Job:
        (job,) = self.instance.open_jobs
        return job

    def complete(self, variables: Mapping[str, Any] | None = None, report: JobReport = EMPTY_REPORT) -> Step:
        return self.do(JobCompleted(self.key, self.job.key, variables or {}, report))

    def job_at(self, element_id: str) -> Job:
        """The first open job of an element."""
        return next(job for job in self.instance.open_jobs if job.element_id == element_id)

    def done(self, element_id: str, variables: Mapping[str, Any] | None = None) -> Step:
        """Complete the first open job of an element."""
        return self.do(JobCompleted(self.key, self.job_at(element_id).key, variables or {}, EMPTY_REPORT))

    def stopped(self, element_id: str) -> Step:
        """Report that a job which was asked to stop has stopped."""
        return self.do(JobStopped(self.key, self.job_at(element_id).key, EMPTY_REPORT))

    def receive(self, element_id: str, variables: Mapping[str, Any] | None = None) -> Step:
        """A message or a signal comes for the first subscription of an element."""
        found = next(each for each in self.instance.open_subscriptions if each.element_id == element_id)
        return self.do(EventReceived(self.key, found.key, 1, variables or {}))

    def set(self, variables: Mapping[str, Any], scope_key: int = 0, *, local: bool = False) -> Step:
        return self.do(VariablesSet(self.key, scope_key or self.instance.key, variables, local))

    def resolve(self) -> Step:
        """Resolve the only open incident."""
        (incident,) = self.instance.open_incidents
        return self.do(IncidentResolved(self.key, incident.key))

    def throw(self, code: str, variables: Mapping[str, Any] | None = None) -> Step:
        return self.do(BpmnErrorThrown(self.key, self.job.key, code, "it broke", variables or {}, EMPTY_REPORT))

    def fail(self, *, retryable: bool = True) -> Step:
        return self.do(JobFailed(self.key, self.job.key, "TASK_FAULT", "a bug", retryable, EMPTY_REPORT))

    def fire(self, element_id: str = "") -> Step:
        """The only open timer fires, or the first one of an element, at its instant."""
        (timer, *_) = [timer for timer in self.instance.open_timers if element_id in ("", timer.element_id)]
        assert element_id or len(self.instance.open_timers) == 1
        self.at_us = timer.due_at_us
        return self.do(TimerFired(self.key, timer.key))

    @property
    def outcome(self) -> Outcome:
        assert self.step.outcome is not None
        return self.step.outcome

    def facts(self, kind: type[Any]) -> list[Any]:
        return [record.body for record in self.records if type(record.body) is kind]

    @property
    def open(self) -> list[str]:
        """The elements that are open."""
        assert self.instance.fault is None, repr(self.instance.fault)
        return [activity.element_id for activity in self.instance.open_activities]

    @property
    def waiting(self) -> list[str]:
        """The elements whose jobs, timers and subscriptions are open."""
        assert self.instance.fault is None, repr(self.instance.fault)
        open_ = (*self.instance.open_jobs, *self.instance.open_timers, *self.instance.open_subscriptions)
        return sorted(each.element_id for each in open_)

    def replayed(self) -> ProcessInstance:
        """The instance rebuilt from its commands; it must be the same."""
        assert self.instance.fault is None, repr(self.instance.fault)
        again = replay(self.program, self.log)
        assert again.snapshot() == self.instance.snapshot()
        assert list(derive_records(self.program, self.log)) == self.records
        return again

    @property
    def path(self) -> list[str]:
        return [f"{ended.element_id}:{ended.state}" for ended in self.facts(ActivityEnded)]
