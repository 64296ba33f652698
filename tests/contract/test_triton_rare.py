"""What a Triton server rarely does, produced on demand by the fake on the wire: each outcome reaches the diagram."""

import asyncio
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Any

import grpc
import pytest
from tritonclient.grpc import service_pb2

from engine import BpmnError, Code, InferenceCall, Operation, Settings, Tensor
from tasks.resources import Resources
from tasks.triton import TritonClient
from tasks.verdicts import CallFailed
from tests.fakes.triton_wire import FakeTriton, Script, fake_triton, hang, refuse, reply, response
from tests.task_calls import Request, generate_call, infer_call, now_us, opened, requested, until

TOPICS = ("admit", "check_health", "route", "infer", "settle")
LIMIT_S = 30.0

Scenario = Callable[[FakeTriton, Resources], Awaitable[None]]


def play(scenario: Scenario, *, model: dict[str, Any] | None = None, **settings: Any) -> None:
    """Run a scenario against one fake replica `a` with the models embed and chat."""

    async def run() -> None:
        async with asyncio.timeout(LIMIT_S), fake_triton() as fake:
            models = [{"name": name, **(model or {})} for name in ("embed", "chat")]
            made = {"replicas": [{"name": "a", "grpc": fake.grpc_url}], "models": models, **settings}
            async with opened(Settings.model_validate(made)) as resources:
                await scenario(fake, resources)

    asyncio.run(run())


async def refused(resources: Resources, call: InferenceCall, **options: float) -> tuple[BpmnError, Request]:
    async with requested(resources, call, **options) as request:
        with pytest.raises(BpmnError) as error:
            await request.run(*TOPICS)
        return error.value, request


@pytest.mark.parametrize(
    ("status", "text", "code", "stays_up"),
    [
        (grpc.StatusCode.UNAVAILABLE, "Exceeds maximum queue size", Code.REPLICA_OVERLOADED, True),
        (grpc.StatusCode.UNAVAILABLE, "Request timeout expired", Code.REPLICA_TIMEOUT, True),
        (grpc.StatusCode.UNAVAILABLE, "Server is stopping, scheduler has stopped", Code.REPLICA_UNAVAILABLE, False),
        (grpc.StatusCode.INTERNAL, "Stub process 'embed_0_0' is not healthy.", Code.REPLICA_UNAVAILABLE, False),
        (grpc.StatusCode.NOT_FOUND, "unknown model: 'embed' has no available versions", Code.MODEL_NOT_READY, False),
        (grpc.StatusCode.INTERNAL, "the model failed", Code.REPLICA_ERROR, True),
    ],
)
def test_a_failed_attempt_names_code_replica_and_status(
    status: grpc.StatusCode, text: str, code: Code, stays_up: bool
) -> None:
    async def scenario(fake: FakeTriton, resources: Resources) -> None:
        fake.script("embed", refuse(status, text))
        error, request = await refused(resources, infer_call("embed", "hello"))
        assert (error.code, error.message) == (code, text)
        assert request.variables["error"] == {
            "code": code,
            "message": text,
            "retryable": True,
            "replica": "a",
            "grpc_status": status.name,
            "retry_after_ms": None,
            "streamed": False,
        }
        assert (request.variables["attempts"], request.variables["tried"]) == (1, ["a"])
        assert bool(resources.fleet.health_of("embed")[0]) is stays_up
        assert resources.fleet.health_of("chat")[0] == ["a"]

    play(scenario)


def test_deadlines_go_from_milliseconds_to_seconds_and_microseconds() -> None:
    async def scenario(fake: FakeTriton, resources: Resources) -> None:
        async with requested(resources, infer_call("embed", "hello"), deadline_s=20.0) as request:
            await request.run(*TOPICS)
        [asked] = fake.asked("embed")
        own_us = asked.parameters["timeout"].int64_param
        assert own_us == 1_500_000
        assert fake.timeouts_s[fake.requests.index(asked)] <= 1.6  # what was left when it arrived
        async with requested(resources, infer_call("embed", "hello"), deadline_s=1.0) as request:
            await request.run(*TOPICS)
        left_us = fake.asked("embed")[1].parameters["timeout"].int64_param
        assert 0 < left_us <= 1_000_000

    play(scenario, model={"attempt_timeout_ms": 1_500})


