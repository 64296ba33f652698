"""Owns a store of events in memory, and instances that wait for them: what both hold survives a crash.
Never mocks correlation; the store keeps the words of engine.event_store, the instances those of the runtime.
Called by the simulation of messages, signals and start events.

Every step of the world is a point where the engine may die: it then hears of nothing any more, and all that was not
yet durable is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Generic, NamedTuple, TypeVar

from engine.correlation import Correlation
from engine.errors import Code, Rejected
from engine.keys import KeySource
from engine.records import Command, DefinitionRef, EventReceived, Job, Key, Signal, Start, Subscription, Tags, Variables
from engine.start_events import StartEvents
from engine.starts import Beginning, Starts
from engine.store.event_log import SignalStart
from engine.store.hearing import EVERYTHING, Heard
from engine.store.messages import LOOKED_AT, Claim, Message
from engine.store.signals import StoredSignal
from tests.loop import now_us

T = TypeVar("T")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
CATCH_UP_S = 15.0
MESSAGES, SIGNALS = 0, -1  # what a notification tells that names no message


def now() -> datetime:
    return _EPOCH + timedelta(microseconds=now_us())


class Held(NamedTuple):
    """A row of message_correlation."""

    instance_key: Key
    subscription_key: Key | None
    claimed_at: datetime
    delivered: bool
    lock_key: str | None


class Disk:
    """What is durable. `step` is the number of the next point at which an engine may die."""

    def __init__(self, seed: int = 0, die_at: int | None = None):
        self.random = Random(seed)
        self.step = 0
        self.die_at = die_at
        self.died = asyncio.Event()
        self.messages: dict[Key, Message] = {}
        self.claims: dict[tuple[Key, str], Held] = {}
        self.signals: dict[Key, StoredSignal] = {}
        self.signal_starts: dict[tuple[Key, str], tuple[Key, datetime]] = {}
        self.logs: dict[Key, list[Command]] = {}
        self.ended: set[Key] = set()
        self.listeners: list[asyncio.Queue[Key]] = []

    async def point(self) -> None:
        """Time passes; perhaps the engine dies here."""
        self.step += 1
        if self.step == self.die_at:
            self.die_at = None
            self.died.set()
            await asyncio.get_running_loop().create_future()
        await asyncio.sleep(self.random.choice([0.0, 0.001, 0.01]))

    def notify(self, key: Key) -> None:
        for listener in self.listeners:
            listener.put_nowait(key)


class MemoryFeed(Generic[T]):
    def __init__(self, rows: dict[Key, T]):
        self._rows = rows
        self._seen: set[Key] = set()

    async def begin(self) -> None:
        self._seen = set(self._rows)

    async def unread(self, limit: int = 1_000) -> Sequence[T]:
        keys = sorted(self._rows.keys() - self._seen)[:limit]
        self._seen |= set(keys)
        return [self._rows[key] for key in keys]


class MemoryMessages:
    def __init__(self, disk: Disk):
        self._disk = disk

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
    ) -> Message:
        await self._disk.point()
        at = now()
        for other in self._disk.messages.values():
            same = (other.tenant, other.name, other.correlation_key) == (tenant, name, correlation_key)
            if same and message_id and other.message_id == message_id and other.expires_at > at:
                raise Rejected(Code.ALREADY_EXISTS, "buffered already")
        until = at + timedelta(milliseconds=ttl_ms)
        message = Message(key, name, correlation_key, message_id, tenant, variables, at, until)
        self._disk.messages[key] = message
        self._disk.notify(MESSAGES)
        await self._disk.point()
        return message

    async def get(self, key: Key) -> Message | None:
        return self._disk.messages.get(key)

    async def buffered(
        self,
        name: str,
        correlation_key: str | None,
        process_id: str,
        *,
        tenant: str | None = "default",
        opened_key: Key | None = None,
        limit: int = 100,
    ) -> list[Message]:
        await self._disk.point()
        at = now()
        found = [
            message
            for key, message in sorted(self._disk.messages.items())
            if message.name == name
            and correlation_key in (None, message.correlation_key)
            and tenant in (None, message.tenant)
            and (message.expires_at > at or (opened_key is not None and key > opened_key))
            and (key, process_id) not in self._disk.claims
        ]
        await self._disk.point()
        return found[:limit]

    async def look(
        self, tenant: str, name: str, correlation_key: str, process_id: str, opened_key: Key
    ) -> list[Message]:
        return await self.buffered(
            name, correlation_key, process_id, tenant=tenant, opened_key=opened_key, limit=LOOKED_AT
        )

    async def claim(self, message_key: Key, process_id: str, instance_key: Key, subscription_key: Key | None) -> bool:
        await self._disk.point()
        message = self._disk.messages.get(message_key)
        place = message_key, process_id
        held = self._disk.claims.get(place)
        if held is not None:
            same = (held.instance_key, held.subscription_key) == (instance_key, subscription_key)
            return same and not held.delivered
        if message is None:
            return False
        lock = message.correlation_key or None if subscription_key is None else None
        locks = {(owner, each.lock_key) for (_, owner), each in self._disk.claims.items()}
        if lock is not None and (process_id, lock) in locks:
            return False
        self._disk.claims[place] = Held(instance_key, subscription_key, now(), False, lock)
        await self._disk.point()
        return True

    def _claims(self, which: Callable[[Held], bool]) -> list[Claim]:
        return [
            Claim(process_id, held.instance_key, held.subscription_key, held.claimed_at, self._disk.messages[key])
            for (key, process_id), held in sorted(self._disk.claims.items())
            if not held.delivered and which(held)
        ]

    async def claims_of(self, instance_key: Key, limit: int = 1_000) -> list[Claim]:
        await self._disk.point()
        return self._claims(lambda held: held.instance_key == instance_key)

    async def orphans(self, older_than_s: float = 300.0, limit: int = 1_000) -> list[Claim]:
        before = now() - timedelta(seconds=older_than_s)
        return self._claims(
            lambda held: (
                held.subscription_key is None and held.claimed_at < before and held.instance_key not in self._disk.logs
            )
        )

    async def delivered(self, claims: Iterable[tuple[Key, str]]) -> None:
        await self._disk.point()
        for place in claims:
            self._disk.claims[place] = self._disk.claims[place]._replace(delivered=True)

    async def release(self, message_key: Key, process_id: str, instance_key: Key) -> None:
        await self._disk.point()
        held = self._disk.claims.get((message_key, process_id))
        if held is not None and held.instance_key == instance_key and not held.delivered:
            del self._disk.claims[message_key, process_id]
            self._disk.notify(message_key)
            await self._disk.point()

    async def expire(self, *, grace_s: float = 60.0, limit: int = 1_000) -> int:
        return 0

    def feed(self) -> MemoryFeed[Message]:
        return MemoryFeed(self._disk.messages)


class MemorySignals:
    def __init__(self, disk: Disk):
        self._disk = disk

    async def broadcast(self, key: Key, name: str, variables: Variables, thrown_by: Key | None = None) -> None:
        await self._disk.point()
        if key not in self._disk.signals:
            self._disk.signals[key] = StoredSignal(key, name, variables, thrown_by, now())
            self._disk.notify(SIGNALS)
        await self._disk.point()

    async def since(self, names: Collection[str], since: datetime, limit: int = 1_000) -> list[StoredSignal]:
        await self._disk.point()
        signals = sorted(self._disk.signals.values())
        return [signal for signal in signals if signal.name in names and signal.broadcast_at > since]

    async def claim_start(self, signal_key: Key, process_id: str, instance_key: Key) -> bool:
        await self._disk.point()
        held = self._disk.signal_starts.setdefault((signal_key, process_id), (instance_key, now()))
        await self._disk.point()
        return held[0] == instance_key

    async def forget(self, *, kept_s: float = 86_400.0, limit: int = 1_000) -> int:
        return 0

    def feed(self) -> MemoryFeed[StoredSignal]:
        return MemoryFeed(self._disk.signals)


class MemoryEventLog:
    def __init__(self, disk: Disk):
        self._disk = disk

    async def received(self, instance_key: Key) -> Collection[tuple[Key, Key]]:
        await self._disk.point()
        return set(received(self._disk, instance_key))

    async def began(self, instance_key: Key) -> bool:
        return instance_key in self._disk.logs

    async def got(self, message_key: Key) -> Key | None:
        held = [each for (key, _), each in self._disk.claims.items() if key == message_key and each.instance_key]
        return min(held, key=lambda each: each.claimed_at).instance_key if held else None

    async def withdraw(self, message_key: Key) -> bool:
        await self._disk.point()
        if any(key == message_key for key, _ in self._disk.claims):
            return False
        del self._disk.messages[message_key]
        return True

    async def stranded(self, older_than_s: float, limit: int = 1_000) -> list[Claim]:
        before = now() - timedelta(seconds=older_than_s)
        return [
            Claim(process_id, held.instance_key, held.subscription_key, held.claimed_at, self._disk.messages[key])
            for (key, process_id), held in sorted(self._disk.claims.items())
            if not held.delivered
            and held.subscription_key is not None
            and held.claimed_at < before
            and held.instance_key in self._disk.ended
        ]

    async def unstarted(self, older_than_s: float, limit: int = 1_000) -> list[SignalStart]:
        before = now() - timedelta(seconds=older_than_s)
        return [
            SignalStart(self._disk.signals[key], process_id, instance_key)
            for (key, process_id), (instance_key, claimed_at) in self._disk.signal_starts.items()
            if claimed_at < before and instance_key not in self._disk.logs
        ]

    async def others(self) -> bool:
        return len(self._disk.listeners) > 1


class MemoryHearing:
    """Notifications; now and then one is lost, and the slow look has to find what it would have told."""

    def __init__(self, disk: Disk):
        self._disk = disk

    @asynccontextmanager
    async def listen(self) -> AsyncIterator[AsyncIterator[Heard]]:
        queue: asyncio.Queue[Key] = asyncio.Queue()
        self._disk.listeners.append(queue)
        try:
            yield self._heard(queue)
        finally:
            self._disk.listeners.remove(queue)

    async def _heard(self, queue: asyncio.Queue[Key]) -> AsyncIterator[Heard]:
        yield EVERYTHING
        while True:
            try:
                async with asyncio.timeout(CATCH_UP_S):
                    key = await queue.get()
            except TimeoutError:
                yield EVERYTHING
            else:
                await asyncio.sleep(0)
                yield Heard(key >= 0, key == SIGNALS, frozenset((key,) if key > 0 else ()))


def received(disk: Disk, instance_key: Key) -> list[tuple[Key, Key]]:
    commands = disk.logs.get(instance_key, [])
    return [(each.subscription_key, each.event_key) for each in commands if isinstance(each, EventReceived)]


class Kind(NamedTuple):
    """What a process does: waits `times` times for a message or a signal, then ends."""

    process_id: str
    waits_for: str = "paid"
    kind: Any = "message"
    times: int = 1
    interrupting: bool = True  # else one subscription takes them all


class Model:
    """One instance: a fold of its log, with the keys that it minted."""

    def __init__(self, key: Key, kind: Kind, correlation_key: str):
        self.key = key
        self.kind = kind
        self.correlation_key = correlation_key
        self.taken = 0
        self.subscription: Subscription | None = None
        self.next_key = key + 1

    def begin(self) -> None:
        kind = self.kind
        correlation_key = self.correlation_key if kind.kind == "message" else None
        self.subscription = Subscription(
            self.next_key,
            self.key,
            "wait",
            kind.kind,
            kind.waits_for,
            correlation_key,
            kind.interrupting,
            kind.process_id,
        )

    def take(self, command: EventReceived) -> None:
        """Raises Rejected when it does not wait for that."""
        if self.subscription is None or command.subscription_key != self.subscription.key:
            raise Rejected(Code.STALE, "not open")
        self.taken += 1
        self.next_key = command.key
        if self.taken == self.kind.times:
            self.subscription = None
        elif self.kind.interrupting:
            self.begin()


class Engine:
    """One life of an engine over a disk: correlation, and the instances that it owns."""

    def __init__(self, disk: Disk, kinds: dict[str, Kind], writer_id: int = 1):
        self.disk = disk
        self.kinds = kinds
        self.outage = 0.0  # how often the journal does not answer in time
        self.keys = KeySource(writer_id, lambda: now_us() // 1_000)
        self.models: dict[Key, Model] = {}
        self.events = StartEvents()
        event_log = MemoryEventLog(disk)
        messages, signals = MemoryMessages(disk), MemorySignals(disk)
        self.starts = Starts(self.events, Beginning(self, event_log, self.keys), messages, signals, event_log)
        self.correlation = Correlation(
            instances=self,
            messages=messages,
            signals=signals,
            event_log=event_log,
            hearing=MemoryHearing(disk),
            keys=self.keys,
            starts=self.starts,
            now_us=now_us,
        )
        self.dead = False
        self._storing: set[asyncio.Future[None]] = set()

    async def __aenter__(self) -> Engine:
        await self.correlation.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        self.dead = True
        for storing in self._storing:
            storing.cancel()
        await self.correlation.__aexit__(None, None, None)

    def resume(self) -> None:
        """Take over every instance that is open on the disk."""
        for key, log in self.disk.logs.items():
            start = log[0]
            assert isinstance(start, Start)
            model = Model(key, self.kinds[start.definition.process_id], start.variables.get("key", ""))
            model.begin()
            for command in log[1:]:
                assert isinstance(command, EventReceived)
                model.take(command)
            if model.subscription is not None:
                self.keys.skip_to(model.next_key)
                self.models[key] = model
                self.correlation.subscribed(key, model.subscription)

    async def open(self, process_id: str, correlation_key: str = "", key: Key | None = None) -> Key:
        """Start an instance; durable on return."""
        key = key or self.keys.mint_run()
        ref = DefinitionRef(7, process_id, 1, "")
        start = Start(key, ref, "test", "", Tags(), {"key": correlation_key}, False)
        model = self.models[key] = Model(key, self.kinds[process_id], correlation_key)
        model.begin()
        await self.disk.point()
        self.disk.logs.setdefault(key, []).append(start)
        await self.disk.point()
        assert model.subscription is not None
        self.correlation.subscribed(key, model.subscription)
        return key

    def throw(self, instance_key: Key, name: str) -> Key:
        signal = Signal(self.keys.mint(), "throw", name, {})
        self.correlation.threw(instance_key, signal)
        return signal.key

    # --- engine.instances.Instances -------------------------------------------------------------------------------

    async def tell(self, instance_key: Key, kind: type[Command], *args: Any) -> None:
        await self.disk.point()
        model = self.models.get(instance_key)
        if model is None:
            raise Rejected(Code.NOT_FOUND, "not open here")
        if self.disk.random.random() < self.outage:
            raise Rejected(Code.JOURNAL_UNAVAILABLE, "refused before it was applied")
        command = EventReceived(self.keys.mint_run(), *args)
        before = model.subscription
        model.take(command)
        after = model.subscription
        storing = asyncio.ensure_future(self._store(model, command, before, after))
        self._storing.add(storing)
        storing.add_done_callback(self._storing.discard)
        if self.disk.random.random() < self.outage:
            await asyncio.sleep(5)
            raise Rejected(Code.JOURNAL_UNAVAILABLE, "not durable in time; it will be, once the store is back")
        await asyncio.shield(storing)

    async def _store(
        self, model: Model, command: EventReceived, before: Subscription | None, after: Subscription | None
    ) -> None:
        if self.disk.random.random() < self.outage:
            await asyncio.sleep(self.disk.random.choice([1.0, 6.0, 12.0]))
        instance_key = model.key
        await self.disk.point()
        self.disk.logs[instance_key].append(command)
        if after is None:
            del self.models[instance_key]
            self.disk.ended.add(instance_key)
            self._unlock(instance_key)
        if self.disk.random.random() < 0.5:
            await self.disk.point()
        assert before is not None
        asyncio.get_running_loop().call_later(
            self.disk.random.choice([0, 0.002]), self._say, instance_key, before, after
        )

    def _unlock(self, instance_key: Key) -> None:
        """As the trigger of the records does in the transaction that stores the end."""
        for place, held in self.disk.claims.items():
            if held.instance_key == instance_key and held.subscription_key is None:
                self.disk.claims[place] = held._replace(lock_key=None, delivered=True)

    def _say(self, instance_key: Key, before: Subscription, after: Subscription | None) -> None:
        if self.dead:
            return
        if after is None or after.key != before.key:
            self.correlation.unsubscribed(before.key)
        if after is not None and after.key != before.key:
            self.correlation.subscribed(instance_key, after)
        if after is None:
            self.correlation.ended(instance_key)

    async def open_jobs(self, instance_key: Key) -> Sequence[Job]:
        return ()

    def find_job(self, job_key: Key) -> Key | None:
        return None

    def start_of(self, instance_key: Key) -> Start | None:
        if instance_key not in self.models:
            return None
        start = self.disk.logs[instance_key][0]
        assert isinstance(start, Start)
        return start

    # --- engine.starts.Starter ------------------------------------------------------------------------------------

    def start(self, deployed: Any, variables: Variables, *, key: Key | None = None, **options: Any) -> _Beginning:
        assert key is not None
        if key in self.disk.logs:
            raise Rejected(Code.STALE, "open already")
        return _Beginning(self, deployed.ref.process_id, str(variables.get("key", "")), key)


class _Beginning:
    def __init__(self, engine: Engine, process_id: str, correlation_key: str, key: Key):
        self._args = engine, process_id, correlation_key, key

    async def started(self) -> None:
        engine, process_id, correlation_key, key = self._args
        await engine.open(process_id, correlation_key, key)
