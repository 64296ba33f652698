"""Owns who gets a message or a signal: what is published meets what waits, here and in every other engine.
Never runs an instance; what it delivers is a command in the instance's own log.
Called by the runtime (as Waiting: subscribed, unsubscribed, threw, ended) and by the api, for whoever publishes.

A message reaches at most one instance of each process, the one that waited longest; of an engine that is asked first.
It is durable before it is delivered: publish, claim, deliver, confirm. Who dies in between leaves a claim, and the
instance's next owner delivers what the log lacks. A signal reaches every subscription that was open when it was
broadcast, each once. Both are heard of through the store, also by the engine that stored them, so there is one way.

A message waits in the buffer for its time to live. A subscription that opens takes from the buffer first, the oldest
message first; without time to live a message is only for who waits already.
"""

from __future__ import annotations

import asyncio
import logging
from asyncio import FIRST_COMPLETED
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from types import TracebackType
from typing import Any

from engine.deliveries import RETRY_S, Deliveries, Outcome, persist
from engine.errors import Code, Rejected, refuse_if
from engine.event_store import AWAY, EventLog, EventStarts, Feed, Hearing, MessageStore, SignalStore
from engine.instances import Instances
from engine.keys import KeySource, key_time_ms, key_writer
from engine.records import Key, Signal, Subscription, Variables
from engine.resumption import Resumption
from engine.store.hearing import Heard
from engine.store.messages import LOOKED_AT, MAX_TIME_TO_LIVE_MS, Message
from engine.store.signals import KEPT_S, StoredSignal
from engine.subscriptions import Address, Catch, Subscriptions, address_of

log = logging.getLogger("conch.correlation")

TEND_S = 30.0  # between two looks for what others left behind
LEFT_BEHIND_S = 60.0
EXPIRED_KEPT_S = 600.0  # an expired message stays for subscriptions that waited for it while nobody looked after them
HERE_S = 10.0  # how long a message that is correlated at once may take to become durable
ELSEWHERE_S = 0.5  # how long another engine has to take a message that is correlated at once
PAGE = 500
REBROADCAST_MS = (
    int(KEPT_S * 1_000) // 2
)  # a signal that was thrown longer ago has been broadcast, and may be forgotten
MOST_CHARACTERS = 256  # of a name, a correlation key or an id, as Camunda 8 over a relational database
MOST_BYTES = 768  # three of them fit into an entry of an index
MOST_TEXT = f"{MOST_CHARACTERS} characters, or {MOST_BYTES} bytes in UTF-8"