def test_a_shorter_queue_limit_of_the_caller_stays() -> None:
    async def scenario(fake: FakeTriton, resources: Resources) -> None:
        call = infer_call("embed", "hello")
        call = InferenceCall(Operation.INFER, "embed", "", "", call.inputs, parameters={"timeout": 777, "k": "v"})
        async with requested(resources, call) as request:
            await request.run(*TOPICS)
        [asked] = fake.asked("embed")
        assert asked.parameters["timeout"].int64_param == 777
        assert asked.parameters["k"].string_param == "v"

    play(scenario)


def test_an_attempt_that_takes_too_long_is_cancelled_and_names_its_limit() -> None:
    async def scenario(fake: FakeTriton, resources: Resources) -> None:
        fake.script("embed", hang())
        error, request = await refused(resources, infer_call("embed", "hello"))
        assert error.code == Code.REPLICA_TIMEOUT
        assert error.message == "replica a did not answer within models.embed.attempt_timeout_ms (100)"
        assert request.variables["error"]["retryable"] is True
        assert request.attempts[0].outcome == "timeout"
        assert [line.billable for line in request.usage] == [False]
        await until(lambda: fake.cancelled == 1)

    play(scenario, model={"attempt_timeout_ms": 100})


def test_no_first_piece_in_time_may_be_retried() -> None:
    async def scenario(fake: FakeTriton, resources: Resources) -> None:
        fake.script("chat", hang())
        error, request = await refused(resources, generate_call("chat", "hi", stream=True))
        assert error.code == Code.REPLICA_TIMEOUT
        assert error.message == "replica a sent no first piece within models.chat.first_token_timeout_ms (100)"
        assert request.variables["error"]["retryable"] is True
        await until(lambda: fake.cancelled == 1)

    play(scenario, model={"first_token_timeout_ms": 100})


def test_a_stall_after_the_first_piece_breaks_the_stream_for_good() -> None:
    async def scenario(fake: FakeTriton, resources: Resources) -> None:
        slow = generate_call("chat", "hi", stream=True, delay_ms=150)
        error, request = await refused(resources, slow)
        assert error.code == Code.STREAM_BROKEN
        assert error.message == "replica a sent no further piece after 1 within models.chat.stall_timeout_ms (50)"
        assert request.variables["error"]["retryable"] is False
        assert request.variables["error"]["streamed"] is True
        [attempt] = request.attempts
        assert (attempt.outcome, attempt.error_code, attempt.billable) == ("timeout", Code.REPLICA_TIMEOUT, True)
        await until(lambda: fake.cancelled == 1)

    play(scenario, model={"stall_timeout_ms": 50})


def test_an_error_within_a_stream_is_a_failure() -> None:
    async def scenario(fake: FakeTriton, resources: Resources) -> None:
        async def fail(_: Any, __: Any) -> Any:
            return service_pb2.ModelStreamInferResponse(error_message="the model failed")

        fake.script("chat", fail)
        error, request = await refused(resources, generate_call("chat", "hi", stream=True))
        assert (error.code, error.message) == (Code.REPLICA_ERROR, "the model failed")
        assert (request.attempts[0].outcome, request.attempts[0].grpc_status) == ("error", None)

    play(scenario)


def test_a_stream_without_any_piece_is_an_empty_answer() -> None:
    async def scenario(fake: FakeTriton, resources: Resources) -> None:
        async def empty(_: Any, __: Any) -> Any:
            return service_pb2.ModelStreamInferResponse(infer_response=response("chat", final=True))

        fake.script("chat", empty)
        async with requested(resources, generate_call("chat", "hi", stream=True)) as request:
            await request.run(*TOPICS)
        assert request.chunks == []
        assert request.attempts[0].outcome == "ok"

    play(scenario)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (reply(response("embed", Tensor("x", "BYTES", (1,), ["a"]))), None),
        (
            reply(service_pb2.ModelInferResponse(outputs=[{"name": "x"}])),
            "1 outputs are described, 0 have raw contents",
        ),
    ],
)
def test_outputs_that_contradict_themselves_are_not_passed_on(answer: Script, words: str | None) -> None:
    async def scenario(fake: FakeTriton, resources: Resources) -> None:
        fake.script("embed", answer)
        if words is None:
            async with requested(resources, infer_call("embed", "x")) as request:
                await request.run(*TOPICS)
            assert request.attempts[0].tokens_estimated
            return
        error, request = await refused(resources, infer_call("embed", "x"))
        assert (error.code, error.message) == (Code.OUTPUT_INVALID, words)
        assert request.variables["error"]["retryable"] is False

    play(scenario)


