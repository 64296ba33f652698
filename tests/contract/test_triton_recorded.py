"""What is recorded, told and learned of an attempt that ends in an unusual way, with the fake on the wire."""

import asyncio
from collections.abc import Callable
from typing import Any

import grpc
import pytest
from tritonclient.grpc import service_pb2

from engine import BpmnError, Code, InferenceCall, Operation, Settings, Tensor
from tasks.resources import Resources
from tests.contract.test_triton_rare import TOPICS, play, refused
from tests.fakes.triton_wire import FakeTriton, Script, fake_triton, hang, refuse, reply, response
from tests.task_calls import Request, generate_call, infer_call, opened, requested, until

SECRET = "the caller's own words"


def in_stream(text: str) -> Script:
    return reply(service_pb2.ModelStreamInferResponse(error_message=text))


def generating(text: str, **fields: Any) -> InferenceCall:
    """A generate call for a model that streams."""
    return InferenceCall(Operation.GENERATE, "chat", "", "", body={"text_input": text, **fields}, size_bytes=len(text))


def test_a_text_within_a_stream_takes_nothing_out_by_itself() -> None:
    async def scenario(fake: FakeTriton, resources: Resources) -> None:
        health = resources.fleet.health["chat"]["a"]
        for text in ("prompt: stub process 'x' is stopping", "prompt: connection reset by peer"):
            health.probe_soon.clear()
            fake.script("chat", in_stream(text))
            await refused(resources, generate_call("chat", text, stream=True))
            assert health.up
        assert not health.probe_soon.is_set()  # the second is no text of a server

    play(scenario, probes={"interval_ms": 60_000})


def test_what_a_caller_made_a_replica_say_is_not_told_to_others() -> None:
    async def scenario(fake: FakeTriton, resources: Resources) -> None:
        fake.script("embed", refuse(grpc.StatusCode.UNAVAILABLE, f"Server is stopping: {SECRET}"))
        await refused(resources, infer_call("embed", SECRET))
        [down] = resources.fleet.health_of("embed")[1]
        assert down.reason == "an attempt ended with REPLICA_UNAVAILABLE (UNAVAILABLE)"

    play(scenario, probes={"interval_ms": 60_000})


@pytest.mark.parametrize(("asked", "retry_after_ms"), [("2000", 2_000), ("-1", None), ("soon", None), ("9" * 30, None)])
def test_a_replica_may_ask_to_be_left_alone_for_a_while(asked: str, retry_after_ms: int | None) -> None:
    async def scenario(fake: FakeTriton, resources: Resources) -> None:
        busy = refuse(grpc.StatusCode.UNAVAILABLE, "Exceeds maximum queue size", grpc_retry_pushback_ms=asked)
        fake.script("embed", busy)
        error, request = await refused(resources, infer_call("embed", "x"))
        assert (error.retry_after_ms, request.variables["error"]["retry_after_ms"]) == (retry_after_ms, retry_after_ms)

    play(scenario)


def test_a_model_without_probe_is_as_ready_as_its_server_says() -> None:
    async def run() -> None:
        async with asyncio.timeout(30), fake_triton() as fake:
            models = [{"name": name, "probe": False} for name in ("embed", "nowhere")]
            made = {"replicas": [{"name": "a", "grpc": fake.grpc_url}], "models": models}
            async with opened(Settings.model_validate(made)) as resources:
                assert resources.readiness() == {"embed": ["a"], "nowhere": []}
                [down] = resources.fleet.health_of("nowhere")[1]
                assert down.reason == "MODEL_NOT_READY: the server says that model `nowhere` is not ready"
                assert fake.requests == []

    asyncio.run(run())


def test_a_sequence_is_refused_because_no_other_replica_could_go_on_with_it() -> None:
    async def scenario(fake: FakeTriton, resources: Resources) -> None:
        tensors = infer_call("embed", "x").inputs
        sequence: dict[str, Any] = {"sequence_id": 7}
        for call in (
            InferenceCall(Operation.INFER, "embed", "", "", tensors, parameters=sequence),
            generating("x", **sequence),
            generating("x", parameters=sequence),
        ):
            error, request = await refused(resources, call)
            assert (error.code, request.attempts) == (Code.UNSUPPORTED, [])

    play(scenario)


@pytest.mark.parametrize("fields", [{"max_tokens": 3}, {"parameters": {"max_tokens": 3}}])
def test_the_tokens_that_a_call_asks_for_are_known_wherever_they_stand(fields: dict[str, Any]) -> None:
    async def scenario(fake: FakeTriton, resources: Resources) -> None:
        async with requested(resources, generating("x", **fields)) as request:
            assert (await request.run("admit"))["max_output_tokens"] == 3

    play(scenario)


def test_messages_are_bounded_whatever_names_a_caller_invents() -> None:
    async def scenario(fake: FakeTriton, resources: Resources) -> None:
        tensor = Tensor("n" * 100_000, "INT32", (1,), ["x"])
        error, request = await refused(resources, InferenceCall(Operation.INFER, "embed", "", "", (tensor,)))
        assert (len(error.message), len(request.variables["error"]["message"])) == (1_000, 1_000)

    play(scenario)


