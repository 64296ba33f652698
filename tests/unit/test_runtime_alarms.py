"""Alarms: timers of all waiting instances, fired in order, a few at a time, and never before they may."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from engine.alarms import A_FEW, LONGEST_LOOK_S, Alarms
from engine.records import Timer
from tests.loop import EPOCH_US, now_us, run_virtual

Rung = list[tuple[int, float]]


def alarms(rung: Rung, ready: list[bool] | None = None) -> Alarms:
    def ring(instance_key: int, timer_key: int, due_at_us: int) -> None:
        rung.append((timer_key, (now_us() - EPOCH_US) / 1_000_000))

    return Alarms(now_us, lambda: ready is None or ready[0], ring)


def due(key: int, after_s: float) -> Timer:
    return Timer(key, 1, "timer", EPOCH_US + round(after_s * 1_000_000))


@pytest.mark.parametrize("seed", range(5))
def test_timers_fire_once_each_at_their_instant_whatever_is_armed_and_taken_back_meanwhile(seed: int) -> None:
    print(f"seed {seed}")
    random = Random(seed)
    rung: Rung = []
    wanted: dict[int, float] = {}

    async def main() -> None:
        clock = alarms(rung)
        loop = asyncio.get_running_loop()
        for key in range(400):
            wanted[key] = loop.time() + random.uniform(0, 200)
            clock.arm(7, due(key, wanted[key]))
            if random.random() < 0.6:
                taken = random.choice([each for each in wanted if each in clock])
                clock.disarm(taken)
                del wanted[taken]
            await asyncio.sleep(random.uniform(0, 0.5))
        await asyncio.sleep(400)
        assert len(clock) == 0

    run_virtual(main())
    assert {key: pytest.approx(at_s, abs=1e-5) for key, at_s in rung} == wanted
    assert len(rung) == len(wanted)
    assert [at_s for _, at_s in rung] == sorted(at_s for _, at_s in rung)


def test_what_was_taken_back_does_not_fill_the_memory() -> None:
    async def main() -> None:
        clock = alarms([])
        for key in range(10_000):
            clock.arm(7, due(key, 3_600))
            clock.disarm(key)
        assert len(clock._heap) <= 1_001

    run_virtual(main())


def test_of_many_that_are_due_at_once_a_few_fire_before_others_get_a_turn() -> None:
    rung: Rung = []

    async def main() -> None:
        clock = alarms(rung)
        for key in range(3 * A_FEW):
            clock.arm(7, due(key, 1))
        await asyncio.sleep(1)
        assert len(rung) == A_FEW
        await asyncio.sleep(0.001)
        assert [key for key, _ in rung] == list(range(3 * A_FEW))

    run_virtual(main())


def test_nothing_fires_while_the_store_is_away_and_everything_after() -> None:
    rung: Rung = []

    async def main() -> None:
        ready = [False]
        clock = alarms(rung, ready)
        clock.arm(7, due(1, 1))
        await asyncio.sleep(10)
        clock.arm(7, due(2, 2))
        await asyncio.sleep(10)
        assert rung == []
        ready[0] = True
        await asyncio.sleep(2)
        assert [key for key, _ in rung] == [1, 2]

    run_virtual(main())


def test_a_wall_clock_that_is_set_forward_is_noticed_within_one_look() -> None:
    rung: Rung = []

    async def main() -> None:
        set_by_us = [0]

        def ring(instance_key: int, timer_key: int, due_at_us: int) -> None:
            rung.append((timer_key, asyncio.get_running_loop().time()))

        clock = Alarms(lambda: now_us() + set_by_us[0], lambda: True, ring)
        clock.arm(7, due(1, 7_200))
        await asyncio.sleep(1)
        set_by_us[0] = 7_200_000_000
        await asyncio.sleep(LONGEST_LOOK_S)
        assert [key for key, _ in rung] == [1]

    run_virtual(main())


def test_what_is_closed_rings_no_more() -> None:
    rung: Rung = []

    async def main() -> None:
        clock = alarms(rung)
        clock.arm(7, due(1, 1))
        clock.close()
        clock.arm(7, due(2, 1))
        await asyncio.sleep(5)
        assert rung == []
        assert 1 in clock

    run_virtual(main())