def test_tokens_that_a_model_does_not_report_are_estimated_and_flagged_and_priced() -> None:
    async def scenario(fake: FakeTriton, resources: Resources) -> None:
        fake.script("embed", reply(response("embed", Tensor("text", "BYTES", (1,), ["x" * 41]))))
        call = infer_call("embed", "y" * 80)
        async with requested(resources, call) as request:
            variables = await request.run(*TOPICS)
        assert variables["usage"] == {"input_tokens": 20, "output_tokens": 11, "estimated": True}
        assert variables["cost_usd"] == Decimal("0.0031")
        assert all(line.estimated for line in request.usage)

    price = {"id": "p", "input_token_usd": "0.0001", "output_token_usd": "0.0001"}
    play(scenario, model={"price": "p"}, prices=[price])


def test_many_calls_share_one_connection() -> None:
    peers = set[str]()

    async def scenario(fake: FakeTriton, resources: Resources) -> None:
        async def note(_: Any, context: Any) -> Any:
            peers.add(context.peer())
            return response("embed", Tensor("input_tokens", "INT32", (1,), [1]))

        fake.script("embed", *[note] * 200)

        async def one() -> None:
            async with requested(resources, infer_call("embed", "x")) as request:
                await request.run(*TOPICS)

        await asyncio.gather(*(one() for _ in range(200)))
        assert len(fake.asked("embed")) == 200
        assert len(peers) == 1

    play(scenario)


def test_aborted_requests_leave_nothing_in_flight() -> None:
    async def scenario(fake: FakeTriton, resources: Resources) -> None:
        fake.script("embed", *[hang()] * 100)

        async def one(number: int) -> None:
            async with requested(resources, infer_call("embed", "x")) as request:
                running = asyncio.create_task(request.run(*TOPICS))
                for _ in range(number % 7):
                    await asyncio.sleep(0)
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)

        await asyncio.gather(*(one(number) for number in range(100)))
        assert resources.fleet.replicas["a"].in_flight == 0
        assert resources.admission.in_use("embed") == 0

    play(scenario)


def test_simultaneous_arrivals_stay_within_a_replicas_limit() -> None:
    async def scenario(fake: FakeTriton, resources: Resources) -> None:
        fake.script("embed", *[hang()] * 3)
        requests = [Request(resources, infer_call("embed", "x")) for _ in range(5)]
        routed = [request.run("admit", "check_health", "route") for request in requests]
        results = await asyncio.gather(*routed, return_exceptions=True)
        assert [getattr(result, "code", None) for result in results] == [None] * 3 + [Code.REPLICA_OVERLOADED] * 2
        assert resources.fleet.replicas["a"].in_flight == 3
        for request in requests:
            request.end()
        assert resources.fleet.replicas["a"].in_flight == 0

    async def run() -> None:
        async with asyncio.timeout(LIMIT_S), fake_triton() as fake:
            replicas = [{"name": "a", "grpc": fake.grpc_url, "max_concurrency": 3}]
            settings = Settings.model_validate({"replicas": replicas, "models": [{"name": "embed"}]})
            async with opened(settings) as resources:
                await scenario(fake, resources)

    asyncio.run(run())


