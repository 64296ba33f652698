"""Owns the way back into memory: parked instances are loaded when they are needed, and those of the dead taken over.
Never writes anything; a loaded instance is what its durable commands say.
Called by the runtime (who is told or asked for), the alarms (who is due) and recovery (who is taken over).

One loader reads the wanted instances, several with one question, so that no instance is ever loaded twice at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from time import perf_counter

from engine.alarms import Alarms
from engine.core.instance import ProcessInstance, has_ended
from engine.errors import Code, ConchError, Rejected
from engine.inbox import Inboxes
from engine.job import place_of
from engine.live import Live, Told
from engine.ownership import Ownership, Recorded, StoreAway
from engine.parking import Parking
from engine.records import Key, Record, Signal, Start, Timer
from engine.roster import Entry, Roster
from engine.store.encoding import InstanceContext, encode_command
from engine.telemetry import Telemetry

log = logging.getLogger("conch.loading")

LOADED_AT_ONCE = 32
TELLERS = 1_000  # who may wait for one instance to be loaded
RETRY_S = 1.0  # while the store is away
SLICE_S = 0.005  # of replaying; then everybody else gets a turn


class _Wanted:
    """Who waits for an instance to be loaded."""

    __slots__ = ("adopted", "due", "readers", "tellers")

    def __init__(self) -> None:
        self.tellers: list[Told] = []
        self.readers: list[asyncio.Future[ProcessInstance | None]] = []
        self.due = False  # a timer waits for it too
        self.adopted: asyncio.Future[None] | None = None  # it is taken over, and recovery waits for that

    def refuse(self, reason: Rejected) -> None:
        """Nobody gets an answer; who takes over and what is due may still wait."""
        for told in self.tellers:
            told.refuse(_again(reason))
        for reader in self.readers:
            if not reader.done():
                reader.set_exception(_again(reason))
        self.tellers, self.readers = [], []

    def settle(self) -> None:
        if self.adopted is not None and not self.adopted.done():
            self.adopted.set_result(None)


class _Replayed:
    """An instance as its commands made it, with what a look at it would not tell."""

    __slots__ = ("at_us", "context", "instance", "signals", "start", "stopping")

    def __init__(self, recorded: Recorded) -> None:
        start = recorded.commands[0][0]
        assert isinstance(start, Start)
        self.start = start
        self.instance = ProcessInstance(recorded.program)
        self.context = InstanceContext.of_start(start)
        self.at_us = 0
        self.stopping: set[Key] = set()  # jobs that were asked to stop
        self.signals: list[Signal] = []  # every one that it has thrown


class Loader:
    """Loads operational instances that are open and not in memory."""

    def __init__(self, roster: Roster, alarms: Alarms, parking: Parking, telemetry: Telemetry) -> None:
        self._roster = roster
        self._alarms = alarms
        self._parking = parking
        self._adopted_total = telemetry.instances_adopted
        self._wanted: dict[Key, _Wanted] = {}
        self._queue: deque[Key] = deque()
        self._filled = asyncio.Event()
        self._held: list[tuple[Key, Timer]] = []  # timers of adopted instances, until all of them are here
        self._closed = False

    def open(self, inboxes: Inboxes) -> None:
        self._inboxes = inboxes

    def close(self, reason: Rejected) -> None:
        """Nobody is loaded any more."""
        self._closed = True
        for wanted in self._wanted.values():
            wanted.refuse(reason)
            wanted.settle()
        self._wanted.clear()
        self._queue.clear()

    # --- who is needed ------------------------------------------------------------------------------------------

    def tell(self, key: Key, told: Told) -> None:
        """Let an instance take a command, loading it first if it is parked. Why it does not is told to the teller."""
        live = self._roster.find(key)
        if live is not None:
            self._inboxes.feed(live, told, told.fresh)
            return
        try:
            self._want(key, urgent=True).tellers.append(told)
        except Rejected as refused:
            told.refuse(refused)

    async def read(self, key: Key) -> ProcessInstance | None:
        """An open instance to look at; null when there is none. Raises Rejected when it cannot be loaded."""
        live = self._roster.find(key)
        if live is not None:
            return live.instance
        if key not in self._roster.open:
            return None
        reader: asyncio.Future[ProcessInstance | None] = asyncio.get_running_loop().create_future()
        self._want(key, urgent=True).readers.append(reader)
        return await reader

    def wake(self, key: Key) -> None:
        """A timer of a parked instance is due: once loaded, it is armed again and fires."""
        if key in self._roster.open and not self._closed:
            self._want(key).due = True

    async def adopt(self, keys: Sequence[Key]) -> int:
        """Take over those that are not here yet; returns how many, when each is here or known to be unreadable.

        Their timers are armed when all are here, so that those that are overdue fire in the order of their instants.
        """
        loop = asyncio.get_running_loop()
        waiting = []
        for key in keys:
            if key in self._roster.ending or (key in self._roster.open and key not in self._roster.unreadable):
                continue
            self._roster.open.setdefault(key, Entry())
            if self._closed:
                continue  # it is this process's own, and passes on to the next
            wanted = self._want(key)
            wanted.adopted = wanted.adopted or loop.create_future()
            waiting.append(wanted.adopted)
        for adopted in waiting:
            await adopted
        held, self._held = self._held, []
        for key, timer in held:
            self._alarms.arm(key, timer)
        return len(waiting)

    def _want(self, key: Key, *, urgent: bool = False) -> _Wanted:
        """Raises Rejected: NOT_FOUND when it is not open here, OVERLOADED when too many wait for it already."""
        if key not in self._roster.open:
            raise Rejected(Code.NOT_FOUND, f"no process instance {key} is open in this process")
        if self._closed:
            raise Rejected(Code.DRAINING, "the gateway is shutting down", retry_after_ms=1000)
        wanted = self._wanted.get(key)
        if wanted is None:
            wanted = self._wanted[key] = _Wanted()
            if urgent:
                self._queue.appendleft(key)
            else:
                self._queue.append(key)
            self._filled.set()
        elif len(wanted.tellers) + len(wanted.readers) >= TELLERS:
            raise Rejected(Code.OVERLOADED, f"too many wait for the process instance {key}", retry_after_ms=1000)
        return wanted

    # --- loading ------------------------------------------------------------------------------------------------

    async def run(self, ownership: Ownership) -> None:
        """Load for ever."""
        store_away = False
        while True:
            while self._queue:
                keys = [self._queue.popleft() for _ in range(min(LOADED_AT_ONCE, len(self._queue)))]
                try:
                    found = await ownership.load_all(keys)
                except StoreAway as away:
                    if not store_away:
                        log.warning("parked instances not loaded", extra={"reason": str(away)})
                    store_away = True
                    self._put_off(keys)
                    await asyncio.sleep(RETRY_S)
                else:
                    store_away = False
                    await self._load(keys, found)
            self._filled.clear()
            await self._filled.wait()

    def _put_off(self, keys: Sequence[Key]) -> None:
        refusal = Rejected(
            Code.JOURNAL_UNAVAILABLE, "the store cannot be asked for the instance at the moment", retry_after_ms=1000
        )
        for key in reversed(keys):
            wanted = self._wanted.get(key)
            if wanted is None:
                continue
            wanted.refuse(refusal)
            if wanted.due or wanted.adopted is not None:
                self._queue.appendleft(key)
            else:
                del self._wanted[key]

    async def _load(self, keys: Sequence[Key], found: Mapping[Key, Recorded | ConchError]) -> None:
        for key in keys:
            try:
                recorded = found.get(key)
                if recorded is None:
                    raise Rejected(Code.NOT_FOUND, f"the process instance {key} has no durable row")
                if isinstance(recorded, ConchError):
                    raise recorded
                replayed = await _replayed(recorded)
            except Exception as error:  # loading edge: one instance that cannot be read must not keep others out
                self._unreadable(key, error)
                continue
            wanted = self._wanted.pop(key, None)
            if wanted is not None:
                self._go_on(key, replayed, wanted)

    def _unreadable(self, key: Key, error: Exception) -> None:
        """It stays open, as it is on the disk, and is tried again whenever somebody needs it."""
        reason = str(error)[:500] if isinstance(error, ConchError) else f"{type(error).__name__} {place_of(error)}"
        log.error("instance cannot be read", extra={"process_instance_key": key, "reason": reason})
        wanted = self._wanted.pop(key, None)
        if wanted is not None:
            self._roster.unreadable.add(key)
            wanted.refuse(Rejected(Code.ENGINE_FAULT, f"the process instance {key} cannot be read: {reason}"))
            wanted.settle()

    def _go_on(self, key: Key, replayed: _Replayed, wanted: _Wanted) -> None:
        if has_ended(replayed.instance):
            self._roster.forget(key)
            if wanted.adopted is not None:
                self._inboxes.tell_of_signals(key, replayed.signals)
            wanted.refuse(Rejected(Code.NOT_FOUND, f"the process instance {key} has ended"))
            wanted.settle()
            return
        taken_over = wanted.adopted is not None
        live = Live(replayed.instance, replayed.start, self._inboxes.run_of(key), context=replayed.context)
        live.at_us = replayed.at_us
        self._inboxes.revive(live, replayed.stopping, replayed.signals if taken_over else None)
        timers = [timer for timer in live.instance.open_timers if timer.key not in self._alarms]
        if taken_over:
            self._held += [(key, timer) for timer in timers]
        else:
            for timer in timers:
                self._alarms.arm(key, timer)
        for told in wanted.tellers:
            live.inbox.append((told, told.fresh))
        for reader in wanted.readers:
            if not reader.done():
                reader.set_result(live.instance)
        self._inboxes.turn(live)
        if taken_over:
            self._adopted_total.inc()
            self._parking.park_at_once(live)
        wanted.settle()


async def _replayed(recorded: Recorded) -> _Replayed:
    """Apply every command again. Raises Rejected for a command that the instance refuses."""
    replayed = _Replayed(recorded)
    began = perf_counter()
    for ordinal, (command, at_us) in enumerate(recorded.commands, 1):
        step = replayed.instance.apply(command, at_us)
        encode_command(replayed.context, Record(-ordinal, at_us, command))
        replayed.at_us = at_us
        replayed.stopping.update(step.stop)
        replayed.signals += step.broadcast
        if perf_counter() - began > SLICE_S:
            await asyncio.sleep(0)
            began = perf_counter()
    return replayed


def _again(reason: Rejected) -> Rejected:
    """Each who waits raises an exception of its own."""
    return Rejected(reason.code, reason.message, retry_after_ms=reason.retry_after_ms)
