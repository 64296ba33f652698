"""Owns instances for the tests of the store: the shipped diagram, driven by hand through the real core.
Never mocks a record: what a test stores is what a gateway would store.
Called by the tests of the journal, the queries and the migrations, and by the journal's bench.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from engine import __version__
from engine.api.exchange import mint_request_id
from engine.bpmn import parse
from engine.bpmn.spiff import Program
from engine.core.instance import ProcessInstance
from engine.keys import KeySource
from engine.records import (
    ActivityEnded,
    Attempt,
    BpmnErrorThrown,
    CallTarget,
    Decision,
    DefinitionRef,
    IncidentEnded,
    IncidentRaised,
    InstanceEnded,
    InstanceStarted,
    JobCompleted,
    JobReport,
    Record,
    Start,
    Step,
    Tags,
    TimerFired,
    Usage,
)
from engine.store.encoding import InstanceContext

DIAGRAM = Path(__file__).parents[1] / "processes" / "inference-request.bpmn"
REQUEST_ID = mint_request_id(time.time_ns() // 1000)
SECOND_US = 1_000_000


@cache
def program() -> Program:
    (definition,) = parse(DIAGRAM.read_bytes(), DIAGRAM.name)
    return Program(definition)


def keys(writer_id: int = 1) -> KeySource:
    return KeySource(writer_id, lambda: time.time_ns() // 1_000_000)


class Life(NamedTuple):
    """One instance, and its records by apply."""

    context: InstanceContext
    steps: list[tuple[Record, ...]]

    @property
    def key(self) -> int:
        return self.context.key

    @property
    def records(self) -> list[Record]:
        return [record for step in self.steps for record in step]

    @property
    def facts(self) -> list[Record]:
        return [record for record in self.records if record.position > 0]


def live(
    source: KeySource,
    *,
    failing_attempts: int = 0,
    variables: Mapping[str, Any] | None = None,
    tags: Tags | None = None,
    results: Mapping[str, Any] | None = None,
    until_step: int = 100,
) -> Life:
    """An inference request from its start to its end, or to its `until_step`th apply."""
    definition = DefinitionRef(7, program().definition.process_id, 1, program().definition.content_hash)
    at_us = time.time_ns() // 1000
    given = {
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
        **(variables or {}),
    }
    start = Start(
        source.reserve(), definition, __version__, REQUEST_ID, tags or Tags("acme", "search", "answer"), given, True
    )
    instance = ProcessInstance(program())
    steps = []
    failed = 0

    def apply(command: Any) -> Step:
        step = instance.apply(command, at_us)
        source.advance(step.next_key)
        steps.append(step.records)
        return step

    step = apply(start)
    while step.outcome is None and len(steps) < until_step:
        at_us += 1_000
        if not instance.open_jobs:
            timer = instance.open_timers[-1]
            at_us = max(at_us, timer.due_at_us)
            step = apply(TimerFired(source.reserve(), timer.key))
            continue
        (job,) = instance.open_jobs
        if job.topic == "infer" and failed < failing_attempts:
            failed += 1
            error = {"code": "REPLICA_UNAVAILABLE", "message": "refused", "retryable": True, "retry_after_ms": None}
            report = job_report(job.topic, at_us, failed, outcome="error")
            step = apply(
                BpmnErrorThrown(
                    source.reserve(),
                    job.key,
                    "REPLICA_UNAVAILABLE",
                    "refused",
                    {"error": error, "attempts": failed},
                    report,
                )
            )
            continue
        answers = {"infer": {"attempts": failed + 1, "error": None}, "route": {"replica": "a"}, **(results or {})}
        report = job_report(job.topic, at_us, failed + 1)
        step = apply(JobCompleted(source.reserve(), job.key, answers.get(job.topic, {}), report))
    return Life(InstanceContext.of_start(start), steps)


def job_report(topic: str, at_us: int, number: int, outcome: str = "ok") -> JobReport:
    report = JobReport(at_us - 900, at_us - 800, at_us - 10)
    if topic == "route":
        choice = Decision(
            "route", "a", "fewest requests in flight", {"candidates": ["a", "b"], "weight": Decimal("0.50")}
        )
        return report._replace(decisions=(choice,))
    if topic != "infer":
        return report
    if outcome != "ok":
        attempt = Attempt("a", "main", "chat", "", "grpc", outcome, at_us - 700, at_us - 20, message="refused")
        return report._replace(
            attempts=(attempt._replace(error_code="REPLICA_UNAVAILABLE", grpc_status="UNAVAILABLE"),)
        )
    replica = "a" if number == 1 else "b"
    attempt = Attempt(
        *(replica, "main", "chat", "1", "grpc", outcome, at_us - 700, at_us - 20),
        *(at_us - 600, at_us - 600, at_us - 100, 5, 12, 5, True, "stop"),
    )
    usage = tuple(
        Usage(sku, Decimal(n), "Tokens", "list-1", Decimal(usd), Decimal(usd) * n, True, True, "chat", replica)
        for sku, n, usd in (("input_tokens", 12, "0.0000015"), ("output_tokens", 5, "0.000006"))
    )
    return report._replace(attempts=(attempt,), usage=usage)


def operational(
    source: KeySource,
    *,
    process_id: str = "bill",
    business_id: str | None = None,
    variables: Mapping[str, Any] | None = None,
    incident: str | None = None,
    ended: str | None = None,
) -> Life:
    """An instance that is not online, as rows: a user task ended inside a called process, an incident at a second task
    (`incident`: open, resolved or ended), and the end (`ended`: its state) if it has one."""
    definition, called = DefinitionRef(8, process_id, 2, "ab" * 32), DefinitionRef(9, "called", 1, "cd" * 32)
    at_us = time.time_ns() // 1000
    start = Start(source.reserve(), definition, __version__, REQUEST_ID, Tags("acme"), variables or {}, False)
    start = start._replace(
        calls=(CallTarget(definition.content_hash, "call", called),),
        business_id=business_id,
    )
    source.advance(start.key + 1)
    call, child, person, person_job, second, raised = [source.mint() for _ in range(6)]
    task = ActivityEnded(
        *(person, "approve", "USER_TASK", "Approve", "completed", at_us, at_us + 10),
        *(person_job, at_us, at_us + 1, at_us + 9),
        variables={"approved": True},
        scope_key=child,
        process_id="called",
    )
    ended_process = ActivityEnded(
        *(child, "called", "PROCESS", "Called", "completed", at_us, at_us + 10), scope_key=call, process_id="called"
    )
    caller = ActivityEnded(call, "call", "CALL_ACTIVITY", "Call", "completed", at_us, at_us + 10)
    facts: list[Any] = [InstanceStarted(start), task, ended_process, caller]
    if incident is not None:
        facts.append(IncidentRaised(raised, second, "pay", "NO_RETRIES_LEFT", "the bank is closed"))
    if incident in ("resolved", "ended"):
        facts.append(IncidentEnded(raised, second, "pay", incident == "resolved"))
    if ended is not None:
        facts.append(InstanceEnded(ended, None, None, None, at_us, at_us + 1_000, 0, 3))
    records = [Record(-1, at_us, start)]
    records += [Record(position, at_us + position, fact) for position, fact in enumerate(facts, 1)]
    return Life(InstanceContext.of_start(start), [tuple(records)])


async def eventually(holds: Callable[[], Awaitable[bool] | bool], within_s: float = 10.0) -> None:
    """Return once `holds`; fail when it does not within `within_s`."""
    async with asyncio.timeout(within_s):
        while True:
            answer = holds()
            if answer if isinstance(answer, bool) else await answer:
                return
            await asyncio.sleep(0.005)