def test_a_retry_prefers_another_replica_and_reuses_the_encoded_request() -> None:
    async def run() -> None:
        async with asyncio.timeout(LIMIT_S), fake_triton() as first, fake_triton() as second:
            replicas = [{"name": "a", "grpc": first.grpc_url}, {"name": "b", "grpc": second.grpc_url}]
            settings = Settings.model_validate({"replicas": replicas, "models": [{"name": "embed"}]})
            async with opened(settings) as resources, requested(resources, infer_call("embed", "x")) as request:
                for fake in (first, second):
                    fake.script("embed", refuse(grpc.StatusCode.INTERNAL, "the model failed"))
                tried: list[str] = []
                for _ in range(2):
                    with pytest.raises(BpmnError):
                        await request.run(*TOPICS[0 if not tried else 1 : 4])
                    tried.append(request.variables["replica"])
                assert sorted(tried) == ["a", "b"]
                assert request.variables["tried"] == tried
                await request.run("check_health", "route", "infer", "settle")
                assert request.variables["attempts"] == 3
                assert "it was tried before" in request.variables["route_reason"]
                assert [attempt.outcome for attempt in request.attempts] == ["error", "error", "ok"]
                assert {line.billable for line in request.usage} == {True, False}
                assert request.variables["total_tokens"] == 1

    asyncio.run(run())


def test_a_fallback_goes_on_with_the_other_model_and_says_why() -> None:
    async def run() -> None:
        async with asyncio.timeout(LIMIT_S), fake_triton() as fake:
            models = [{"name": "chat", "fallback": "chat-small"}, {"name": "chat-small"}]
            made = {"replicas": [{"name": "a", "grpc": fake.grpc_url}], "models": models}
            async with opened(Settings.model_validate(made)) as resources:
                call = generate_call("chat", "hi", max_tokens=2)
                async with requested(resources, call) as request:
                    fake.script("chat", refuse(grpc.StatusCode.INTERNAL, "the model failed"))
                    with pytest.raises(BpmnError):
                        await request.run("admit", "check_health", "route", "infer")
                    assert request.variables["fallback_model"] == "chat-small"
                    variables = await request.run("fall_back", "check_health", "route", "infer", "settle")
                assert (variables["served_model"], variables["degraded"]) == ("chat-small", True)
                assert variables["degraded_reason"] == "model `chat` failed with REPLICA_ERROR: the model failed"
                assert request.answer is not None
                assert request.answer.body["model_name"] == "chat-small"

    asyncio.run(run())


def test_what_cannot_be_served_is_refused_before_anything_is_sent() -> None:
    async def scenario(fake: FakeTriton, resources: Resources) -> None:
        error, _ = await refused(resources, infer_call("nope", "x"))
        assert error.code == Code.MODEL_NOT_FOUND
        tensors = (Tensor("text", "BYTES", (2, 1), ["a"]), Tensor("text", "INT9", (1,), [1]))
        error, request = await refused(resources, InferenceCall(Operation.INFER, "embed", "", "", tensors))
        assert error.code == Code.INPUT_REFUSED
        assert error.message == (
            "input `text`: shape [2, 1] needs 2 elements, data has 1; input `text` is given twice; "
            "input `text`: datatype `INT9` is unknown; known: BF16, BOOL, BYTES, FP16, FP32, FP64, "
            "INT16, INT32, INT64, INT8, UINT16, UINT32, UINT64, UINT8"
        )
        error, _ = await refused(resources, InferenceCall(Operation.INFER, "embed", "", ""))
        assert error.message == "`inputs` is empty"
        assert request.attempts == []
        assert fake.asked("embed") == []
        assert resources.admission.in_use("embed") == 0

    play(scenario)


def test_a_request_that_has_to_queue_waits_and_says_so() -> None:
    async def scenario(fake: FakeTriton, resources: Resources) -> None:
        first, second = (Request(resources, infer_call("embed", "x")) for _ in range(2))
        await first.run("admit")
        waiting = asyncio.create_task(second.run("admit"))
        await until(lambda: resources.admission.waiting("embed") == 1)
        third, _ = await refused(resources, infer_call("embed", "x"))
        assert (third.code, third.retry_after_ms) == (Code.QUEUE_FULL, 5_000)
        await first.run("settle")
        assert (await waiting)["queue_time_ms"] >= 0
        [decision] = second.decisions
        assert (decision.name, decision.chosen) == ("admission", "admitted")
        for request in (first, second):
            request.end()

    play(scenario, model={"max_concurrency": 1}, limits={"queue_entries": 1})


