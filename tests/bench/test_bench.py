"""Owns the proof that the benchmarks measure what they say, on any machine.
Never asserts a duration or a rate.
Called by pytest.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

import pytest

from tests.bench import gateway_bench, load, machine, operational_bench, sampled, table
from tests.triton_fixtures import require_tritonserver

SHARED_MEMORY = Path("/dev/shm")


@pytest.mark.skipif(not SHARED_MEMORY.is_dir(), reason="no /dev/shm here")
def test_a_data_folder_in_memory_is_refused_before_anything_is_measured() -> None:
    with pytest.raises(machine.InMemory, match="choose a folder on a disk"):
        machine.describe_storage(SHARED_MEMORY, "postgresql://nobody@nowhere/none")


def test_the_load_generator_waits_for_whole_answers_and_counts_refused_ones_apart() -> None:
    served = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal served
        while await reader.readline():
            length = 0
            while (line := await reader.readline()) != b"\r\n":
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            await reader.readexactly(length)
            status = b"503 Service Unavailable" if served == 3 else b"200 OK"
            served += 1
            writer.write(b"HTTP/1.1 " + status + b"\r\ncontent-length: 6\r\n\r\nabc")
            await writer.drain()
            await asyncio.sleep(0)
            writer.write(b"def")
        writer.close()

    async def measure() -> dict[str, object]:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        options = argparse.Namespace(host="127.0.0.1", port=port, path="/x", connections=2, warmup=0.0, seconds=0.2)
        try:
            return await load._measure(options, b"{}")
        finally:
            server.close()

    found = asyncio.run(measure())
    assert found["answers"] == served
    assert found["failures"] == {"abcdef": 1}


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("/x/site-packages/prometheus_client/values.py", "metrics"),
        ("/x/engine/store/encoding.py", "records"),
        ("/x/engine/store/journal.py", "journal"),
        ("/x/site-packages/uvicorn/server.py", "http"),
        ("/x/tasks/triton.py", "grpc"),
        ("/x/tasks/route.py", "tasks"),
        ("/x/site-packages/SpiffWorkflow/task.py", "engine"),
        ("/x/engine/runtime.py", "runtime"),
        ("/x/engine/cli/serve.py", "asyncio"),
        ("/usr/lib/python3.11/decimal.py", None),
    ],
)
def test_cpu_time_is_charged_to_the_part_whose_code_it_is(path: str, part: str | None) -> None:
    assert sampled.part_of(path) == part


def test_missed_targets_are_named_and_unmeasured_ones_are_not() -> None:
    assert table.missed({"gateway.triton.c16.rps": 599.0, "engine.lifecycle_per_s": 3000.0}) == [
        "gateway.triton.c16.rps"
    ]


@pytest.mark.triton
@pytest.mark.postgres
@pytest.mark.skipif(sys.platform != "linux", reason="CPU time is read from /proc")
def test_the_whole_gateway_is_measured_against_rows_that_the_audit_holds(
    postgres_binaries: Path, monkeypatch: pytest.MonkeyPatch, cluster_dir: Path
) -> None:
    require_tritonserver()
    monkeypatch.setattr(gateway_bench, "FOLDER", cluster_dir / "bench")
    plan = gateway_bench.Plan(seconds=0.3, warmup_s=0.1, repetitions=1)
    figures, storage = asyncio.run(gateway_bench.measure(plan))
    wanted = {
        "gateway.noop.c16.rps",
        "gateway.triton.c1.added_p50_ms",
        "gateway.triton.c16.rps",
        "gateway.triton.c16.p50_ms",
        "gateway.triton.c16.p99_ms",
        "gateway.cpu_ms_per_request",
        *(f"budget.{part}_us" for part in table.BUDGET_US),
    }
    assert wanted <= figures.keys()
    assert storage["postgres_fsync"] == storage["postgres_synchronous_commit"] == "on"
    assert figures["gateway.facts_per_request"] >= 13
    parts_us = sum(us for name, us in figures.items() if name.startswith("budget.") and name != "budget.total_us")
    assert parts_us == pytest.approx(figures["budget.total_us"])


@pytest.mark.postgres
@pytest.mark.skipif(sys.platform != "linux", reason="CPU time is read from /proc")
def test_operational_instances_are_measured_against_what_the_audit_holds(
    postgres_binaries: Path, monkeypatch: pytest.MonkeyPatch, cluster_dir: Path
) -> None:
    monkeypatch.setattr(operational_bench, "FOLDER", cluster_dir / "bench")
    plan = operational_bench.Plan(seconds=0.3, warmup_s=0.1, waiting=40, one_by_one=5, deployments=1)
    figures, storage = asyncio.run(operational_bench.measure(plan))
    wanted = {name for name in table.TARGETS if name.startswith("operational.")} | {
        "operational.start.c16.per_s",
        "operational.wake.c1.p50_ms",
        "operational.parked_instance_bytes",
        "operational.deployment.elements_300_ms",
    }
    assert wanted <= figures.keys()
    assert storage["postgres_fsync"] == storage["postgres_synchronous_commit"] == "on"
