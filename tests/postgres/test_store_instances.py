"""Instances in the store: read back whole, replayed byte for byte, seen by analysts, found when left over."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import pytest
from sqlalchemy import text

from engine.api.exchange import mint_request_id
from engine.core.replay import derive_records
from engine.keys import KeySource
from engine.records import Refusal, Tags
from engine.store import leases, partitions
from engine.store.canonical import Difference, differences, rows_from_records
from engine.store.database import Database, connect, open_raw
from engine.store.encoding import InstanceContext
from engine.store.postgres_journal import PostgresJournal
from engine.store.queries import Queries
from tests.audit_samples import REQUEST_ID, Life, keys, live, program

pytestmark = pytest.mark.postgres


class Audit(NamedTuple):
    database: Database
    journal: PostgresJournal
    queries: Queries
    lease: leases.Lease
    keys: KeySource

    async def store(self, life: Life) -> Life:
        for step in life.steps:
            commit = self.journal.append(life.context, step, flush=True)
            if len(life.steps) % 2:
                await commit  # every command in a row of its own
        await commit
        return life

    async def ask(self, statement: str) -> list[dict[str, Any]]:
        async with self.database.engine.connect() as connection:
            return [dict(row) for row in (await connection.execute(text(statement))).mappings()]

    async def replayed(self, key: int) -> list[Difference]:
        instance = await self.queries.load_instance(key)
        assert instance is not None
        records = derive_records(program(), [(each.command, each.at_us) for each in instance.commands])
        derived = rows_from_records(InstanceContext.of_start(instance.start), records)
        return differences(key, await self.queries.stored_rows(key), derived)


@asynccontextmanager
async def audit(url: str) -> AsyncIterator[Audit]:
    database = await connect(url)
    lease = await leases.acquire(database, "0.1.0")
    journal = PostgresJournal(url, lease)
    await journal.start()
    try:
        yield Audit(database, journal, Queries(database), lease, keys(lease.writer_id))
    finally:
        await journal.close()
        await database.close()


def running(url: str, scenario: Callable[[Audit], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(60), audit(url) as made:
            await scenario(made)

    asyncio.run(main())


ODD_VALUES = {
    "exact": [Decimal("0.10"), Decimal("1E+2"), Decimal("-0.0"), 2**80, -(2**63)],
    "text": "Ünïcödé \\u0000 \U0001f41a \n",
    "zz": {"b": 1, "a": {"nested": [None, True, {}]}, "": ""},
}


def test_an_instance_is_read_back_with_the_very_commands_and_facts(audit_url: str) -> None:
    async def scenario(on: Audit) -> None:
        life = await on.store(live(on.keys, failing_attempts=1, variables=ODD_VALUES))
        stored = await on.queries.load_instance(life.key)
        assert stored is not None
        assert stored.definition == life.context.definition
        assert stored.ended
        sent = [(-each.position, each.at_us, each.body) for each in life.records if each.position < 0]
        assert [tuple(each) for each in stored.commands] == sent
        assert [fact["position"] for fact in stored.facts] == [each.position for each in life.facts]
        assert stored.facts[0]["variables"]["exact"][0] == Decimal("0.10")
        assert await on.queries.load_instance(life.key + 1) is None

    running(audit_url, scenario)


@pytest.mark.parametrize("failing_attempts", [0, 2])
def test_replay_derives_every_stored_row_byte_for_byte(audit_url: str, failing_attempts: int) -> None:
    async def scenario(on: Audit) -> None:
        life = await on.store(live(on.keys, failing_attempts=failing_attempts, variables=ODD_VALUES))
        assert await on.replayed(life.key) == []
        assert len(await on.queries.stored_rows(life.key)) == len(life.facts)

    running(audit_url, scenario)


def test_replay_agrees_about_an_instance_whose_values_had_to_be_cleaned(audit_url: str) -> None:
    async def scenario(on: Audit) -> None:
        life = await on.store(live(on.keys, variables={"model": "a\0b\ud800"}, tags=Tags("t\0")))
        assert await on.replayed(life.key) == []

    running(audit_url, scenario)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE record SET payload = jsonb_set(payload, '{0,7,model}', '\"other\"') WHERE position = -1",
        "UPDATE record SET reason = 'because' WHERE kind = 'decision'",
        "UPDATE record SET cost_usd = 0 WHERE kind = 'usage'",
        "UPDATE record SET recorded_at = recorded_at + interval '1 microsecond' WHERE position = 5",
        "DELETE FROM record WHERE position = 3",
        "UPDATE record SET message = '' WHERE kind = 'attempt'",
    ],
    ids=["command", "reason", "cost", "microsecond", "deleted row", "empty for null"],
)
def test_replay_finds_any_change_of_a_command_or_a_row(audit_url: str, change: str) -> None:
    async def scenario(on: Audit) -> None:
        life = await on.store(live(on.keys))
        async with on.database.begin() as connection:
            assert (await connection.exec_driver_sql(change)).rowcount > 0
        assert await on.replayed(life.key) != []

    running(audit_url, scenario)


def test_analysts_see_a_retried_request_as_it_was(audit_url: str) -> None:
    async def scenario(on: Audit) -> None:
        life = await on.store(live(on.keys, failing_attempts=1))
        (request,) = await on.ask("SELECT * FROM audit.requests")
        expected = {
            "process_instance_key": life.key,
            "tenant": "acme",
            "product": "search",
            "feature": "answer",
            "operation": "generate",
            "model": "chat",
            "state": "completed",
            "succeeded": True,
            "http_status": 200,
            "attempts": 2,
            "retries": 1,
            "fell_back": False,
            "answered_by_replica": "b",
            "input_tokens": 12,
            "output_tokens": 5,
            "cost_usd": Decimal("0.0000480"),
            "unpriced_usage": 0,
            "incomplete": False,
        }
        assert {name: request[name] for name in expected} == expected
        first, second = await on.ask("SELECT * FROM audit.attempts ORDER BY attempt_no")
        assert (first["replica"], first["outcome"], first["grpc_status"]) == ("a", "error", "UNAVAILABLE")
        assert (second["outcome"], second["ttft_us"], second["tpot_us"]) == ("ok", 100, 125)
        steps = [row["element_id"] for row in await on.ask("SELECT element_id FROM audit.steps ORDER BY position")]
        assert steps.count("infer") == 2
        assert {"attempt_failed", "may_retry", "back_off"} <= set(steps)
        (route,) = await on.ask("SELECT * FROM audit.step_latency WHERE element_id = 'route'")
        assert (route["passed"], route["p50_us"]) == (2, 1000)
        assert len(await on.ask("SELECT * FROM audit.decisions")) == 2
        assert len(await on.ask("SELECT * FROM audit.usage")) == 2

    running(audit_url, scenario)


def test_a_request_without_its_end_or_with_a_gap_is_incomplete(audit_url: str) -> None:
    async def scenario(on: Audit) -> None:
        open_life = await on.store(live(on.keys, until_step=3))
        holed = await on.store(live(on.keys))
        async with on.database.begin() as connection:
            await connection.execute(
                text("DELETE FROM record WHERE process_instance_key = :key AND position = 4"), {"key": holed.key}
            )
        rows = await on.ask("SELECT process_instance_key AS key, state, incomplete FROM audit.requests")
        assert {row["key"]: (row["state"], row["incomplete"]) for row in rows} == {
            open_life.key: ("active", True),
            holed.key: ("completed", True),
        }

    running(audit_url, scenario)


def test_a_request_that_another_model_was_tried_for_fell_back(audit_url: str) -> None:
    async def scenario(on: Audit) -> None:
        await on.store(live(on.keys, variables={"model": "chat-large"}))
        (request,) = await on.ask("SELECT fell_back, model, answered_by_model FROM audit.requests")
        assert request == {"fell_back": True, "model": "chat-large", "answered_by_model": "chat"}

    running(audit_url, scenario)


def test_refusals_are_seen_and_found_by_their_request_id(audit_url: str) -> None:
    async def scenario(on: Audit) -> None:
        other_id = mint_request_id(time.time_ns() // 1000)
        refusal = Refusal(on.keys.mint(), other_id, Tags(), "QUEUE_FULL", 429, "The queue is full", "chat", "infer")
        await on.journal.refuse(refusal, 1_700_000_000_000_000)
        life = await on.store(live(on.keys))
        (row,) = await on.ask("SELECT * FROM audit.refusals")
        assert (row["error_code"], row["http_status"], row["operation"], row["refusals"]) == (
            "QUEUE_FULL",
            429,
            "infer",
            1,
        )
        assert [(each.key, each.kind) for each in await on.queries.find_request(other_id)] == [(refusal.key, "refusal")]
        assert [each.key for each in await on.queries.find_request(REQUEST_ID)] == [life.key]
        assert await on.queries.find_request("no uuid") == []
        assert await on.queries.find_request("ffffffff-ffff-7fff-bfff-ffffffffffff") == []
        assert await on.queries.load_instance(refusal.key) is None

    running(audit_url, scenario)


def test_a_request_of_any_uuid_is_found(audit_url: str) -> None:
    async def scenario(on: Audit) -> None:
        other_id = str(uuid.uuid4())
        refusal = Refusal(on.keys.mint(), other_id, Tags(), "QUEUE_FULL", 429, "The queue is full", "chat", "infer")
        await on.journal.refuse(refusal, 1_700_000_000_000_000)
        assert [each.key for each in await on.queries.find_request(other_id)] == [refusal.key]

    running(audit_url, scenario)


def test_what_a_dead_process_left_open_is_found_and_closed_once(audit_url: str) -> None:
    async def scenario(on: Audit) -> None:
        await on.store(live(on.keys))
        left = await on.store(live(on.keys, until_step=4))
        heir = await leases.acquire(on.database, "0.1.0")
        assert await leases.claim_dead(on.database, heir) == []
        async with on.database.begin() as connection:  # its owner is another machine, last heard of a minute ago
            await connection.execute(
                text(
                    "UPDATE engine_process SET owner = 'elsewhere', leased_until = now() - interval '1 minute'"
                    f" WHERE epoch = {on.lease.epoch}"
                )
            )
        (dead,) = await leases.claim_dead(on.database, heir)
        assert (dead.epoch, dead.writer_id) == (on.lease.epoch, on.lease.writer_id)
        assert await leases.open_instances(on.database, dead) == [left.key]
        other = await leases.acquire(on.database, "0.1.0")
        assert await leases.claim_dead(on.database, other) == []  # somebody is looking after it
        await leases.mark_recovered(on.database, dead)
        with pytest.raises(leases.LeaseLost):
            await on.lease.renew()

    running(audit_url, scenario)


def test_looking_for_a_request_or_for_what_a_dead_process_left_open_leaves_older_days_alone(audit_url: str) -> None:
    """Another session holds an older day for itself, as retention does when it drops one."""

    async def scenario(on: Audit) -> None:
        left = await on.store(live(on.keys, until_step=4))
        today = partitions.day_of(left.key)
        dead = leases.DeadProcess(on.lease.epoch, on.lease.writer_id, "elsewhere")
        older = await open_raw(on.database.conninfo, autocommit=False)
        try:
            await partitions.ensure(older, [today - timedelta(days=9)])
            await older.commit()
            await older.execute(f"LOCK TABLE {partitions.name_of(today - timedelta(days=9))}")
            assert await leases.open_instances(on.database, dead) == [left.key]
            assert [each.key for each in await on.queries.find_request(REQUEST_ID)] == [left.key]
        finally:
            await older.close()

    running(audit_url, scenario)
