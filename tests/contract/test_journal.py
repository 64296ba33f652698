"""What every journal promises, in memory and in Postgres: the same tests for both."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from engine.errors import LeaseLost
from engine.records import Record, Refusal, Tags
from engine.store import leases
from engine.store.batch import Batch
from engine.store.database import Database
from engine.store.encoding import InstanceContext
from engine.store.journal import GroupCommitJournal, JournalLimits, MemoryJournal
from engine.store.postgres_journal import PostgresJournal
from tests.audit_samples import REQUEST_ID, Life, eventually, keys, live


class InMemory:
    """One store in memory that several journals write to."""

    def __init__(self) -> None:
        self._stored: dict[tuple[int, int], Any] = {}

    async def open(self, limits: JournalLimits) -> GroupCommitJournal:
        journal = MemoryJournal(limits)
        journal.stored = self._stored
        await journal.start()
        return journal

    async def rows(self, key: int) -> list[tuple[int, bool]]:
        return sorted((row.position, row.sanitized) for (owner, _), row in self._stored.items() if owner == key)

    async def close(self) -> None:
        return None


class InPostgres:
    """One database that several journals write to, each under a lease of its own."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._database = Database(url)

    async def open(self, limits: JournalLimits) -> GroupCommitJournal:
        lease = await leases.acquire(self._database, "0.1.0")
        journal = PostgresJournal(self._url, lease, limits)
        await journal.start()
        return journal

    async def rows(self, key: int) -> list[tuple[int, bool]]:
        async with self._database.engine.connect() as connection:
            found = await connection.exec_driver_sql(
                "SELECT position, coalesce(sanitized, false) FROM record"
                f" WHERE process_instance_key = {key} ORDER BY position"
            )
            return [(position, sanitized) for position, sanitized in found]

    async def close(self) -> None:
        await self._database.close()


Store = InMemory | InPostgres
Scenario = Callable[[Store], Awaitable[None]]


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.postgres)])
def run(request: pytest.FixtureRequest) -> Callable[[Scenario], None]:
    url = request.getfixturevalue("audit_url") if request.param == "postgres" else None

    def run(scenario: Scenario) -> None:
        async def main() -> None:
            store: Store = InMemory() if url is None else InPostgres(url)
            try:
                await scenario(store)
            finally:
                await store.close()

        asyncio.run(main())

    return run


LIMITS = JournalLimits()


def positions(rows: list[tuple[int, bool]]) -> list[int]:
    return [position for position, _ in rows]


def test_every_record_is_stored_once_its_commit_returns(run: Callable[[Scenario], None]) -> None:
    async def scenario(store: Store) -> None:
        journal = await store.open(LIMITS)
        life = live(keys(), failing_attempts=1)
        for step in life.steps[:-1]:
            journal.append(life.context, step, flush=False)
        commit = journal.append(life.context, life.steps[-1], flush=True)
        assert not commit.done
        await commit
        assert commit.done
        facts = [record.position for record in life.facts]
        assert [at for at in positions(await store.rows(life.key)) if at > 0] == facts
        assert await journal.close() == 0

    run(scenario)


def test_commands_of_one_batch_share_a_row_at_the_ordinal_of_the_first(run: Callable[[Scenario], None]) -> None:
    async def scenario(store: Store) -> None:
        journal = await store.open(LIMITS)
        life = live(keys())
        for step in life.steps[:3]:
            commit = journal.append(life.context, step, flush=True)
        await commit
        for step in life.steps[3:]:
            commit = journal.append(life.context, step, flush=True)
        await commit
        assert [at for at in positions(await store.rows(life.key)) if at < 0] == [-4, -1]
        await journal.close()

    run(scenario)


def test_rows_that_need_no_flush_are_stored_all_the_same(run: Callable[[Scenario], None]) -> None:
    async def scenario(store: Store) -> None:
        journal = await store.open(LIMITS)
        life = live(keys())
        await journal.append(life.context, life.steps[0], flush=False)
        assert positions(await store.rows(life.key)) == [-1, 1, 2]
        await journal.close()

    run(scenario)


