"""Messages and signals: never twice, never lost, whatever dies when."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from engine.errors import Code, Rejected
from engine.records import Key
from tests.loop import run_virtual
from tests.simulation.events import Disk, Engine, Kind, received

ONCE = Kind("once")
TWICE = Kind("twice", times=2)
THRICE = Kind("thrice", times=3, interrupting=False)
LISTENER = Kind("listener", "alarm", "signal")
LISTENER_OFTEN = Kind("listener_often", "alarm", "signal", times=3, interrupting=False)
KINDS = {kind.process_id: kind for kind in (ONCE, TWICE, THRICE, LISTENER, LISTENER_OFTEN)}
LONG_MS = 3_600_000
QUIET_S = 200.0


def takers(disk: Disk, event_key: Key, process_id: str | None = None) -> list[Key]:
    """Instances with the event in their log, once for each time."""
    return [
        key
        for key in disk.logs
        for _, event in received(disk, key)
        if event == event_key and process_id in (None, disk.logs[key][0].definition.process_id)  # type: ignore[union-attr]
    ]


@dataclass
class Story:
    """What a client did and saw, across the lives of an engine."""

    opened: list[Key] = field(default_factory=list)
    published: list[Key] = field(default_factory=list)
    broadcast: list[Key] = field(default_factory=list)


Scenario = Callable[[Engine, Story], Awaitable[None]]


async def live(disk: Disk, scenario: Scenario, story: Story) -> None:
    """One life: the scenario and then quiet, or death in the middle of it."""
    async with Engine(disk, KINDS) as engine:
        acting = asyncio.ensure_future(scenario(engine, story))
        dying = asyncio.ensure_future(disk.died.wait())
        await asyncio.wait((acting, dying), return_when=asyncio.FIRST_COMPLETED)
        if not disk.died.is_set():
            await asyncio.wait((dying,), timeout=QUIET_S)
        for each in (acting, dying):
            each.cancel()
        await asyncio.gather(acting, dying, return_exceptions=True)


async def live_twice(seed: int, die_at: int | None, scenario: Scenario) -> tuple[Disk, Story, int]:
    disk, story = Disk(seed, die_at), Story()
    await live(disk, scenario, story)
    steps = disk.step
    async with Engine(disk, KINDS, writer_id=2) as heir:
        heir.resume()
        await asyncio.sleep(QUIET_S)
    return disk, story, steps


def every_death(scenario: Scenario, check: Callable[[Disk, Story], None], seed: int) -> None:
    """The scenario without a death, then with one at each of its steps."""
    disk, story, steps = run_virtual(live_twice(seed, None, scenario))
    check(disk, story)
    assert steps > 10
    for die_at in range(1, steps + 1):
        print(f"seed {seed}, death at step {die_at}")
        disk, story, _ = run_virtual(live_twice(seed, die_at, scenario))
        check(disk, story)


def waits(disk: Disk, key: Key) -> bool:
    log = disk.logs[key]
    kind = KINDS[log[0].definition.process_id]  # type: ignore[union-attr]
    return len(log) - 1 < kind.times


def check_messages(disk: Disk, story: Story) -> None:
    for key, message in disk.messages.items():
        for process_id in KINDS:
            assert len(takers(disk, key, process_id)) <= 1, "taken twice"
        waiting = {
            disk.logs[each][0].definition.process_id  # type: ignore[union-attr]
            for each in disk.logs
            if waits(disk, each)
            and disk.logs[each][0].variables["key"] == message.correlation_key  # type: ignore[union-attr]
            and KINDS[disk.logs[each][0].definition.process_id].kind == "message"  # type: ignore[union-attr]
        }
        taken = {disk.logs[each][0].definition.process_id for each in takers(disk, key)}  # type: ignore[union-attr]
        assert waiting <= taken, "lost: it is there, and somebody waits for it"
    for (key, process_id), held in disk.claims.items():
        assert (held.instance_key in takers(disk, key, process_id)) or held.subscription_key is None, "claimed in vain"
    assert set(story.published) <= disk.messages.keys()


@pytest.mark.parametrize("seed", range(3))
def test_a_message_reaches_one_of_each_process_whatever_dies_when(seed: int) -> None:
    async def scenario(engine: Engine, story: Story) -> None:
        for process_id in ("once", "once", "twice", "thrice"):
            story.opened.append(await engine.open(process_id, "42"))
        for _ in range(4):
            story.published.append(
                await engine.correlation.publish("paid", "42", ttl_ms=LONG_MS, variables={"amount": 1})
            )

    every_death(scenario, check_messages, seed)


@pytest.mark.parametrize("seed", range(3))
def test_a_message_waits_in_the_buffer_whatever_dies_when(seed: int) -> None:
    async def scenario(engine: Engine, story: Story) -> None:
        for _ in range(3):
            story.published.append(await engine.correlation.publish("paid", "42", ttl_ms=LONG_MS, variables={}))
        for process_id in ("thrice", "twice", "once"):
            story.opened.append(await engine.open(process_id, "42"))

    every_death(scenario, check_messages, seed)


@pytest.mark.parametrize("seed", range(3))
def test_a_message_without_time_to_live_still_reaches_who_waited_for_it(seed: int) -> None:
    async def scenario(engine: Engine, story: Story) -> None:
        story.opened.append(await engine.open("once", "42"))
        story.opened.append(await engine.open("thrice", "42"))
        await asyncio.sleep(1)
        story.published.append(await engine.correlation.publish("paid", "42", ttl_ms=0, variables={}))

    def check(disk: Disk, story: Story) -> None:
        for message in story.published:
            assert sorted(takers(disk, message)) == sorted(story.opened)
        check_messages(disk, story)

    every_death(scenario, check, seed)


@pytest.mark.parametrize("seed", range(3))
def test_a_signal_reaches_everybody_who_waits_once_whatever_dies_when(seed: int) -> None:
    async def scenario(engine: Engine, story: Story) -> None:
        for process_id in ("listener", "listener_often", "listener"):
            story.opened.append(await engine.open(process_id))
        await asyncio.sleep(2)
        story.broadcast.append(await engine.correlation.broadcast("alarm", {"level": 1}))
        await asyncio.sleep(2)
        story.broadcast.append(engine.throw(story.opened[1], "alarm"))

    def check(disk: Disk, story: Story) -> None:
        for number, signal in enumerate(story.broadcast):
            if signal not in disk.signals:
                continue  # thrown, and its instance has not told it again: it did not die over it
            everybody = story.opened if number == 0 else story.opened[1:2]
            assert sorted(takers(disk, signal)) == sorted(everybody)

    every_death(scenario, check, seed)


def run(scenario: Callable[[Engine], Awaitable[None]]) -> Disk:
    async def main() -> Disk:
        disk = Disk()
        async with Engine(disk, KINDS) as engine:
            await scenario(engine)
        return disk

    return run_virtual(main())


def test_the_one_that_waited_longest_gets_the_message() -> None:
    async def scenario(engine: Engine) -> None:
        opened = [await engine.open("once", "42") for _ in range(3)]
        keys = []
        for _ in range(3):
            keys.append(await engine.correlation.publish("paid", "42", ttl_ms=0, variables={}))
            await asyncio.sleep(1)
        assert [takers(engine.disk, key) for key in keys] == [[each] for each in opened]

    run(scenario)


@pytest.mark.parametrize("seed", range(30))
def test_a_message_that_comes_while_its_taker_looks_into_the_buffer_is_not_missed(seed: int) -> None:
    async def main() -> None:
        disk = Disk(seed)
        async with Engine(disk, KINDS) as engine:
            publishing = engine.correlation.publish("paid", "42", ttl_ms=LONG_MS, variables={})
            instance, key = await asyncio.gather(engine.open("once", "42"), publishing)
            await asyncio.sleep(1)
            assert takers(disk, key) == [instance]

    print(f"seed {seed}")
    run_virtual(main())


def test_the_oldest_message_is_taken_from_the_buffer_first() -> None:
    async def scenario(engine: Engine) -> None:
        keys = [await engine.correlation.publish("paid", "42", ttl_ms=LONG_MS, variables={}) for _ in range(3)]
        instance = await engine.open("twice", "42")
        await asyncio.sleep(1)
        assert [event for _, event in received(engine.disk, instance)] == keys[:2]

    run(scenario)


@pytest.mark.parametrize(("correlation_key", "tenant"), [("43", "default"), ("42", "acme")])
def test_a_message_for_another_is_left_alone(correlation_key: str, tenant: str) -> None:
    async def scenario(engine: Engine) -> None:
        await engine.open("once", "42")
        key = await engine.correlation.publish("paid", correlation_key, ttl_ms=LONG_MS, variables={}, tenant=tenant)
        await asyncio.sleep(100)
        assert not takers(engine.disk, key)

    run(scenario)


def test_a_message_that_nobody_waits_for_is_gone_without_time_to_live() -> None:
    async def scenario(engine: Engine) -> None:
        gone = await engine.correlation.publish("paid", "42", ttl_ms=0, variables={})
        short = await engine.correlation.publish("paid", "42", ttl_ms=5_000, variables={})
        await asyncio.sleep(10)
        instance = await engine.open("once", "42")
        await asyncio.sleep(100)
        assert not received(engine.disk, instance)
        assert not takers(engine.disk, gone) + takers(engine.disk, short)

    run(scenario)


def test_a_message_id_is_taken_while_the_message_is_buffered() -> None:
    async def scenario(engine: Engine) -> None:
        options = {"ttl_ms": 1_000, "variables": {}, "message_id": "a"}
        await engine.correlation.publish("paid", "42", **options)  # type: ignore[arg-type]
        with pytest.raises(Rejected, match="ALREADY_EXISTS"):
            await engine.correlation.publish("paid", "42", **options)  # type: ignore[arg-type]
        await asyncio.sleep(2)
        await engine.correlation.publish("paid", "42", **options)  # type: ignore[arg-type]

    run(scenario)


def test_correlating_says_who_got_it_and_keeps_nothing_when_nobody_did() -> None:
    async def scenario(engine: Engine) -> None:
        instance = await engine.open("once", "42")
        await asyncio.sleep(1)
        key, got = await engine.correlation.correlate("paid", "42", {})
        assert got == instance
        assert takers(engine.disk, key) == [instance]
        with pytest.raises(Rejected, match="nothing waits") as refused:
            await engine.correlation.correlate("paid", "42", {})
        assert refused.value.code == Code.NOT_FOUND
        late = await engine.open("once", "42")
        await asyncio.sleep(100)
        assert not received(engine.disk, late)

    run(scenario)


def test_correlating_finds_who_waits_in_another_engine() -> None:
    async def main() -> None:
        disk = Disk()
        async with Engine(disk, KINDS, 1) as first, Engine(disk, KINDS, 2) as second:
            instance = await second.open("once", "42")
            await asyncio.sleep(1)
            assert (await first.correlation.correlate("paid", "42", {}))[1] == instance

    run_virtual(main())


@pytest.mark.parametrize("seed", range(10))
def test_two_engines_never_both_deliver(seed: int) -> None:
    async def main() -> None:
        disk = Disk(seed)
        async with Engine(disk, KINDS, 1) as first, Engine(disk, KINDS, 2) as second:
            engines = (first, second)
            story = Story()
            for number in range(30):
                engine, key = engines[disk.random.randrange(2)], str(disk.random.randrange(3))
                if disk.random.random() < 0.5:
                    story.opened.append(await engine.open(disk.random.choice(["once", "twice", "thrice"]), key))
                else:
                    story.published.append(
                        await engine.correlation.publish("paid", key, ttl_ms=LONG_MS, variables={"n": number})
                    )
            await asyncio.sleep(QUIET_S)
            check_messages(disk, story)

    print(f"seed {seed}")
    run_virtual(main())


@pytest.mark.parametrize("seed", range(20))
def test_an_answer_that_was_lost_is_looked_up_and_not_guessed(seed: int) -> None:
    """The journal refuses commands, and stores others so late that nobody waits for the answer any more."""

    async def main() -> None:
        disk, story = Disk(seed), Story()
        async with Engine(disk, KINDS) as engine:
            engine.outage = 0.3
            for process_id in ("once", "thrice", "twice", "listener", "listener_often"):
                story.opened.append(await engine.open(process_id, "42"))
            await asyncio.sleep(1)
            for _ in range(3):
                story.published.append(await engine.correlation.publish("paid", "42", ttl_ms=LONG_MS, variables={}))
            signal = await engine.correlation.broadcast("alarm", {})
            await asyncio.sleep(600)
            check_messages(disk, story)
            assert sorted(takers(disk, signal)) == story.opened[3:]
            assert all(len(takers(disk, key, "thrice")) == 1 for key in story.published)

    print(f"seed {seed}")
    run_virtual(main())


def test_a_signal_is_not_for_who_comes_after_it() -> None:
    async def scenario(engine: Engine) -> None:
        key = await engine.correlation.broadcast("alarm", {})
        late = await engine.open("listener")
        await asyncio.sleep(100)
        assert key in engine.disk.signals
        assert not received(engine.disk, late)

    run(scenario)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "", "ttl_ms": -1}, "name is empty; the time to live"),
        ({"name": "a" * 257}, "name is longer"),
        ({"correlation_key": "\U0001f600" * 200, "message_id": "a" * 300}, "correlation_key is longer.*message_id"),
        ({"correlation_key": "\ud800" * 257}, "correlation_key is longer"),
    ],
)
def test_a_message_that_makes_no_sense_is_refused(changes: dict[str, Any], words: str) -> None:
    async def scenario(engine: Engine) -> None:
        options: dict[str, Any] = {"name": "paid", "correlation_key": "", "ttl_ms": 0, "variables": {}} | changes
        with pytest.raises(Rejected, match=words) as refused:
            await engine.correlation.publish(options.pop("name"), options.pop("correlation_key"), **options)
        assert refused.value.code == Code.INVALID_ARGUMENT

    run(scenario)


@pytest.mark.parametrize("name", ["", "a" * 257])
def test_a_signal_without_a_name_or_with_too_long_a_one_is_refused(name: str) -> None:
    async def scenario(engine: Engine) -> None:
        with pytest.raises(Rejected, match="INVALID_ARGUMENT"):
            await engine.correlation.broadcast(name, {})
        engine.throw(1, "a" * 257)
        await asyncio.sleep(1)
        assert not engine.disk.signals

    run(scenario)
