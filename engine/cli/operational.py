"""Owns the composition of what operational instances need beside the runtime: workers, events, starts, Camunda's door.
Never holds behaviour of the parts; between them and the runtime it only passes on.
Called by the composition of the gateway.

The runtime has to be told of its listeners when it is made, and the listeners of the runtime: this stands between.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from engine.api.camunda.services import Services
from engine.api.gateway import Gateway
from engine.correlation import Correlation
from engine.deployments import Deployments
from engine.keys import KeySource
from engine.linking import DeployedDefinition, Programs
from engine.records import Command, Job, Key, Signal, Start, Subscription, Tags, Variables
from engine.run import Run
from engine.runtime import Runtime
from engine.start_events import StartEvents
from engine.start_timers import StartTimers
from engine.starts import Beginning, Starts
from engine.store.database import Database
from engine.store.definitions import Definitions
from engine.store.event_log import EventLog
from engine.store.hearing import Hearing
from engine.store.messages import Messages
from engine.store.queries import Queries
from engine.store.schedule import StartSchedule
from engine.store.search import Search
from engine.store.signals import Signals
from engine.trial import trial_context
from engine.work import Work


class Operational:
    """What the runtime tells (Waiting), what reaches its instances (Instances) and what starts some (Starter)."""

    def __init__(
        self,
        database: Database,
        epoch: int,
        keys: KeySource,
        deployments: Deployments,
        programs: Programs,
        now_us: Callable[[], int],
    ) -> None:
        self._database = database
        self._keys = keys
        self._deployments = deployments
        self._programs = programs
        self._now_us = now_us
        self.runtime: Runtime
        self.work = Work(self, now_us)
        messages, signals, event_log = Messages(database), Signals(database), EventLog(database, epoch)
        events, beginning = StartEvents(), Beginning(self, event_log, keys)
        self._timers = StartTimers(events, beginning, StartSchedule(database), now_us)
        self.correlation = Correlation(
            instances=self,
            messages=messages,
            signals=signals,
            event_log=event_log,
            hearing=Hearing(database.conninfo),
            keys=keys,
            starts=Starts(events, beginning, messages, signals, event_log),
            now_us=now_us,
        )

    @asynccontextmanager
    async def listening(self, runtime: Runtime) -> AsyncIterator[None]:
        """Hear of what `runtime` tells: from before it runs until it has ended."""
        self.runtime = runtime
        async with self.correlation:
            yield

    @asynccontextmanager
    async def starting(self) -> AsyncIterator[None]:
        """Start instances by timers, and by the messages and signals that the versions which serve start with.

        A loop that dies takes the gateway with it, loudly, as those of the runtime do.
        """
        async with asyncio.TaskGroup() as group:
            loops = (
                group.create_task(self._timers.follow(self._deployments), name="start events"),
                group.create_task(self._timers.run(), name="start timers"),
            )
            try:
                yield
            finally:
                self.work.close()
                for loop in loops:
                    loop.cancel()

    def services(self, gateway: Gateway) -> Services:
        """What Camunda's door opens to."""
        return Services(
            deployments=self._deployments,
            definitions=Definitions(self._database),
            programs=self._programs,
            runtime=self.runtime,
            work=self.work,
            correlation=self.correlation,
            queries=Queries(self._database),
            search=Search(self._database),
            defaults=gateway.settings.defaults,
            max_body_bytes=gateway.settings.server.max_body_bytes,
            mint=self._keys.mint,
            now_us=self._now_us,
            trial_context=lambda: trial_context(gateway.settings.feel.limits, self._now_us()),
            not_ready_because=gateway.not_ready_because,
        )

    # --- Instances and Starter: on the way in -------------------------------------------------------------------

    def start(
        self,
        deployed: DeployedDefinition,
        variables: Variables,
        *,
        tags: Tags,
        request_id: str,
        start_event_id: str | None = None,
        key: Key | None = None,
    ) -> Run:
        return self.runtime.start(
            deployed, variables, tags=tags, request_id=request_id, start_event_id=start_event_id, key=key
        )

    async def tell(self, instance_key: Key, kind: type[Command], *args: Any) -> None:
        await self.runtime.tell(instance_key, kind, *args)

    async def open_jobs(self, instance_key: Key) -> Sequence[Job]:
        instance = await self.runtime.read(instance_key)
        return () if instance is None else instance.open_jobs

    def find_job(self, job_key: Key) -> Key | None:
        return self.runtime.find_job(job_key)

    def start_of(self, instance_key: Key) -> Start | None:
        return self.runtime.start_of(instance_key)

    # --- Waiting: on the way out --------------------------------------------------------------------------------

    def offered(self, instance_key: Key, job: Job) -> None:
        self.work.offered(instance_key, job)

    def withdrawn(self, job_key: Key) -> None:
        self.work.withdrawn(job_key)

    def subscribed(self, instance_key: Key, subscription: Subscription) -> None:
        self.correlation.subscribed(instance_key, subscription)

    def unsubscribed(self, subscription_key: Key) -> None:
        self.correlation.unsubscribed(subscription_key)

    def threw(self, instance_key: Key, signal: Signal) -> None:
        self.correlation.threw(instance_key, signal)

    def ended(self, instance_key: Key) -> None:
        self.work.ended(instance_key)
        self.correlation.ended(instance_key)
