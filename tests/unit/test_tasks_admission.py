"""Backpressure: slots, a bounded queue, limits of time and bytes, and nothing that leaks; in virtual time."""

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest

from engine import BpmnError, Code, Settings, Telemetry
from tasks.admission import Admission, Slot
from tests.loop import now_us, run_virtual

FAR_US = 3_600_000_000


def admission(*, slots: int = 2, **limits: int) -> Admission:
    settings = Settings.model_validate(
        {
            "limits": {"max_concurrency": slots, **limits},
            "replicas": [{"name": "a", "grpc": "127.0.0.1:1"}],
            "models": [{"name": "m"}, {"name": "own", "max_concurrency": 1}],
        }
    )
    return Admission(settings, Telemetry(), now_us)


def entered(gates: Admission, model: str = "m", size_bytes: int = 10) -> Slot:
    slot = gates.enter(model, size_bytes, now_us() + FAR_US)
    assert isinstance(slot, Slot)
    return slot


def queued(gates: Admission, *, size_bytes: int = 10, deadline_us: int = FAR_US) -> asyncio.Task[Slot]:
    waiting = gates.enter("m", size_bytes, now_us() + deadline_us)
    assert not isinstance(waiting, Slot)

    async def wait() -> Slot:
        return await waiting

    return asyncio.create_task(wait())


