"""Owns what a resumed instance may have missed: events that its earlier life was given, and its log does not hold.
Never gives an event that the log holds.
Called by correlation, for each subscription that was opened in another life of its instance.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any

from engine.deliveries import Deliveries
from engine.event_store import EventLog, MessageStore, SignalStore
from engine.keys import key_time_ms
from engine.records import Key
from engine.subscriptions import SKEW_US, Catch, Subscriptions

MOST_SIGNALS = 5_000  # that one instance may have missed, the oldest first


class Resumption:
    """Looks at each resumed instance once; until then nothing else is brought to it."""

    def __init__(
        self,
        messages: MessageStore,
        signals: SignalStore,
        event_log: EventLog,
        open_: Subscriptions,
        deliveries: Deliveries,
        run: Callable[[Coroutine[Any, Any, None]], object],
        look: Callable[[Catch], None],
    ):
        self._messages = messages
        self._signals = signals
        self._log = event_log
        self._open = open_
        self._deliveries = deliveries
        self._run = run
        self._look = look
        self._waiting: dict[Key, list[Catch]] = {}

    def check(self, catch: Catch) -> None:
        """Look at the instance of this subscription soon, and then into the buffer."""
        catch.busy = True
        catch.checked = asyncio.get_running_loop().create_future()
        catches = self._waiting.get(catch.instance_key)
        if catches is not None:
            catches.append(catch)
            return
        self._waiting[catch.instance_key] = [catch]
        self._run(self._check(catch.instance_key))

    async def _check(self, instance_key: Key) -> None:
        await asyncio.sleep(0)  # its subscriptions are told one after another, without a pause
        for claim in await self._deliveries.ask(lambda: self._messages.claims_of(instance_key)):
            if claim.subscription_key is not None:
                await self._deliveries.settle(claim)
        catches = self._waiting.pop(instance_key)
        signals = [catch for catch in catches if catch.subscription.kind == "signal"]
        if signals:
            await self._check_signals(instance_key, signals)
        for catch in catches:
            catch.busy = False
            assert catch.checked is not None
            catch.checked.set_result(None)
            catch.checked = None
            if catch.subscription.kind == "message" and catch.key in self._open:
                self._look(catch)

    async def _check_signals(self, instance_key: Key, catches: list[Catch]) -> None:
        received = await self._deliveries.ask(lambda: self._log.received(instance_key))
        names = {catch.subscription.name for catch in catches}
        opened_at = _EPOCH + timedelta(milliseconds=min(key_time_ms(catch.key) for catch in catches))
        since = opened_at - timedelta(microseconds=SKEW_US)
        for signal in await self._deliveries.ask(lambda: self._signals.since(names, since, MOST_SIGNALS)):
            waiting = self._open.waiting_for_signal(signal.name, signal.key)
            for catch in catches:
                if catch in waiting:
                    catch.known |= {signal.key}
                    if (catch.key, signal.key) not in received:
                        await self._deliveries.tell(instance_key, catch.key, signal.key, signal.variables)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
