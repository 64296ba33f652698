"""Owns the proof that dying, slow and full replicas cost nobody an answer that could have been given.
Never fakes a fault: servers are killed, models told to be slow, queues really filled.
Called by pytest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from functools import partial

import httpx
import pytest

from tests.gateway_fixtures import MODELS, SETTINGS, GatewayProcess, replicas, samples, until
from tests.system.bodies import INFER, prompt, texts
from tests.system.load import Answer, connected
from tests.triton_fixtures import TritonServer

pytestmark = [pytest.mark.postgres, pytest.mark.triton]

Pair = tuple[TritonServer, TritonServer]
Make = Callable[..., GatewayProcess]


def under_load(url: str, meanwhile: Callable[[Callable[[int], None]], None], connections: int = 8) -> list[Answer]:
    """Run `meanwhile` in a thread while requests go on. It gets a function that waits for so many more answers."""

    async def both() -> list[Answer]:
        stop = asyncio.Event()
        answers: list[Answer] = []

        async def ask() -> None:
            async with connected(url) as connection:
                while not stop.is_set():
                    answers.append(await connection.post(INFER, texts("under load")))

        def wait_for(more: int) -> None:
            goal = len(answers) + more
            until(f"{more} more answers", lambda: len(answers) >= goal)

        asking = [asyncio.create_task(ask()) for _ in range(connections)]
        try:
            await asyncio.to_thread(meanwhile, wait_for)
        finally:
            stop.set()
            await asyncio.gather(*asking)
        return answers

    return asyncio.run(both())


def test_a_server_that_is_killed_under_load_costs_no_request(gateway: GatewayProcess, triton_pair: Pair) -> None:
    killed, survivor = triton_pair

    def kill(wait_for: Callable[[int], None]) -> None:
        wait_for(30)
        killed.kill()
        wait_for(60)

    answers = under_load(gateway.url, kill)
    assert {answer.status for answer in answers} == {200}
    keys = [answer.key for answer in answers if answer.key]
    assert len(keys) == len(answers)
    assert gateway.audit.broken(keys) == []
    retried = "SELECT DISTINCT process_instance_key AS key FROM audit.attempts WHERE attempt_no > 1"
    told = {row["key"] for row in gateway.audit.ask(retried)} & set(keys)
    assert told, "the kill hit no request in flight"
    for key in told:
        first, *_, last = gateway.audit.attempts(key)
        assert (first["replica"], first["grpc_status"], first["outcome"]) == (killed.name, "UNAVAILABLE", "error")
        assert (last["replica"], last["grpc_status"], last["outcome"]) == (survivor.name, "OK", "ok")
        assert gateway.audit.elements(key).count("back_off") == len(gateway.audit.attempts(key)) - 1
    up = {labels["replica"]: value for labels, value in _up(gateway, "embed")}
    assert up == {killed.name: 0, survivor.name: 1}
    assert {a.headers["conch-replica"] for a in answers[-10:]} == {survivor.name}


def _up(gateway: GatewayProcess, model: str) -> list[tuple[dict[str, str], float]]:
    found = samples(gateway.get("/metrics").text, "conch_replica_up")
    return [(labels, value) for labels, value in found if labels["model"] == model]


def test_without_any_server_there_is_a_reason_and_when_to_come_back_and_then_it_recovers(
    gateway: GatewayProcess, triton_pair: Pair
) -> None:
    for server in triton_pair:
        server.kill()
    until("both are out", lambda: not any(value for _, value in _up(gateway, "embed")))
    answer = gateway.post(INFER, texts("nobody is there"))
    assert (answer.status_code, answer.json()["code"]) == (503, "NO_REPLICA")
    assert int(answer.headers["retry-after"]) >= 1
    assert answer.json()["retry_after_ms"] > 0
    assert all(server.name in answer.json()["error"] for server in triton_pair)
    request = gateway.audit.request(answer.headers["conch-process-instance"])
    assert (request["error_code"], request["http_status"]) == ("NO_REPLICA", 503)
    assert gateway.audit.broken([request["process_instance_key"]]) == []
    assert gateway.get("/v2/models/embed/ready").status_code == 503
    assert gateway.get("/v2/health/live").status_code == 200
    for server in triton_pair:
        server.start()
    gateway.wait_up(*(server.name for server in triton_pair))
    assert gateway.post(INFER, texts("they are back")).status_code == 200


def test_a_dead_model_leaves_rotation_although_its_server_says_ready(make_gateway: Make, triton_pair: Pair) -> None:
    broken, whole = triton_pair
    gateway = make_gateway(
        SETTINGS + '[[models]]\nname = "faulty"\n[[models]]\nname = "embed"\n' + replicas(*triton_pair)
    )
    gateway.start("faulty", "embed").wait_up(broken.name, whole.name)
    httpx.post(f"{broken.http_url}/v2/models/faulty/infer", json=texts("a", fault="die"), timeout=60)
    assert httpx.get(f"{broken.http_url}/v2/models/faulty/ready", timeout=60).status_code == 200
    assert httpx.get(f"{broken.http_url}/v2/health/ready", timeout=60).status_code == 200

    def out() -> bool:
        return {labels["replica"]: value for labels, value in _up(gateway, "faulty")}[broken.name] == 0

    until("the dead model is out of rotation", out)
    assert {value for _, value in _up(gateway, "embed")} == {1}
    answers = [gateway.post("/v2/models/faulty/infer", texts("a")) for _ in range(6)]
    assert {each.status_code for each in answers} == {200}
    assert {each.headers["conch-replica"] for each in answers} == {whole.name}
    assert {each.headers["conch-attempts"] for each in answers} == {"1"}
    (step,) = (
        each
        for each in gateway.audit.steps(answers[0].headers["conch-process-instance"])
        if each["element_id"] == "check_health"
    )
    assert step["variables"]["candidates"] == [whole.name]
    assert step["variables"]["unhealthy"][0]["replica"] == broken.name


def test_a_deadline_ends_the_request_at_its_instant_and_the_work_on_the_server(
    gateway: GatewayProcess, triton_pair: Pair
) -> None:
    def finished() -> int:
        total = 0
        for server in triton_pair:
            (stats,) = httpx.get(f"{server.http_url}/v2/models/chat/stats", timeout=60).json()["model_stats"]
            total += stats["inference_stats"]["success"]["count"] + stats["inference_stats"]["fail"]["count"]
        return total

    before = finished()
    body = prompt(max_tokens=4000, delay_ms=20)
    answer = gateway.post("/v2/models/chat/generate", body, {"Conch-Deadline-Ms": "200"})
    assert (answer.status_code, answer.json()["code"]) == (504, "DEADLINE_EXCEEDED")
    key = answer.headers["conch-process-instance"]
    request = gateway.audit.request(key)
    (attempt,) = gateway.audit.attempts(key)
    assert (request["deadline_ms"], request["error_code"], request["http_status"]) == (200, "DEADLINE_EXCEEDED", 504)
    assert attempt["outcome"] == "timeout"
    # The deadline counts from the arrival, which is before the start; nothing gave up before it.
    deadline_at = request["started_at"] + timedelta(milliseconds=200)
    assert attempt["sent_at"] < deadline_at
    assert request["ended_at"] >= attempt["done_at"] >= deadline_at - timedelta(milliseconds=100)
    assert not request["fell_back"]
    until("the model has stopped", lambda: finished() > before, limit_s=30)


def test_a_full_queue_and_a_long_wait_are_refused_with_knob_value_and_limit(
    make_gateway: Make, triton_pair: Pair
) -> None:
    limits = "[limits]\nmax_concurrency = 1\nqueue_entries = 2\nqueue_timeout_ms = 400\n"
    gateway = make_gateway(limits + SETTINGS + MODELS + replicas(*triton_pair)).start("chat")
    path, body = "/v2/models/chat/generate", prompt(max_tokens=100, delay_ms=20)

    def queued(requests: int) -> bool:
        text = gateway.get("/metrics").text
        active = sum(value for _, value in samples(text, "conch_instances_active"))
        waiting = sum(value for _, value in samples(text, "conch_queue_entries"))
        return (active, waiting) == (requests + 1, requests)

    async def ask() -> Answer:
        async with connected(gateway.url) as connection:
            return await connection.post(path, body)

    async def four() -> list[Answer]:
        running = [asyncio.create_task(ask())]
        for waiting in (0, 1, 2):
            await asyncio.to_thread(until, f"{waiting} wait", partial(queued, waiting))
            running.append(asyncio.create_task(ask()))
        return await asyncio.gather(*running)

    served, first, second, refused = asyncio.run(four())
    assert served.status == 200
    for late in (first, second):
        assert (late.status, late.json()["code"]) == (503, "QUEUE_TIMEOUT")
        assert "limits.queue_timeout_ms is 400" in late.json()["error"]
        assert "limits.max_concurrency is 1" in late.json()["error"]
    assert (refused.status, refused.json()["code"]) == (429, "QUEUE_FULL")
    assert "limits.queue_entries is 2 and 2 requests wait" in refused.json()["error"]
    for answer in (first, second, refused):
        assert int(answer.headers["retry-after"]) >= 1
        assert answer.json()["retry_after_ms"] > 0
        row = gateway.audit.request(answer.headers["conch-process-instance"])
        assert (row["http_status"], row["end_element_id"], row["attempts"]) == (answer.status, "refused", 0)
        (decision,) = gateway.audit.decisions(answer.headers["conch-process-instance"])
        assert (decision["decision"], decision["chosen"], decision["reason"]) == (
            "admission",
            None,
            row["error_message"],
        )


def test_a_burst_that_fits_the_queue_is_served_in_turn(make_gateway: Make, triton_pair: Pair) -> None:
    limits = "[limits]\nmax_concurrency = 2\nqueue_entries = 40\nqueue_timeout_ms = 60000\n"
    gateway = make_gateway(limits + SETTINGS + MODELS + replicas(*triton_pair)).start("embed")

    async def burst() -> list[Answer]:
        async def ask() -> Answer:
            async with connected(gateway.url) as connection:
                return await connection.post(INFER, texts("one of many"))

        return await asyncio.gather(*(ask() for _ in range(40)))

    answers = asyncio.run(burst())
    assert {answer.status for answer in answers} == {200}
    overlap = """
        SELECT max((SELECT count(*) FROM audit.attempts b
            WHERE b.sent_at <= a.sent_at AND b.done_at > a.sent_at)) AS most FROM audit.attempts a
    """
    (row,) = gateway.audit.ask(overlap)
    assert 1 <= row["most"] <= 2
