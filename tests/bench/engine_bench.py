"""Owns the speed of the engine alone: FEEL, scopes, commands and records included, encoding and I/O excluded.
Never asserts a duration; it checks that what it timed is what it says: Spiff ran each element, each record is there.
Called by `make bench`, or by hand: python -m tests.bench.engine_bench
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from engine.bpmn import parse
from engine.bpmn.spiff import Program
from engine.core import ProcessInstance
from engine.records import (
    Attempt,
    BpmnErrorThrown,
    Command,
    Decision,
    InstanceStarted,
    Job,
    JobCompleted,
    JobReport,
    Record,
    Start,
    TimerFired,
    Usage,
)
from tests.builders import EMPTY_REPORT, Diagram, chain, start_command
from tests.stock import ask

DIAGRAM = Path(__file__).with_name("lifecycle.bpmn")
BATCHES = 5
SECONDS_PER_BATCH = 0.4
STOCK_TIMER = "'2999-01-01T00:00:00Z'"

VARIABLES: Mapping[str, Any] = {
    "operation": "generate",
    "model": "chat",
    "model_version": "",
    "request_bytes": 512,
    "deadline_at": "2999-01-01T00:00:00.000Z",
    "streaming": False,
    "error": None,
    "fallback_model": None,
    "degraded": False,
    "attempts": 0,
}
AT_US = 1_767_225_600_000_000


def _reports() -> dict[str, JobReport]:
    attempt = Attempt(
        "triton-a", "default", "chat", "1", "grpc", "ok", AT_US, AT_US + 9, input_tokens=9, output_tokens=9
    )
    decision = Decision("route", "triton-a", "least in flight", {"candidates": 2, "weight": 1, "in_flight": 0})
    usage = Usage(
        "tokens", Decimal(9), "Tokens", "p1", Decimal("0.000001"), Decimal("0.000009"), False, True, "chat", None
    )
    plain = JobReport(AT_US, AT_US, AT_US)
    return {
        "admit": plain,
        "check_health": plain,
        "route": plain._replace(decisions=(decision,)),
        "infer": plain._replace(attempts=(attempt,)),
        "settle": plain._replace(usage=(usage,)),
    }


RESULTS: Mapping[str, Mapping[str, Any]] = {
    "admit": {"estimated_input_tokens": 9, "max_output_tokens": 64, "fallback_model": "chat-small", "queue_time_ms": 0},
    "check_health": {"candidates": ["triton-a", "triton-b"], "unhealthy": []},
    "route": {"replica": "triton-a", "pool": "default", "route_reason": "least in flight"},
    "infer": {
        "attempts": 1,
        "error": None,
        "usage": {"input_tokens": 9, "output_tokens": 9},
        "served_by": "triton-a",
        "served_model": "chat",
    },
    "settle": {"cost_usd": Decimal("0.000009"), "total_tokens": 18},
}
REPORTS = _reports()


def lifecycle(program: Program, start: Start) -> list[Record]:
    """One request on the happy path, as the runtime drives it."""
    instance = ProcessInstance(program)
    step = instance.apply(start, AT_US)
    records = [*step.records]
    while step.outcome is None:
        job = step.start[0]
        step = instance.apply(
            JobCompleted(step.next_key, job.key, RESULTS[job.element_id], REPORTS[job.element_id]), AT_US
        )
        records += step.records
    return records


def run_to_end(program: Program, start: Start, answer: Callable[[int, Job], Command]) -> ProcessInstance:
    """Drive an instance whose jobs are answered one by one; a timer fires where nothing else is open."""
    instance = ProcessInstance(program)
    step = instance.apply(start, AT_US)
    while step.outcome is None:
        command = answer(step.next_key, step.start[0]) if step.start else TimerFired(step.next_key, step.arm[0].key)
        step = instance.apply(command, AT_US)
    return instance


def completed(key: int, job: Job) -> Command:
    return JobCompleted(key, job.key, {}, EMPTY_REPORT)


def thrown(key: int, job: Job) -> Command:
    return BpmnErrorThrown(key, job.key, "REPLICA_UNAVAILABLE", "gone", {}, EMPTY_REPORT)


def seconds_per_call(call: Callable[[], object]) -> float:
    """CPU seconds: the best of several batches, each of about the same length, whatever else the machine does."""
    call()
    began = time.process_time()
    call()
    calls = max(1, int(SECONDS_PER_BATCH / (time.process_time() - began)))
    best = float("inf")
    for _ in range(BATCHES):
        began = time.process_time()
        for _ in range(calls):
            call()
        best = min(best, (time.process_time() - began) / calls)
    return best


def check_lifecycle(program: Program, start: Start) -> None:
    """That SpiffWorkflow runs a task for each flow node, and that no record of a request is missing."""
    from SpiffWorkflow.task import Task

    ran: list[str] = []
    run = Task.run

    def counted(task: Any) -> Any:
        ran.append(task.task_spec.name)
        return run(task)

    Task.run = counted
    try:
        records = lifecycle(program, start)
    finally:
        Task.run = run
    path = ["request_received", "admit", "check_health", "route", "infer", "settle", "succeeded", "answered"]
    if ran != path:
        raise AssertionError(f"SpiffWorkflow ran {ran}")
    commands = sum(record.position < 0 for record in records)
    if (commands, len(records) - commands) != (6, 13) or type(records[1].body) is not InstanceStarted:
        raise AssertionError(f"{commands} commands and {len(records) - commands} facts instead of 6 and 13")


def _element_costs() -> dict[str, float]:
    """Microseconds for one more element of a kind: a diagram of many of it, less the empty diagram."""
    many = 50
    empty = Diagram().start().end().path("started", "ended")
    gateways = Diagram().start().end()
    gateways.path("started", "gateway_0")
    waits = Diagram().start().end()
    caught = Diagram().start().end()
    for i in range(many):
        following = f"gateway_{i + 1}" if i + 1 < many else "ended"
        gateways.gateway(f"gateway_{i}").flow(f"gateway_{i}", following, "=attempts < 3 and not(degraded)")
        gateways.flow(f"gateway_{i}", "ended", default=True, id=f"otherwise_{i}")
        waits.wait(f"wait_{i}", '=duration("PT0.05S") * 2')
        caught.task(f"task_{i}").on_error(f"task_{i}", f"caught_{i}")
    waits.path("started", *(f"wait_{i}" for i in range(many)), "ended")
    caught.path("started", "task_0")
    for i in range(many):
        caught.path(f"caught_{i}", f"task_{i + 1}" if i + 1 < many else "ended")

    def cost(diagram: Diagram, answer: Callable[[int, Job], Command] = completed) -> float:
        definition = diagram.build()
        program, start = Program(definition), start_command(definition, VARIABLES)
        return seconds_per_call(lambda: run_to_end(program, start, answer))

    base = cost(empty)
    return {
        "engine.us_per_empty_instance": base * 1e6,
        "engine.us_per_service_task": (cost(chain(many)) - base) / many * 1e6,
        "engine.us_per_exclusive_gateway": (cost(gateways) - base) / many * 1e6,
        "engine.us_per_timer": (cost(waits) - base) / many * 1e6,
        "engine.us_per_task_with_caught_error": (cost(caught, thrown) - base) / many * 1e6,
    }


def _chain_seconds(length: int) -> float:
    definition = chain(length).build()
    program, start = Program(definition), start_command(definition)
    return seconds_per_call(lambda: run_to_end(program, start, completed))


def measure() -> dict[str, float]:
    """Flat keys of build/bench.json. Rates are per second on one core, ratios are times faster than stock."""
    xml = DIAGRAM.read_text()
    (definition,) = parse(xml.encode(), DIAGRAM.name)
    program, start = Program(definition), start_command(definition, VARIABLES)
    check_lifecycle(program, start)
    seconds = seconds_per_call(lambda: lifecycle(program, start))
    stock = ask(
        {
            "what": "speed",
            "xml": xml,
            "python": {
                "succeeded_no": "error is not None",
                "may_retry_yes": "False",
                "may_fall_back_yes": "False",
                "deadline_reached": STOCK_TIMER,
                "back_off": "'PT1S'",
            },
            "variables": dict(VARIABLES),
            "answers": [{"result": 1}] * 5,
            "batches": 3,
            "instances": 50,
        }
    )["seconds"]
    chain_300 = _chain_seconds(300)
    stock_300 = ask(
        {
            "what": "speed",
            "xml": chain(300).to_xml(),
            "python": {},
            "variables": {},
            "answers": [{}] * 300,
            "batches": 2,
            "instances": 2,
        }
    )["seconds"]
    return {
        "engine.lifecycle_per_s": 1 / seconds,
        "engine.lifecycle_us": seconds * 1e6,
        "engine.stock_ratio": stock / seconds,
        "engine.chain300_ratio": stock_300 / chain_300,
        "engine.chain300_us_per_task": chain_300 / 300 * 1e6,
        "engine.chain30_us_per_task": _chain_seconds(30) / 30 * 1e6,
    } | _element_costs()


def main() -> None:
    for name, value in measure().items():
        print(f"{name:<40} {value:>12.1f}")


if __name__ == "__main__":
    main()
