"""Owns the speed of operational instances: started, worked on, told and parked through Camunda's door, all durable.
Never counts what the audit does not hold, and never runs load and gateway in one process.
Called by `make bench`, or by hand: python -m tests.bench --only operational
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
import psycopg

from engine.local.postgres import EmbeddedPostgres, PostgresConfig
from tests.bench import machine
from tests.bench.served import ROOT, NotAudited, Served, child, children_cpu_s, cpu_s, resident_bytes, served
from tests.builders import Diagram, chain, message

FOLDER = ROOT / "build" / "bench-operational"
CONCURRENCY = 16
_PARK_AFTER_MS = 500
_PATIENCE_S = 120.0
_WARM = 200  # instances before those that are measured
_SETTINGS = "\n[runtime]\npark_after_ms = {park_after_ms}\n"
_NEVER_MS = 3_600_000


@dataclass(frozen=True)
class Plan:
    """How long the workers work, how many instances wait, and how many are told one by one."""

    seconds: float
    warmup_s: float
    waiting: int
    one_by_one: int
    deployments: int


FULL = Plan(seconds=8.0, warmup_s=2.0, waiting=10_000, one_by_one=200, deployments=5)
QUICK = Plan(seconds=1.0, warmup_s=0.3, waiting=500, one_by_one=30, deployments=1)


async def measure(plan: Plan) -> tuple[dict[str, float], dict[str, Any]]:
    """Flat keys of build/bench.json, and what the storage was. Raises machine.InMemory, NotAudited."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    figures: dict[str, float] = {}
    async with EmbeddedPostgres(PostgresConfig(FOLDER / "postgres")) as postgres:
        storage = machine.describe_storage(postgres.home, postgres.url)
        in_memory = _SETTINGS.format(park_after_ms=_NEVER_MS)
        async with served(postgres, FOLDER, "live", in_memory) as gateway, aiohttp.ClientSession() as http:
            await _deploy(http, gateway, _diagrams())
            figures |= await _work(gateway, plan)
            figures |= await _wait(gateway, plan, "live")
            figures |= await _tell(gateway, plan, "message")
            figures |= await _deployment(http, gateway, plan)
        parking = _SETTINGS.format(park_after_ms=_PARK_AFTER_MS)
        async with served(postgres, FOLDER, "parked", parking) as gateway, aiohttp.ClientSession() as http:
            await _deploy(http, gateway, _diagrams())
            figures |= await _wait(gateway, plan, "parked")
            figures |= await _tell(gateway, plan, "wake")
    return figures, storage


def _diagrams() -> dict[str, str]:
    work = Diagram("bench-work").start().task("work").end().path("started", "work", "ended")
    wait = Diagram("bench-wait").start().catch("paid", message("payment", "=order")).end()
    return {"work.bpmn": work.to_xml(), "wait.bpmn": wait.path("started", "paid", "ended").to_xml()}


async def _deploy(http: aiohttp.ClientSession, gateway: Served, files: Mapping[str, str]) -> None:
    form = aiohttp.FormData()
    for name, xml in files.items():
        form.add_field("resources", xml.encode(), filename=name, content_type="application/octet-stream")
    async with http.post(f"{gateway.gateway.url}/v2/deployments", data=form) as answer:
        if answer.status != 200:
            raise RuntimeError(f"deployment: {answer.status} {await answer.text()}")


