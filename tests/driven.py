"""Owns a process instance that a test drives command by command, and all that came out of it.
Never sends a command on its own.
Called by the tests of the core.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.bpmn.definition import ProcessDefinition
from engine.core import ProcessInstance
from engine.records import (
    ActivityEnded,
    BpmnErrorThrown,
    Command,
    Job,
    JobCompleted,
    JobFailed,
    JobReport,
    Outcome,
    Record,
    Step,
    TimerFired,
)
from tests.builders import EMPTY_REPORT, Diagram, start_command

AT = 1_700_000_000_000_000  # 2023-11-14T22:13:20Z


class Driven:
    """A process instance, its latest Step and every record so far; commands get the next free key."""

    def __init__(
        self,
        diagram: Diagram | ProcessDefinition,
        variables: Mapping[str, Any] | None = None,
        *,
        online: bool = True,
        max_activity_instances: int = 500,
    ) -> None:
        self.definition = diagram.build() if isinstance(diagram, Diagram) else diagram
        self.instance = ProcessInstance(self.definition)
        self.records: list[Record] = []
        self.log: list[tuple[Command, int]] = []
        self.at_us = AT
        self.do(start_command(self.definition, variables, online=online, max_activity_instances=max_activity_instances))

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

    def throw(self, code: str, variables: Mapping[str, Any] | None = None) -> Step:
        return self.do(BpmnErrorThrown(self.key, self.job.key, code, "it broke", variables or {}, EMPTY_REPORT))

    def fail(self, *, retryable: bool = True) -> Step:
        return self.do(JobFailed(self.key, self.job.key, "TASK_FAULT", "a bug", retryable, EMPTY_REPORT))

    def fire(self) -> Step:
        (timer,) = self.instance.open_timers
        self.at_us = timer.due_at_us
        return self.do(TimerFired(self.key, timer.key))

    @property
    def outcome(self) -> Outcome:
        assert self.step.outcome is not None
        return self.step.outcome

    def facts(self, kind: type[Any]) -> list[Any]:
        return [record.body for record in self.records if type(record.body) is kind]

    @property
    def path(self) -> list[str]:
        return [f"{ended.element_id}:{ended.state}" for ended in self.facts(ActivityEnded)]
