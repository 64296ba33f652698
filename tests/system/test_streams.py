"""Owns the proof of what happens to a stream, and to a client that leaves, with a real model behind it.
Never waits for a fixed time: it waits for what the client, the audit or the server shows.
Called by pytest.
"""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import httpx
import pytest

from tests.gateway_fixtures import GatewayProcess, samples, until
from tests.system.bodies import CHAT, INFER, prompt, texts
from tests.system.load import Broken, connected, events
from tests.triton_fixtures import TritonServer

pytestmark = [pytest.mark.postgres, pytest.mark.triton]

Pair = tuple[TritonServer, TritonServer]


def ended(gateway: GatewayProcess, key: int) -> dict[str, Any]:
    """The request's row, once it has ended."""
    row: dict[str, Any] = until(
        f"{key} has ended",
        lambda: next((row for row in [gateway.audit.request(key)] if row["ended_at"] is not None), None),
    )
    assert gateway.audit.broken([key]) == []
    return row


def idle(gateway: GatewayProcess) -> bool:
    """Nothing is in flight, in the gateway and on every replica."""
    text = gateway.get("/metrics").text
    gauges = ("conch_instances_active", "conch_replica_in_flight", "conch_queue_entries", "conch_queue_bytes")
    return not any(value for name in gauges for _, value in samples(text, name))


def executed(servers: Pair, model: str) -> int:
    """Requests that the model has finished on both servers, in whatever way."""
    total = 0
    for server in servers:
        (statistics,) = httpx.get(f"{server.http_url}/v2/models/{model}/stats", timeout=60).json()["model_stats"]
        total += statistics["inference_stats"]["success"]["count"] + statistics["inference_stats"]["fail"]["count"]
    return total


def leave_after(gateway: GatewayProcess, chunks: int, body: dict[str, Any]) -> int:
    """Read so many chunks of a stream, then close the connection; returns the process instance's key."""

    async def read_and_leave() -> int:
        async with connected(gateway.url) as connection:
            status, headers, reader = await connection.open(CHAT, body)
            assert status == 200
            seen = 0
            async for _ in events(reader):
                seen += 1
                if seen == chunks:
                    return int(headers["conch-process-instance"])
        pytest.fail(f"the stream ended after {seen} chunks")

    return asyncio.run(read_and_leave())


def test_chunks_arrive_before_the_model_has_ended_and_are_stored_with_their_instants(gateway: GatewayProcess) -> None:
    async def first_chunk_then_rest() -> tuple[dict[str, str], bool, int]:
        async with connected(gateway.url) as connection:
            _, headers, reader = await connection.open(CHAT, {"text_input": "a b", "max_tokens": 8, "delay_ms": 60})
            stream = events(reader)
            await anext(stream)
            key = int(headers["conch-process-instance"])
            running = await asyncio.to_thread(lambda: gateway.audit.request(key)["ended_at"] is None)
            return dict(headers), running, len([event async for event in stream])

    told, was_running, rest = asyncio.run(first_chunk_then_rest())
    key = int(told["conch-process-instance"])
    assert was_running
    assert rest == 7
    request = ended(gateway, key)
    (attempt,) = gateway.audit.attempts(key)
    assert attempt["sent_at"] < attempt["first_chunk_at"] <= attempt["first_token_at"]
    assert attempt["first_token_at"] < attempt["last_token_at"] <= attempt["done_at"]
    assert (attempt["chunks"], attempt["output_tokens"], attempt["input_tokens"]) == (8, 8, 2)
    first_token_us = (attempt["first_token_at"] - request["started_at"]).total_seconds() * 1e6
    assert request["ttft_us"] == round(first_token_us)
    assert not attempt["tokens_estimated"]
    assert (told["conch-attempts"], told["conch-replica"]) == ("1", attempt["replica"])


def test_the_start_is_durable_before_the_first_chunk_leaves(gateway: GatewayProcess) -> None:
    async def look() -> dict[str, Any]:
        async with connected(gateway.url) as connection:
            _, headers, reader = await connection.open(CHAT, {"text_input": "a", "max_tokens": 4096, "delay_ms": 20})
            await anext(events(reader))
            return await asyncio.to_thread(gateway.audit.request, headers["conch-process-instance"])

    assert asyncio.run(look())["state"] == "active"
    until("nothing is in flight", lambda: idle(gateway))


def test_a_client_that_leaves_ends_the_work_on_the_server_and_pays_for_what_it_got(
    gateway: GatewayProcess, triton_pair: Pair
) -> None:
    before = executed(triton_pair, "chat")
    key = leave_after(gateway, 5, {"text_input": "one two", "max_tokens": 4000, "delay_ms": 20})
    request = ended(gateway, key)
    # 4,000 tokens at 20 ms are more than a minute away: the model has been told, or it would still be at work.
    until("the model has stopped", lambda: executed(triton_pair, "chat") > before, limit_s=30)
    assert (request["error_code"], request["http_status"]) == ("CLIENT_DISCONNECTED", 499)
    assert request["state"] == "terminated"
    (attempt,) = gateway.audit.attempts(key)
    assert (attempt["outcome"], attempt["grpc_status"]) == ("client_disconnected", "CANCELLED")
    assert 5 <= attempt["chunks"] == attempt["output_tokens"] < 4000
    lines = {line["sku"]: line for line in gateway.audit.usage(key)}
    assert lines["input_tokens"]["quantity"] == 2
    assert lines["output_tokens"]["quantity"] == attempt["chunks"]
    assert all(line["billable"] for line in lines.values())
    assert request["cost_usd"] == 2 * Decimal("0.000001") + attempt["chunks"] * Decimal("0.000002")
    until("nothing is in flight", lambda: idle(gateway))


