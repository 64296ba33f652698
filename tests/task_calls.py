"""Owns the way tests call a task: a request with its variables, its payload and what the client would have received.

It stands where the runtime stands and does what the contract of TaskContext says, no more. Called by tests of tasks.
"""

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

from engine import (
    Attempt,
    BpmnError,
    Chunk,
    Decision,
    InferenceAnswer,
    InferenceCall,
    Operation,
    Settings,
    TaskContext,
    Telemetry,
    Tensor,
    Usage,
)
from engine.records import Job, Tags
from engine.registry import REGISTRY
from tasks import Resources, open_resources

_KEYS = count(1)


def now_us() -> int:
    return time.time_ns() // 1000


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[Resources]:
    """The shared parts of the tasks; nothing may be held when the test has ended its requests."""
    async with open_resources(settings, Telemetry(), now_us) as resources:
        yield resources
        assert {r.name: r.in_flight for r in resources.fleet.replicas.values() if r.in_flight} == {}
        assert resources.tickets == 0


class Request:
    """One request: run its tasks by topic, then `end` it, as the runtime does when the instance leaves memory."""

    def __init__(self, resources: Resources, call: InferenceCall, *, deadline_s: float = 30.0, **variables: Any):
        self.resources = resources
        self.call = call
        self.key = next(_KEYS)
        self.deadline_at_us = now_us() + int(deadline_s * 1_000_000)
        self.variables: dict[str, Any] = {
            "operation": str(call.operation),
            "model": call.model,
            "model_version": call.version,
            "request_bytes": call.size_bytes,
            "error": None,
            "attempts": 0,
            **variables,
        }
        self.chunks: list[bytes] = []
        self.chunk_arrived = asyncio.Event()
        self.answer: InferenceAnswer | None = None
        self.attempts: list[Attempt] = []
        self.decisions: list[Decision] = []
        self.usage: list[Usage] = []
        self._releases: list[Callable[[], None]] = []

    async def emit(self, chunk: Chunk) -> None:
        self.chunks.append(chunk.data)
        self.chunk_arrived.set()

    def deliver(self, answer: InferenceAnswer) -> None:
        self.answer = answer

    def defer(self, release: Callable[[], None]) -> None:
        self._releases.append(release)

    async def run(self, *topics: str) -> Mapping[str, Any]:
        """Run tasks one after the other; what they return or throw becomes variables. Raises BpmnError."""
        for topic in topics:
            definition = REGISTRY[topic]
            job = Job(next(_KEYS), next(_KEYS), topic, topic, {}, self.variables, 1, 1)
            ctx = TaskContext(
                job, self.key, f"request-{self.key}", Tags(), self.deadline_at_us, self.resources, self, now_us
            )
            try:
                result = definition.function(definition.read(self.variables), ctx)
                if inspect.isawaitable(result):
                    result = await result
                self.variables |= definition.write(result)
            except BpmnError as error:
                self.variables |= error.variables
                raise
            finally:
                report = ctx.report(0, 0, 0)
                self.attempts += report.attempts
                self.decisions += report.decisions
                self.usage += report.usage
        return self.variables

    def end(self) -> None:
        for release in self._releases:
            release()
        self._releases.clear()


@asynccontextmanager
async def requested(resources: Resources, call: InferenceCall, **options: Any) -> AsyncIterator[Request]:
    """A request that leaves memory at the end of the block."""
    request = Request(resources, call, **options)
    try:
        yield request
    finally:
        request.end()


async def until(condition: Callable[[], bool]) -> None:
    """Return once `condition` holds; the test's own time limit ends a wait for ever."""
    while True:
        if condition():
            return
        await asyncio.sleep(0.005)


def infer_call(model: str, *texts: str, name: str = "text", version: str = "", **scalars: str) -> InferenceCall:
    """A KServe v2 call with one text per row of a batch, and more BYTES inputs of the same rows."""
    inputs = (
        Tensor(name, "BYTES", (len(texts), 1), list(texts)),
        *(Tensor(key, "BYTES", (len(texts), 1), [value] * len(texts)) for key, value in scalars.items()),
    )
    size_bytes = sum(map(len, texts))
    return InferenceCall(Operation.INFER, model, version, "", inputs, size_bytes=size_bytes)


def generate_call(model: str, text: str, *, stream: bool = False, **fields: Any) -> InferenceCall:
    operation = Operation.GENERATE_STREAM if stream else Operation.GENERATE
    body = {"text_input": text, "stream": stream, **fields}
    return InferenceCall(operation, model, "", "", body=body, size_bytes=len(text))