def test_closing_stores_what_is_still_waiting(run: Callable[[Scenario], None]) -> None:
    async def scenario(store: Store) -> None:
        journal = await store.open(JournalLimits(batch_rows=50, linger_s=60))
        source = keys()
        lives = [live(source) for _ in range(40)]
        for life in lives:
            journal.append(life.context, life.records, flush=False)
        assert await journal.close() == 0
        for life in lives:
            assert len([at for at in positions(await store.rows(life.key)) if at > 0]) == len(life.facts)

    run(scenario)


def test_room_shrinks_to_nothing_and_what_was_admitted_still_fits(run: Callable[[Scenario], None]) -> None:
    async def scenario(store: Store) -> None:
        journal = await store.open(JournalLimits(max_rows=20, linger_s=60))
        source = keys()
        lives = [live(source) for _ in range(3)]
        assert journal.room == 20
        commits = [journal.append(each.context, each.records, flush=False) for each in lives]
        assert journal.room == 0
        journal.append(lives[0].context, (), flush=True)
        await commits[-1]
        assert journal.room == 20
        for life in lives:
            assert len(await store.rows(life.key)) == len(life.facts) + 1
        await journal.close()

    run(scenario)


def test_room_ends_with_the_bytes_too(run: Callable[[Scenario], None]) -> None:
    async def scenario(store: Store) -> None:
        journal = await store.open(JournalLimits(max_bytes=1_000, linger_s=60))
        life = live(keys())
        commit = journal.append(life.context, life.records, flush=False)
        assert journal.room == 0
        journal.append(life.context, (), flush=True)
        await commit
        assert journal.room > 0
        await journal.close()

    run(scenario)


def test_an_instance_that_another_process_wrote_to_is_lost_and_its_neighbours_are_not(
    run: Callable[[Scenario], None],
) -> None:
    async def scenario(store: Store) -> None:
        old, new = await store.open(LIMITS), await store.open(LIMITS)
        source = keys()
        taken, neighbour = live(source), live(source)
        await old.append(taken.context, taken.steps[0], flush=True)
        successor = InstanceContext(taken.key, taken.context.tags, taken.context.definition)
        await new.append(successor, taken.steps[1], flush=True)
        before = await store.rows(taken.key)

        lost = old.append(taken.context, taken.steps[1], flush=False)
        kept = old.append(neighbour.context, neighbour.records, flush=True)
        with pytest.raises(LeaseLost):
            await lost
        await kept
        with pytest.raises(LeaseLost):
            old.append(taken.context, taken.steps[2], flush=True)
        assert await store.rows(taken.key) == before
        assert len(await store.rows(neighbour.key)) == len(neighbour.facts) + 1
        await old.close()
        await new.close()

    run(scenario)


def test_a_lost_instance_loses_the_rows_that_were_already_gathered(run: Callable[[Scenario], None]) -> None:
    async def scenario(store: Store) -> None:
        old, new = await store.open(JournalLimits(batch_rows=4)), await store.open(LIMITS)
        life = live(keys())
        successor = InstanceContext(life.key, life.context.tags, life.context.definition)
        await new.append(successor, life.steps[0], flush=True)
        commits = [old.append(life.context, step, flush=True) for step in life.steps]  # several batches at once
        for commit in commits:
            with pytest.raises(LeaseLost):
                await commit
        assert positions(await store.rows(life.key)) == [-1, 1, 2]
        await old.close()
        await new.close()

    run(scenario)


def test_cancelling_one_waiter_disturbs_nobody(run: Callable[[Scenario], None]) -> None:
    async def scenario(store: Store) -> None:
        journal = await store.open(LIMITS)
        life = live(keys())
        commit = journal.append(life.context, life.records, flush=True)

        async def wait() -> None:
            await commit

        impatient, patient = asyncio.create_task(wait()), asyncio.create_task(wait())
        await asyncio.sleep(0)
        impatient.cancel()
        await patient
        await asyncio.wait((impatient,))
        assert len(await store.rows(life.key)) == len(life.facts) + 1
        await journal.close()

    run(scenario)


