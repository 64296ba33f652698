"""The tasks on real servers that break: probes, lost connections, dead stubs, cancellation, recovery."""

import asyncio
import urllib.request
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from engine import BpmnError, Code, InferenceCall, Settings
from tasks.resources import Resources
from tests.task_calls import Request, generate_call, infer_call, opened, requested, until
from tests.triton_fixtures import TritonServer

pytestmark = pytest.mark.triton

TOPICS = ("admit", "check_health", "route", "infer", "settle")
LIMIT_S = 60.0
_PENDING = "nv_inference_pending_request_count"
MODELS = ("embed", "chat", "chat-small", "faulty", "faulty-stream")


def settings_for(*servers: TritonServer, **probes: int) -> Settings:
    return Settings.model_validate(
        {
            "replicas": [{"name": server.name, "grpc": server.grpc_url} for server in servers],
            "models": [{"name": name} for name in MODELS],
            "probes": {"interval_ms": 200, "timeout_ms": 2_000, **probes},
        }
    )


def play(scenario: Callable[[Resources], Awaitable[None]], *servers: TritonServer, **probes: int) -> None:
    async def run() -> None:
        async with asyncio.timeout(LIMIT_S), opened(settings_for(*servers, **probes)) as resources:
            await scenario(resources)

    asyncio.run(run())


async def outcome(resources: Resources, call: InferenceCall, **options: float) -> tuple[str, Request]:
    """`ok` or the code of the error that the diagram would get."""
    async with requested(resources, call, **options) as request:
        try:
            await request.run(*TOPICS)
        except BpmnError as error:
            return error.code, request
        return "ok", request


def health_status(server: TritonServer) -> int:
    with urllib.request.urlopen(f"{server.http_url}/v2/health/ready", timeout=5) as answer:
        return int(answer.status)


async def in_thread(work: Callable[[], None]) -> None:
    await asyncio.get_running_loop().run_in_executor(None, work)


def test_a_dead_stub_is_found_by_the_probe_while_the_server_says_ready(triton: TritonServer) -> None:
    async def scenario(resources: Resources) -> None:
        assert all(resources.readiness().values())
        call = infer_call("faulty", "x", fault="die")
        client = resources.fleet.replicas[triton.name].client
        async with requested(resources, call) as request:  # the model dies outside the gateway's own traffic
            await request.run("admit")
            wire = resources.ticket_of(_context(request)).request
            wire.model_name = "faulty"
            with pytest.raises(Exception, match="Stub process"):
                await client.infer(wire, 10.0)
        await until(lambda: resources.fleet.health_of("faulty")[0] == [])
        assert health_status(triton) == 200
        [down] = resources.fleet.health_of("faulty")[1]
        assert "Stub process 'faulty_0_0' is not healthy" in down.reason
        assert resources.fleet.health_of("embed")[0] == [triton.name]
        code, request = await outcome(resources, infer_call("faulty", "x"))
        assert (code, request.attempts) == (Code.NO_REPLICA, [])

    play(scenario, triton)


def _context(request: Request) -> Any:
    """Just enough of a context to look up the ticket of a request."""
    return type("Context", (), {"instance_key": request.key, "defer": request.defer})()


def test_a_decoupled_model_whose_stub_died_is_found_by_the_probe(triton: TritonServer) -> None:
    async def scenario(resources: Resources) -> None:
        call = generate_call("faulty-stream", "x", stream=True, max_tokens=9, fault="die", fail_after_tokens=2)
        running = asyncio.create_task(outcome(resources, call, deadline_s=4.0))
        await until(lambda: resources.fleet.health_of("faulty-stream")[0] == [])
        assert health_status(triton) == 200
        code, request = await running
        assert code == Code.DEADLINE_EXCEEDED
        assert (request.attempts[0].chunks, request.attempts[0].outcome) == (2, "timeout")

    play(scenario, triton, timeout_ms=500, failures_out=2)


def test_a_killed_server_fails_what_is_in_flight_and_is_out_at_once(
    triton_pair: tuple[TritonServer, TritonServer],
) -> None:
    killed, other = triton_pair

    async def scenario(resources: Resources) -> None:
        slow = generate_call("chat", "x", stream=True, max_tokens=2_000, delay_ms=20)
        unary = infer_call("faulty", "x", fault="slow:20000")
        running: list[tuple[Request, asyncio.Task[Any]]] = []
        for call in (slow, unary):
            request = Request(resources, call)
            resources.fleet.replicas[other.name].in_flight += 1_000  # so that both go to the other one
            await request.run("admit", "check_health", "route")
            resources.fleet.replicas[other.name].in_flight -= 1_000
            assert request.variables["replica"] == killed.name
            running.append((request, asyncio.create_task(request.run("infer"))))
        await running[0][0].chunk_arrived.wait()
        await in_thread(killed.kill)
        results = await asyncio.gather(*(task for _, task in running), return_exceptions=True)
        assert [getattr(result, "code", None) for result in results] == [Code.STREAM_BROKEN, Code.REPLICA_UNAVAILABLE]
        for request, _ in running:
            [attempt] = request.attempts
            assert (attempt.replica, attempt.grpc_status) == (killed.name, "UNAVAILABLE")
            assert attempt.error_code == Code.REPLICA_UNAVAILABLE
            request.end()
        assert resources.fleet.health_of("chat")[0] == [other.name]
        ended = []
        for _ in range(6):
            code, request = await outcome(resources, infer_call("embed", "x"))
            ended.append((code, request.variables["replica"]))
        lost = (Code.REPLICA_UNAVAILABLE, killed.name)  # another model's health: found by a probe, or by one attempt
        assert ended.count(lost) <= 1
        assert set(ended) - {lost} == {("ok", other.name)}
        await in_thread(killed.start)
        await until(lambda: len(resources.fleet.health_of("chat")[0]) == 2)

    play(scenario, killed, other)


