"""Owns the edge between the runtime and a task: calls it, times it, and turns whatever it does into a command.
Never applies a command, decides on retries or lets a task's failure travel further.
Called by the runtime.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from engine.core.scopes import frozen
from engine.errors import BpmnError, Code, Rejected, TaskError, meaning_of
from engine.records import BpmnErrorThrown, Command, Job, JobCompleted, JobFailed, JobReport, JobStopped, Variables
from engine.registry import TaskContext, TaskDefinition

log = logging.getLogger("conch.job")

MESSAGE_CHARS = 500

# A command without its key, which is minted when it is applied.
Fresh: TypeAlias = tuple[Callable[..., Command], tuple[Any, ...]]


class RunningJob:
    """One call of a task. Its instants are measured here, with the engine's clock."""

    __slots__ = (
        "_now_us",
        "begun",
        "context",
        "definition",
        "finished",
        "job",
        "queued_at_us",
        "started_at_us",
        "stop_code",
        "stopping",
        "task",
        "waiting",
    )

    def __init__(
        self,
        job: Job,
        definition: TaskDefinition,
        context: TaskContext[Any],
        now_us: Callable[[], int],
        queued_at_us: int,
    ):
        self.job = job
        self.definition = definition
        self.context = context
        self.queued_at_us = queued_at_us
        self.started_at_us: int | None = None
        self.begun = False  # its asyncio task has run for the first time
        self.stopping = False  # the core asked to stop it: whatever it does now, it answers JobStopped
        self.stop_code: str | None = None
        self.finished = False  # its command has been made
        self.waiting: Awaitable[Any] | None = None  # what an inline call has to wait for
        self.task: asyncio.Task[None] | None = None
        self._now_us = now_us

    def call(self) -> Fresh | None:
        """Call an inline task: its result as a command; null when it has to wait this time, in `perform`."""
        self.started_at_us = self._now_us()
        try:
            result = self.definition.function(self.definition.read(self.job.variables), self.context)
            if hasattr(result, "__await__"):
                self.waiting = result
                return None
            return self._completed(result)
        except Exception as error:  # job edge: a task may raise anything, and its instance has to learn of it
            return self._failed(error)

    def stop(self, code: str | None) -> None:
        """Cancel the task; `code` reaches it as the CancelledError's argument, so that it can record the reason."""
        self.stopping = True
        self.stop_code = code
        if self.begun and self.task is not None:
            self.task.cancel(code)

    async def perform(self) -> Fresh:
        """Run the task to its end, or await what an inline call is waiting for."""
        if self.stopping:
            if self.waiting is None:
                return self.stopped()
            # What already waits has to learn that it is over: it may hold a place in a queue.
            _cancel_current(self.stop_code)
        limit_s = self.definition.timeout_s
        limit = None if limit_s is None else asyncio.timeout(limit_s)
        try:
            if self.started_at_us is None:
                self.started_at_us = self._now_us()
            if limit is None:
                result = await self._result()
            else:
                async with limit:
                    result = await self._result()
            fresh = self._completed(result)
        except asyncio.CancelledError as error:
            if not self.stopping and _going_down():
                raise
            fresh = self._failed(error)
        except TimeoutError as error:
            fresh = self._overdue() if limit is not None and limit.expired() else self._failed(error)
        except Exception as error:  # job edge: a task may raise anything, and its instance has to learn of it
            fresh = self._failed(error)
        return self.stopped(fresh) if self.stopping else fresh

    async def _result(self) -> Any:
        if self.waiting is not None:
            return await self.waiting
        result = self.definition.function(self.definition.read(self.job.variables), self.context)
        return await result if hasattr(result, "__await__") else result

    def stopped(self, instead_of: Fresh | None = None) -> Fresh:
        """What the core expects after its stop, with what was measured until the task ended."""
        report = self._report() if instead_of is None else instead_of[1][-1]
        return JobStopped, (self.job.key, report)

    def unusable(self, reason: Rejected, fresh: Fresh) -> Fresh:
        """The task's result, or a decision that it recorded, is nothing that a row can hold."""
        report: JobReport = fresh[1][-1]
        report = report._replace(decisions=tuple(each for each in report.decisions if _is_json(each.details)))
        message = f"task `{self.job.topic}` returned or recorded what is no JSON: {reason.message}"[:MESSAGE_CHARS]
        return JobFailed, (self.job.key, Code.TASK_FAULT.value, message, False, report)

    def refused(self, reason: Rejected) -> Fresh:
        """The task could not begin, because what caused it is not durable."""
        retryable = meaning_of(reason.code).retryable
        return JobFailed, (self.job.key, reason.code, reason.message, retryable, self._report())

    def _report(self) -> JobReport:
        now_us = self._now_us()
        return self.context.report(self.queued_at_us, self.started_at_us or now_us, now_us)

    def _completed(self, result: Any) -> Fresh:
        return JobCompleted, (self.job.key, self.definition.write(result), self._report())

    def _overdue(self) -> Fresh:
        message = f"task `{self.job.topic}` took longer than its limit of {self.definition.timeout_s:g} s"
        return JobFailed, (self.job.key, Code.TASK_FAULT.value, message, True, self._report())

    def _failed(self, error: BaseException) -> Fresh:
        if isinstance(error, BpmnError):
            message = error.message[:MESSAGE_CHARS]
            return BpmnErrorThrown, (self.job.key, error.code, message, error.variables, self._report())
        if isinstance(error, TaskError):
            retryable = meaning_of(error.code).retryable
            return JobFailed, (self.job.key, error.code, error.message[:MESSAGE_CHARS], retryable, self._report())
        return self._fault(error)

    def _fault(self, error: BaseException) -> Fresh:
        """A bug in the task. The exception's text may quote a payload, so only its type and place are told."""
        kind, place = type(error).__name__, place_of(error)
        if not self.stopping:
            log.error(
                "task fault",
                extra={
                    "process_instance_key": self.context.instance_key,
                    "job_key": self.job.key,
                    "topic": self.job.topic,
                    "error_type": kind,
                    "place": place,
                },
            )
        message = f"task `{self.job.topic}` raised {kind}" + (f" at {place}" if place else "")
        return JobFailed, (self.job.key, Code.TASK_FAULT.value, message, False, self._report())


def unknown_topic(job: Job, at_us: int) -> Fresh:
    """The command for a job that no task is registered for."""
    report = JobReport(at_us, at_us, at_us)
    return JobFailed, (job.key, Code.TASK_FAULT.value, f"no task is registered for topic `{job.topic}`", False, report)


def _is_json(variables: Variables) -> bool:
    try:
        frozen(variables)
    except Rejected:
        return False
    return True


def _cancel_current(code: str | None) -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel(code)


def _going_down() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def place_of(error: BaseException) -> str:
    """Where an exception was raised, without its text, which may quote a payload."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return ""
    last = frames[-1]
    return f"{'/'.join(last.filename.split('/')[-2:])}:{last.lineno} in {last.name}"
