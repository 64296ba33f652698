"""Owns the speed of the whole gateway: real HTTP in, every row durable before the answer, real or no-op replicas out.
Never counts an answer that the audit does not hold, and never runs load and gateway in one process.
Called by `make bench`, or by hand: python -m tests.bench --only gateway
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import psycopg

from engine.local.postgres import EmbeddedPostgres, PostgresConfig
from engine.local.triton import LocalTriton, TritonConfig
from tests.bench import machine, sampled
from tests.bench.noop import NoopReplica
from tests.bench.served import ROOT, NotAudited, Served, child, children_cpu_s, cpu_s, served

FOLDER = ROOT / "build" / "bench"
MODEL = "embed"
TEXT = "where does the sea keep its shells"
CONCURRENCY = 16

_SETTINGS = """
[[replicas]]
name = "replica"
grpc = "{grpc}"

[[models]]
name = "embed"
price = "embedding"

[[prices]]
id = "embedding"
input_token_usd = "0.00000002"
"""


@dataclass(frozen=True)
class Plan:
    """How long each measurement takes, and how often it is repeated; the median of the repetitions counts."""

    seconds: float
    warmup_s: float
    repetitions: int


FULL = Plan(seconds=8.0, warmup_s=2.0, repetitions=3)
QUICK = Plan(seconds=1.0, warmup_s=0.5, repetitions=1)


async def measure(plan: Plan) -> tuple[dict[str, float], dict[str, Any]]:
    """Flat keys of build/bench.json, and what the storage was. Raises machine.InMemory, NotAudited."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    figures: dict[str, float] = {}
    async with EmbeddedPostgres(PostgresConfig(FOLDER / "postgres")) as postgres:
        storage = machine.describe_storage(postgres.home, postgres.url)
        async with LocalTriton(TritonConfig(name="bench", work_dir=FOLDER / "triton", models=(MODEL,))) as triton:
            pids = triton.process_ids()
            async with _governed(postgres, "triton", triton.grpc_url, pids) as gateway:
                figures |= await _against_triton(gateway, plan)
            async with _governed(postgres, "sampled", triton.grpc_url, pids, sampling=True) as gateway:
                figures |= await _budget(gateway, plan, figures["gateway.cpu_ms_per_request"])
        async with NoopReplica() as noop, _governed(postgres, "noop", noop.grpc_url, [noop.pid]) as gateway:
            found = await _load(gateway, CONCURRENCY, plan)
            figures |= {f"gateway.noop.c16.{name}": found[name] for name in ("rps", "p50_ms", "p99_ms")}
            figures["gateway.noop.cpu_ms_per_request"] = found["gateway_cpu_ms"]
    return figures, storage


async def _against_triton(under: Served, plan: Plan) -> dict[str, float]:
    """Concurrency 1 beside direct calls, in turns so that both see the same machine; then concurrency 16."""
    through, direct = [], []
    for _ in range(plan.repetitions):
        direct.append(await _direct(under.grpc, plan))
        through.append(await _load_once(under, 1, plan))
    direct_p50_ms = median(direct)
    one_p50_ms = median(found["p50_ms"] for found in through)
    many = await _load(under, CONCURRENCY, plan)
    return {
        "gateway.triton.c1.direct_p50_ms": direct_p50_ms,
        "gateway.triton.c1.p50_ms": one_p50_ms,
        "gateway.triton.c1.added_p50_ms": one_p50_ms - direct_p50_ms,
        "gateway.triton.c16.rps": many["rps"],
        "gateway.triton.c16.p50_ms": many["p50_ms"],
        "gateway.triton.c16.p99_ms": many["p99_ms"],
        "gateway.cpu_ms_per_request": many["gateway_cpu_ms"],
        "postgres.cpu_ms_per_request": many["postgres_cpu_ms"],
        "triton.cpu_ms_per_request": many["replica_cpu_ms"],
        "load.cpu_ms_per_request": many["load_cpu_ms"],
        "gateway.facts_per_request": many["facts"],
    }


async def _budget(under: Served, plan: Plan, cpu_ms: float) -> dict[str, float]:
    """The CPU time of one request split by part, in microseconds, scaled to what a request takes unsampled."""
    out = FOLDER / "samples.json"
    os.kill(under.gateway.pid, signal.SIGUSR1)
    await _load_once(under, CONCURRENCY, plan)
    os.kill(under.gateway.pid, signal.SIGUSR2)
    found = await asyncio.to_thread(_samples, out)
    parts: dict[str, float] = {part: found["parts_s"].get(part, 0.0) for part, _ in sampled.PARTS}
    parts["grpc"] += found["threads_s"]
    total_s = sum(parts.values())
    shares = {part: seconds / total_s for part, seconds in sorted(parts.items())}
    return {f"budget.{part}_us": share * cpu_ms * 1000 for part, share in shares.items()} | {
        "budget.total_us": cpu_ms * 1000
    }