def test_a_client_that_leaves_a_unary_call_ends_it_with_usage(gateway: GatewayProcess, triton_pair: Pair) -> None:
    before = executed(triton_pair, "chat")
    known = {row["process_instance_key"] for row in gateway.audit.requests()}

    def newest() -> int | None:
        added = [row["process_instance_key"] for row in gateway.audit.requests()]
        return next((key for key in added if key not in known), None)

    async def leave_while_it_runs() -> int:
        async with connected(gateway.url) as connection:
            body = prompt("three little words", max_tokens=3000, delay_ms=20)
            asking = asyncio.create_task(connection.post("/v2/models/chat/generate", body))
            key: int = await asyncio.to_thread(until, "the request has begun", newest)
            connection.close()
            with pytest.raises(Broken):
                await asking
            return key

    request = ended(gateway, asyncio.run(leave_while_it_runs()))
    until("the model has stopped", lambda: executed(triton_pair, "chat") > before, limit_s=30)
    assert (request["error_code"], request["http_status"]) == ("CLIENT_DISCONNECTED", 499)
    (attempt,) = gateway.audit.attempts(request["process_instance_key"])
    assert attempt["outcome"] == "client_disconnected"
    lines = {line["sku"]: line["quantity"] for line in gateway.audit.usage(request["process_instance_key"])}
    assert lines["input_tokens"] > 0
    assert request["cost_usd"] > 0
    until("nothing is in flight", lambda: idle(gateway))


def test_clients_that_leave_at_random_leave_nothing_in_flight(gateway: GatewayProcess) -> None:
    async def leave(at: int) -> None:
        async with connected(gateway.url) as connection:
            _, _, reader = await connection.open(CHAT, {"text_input": "a", "max_tokens": 200, "delay_ms": at % 4})
            left = at % 7
            async for _ in events(reader):
                left -= 1
                if left <= 0:
                    return

    async def leave_all() -> None:
        await asyncio.gather(*map(leave, range(60)))

    asyncio.run(leave_all())
    until("nothing is in flight", lambda: idle(gateway))
    open_rows = [row["process_instance_key"] for row in gateway.audit.requests() if row["ended_at"] is None]
    assert open_rows == []


def test_an_error_after_the_first_token_ends_the_stream_and_is_not_retried(gateway: GatewayProcess) -> None:
    body = {"text_input": "a b c", "max_tokens": 9, "fail_after_tokens": 3}
    answer = gateway.post("/v2/models/faulty-stream/generate_stream", body)
    assert answer.status_code == 200
    told = [line for line in answer.text.split("\n\n") if line]
    assert len(told) == 4
    assert '"error"' not in "".join(told[:3])
    assert '"error":"fault error after 3 tokens"' in told[3]
    key = int(answer.headers["conch-process-instance"])
    request = ended(gateway, key)
    (attempt,) = gateway.audit.attempts(key)
    assert (request["error_code"], request["attempts"], request["fell_back"]) == ("STREAM_BROKEN", 1, False)
    assert (attempt["outcome"], attempt["chunks"], attempt["output_tokens"]) == ("error", 3, 3)
    assert request["cost_usd"] == 3 * Decimal("0.000001") + 3 * Decimal("0.000002")


def test_an_error_before_the_first_token_is_retried_and_falls_back_unseen(gateway: GatewayProcess) -> None:
    body = {"text_input": "a b c", "max_tokens": 4, "fail_after_tokens": 0, "fault": "unavailable"}
    answer = gateway.post("/v2/models/faulty-stream/generate_stream", body)
    assert answer.status_code == 200
    assert '"error"' not in answer.text
    assert "chat-small" in answer.text
    request = ended(gateway, int(answer.headers["conch-process-instance"]))
    outcomes = [(each["model"], each["outcome"]) for each in gateway.audit.attempts(request["process_instance_key"])]
    assert outcomes == [("faulty-stream", "error")] * 3 + [("chat-small", "ok")]
    assert (request["succeeded"], request["fell_back"]) == (True, True)
    assert request["answered_by_model"] == "chat-small"


def test_a_killed_server_breaks_a_stream_in_band(gateway: GatewayProcess, triton_pair: Pair) -> None:
    servers = {each.name: each for each in triton_pair}

    async def kill_where_it_runs() -> tuple[int, list[dict[str, Any]]]:
        async with connected(gateway.url) as connection:
            body = {"text_input": "a", "max_tokens": 4000, "delay_ms": 20}
            _, headers, reader = await connection.open(CHAT, body)
            stream = events(reader)
            told = [await anext(stream)]
            key = int(headers["conch-process-instance"])
            busy = until("the replica is known", lambda: _busy(gateway))
            await asyncio.to_thread(servers[busy].kill)
            return key, told + [event async for event in stream]

    key, told = asyncio.run(kill_where_it_runs())
    assert told[-1]["code"] == "STREAM_BROKEN"
    assert all("text_output" in event for event in told[:-1])
    request = ended(gateway, key)
    (attempt,) = gateway.audit.attempts(key)
    assert (request["error_code"], request["attempts"]) == ("STREAM_BROKEN", 1)
    assert (attempt["outcome"], attempt["grpc_status"]) == ("error", "UNAVAILABLE")
    assert attempt["chunks"] == len(told) - 1
    assert gateway.post(INFER, texts("the other server serves on")).status_code == 200


def _busy(gateway: GatewayProcess) -> str | None:
    flights = samples(gateway.get("/metrics").text, "conch_replica_in_flight")
    return next((labels["replica"] for labels, value in flights if value), None)