@pytest.mark.parametrize("where", ["field", "parameters"])
def test_a_shorter_queue_limit_of_a_generate_call_stays_wherever_it_stands(where: str) -> None:
    async def scenario(fake: FakeTriton, resources: Resources) -> None:
        limit = {"timeout": 777}
        fields = limit if where == "field" else {"parameters": limit}
        async with requested(resources, generate_call("chat", "x", stream=True, **fields)) as request:
            await request.run(*TOPICS)
        [asked] = fake.asked("chat")
        assert asked.parameters["timeout"].int64_param == 777

    play(scenario)


def test_a_model_that_answered_too_often_has_run_all_the_same() -> None:
    async def scenario(fake: FakeTriton, resources: Resources) -> None:
        error, request = await refused(resources, generating("two words"))
        assert error.code == Code.INPUT_REFUSED
        assert (request.attempts[0].input_tokens, request.attempts[0].output_tokens) == (2, 2)
        assert [line.billable for line in request.usage] == [False, False]

    play(scenario)


def test_streamed_at_once_or_not_the_same_text_is_estimated_alike() -> None:
    async def tokens(resources: Resources, fake: FakeTriton, answer: Any, call: InferenceCall) -> int:
        fake.script("chat", reply(answer))
        async with requested(resources, call) as request:
            await request.run(*TOPICS)
        assert request.attempts[0].tokens_estimated
        tokens: int = request.variables["usage"]["output_tokens"]
        return tokens

    async def scenario(fake: FakeTriton, resources: Resources) -> None:
        made = response("chat", Tensor("text_output", "BYTES", (1,), ["ä" * 20]), final=True)
        answer = service_pb2.ModelStreamInferResponse(infer_response=made)
        whole = await tokens(resources, fake, answer, generating("x"))
        streamed = await tokens(resources, fake, answer, generate_call("chat", "x", stream=True))
        assert whole == streamed == 10

    play(scenario)


def test_a_negative_count_of_tokens_is_none() -> None:
    async def scenario(fake: FakeTriton, resources: Resources) -> None:
        fake.script("embed", reply(response("embed", Tensor("input_tokens", "INT32", (1,), [-5]))))
        async with requested(resources, infer_call("embed", "x")) as request:
            await request.run(*TOPICS)
        assert (request.variables["total_tokens"], request.usage) == (0, [])

    play(scenario)


def test_asking_what_a_model_takes_uses_nothing_when_it_fails() -> None:
    async def scenario(fake: FakeTriton, resources: Resources) -> None:
        resources.fleet.replicas["a"].forget_card("chat")
        fake.card_answers.append(hang())
        error, request = await refused(resources, generate_call("chat", "x", stream=True))
        assert error.code == Code.REPLICA_TIMEOUT
        assert (request.attempts[0].outcome, request.attempts[0].input_tokens, request.usage) == ("timeout", None, [])

    play(scenario, model={"attempt_timeout_ms": 100}, probes={"interval_ms": 60_000})


def test_a_fault_of_ours_leaves_the_attempt_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(fake: FakeTriton, resources: Resources) -> None:
        async with requested(resources, infer_call("embed", "x")) as request:

            def broken(_: object) -> None:
                raise RuntimeError(SECRET)

            monkeypatch.setattr(request, "deliver", broken)
            with pytest.raises(RuntimeError):
                await request.run(*TOPICS)
        [attempt] = request.attempts
        assert (attempt.outcome, attempt.error_code, attempt.input_tokens) == ("error", Code.TASK_FAULT, 1)
        assert SECRET not in str(attempt)
        assert [line.billable for line in request.usage] == [False]

    play(scenario)


@pytest.mark.parametrize("granted", [False, True])
def test_a_slot_that_comes_after_the_instance_has_left_goes_back(granted: bool) -> None:
    async def scenario(fake: FakeTriton, resources: Resources) -> None:
        first, second = (Request(resources, infer_call("embed", "x")) for _ in range(2))
        await first.run("admit")
        waiting = asyncio.create_task(second.run("admit"))
        await until(lambda: resources.admission.waiting("embed") == 1)
        ends: tuple[Callable[[], None], ...] = (first.end, second.end) if granted else (second.end, first.end)
        for end in ends:
            end()
        await waiting
        assert resources.admission.in_use("embed") == 0

    play(scenario, model={"max_concurrency": 1})


def test_a_hundred_mistakes_of_one_caller_harm_nobody() -> None:
    async def scenario(fake: FakeTriton, resources: Resources) -> None:
        for _ in range(100):  # a caller's own mistake, again and again, is nobody else's problem
            error, request = await refused(resources, infer_call("embed", "x", name="no"))
            assert (error.code, request.variables["error"]["retryable"]) == (Code.INPUT_REFUSED, False)
        assert resources.fleet.health_of("embed")[0] == ["a"]
        assert resources.admission.in_use("embed") == 0
        assert len(fake.asked("embed")) == 100

    play(scenario)


def test_an_incomplete_answer_ends_as_an_error_with_everything_given_back() -> None:
    async def scenario(fake: FakeTriton, resources: Resources) -> None:
        made = response("embed", Tensor("input_tokens", "INT32", (1,), [1]))
        made.raw_output_contents[0] = b"\x01"
        fake.script("embed", reply(made))
        with pytest.raises(BpmnError, match="but 1 bytes"):
            async with requested(resources, infer_call("embed", "x")) as request:
                await request.run(*TOPICS)

    play(scenario)
