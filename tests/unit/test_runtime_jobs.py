"""The job edge: whatever a task does becomes one command, with its times, and without the text of its exceptions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any

import pytest

from engine.errors import BpmnError, Code, Rejected, TaskError
from engine.inference import Chunk, InferenceAnswer, InferenceCall, Operation
from engine.job import MESSAGE_CHARS, Fresh, RunningJob, unknown_topic
from engine.records import BpmnErrorThrown, Job, JobCompleted, JobFailed, JobStopped, Tags
from engine.registry import Registry, TaskContext, TaskFunction, task
from tests.loop import EPOCH_US, now_us, run_virtual


class Nobody:
    """A delivery that nobody waits on."""

    call = InferenceCall(Operation.INFER, "chat", "", "")

    async def emit(self, chunk: Chunk) -> None: ...
    def deliver(self, answer: InferenceAnswer) -> None: ...
    def defer(self, release: Any) -> None: ...


@dataclass(frozen=True)
class Named:
    name: str


@dataclass(frozen=True)
class Greeted:
    greeting: str


def running(function: TaskFunction, variables: dict[str, Any] | None = None, **declared: Any) -> RunningJob:
    registry = Registry()
    task(function.__name__, registry=registry, **declared)(function)
    job = Job(5, 4, "greet", "greet", {}, variables or {"name": "Ada"}, 1, 1)
    context: TaskContext[None] = TaskContext(job, 1, "request", Tags(), 0, None, Nobody(), now_us)
    return RunningJob(job, registry["greet"], context, now_us, now_us())


def performed(function: TaskFunction, variables: dict[str, Any] | None = None, **declared: Any) -> Fresh:
    async def main() -> Fresh:
        return await running(function, variables, **declared).perform()

    return run_virtual(main())


def test_a_result_becomes_variables_with_the_times_of_its_making() -> None:
    async def greet(given: Named, context: TaskContext[None]) -> Greeted:
        await asyncio.sleep(0.5)
        return Greeted(f"hello {given.name}")

    async def main() -> Fresh:
        job = running(greet)
        await asyncio.sleep(0.25)
        return await job.perform()

    kind, (job_key, variables, report) = run_virtual(main())
    assert kind is JobCompleted
    assert (job_key, variables) == (5, {"greeting": "hello Ada"})
    times = (report.queued_at_us, report.started_at_us, report.finished_at_us)
    assert [at_us - EPOCH_US for at_us in times] == [0, 250_000, 750_000]


def test_an_inline_task_is_called_at_once_and_may_wait_this_time() -> None:
    def greet(given: Named, context: TaskContext[None]) -> Greeted | Awaitable[Greeted]:
        async def later() -> Greeted:
            await asyncio.sleep(1)
            return Greeted("at last")

        return later() if given.name == "slow" else Greeted("now")

    async def main() -> tuple[Fresh | None, Fresh]:
        slow = running(greet, {"name": "slow"}, inline=True)
        assert slow.call() is None
        return running(greet, inline=True).call(), await slow.perform()

    at_once, later = run_virtual(main())
    assert at_once is not None
    assert at_once[1][1] == {"greeting": "now"}
    assert later[1][1] == {"greeting": "at last"}


def test_an_outcome_that_the_diagram_decides_on_keeps_its_variables() -> None:
    async def greet(given: Named, context: TaskContext[None]) -> None:
        raise BpmnError(Code.NO_REPLICA, "nobody is home", variables={"attempts": 2})

    kind, (_, code, message, variables, _) = performed(greet)
    assert kind is BpmnErrorThrown
    assert (code, message, variables) == ("NO_REPLICA", "nobody is home", {"attempts": 2})


@pytest.mark.parametrize(("code", "retryable"), [(Code.REPLICA_UNAVAILABLE, True), (Code.OUTPUT_INVALID, False)])
def test_a_technical_error_is_retried_where_the_table_says_so(code: Code, retryable: bool) -> None:
    async def greet(given: Named, context: TaskContext[None]) -> None:
        raise TaskError(code, "x" * 2_000)

    kind, (_, found, message, may_retry, _) = performed(greet)
    assert kind is JobFailed
    assert (found, may_retry) == (code, retryable)
    assert len(message) == MESSAGE_CHARS


def test_any_other_exception_is_a_fault_that_tells_its_place_but_not_its_text() -> None:
    async def greet(given: Named, context: TaskContext[None]) -> None:
        raise RuntimeError("Ada's secret prompt")

    kind, (_, code, message, retryable, _) = performed(greet)
    assert kind is JobFailed
    assert (code, retryable) == ("TASK_FAULT", False)
    assert "RuntimeError" in message
    assert "test_runtime_jobs.py" in message
    assert "secret" not in message


def test_variables_that_do_not_fit_the_task_are_all_named() -> None:
    async def greet(given: Named, context: TaskContext[None]) -> None: ...

    kind, (_, code, message, _, _) = performed(greet, {"name": 7})
    assert kind is JobFailed
    assert code == "TASK_FAULT"
    assert "`name` is int, wanted str" in message


def test_a_task_beyond_its_limit_is_cancelled_and_may_be_tried_again() -> None:
    cancelled: list[int] = []

    async def greet(given: Named, context: TaskContext[None]) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.append(now_us() - EPOCH_US)

    kind, (_, code, message, retryable, _) = performed(greet, timeout_s=2.5)
    assert kind is JobFailed
    assert (code, retryable) == ("TASK_FAULT", True)
    assert "2.5 s" in message
    assert cancelled == [2_500_000]


def test_a_timeout_of_the_tasks_own_is_not_its_limit() -> None:
    async def greet(given: Named, context: TaskContext[None]) -> None:
        async with asyncio.timeout(1):
            await asyncio.sleep(60)

    _, (_, _, message, retryable, _) = performed(greet, timeout_s=30)
    assert "TimeoutError" in message
    assert retryable is False


def test_a_task_that_cancels_itself_is_a_fault_and_no_stop() -> None:
    async def greet(given: Named, context: TaskContext[None]) -> None:
        raise asyncio.CancelledError

    kind, (_, code, *_) = performed(greet)
    assert kind is JobFailed
    assert code == "TASK_FAULT"


done: list[Fresh] = []


async def perform(job: RunningJob) -> None:
    done.append(await job.perform())


@pytest.mark.parametrize("answers", ["returns", "raises", "gives in"])
def test_a_task_that_is_being_stopped_answers_nothing_but_that(answers: str) -> None:
    async def greet(given: Named, context: TaskContext[None]) -> Greeted:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            if answers == "gives in":
                raise
            if answers == "raises":
                raise ValueError from None
        return Greeted("too late")

    async def main() -> Fresh:
        job = running(greet)
        job.begun = True
        job.task = asyncio.create_task(perform(job))
        await asyncio.sleep(1)
        job.stop("CANCELLED")
        await job.task
        return done.pop()

    kind, (job_key, report) = run_virtual(main())
    assert kind is JobStopped
    assert job_key == 5
    assert report.finished_at_us - EPOCH_US == 1_000_000


def test_a_stop_takes_the_report_of_a_result_that_was_already_there() -> None:
    async def greet(given: Named, context: TaskContext[None]) -> None: ...

    async def main() -> tuple[Fresh, Fresh]:
        job = running(greet)
        fresh = await job.perform()
        await asyncio.sleep(1)
        return fresh, job.stopped(fresh)

    (_, completed), (kind, stopped) = run_virtual(main())
    assert kind is JobStopped
    assert stopped[-1] is completed[-1]


def test_the_end_of_the_process_passes_through_a_task() -> None:
    async def greet(given: Named, context: TaskContext[None]) -> None:
        await asyncio.sleep(60)

    async def main() -> None:
        performing = asyncio.create_task(running(greet).perform())
        await asyncio.sleep(1)
        performing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await performing

    run_virtual(main())


def test_a_topic_without_a_task_fails_its_job() -> None:
    job = Job(5, 4, "greet", "greet", {}, {}, 1, 1)
    kind, (_, code, message, retryable, _) = unknown_topic(job, 7)
    assert kind is JobFailed
    assert (code, retryable) == ("TASK_FAULT", False)
    assert "`greet`" in message


def test_what_could_not_begin_says_why() -> None:
    async def greet(given: Named, context: TaskContext[None]) -> None: ...

    async def main() -> Fresh:
        return running(greet).refused(Rejected(Code.JOURNAL_UNAVAILABLE, "away"))

    kind, (_, code, message, retryable, _) = run_virtual(main())
    assert kind is JobFailed
    assert (code, message, retryable) == ("JOURNAL_UNAVAILABLE", "away", True)
