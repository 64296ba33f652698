"""Claims: who looks after a dead process, and what becomes of a claim whose holder dies too."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from sqlalchemy import text

from engine.store import leases, owner
from engine.store.database import Database, connect
from engine.store.postgres_journal import PostgresJournal

pytestmark = pytest.mark.postgres

GONE = owner.this_process().rpartition("/")[0] + "/1"  # this process id, of a process that started at another time


def running(url: str, scenario: Callable[[Database], Awaitable[None]]) -> None:
    async def main() -> None:
        database = await connect(url)
        try:
            async with asyncio.timeout(60):
                await scenario(database)
        finally:
            await database.close()

    asyncio.run(main())


async def claimed(database: Database, lease: leases.Lease) -> list[int]:
    return sorted(dead.epoch for dead in await leases.claim_dead(database, lease))


def test_a_dead_process_is_looked_after_by_one_at_a_time(audit_url: str) -> None:
    async def scenario(database: Database) -> None:
        dead = await leases.acquire(database, "0.1.0", GONE)
        heirs = [await leases.acquire(database, "0.1.0") for _ in range(4)]
        claims = await asyncio.gather(*(claimed(database, heir) for heir in heirs))
        assert sorted(claims) == [[], [], [], [dead.epoch]]

    running(audit_url, scenario)


def test_a_process_that_is_gone_is_not_claimed_while_its_last_batch_may_still_be_stored(audit_url: str) -> None:
    async def scenario(database: Database) -> None:
        dead = await leases.acquire(database, "0.1.0", GONE)
        heir = await leases.acquire(database, "0.1.0")
        journal = PostgresJournal(audit_url, dead, allow_unsafe=True)
        await journal.start()
        assert await claimed(database, heir) == []
        await journal.close()
        epochs: list[int] = []
        while not epochs:  # the server ends the connection's process a moment later
            epochs = await claimed(database, heir)
        assert epochs == [dead.epoch]

    running(audit_url, scenario)


def test_a_claimer_may_go_on_where_it_was_interrupted(audit_url: str) -> None:
    async def scenario(database: Database) -> None:
        dead = await leases.acquire(database, "0.1.0", GONE)
        heir = await leases.acquire(database, "0.1.0")
        assert await claimed(database, heir) == await claimed(database, heir) == [dead.epoch]
        await leases.mark_recovered(database, leases.DeadProcess(dead.epoch, dead.writer_id, GONE))
        assert await claimed(database, heir) == []

    running(audit_url, scenario)


def test_the_claim_of_a_process_that_is_gone_is_void(audit_url: str) -> None:
    async def scenario(database: Database) -> None:
        dead = await leases.acquire(database, "0.1.0", GONE)
        heir = await leases.acquire(database, "0.1.0", GONE)
        assert await claimed(database, heir) == [dead.epoch]
        second = await leases.acquire(database, "0.1.0", GONE)
        assert await claimed(database, second) == [dead.epoch, heir.epoch]
        await leases.mark_recovered(database, leases.DeadProcess(heir.epoch, heir.writer_id, GONE))
        third = await leases.acquire(database, "0.1.0")
        assert await claimed(database, third) == [dead.epoch, second.epoch]

    running(audit_url, scenario)


@pytest.mark.parametrize(
    "end",
    [
        "released_at = now(), recovered_at = now()",
        "leased_until = now() - interval '1 hour'",
    ],
    ids=["released", "lapsed"],
)
def test_the_claim_of_a_process_that_has_ended_is_void(audit_url: str, end: str) -> None:
    async def scenario(database: Database) -> None:
        dead = await leases.acquire(database, "0.1.0", GONE)
        heir, second = await leases.acquire(database, "0.1.0"), await leases.acquire(database, "0.1.0")
        assert await claimed(database, heir) == [dead.epoch]
        assert await claimed(database, second) == []
        async with database.begin() as connection:
            await connection.execute(text(f"UPDATE engine_process SET {end} WHERE epoch = {heir.epoch}"))
        assert dead.epoch in await claimed(database, second)

    running(audit_url, scenario)


def test_what_a_process_could_not_close_is_left_to_others_once_its_claim_is_over(audit_url: str) -> None:
    async def scenario(database: Database) -> None:
        dead = await leases.acquire(database, "0.1.0", GONE)
        old, new = [await leases.acquire(database, version) for version in ("0.1.0", "0.2.0")]
        assert [each.epoch for each in await leases.claim_dead(database, old, claim_s=0)] == [dead.epoch]
        assert await leases.claim_dead(database, old, leave_epochs=[dead.epoch]) == []
        assert await claimed(database, new) == [dead.epoch]

    running(audit_url, scenario)
