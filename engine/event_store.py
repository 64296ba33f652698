"""Owns the words of the correlation: how messages, signals and start timers are kept, and what they start.
Never keeps anything.
Called by correlation, deliveries and starts; implemented by the store.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import NamedTuple, Protocol, TypeVar

import psycopg
from sqlalchemy import exc

from engine.records import Key, Variables
from engine.store.event_log import SignalStart
from engine.store.hearing import Heard
from engine.store.messages import Claim, Message
from engine.store.schedule import Scheduled
from engine.store.signals import StoredSignal

T_co = TypeVar("T_co", covariant=True)

# What the store raises while it cannot be reached; any other error of it is a fault, and repeating would not mend it.
AWAY = (exc.OperationalError, exc.InterfaceError, exc.TimeoutError, psycopg.OperationalError, OSError)


class Feed(Protocol[T_co]):
    async def begin(self) -> None: ...

    async def unread(self, limit: int = 1_000) -> Sequence[T_co]: ...


class MessageStore(Protocol):
    """engine.store.messages.Messages"""

    async def publish(
        self,
        key: Key,
        name: str,
        correlation_key: str,
        variables: Variables,
        *,
        ttl_ms: int = 0,
        message_id: str | None = None,
        tenant: str = "default",
    ) -> Message: ...

    async def get(self, key: Key) -> Message | None: ...

    async def buffered(
        self,
        name: str,
        correlation_key: str | None,
        process_id: str,
        *,
        tenant: str | None = "default",
        opened_key: Key | None = None,
        limit: int = 100,
    ) -> list[Message]: ...

    async def look(
        self, tenant: str, name: str, correlation_key: str, process_id: str, opened_key: Key
    ) -> list[Message]:
        """The first LOOKED_AT of `buffered`, for one subscription."""

    async def claim(
        self, message_key: Key, process_id: str, instance_key: Key, subscription_key: Key | None
    ) -> bool: ...

    async def claims_of(self, instance_key: Key, limit: int = 1_000) -> list[Claim]: ...

    async def orphans(self, older_than_s: float = 300.0, limit: int = 1_000) -> list[Claim]: ...

    async def delivered(self, claims: Iterable[tuple[Key, str]]) -> None: ...

    async def release(self, message_key: Key, process_id: str, instance_key: Key) -> None: ...

    async def expire(self, *, grace_s: float = 60.0, limit: int = 1_000) -> int: ...

    def feed(self) -> Feed[Message]: ...


class SignalStore(Protocol):
    """engine.store.signals.Signals"""

    async def broadcast(self, key: Key, name: str, variables: Variables, thrown_by: Key | None = None) -> None: ...

    async def since(self, names: Collection[str], since: datetime, limit: int = 1_000) -> list[StoredSignal]: ...

    async def claim_start(self, signal_key: Key, process_id: str, instance_key: Key) -> bool: ...

    async def forget(self, *, kept_s: float = 86_400.0, limit: int = 1_000) -> int: ...

    def feed(self) -> Feed[StoredSignal]: ...


class ScheduleStore(Protocol):
    """engine.store.schedule.StartSchedule"""

    async def arm(
        self, definition_key: Key, element_id: str, due_at_us: int, repetitions_left: int | None = 0
    ) -> None: ...

    async def disarm(self, definition_keys: Collection[Key]) -> None: ...

    async def armed(self, limit: int = 10_000) -> list[Scheduled]: ...

    async def due(self, at_us: int, *, stale_s: float = 60.0, limit: int = 100) -> list[Scheduled]: ...

    async def claim(self, scheduled: Scheduled, instance_key: Key) -> bool: ...

    async def advance(
        self, scheduled: Scheduled, instance_key: Key, next_due_at_us: int | None, repetitions_left: int | None = None
    ) -> bool: ...


class EventLog(Protocol):
    """What the durable records say of events. engine.store.event_log.EventLog"""

    async def received(self, instance_key: Key) -> Collection[tuple[Key, Key]]:
        """Every event that the instance has taken: subscription and message or signal."""

    async def began(self, instance_key: Key) -> bool:
        """Whether the instance's Start is durable."""

    async def got(self, message_key: Key) -> Key | None:
        """The first instance that has claimed a message."""

    async def withdraw(self, message_key: Key) -> bool:
        """Delete a message that nobody has claimed; false when somebody has."""

    async def stranded(self, older_than_s: float, limit: int = 1_000) -> list[Claim]:
        """Unconfirmed claims for subscriptions of instances that have ended since."""

    async def unstarted(self, older_than_s: float, limit: int = 1_000) -> list[SignalStart]:
        """Signals that were to start an instance which never began."""

    async def others(self) -> bool:
        """Whether other engines may be alive."""


class Hearing(Protocol):
    """Notifications of the store. engine.store.hearing.Hearing"""

    def listen(self) -> AbstractAsyncContextManager[AsyncIterator[Heard]]:
        """Yields what there is to look at: at first, and when nothing came for a while, everything."""


class Lock(NamedTuple):
    """While an instance that a message has started is open, no other of its process starts by that correlation key."""

    process_id: str
    tenant: str
    correlation_key: str


class EventStarts(Protocol):
    """Start events of messages and signals. engine.starts.Starts"""

    async def message(self, message: Message) -> Key | None:
        """Start what the message starts; the first instance that came of it."""

    async def signal(self, signal: StoredSignal) -> None: ...

    def lock_of(self, instance_key: Key) -> Lock | None:
        """The correlation key that no other instance could start with until this one ended."""

    async def unlocked(self, lock: Lock) -> None:
        """Start what a message waited for behind that lock."""

    async def tend(self) -> None: ...