class Correlation:
    """One engine's part in correlating events. An async context manager; open it before the runtime."""

    def __init__(
        self,
        *,
        instances: Instances,
        messages: MessageStore,
        signals: SignalStore,
        event_log: EventLog,
        hearing: Hearing,
        keys: KeySource,
        starts: EventStarts,
        now_us: Callable[[], int],
    ):
        self._instances = instances
        self._messages = messages
        self._signals = signals
        self._log = event_log
        self._hearing = hearing
        self._keys = keys
        self._starts = starts
        self._now_us = now_us
        self._open = Subscriptions()
        self._deliveries = Deliveries(instances, messages, event_log, self._open, self._run)
        self._writer = key_writer(keys.peek())
        self._opened_at_ms = now_us() // 1000
        self._resumption = Resumption(messages, signals, event_log, self._open, self._deliveries, self._run, self._look)
        self._wanted: dict[Key, asyncio.Future[Key]] = {}  # messages whose sender waits for who got it
        self._tasks: set[asyncio.Task[None]] = set()  # one for each subscription or signal at most

    async def __aenter__(self) -> Correlation:
        self._message_feed: Feed[Message] = self._messages.feed()
        self._signal_feed: Feed[StoredSignal] = self._signals.feed()
        await self._message_feed.begin()
        await self._signal_feed.begin()
        self._group = await asyncio.TaskGroup().__aenter__()
        self._loops = [
            self._group.create_task(self._follow(), name="events"),
            self._group.create_task(self._tend(), name="events tended"),
        ]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop at once; what was claimed and not confirmed is followed up by the next owner of its instance."""
        for task in (*self._loops, *self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if isinstance(error, asyncio.CancelledError):
            await self._group.__aexit__(kind, error, trace)
        else:  # what went wrong inside the block leaves it as it is, not in a group
            await self._group.__aexit__(None, None, None)

    # --- for who publishes ----------------------------------------------------------------------------------------

    async def publish(
        self,
        name: str,
        correlation_key: str,
        *,
        ttl_ms: int,
        variables: Variables,
        message_id: str = "",
        tenant: str = "default",
    ) -> Key:
        """Store a message and return its key; it is correlated after that, or buffered for `ttl_ms` milliseconds.

        Raises Rejected: INVALID_ARGUMENT, ALREADY_EXISTS while one with that id is buffered, JOURNAL_UNAVAILABLE.
        """
        refuse_if(
            *_rules(name=name, correlation_key=correlation_key, message_id=message_id),
            (not 0 <= ttl_ms <= MAX_TIME_TO_LIVE_MS, f"the time to live is between 0 and {MAX_TIME_TO_LIVE_MS} ms"),
        )
        key = self._keys.mint()
        options: dict[str, Any] = {"ttl_ms": ttl_ms, "message_id": message_id or None, "tenant": tenant}
        await _answered(self._messages.publish(key, name, correlation_key, variables, **options))
        return key

    async def correlate(
        self, name: str, correlation_key: str, variables: Variables, tenant: str = "default"
    ) -> tuple[Key, Key]:
        """Give a message to who waits now, or start an instance; returns its key and that of the first who got it.

        Raises Rejected: NOT_FOUND when nobody takes it; then it is gone. INVALID_ARGUMENT, JOURNAL_UNAVAILABLE.
        """
        refuse_if(*_rules(name=name, correlation_key=correlation_key))
        key = self._keys.mint()
        wanted = self._wanted[key] = asyncio.get_running_loop().create_future()
        try:
            message = await _answered(self._messages.publish(key, name, correlation_key, variables, tenant=tenant))
            if deliveries := await self._arrived(message):
                await asyncio.wait((wanted, asyncio.gather(*deliveries)), timeout=HERE_S, return_when=FIRST_COMPLETED)
            if not wanted.done() and await _answered(self._log.others()):
                await asyncio.wait((wanted,), timeout=ELSEWHERE_S)
            if wanted.done():
                return key, wanted.result()
            if await _answered(self._log.withdraw(key)):
                raise Rejected(
                    Code.NOT_FOUND,
                    f"nothing waits for the message `{name}` with the correlation key {correlation_key!r}, and no "
                    "process starts with it",
                )
            got: Key | None = await _answered(self._log.got(key))
            if got is not None and self._instances.start_of(got) is not None:  # on its way to an instance of ours
                await asyncio.wait((wanted,), timeout=HERE_S)
                got = wanted.result() if wanted.done() else None
            if got is None:
                raise Rejected(Code.NOT_FOUND, f"the one that waited for the message `{name}` has not taken it")
            return key, got
        finally:
            del self._wanted[key]

    async def broadcast(self, name: str, variables: Variables) -> Key:
        """Store a signal for everything that waits for it now, and return its key.

        Raises Rejected: INVALID_ARGUMENT, JOURNAL_UNAVAILABLE.
        """
        refuse_if(*_rules(name=name))
        key = self._keys.mint()
        await _answered(self._signals.broadcast(key, name, variables))
        return key

    # --- Waiting: what the runtime tells --------------------------------------------------------------------------

    def subscribed(self, instance_key: Key, subscription: Subscription) -> None:
        start = self._instances.start_of(instance_key)
        catch = self._open.add(instance_key, subscription, "default" if start is None else start.tags.tenant)
        if catch is None:
            return
        if self._is_of_earlier_life(subscription.key):
            self._resumption.check(catch)
        elif subscription.kind == "message":
            self._look(catch)

    def unsubscribed(self, subscription_key: Key) -> None:
        self._open.remove(subscription_key)

    def threw(self, instance_key: Key, signal: Signal) -> None:
        """Broadcast what an instance throws: also what it threw in an earlier life, unless that was long ago."""
        if not _fits(signal.name):
            log.error("signal not broadcast: its name is too long", extra={"process_instance_key": instance_key})
        elif key_time_ms(signal.key) > self._now_us() // 1_000 - REBROADCAST_MS:
            self._run(self._rebroadcast(instance_key, signal))

    def ended(self, instance_key: Key) -> None:
        self._open.remove_all(instance_key)
        lock = self._starts.lock_of(instance_key)
        if lock is not None:
            self._run(self._starts.unlocked(lock))

    def _is_of_earlier_life(self, subscription_key: Key) -> bool:
        return key_writer(subscription_key) != self._writer or key_time_ms(subscription_key) < self._opened_at_ms

    # --- hearing of what is published -----------------------------------------------------------------------------

    async def _follow(self) -> None:
        """Read what is stored whenever a notification says so; without a connection, look at all when it is back."""
        lost = False
        while True:
            try:
                async with self._hearing.listen() as heard:
                    if lost:
                        self._look_at_all()
                    async for what in heard:
                        await self._catch_up(what)
            except AWAY as error:
                log.warning("events not heard", extra={"reason": type(error).__name__})
                lost = True
                await asyncio.sleep(RETRY_S)

    async def _catch_up(self, heard: Heard) -> None:
        """What is stored after a look is told of after it, so that one page that is not full is all."""
        read: set[Key] = set()
        more = heard.messages
        while more:
            messages = await self._message_feed.unread(PAGE)
            read.update(message.key for message in messages)
            await self._all_arrived(messages)
            more = len(messages) == PAGE
        for key in heard.freed - read:
            again = await self._messages.get(key)
            if again is not None:
                await self._arrived(again)
        more = heard.signals
        while more:
            signals = await self._signal_feed.unread(PAGE)
            for signal in signals:
                await self._signalled(signal)
            more = len(signals) == PAGE

    async def _all_arrived(self, messages: Sequence[Message]) -> None:
        """Those with one correlation key one after another, so that the oldest of them starts an instance first."""
        by_key: dict[object, list[Message]] = {}
        for message in messages:
            by_key.setdefault(message.correlation_key or message.key, []).append(message)
        await asyncio.gather(*map(self._arrived_in_turn, by_key.values()))

    async def _arrived_in_turn(self, messages: Sequence[Message]) -> None:
        for message in messages:
            await self._arrived(message)

    async def _arrived(self, message: Message) -> list[asyncio.Task[None]]:
        """Give a message to those who get it; returns the deliveries to open subscriptions, which go on."""
        deliveries = []
        for group in self._open.groups(_address_of(message)):
            catch = group.idle()
            if catch is None:
                group.again = True
            else:
                catch.busy = True
                deliveries.append(self._run(self._bring(catch, [message])))
        got = await self._starts.message(message)
        if got is not None:
            self._tell_sender(message.key, got)
        return deliveries

    async def _signalled(self, signal: StoredSignal) -> None:
        catches = self._open.waiting_for_signal(signal.name, signal.key)
        for first in range(0, len(catches), PAGE):
            await asyncio.gather(*(self._tell(catch, signal) for catch in catches[first : first + PAGE]))
        await self._starts.signal(signal)

    async def _tell(self, catch: Catch, signal: StoredSignal) -> None:
        if catch.checked is not None:
            await asyncio.wait((catch.checked,))
        if signal.key not in catch.known and catch.key in self._open:
            await self._deliveries.tell(catch.instance_key, catch.key, signal.key, signal.variables)

    # --- looking into the buffer ----------------------------------------------------------------------------------

    def _look(self, catch: Catch) -> None:
        catch.busy = catch.looking = True
        self._run(self._look_and_bring(catch))

    def _look_at_all(self) -> None:
        for group in self._open.all_groups():
            catch = group.idle()
            if catch is not None:
                self._look(catch)

    async def _look_and_bring(self, catch: Catch) -> None:
        address = address_of(catch)
        found = await persist(lambda: self._messages.look(*address, catch.subscription.process_id, catch.key))
        catch.looking = False
        group = self._open.group_of(catch)
        taker = group.hand_over(catch) if found and group is not None else catch
        if taker is not None:
            await self._bring(taker, found, more=len(found) == LOOKED_AT)

    async def _bring(self, catch: Catch, messages: list[Message], *, more: bool = False) -> None:
        """Deliver the first of the messages that is to be had, and let the next one of the group have its turn.

        `more`: the buffer may hold others after them.
        """
        outcome: Outcome | None = None
        for message in messages:
            if catch.key not in self._open:
                break
            outcome = await self._deliveries.bring(catch, message)
            if outcome is Outcome.TAKEN:
                self._tell_sender(message.key, catch.instance_key)
            if outcome is Outcome.REFUSED or (outcome is Outcome.TAKEN and catch.subscription.interrupting):
                self._open.remove(catch.key)  # closed; the runtime will say so as well
            if outcome is not None:
                break
        if outcome is Outcome.LEFT:
            return  # it stays busy: nothing more for this subscription in this process
        catch.busy = False
        group = self._open.group_of(catch)
        if group is None or not (group.again or more or outcome is not None):
            return
        following = group.idle()
        if following is not None:  # more may be in the buffer: after a message, and where one came while none was idle
            group.again = False
            self._look(following)

    def _tell_sender(self, message_key: Key, instance_key: Key) -> None:
        wanted = self._wanted.get(message_key)
        if wanted is not None and not wanted.done():
            wanted.set_result(instance_key)

    # --- in the background ------------------------------------------------------------------------------------------

    async def _rebroadcast(self, instance_key: Key, signal: Signal) -> None:
        await persist(lambda: self._signals.broadcast(signal.key, signal.name, signal.variables, instance_key))

    async def _tend(self) -> None:
        """Now and then: delete what is over, and follow up what somebody who died had begun."""
        while True:
            try:
                await self._starts.tend()
                for claim in await self._log.stranded(LEFT_BEHIND_S, PAGE):
                    await self._deliveries.settle(claim)
                while await self._messages.expire(grace_s=EXPIRED_KEPT_S, limit=PAGE) == PAGE:
                    pass
                while await self._signals.forget(limit=PAGE) == PAGE:
                    pass
            except AWAY as error:
                log.warning("events not tended", extra={"reason": type(error).__name__})
            await asyncio.sleep(TEND_S)

    def _run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._over)
        return task

    def _over(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.critical("correlation fault", extra={"error_type": type(error).__name__}, exc_info=error)


def _address_of(message: Message) -> Address:
    return Address(message.tenant, message.name, message.correlation_key)


async def _answered(asked: Awaitable[Any]) -> Any:
    try:
        return await asked
    except AWAY as error:
        raise Rejected(
            Code.JOURNAL_UNAVAILABLE, "the store of messages cannot be reached", retry_after_ms=1_000
        ) from error


def _rules(*, name: str, **others: str) -> Iterator[tuple[bool, str]]:
    yield not name, "the name is empty"
    for what, text in {"name": name, **others}.items():
        yield not _fits(text), f"the {what} is longer than {MOST_TEXT}"


def _fits(text: str) -> bool:
    return len(text) <= MOST_CHARACTERS and len(text.encode(errors="surrogatepass")) <= MOST_BYTES
