"""The journal while Postgres fails under it: connections cut at the worst moments, outages, rows that it refuses."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from psycopg import errors

from engine.errors import Code, ConchError, LeaseLost, Rejected
from engine.records import Tags
from engine.store import leases, partitions
from engine.store.database import Database, RawConnection, open_raw
from engine.store.journal import JournalLimits
from engine.store.postgres_journal import PostgresJournal
from tests.audit_samples import Life, eventually, keys, live
from tests.postgres.proxy import Moment, Proxy

pytestmark = pytest.mark.postgres


class Bench:
    """A journal behind a proxy, and a connection of its own to look at what was stored."""

    def __init__(self, proxy: Proxy, journal: PostgresJournal, look: RawConnection, database: Database) -> None:
        self.proxy = proxy
        self.journal = journal
        self.look = look
        self.database = database
        self.source = keys()

    async def ask(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        return await (await self.look.execute(statement, values or None)).fetchall()

    async def do(self, statement: str) -> None:
        await self.look.execute(statement)

    async def stored(self, life: Life) -> int:
        return int((await self.ask("SELECT count(*) FROM record WHERE process_instance_key = %s", life.key))[0][0])

    async def is_whole(self, life: Life) -> bool:
        """Every fact and every command, each exactly once (the primary key forbids twice)."""
        rows = await self.ask(
            "SELECT count(*) FILTER (WHERE position > 0), sum(jsonb_array_length(payload)) FROM record"
            " WHERE process_instance_key = %s",
            life.key,
        )
        return rows == [(len(life.facts), len(life.records) - len(life.facts))]

    async def end_the_writer(self) -> int:
        found = await self.ask(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
            " WHERE datname = current_database() AND query LIKE 'COPY record%'"
        )
        return int(found[0][0])


@asynccontextmanager
async def bench(url: str, limits: JournalLimits | None = None) -> AsyncIterator[Bench]:
    database, look = Database(url), await open_raw(url)
    async with Proxy(url) as proxy:
        journal = PostgresJournal(proxy.url, await leases.acquire(database, "0.1.0"), limits)
        await journal.start()
        try:
            yield Bench(proxy, journal, look, database)
        finally:
            await journal.close(wait_s=1)
            await look.close()
            await database.close()


def running(url: str, scenario: Callable[[Bench], Awaitable[None]], limits: JournalLimits | None = None) -> None:
    async def main() -> None:
        async with asyncio.timeout(60), bench(url, limits) as made:
            await scenario(made)

    asyncio.run(main())


@pytest.mark.parametrize(("moment", "replayed"), [("before_commit", 0), ("after_commit", 1)])
def test_a_connection_cut_around_the_commit_stores_every_row_exactly_once(
    audit_url: str, moment: Moment, replayed: int
) -> None:
    async def scenario(on: Bench) -> None:
        life = live(on.source)
        on.proxy.cut_next = moment
        await on.journal.append(life.context, life.records, flush=True)
        assert on.proxy.cuts == 1
        assert on.journal.stats.replayed_batches == replayed
        assert await on.is_whole(life)
        assert on.journal.available

    running(audit_url, scenario)


def test_backends_killed_at_random_moments_cost_and_double_nothing(audit_url: str) -> None:
    seed = int(os.environ.get("CONCH_SEED") or random.SystemRandom().getrandbits(32))
    print(f"CONCH_SEED={seed}")
    dice = random.Random(seed)

    async def scenario(on: Bench) -> None:
        lives = [live(on.source, failing_attempts=dice.randrange(3)) for _ in range(60)]

        async def drive(life: Life) -> None:
            for step in life.steps:
                commit = on.journal.append(life.context, step, flush=dice.random() < 0.7)
                if dice.random() < 0.5:
                    await commit
            await on.journal.append(life.context, (), flush=True)

        async def kill() -> None:
            for _ in range(25):
                await on.end_the_writer()
                if dice.random() < 0.5:
                    on.proxy.cut_next = dice.choice(("before_commit", "after_commit"))
                await asyncio.sleep(dice.random() * 0.02)

        await asyncio.gather(kill(), *map(drive, lives))
        assert on.journal.stats.outages > 0
        for life in lives:
            assert await on.is_whole(life)

    running(audit_url, scenario)


def test_an_outage_is_told_outlasted_and_made_good(audit_url: str) -> None:
    async def scenario(on: Bench) -> None:
        life, later = live(on.source), live(on.source)
        await on.proxy.close()
        commit = on.journal.append(life.context, life.records, flush=True)
        with pytest.raises(Rejected) as told:
            await commit
        assert told.value.code == Code.JOURNAL_UNAVAILABLE
        assert told.value.retry_after_ms
        assert not on.journal.available
        assert on.journal.last_error
        late = on.journal.append(later.context, later.records, flush=True)
        with pytest.raises(Rejected):
            await late

        await on.proxy.open()
        await eventually(lambda: on.journal.available)
        await eventually(lambda: on.is_whole(life))
        await eventually(lambda: on.is_whole(later))
        assert on.journal.room == on.journal.limits.max_rows

    running(audit_url, scenario, JournalLimits(outage_wait_s=0.1))


def test_a_short_outage_only_takes_time(audit_url: str) -> None:
    async def scenario(on: Bench) -> None:
        life = live(on.source)
        await on.proxy.close()
        commit = on.journal.append(life.context, life.records, flush=True)
        await eventually(lambda: not on.journal.available)
        await on.proxy.open()
        await commit
        assert await on.is_whole(life)

    running(audit_url, scenario)


def test_closing_during_an_outage_says_how_many_rows_are_lost(audit_url: str) -> None:
    async def scenario(on: Bench) -> None:
        life = live(on.source)
        await on.proxy.close()
        commit = on.journal.append(life.context, life.records, flush=True)
        assert await on.journal.close(wait_s=0.1) == len(life.facts) + 1
        with pytest.raises(Rejected):
            await commit

    running(audit_url, scenario)


def test_a_missing_partition_is_made_and_the_rows_are_stored(audit_url: str) -> None:
    async def scenario(on: Bench) -> None:
        life = live(on.source)
        await on.do(f"DROP TABLE {partitions.name_of(partitions.day_of(life.key))}")
        await on.journal.append(life.context, life.records, flush=True)
        assert await on.is_whole(life)
        assert on.journal.stats.dead_letters == 0

    running(audit_url, scenario)


def test_a_row_that_postgres_refuses_goes_to_the_dead_letters_and_its_neighbours_are_stored(audit_url: str) -> None:
    async def scenario(on: Bench) -> None:
        await on.do("ALTER TABLE record ADD CONSTRAINT picky CHECK (NOT (tenant = 'odd' AND kind = 'decision'))")
        odd, neighbours = live(on.source, tags=Tags("odd")), [live(on.source) for _ in range(5)]
        commits = [on.journal.append(each.context, each.records, flush=False) for each in neighbours]
        refused = on.journal.append(odd.context, odd.records, flush=True)
        for commit in commits:
            await commit
        with pytest.raises(Rejected) as told:
            await refused
        assert told.value.code == Code.ENGINE_FAULT
        for each in neighbours:
            assert await on.is_whole(each)
        assert await on.stored(odd) == len(odd.facts)  # all but one, and the row of commands
        ((key, sqlstate, error),) = await on.ask("SELECT process_instance_key, sqlstate, error FROM dead_letter")
        assert (key, sqlstate) == (odd.key, errors.CheckViolation.sqlstate)
        assert "picky" in error
        assert on.journal.stats.dead_letters == 1
        assert on.journal.available

    running(audit_url, scenario)


def test_a_dead_letter_is_remembered_when_its_commit_was_interrupted(audit_url: str) -> None:
    async def scenario(on: Bench) -> None:
        await on.do("ALTER TABLE record ADD CONSTRAINT picky CHECK (tenant <> 'odd' OR kind <> 'decision')")
        odd = live(on.source, tags=Tags("odd"))
        lock = await open_raw(on.database.conninfo, autocommit=False)
        await lock.execute("LOCK TABLE dead_letter IN EXCLUSIVE MODE")  # stops the writer within its transaction
        refused = on.journal.append(odd.context, odd.records, flush=True)
        waits = (
            "SELECT count(*) = 1 FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%INTO dead_letter%'"
        )

        async def is_waiting() -> bool:
            return bool((await on.ask(waits))[0][0])

        await eventually(is_waiting)
        on.proxy.cut()
        await lock.close()
        with pytest.raises(Rejected):
            await refused
        assert await on.ask("SELECT count(*) FROM dead_letter") == [(1,)]
        assert await on.stored(odd) == len(odd.facts)

    running(audit_url, scenario)


def test_a_table_of_another_version_is_an_outage_and_buries_no_row(audit_url: str) -> None:
    async def scenario(on: Bench) -> None:
        await on.do("ALTER TABLE record RENAME COLUMN reason TO motive")
        life = live(on.source)
        commit = on.journal.append(life.context, life.records, flush=True)
        await eventually(lambda: not on.journal.available)
        await on.do("ALTER TABLE record RENAME COLUMN motive TO reason")
        await commit
        assert await on.is_whole(life)
        assert await on.ask("SELECT count(*) FROM dead_letter") == [(0,)]

    running(audit_url, scenario)


def test_a_process_that_was_taken_for_dead_writes_nothing_more(audit_url: str) -> None:
    async def main() -> None:
        database, look = Database(audit_url), await open_raw(audit_url)
        old = await leases.acquire(database, "0.1.0", owner="elsewhere", lease_s=0)
        journal = PostgresJournal(audit_url, old)
        await journal.start()
        await look.execute("UPDATE engine_process SET leased_until = now() - interval '1 hour'")
        new = await leases.acquire(database, "0.1.0")
        assert [dead.epoch for dead in await leases.claim_dead(database, new)] == [old.epoch]

        life = live(keys())
        with pytest.raises(LeaseLost):
            await journal.append(life.context, life.records, flush=True)
        with pytest.raises(LeaseLost):
            journal.append(life.context, life.records, flush=True)
        assert not journal.available
        assert await (await look.execute("SELECT count(*) FROM record")).fetchall() == [(0,)]
        await journal.close()
        await look.close()
        await database.close()

    asyncio.run(main())


@pytest.mark.parametrize("setting", ["off", "local"])
def test_a_commit_waits_for_the_disk_whatever_the_default_says(audit_url: str, setting: str) -> None:
    async def scenario(on: Bench) -> None:
        name = (await on.ask("SELECT current_database()"))[0][0]
        await on.do(f'ALTER DATABASE "{name}" SET synchronous_commit = {setting}')
        connection = await on.journal._connect()
        rows = await (await connection.execute("SHOW synchronous_commit")).fetchall()
        await connection.close()
        assert rows == [("on",)]

    running(audit_url, scenario)


def test_a_server_without_fsync_is_refused_unless_a_flag_accepts_it(audit_url: str) -> None:
    async def main() -> None:
        database, look = Database(audit_url), await open_raw(audit_url)
        lease = await leases.acquire(database, "0.1.0")
        name = (await (await look.execute("SELECT current_database()")).fetchall())[0][0]
        # A local server never runs this way, so the database claims it: its pg_settings lies before the real one.
        await look.execute("CREATE SCHEMA lie")
        await look.execute(
            "CREATE VIEW lie.pg_settings AS SELECT name, CASE name WHEN 'fsync' THEN 'off' ELSE setting END AS setting"
            " FROM pg_catalog.pg_settings"
        )
        await look.execute(f'ALTER DATABASE "{name}" SET search_path = lie, public, pg_catalog')
        with pytest.raises(ConchError, match="fsync off"):
            await PostgresJournal(audit_url, lease).start()

        careless = PostgresJournal(audit_url, lease, allow_unsafe=True)
        await careless.start()
        life = live(keys())
        await careless.append(life.context, life.records, flush=True)
        await careless.close()
        await look.close()
        await database.close()

    asyncio.run(main())
