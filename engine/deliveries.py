"""Owns bringing one event to one subscription: taken once, or refused, or left to whoever owns the instance next.
Never chooses who gets an event.
Called by correlation.

The instance's own log is the truth. A command whose answer was lost may be in it or on its way there, so what is in
doubt is looked up there, and told again only when it is missing twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from enum import Enum
from typing import Any, TypeVar

from engine.errors import Code, Rejected
from engine.event_store import AWAY, EventLog, MessageStore
from engine.instances import Instances
from engine.records import EventReceived, Key, Variables
from engine.store.messages import Claim, Message
from engine.subscriptions import Catch, Subscriptions

log = logging.getLogger("conch.correlation")

RETRY_S = 1.0  # while the store is away
DOUBT_S = 10.0  # between two looks at the log for a command whose answer was lost
AT_ONCE = 3  # questions to the store; it has few connections, and others ask it too

T = TypeVar("T")


class Outcome(Enum):
    TAKEN = "taken"  # durable in the instance's log
    REFUSED = "refused"  # the subscription is closed, and never took it
    LEFT = "left"  # this process cannot tell; the instance's next owner asks the log


class Deliveries:
    """Tells instances of events, with the claims that go with messages."""

    def __init__(
        self,
        instances: Instances,
        messages: MessageStore,
        event_log: EventLog,
        open_: Subscriptions,
        run: Callable[[Coroutine[Any, Any, None]], object],
    ):
        self._instances = instances
        self._messages = messages
        self._log = event_log
        self._open = open_
        self._run = run
        self._room = asyncio.Semaphore(AT_ONCE)

    async def bring(self, catch: Catch, message: Message) -> Outcome | None:
        """Claim a message for a subscription and deliver it; null when another one has it."""
        process_id = catch.subscription.process_id
        if not await persist(lambda: self._messages.claim(message.key, process_id, catch.instance_key, catch.key)):
            return None
        return await self._deliver(catch.instance_key, catch.key, process_id, message)

    async def ask(self, question: Callable[[], Awaitable[T]]) -> T:
        """Ask the store until it answers, with few others at the same time."""
        async with self._room:
            return await persist(question)

    async def settle(self, claim: Claim) -> Outcome:
        """Follow up a claim of an earlier life, whoever made it: tell what the log lacks, or give the message back."""
        assert claim.subscription_key is not None
        pair = claim.subscription_key, claim.message.key
        if pair in await self.ask(lambda: self._log.received(claim.process_instance_key)):
            await self._confirm(claim.message.key, claim.process_id)
            return Outcome.TAKEN
        return await self._deliver(claim.process_instance_key, claim.subscription_key, claim.process_id, claim.message)

    async def tell(self, instance_key: Key, subscription_key: Key, event_key: Key, variables: Variables) -> Outcome:
        """Tell one instance of an event, and stay until it is known what became of it."""
        doubtful = False
        while True:
            try:
                await self._instances.tell(instance_key, EventReceived, subscription_key, event_key, variables)
            except Rejected as refused:
                if refused.code in (Code.STALE, Code.NOT_FOUND) and not doubtful:
                    return Outcome.REFUSED
                if refused.code not in (Code.STALE, Code.NOT_FOUND, Code.JOURNAL_UNAVAILABLE):
                    extra = {"process_instance_key": instance_key, "code": refused.code}
                    log.warning("event left to the next owner of its instance", extra=extra)
                    return Outcome.LEFT
                doubtful = True
            else:
                return Outcome.TAKEN
            if await self._is_in_log(instance_key, subscription_key, event_key):
                return Outcome.TAKEN
            if subscription_key not in self._open:  # durably closed, by something else
                return Outcome.REFUSED

    async def _is_in_log(self, instance_key: Key, subscription_key: Key, event_key: Key) -> bool:
        """Look twice: what was on its way when the store came back is there at the second look."""
        for _ in range(2):
            await asyncio.sleep(DOUBT_S)
            if (subscription_key, event_key) in await self.ask(lambda: self._log.received(instance_key)):
                return True
        return False

    async def _deliver(self, instance_key: Key, subscription_key: Key, process_id: str, message: Message) -> Outcome:
        outcome = await self.tell(instance_key, subscription_key, message.key, message.variables)
        if outcome is Outcome.TAKEN:
            self._run(self._confirm(message.key, process_id))
        elif outcome is Outcome.REFUSED:
            await self.ask(lambda: self._messages.release(message.key, process_id, instance_key))
        return outcome

    async def _confirm(self, message_key: Key, process_id: str) -> None:
        """Nobody waits for it: where it is missing, the log says what became of the claim."""
        await persist(lambda: self._messages.delivered([(message_key, process_id)]))


async def persist(ask: Callable[[], Awaitable[T]]) -> T:
    """Ask the store until it answers: giving up would lose what was promised. For what may be asked again."""
    while True:
        try:
            return await ask()
        except AWAY as error:
            log.warning("the store is away", extra={"reason": type(error).__name__})
            await asyncio.sleep(RETRY_S)