def test_a_cancelled_call_stops_the_model(triton: TritonServer) -> None:
    async def scenario(resources: Resources) -> None:
        slow = generate_call("chat-small", "x", max_tokens=32, delay_ms=1_000)
        # The model serves one request at a time: were the first one still running, the next would wait too long for it.
        await _abandon(resources, triton, slow, generate_call("chat-small", "x"), deadline_s=10.0)

    play(scenario, triton, interval_ms=60_000)


def test_a_cancelled_unary_call_names_who_ended_it(triton: TritonServer) -> None:
    async def scenario(resources: Resources) -> None:
        slow = infer_call("faulty", "x", fault="slow:1000")
        request = await _abandon(resources, triton, slow, infer_call("faulty", "x"))
        [attempt] = request.attempts
        assert (attempt.outcome, attempt.grpc_status) == ("client_disconnected", "CANCELLED")
        assert [(line.sku, line.billable) for line in request.usage] == [("input_tokens", True)]

    play(scenario, triton, interval_ms=5_000)


async def _abandon(
    resources: Resources, triton: TritonServer, call: InferenceCall, following: InferenceCall, **options: float
) -> Request:
    """Have the client go away while the model works on its request: once the `following` one waits behind it. That
    one has to be answered."""
    async with requested(resources, call) as request:
        running = asyncio.create_task(request.run(*TOPICS))
        await until(lambda: request.variables.get("replica") is not None)
        next_one = asyncio.create_task(outcome(resources, following, **options))
        await until(lambda: _waiting(triton, call.model) == 1)
        running.cancel(Code.CLIENT_DISCONNECTED)
        with pytest.raises(asyncio.CancelledError):
            await running
        assert (await next_one)[0] == "ok"
    return request


def _waiting(triton: TritonServer, model: str) -> float:
    """Requests that the server holds and that no instance of the model works on yet."""
    with urllib.request.urlopen(triton.metrics_url, timeout=10) as answer:
        families = text_string_to_metric_families(answer.read().decode())
    pending = (each for family in families for each in family.samples if each.name == _PENDING)
    return sum(each.value for each in pending if each.labels["model"] == model)


def test_a_deadline_reaches_the_server_and_frees_the_gateway(triton: TritonServer) -> None:
    async def scenario(resources: Resources) -> None:
        code, request = await outcome(resources, infer_call("faulty", "x", fault="slow:700"), deadline_s=0.2)
        assert code == Code.DEADLINE_EXCEEDED
        assert (request.attempts[0].outcome, request.attempts[0].grpc_status) == ("timeout", "DEADLINE_EXCEEDED")
        assert resources.fleet.health_of("faulty")[0] == [triton.name]

    play(scenario, triton, interval_ms=5_000)


@pytest.mark.parametrize("fault", ["error", "invalid", "unavailable"])
def test_what_a_model_says_is_told_apart_by_its_status(triton: TritonServer, fault: str) -> None:
    codes = {
        "error": Code.REPLICA_ERROR,
        "invalid": Code.INPUT_REFUSED,
        "unavailable": Code.REPLICA_UNAVAILABLE,
    }

    async def scenario(resources: Resources) -> None:
        code, request = await outcome(resources, infer_call("faulty", "x", fault=fault))
        assert (code, request.attempts[0].message) == (codes[fault], f"fault {fault}")
        assert resources.fleet.health_of("faulty")[0] == [triton.name]

    play(scenario, triton)


@pytest.mark.parametrize(("after", "code"), [(0, Code.REPLICA_ERROR), (2, Code.STREAM_BROKEN)])
def test_a_failing_stream_is_final_only_after_its_first_piece(triton: TritonServer, after: int, code: Code) -> None:
    async def scenario(resources: Resources) -> None:
        call = generate_call("faulty-stream", "x", stream=True, max_tokens=5, fault="error", fail_after_tokens=after)
        found, request = await outcome(resources, call)
        assert (found, len(request.chunks)) == (code, after)
        assert request.variables["error"]["retryable"] is (after == 0)
        [attempt] = request.attempts
        assert (attempt.output_tokens, attempt.billable) == (after, after > 0)
        assert (await outcome(resources, generate_call("faulty-stream", "x", stream=True, max_tokens=5)))[0] == "ok"

    play(scenario, triton)


async def _repository(server: TritonServer, model: str, action: str) -> None:
    def post() -> None:
        url = f"{server.http_url}/v2/repository/models/{model}/{action}"
        with urllib.request.urlopen(urllib.request.Request(url, data=b"{}"), timeout=30):
            pass

    await in_thread(post)


def test_only_an_unloaded_model_leaves_rotation(triton: TritonServer) -> None:
    async def scenario(resources: Resources) -> None:
        await _repository(triton, "embed", "unload")
        try:
            await until(lambda: resources.fleet.health_of("embed")[0] == [])
            assert resources.fleet.health_of("faulty")[0] == [triton.name]
            assert (await outcome(resources, infer_call("embed", "x")))[0] == Code.NO_REPLICA
        finally:
            await _repository(triton, "embed", "load")
        await until(lambda: resources.fleet.health_of("embed")[0] == [triton.name])
        assert (await outcome(resources, infer_call("embed", "x")))[0] == "ok"

    play(scenario, triton)