async def _deployment(http: aiohttp.ClientSession, gateway: Served, plan: Plan) -> dict[str, float]:
    """A diagram of 300 elements, new each time, until it serves."""
    took = []
    for number in range(plan.deployments):
        xml = chain(298).to_xml().replace("<bpmn:process ", f'<bpmn:process name="{number}" ', 1)
        began_s = time.perf_counter()
        await _deploy(http, gateway, {"chain.bpmn": xml})
        took.append(time.perf_counter() - began_s)
    versions = await _one(gateway, "SELECT count(*) FROM process_definition WHERE resource_name = 'chain.bpmn'")
    if versions[0] != plan.deployments:
        raise NotAudited(f"{plan.deployments} deployments made {versions[0]} versions")
    return {"operational.deployment.elements_300_ms": sorted(took)[len(took) // 2] * 1000}


# --- start, and one job done by a worker --------------------------------------------------------------------------


async def _work(gateway: Served, plan: Plan) -> dict[str, float]:
    figures: dict[str, float] = {}
    for clients in (1, CONCURRENCY):
        before = await _ended(gateway, "bench-work")
        used = _Used(gateway)
        found = await _load(gateway, "instances", clients, f"--seconds={plan.seconds}", f"--warmup={plan.warmup_s}")
        ended = await _ended(gateway, "bench-work")
        instances = found["instances"]
        if not ended - before == found["jobs"] == instances:
            raise NotAudited(f"{instances} instances, {found['jobs']} jobs were done, and {ended - before} ended")
        name = f"operational.work.c{clients}"
        figures |= _latencies(name, found["latencies"])
        figures[f"{name}.start_p50_ms"] = _quantile(found["starts"], 50)
        if clients > 1:
            figures |= {f"{name}.per_s": found["per_s"], **used.each("operational.work", instances, found)}
    return figures


# --- waiting, and being told --------------------------------------------------------------------------------------


async def _wait(gateway: Served, plan: Plan, how: str) -> dict[str, float]:
    """Start instances that wait for a message, in memory or parked."""
    await _load(gateway, "starts", CONCURRENCY, "--first=1000000", f"--count={_WARM}")
    if how == "parked":
        await _until_parked(gateway, _WARM)
    before_bytes = resident_bytes(gateway.gateway.pid)
    used = _Used(gateway)
    found = await _load(gateway, "starts", CONCURRENCY, f"--count={plan.waiting}")
    figures: dict[str, float] = {}
    if how == "parked":
        await _until_parked(gateway, plan.waiting + _WARM)
        figures |= used.each("operational.start_and_park", plan.waiting, found)
    else:
        figures["operational.start.c16.per_s"] = found["per_s"]
        figures |= _latencies("operational.start.c16", found["latencies"])
        figures |= used.each("operational.start", plan.waiting, found)
    figures[f"operational.{how}_instance_bytes"] = (resident_bytes(gateway.gateway.pid) - before_bytes) / plan.waiting
    waiting = (await _one(gateway, "SELECT count(*) FROM open_instance WHERE process_id = 'bench-wait'"))[0]
    if waiting != plan.waiting + _WARM:
        raise NotAudited(f"{plan.waiting + _WARM} instances were started, and {waiting} wait")
    return figures


async def _tell(gateway: Served, plan: Plan, name: str) -> dict[str, float]:
    """Messages to waiting instances: one at a time until its instance has it, then as fast as they are taken."""
    before = await _ended(gateway, "bench-wait")
    one = await _load(gateway, "correlations", 1, f"--count={plan.one_by_one}")
    ended = await _ended(gateway, "bench-wait")
    if ended - before != plan.one_by_one:
        raise NotAudited(f"{plan.one_by_one} messages were correlated, and {ended - before} instances ended")
    figures = _latencies(f"operational.{name}.c1", one["latencies"])
    count = min(plan.waiting - plan.one_by_one, 2_000)
    used = _Used(gateway)
    found = await _load(gateway, "publications", CONCURRENCY, f"--first={plan.one_by_one}", f"--count={count}")
    await _until_ended(gateway, ended + count)
    last_at_s = float((await _one(gateway, "SELECT extract(epoch FROM max(ended_at)) FROM record"))[0])
    return {
        **figures,
        f"operational.{name}.published_per_s": found["per_s"],
        f"operational.{name}.correlated_per_s": count / (last_at_s - found["began_at_s"]),
        **used.each(f"operational.{name}", count, found),
    }


async def _until_ended(gateway: Served, wanted: int) -> None:
    async def holds() -> bool:
        return await _ended(gateway, "bench-wait") >= wanted

    await _until(holds)


async def _until_parked(gateway: Served, wanted: int) -> None:
    async def holds() -> bool:
        return await _parked(gateway) >= wanted

    await _until(holds)


async def _until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(_PATIENCE_S):
        while True:
            if await holds():
                return
            await asyncio.sleep(0.05)


async def _parked(gateway: Served) -> float:
    async with aiohttp.ClientSession() as http, http.get(f"{gateway.gateway.url}/metrics") as answer:
        for line in (await answer.text()).splitlines():
            if line.startswith("conch_operational_instances{") and '"parked"' in line:
                return float(line.split()[-1])
    raise RuntimeError("the gateway does not say how many instances are parked")


# --- counting -----------------------------------------------------------------------------------------------------


class _Used:
    """CPU time from now on."""

    def __init__(self, gateway: Served) -> None:
        self._of = gateway
        self._gateway_s = cpu_s(gateway.gateway.pid)
        self._postgres_s = children_cpu_s(gateway.postgres_pid)

    def each(self, name: str, count: int, found: Mapping[str, Any]) -> dict[str, float]:
        """Milliseconds of the gateway, of Postgres and of the load for one of `count`."""
        gateway_s = cpu_s(self._of.gateway.pid) - self._gateway_s
        postgres_s = children_cpu_s(self._of.postgres_pid) - self._postgres_s
        return {
            f"{name}.gateway_cpu_ms": gateway_s / count * 1000,
            f"{name}.postgres_cpu_ms": postgres_s / count * 1000,
            f"{name}.load_cpu_ms": found["cpu_s"] / count * 1000,
        }


async def _load(gateway: Served, what: str, connections: int, *options: str) -> dict[str, Any]:
    port = f"--port={gateway.port}"
    return await child("tests.bench.operational_load", what, port, f"--connections={connections}", *options)


def _latencies(name: str, latencies_us: list[int]) -> dict[str, float]:
    return {f"{name}.p50_ms": _quantile(latencies_us, 50), f"{name}.p99_ms": _quantile(latencies_us, 99)}


def _quantile(latencies_us: list[int], percent: int) -> float:
    return latencies_us[len(latencies_us) * percent // 100] / 1000


async def _ended(gateway: Served, process_id: str) -> int:
    """Instances whose end the audit holds, completed as their diagram says."""
    query = f"""
        SELECT count(*), count(*) FILTER (WHERE state <> 'completed') FROM record
        WHERE kind = 'instance_ended' AND process_id = '{process_id}'
    """
    ended, otherwise = await _one(gateway, query)
    if otherwise:
        raise NotAudited(f"{otherwise} instances did not complete")
    return int(ended)


async def _one(gateway: Served, query: str) -> tuple[Any, ...]:
    async with await psycopg.AsyncConnection.connect(gateway.database_url) as connection:
        row = await (await connection.execute(query.encode())).fetchone()
    assert row is not None
    return tuple(row)


def main(plan: Plan = FULL) -> None:
    began_s = time.monotonic()
    figures, storage = asyncio.run(measure(plan))
    print(json.dumps({**storage, **figures, "took_s": time.monotonic() - began_s}, indent=2))


if __name__ == "__main__":
    main(QUICK if "--quick" in sys.argv else FULL)