def test_a_dead_replica_does_not_stop_the_start_and_a_probe_that_hangs_delays_nothing() -> None:
    async def run() -> None:
        async with asyncio.timeout(LIMIT_S), fake_triton() as fake:
            replicas = [
                {"name": "dead", "grpc": "127.0.0.1:9"},
                {"name": "a", "grpc": fake.grpc_url},
                {"name": "off", "grpc": fake.grpc_url, "weight": 0},
            ]
            settings = Settings.model_validate({"replicas": replicas, "models": [{"name": "embed"}]})
            async with opened(settings) as resources:
                assert resources.readiness() == {"embed": ["a", "off"]}
                async with requested(resources, infer_call("embed", "x")) as request:
                    await request.run(*TOPICS)
                    assert request.variables["replica"] == "a"
                    [unhealthy] = request.variables["unhealthy"]
                    assert unhealthy["replica"] == "dead"
                    assert "REPLICA_UNAVAILABLE: failed to connect" in unhealthy["reason"]

    asyncio.run(run())


def test_without_a_healthy_replica_the_reasons_are_told() -> None:
    async def run() -> None:
        async with asyncio.timeout(LIMIT_S):
            replicas = [{"name": "dead", "grpc": "127.0.0.1:9"}]
            settings = Settings.model_validate({"replicas": replicas, "models": [{"name": "embed"}]})
            async with opened(settings) as resources:
                error, request = await refused(resources, infer_call("embed", "x"))
                assert error.code == Code.NO_REPLICA
                assert error.message.startswith(
                    "no replica for model `embed`: no healthy replica (dead: REPLICA_UNAVAI"
                )
                assert request.variables["error"]["retryable"] is True
                [decision] = request.decisions
                assert (decision.name, decision.chosen) == ("route", None)

    asyncio.run(run())


def test_a_busy_model_stays_in_rotation_while_it_answers_requests() -> None:
    async def run() -> None:
        async with asyncio.timeout(LIMIT_S), fake_triton() as fake:
            probes = {"interval_ms": 60_000, "timeout_ms": 200, "failures_out": 1}
            replicas = [{"name": "a", "grpc": fake.grpc_url}]
            made = {"replicas": replicas, "models": [{"name": "embed"}], "probes": probes}
            async with opened(Settings.model_validate(made)) as resources:
                health = resources.fleet.health["embed"]["a"]
                fake.probes_answered.clear()
                health.suspect()
                await until(lambda: fake.probes_waiting == 1)
                async with requested(resources, infer_call("embed", "x")) as request:
                    await request.run(*TOPICS)
                await until(lambda: fake.cancelled == 1)
                assert health.up
                health.suspect()
                await until(lambda: not health.up)
                fake.probes_answered.set()

    asyncio.run(run())


def test_a_unary_call_with_a_second_answer_ends_at_its_deadline() -> None:
    async def run() -> None:
        async def twice(_: Any, context: Any) -> None:
            for _ in range(2):
                await context.write(response("embed").SerializeToString())
            await asyncio.get_running_loop().create_future()

        server = grpc.aio.server()
        handler: Any = grpc.stream_stream_rpc_method_handler(twice)
        handlers = grpc.method_handlers_generic_handler("inference.GRPCInferenceService", {"ModelInfer": handler})
        server.add_generic_rpc_handlers((handlers,))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        client = TritonClient(f"127.0.0.1:{port}")
        try:
            async with asyncio.timeout(LIMIT_S):
                with pytest.raises(CallFailed) as failed:
                    await client.infer(service_pb2.ModelInferRequest(model_name="embed"), 0.2)
            assert failed.value.code in (Code.REPLICA_TIMEOUT, Code.REPLICA_ERROR, Code.UNSUPPORTED)
        finally:
            await client.close()
            await server.stop(None)

    asyncio.run(run())


def test_the_deadline_may_pass_before_the_attempt() -> None:
    async def scenario(fake: FakeTriton, resources: Resources) -> None:
        async with requested(resources, infer_call("embed", "x")) as request:
            await request.run("admit", "check_health", "route")
            request.deadline_at_us = now_us() - 1
            with pytest.raises(BpmnError) as error:
                await request.run("infer")
            assert (error.value.code, request.attempts) == (Code.DEADLINE_EXCEEDED, [])
            assert fake.asked("embed") == []

    play(scenario)
