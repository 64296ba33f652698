"""Leases: one owner per writer number."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable

import pytest
from sqlalchemy import text

from engine.errors import ConchError
from engine.keys import KeySource, key_time_ms
from engine.store import leases, owner
from engine.store.database import Database, connect, conninfo_of

pytestmark = pytest.mark.postgres


def running(url: str, scenario: Callable[[Database], Awaitable[None]]) -> None:
    async def main() -> None:
        database = await connect(url)
        try:
            async with asyncio.timeout(60):
                await scenario(database)
        finally:
            await database.close()

    asyncio.run(main())


def test_processes_that_start_together_get_writer_numbers_of_their_own(audit_url: str) -> None:
    async def scenario(database: Database) -> None:
        held = await asyncio.gather(*(leases.acquire(database, "0.1.0") for _ in range(6)))
        assert len({lease.writer_id for lease in held}) == 6
        assert sorted(lease.epoch for lease in held) == [1, 2, 3, 4, 5, 6]

    running(audit_url, scenario)


def test_a_released_number_is_used_again_with_younger_keys_under_a_new_epoch(audit_url: str) -> None:
    async def scenario(database: Database) -> None:
        async with database.begin() as connection:
            await connection.execute(
                text(
                    "INSERT INTO engine_process (epoch, writer_id, owner, engine_version, acquired_at, leased_until)"
                    " SELECT id + 1, id, 'x', '', now(), now() + interval '1 hour' FROM generate_series(0, 510) id"
                )
            )
        first = await leases.acquire(database, "0.1.0")
        with pytest.raises(ConchError, match="all 512"):
            await leases.acquire(database, "0.1.0")
        await first.release(recovered=True)
        assert first.lapsed
        second = await leases.acquire(database, "0.1.0")
        assert (second.writer_id, second.epoch) == (first.writer_id, first.epoch + 1)
        early = KeySource(second.writer_id, lambda: 1_800_000_000_000 - 10**10, second.not_before_ms)
        assert key_time_ms(early.mint()) > second.not_before_ms > 0

    running(audit_url, scenario)


def test_a_lease_lives_by_its_renewals(audit_url: str) -> None:
    async def scenario(database: Database) -> None:
        lease = await leases.acquire(database, "0.1.0", lease_s=30)
        assert not lease.lapsed
        await lease.renew()
        short = await leases.acquire(database, "0.1.0", lease_s=0)
        assert short.lapsed

    running(audit_url, scenario)


def test_a_lease_that_ran_out_can_be_renewed_until_somebody_takes_its_place(audit_url: str) -> None:
    async def scenario(database: Database) -> None:
        lease = await leases.acquire(database, "0.1.0")
        expire = text("UPDATE engine_process SET leased_until = now() - interval '1 hour'")
        async with database.begin() as connection:
            await connection.execute(expire)
        await lease.renew()
        async with database.begin() as connection:
            await connection.execute(expire)
            taken = "INSERT INTO engine_process SELECT epoch + 1, writer_id, 'x', '', now(), now() FROM engine_process"
            await connection.execute(text(taken))
        with pytest.raises(leases.LeaseLost):
            await lease.renew()

    running(audit_url, scenario)


def test_the_lease_of_a_process_that_is_gone_need_not_run_out() -> None:
    script = (
        "import sys; from engine.store.owner import this_process; print(this_process(), flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        name = process.stdout.readline().strip()
        assert not owner.is_gone(name)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert owner.is_gone(name)  # dead, though its parent has not collected it yet
    assert owner.is_gone(name)
    assert not owner.is_gone(owner.this_process())
    assert not owner.is_gone("elsewhere|x|y/1/2")
    assert not owner.is_gone(name.rpartition("/")[0] + "/unknown")


def test_the_heir_of_a_killed_process_on_this_machine_takes_over_at_once(audit_url: str) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()

    async def scenario(database: Database) -> None:
        machine = owner.this_process().partition("/")[0]
        old = await leases.acquire(database, "0.1.0", owner=f"{machine}/{process.pid}/1")
        heir = await leases.acquire(database, "0.1.0")
        assert [dead.epoch for dead in await leases.claim_dead(database, heir)] == [old.epoch]

    running(audit_url, scenario)


@pytest.mark.parametrize("url", ["mysql://x/y", "x", "postgresql:/x"])
def test_what_is_no_postgres_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="postgresql://"):
        conninfo_of(url)