def virtual(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def run() -> None:
        run_virtual(test())

    run.__name__ = test.__name__
    return run


@virtual
async def test_a_free_slot_is_taken_at_once() -> None:
    gates = admission()
    slots = [entered(gates), entered(gates)]
    assert gates.in_use("m") == 2
    assert slots[0].queue_time_us == 0
    for slot in slots:
        slot.release()
        slot.release()
    assert gates.in_use("m") == 0


@virtual
async def test_those_who_wait_get_slots_in_the_order_in_which_they_came() -> None:
    gates = admission(slots=1)
    first, order = entered(gates), list[int]()

    async def hold(number: int, waiting: asyncio.Task[Slot]) -> None:
        slot = await waiting
        order.append(number)
        await asyncio.sleep(0.1)
        slot.release()

    holds = [asyncio.create_task(hold(number, queued(gates))) for number in range(5)]
    await asyncio.sleep(0.5)
    assert gates.waiting("m") == 5
    first.release()
    await asyncio.gather(*holds)
    assert order == [0, 1, 2, 3, 4]
    assert (gates.in_use("m"), gates.queued_bytes) == (0, 0)


@virtual
async def test_nobody_overtakes_the_queue() -> None:
    gates = admission(slots=1)
    first = entered(gates)
    waiting = queued(gates)
    await asyncio.sleep(0)
    first.release()
    late = queued(gates)
    await asyncio.sleep(0)
    assert waiting.done()
    assert not late.done()
    (await waiting).release()
    (await late).release()


@virtual
async def test_time_in_the_queue_is_measured_and_limited() -> None:
    gates = admission(slots=1, queue_timeout_ms=2_000)
    first = entered(gates)
    waiting, late = queued(gates), queued(gates)
    await asyncio.sleep(1.5)
    first.release()
    slot = await waiting
    assert slot.queue_time_us == 1_500_000
    with pytest.raises(BpmnError, match=r"waited 2000 ms .* limits\.queue_timeout_ms is 2000") as refused:
        await late
    assert refused.value.code == Code.QUEUE_TIMEOUT
    assert refused.value.retry_after_ms is not None
    slot.release()
    assert (gates.in_use("m"), gates.waiting("m"), gates.queued_bytes) == (0, 0, 0)


@virtual
async def test_the_requests_own_deadline_ends_the_wait_first() -> None:
    gates = admission(slots=1)
    slot = entered(gates)
    with pytest.raises(BpmnError, match="the request's deadline passed after 300 ms") as refused:
        await queued(gates, deadline_us=300_000)
    assert refused.value.code == Code.DEADLINE_EXCEEDED
    slot.release()


@virtual
async def test_a_full_queue_refuses_at_once_and_names_the_knob() -> None:
    gates = admission(slots=1, queue_entries=2)
    slot = entered(gates)
    waiting = [queued(gates), queued(gates)]
    await asyncio.sleep(0)
    with pytest.raises(BpmnError) as refused:
        gates.enter("m", 10, now_us() + FAR_US)
    assert refused.value.code == Code.QUEUE_FULL
    assert refused.value.message == (
        "the queue of model `m` is full: limits.queue_entries is 2 and 2 requests wait; "
        "1 run (limits.max_concurrency is 1)"
    )
    assert refused.value.retry_after_ms == 5_000
    slot.release()
    for each in waiting:
        (await each).release()


@virtual
async def test_waiting_bytes_are_limited_over_all_models() -> None:
    gates = admission(slots=1, queue_bytes=100)
    slots = [entered(gates), entered(gates, "own")]
    waiting = queued(gates, size_bytes=60)
    with pytest.raises(BpmnError, match=r"limits\.queue_bytes is 100, requests of 60 bytes wait and this one has 50"):
        gates.enter("own", 50, now_us() + FAR_US)
    for slot in slots:
        slot.release()
    (await waiting).release()
    assert gates.queued_bytes == 0


@virtual
async def test_retry_after_follows_the_measured_drain_rate() -> None:
    gates = admission(slots=1, queue_entries=4)
    slot = entered(gates)
    for _ in range(20):
        await asyncio.sleep(0.2)
        slot.release()
        slot = entered(gates)
    waiting = [queued(gates) for _ in range(4)]
    with pytest.raises(BpmnError) as refused:
        gates.enter("m", 10, now_us() + FAR_US)
    retry_after_ms = refused.value.retry_after_ms
    assert retry_after_ms is not None
    assert abs(retry_after_ms - 5 * 200) <= 60
    slot.release()
    for each in waiting:
        (await each).release()


@virtual
async def test_a_limit_of_its_own_is_named_as_the_models() -> None:
    gates = admission(queue_entries=0)
    slot = entered(gates, "own")
    with pytest.raises(BpmnError, match=r"models\.own\.max_concurrency is 1"):
        gates.enter("own", 1, now_us() + FAR_US)
    slot.release()


@virtual
async def test_a_cancelled_wait_leaves_nothing_behind() -> None:
    gates = admission(slots=1)
    slot = entered(gates)
    waiting = queued(gates)
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert (gates.waiting("m"), gates.queued_bytes) == (0, 0)
    granted = queued(gates)
    await asyncio.sleep(0)
    slot.release()
    granted.cancel()
    await asyncio.gather(granted, return_exceptions=True)
    assert gates.in_use("m") == 0


@pytest.mark.parametrize("seed", range(20))
def test_whatever_happens_every_slot_and_byte_comes_back(seed: int) -> None:
    async def main() -> None:
        dice, gates = Random(seed), admission(slots=3, queue_entries=10, queue_bytes=200, queue_timeout_ms=400)

        async def request() -> None:
            try:
                slot = gates.enter("m", dice.randrange(50), now_us() + dice.randrange(1_000_000))
                if not isinstance(slot, Slot):
                    slot = await slot
            except BpmnError:
                return
            assert gates.in_use("m") <= 3
            try:
                await asyncio.sleep(dice.random() / 5)
            finally:
                slot.release()

        running = []
        for _ in range(150):
            running.append(asyncio.create_task(request()))
            await asyncio.sleep(dice.random() / 50)
            if dice.random() < 0.3:
                dice.choice(running).cancel()
        await asyncio.gather(*running, return_exceptions=True)
        assert (gates.in_use("m"), gates.waiting("m"), gates.queued_bytes) == (0, 0, 0)

    run_virtual(main())


@virtual
async def test_idle_time_does_not_count_as_a_slow_drain() -> None:
    gates = admission(slots=1, queue_entries=4)
    for _ in range(20):
        await asyncio.sleep(60)
        slot = entered(gates)
        await asyncio.sleep(0.2)
        slot.release()
    slot = entered(gates)
    waiting = [queued(gates) for _ in range(4)]
    with pytest.raises(BpmnError) as refused:
        gates.enter("m", 10, now_us() + FAR_US)
    assert refused.value.retry_after_ms == 5 * 200
    slot.release()
    for each in waiting:
        (await each).release()
