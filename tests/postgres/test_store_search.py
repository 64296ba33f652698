"""Searches across instances, and the table of open operational instances that the records themselves keep."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, NamedTuple

import pytest
from sqlalchemy import event, text

from engine.core.replay import derive_records
from engine.keys import KeySource
from engine.records import Abort, ActivityEnded, IncidentRaised, JobFailed, RetriesSet, Start, TryFailed
from engine.store import leases
from engine.store.canonical import differences, rows_from_records
from engine.store.database import Database, connect
from engine.store.encoding import InstanceContext
from engine.store.postgres_journal import PostgresJournal
from engine.store.queries import Queries
from engine.store.search import IncidentFilter, InstanceFilter, Search
from tests.audit_samples import Life, keys, live, operational
from tests.builders import EMPTY_REPORT, Diagram, each, message, signal
from tests.driven import Driven

pytestmark = pytest.mark.postgres


class Audit(NamedTuple):
    database: Database
    journal: PostgresJournal
    lease: leases.Lease
    keys: KeySource
    search: Search

    async def store(self, *lives: Life) -> None:
        for life in lives:
            await self.journal.append(life.context, life.records, flush=True)

    async def ask(self, statement: str) -> list[dict[str, Any]]:
        async with self.database.engine.connect() as connection:
            return [dict(row) for row in (await connection.execute(text(statement))).mappings()]

    async def found(self, **where: Any) -> list[int]:
        return [each.key for each in (await self.search.process_instances(InstanceFilter(**where))).rows]

    async def incidents(self, **where: Any) -> list[int]:
        return [each.process_instance_key for each in (await self.search.incidents(IncidentFilter(**where))).rows]


@asynccontextmanager
async def audit(url: str) -> AsyncIterator[Audit]:
    database = await connect(url)
    lease = await leases.acquire(database, "0.1.0")
    journal = PostgresJournal(url, lease)
    await journal.start()
    try:
        yield Audit(database, journal, lease, keys(lease.writer_id), Search(database))
    finally:
        await journal.close()
        await database.close()


def running(url: str, scenario: Callable[[Audit], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(60), audit(url) as made:
            await scenario(made)

    asyncio.run(main())


def key_of(life: Life, kind: type[Any], element_id: str = "") -> Any:
    """The fact of that kind (and element) in a life."""
    return next(
        each.body for each in life.facts if isinstance(each.body, kind) and element_id in ("", each.body.element_id)
    )


def test_the_records_keep_the_table_of_open_operational_instances(audit_url: str) -> None:
    async def scenario(on: Audit) -> None:
        waiting = operational(on.keys)
        stuck = operational(on.keys, incident="open")
        mended = operational(on.keys, incident="resolved")
        await on.store(waiting, stuck, mended, operational(on.keys, ended="completed"), live(on.keys))
        rows = await on.ask("SELECT * FROM open_instance ORDER BY process_instance_key")
        assert [(row["process_instance_key"], row["open_incidents"]) for row in rows] == [
            (waiting.key, 0),
            (stuck.key, 1),
            (mended.key, 0),
        ]
        assert {(row["process_id"], row["process_definition_key"], row["owner_epoch"]) for row in rows} == {
            ("bill", 8, on.lease.epoch)
        }

    running(audit_url, scenario)


def test_an_operational_instance_is_seen_by_analysts_with_its_scopes_and_the_life_of_its_incident(
    audit_url: str,
) -> None:
    async def scenario(on: Audit) -> None:
        resolved = operational(on.keys, incident="resolved", business_id="order-7")
        left = operational(on.keys, incident="open", ended="terminated")
        await on.store(resolved, left, operational(on.keys, incident="open"))
        states = {row["process_instance_key"]: row for row in await on.ask("SELECT * FROM audit.incidents")}
        assert sorted(row["state"] for row in states.values()) == ["ended", "open", "resolved"]
        assert (states[resolved.key]["state"], states[resolved.key]["duration_us"]) == ("resolved", 1)
        assert states[left.key]["ended_at"] is not None
        steps = await on.ask(f"SELECT * FROM audit.steps WHERE process_instance_key = {resolved.key} ORDER BY position")
        child = key_of(resolved, ActivityEnded, "called").activity_instance_key
        call = key_of(resolved, ActivityEnded, "call").activity_instance_key
        assert [(row["element_id"], row["scope_key"], row["called_process_id"]) for row in steps] == [
            ("approve", child, "called"),
            ("called", call, "called"),
            ("call", None, None),
        ]
        (request,) = await on.ask("SELECT * FROM audit.requests WHERE business_id = 'order-7'")
        assert (request["online"], request["steps"], request["state"]) == (False, 2, "active")

    running(audit_url, scenario)


def interrupted(source: KeySource) -> Driven:
    """An operational instance to which everything happens that can while a step waits, and which goes on waiting."""
    diagram = (
        Diagram().start().task("print", retries=2).throw("tell", signal("news")).catch("paid", message("pay", "=n"))
    )
    diagram.task("each", loop=each("=[1]"))
    diagram.task("wait").end().path("started", "print", "tell", "paid", "each", "wait", "ended")
    run = Driven(diagram, {"n": 1}, online=False, key=source.reserve())
    run.do(JobFailed(run.key, run.job.key, "NO_PAPER", "empty", True, EMPTY_REPORT, variables={"page": 7}))
    run.fire()
    run.do(RetriesSet(run.key, run.job.key, 5))
    run.set({"n": 2})
    run.set({"seen": True}, run.job.activity_instance_key, local=True)
    run.done("print")
    run.receive("paid", {"amount": 5})
    run.done("each")
    source.advance(run.key)
    return run


def life_of(run: Driven) -> Life:
    start = run.log[0][0]
    assert isinstance(start, Start)
    return Life(InstanceContext.of_start(start), [tuple(run.records)])


def test_analysts_see_what_happened_while_a_step_waited(audit_url: str) -> None:
    async def scenario(on: Audit) -> None:
        run = interrupted(on.keys)
        await on.store(life_of(run))
        (failure,) = await on.ask("SELECT * FROM audit.job_failures")
        done = next(each for each in run.facts(ActivityEnded) if each.element_id == "print")
        assert failure["activity_instance_key"] == done.activity_instance_key
        assert (failure["try_no"], failure["tries_left"], failure["error_code"]) == (1, 1, "NO_PAPER")
        (waited,) = await on.ask("SELECT again_at - failed_at > interval '0' AS later FROM audit.job_failures")
        assert waited["later"]
        assert failure["variables"] == {"page": 7}
        thrown, received = await on.ask("SELECT * FROM audit.events ORDER BY position")
        assert (thrown["direction"], thrown["event"], thrown["name"]) == ("thrown", "signal", "news")
        assert (received["direction"], received["event"], received["name"]) == ("received", "message", "pay")
        assert (received["correlation_key"], received["event_key"], received["variables"]) == ("2", 1, {"amount": 5})
        rows = await on.ask("SELECT * FROM audit.interventions ORDER BY position")
        assert [
            (row["what"], row["element_id"], row["variables"], row["local"], row["tries_left"]) for row in rows
        ] == [
            ("retries", "print", None, None, 5),
            ("variables", None, {"n": 2}, False, None),
            ("variables", "print", {"seen": True}, True, None),
        ]
        steps = await on.ask("SELECT element_type, loop_counter FROM audit.steps WHERE element_id = 'each' ORDER BY 2")
        assert [tuple(row.values()) for row in steps] == [("SERVICE_TASK", 1), ("MULTI_INSTANCE_BODY", None)]
        assert len(await on.ask("SELECT * FROM open_instance")) == 1

    running(audit_url, scenario)


def test_what_happened_while_a_step_waited_follows_from_the_commands_byte_for_byte(audit_url: str) -> None:
    async def scenario(on: Audit) -> None:
        run = interrupted(on.keys)
        run.do(Abort(run.key, "gone"))
        life = life_of(run)
        await on.store(life)
        queries = Queries(on.database)
        stored = await queries.load_instance(life.key)
        assert stored is not None
        records = derive_records(run.program, [(each.command, each.at_us) for each in stored.commands])
        derived = rows_from_records(InstanceContext.of_start(stored.start), records)
        assert differences(life.key, await queries.stored_rows(life.key), derived) == []
        assert await on.ask("SELECT http_status, incomplete, attempts, steps FROM audit.requests") == [
            {"http_status": None, "incomplete": False, "attempts": 0, "steps": 7}
        ]

    running(audit_url, scenario)


def test_a_value_that_was_written_from_outside_is_found_unless_only_one_step_sees_it(audit_url: str) -> None:
    async def scenario(on: Audit) -> None:
        run = interrupted(on.keys)
        await on.store(life_of(run))
        found = [run.instance.key]
        assert await on.found(variables={"n": 2}) == found
        assert await on.found(variables={"n": 1}) == []
        assert await on.found(variables={"seen": True}) == await on.found(variables={"page": 7}) == []
        assert await on.found(variables={"amount": 5}) == found

    running(audit_url, scenario)


def test_the_job_of_a_failed_try_leads_to_its_instance(audit_url: str) -> None:
    async def scenario(on: Audit) -> None:
        run = interrupted(on.keys)
        await on.store(life_of(run))
        assert await on.search.root_of_job(run.facts(TryFailed)[0].job_key) == run.instance.key

    running(audit_url, scenario)


def test_process_instances_are_found_by_everything_that_is_said_of_them(audit_url: str) -> None:
    async def scenario(on: Audit) -> None:
        request = live(on.keys)
        done = operational(on.keys, ended="completed", variables={"order": 7})
        stuck = operational(on.keys, incident="open", business_id="order-7")
        other = operational(on.keys, process_id="ship", variables={"approved": False, "order": 8})
        await on.store(request, done, stuck, other)
        everything = [other.key, stuck.key, done.key, request.key]
        (row,) = (await on.search.process_instances(InstanceFilter(keys=[stuck.key, 1]))).rows
        assert (row.process_id, row.version, row.definition_key, row.tenant) == ("bill", 2, 8, "acme")
        assert (row.state, row.ended_at, row.open_incidents, row.business_id) == ("active", None, 1, "order-7")
        assert await on.found() == everything
        assert await on.found(process_id="bill") == [stuck.key, done.key]
        assert await on.found(definition_key=7) == [request.key]
        assert await on.found(version=2, process_id="ship") == [other.key]
        assert await on.found(business_id="order-7") == [stuck.key]
        assert await on.found(online=True) == [request.key]
        assert await on.found(tenant="nobody") == []
        assert await on.found(states=["active"]) == [other.key, stuck.key]
        assert await on.found(states=["completed"]) == [done.key, request.key]
        assert await on.found(states=["active", "completed"]) == everything
        assert await on.found(has_incident=True) == [stuck.key]
        assert await on.found(has_incident=False) == [other.key, done.key, request.key]
        assert await on.found(variables={"order": 7}) == [done.key]
        assert await on.found(variables={"approved": True}, process_id="ship") == [other.key]  # the later value
        assert await on.found(started_from=row.started_at) == [other.key, stuck.key]
        assert await on.found(started_before=row.started_at) == [done.key, request.key]
        (ended,) = (await on.search.process_instances(InstanceFilter(keys=[done.key]))).rows
        assert await on.found(ended_before=ended.ended_at + timedelta(microseconds=1), online=False) == [done.key]
        assert await on.found(ended_from=ended.ended_at + timedelta(microseconds=1), online=False) == []

    running(audit_url, scenario)


def test_pages_go_on_behind_the_last_key(audit_url: str) -> None:
    async def scenario(on: Audit) -> None:
        lives = [operational(on.keys) for _ in range(5)]
        await on.store(*lives)
        newest_first = [life.key for life in reversed(lives)]
        first = await on.search.process_instances(InstanceFilter(process_id="bill"), limit=2)
        assert ([each.key for each in first.rows], first.capped) == (newest_first[:2], True)
        rest = await on.search.process_instances(InstanceFilter(process_id="bill", before=first.before), limit=3)
        assert ([each.key for each in rest.rows], rest.before) == (newest_first[2:], None)

    running(audit_url, scenario)


def test_called_processes_and_keys_lead_to_the_instance_around_them(audit_url: str) -> None:
    async def scenario(on: Audit) -> None:
        life = operational(on.keys, incident="open")
        await on.store(live(on.keys), life)
        child = key_of(life, ActivityEnded, "called")
        (found,) = (await on.search.called_instances("called")).rows
        assert (found.key, found.root_key, found.caller_key) == (child[0], life.key, child.scope_key)
        assert (await on.search.called_instances("other")).rows == []
        assert (await on.search.called_instances(before=child[0])).rows == []
        task = key_of(life, ActivityEnded, "approve")
        assert await on.search.root_of(life.key) == life.key
        assert await on.search.root_of(found.key) == life.key
        assert await on.search.root_of_activity(task.activity_instance_key) == life.key
        assert await on.search.root_of_job(task.job_key) == life.key
        assert await on.search.root_of_incident(key_of(life, IncidentRaised).incident_key) == life.key
        for look in (on.search.root_of, on.search.root_of_activity, on.search.root_of_job, on.search.root_of_incident):
            assert await look(1) is None

    running(audit_url, scenario)


def test_incidents_are_found_by_everything_that_is_said_of_them(audit_url: str) -> None:
    async def scenario(on: Audit) -> None:
        still, mended, over = [
            operational(on.keys, incident="open"),
            operational(on.keys, incident="resolved", process_id="ship"),
            operational(on.keys, incident="open", ended="terminated"),
        ]
        await on.store(still, mended, over)
        assert await on.incidents() == [over.key, mended.key, still.key]
        assert await on.incidents(states=["open"]) == [still.key]
        assert await on.incidents(states=["resolved"]) == [mended.key]
        assert await on.incidents(states=["ended", "open"]) == [over.key, still.key]
        assert await on.incidents(process_instance_key=mended.key) == [mended.key]
        assert await on.incidents(process_id="ship", error_code="NO_RETRIES_LEFT", element_id="pay") == [mended.key]
        (incident,) = (await on.search.incidents(IncidentFilter(states=["open"]))).rows
        assert (incident.state, incident.ended_at, incident.message) == ("open", None, "the bank is closed")
        assert await on.incidents(keys=[incident.key]) == [still.key]
        assert await on.incidents(raised_before=incident.raised_at) == []
        assert await on.incidents(before=incident.key) == []
        page = await on.search.incidents(IncidentFilter(), limit=2)
        assert ([each.process_instance_key for each in page.rows], page.capped) == ([over.key, mended.key], True)

    running(audit_url, scenario)


PLANS: dict[str, tuple[Callable[[Search, int], Awaitable[Any]], str]] = {
    "the latest of a process": (
        lambda search, _: search.process_instances(InstanceFilter(process_id="bill")),
        "process_id",
    ),
    "by key": (lambda search, key: search.process_instances(InstanceFilter(keys=[key])), "_pkey"),
    "by business id": (
        lambda search, _: search.process_instances(InstanceFilter(business_id="order-7")),
        "business_id|expr",
    ),
    "active ones": (
        lambda search, _: search.process_instances(InstanceFilter(states=["active"])),
        "open_instance_pkey",
    ),
    "called ones": (lambda search, _: search.called_instances("called"), "activity_instance_key"),
    "incidents": (lambda search, _: search.incidents(IncidentFilter()), "incident_key"),
    "open incidents": (lambda search, _: search.incidents(IncidentFilter(states=["open"])), "open_instance"),
    "the root of a called one": (lambda search, key: search.root_of(key), "activity_instance_key"),
    "the root of a job": (lambda search, key: search.root_of_job(key), "job_key"),
}


async def plan_of(database: Database, ask: Awaitable[Any]) -> str:
    """How Postgres would carry out the statements that `ask` sends, if tables of a test were big ones."""
    asked: list[tuple[str, Any]] = []

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        asked.append((statement, parameters))

    event.listen(database.engine.sync_engine, "before_cursor_execute", note)
    await ask
    event.remove(database.engine.sync_engine, "before_cursor_execute", note)
    plan: list[str] = []
    async with database.begin() as connection:
        await connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
        for statement, parameters in asked:
            rows = await connection.exec_driver_sql(f"EXPLAIN {statement}", parameters)
            plan += [str(row[0]) for row in rows]
    return "\n".join(plan)


def test_every_search_uses_its_index_and_reads_no_partition_whole(audit_url: str) -> None:
    async def scenario(on: Audit) -> None:
        await on.store(*[live(on.keys) for _ in range(20)], *[operational(on.keys) for _ in range(20)])
        async with on.database.begin() as connection:
            await connection.execute(text("ANALYZE record"))
        for name, (ask, index) in PLANS.items():
            plan = await plan_of(on.database, ask(on.search, on.keys.mint()))
            assert re.search(index, plan), f"{name}:\n{plan}"
            assert not re.search("Seq Scan on record|Hash Join", plan), f"{name}:\n{plan}"

    running(audit_url, scenario)


def test_the_start_of_an_instance_tells_by_what_it_was_begun(audit_url: str) -> None:
    async def scenario(on: Audit) -> None:
        life = operational(on.keys, business_id="order-7")
        plain = operational(on.keys)
        await on.store(life, plain)
        rows = await on.ask("SELECT process_instance_key AS key, details FROM record WHERE kind = 'instance_started'")
        assert {row["key"]: row["details"] for row in rows} == {life.key: {"business_id": "order-7"}, plain.key: None}

    running(audit_url, scenario)
