"""The policy that processes/inference-request.bpmn draws: which way a request goes, however its attempts end."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from engine.bpmn import parse
from engine.core.instance import ProcessInstance
from engine.errors import Code, meaning_of
from engine.records import (
    ActivityEnded,
    BpmnErrorThrown,
    Job,
    JobCompleted,
    JobStopped,
    Outcome,
    Step,
    Timer,
    TimerFired,
)
from tests.builders import EMPTY_REPORT, start_command

XML = (Path(__file__).parents[2] / "processes" / "inference-request.bpmn").read_bytes()
(DEFINITION,) = parse(XML, "inference-request.bpmn")
NOW_US = 1_767_268_800_000_000  # 2026-01-01T12:00:00Z
START = {
    "operation": "generate",
    "model": "chat",
    "model_version": "",
    "request_bytes": 512,
    "deadline_at": "2026-01-01T12:00:30.000Z",
    "streaming": False,
    "error": None,
    "fallback_model": None,
    "degraded": False,
    "attempts": 0,
}
OK: dict[str, dict[str, Any]] = {
    "check_health": {"candidates": ["a"], "unhealthy": []},
    "route": {"replica": "a", "pool": "default", "route_reason": "the only one"},
    "settle": {"total_tokens": 0, "cost_usd": None},
    "fall_back": {"model": "small", "degraded": True, "degraded_reason": "failed", "attempts": 0, "tried": []},
}


class Request:
    """Drives one instance: `infer` and `route` end as scripted, every other task succeeds, timers fire when due."""

    def __init__(self, *, fallback: str | None = None, admit: Code | None = None, **script: list[Code | str | None]):
        self.script = {topic: list(ends) for topic, ends in script.items()}
        self.fallback, self.admit = fallback, admit
        self.instance = ProcessInstance(DEFINITION)
        self.at_us = NOW_US
        self.waits_ms: list[float] = []
        self.path: list[str] = []
        self.outcome: Outcome | None = None
        self.retry_after_ms: int | None = None
        self.streamed = False
        self._jobs: list[Job] = []
        self._timers: dict[int, Timer] = {}
        self._key = 0

    def run(self, **variables: Any) -> Request:
        start = start_command(DEFINITION, START | variables)
        self._take(self.instance.apply(start, self.at_us))
        while self.outcome is None:
            if not self._jobs:
                self._fire(min(self._timers.values(), key=lambda timer: timer.due_at_us))
            else:
                self._end(self._jobs.pop(0))
        return self

    def _take(self, step: Step) -> None:
        self._key = step.next_key
        self._jobs += step.start
        self._timers |= {timer.key: timer for timer in step.arm}
        for key in step.disarm:
            self._timers.pop(key, None)
        bodies = [record.body for record in step.records]
        self.path += [body.element_id for body in bodies if isinstance(body, ActivityEnded)]
        self.outcome = step.outcome
        for job_key in step.stop:
            self._take(self.instance.apply(JobStopped(self._key, job_key, EMPTY_REPORT), self.at_us))

    def _fire(self, timer: Timer) -> None:
        del self._timers[timer.key]
        if timer.element_id == "back_off":
            self.waits_ms.append((timer.due_at_us - self.at_us) / 1000)
        self.at_us = timer.due_at_us
        self._take(self.instance.apply(TimerFired(self._key, timer.key), self.at_us))

    def _end(self, job: Job) -> None:
        end = self._scripted(job)
        if end == "hangs":
            return
        if isinstance(end, Code):
            variables = self._thrown(job, end)
            command: Any = BpmnErrorThrown(self._key, job.key, end, "no", variables, EMPTY_REPORT)
        else:
            command = JobCompleted(self._key, job.key, self._results(job), EMPTY_REPORT)
        self._take(self.instance.apply(command, self.at_us))

    def _scripted(self, job: Job) -> Code | str | None:
        if job.topic == "admit":
            return self.admit
        ends = self.script.get(job.topic, [])
        return ends.pop(0) if ends else None

    def _thrown(self, job: Job, code: Code) -> dict[str, Any]:
        error = {
            "code": code.value,
            "message": "no",
            "retryable": meaning_of(code).retryable and not self.streamed,
            "replica": "a",
            "grpc_status": None,
            "retry_after_ms": self.retry_after_ms,
            "streamed": self.streamed,
        }
        attempts = job.variables["attempts"] + (job.topic == "infer")
        return {"error": error, "attempts": attempts, "tried": ["a"]}

    def _results(self, job: Job) -> Mapping[str, Any]:
        if job.topic == "admit":
            return {
                "fallback_model": self.fallback,
                "estimated_input_tokens": 1,
                "max_output_tokens": 1,
                "queue_time_ms": 0,
            }
        if job.topic == "infer":
            served = {"served_by": "a", "served_model": job.variables["model"], "usage": {}, "tried": ["a"]}
            return served | {"attempts": job.variables["attempts"] + 1, "error": None}
        return OK[job.topic]

    @property
    def end(self) -> str | None:
        assert self.outcome is not None
        return self.outcome.end_element_id

    @property
    def error_code(self) -> str | None:
        assert self.outcome is not None
        return None if self.outcome.error is None else self.outcome.error["code"]


DOWN = Code.REPLICA_UNAVAILABLE


def test_happy_request_takes_the_straight_line() -> None:
    request = Request().run()
    assert request.path == [
        "request_received",
        "admit",
        "check_health",
        "route",
        "infer",
        "settle",
        "succeeded",
        "answered",
    ]
    assert request.error_code is None


def test_refused_request_runs_nothing_else() -> None:
    request = Request(admit=Code.QUEUE_FULL).run()
    assert (request.end, request.error_code) == ("refused", "QUEUE_FULL")
    assert "route" not in request.path


def test_failed_attempt_is_retried_after_a_jittered_wait_with_fresh_health() -> None:
    request = Request(infer=[DOWN, DOWN]).run()
    assert (request.end, request.error_code) == ("answered", None)
    assert request.path.count("check_health") == request.path.count("route") == request.path.count("infer") == 3
    first, second = request.waits_ms
    assert 25 <= first <= 75
    assert 50 <= second <= 150


def test_attempts_end_after_three_without_a_fallback() -> None:
    request = Request(infer=[DOWN] * 9).run()
    assert (request.end, request.error_code) == ("failed", "REPLICA_UNAVAILABLE")
    assert request.path.count("infer") == 3
    assert request.path[-4:] == ["may_fall_back", "settle", "succeeded", "failed"]


def test_request_without_a_replica_gives_up_after_three_looks() -> None:
    request = Request(route=[Code.NO_REPLICA] * 9).run()
    assert (request.end, request.error_code) == ("failed", "NO_REPLICA")
    assert request.path.count("route") == 3
    assert "infer" not in request.path


def test_fallback_model_gets_its_own_three_attempts_and_only_once() -> None:
    request = Request(fallback="small", infer=[DOWN] * 9).run()
    assert (request.end, request.error_code) == ("failed", "REPLICA_UNAVAILABLE")
    assert request.path.count("infer") == 6
    assert request.path.count("fall_back") == 1


def test_fallback_answers_when_no_replica_serves_the_model() -> None:
    request = Request(fallback="small", route=[Code.NO_REPLICA] * 3).run()
    assert (request.end, request.error_code) == ("answered", None)
    assert request.outcome is not None
    assert request.outcome.variables["degraded"] is True
    assert request.outcome.variables["served_model"] == "small"


@pytest.mark.parametrize("code", [Code.INPUT_REFUSED, Code.INVALID_ARGUMENT, Code.UNSUPPORTED, Code.MODEL_NOT_FOUND])
def test_callers_mistake_is_neither_retried_nor_given_to_another_model(code: Code) -> None:
    request = Request(fallback="small", infer=[code]).run()
    assert (request.end, request.error_code) == ("failed", code.value)
    assert request.path.count("infer") == 1
    assert "fall_back" not in request.path


def test_broken_stream_is_not_begun_again() -> None:
    request = Request(fallback="small", infer=[Code.STREAM_BROKEN])
    request.streamed = True
    request.run(streaming=True)
    assert (request.end, request.error_code) == ("failed", "STREAM_BROKEN")
    assert request.path.count("infer") == 1
    assert "fall_back" not in request.path


def test_output_that_makes_no_sense_goes_straight_to_the_fallback() -> None:
    request = Request(fallback="small", infer=[Code.OUTPUT_INVALID]).run()
    assert request.end == "answered"
    assert request.waits_ms == []
    assert request.path.count("fall_back") == 1


def test_wait_is_as_long_as_the_replica_asks_for() -> None:
    request = Request(infer=[Code.REPLICA_OVERLOADED])
    request.retry_after_ms = 2_000
    assert request.run().waits_ms == [2_000]


def test_wait_that_ends_after_the_deadline_is_not_begun() -> None:
    request = Request(infer=[Code.REPLICA_OVERLOADED])
    request.retry_after_ms = 31_000
    request.run()
    assert (request.end, request.error_code, request.waits_ms) == ("failed", "REPLICA_OVERLOADED", [])


def test_deadline_stops_a_hanging_attempt_and_is_settled() -> None:
    request = Request(fallback="small", infer=["hangs"]).run()
    assert (request.end, request.error_code) == ("failed", "DEADLINE_EXCEEDED")
    assert request.at_us == NOW_US + 30_000_000
    assert request.path[-5:] == ["infer", "deadline_reached", "settle", "succeeded", "failed"]


def test_deadline_in_the_past_makes_no_second_try() -> None:
    request = Request(fallback="small", infer=[DOWN]).run(deadline_at="2026-01-01T11:59:59.999Z")
    assert request.end == "failed"
    assert request.path.count("infer") == 1
    assert "fall_back" not in request.path
