"""Refusals: a row each, a count while the journal takes nothing, and nothing lost in between."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from engine.api.refusals import COUNTS_KEPT, Refusals
from engine.errors import Code, Rejected
from engine.inference import Operation
from engine.keys import KeySource
from engine.records import KEY_EPOCH_MS, Refusal, Tags
from engine.store.journal import Commit, MemoryJournal
from engine.telemetry import OTHER, Telemetry
from tests.loop import run_virtual

FULL = Rejected(Code.OVERLOADED, "full")
START_US = (KEY_EPOCH_MS + 1_000_000) * 1000


class Store(MemoryJournal):
    """Takes rows only while `open_for_rows`; remembers which refusals it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.open_for_rows = True
        self.refused: list[Refusal] = []

    @property
    def available(self) -> bool:
        return self.open_for_rows and super().available

    def refuse(self, refusal: Refusal, at_us: int) -> Commit:
        self.refused.append(refusal)
        return super().refuse(refusal, at_us)


async def recording(act: Callable[[Refusals, Store], Awaitable[None]]) -> list[Refusal]:
    store = Store()
    await store.start()
    loop = asyncio.get_running_loop()
    keys = KeySource(1, lambda: KEY_EPOCH_MS + int(loop.time() * 1000))
    refusals = Refusals(store, keys, Telemetry(), lambda: START_US + int(loop.time() * 1_000_000))
    await act(refusals, store)
    refusals.close()
    await store.close()
    assert len(store.stored) == len(store.refused)
    return store.refused


async def refuse(refusals: Refusals, tenant: str = "acme") -> None:
    await refusals.record(FULL, Tags(tenant), "0193a5c0-0000-7000-8000-000000000000", "chat", Operation.INFER, 429)


def test_a_refusal_is_durable_before_it_is_said() -> None:
    async def act(refusals: Refusals, store: Store) -> None:
        await refuse(refusals)
        assert len(store.stored) == 1

    (fact,) = run_virtual(recording(act))
    assert (fact.error_code, fact.http_status, fact.model, fact.times) == ("OVERLOADED", 429, "chat", 1)


def test_refusals_during_an_outage_are_counted_and_written_once_the_store_is_back() -> None:
    async def act(refusals: Refusals, store: Store) -> None:
        store.open_for_rows = False
        for _ in range(5):
            await refuse(refusals)
        await refuse(refusals, "other-tenant")
        assert not store.refused
        await asyncio.sleep(3)
        store.open_for_rows = True
        await asyncio.sleep(2)
        assert store.refused

    facts = run_virtual(recording(act))
    assert sorted((fact.tags.tenant, fact.times) for fact in facts) == [("acme", 5), ("other-tenant", 1)]
    assert {fact.request_id for fact in facts} == {""}


def test_counts_are_bounded_however_many_tenants_knock() -> None:
    async def act(refusals: Refusals, store: Store) -> None:
        store.open_for_rows = False
        for number in range(COUNTS_KEPT + 500):
            await refuse(refusals, f"tenant-{number}")
        store.open_for_rows = True

    facts = run_virtual(recording(act))
    assert sum(fact.times for fact in facts) == COUNTS_KEPT + 500
    assert len(facts) <= COUNTS_KEPT + 1
    assert any(fact.tags.tenant == OTHER and fact.times == 500 for fact in facts)
