"""Owns the price of a stored row: CPU time of the gateway's side and of the Postgres backend, under a gateway's load.
Never counts what the engine does to make the records, or the waiting for the disk.
Called by the benchmarks, and alone as `python -m tests.bench.journal_bench`.

Client CPU is the whole process: encoding, batching, psycopg, the event loop and the waiting tasks. Server CPU is that
of the one backend that stores the batches; checkpoints and the WAL writer work elsewhere. The records of each round are
made just before it, outside the measurement, because a gateway's are as fresh when they are handed over.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

import psycopg

from engine.keys import KeySource
from engine.local.postgres import EmbeddedPostgres, PostgresConfig
from engine.store import leases, partitions
from engine.store.database import connect, migrate, open_raw
from engine.store.journal import GroupCommitJournal
from engine.store.postgres_journal import PostgresJournal
from tests.audit_samples import Life, keys, live
from tests.bench import machine

RUNS = 3
ROUNDS = 100
CONCURRENT = 16
_TICK_US = 1_000_000 / os.sysconf("SC_CLK_TCK")


class Run(NamedTuple):
    rows: int
    batches: int
    seconds: float
    client_us: float
    server_us: float


def measure() -> dict[str, float]:
    """Flat figures: medians of three runs. Raises machine.InMemory when durability would cost nothing."""
    folder = Path(tempfile.mkdtemp(prefix="conch-bench-"))
    folder.chmod(0o755)
    try:
        return asyncio.run(_measure(folder))
    finally:
        shutil.rmtree(folder)


async def _measure(folder: Path) -> dict[str, float]:
    async with EmbeddedPostgres(PostgresConfig(folder)) as postgres:
        machine.describe_storage(folder, postgres.url)
        await migrate(postgres.url)
        connection = await open_raw(postgres.url)
        await partitions.ensure_ahead(connection)
        await connection.close()
        database = await connect(postgres.url)
        lease = await leases.acquire(database, "bench", lease_s=3_600)
        journal = PostgresJournal(postgres.url, lease)
        await journal.start()
        backend = await _backend(postgres.url)
        source = keys(lease.writer_id)
        await asyncio.gather(*(_drive(journal, live(source)) for _ in range(100)))  # caches, the first pages
        runs = [await _run(journal, backend, source) for _ in range(RUNS)]
        size = await _bytes_per_row(postgres.url)
        await journal.close()
        await database.close()
    return {
        "journal.us_per_row": median(run.client_us / run.rows for run in runs),
        "journal.server_us_per_row": median(run.server_us / run.rows for run in runs),
        "journal.rows_per_s": median(run.rows / run.seconds for run in runs),
        "journal.rows_per_batch": median(run.rows / run.batches for run in runs),
        "journal.rows_per_instance": runs[0].rows / (ROUNDS * CONCURRENT),
        "journal.bytes_per_row": size,
    }


async def _run(journal: GroupCommitJournal, backend: int, source: KeySource) -> Run:
    stats = journal.stats
    rows, batches, server_us = stats.rows, stats.batches, _cpu_us(backend)
    client_s = seconds = 0.0
    for _ in range(ROUNDS):
        lives = [live(source) for _ in range(CONCURRENT)]
        began_s, began_client_s = time.perf_counter(), time.process_time()
        await asyncio.gather(*(_drive(journal, life) for life in lives))
        client_s += time.process_time() - began_client_s
        seconds += time.perf_counter() - began_s
    client_us = client_s * 1_000_000
    return Run(stats.rows - rows, stats.batches - batches, seconds, client_us, _cpu_us(backend) - server_us)


async def _drive(journal: GroupCommitJournal, life: Life) -> None:
    """What a gateway asks: an instance hands over its records by step and waits for the last."""
    for step in life.steps[:-1]:
        journal.append(life.context, step, flush=False)
    await journal.append(life.context, life.steps[-1], flush=True)


async def _backend(url: str) -> int:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        cursor = await connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%pg_settings%'"
            " AND pid <> pg_backend_pid()"
        )
        row = await cursor.fetchone()
    assert row is not None
    return int(row[0])


def _cpu_us(pid: int) -> float:
    """User and system time of a process; fields 14 and 15 of proc(5)'s stat."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * _TICK_US


async def _bytes_per_row(url: str) -> float:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        cursor = await connection.execute(
            "SELECT sum(pg_total_relation_size(inhrelid)) / (SELECT count(*) FROM record)"
            " FROM pg_inherits WHERE inhparent = 'record'::regclass"
        )
        row = await cursor.fetchone()
    assert row is not None
    return float(row[0])


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
