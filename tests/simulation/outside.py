"""Owns operational instances in virtual time: an engine, and everything outside that its instances wait for.
Never mocks a part of the engine; the outside is what a worker, a person and a message broker would do.
Called by the simulation tests of operational instances.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from engine.bpmn.definition import ElementType
from engine.bpmn.spiff import Program
from engine.errors import Code, Rejected
from engine.linking import DeployedDefinition
from engine.records import (
    DefinitionRef,
    EventReceived,
    Job,
    JobCompleted,
    JobReport,
    Key,
    Signal,
    Subscription,
    Tags,
    TimerFired,
)
from engine.registry import Registry, TaskContext, task
from engine.run import Run
from engine.runtime import Runtime
from tests.builders import Diagram, message, signal
from tests.loop import EPOCH_US, now_us
from tests.simulation.disk import Disk, FaultyJournal
from tests.simulation.world import Script, world

EVENT_KEY = 7


def order() -> Diagram:
    """Our task, a worker's job and a timer beside a message, a signal, a person's signature, and a last signal."""
    parallel = ElementType.PARALLEL_GATEWAY
    return (
        Diagram("order")
        .start()
        .task("price")
        .gateway("split", parallel)
        .task("pack")
        .on_timer("pack", "too_slow", "PT1H")
        .wait("dry", "PT10S")
        .catch("paid", message("paid", "=id"))
        .gateway("join", parallel)
        .throw("shipped", signal("shipped"))
        .user_task("sign")
        .end(event=signal("done"))
        .end("late")
        .path("started", "price", "split", "pack", "dry", "join", "shipped", "sign", "ended")
        .path("split", "paid", "join")
        .flow("too_slow", "late")
    )


def deployed(diagram: Diagram, disk: Disk) -> DeployedDefinition:
    definition = diagram.build()
    program = Program(definition)
    disk.programs[definition.content_hash] = program
    return DeployedDefinition(DefinitionRef(1, definition.process_id, 1, definition.content_hash), program)


@dataclass(frozen=True)
class Priced:
    usd: int


def registry(price_s: float, stop_s: float) -> Registry:
    """`stop_s` is how long the task takes to give in when it is stopped."""
    tasks = Registry()

    @task("price", registry=tasks)
    async def price(_: None, context: TaskContext[Script]) -> Priced:
        context.resources.calls += 1
        try:
            await asyncio.sleep(price_s)
        except asyncio.CancelledError:
            await asyncio.sleep(stop_s)
            raise
        return Priced(3)

    return tasks


@dataclass
class Outside:
    """Does each offered job after `job_s`, and sends each awaited message after `message_s`, by itself if `eager`."""

    job_s: float = 1.0
    message_s: float = 3.0
    eager: bool = True
    jobs: dict[Key, Job] = field(default_factory=dict)
    subscriptions: dict[Key, Subscription] = field(default_factory=dict)
    signals: list[Key] = field(default_factory=list)
    heard: list[tuple[str, Key]] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    over: set[Key] = field(default_factory=set)
    durable: Callable[[Key], bool] = lambda _: True

    def lead(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self._doing: set[asyncio.Task[None]] = set()

    def _soon(self, after_s: float, instance_key: Key, *command: Any) -> None:
        async def do() -> None:
            await asyncio.sleep(after_s)
            try:
                await self.runtime.tell(instance_key, *command)
            except Rejected as refused:
                self.refused[refused.code] += 1

        if self.eager:
            doing = asyncio.create_task(do())
            self._doing.add(doing)
            doing.add_done_callback(self._doing.discard)

    def stop(self) -> None:
        for doing in self._doing:
            doing.cancel()

    # --- Waiting ------------------------------------------------------------------------------------------------

    def offered(self, instance_key: Key, job: Job) -> None:
        self.heard.append((f"offered {job.element_id}", instance_key))
        assert self.durable(instance_key)
        self.jobs[job.key] = job
        self._soon(self.job_s, instance_key, JobCompleted, *completed(job.key))

    def withdrawn(self, job_key: Key) -> None:
        job = self.jobs.pop(job_key)
        self.heard.append((f"withdrawn {job.element_id}", job_key))

    def subscribed(self, instance_key: Key, subscription: Subscription) -> None:
        self.heard.append((f"subscribed {subscription.element_id}", instance_key))
        self.subscriptions[subscription.key] = subscription
        self._soon(self.message_s, instance_key, EventReceived, subscription.key, EVENT_KEY, {"amount": 3})

    def unsubscribed(self, subscription_key: Key) -> None:
        subscription = self.subscriptions.pop(subscription_key)
        self.heard.append((f"unsubscribed {subscription.element_id}", subscription_key))

    def threw(self, instance_key: Key, thrown: Signal) -> None:
        self.heard.append((f"threw {thrown.name}", instance_key))
        self.signals.append(thrown.key)

    def ended(self, instance_key: Key) -> None:
        self.heard.append(("ended", instance_key))
        self.over.add(instance_key)


def completed(job_key: Key, **variables: Any) -> tuple[Key, dict[str, Any], JobReport]:
    at_us = now_us()
    return job_key, variables, JobReport(at_us, at_us, at_us)


@dataclass
class Office:
    """One engine with its outside."""

    runtime: Runtime
    outside: Outside
    journal: FaultyJournal
    script: Script
    definition: DeployedDefinition

    def start(self, **variables: Any) -> Run:
        given = {"id": "o1", **variables}
        request_id = str(uuid.UUID(int=now_us()))
        return self.runtime.start(self.definition, given, tags=Tags(deadline_ms=60_000), request_id=request_id)

    async def code_of_telling(self, instance_key: Key, *command: Any) -> str:
        try:
            await self.runtime.tell(instance_key, *command)
        except Rejected as refused:
            return refused.code
        return "ok"


@asynccontextmanager
async def office(
    disk: Disk | None = None,
    *,
    outside: Outside | None = None,
    diagram: Diagram | None = None,
    journal: FaultyJournal | None = None,
    epoch: int = 1,
    price_s: float = 0.5,
    stop_s: float = 0.0,
    **settings: Any,
) -> AsyncIterator[Office]:
    """An engine whose operational instances follow `diagram`, by default an order."""
    disk = disk or Disk()
    journal = journal or FaultyJournal(disk)
    outside = outside or Outside()
    definition = deployed(diagram or order(), disk)
    script = Script()
    tasks = registry(price_s, stop_s)
    async with world(script, journal=journal, registry=tasks, epoch=epoch, waiting=outside, **settings) as engine:
        outside.lead(engine.runtime)
        outside.durable = lambda key: key in disk.instances()
        try:
            yield Office(engine.runtime, outside, journal, script, definition)
        finally:
            outside.stop()


def seconds() -> float:
    return (now_us() - EPOCH_US) / 1_000_000


def timers_fired(disk: Disk, key: Key) -> list[Key]:
    commands = [logged.command for logged in disk.instances()[key].commands]
    return [command.timer_key for command in commands if isinstance(command, TimerFired)]


__all__ = ["Code", "Office", "Outside", "completed", "deployed", "office", "order", "seconds", "timers_fired"]
