"""Owns a whole engine in virtual time: the shipped diagram, a journal on a disk in memory, tasks that follow a script.
Never mocks a part of the engine: the scripted tasks are tasks like any other, on a registry of their own.
Called by the simulation tests.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from engine.bpmn import parse
from engine.bpmn.spiff import Program
from engine.errors import BpmnError, Code
from engine.inference import Chunk, InferenceAnswer, InferenceCall, Operation
from engine.keys import KeySource
from engine.linking import DeployedDefinition
from engine.records import Attempt, Decision, DefinitionRef, Tags, Usage
from engine.registry import Registry, TaskContext, task
from engine.run import Run, RunResult
from engine.runtime import Runtime
from engine.settings import RuntimeSettings
from engine.telemetry import Telemetry
from engine.waiting import Waiting
from tests.loop import now_us, run_virtual
from tests.simulation.disk import FaultyJournal, MemoryOwnership

T = TypeVar("T")

DIAGRAM = Path(__file__).parents[2] / "processes" / "inference-request.bpmn"


def deployed(xml: bytes | None = None, key: int = 1) -> DeployedDefinition:
    """A diagram, by default the shipped one, as version 1."""
    (definition,) = parse(xml or DIAGRAM.read_bytes(), DIAGRAM.name)
    return DeployedDefinition(
        DefinitionRef(key, definition.process_id, 1, definition.content_hash), Program(definition)
    )


# --- the scripted tasks -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Admitted:
    fallback_model: str | None
    queue_time_ms: int


@dataclass(frozen=True)
class Candidates:
    candidates: list[str]


@dataclass(frozen=True)
class Routed:
    replica: str
    route_reason: str


@dataclass(frozen=True)
class Tried:
    attempts: int = 0


@dataclass(frozen=True)
class Inferred:
    attempts: int
    error: dict[str, Any] | None
    served_by: str


@dataclass(frozen=True)
class FellBack:
    model: str
    degraded: bool
    attempts: int


@dataclass(frozen=True)
class Settled:
    cost_usd: Decimal


Behaviour = Callable[["Attempted"], Awaitable[None]]


@dataclass
class Attempted:
    """What a scripted replica sees of one call. It returns to answer and raises `failure(...)` to fail."""

    context: TaskContext[Script]
    number: int  # attempts of this instance on this model, from 1
    execution: int

    @property
    def random(self) -> Random:
        return self.context.resources.random

    async def emit(self, data: bytes) -> None:
        await self.context.emit(Chunk(data))


async def answers_at_once(_: Attempted) -> None:
    return None


@dataclass
class Script:
    """What the tasks of one engine do. `slots` counts what admit took and the end of the instance gave back."""

    infer: Behaviour = answers_at_once
    admit_wait: Callable[[], Awaitable[None]] | None = None
    fallback_model: str | None = None
    random: Random = field(default_factory=lambda: Random(0))
    slots: int = 0
    calls: int = 0
    settled: int = 0


def failure(code: Code, attempts: int, *, retryable: bool = True, retry_after_ms: int | None = None) -> BpmnError:
    error = {
        "code": code.value,
        "message": "scripted failure",
        "retryable": retryable,
        "replica": "r1",
        "grpc_status": "UNAVAILABLE",
        "retry_after_ms": retry_after_ms,
    }
    return BpmnError(code, "scripted failure", variables={"error": error, "attempts": attempts})


def scripted_registry() -> Registry:
    """The seven topics of the shipped diagram; infer is an async task, the others are inline."""
    registry = Registry()

    @task("admit", inline=True, registry=registry)
    def admit(_: None, context: TaskContext[Script]) -> Admitted | Awaitable[Admitted]:
        script = context.resources
        script.slots += 1
        context.defer(lambda: setattr(script, "slots", script.slots - 1))
        admitted = Admitted(script.fallback_model, 0)
        if script.admit_wait is None:
            return admitted

        async def wait() -> Admitted:
            assert script.admit_wait is not None
            await script.admit_wait()
            return admitted

        return wait()

    @task("check_health", inline=True, registry=registry)
    def check_health(_: None, context: TaskContext[Script]) -> Candidates:
        return Candidates(["r1", "r2"])

    @task("route", inline=True, registry=registry)
    def route(_: None, context: TaskContext[Script]) -> Routed:
        replica = "r1" if context.job.execution % 2 else "r2"
        context.record_decision(Decision("route", replica, "scripted", {}))
        return Routed(replica, "scripted")

    @task("infer", registry=registry)
    async def infer(given: Tried, context: TaskContext[Script]) -> Inferred:
        return await _infer(given, context)

    @task("fall_back", inline=True, registry=registry)
    def fall_back(_: None, context: TaskContext[Script]) -> FellBack:
        return FellBack(context.resources.fallback_model or "", True, 0)

    @task("settle", inline=True, registry=registry)
    def settle(_: None, context: TaskContext[Script]) -> Settled:
        context.resources.settled += 1
        return Settled(Decimal("0.001"))

    return registry


async def _infer(given: Tried, context: TaskContext[Script]) -> Inferred:
    script = context.resources
    script.calls += 1
    attempted = Attempted(context, given.attempts + 1, context.job.execution)
    sent_at_us = context.now_us()
    outcome = "error"
    try:
        await script.infer(attempted)
        outcome = "ok"
    except asyncio.CancelledError:
        outcome = "cancelled"
        raise
    finally:
        replica = str(context.job.variables["replica"])
        context.record_attempt(
            Attempt(replica, "default", "chat", "1", "grpc", outcome, sent_at_us, context.now_us(), output_tokens=3)
        )
        context.record_usage(Usage("output", Decimal(3), "Tokens", None, None, None, False, True, "chat", replica))
    context.deliver(InferenceAnswer("chat", "1", body={"text_output": "hello"}))
    return Inferred(attempted.number, None, replica)


# --- the world --------------------------------------------------------------------------------------------------


class World:
    """One engine with its script, its disk and its lease."""

    def __init__(self, runtime: Runtime, script: Script, journal: FaultyJournal, ownership: MemoryOwnership):
        self.runtime = runtime
        self.script = script
        self.journal = journal
        self.ownership = ownership

    def submit(
        self,
        *,
        operation: Operation = Operation.GENERATE,
        deadline_ms: int = 30_000,
        variables: Mapping[str, Any] | None = None,
    ) -> Run:
        deadline_at_us = now_us() + deadline_ms * 1000
        given = {
            "operation": operation.value,
            "model": "chat",
            "model_version": "",
            "request_bytes": 10,
            "deadline_at": iso(deadline_at_us),
            "streaming": operation is Operation.GENERATE_STREAM,
            "error": None,
            "fallback_model": None,
            "degraded": False,
            "attempts": 0,
            **(variables or {}),
        }
        return self.runtime.submit(
            SHIPPED,
            InferenceCall(operation, "chat", "", ""),
            Tags(deadline_ms=deadline_ms),
            given,
            request_id=str(uuid.UUID(int=now_us())),
            deadline_at_us=deadline_at_us,
        )

    async def request(self, **kwargs: Any) -> RunResult:
        return await self.submit(**kwargs).result()


def iso(at_us: int) -> str:
    return datetime.fromtimestamp(at_us / 1_000_000, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


@asynccontextmanager
async def world(
    script: Script | None = None,
    *,
    journal: FaultyJournal | None = None,
    registry: Registry | None = None,
    epoch: int = 1,
    clock: Callable[[], int] = now_us,
    waiting: Waiting | None = None,
    telemetry: Telemetry | None = None,
    **settings: Any,
) -> AsyncIterator[World]:
    """An engine that runs the shipped diagram. `epoch` tells engines on the same disk apart."""
    script = script or Script()
    journal = journal or FaultyJournal()
    ownership = MemoryOwnership(journal.disk, epoch, SHIPPED.program)
    runtime = Runtime(
        journal=journal,
        keys=KeySource(epoch, lambda: clock() // 1000),
        registry=registry or scripted_registry(),
        resources=script,
        telemetry=telemetry or Telemetry(),
        settings=RuntimeSettings(**settings),
        now_us=clock,
        engine_version="test",
        ownership=ownership,
        waiting=waiting,
    )
    await journal.start()
    try:
        async with runtime:
            yield World(runtime, script, journal, ownership)
    finally:
        await journal.close(wait_s=0)


SHIPPED = deployed()


def simulate(main: Callable[[], Coroutine[Any, Any, T]], limit_s: float = 86_400) -> T:
    """Run a simulation to its end in virtual time."""
    return run_virtual(main(), limit_s)
