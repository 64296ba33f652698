"""Owns the start events of processes that serve: timers, messages and signals that begin an instance by themselves.
Never starts anything but the version that serves, and never decides which that is.
Called by correlation (for messages and signals) and by the composition root, which lets it follow the deployments.

What starts an instance is claimed for the key that the instance will have; only then it is started under that key. Who
dies in between leaves a claim that another engine finds. Two that start the same instance cannot both be durable.
"""

from __future__ import annotations

import logging
import uuid
from typing import Protocol

from engine.correlation import LEFT_BEHIND_S, PAGE
from engine.deliveries import persist
from engine.errors import Rejected
from engine.event_store import EventLog, Lock, MessageStore, SignalStore
from engine.keys import KeySource
from engine.linking import DeployedDefinition
from engine.records import Key, Tags, Variables
from engine.start_events import StartEvent, StartEvents
from engine.store.messages import Message
from engine.store.signals import StoredSignal

log = logging.getLogger("conch.starts")

DISCARDED: Key = 0  # the instance and subscription of a message that could start none, and is for nobody later


class Started(Protocol):
    """engine.run.Run"""

    async def started(self) -> None: ...


class Starter(Protocol):
    """engine.runtime.Runtime"""

    def start(
        self,
        deployed: DeployedDefinition,
        variables: Variables,
        *,
        tags: Tags,
        request_id: str,
        start_event_id: str | None = None,
        key: Key | None = None,
    ) -> Started: ...


class Beginning:
    """Starts instances under keys that were claimed for them."""

    def __init__(self, starter: Starter, event_log: EventLog, keys: KeySource):
        self._starter = starter
        self._log = event_log
        self._keys = keys
        self._beginning: set[Key] = set()

    def new_key(self) -> Key:
        """The key of an instance to be, and the run behind it, which nothing else will use."""
        return self._keys.mint_run()

    async def begin(self, event: StartEvent, key: Key, variables: Variables, tenant: str = "default") -> bool:
        """Start the instance; true when it is durable. Otherwise its claim stays, and is followed up later."""
        if key in self._beginning:
            return False
        request_id = str(uuid.uuid5(uuid.NAMESPACE_OID, str(key)))
        self._beginning.add(key)
        try:
            run = self._starter.start(
                event.deployed,
                variables,
                tags=Tags(tenant=tenant),
                request_id=request_id,
                start_event_id=event.element_id,
                key=key,
            )
            await run.started()
        except Rejected as refused:
            extra = {"process_id": event.process_id, "element_id": event.element_id, "code": refused.code}
            log.error("instance not started", extra={**extra, "process_instance_key": key})
            return False
        finally:
            self._beginning.discard(key)
        return True

    async def began(self, key: Key) -> bool:
        return await persist(lambda: self._log.began(key))


class Starts:
    """Start events of messages and signals, as correlation asks for them.

    What is heard when it is published starts what serves then. `tend` finds what nobody heard, as far as it was
    published while the version that serves now did.
    """

    def __init__(
        self,
        events: StartEvents,
        beginning: Beginning,
        messages: MessageStore,
        signals: SignalStore,
        event_log: EventLog,
    ):
        self._events = events
        self._beginning = beginning
        self._messages = messages
        self._signals = signals
        self._log = event_log
        self._locks: dict[Key, Lock] = {}  # instances that were started here by a correlation key, until they end

    async def message(self, message: Message) -> Key | None:
        """Start an instance of every process that the message starts; returns the first that became durable.

        While an instance that was started by the same correlation key is open, its process starts no other; the
        message waits for the end of that one if it has time to live.
        """
        first: Key | None = None
        for event in self._events.of_message(message.name):
            key = await self._start_by(event, message)
            first = first or key
        return first

    async def _start_by(self, event: StartEvent, message: Message) -> Key | None:
        key = self._beginning.new_key()
        if not await persist(lambda: self._messages.claim(message.key, event.process_id, key, None)):
            if message.expires_at <= message.published_at:
                await self._discard(message, event.process_id)
            return None
        if not await self._begin(event, key, message):
            return None
        return key

    async def _begin(self, event: StartEvent, key: Key, message: Message) -> bool:
        if message.correlation_key:
            self._locks[key] = Lock(event.process_id, message.tenant, message.correlation_key)
        if not await self._beginning.begin(event, key, message.variables, message.tenant):
            self._locks.pop(key, None)
            return False
        await persist(lambda: self._messages.delivered([(message.key, event.process_id)]))
        return True

    async def _discard(self, message: Message, process_id: str) -> None:
        """It found the way barred and has no time to wait: nobody may take it up after a restart."""
        if await persist(lambda: self._messages.claim(message.key, process_id, DISCARDED, DISCARDED)):
            await persist(lambda: self._messages.delivered([(message.key, process_id)]))

    async def signal(self, signal: StoredSignal) -> None:
        """Start an instance of every process that the signal starts."""
        for event in self._events.of_signal(signal.name):
            key = self._beginning.new_key()
            if await persist(lambda: self._signals.claim_start(signal.key, event.process_id, key)):  # noqa: B023 - awaited in the same turn
                await self._beginning.begin(event, key, signal.variables)

    def lock_of(self, instance_key: Key) -> Lock | None:
        return self._locks.pop(instance_key, None)

    async def unlocked(self, lock: Lock) -> None:
        """Start the next instance that a message waits to start with this correlation key."""
        for event in self._events.of_process(lock.process_id, "message"):
            if await self._start_buffered(event, lock.correlation_key, lock.tenant):
                return

    async def _start_buffered(self, event: StartEvent, correlation_key: str | None, tenant: str | None) -> bool:
        """Whether any of the messages that wait for this start event has started an instance."""
        found = await persist(
            lambda: self._messages.buffered(
                event.name,
                correlation_key,
                event.process_id,
                tenant=tenant,
                opened_key=event.since_key if correlation_key is None else None,
                limit=PAGE,
            )
        )
        began = False
        for message in found:
            if correlation_key is None and message.key < event.since_key:
                continue
            began = await self._start_by(event, message) is not None or began
            if began and correlation_key is not None:
                break
        return began

    async def tend(self) -> None:
        """Start what waits although nobody was told, and what was claimed by an engine that died over it.

        Raises sqlalchemy.exc.OperationalError while Postgres is away.
        """
        for claim in await self._messages.orphans(LEFT_BEHIND_S, PAGE):
            event = self._events.starting(claim.process_id, "message", claim.message.name)
            if event is None:
                await self._messages.release(claim.message.key, claim.process_id, claim.process_instance_key)
            else:
                await self._begin(event, claim.process_instance_key, claim.message)
        for start in await self._log.unstarted(LEFT_BEHIND_S, PAGE):
            event = self._events.starting(start.process_id, "signal", start.signal.name)
            if event is not None:
                await self._beginning.begin(event, start.process_instance_key, start.signal.variables)
        for event in self._events.all("message"):
            await self._start_buffered(event, None, None)
