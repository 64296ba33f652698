"""Start events: one instance for each message, signal and due timer, whatever dies when."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from engine.bpmn.definition import (
    ElementType,
    EventDefinition,
    EventKind,
    FlowNode,
    Static,
    TimerDefinition,
    TimerKind,
)
from engine.linking import DeployedDefinition
from engine.records import DefinitionRef, Key
from engine.start_events import StartEvents
from engine.start_timers import NEVER_US, StartTimers
from engine.starts import Beginning
from engine.store.schedule import Scheduled
from tests.loop import EPOCH_US, now_us, run_virtual
from tests.simulation.events import Disk, Engine, Kind, MemoryEventLog

LONG_MS = 3_600_000
QUIET_S = 300.0
SECOND = 1_000_000
KINDS = {name: Kind(name, "done") for name in ("order", "bill", "nightly")}


class _Definition:
    """As much of a program as start events are read from."""

    def __init__(self, nodes: Collection[Any]):
        self.definition = self
        self._nodes = tuple(nodes)

    def children(self, parent: None) -> tuple[Any, ...]:
        return self._nodes


def deployed(process_id: str, *events: EventDefinition, version: int = 1, key: Key | None = None) -> DeployedDefinition:
    nodes = [
        FlowNode(f"start_{number}", "", ElementType.START_EVENT, (), ("f",), event=event)
        for number, event in enumerate(events)
    ]
    ref = DefinitionRef(key or 100 * version, process_id, version, "")
    return DeployedDefinition(ref, _Definition(nodes))  # type: ignore[arg-type]


def on_message(name: str) -> EventDefinition:
    return EventDefinition(EventKind.MESSAGE, name=Static(name))


def on_signal(name: str) -> EventDefinition:
    return EventDefinition(EventKind.SIGNAL, name=Static(name))


def on_timer(kind: TimerKind, value: str) -> EventDefinition:
    return EventDefinition(EventKind.TIMER, timer=TimerDefinition(kind, Static(value)))


def instances(disk: Disk, process_id: str) -> list[Key]:
    return [key for key, log in disk.logs.items() if log[0].definition.process_id == process_id]  # type: ignore[union-attr]


Scenario = Callable[[Engine], Awaitable[None]]


async def live(disk: Disk, scenario: Scenario, active: list[DeployedDefinition]) -> None:
    async with Engine(disk, KINDS) as engine:
        engine.events.serve(active, engine.keys.mint())
        acting = asyncio.ensure_future(scenario(engine))
        dying = asyncio.ensure_future(disk.died.wait())
        await asyncio.wait((acting, dying), return_when=asyncio.FIRST_COMPLETED)
        if not disk.died.is_set():
            acting.result()
            await asyncio.wait((dying,), timeout=QUIET_S)
        for each in (acting, dying):
            each.cancel()
        await asyncio.gather(acting, dying, return_exceptions=True)


async def live_twice(seed: int, die_at: int | None, scenario: Scenario, active: list[DeployedDefinition]) -> Disk:
    disk = Disk(seed, die_at)
    await live(disk, scenario, active)
    if die_at is not None:
        async with Engine(disk, KINDS, writer_id=2) as heir:
            heir.events.serve(active, heir.keys.mint())
            heir.resume()
            await asyncio.sleep(QUIET_S)
    return disk


def every_death(scenario: Scenario, active: list[DeployedDefinition], check: Callable[[Disk], None], seed: int) -> None:
    disk = run_virtual(live_twice(seed, None, scenario, active))
    check(disk)
    for die_at in range(1, disk.step + 1):
        print(f"seed {seed}, death at step {die_at}")
        check(run_virtual(live_twice(seed, die_at, scenario, active)))


@pytest.mark.parametrize("ttl_ms", [0, LONG_MS])
@pytest.mark.parametrize("seed", range(2))
def test_a_message_starts_one_instance_of_each_process_whatever_dies_when(seed: int, ttl_ms: int) -> None:
    active = [deployed("order", on_message("placed")), deployed("bill", on_message("other"), on_message("placed"))]

    async def scenario(engine: Engine) -> None:
        await engine.correlation.publish("placed", "", ttl_ms=ttl_ms, variables={"key": "1"})
        await engine.correlation.publish("placed", "", ttl_ms=ttl_ms, variables={"key": "2"})

    def check(disk: Disk) -> None:
        for process_id in ("order", "bill"):
            assert len(instances(disk, process_id)) == len(disk.messages)

    every_death(scenario, active, check, seed)


@pytest.mark.parametrize("seed", range(3))
def test_a_correlation_key_starts_one_instance_at_a_time_whatever_dies_when(seed: int) -> None:
    active = [deployed("order", on_message("placed"))]

    async def scenario(engine: Engine) -> None:
        for _ in range(2):
            await engine.correlation.publish("placed", "42", ttl_ms=LONG_MS, variables={"key": "42"})
        await asyncio.sleep(5)
        assert len(instances(engine.disk, "order")) == 1
        await engine.correlation.publish("done", "42", ttl_ms=LONG_MS, variables={})
        await asyncio.sleep(5)
        assert len(instances(engine.disk, "order")) == 2

    def check(disk: Disk) -> None:
        placed = [key for key, message in disk.messages.items() if message.name == "placed"]
        done = len(disk.messages) - len(placed)
        assert len(instances(disk, "order")) == min(len(placed), 1 + done)

    every_death(scenario, active, check, seed)


@pytest.mark.parametrize("seed", range(3))
def test_a_signal_starts_one_instance_of_each_process_whatever_dies_when(seed: int) -> None:
    active = [deployed("order", on_signal("alarm")), deployed("bill", on_signal("alarm"))]

    async def scenario(engine: Engine) -> None:
        await engine.correlation.broadcast("alarm", {})

    def check(disk: Disk) -> None:
        for process_id in ("order", "bill"):
            started = instances(disk, process_id)
            claimed = [key for (_, of), (key, _) in disk.signal_starts.items() if of == process_id]
            assert started == claimed

    every_death(scenario, active, check, seed)


def run(scenario: Scenario, active: list[DeployedDefinition]) -> Disk:
    async def main() -> Disk:
        disk = Disk()
        async with Engine(disk, KINDS) as engine:
            engine.events.serve(active, engine.keys.mint())
            await scenario(engine)
        return disk

    return run_virtual(main())


def test_a_message_that_finds_the_way_barred_is_gone_without_time_to_live() -> None:
    async def scenario(engine: Engine) -> None:
        await engine.correlation.publish("placed", "42", ttl_ms=0, variables={"key": "42"})
        await asyncio.sleep(1)
        await engine.correlation.publish("placed", "42", ttl_ms=0, variables={"key": "42"})
        await asyncio.sleep(1)
        await engine.correlation.publish("done", "42", ttl_ms=0, variables={})
        await asyncio.sleep(QUIET_S)
        assert len(instances(engine.disk, "order")) == 1
        await engine.correlation.publish("placed", "42", ttl_ms=0, variables={"key": "42"})
        await asyncio.sleep(1)
        assert len(instances(engine.disk, "order")) == 2

    run(scenario, [deployed("order", on_message("placed"))])


def test_a_message_that_was_published_before_the_process_was_deployed_starts_nothing() -> None:
    async def scenario(engine: Engine) -> None:
        await engine.correlation.publish("placed", "", ttl_ms=LONG_MS, variables={})
        await asyncio.sleep(1)
        engine.events.serve([deployed("order", on_message("placed"), key=engine.keys.mint())], engine.keys.mint())
        await asyncio.sleep(QUIET_S)
        assert not instances(engine.disk, "order")

    run(scenario, [])


def test_only_the_version_that_serves_is_started() -> None:
    async def scenario(engine: Engine) -> None:
        engine.events.serve([deployed("order", on_message("new"), version=2)], engine.keys.mint())
        await engine.correlation.publish("placed", "", ttl_ms=LONG_MS, variables={})
        await engine.correlation.publish("new", "", ttl_ms=LONG_MS, variables={})
        await asyncio.sleep(QUIET_S)
        assert len(instances(engine.disk, "order")) == 1

    run(scenario, [deployed("order", on_message("placed"))])


def test_correlating_may_start_an_instance() -> None:
    async def scenario(engine: Engine) -> None:
        _, got = await engine.correlation.correlate("placed", "", {"key": "1"})
        assert [got] == instances(engine.disk, "order")

    run(scenario, [deployed("order", on_message("placed"))])


# --- timers -----------------------------------------------------------------------------------------------------


class MemorySchedule:
    """engine.store.schedule.StartSchedule, in memory."""

    def __init__(self, disk: Disk):
        self._disk = disk
        self.rows: dict[tuple[Key, str], Scheduled] = {}
        self.claimed_at: dict[tuple[Key, str], int] = {}

    async def arm(self, definition_key: Key, element_id: str, due_at_us: int, repetitions_left: int | None = 0) -> None:
        await self._disk.point()
        row = Scheduled(definition_key, element_id, _instant(due_at_us), repetitions_left, None)
        self.rows.setdefault((definition_key, element_id), row)

    async def disarm(self, definition_keys: Collection[Key]) -> None:
        self.rows = {place: row for place, row in self.rows.items() if place[0] not in definition_keys}

    async def armed(self, limit: int = 10_000) -> list[Scheduled]:
        await self._disk.point()
        return sorted(self.rows.values(), key=lambda row: row.due_at)

    async def due(self, at_us: int, *, stale_s: float = 60.0, limit: int = 100) -> list[Scheduled]:
        await self._disk.point()
        return [
            row
            for place, row in self.rows.items()
            if row.due_at_us <= at_us
            and (row.claimed_key is None or self.claimed_at[place] < now_us() - stale_s * SECOND)
        ]

    async def claim(self, scheduled: Scheduled, instance_key: Key) -> bool:
        await self._disk.point()
        place = scheduled.process_definition_key, scheduled.element_id
        if self.rows.get(place) != scheduled:
            return False
        self.rows[place] = scheduled._replace(claimed_key=instance_key)
        self.claimed_at[place] = now_us()
        await self._disk.point()
        return True

    async def advance(
        self, scheduled: Scheduled, instance_key: Key, next_due_at_us: int | None, repetitions_left: int | None = None
    ) -> bool:
        await self._disk.point()
        place = scheduled.process_definition_key, scheduled.element_id
        row = self.rows.get(place)
        if row is None or row.claimed_key != instance_key:
            return False
        assert next_due_at_us is not None
        self.rows[place] = Scheduled(*place, _instant(next_due_at_us), repetitions_left, None)
        await self._disk.point()
        return True


def _instant(at_us: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at_us)


class Clockwork:
    """Start timers over an engine; `at` says when each instance was started, in seconds."""

    def __init__(self, engine: Engine, schedule: MemorySchedule):
        self._engine = engine
        self.at: list[float] = []
        self.events = StartEvents()
        beginning = Beginning(self, MemoryEventLog(engine.disk), engine.keys)
        self.timers = StartTimers(self.events, beginning, schedule, now_us)
        self._running = asyncio.ensure_future(self.timers.run())

    def start(self, *args: Any, **options: Any) -> Any:
        self.at.append(round((now_us() - EPOCH_US) / SECOND, 1))
        return self._engine.start(*args, **options)

    async def stop(self) -> None:
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)


@pytest.mark.parametrize(
    ("kind", "value", "at"),
    [
        (TimerKind.CYCLE, "R3/PT10S", [10, 20, 30]),
        (TimerKind.CYCLE, "R/PT40S", [40, 80]),
        (TimerKind.CYCLE, "R2/2026-01-01T00:00:05Z/PT1S", [5, 6]),
        (TimerKind.CYCLE, "*/30 * * * * *", [30, 60, 90]),
        (TimerKind.DATE, "2026-01-01T00:00:07Z", [7]),
        (TimerKind.DATE, "2020-01-01T00:00:00Z", [0]),
        (TimerKind.DURATION, "PT0.5S", [0.5]),
    ],
)
def test_a_timer_starts_instances_when_it_is_due(kind: TimerKind, value: str, at: list[float]) -> None:
    async def main() -> None:
        disk = Disk()
        async with Engine(disk, KINDS) as engine:
            clockwork = Clockwork(engine, MemorySchedule(disk))
            await clockwork.timers.serve([deployed("nightly", on_timer(kind, value))])
            await asyncio.sleep(100)
            await clockwork.stop()
            assert clockwork.at == [pytest.approx(each, abs=0.2) for each in at]
            assert len(instances(disk, "nightly")) == len(at)

    run_virtual(main())


def test_a_timer_that_fired_for_the_last_time_is_not_armed_again() -> None:
    async def main() -> None:
        disk = Disk()
        schedule = MemorySchedule(disk)
        for _ in range(2):
            async with Engine(disk, KINDS) as engine:
                clockwork = Clockwork(engine, schedule)
                await clockwork.timers.serve([deployed("nightly", on_timer(TimerKind.CYCLE, "R2/PT1S"))])
                await asyncio.sleep(100)
                await clockwork.stop()
        assert len(instances(disk, "nightly")) == 2
        assert [row.due_at_us for row in schedule.rows.values()] == [NEVER_US]

    run_virtual(main())


def test_the_timers_of_a_version_go_with_it() -> None:
    async def main() -> None:
        disk = Disk()
        schedule = MemorySchedule(disk)
        async with Engine(disk, KINDS) as engine:
            clockwork = Clockwork(engine, schedule)
            old = deployed("nightly", on_timer(TimerKind.CYCLE, "R/PT10S"))
            await clockwork.timers.serve([old])
            await asyncio.sleep(25)
            await clockwork.timers.serve([deployed("nightly", on_timer(TimerKind.CYCLE, "R/PT30S"), version=2)])
            await asyncio.sleep(40)
            await clockwork.timers.serve([old])
            await asyncio.sleep(12)
            await clockwork.stop()
            assert clockwork.at == [pytest.approx(each, abs=0.2) for each in (10, 20, 55, 75)]
            assert [place[0] for place in schedule.rows] == [100]

    run_virtual(main())


def test_timers_of_a_version_that_nobody_saw_replaced_go_after_a_while() -> None:
    async def main() -> None:
        disk = Disk()
        schedule = MemorySchedule(disk)
        await schedule.arm(99, "start_0", EPOCH_US, None)
        async with Engine(disk, KINDS) as engine:
            clockwork = Clockwork(engine, schedule)
            await clockwork.timers.serve([deployed("nightly", on_timer(TimerKind.CYCLE, "R/PT500S"))])
            await asyncio.sleep(100)
            await clockwork.stop()
            assert [place[0] for place in schedule.rows] == [100]
            assert not clockwork.at

    run_virtual(main())


def test_a_downtime_fires_once_and_the_cycle_goes_on_from_there() -> None:
    async def main() -> None:
        disk = Disk()
        schedule = MemorySchedule(disk)
        nightly = deployed("nightly", on_timer(TimerKind.CYCLE, "R/PT10S"))
        at = []
        for pause_s in (35, 0):
            async with Engine(disk, KINDS) as engine:
                clockwork = Clockwork(engine, schedule)
                await clockwork.timers.serve([nightly])
                await asyncio.sleep(15)
                await clockwork.stop()
                at += clockwork.at
            await asyncio.sleep(pause_s)
        assert at == [pytest.approx(each, abs=0.3) for each in (10, 50, 60)]

    run_virtual(main())


@pytest.mark.parametrize("seed", range(5))
def test_several_engines_fire_each_timer_once_whatever_dies_when(seed: int) -> None:
    async def main(die_at: int) -> int:
        disk = Disk(seed)
        schedule = MemorySchedule(disk)
        nightly = deployed("nightly", on_timer(TimerKind.CYCLE, "R4/PT2S"))
        async with Engine(disk, KINDS, 1) as first, Engine(disk, KINDS, 2) as second:
            clockworks = [Clockwork(first, schedule), Clockwork(second, schedule)]
            for clockwork in clockworks:
                await clockwork.timers.serve([nightly])
            disk.die_at = disk.step + die_at  # whoever takes that step stands still
            await asyncio.sleep(900)
            for clockwork in clockworks:
                await clockwork.stop()
        assert len(instances(disk, "nightly")) == 4
        return disk.step

    for die_at in range(1, 60, 3):
        print(f"seed {seed}, death at step {die_at}")
        run_virtual(main(die_at))


def test_a_start_event_keeps_its_place_while_its_version_serves() -> None:
    events = StartEvents()
    order = deployed("order", on_message("placed"), key=5)
    events.serve([order], 1_000)
    events.serve([replace(order), deployed("bill", on_message("placed"))], 2_000)
    assert [event.since_key for event in events.of_message("placed")] == [5, 100]
    events.serve([deployed("order", on_message("placed"), key=6)], 3_000)
    assert [event.since_key for event in events.of_message("placed")] == [3_000]
