"""The migrations: from nothing to the tables that the code expects, with every analyst's column explained."""

from __future__ import annotations

import asyncio
import re
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.script import ScriptDirectory

from engine.core.replay import derive_records
from engine.store import binary, partitions
from engine.store.canonical import differences, rows_from_records
from engine.store.columns import COLUMNS
from engine.store.database import alembic_config, connect, migrate, open_raw
from engine.store.definitions import Definitions
from engine.store.encoding import InstanceContext, encode_command, encode_commands, encode_fact, tail_of_batch
from engine.store.queries import Queries
from tests.audit_samples import Life, keys, live, program

pytestmark = pytest.mark.postgres

ANALYSTS_GUIDE = Path(__file__).parents[2] / "docs" / "analysts.md"
LATER = {"scope_key", "called_process_id"}
_COLUMNS = """
    SELECT c.relname, a.attname, col_description(c.oid, a.attnum), obj_description(c.oid)
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
    WHERE c.relnamespace = 'audit'::regnamespace AND c.relkind = 'v'
    ORDER BY c.relname, a.attnum
"""


async def ask(url: str, statement: str) -> list[tuple[Any, ...]]:
    connection = await open_raw(url)
    try:
        return await (await connection.execute(statement)).fetchall()
    finally:
        await connection.close()


def test_migrating_an_empty_database_twice_changes_it_once(database_url: str) -> None:
    async def main() -> None:
        script = "import asyncio, sys; from engine.store.database import migrate; asyncio.run(migrate(sys.argv[1]))"
        together = [await asyncio.create_subprocess_exec(sys.executable, "-c", script, database_url) for _ in range(2)]
        assert [await process.wait() for process in together] == [0, 0]
        await migrate(database_url)
        head = ScriptDirectory.from_config(alembic_config(database_url)).get_current_head()
        assert await ask(database_url, "SELECT version_num FROM alembic_version") == [(head,)]

    asyncio.run(main())


def rows_of_schema_1(life: Life) -> list[bytes]:
    """An instance as the first schema stored it: without the columns that came later."""
    packed = encode_commands(
        life.context,
        1,
        life.records[0].at_us,
        [encode_command(life.context, each)[0] for each in life.records if each.position < 0],
        False,
    )
    rows = [packed, *(encode_fact(life.context, each) for each in life.facts)]
    tail = binary.NULL + tail_of_batch(1, 1, 1)
    fields = [binary.fields_of(row.data + tail + leaf.to_bytes(4), len(COLUMNS)) for leaf, row in enumerate(rows)]
    kept = [[value for name, value in zip(COLUMNS, row, strict=True) if name not in LATER] for row in fields]
    version = COLUMNS.index("schema_version")
    for row in kept:
        row[version] = (1).to_bytes(2)
    parts = [[binary.NULL if value is None else len(value).to_bytes(4) + value for value in row] for row in kept]
    return [len(row).to_bytes(2) + b"".join(row) for row in parts]


def test_an_audit_of_the_first_schema_is_carried_over_and_still_follows_from_its_commands(database_url: str) -> None:
    life = live(keys(), failing_attempts=1)

    async def fill() -> None:
        connection = await open_raw(database_url)
        await partitions.ensure_ahead(connection)
        columns = ", ".join(name for name in COLUMNS if name not in LATER)
        async with connection.cursor() as cursor:
            async with cursor.copy(f"COPY record ({columns}) FROM STDIN (FORMAT BINARY)".encode()) as copy:
                await copy.write(binary.HEADER + b"".join(rows_of_schema_1(life)) + binary.TRAILER)
            await cursor.execute(
                "INSERT INTO process_definition VALUES (7, 'a', 1, 'hash', 'a.bpmn', '<a/>', now(), 'me')"
            )
        await connection.close()

    async def check() -> None:
        database = await connect(database_url)
        stored = await Queries(database).load_instance(life.key)
        assert stored is not None
        assert stored.facts[0]["schema_version"] == 1
        records = derive_records(program(), [(each.command, each.at_us) for each in stored.commands])
        derived = rows_from_records(InstanceContext.of_start(stored.start), records)
        assert differences(life.key, await Queries(database).stored_rows(life.key), derived) == []
        definition = await Definitions(database).load(7)
        assert definition is not None
        assert definition.definition.active
        await database.close()
        (request,) = await ask(database_url, "SELECT steps, retries, incomplete FROM audit.requests")
        assert request[1:] == (1, False)
        assert await ask(database_url, "SELECT * FROM open_instance") == []

    command.upgrade(alembic_config(database_url), "0001")
    asyncio.run(fill())
    command.upgrade(alembic_config(database_url), "head")
    asyncio.run(check())


def test_the_tables_are_those_that_the_code_expects_partitions_left_aside(audit_url: str) -> None:
    command.check(alembic_config(audit_url))


def test_every_view_and_every_column_says_what_it_means(audit_url: str) -> None:
    rows = asyncio.run(ask(audit_url, _COLUMNS))
    assert {view for view, *_ in rows} >= {"requests", "steps", "attempts", "decisions", "usage", "refusals"}
    assert [(view, column) for view, column, about, view_about in rows if not about or not view_about] == []


def test_the_guide_for_analysts_names_every_view_and_column(audit_url: str) -> None:
    guide = ANALYSTS_GUIDE.read_text()
    for view, column, about, _ in asyncio.run(ask(audit_url, _COLUMNS)):
        assert f"### audit.{view}" in guide
        assert f"| `{column}` | {about} |" in guide


def test_the_queries_of_the_guide_run(audit_url: str) -> None:
    queries = re.findall(r"```sql\n(.*?)```", ANALYSTS_GUIDE.read_text(), re.DOTALL)
    assert len(queries) >= 6

    async def main() -> None:
        for query in queries:
            await ask(audit_url, query)

    asyncio.run(main())


def test_partitions_are_made_ahead_and_there_is_none_by_default(audit_url: str) -> None:
    async def main() -> None:
        connection, other = await open_raw(audit_url), await open_raw(audit_url)
        assert await partitions.ensure_ahead(connection) == []
        assert await partitions.runway_days(connection) >= partitions.DAYS_AHEAD
        made = await asyncio.gather(*(partitions.ensure(each, [date(2031, 2, 3)]) for each in (connection, other)))
        assert sorted(made, key=len) == [[], [date(2031, 2, 3)]]
        rows = await ask(
            audit_url,
            "SELECT pg_get_expr(relpartbound, oid) FROM pg_class WHERE relname = 'record_20310203' OR"
            " (relispartition AND pg_get_expr(relpartbound, oid) = 'DEFAULT')",
        )
        assert rows == [("FOR VALUES FROM ('2031-02-03') TO ('2031-02-04')",)]
        await connection.close()
        await other.close()

    asyncio.run(main())


def test_a_partition_is_made_while_a_reader_holds_the_table(audit_url: str) -> None:
    async def main() -> None:
        reader, maker = await open_raw(audit_url, autocommit=False), await open_raw(audit_url)
        await reader.execute("SELECT count(*) FROM record")  # its lock lasts until its transaction ends
        assert await partitions.ensure(maker, [date(2031, 2, 3)]) == [date(2031, 2, 3)]
        await reader.close()
        await maker.close()

    asyncio.run(main())


def test_a_row_of_another_day_than_its_key_is_refused(audit_url: str) -> None:
    async def main() -> None:
        rows = await ask(
            audit_url,
            "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'record_day_of_key_check' LIMIT 1",
        )
        assert "process_instance_key >> 22" in rows[0][0]

    asyncio.run(main())