def test_cancelling_close_leaves_it_to_be_called_again(run: Callable[[Scenario], None]) -> None:
    async def scenario(store: Store) -> None:
        journal = await store.open(LIMITS)
        life = live(keys())
        journal.append(life.context, life.records, flush=False)
        closing = asyncio.create_task(journal.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert await journal.close() == 0
        assert len(await store.rows(life.key)) == len(life.facts) + 1

    run(scenario)


POISON = "nul \0 and half a pair \ud83d end"


@pytest.mark.parametrize(
    "life",
    [
        lambda: live(keys(), variables={"model": POISON}),
        lambda: live(keys(), variables={POISON: [{"deep": POISON}]}),
        lambda: live(keys(), results={"route": {"replica": POISON}}),
        lambda: live(keys(), tags=Tags(tenant=POISON)),
    ],
    ids=["model", "name and depth", "result", "tag"],
)
def test_what_postgres_cannot_hold_is_replaced_and_flagged(
    run: Callable[[Scenario], None], life: Callable[[], Life]
) -> None:
    async def scenario(store: Store) -> None:
        journal = await store.open(LIMITS)
        sample, neighbour = life(), live(keys(2))
        journal.append(neighbour.context, neighbour.records, flush=False)
        await journal.append(sample.context, sample.records, flush=True)
        rows = await store.rows(sample.key)
        assert len(rows) == len(sample.facts) + 1
        assert any(sanitized for _, sanitized in rows)
        assert not any(sanitized for _, sanitized in await store.rows(neighbour.key))
        await journal.close()

    run(scenario)


def test_the_six_characters_that_spell_an_escaped_nul_are_no_poison(run: Callable[[Scenario], None]) -> None:
    async def scenario(store: Store) -> None:
        journal = await store.open(LIMITS)
        life = live(keys(), variables={"harmless": "\\u0000"})
        await journal.append(life.context, life.records, flush=True)
        assert not any(sanitized for _, sanitized in await store.rows(life.key))
        await journal.close()

    run(scenario)


def test_refusals_have_rows_of_their_own(run: Callable[[Scenario], None]) -> None:
    async def scenario(store: Store) -> None:
        journal = await store.open(LIMITS)
        source = keys()
        one = Refusal(source.mint(), REQUEST_ID, Tags(), "QUEUE_FULL", 429, "The queue is full", "chat", "infer")
        many = Refusal(source.mint(), "", Tags("acme"), "JOURNAL_UNAVAILABLE", 503, "", "", "", 17)
        await journal.refuse(one, 1)
        await journal.refuse(many, 2)
        assert positions(await store.rows(one.key)) == positions(await store.rows(many.key)) == [1]
        await journal.close()

    run(scenario)


def test_a_value_that_is_no_json_is_refused_and_stores_nothing(run: Callable[[Scenario], None]) -> None:
    async def scenario(store: Store) -> None:
        journal = await store.open(LIMITS)
        life = live(keys())
        broken = [record for record in life.records if record.position > 0]
        started = broken[0].body
        bad = started._replace(start=started.start._replace(variables={"set": {1}}))  # type: ignore[union-attr]
        with pytest.raises(TypeError):
            journal.append(life.context, [Record(-1, 1, life.records[0].body), Record(1, 1, bad)], flush=True)
        assert journal.room == LIMITS.max_rows
        await journal.close()
        assert await store.rows(life.key) == []

    run(scenario)


def test_a_fault_of_the_writer_shows_as_an_outage_and_is_outlived() -> None:
    class Stumbling(MemoryJournal):
        stumbles = 1

        async def write(self, batch: Batch) -> None:
            if self.stumbles:
                self.stumbles -= 1
                raise ZeroDivisionError
            await super().write(batch)

    async def main() -> None:
        journal = Stumbling()
        await journal.start()
        life = live(keys())
        commit = journal.append(life.context, life.records, flush=True)
        await eventually(lambda: not journal.available)
        assert "ZeroDivisionError" in (journal.last_error or "")
        await commit
        assert journal.available
        assert await journal.close() == 0

    asyncio.run(main())
