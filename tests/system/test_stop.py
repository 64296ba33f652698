"""Owns the proof of how a gateway ends, and of who closes what it leaves open.
Never leaves a request running: each has ended in the audit, or is closed by the next gateway.
Called by pytest.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Any

import pytest

from tests.gateway_fixtures import MODELS, SETTINGS, GatewayProcess, replicas, until
from tests.system.bodies import CHAT, INFER, prompt, texts
from tests.system.load import Answer, Broken, connected, events
from tests.triton_fixtures import TritonServer

pytestmark = [pytest.mark.postgres, pytest.mark.triton]

Make = Callable[..., GatewayProcess]
Pair = tuple[TritonServer, TritonServer]

GENERATE = "/v2/models/chat/generate"
FAST_LEASE = "[runtime]\nlease_ms = 1000\n"


@pytest.fixture
def toml(triton_pair: Pair) -> str:
    return FAST_LEASE + SETTINGS + MODELS + replicas(*triton_pair)


def running(gateway: GatewayProcess, requests: int) -> bool:
    text = gateway.get("/metrics").text
    return f"conch_instances_active {float(requests)}\n" in text


def ready(gateway: GatewayProcess) -> bool:
    return gateway.get("/v2/health/ready").status_code == 200


def leases(gateway: GatewayProcess) -> list[dict[str, Any]]:
    return gateway.audit.ask("SELECT * FROM engine_process ORDER BY epoch")


def test_sigterm_lets_running_requests_finish_and_refuses_new_ones(make_gateway: Make, toml: str) -> None:
    gateway = make_gateway(toml).start("chat")

    async def scenario() -> tuple[list[Answer], int, Answer]:
        async def ask(tokens: int) -> Answer:
            async with connected(gateway.url) as connection:
                return await connection.post(GENERATE, prompt(max_tokens=tokens, delay_ms=20))

        async with connected(gateway.url) as late, connected(gateway.url) as streaming:
            _, _, reader = await streaming.open(CHAT, {"text_input": "a", "max_tokens": 100, "delay_ms": 20})
            stream = events(reader)
            await anext(stream)
            asking = [asyncio.create_task(ask(tokens)) for tokens in (60, 80, 100)]
            await asyncio.to_thread(until, "all of them run", lambda: running(gateway, 4))
            gateway.signal(signal.SIGTERM)
            await asyncio.to_thread(until, "it is not ready any more", lambda: not ready(gateway))
            assert (await asyncio.to_thread(gateway.get, "/v2/health/live")).status_code == 200
            refused = await late.post(INFER, texts("too late"))
            rest = len([event async for event in stream])
            return await asyncio.gather(*asking), rest, refused

    answers, rest, refused = asyncio.run(scenario())
    assert [answer.status for answer in answers] == [200, 200, 200]
    assert rest == 99
    assert (refused.status, refused.json()["code"]) == (503, "DRAINING")
    assert "retry-after" in refused.headers
    assert gateway.wait() == 0
    assert gateway.audit.refusal(refused.headers["conch-request-id"])["error_code"] == "DRAINING"
    requests = gateway.audit.requests()
    assert len(requests) == 4
    assert all(row["succeeded"] and not row["incomplete"] for row in requests)
    (lease,) = leases(gateway)
    assert lease["released_at"] is not None
    assert lease["recovered_at"] is not None


def test_what_does_not_finish_in_time_is_ended_with_the_reason_and_its_usage(make_gateway: Make, toml: str) -> None:
    gateway = make_gateway("[server]\ndrain_ms = 300\n" + toml).start("chat")

    async def scenario() -> Answer:
        async with connected(gateway.url) as connection:
            asking = asyncio.create_task(connection.post(GENERATE, prompt(max_tokens=4000, delay_ms=20)))
            await asyncio.to_thread(until, "it runs", lambda: running(gateway, 1))
            gateway.signal(signal.SIGINT)
            return await asking

    answer = asyncio.run(scenario())
    assert (answer.status, answer.json()["code"]) == (503, "DRAINING")
    assert gateway.wait() == 0
    (request,) = gateway.audit.requests()
    assert (request["state"], request["error_code"], request["incomplete"]) == ("terminated", "DRAINING", False)
    assert [each["outcome"] for each in gateway.audit.attempts(request["process_instance_key"])] == ["cancelled"]


def test_a_second_sigterm_aborts_and_the_next_start_closes_what_was_open(make_gateway: Make, toml: str) -> None:
    gateway = make_gateway(toml).start("chat")

    async def scenario() -> Answer | None:
        async with connected(gateway.url) as connection:
            asking = asyncio.create_task(connection.post(GENERATE, prompt(max_tokens=4000, delay_ms=20)))
            await asyncio.to_thread(until, "its start is durable", gateway.audit.requests)
            gateway.signal(signal.SIGTERM)
            await asyncio.to_thread(until, "it drains", lambda: "stopping: 1 request(s) running" in gateway.log)
            gateway.signal(signal.SIGTERM)
            try:
                return await asking
            except Broken:
                return None

    answer = asyncio.run(scenario())
    assert answer is None or answer.status == 503
    assert gateway.wait() == 1
    assert "aborting" in gateway.log
    (request,) = gateway.audit.requests()
    assert request["ended_at"] is None
    gateway.start()
    until("it is closed", lambda: gateway.audit.requests()[0]["ended_at"])
    (request,) = gateway.audit.requests()
    assert (request["state"], request["error_code"], request["http_status"]) == ("aborted", "ABORTED", 503)
    assert not request["incomplete"]
    assert gateway.audit.broken([request["process_instance_key"]]) == []


def test_two_gateways_share_a_database_and_one_closes_what_the_other_left_open(make_gateway: Make, toml: str) -> None:
    first, second = make_gateway(toml).start("chat"), make_gateway(toml).start("chat")
    answers = [gateway.post(INFER, texts("who writes")) for gateway in (first, second) for _ in range(3)]
    assert {answer.status_code for answer in answers} == {200}
    held = leases(first)
    assert len({lease["writer_id"] for lease in held}) == len(held) == 2
    writers = first.audit.ask("SELECT writer_epoch, count(DISTINCT process_instance_key) AS n FROM record GROUP BY 1")
    assert sorted(row["n"] for row in writers) == [3, 3]
    assert len({item["version"] for item in second.get("/process-definitions").json()["items"]}) == 1

    async def die_with_open_requests() -> list[int]:
        async with connected(first.url) as one, connected(first.url) as two, connected(second.url) as other:
            keys = []
            for connection in (one, two, other):
                body = {"text_input": "a", "max_tokens": 120, "delay_ms": 20}
                _, headers, reader = await connection.open(CHAT, body)
                stream = events(reader)
                await anext(stream)
                keys.append(int(headers["conch-process-instance"]))
            await asyncio.to_thread(first.kill)
            assert len([event async for event in stream]) == 119  # the other gateway's stream goes on
            return keys

    dead_one, dead_two, alive = asyncio.run(die_with_open_requests())
    audit = second.audit
    until("they are closed", lambda: all(audit.request(key)["ended_at"] for key in (dead_one, dead_two)))
    for key in (dead_one, dead_two):
        request = audit.request(key)
        assert (request["state"], request["error_code"]) == ("aborted", "ABORTED")
    assert audit.request(alive)["succeeded"]
    assert audit.broken([dead_one, dead_two, alive]) == []
    until("the dead one is looked after", lambda: leases(second)[0]["recovered_at"])
    assert leases(second)[0]["claimed_by"] == leases(second)[1]["epoch"]
    assert leases(second)[1]["claimed_by"] is None
    assert second.post(INFER, texts("and goes on")).status_code == 200


def test_a_gateway_that_is_taken_for_dead_ends_and_answers_nobody_any_more(make_gateway: Make, toml: str) -> None:
    gateway = make_gateway(toml).start("chat")

    async def scenario() -> Answer | None:
        async with connected(gateway.url) as connection:
            asking = asyncio.create_task(connection.post(GENERATE, prompt(max_tokens=4000, delay_ms=20)))
            await asyncio.to_thread(until, "its start is durable", gateway.audit.requests)
            gateway.audit.tamper("UPDATE engine_process SET claimed_by = epoch + 1")
            try:
                return await asking
            except Broken:
                return None

    answer = asyncio.run(scenario())
    assert answer is None or (answer.status, answer.json()["code"]) == (503, "ABORTED")
    assert gateway.wait() == 1
    assert "was taken for dead; its instances belong to another process" in gateway.log
    assert "Traceback" not in gateway.log
    (request,) = gateway.audit.requests()
    assert request["ended_at"] is None  # whoever took it over closes it
