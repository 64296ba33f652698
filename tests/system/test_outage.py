"""Owns the proof of what happens while Postgres is away: nobody gets an answer that the audit does not hold.
Never restarts the gateway.
Called by pytest.
"""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.gateway_fixtures import MODELS, SETTINGS, GatewayProcess, replicas, samples, until
from tests.system.bodies import INFER, texts
from tests.system.load import Answer, connected
from tests.system.postgres import KillablePostgres
from tests.triton_fixtures import TritonServer

pytestmark = [pytest.mark.postgres, pytest.mark.triton]

Make = Callable[..., GatewayProcess]


@pytest.fixture
def killable(postgres_binaries: Path, cluster_dir: Path) -> Iterator[KillablePostgres]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = KillablePostgres(cluster_dir, port)
    try:
        server.start()
        yield server
    finally:
        server.close()


def test_no_answer_without_its_rows_while_postgres_dies_and_comes_back(
    make_gateway: Make, killable: KillablePostgres, triton_pair: tuple[TritonServer, TritonServer]
) -> None:
    toml = SETTINGS + MODELS + replicas(*triton_pair)
    gateway = make_gateway(toml, url=killable.url).start("embed")
    answers: list[Answer] = []

    async def ask(stop: asyncio.Event) -> None:
        async with connected(gateway.url) as connection:
            while not stop.is_set():
                answer = await connection.post(INFER, texts("is it safe"))
                answers.append(answer)
                if answer.status != 200:
                    await asyncio.sleep(0.05)  # as a client does that was told to come back

    def outage() -> None:
        def answered(status: int, more: int) -> None:
            goal = statuses()[status] + more
            until(f"{more} more answers {status}", lambda: statuses()[status] >= goal)

        answered(200, 30)
        killable.kill()
        until("readiness is 503", lambda: gateway.get("/v2/health/ready").status_code == 503)
        assert gateway.get("/v2/health/ready").json()["reasons"] == ["the audit store (Postgres) does not accept rows"]
        assert gateway.get("/v2/health/live").status_code == 200
        answered(503, 20)
        assert gateway.get("/v2/health/live").status_code == 200
        assert samples(gateway.get("/metrics").text, "conch_journal_available")[0][1] == 0
        killable.start()
        until("readiness is 200", lambda: gateway.get("/v2/health/ready").status_code == 200)
        answered(200, 30)

    def statuses() -> Counter[int]:
        return Counter(answer.status for answer in list(answers))

    async def both() -> None:
        stop = asyncio.Event()
        asking = [asyncio.create_task(ask(stop)) for _ in range(6)]
        try:
            await asyncio.to_thread(outage)
        finally:
            stop.set()
            await asyncio.gather(*asking)

    asyncio.run(both())
    assert set(statuses()) == {200, 503}
    refused = [answer for answer in answers if answer.status == 503]
    assert {answer.json()["code"] for answer in refused} == {"JOURNAL_UNAVAILABLE"}
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)
    audit = gateway.audit
    audit.close()  # its connection died with the server
    served = [answer.key for answer in answers if answer.status == 200 and answer.key]
    assert audit.broken(served) == []
    # Whoever began before the outage and was not answered has ended by now too; nothing is open, nothing twice.
    until("nothing is open", lambda: not audit.ask("SELECT FROM audit.requests WHERE ended_at IS NULL"))
    every = [row["process_instance_key"] for row in audit.requests()]
    assert audit.broken(every) == []
    assert audit.count("dead_letter") == 0
    codes = {row["error_code"] for row in audit.requests() if row["process_instance_key"] not in set(served)}
    assert codes <= {None, "JOURNAL_UNAVAILABLE", "CLIENT_DISCONNECTED"}
    assert gateway.stop() == 0


def test_what_is_read_while_postgres_is_away_is_a_problem_document_and_the_gateway_lives(
    make_gateway: Make, killable: KillablePostgres, triton_pair: tuple[TritonServer, TritonServer]
) -> None:
    toml = SETTINGS + MODELS + replicas(*triton_pair)
    gateway = make_gateway(toml, url=killable.url).start("embed")
    key = gateway.post(INFER, texts("before")).headers["conch-process-instance"]
    assert gateway.get(f"/process-instances/{key}").status_code == 200
    killable.kill()
    for path in (f"/process-instances/{key}", "/process-definitions"):
        answer = gateway.get(path)
        assert (answer.status_code, answer.headers["content-type"]) == (503, "application/problem+json")
        assert answer.headers["retry-after"] == "1"
    assert gateway.get("/v2/models/embed/ready").status_code == 200
    killable.start()
    until("it can be read again", lambda: gateway.get(f"/process-instances/{key}").status_code == 200)