def _samples(out: Path) -> dict[str, Any]:
    """What the gateway writes as soon as it handles the signal."""
    ends_s = time.monotonic() + 30
    while not out.exists():
        if time.monotonic() > ends_s:
            raise RuntimeError(f"the sampled gateway did not write {out}")
        time.sleep(0.05)
    found: dict[str, Any] = json.loads(out.read_text())
    return found


async def _load(under: Served, connections: int, plan: Plan) -> dict[str, float]:
    """The repetition with the median rate."""
    runs = [await _load_once(under, connections, plan) for _ in range(plan.repetitions)]
    return sorted(runs, key=lambda run: run["rps"])[len(runs) // 2]


async def _load_once(under: Served, connections: int, plan: Plan) -> dict[str, float]:
    body = FOLDER / "body.json"
    body.write_text(json.dumps({"inputs": [{"name": "text", "datatype": "BYTES", "shape": [1, 1], "data": [TEXT]}]}))
    before = await _audited(under.database_url)
    watched = {"gateway": [under.gateway.pid], "replica": under.replica_pids}
    used_before = {name: sum(map(cpu_s, pids)) for name, pids in watched.items()}
    postgres_before = children_cpu_s(under.postgres_pid)
    found = await child(
        "tests.bench.load",
        f"--port={under.port}",
        f"--path=/v2/models/{MODEL}/infer",
        f"--body={body}",
        f"--connections={connections}",
        f"--seconds={plan.seconds}",
        f"--warmup={plan.warmup_s}",
    )
    answers = found["answers"]
    if found["failures"]:
        raise NotAudited(f"requests failed: {found['failures']}")
    used = {name: sum(map(cpu_s, pids)) - used_before[name] for name, pids in watched.items()}
    postgres_s = children_cpu_s(under.postgres_pid) - postgres_before
    after = await _audited(under.database_url)
    if after[0] - before[0] != answers or after[2]:
        raise NotAudited(f"{answers} requests were answered, {after[0] - before[0]} audited, {after[2]} incomplete")
    latencies_us = found["latencies_us"]
    return {
        "rps": found["rps"],
        "p50_ms": latencies_us[len(latencies_us) // 2] / 1000,
        "p99_ms": latencies_us[len(latencies_us) * 99 // 100] / 1000,
        "facts": (after[1] - before[1]) / answers,
        "gateway_cpu_ms": used["gateway"] / answers * 1000,
        "replica_cpu_ms": used["replica"] / answers * 1000,
        "postgres_cpu_ms": postgres_s / answers * 1000,
        "load_cpu_ms": found["cpu_s"] / answers * 1000,
    }


async def _direct(grpc: str, plan: Plan) -> float:
    found = await child(
        "tests.bench.direct",
        f"--address={grpc}",
        f"--model={MODEL}",
        f"--text={TEXT}",
        f"--seconds={plan.seconds}",
        f"--warmup={plan.warmup_s}",
    )
    latencies_us = found["latencies_us"]
    return float(latencies_us[len(latencies_us) // 2] / 1000)


@asynccontextmanager
async def _governed(
    postgres: EmbeddedPostgres, name: str, grpc: str, replica_pids: Sequence[int], *, sampling: bool = False
) -> AsyncIterator[Served]:
    """A gateway with one replica on a database of its own."""
    launch = ("-m", "tests.bench.sampled", str(FOLDER / "samples.json")) if sampling else ("-m", "engine.cli")
    settings = _SETTINGS.format(grpc=grpc)
    async with served(postgres, FOLDER, name, settings, models=[MODEL], launch=launch) as gateway:
        yield replace(gateway, grpc=grpc, replica_pids=replica_pids)


async def _audited(url: str) -> tuple[int, int, int]:
    """Requests, facts and incomplete requests that the audit holds."""
    query = """
        SELECT count(*) FILTER (WHERE kind = 'instance_started'), count(*),
               count(*) FILTER (WHERE kind = 'instance_started') - count(*) FILTER (WHERE kind = 'instance_ended')
        FROM record WHERE position > 0
    """
    async with await psycopg.AsyncConnection.connect(url) as connection:
        row = await (await connection.execute(query)).fetchone()
    assert row is not None
    return int(row[0]), int(row[1]), int(row[2])


def main(plan: Plan = FULL) -> None:
    began_s = time.monotonic()
    figures, storage = asyncio.run(measure(plan))
    print(json.dumps({**storage, **figures, "took_s": time.monotonic() - began_s}, indent=2))


if __name__ == "__main__":
    main(QUICK if "--quick" in sys.argv else FULL)
