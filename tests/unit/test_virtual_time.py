"""The virtual-time loop keeps asyncio's promises, and reports a program that can never end."""

from __future__ import annotations

import asyncio

import pytest

from tests.loop import EPOCH_US, Deadlock, now_us, run_virtual


def test_time_passes_only_while_everybody_waits() -> None:
    async def main() -> list[tuple[str, int]]:
        seen: list[tuple[str, int]] = []

        async def sleeper(name: str, delay_s: float) -> None:
            await asyncio.sleep(delay_s)
            seen.append((name, now_us() - EPOCH_US))

        await asyncio.gather(sleeper("hour", 3600), sleeper("tick", 0.001), sleeper("second", 1))
        return seen

    assert run_virtual(main()) == [("tick", 1_000), ("second", 1_000_000), ("hour", 3_600_000_000)]


def test_timeouts_obey_virtual_time() -> None:
    async def main() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await asyncio.sleep(60)
        return asyncio.get_running_loop().time()

    assert run_virtual(main()) == 30


def test_waiting_for_nothing_is_a_deadlock() -> None:
    async def main() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Deadlock):
        run_virtual(main())


def test_a_clock_that_ticks_for_ever_is_a_deadlock_too() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()

        def tick() -> None:
            loop.call_later(3600, tick)

        tick()
        await loop.create_future()

    with pytest.raises(Deadlock):
        run_virtual(main())
