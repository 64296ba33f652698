"""The shipped process, diagram and FEEL included, on its happy path and on each way that a failure can take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.bpmn import parse
from engine.records import JobStopped
from tests.builders import EMPTY_REPORT
from tests.driven import AT, Driven

FILE = Path(__file__).parents[2] / "processes" / "inference-request.bpmn"
(DEFINITION,) = parse(FILE.read_bytes(), FILE.name)
SECOND = 1_000_000

START: dict[str, Any] = {
    "operation": "generate",
    "model": "chat",
    "model_version": "",
    "request_bytes": 512,
    "deadline_at": "2023-11-14T22:13:30.000Z",
    "streaming": False,
    "error": None,
    "fallback_model": None,
    "degraded": False,
    "attempts": 0,
}


def failure(attempts: int, code: str = "REPLICA_UNAVAILABLE", *, retryable: bool = True, after_ms: Any = None) -> Any:
    error = {
        "code": code,
        "message": "gone",
        "retryable": retryable,
        "replica": "triton-a",
        "grpc_status": "UNAVAILABLE",
        "retry_after_ms": after_ms,
    }
    return {"attempts": attempts, "error": error}


def admitted(fallback_model: str | None = "chat-small") -> Driven:
    run = Driven(DEFINITION, START)
    assert run.job.topic == "admit"
    run.complete({"fallback_model": fallback_model, "estimated_input_tokens": 5, "max_output_tokens": 64})
    return run


def to_infer(run: Driven) -> Driven:
    assert run.job.topic == "check_health"
    run.complete({"candidates": ["triton-a", "triton-b"], "unhealthy": []})
    assert run.job.topic == "route"
    run.complete({"replica": "triton-a", "pool": "default", "route_reason": "least in flight"})
    assert run.job.topic == "infer"
    return run


def settle(run: Driven) -> Driven:
    assert run.job.topic == "settle"
    run.complete({"cost_usd": None, "total_tokens": 0})
    return run


def answered(run: Driven) -> Driven:
    run.complete({"attempts": run.instance.variables["attempts"] + 1, "error": None, "served_by": "triton-b"})
    return settle(run)


def elements(run: Driven) -> list[str]:
    return [step.split(":")[0] for step in run.path]


def test_the_happy_path_has_eight_flow_nodes() -> None:
    run = answered(to_infer(admitted()))

    nodes = ["request_received", "admit", "check_health", "route", "infer", "settle", "succeeded", "answered"]
    assert elements(run) == nodes
    assert run.outcome[:3] == ("completed", "answered", None)
    assert len(run.records) == 6 + 10


def test_a_refused_request_ends_as_refused() -> None:
    run = Driven(DEFINITION, START)
    run.throw("QUEUE_FULL", failure(0, "QUEUE_FULL"))

    assert run.outcome.end_element_id == "refused"
    assert run.outcome.error is not None
    assert run.outcome.error["code"] == "QUEUE_FULL"


def test_a_failed_attempt_is_retried_after_a_growing_back_off() -> None:
    run = to_infer(admitted())
    waits = []
    for attempt in (1, 2):
        run.throw("REPLICA_UNAVAILABLE", failure(attempt))
        (timer,) = run.instance.open_timers
        assert timer.element_id == "back_off"
        waits.append(timer.due_at_us - run.at_us)
        run.fire()
        to_infer(run)
    answered(run)

    assert 25_000 <= waits[0] <= 75_000
    assert 50_000 <= waits[1] <= 150_000
    assert run.outcome[:3] == ("completed", "answered", None)
    assert elements(run).count("infer") == 3


def test_a_replica_that_asks_for_time_gets_it() -> None:
    run = to_infer(admitted())
    run.throw("REPLICA_OVERLOADED", failure(1, "REPLICA_OVERLOADED", after_ms=2_000))

    (timer,) = run.instance.open_timers
    assert timer.due_at_us - run.at_us == 2 * SECOND


def test_a_back_off_that_does_not_fit_before_the_deadline_is_not_begun() -> None:
    run = to_infer(admitted(None))
    run.at_us = AT + 10 * SECOND - 20_000
    run.throw("REPLICA_UNAVAILABLE", failure(1))
    settle(run)

    assert run.outcome.end_element_id == "failed"


def test_spent_attempts_fall_back_to_another_model_once() -> None:
    run = to_infer(admitted())
    for attempt in (1, 2, 3):
        run.throw("REPLICA_UNAVAILABLE", failure(attempt))
        if attempt < 3:
            run.fire()
            to_infer(run)
    assert run.job.topic == "fall_back"
    run.complete({"model": "chat-small", "degraded": True, "attempts": 0, "error": None})
    to_infer(run)
    run.throw("REPLICA_ERROR", failure(3))
    settle(run)

    assert run.outcome.end_element_id == "failed"
    assert run.outcome.error is not None
    assert run.outcome.error["code"] == "REPLICA_UNAVAILABLE"


@pytest.mark.parametrize("code", ["STREAM_BROKEN", "INPUT_REFUSED", "INVALID_ARGUMENT", "MODEL_NOT_FOUND"])
def test_what_no_retry_and_no_other_model_mends_ends_at_once(code: str) -> None:
    run = to_infer(admitted())
    run.throw(code, failure(1, code, retryable=False))
    settle(run)

    assert run.outcome.end_element_id == "failed"
    assert "back_off" not in elements(run)
    assert "fall_back" not in elements(run)


def test_the_deadline_stops_the_attempt_and_settles_it() -> None:
    run = to_infer(admitted())
    job = run.job
    assert run.instance.open_timers[0].due_at_us == AT + 10 * SECOND
    run.fire()
    run.do(JobStopped(run.key, job.key, EMPTY_REPORT))
    settle(run)

    assert run.outcome.end_element_id == "failed"
    assert run.outcome.error is not None
    assert (run.outcome.error["code"], run.outcome.error["replica"]) == ("DEADLINE_EXCEEDED", "triton-a")
