"""Owns the timers that start instances: armed when a version begins to serve, fired by one engine each time.
Never computes when a timer is due (engine.core.due), and never starts a version that does not serve.
Called by the composition root, as a loop beside the runtime.

A timer that is overdue, because no engine was there, fires once; a cycle goes on from then, as one inside a process.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NoReturn, Protocol

from engine.bpmn.definition import TimerKind
from engine.core.due import following
from engine.core.evaluation import EvaluationFailed, due, first_of_cycle
from engine.deliveries import RETRY_S, persist
from engine.event_store import AWAY, ScheduleStore
from engine.feel import EvaluationContext
from engine.linking import DeployedDefinition
from engine.records import Key
from engine.start_events import StartEvent, StartEvents
from engine.starts import Beginning
from engine.store.schedule import Scheduled

log = logging.getLogger("conch.starts")

LOOK_S = 15.0  # other engines arm timers too, and the wall clock may be set
UNKNOWN_S = 60.0  # timers of versions that do not serve go after this long, when what serves is surely known here
NEVER_US = 253_402_300_799_000_000  # 9999-12-31T23:59:59Z; a timer that fired for the last time stays armed till then


class Active(Protocol):
    """engine.deployments.Deployments"""

    @property
    def active(self) -> Mapping[str, DeployedDefinition]: ...

    async def changed(self, since: int) -> int: ...


class StartTimers:
    """Arms, fires and disarms the timer start events of what serves."""

    def __init__(
        self,
        events: StartEvents,
        beginning: Beginning,
        schedule: ScheduleStore,
        now_us: Callable[[], int],
    ):
        self._events = events
        self._beginning = beginning
        self._schedule = schedule
        self._now_us = now_us
        self._armed = asyncio.Event()
        self._unknown: dict[Key, int] = {}  # versions with timers that do not serve here -> since when that is known

    # --- following what serves ------------------------------------------------------------------------------------

    async def follow(self, deployments: Active) -> NoReturn:
        """Let the start events of the versions that serve replace those of their predecessors, for ever."""
        revision = -1
        while True:
            revision = await deployments.changed(revision)
            await self.serve(tuple(deployments.active.values()))

    async def serve(self, active: Collection[DeployedDefinition]) -> None:
        """From now on these versions' start events count, and no others."""
        before = dict(self._events.keys)
        self._events.serve(active, self._beginning.new_key())
        now = self._events.keys
        # Only what was seen to be replaced is disarmed: a newer version may be armed by an engine that knows more.
        if gone := [key for process_id, key in before.items() if now.get(process_id) != key]:
            await persist(lambda: self._schedule.disarm(gone))
        for event in self._events.all("timer"):
            if before.get(event.process_id) != event.definition_key:
                await self._arm(event)
        self._armed.set()

    async def _arm(self, event: StartEvent) -> None:
        at_us = self._now_us()
        assert event.timer is not None
        try:
            if event.timer.kind is TimerKind.CYCLE:
                _, due_at_us, left = first_of_cycle(event.timer, {}, EvaluationContext(now_us=at_us), at_us)
            else:
                due_at_us, left = due(event.timer, {}, EvaluationContext(now_us=at_us), at_us), 0
        except EvaluationFailed as error:
            _log_broken(event, error)
            return
        await persist(lambda: self._schedule.arm(event.definition_key, event.element_id, due_at_us, left))

    # --- firing ---------------------------------------------------------------------------------------------------

    async def run(self) -> NoReturn:
        """Fire what is due, for ever; one engine fires each, whichever is first."""
        while True:
            self._armed.clear()
            try:
                wait_s = await self._fire_due()
            except AWAY as error:
                log.warning("start timers not read", extra={"reason": type(error).__name__})
                wait_s = RETRY_S
            try:
                async with asyncio.timeout(wait_s):
                    await self._armed.wait()
            except TimeoutError:
                continue

    async def _fire_due(self) -> float:
        """Returns how long nothing more will be due, in seconds."""
        for scheduled in await self._schedule.due(self._now_us()):
            event = self._events.timer(scheduled.process_definition_key, scheduled.element_id)
            if event is not None:
                await self._fire(event, scheduled)
        armed = await self._schedule.armed()
        await self._disarm_unknown(armed)
        due_us = [
            scheduled.due_at_us
            for scheduled in armed
            if scheduled.claimed_key is None
            and self._events.timer(scheduled.process_definition_key, scheduled.element_id) is not None
        ]
        if not due_us:
            return LOOK_S
        return min(max((min(due_us) - self._now_us()) / 1_000_000, 0.0), LOOK_S)

    async def _disarm_unknown(self, armed: Sequence[Scheduled]) -> None:
        """A version may have been replaced while no engine was there to see it."""
        serving = set(self._events.keys.values())
        unknown = {each.process_definition_key for each in armed} - serving
        self._unknown = {key: self._unknown.get(key, self._now_us()) for key in unknown}
        gone = [key for key, since_us in self._unknown.items() if self._now_us() - since_us > UNKNOWN_S * 1_000_000]
        if gone:
            await self._schedule.disarm(gone)

    async def _fire(self, event: StartEvent, scheduled: Scheduled) -> None:
        key = scheduled.claimed_key or self._beginning.new_key()  # a claim of one who died keeps its instance
        if not await self._schedule.claim(scheduled, key):
            return
        claimed = scheduled._replace(claimed_key=key)
        began = scheduled.claimed_key is not None and await self._beginning.began(key)
        if began or await self._beginning.begin(event, key, {}):
            await self._advance(event, claimed, key)

    async def _advance(self, event: StartEvent, claimed: Scheduled, key: Key) -> None:
        next_at_us, left = NEVER_US, 0 if claimed.repetitions_left is None else claimed.repetitions_left
        assert event.timer is not None
        if event.timer.kind is TimerKind.CYCLE and claimed.repetitions_left != 0:
            at_us = self._now_us()
            try:
                value, _, _ = first_of_cycle(event.timer, {}, EvaluationContext(now_us=at_us), at_us)
                next_at_us = following(value, claimed.due_at_us, at_us)
            except (EvaluationFailed, ValueError) as error:
                _log_broken(event, error)
        still_left = None if claimed.repetitions_left is None else max(left - 1, 0)
        await persist(lambda: self._schedule.advance(claimed, key, next_at_us, still_left))


def _log_broken(event: StartEvent, error: Exception) -> None:
    extra = {"process_id": event.process_id, "element_id": event.element_id, "reason": str(error)}
    log.error("start timer not armed", extra=extra)
