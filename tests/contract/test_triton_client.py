"""What the tasks rely on in a Triton server: one suite for the real one and for the fake on the wire."""

import asyncio
import json
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from engine import BpmnError, Code, InferenceCall, Operation, Settings
from tasks.resources import Resources
from tests.fakes.triton_wire import fake_triton
from tests.task_calls import Request, generate_call, infer_call, opened, requested
from tests.triton_fixtures import TritonServer

TOPICS = ("admit", "check_health", "route", "infer", "settle")
LIMIT_S = 30.0

Scenario = Callable[[Resources], Awaitable[None]]
Play = Callable[[Scenario], None]


def settings_for(grpc_url: str) -> Settings:
    return Settings.model_validate(
        {
            "replicas": [{"name": "a", "grpc": grpc_url}],
            "models": [{"name": name} for name in ("embed", "chat", "chat-small")],
            "probes": {"timeout_ms": 5_000},
        }
    )


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.triton)])
def play(request: pytest.FixtureRequest) -> Play:
    """Runs a scenario against one replica."""

    async def run(scenario: Scenario) -> None:
        async with asyncio.timeout(LIMIT_S), server(request) as grpc_url, opened(settings_for(grpc_url)) as resources:
            await scenario(resources)

    return lambda scenario: asyncio.run(run(scenario))


@asynccontextmanager
async def server(request: pytest.FixtureRequest) -> AsyncIterator[str]:
    if request.param == "real":
        triton: TritonServer = request.getfixturevalue("triton")
        yield triton.grpc_url
    else:
        async with fake_triton() as fake:
            yield fake.grpc_url


async def refused(resources: Resources, call: InferenceCall, **options: float) -> tuple[BpmnError, Request]:
    async with requested(resources, call, **options) as request:
        with pytest.raises(BpmnError) as error:
            await request.run(*TOPICS)
        return error.value, request


def test_every_model_is_up_after_the_first_round_of_probes(play: Play) -> None:
    async def scenario(resources: Resources) -> None:
        assert resources.readiness() == {"embed": ["a"], "chat": ["a"], "chat-small": ["a"]}

    play(scenario)


def test_a_unary_call_answers_with_tensors_and_is_measured(play: Play) -> None:
    async def scenario(resources: Resources) -> None:
        async with requested(resources, infer_call("embed", "hello world", "again")) as request:
            variables = await request.run(*TOPICS)
        assert request.answer is not None
        assert (request.answer.model, request.answer.version) == ("embed", "1")
        embedding, tokens = request.answer.outputs
        assert (embedding.name, embedding.datatype, embedding.shape) == ("embedding", "FP32", (2, 8))
        assert math.isclose(embedding.data[0], 0.44766709208488464)
        assert (tokens.name, tokens.data) == ("input_tokens", [2, 1])
        [attempt] = request.attempts
        assert (attempt.outcome, attempt.grpc_status, attempt.model_version) == ("ok", "OK", "1")
        assert (attempt.input_tokens, attempt.output_tokens, attempt.tokens_estimated) == (3, 0, False)
        assert attempt.sent_at_us <= attempt.done_at_us
        assert variables["usage"] == {"input_tokens": 3, "output_tokens": 0, "estimated": False}
        assert (variables["attempts"], variables["served_by"], variables["served_model"]) == (1, "a", "embed")
        assert (variables["total_tokens"], variables["cost_usd"], variables["error"]) == (3, None, None)

    play(scenario)


def test_only_the_wanted_outputs_are_sent(play: Play) -> None:
    async def scenario(resources: Resources) -> None:
        call = infer_call("embed", "hello")
        call = InferenceCall(call.operation, call.model, "1", "", call.inputs, ("input_tokens",), size_bytes=5)
        async with requested(resources, call) as request:
            await request.run(*TOPICS)
        assert request.answer is not None
        assert [output.name for output in request.answer.outputs] == ["input_tokens"]

    play(scenario)


def test_a_stream_passes_each_chunk_on_as_the_generate_extension_writes_it(play: Play) -> None:
    async def scenario(resources: Resources) -> None:
        async with requested(resources, generate_call("chat", "hello world", stream=True, max_tokens=5)) as request:
            await request.run(*TOPICS)
        chunks = [json.loads(chunk) for chunk in request.chunks]
        assert [list(chunk) for chunk in chunks] == [
            ["model_name", "model_version", "text_output", "input_tokens", "output_tokens"]
        ] * 5
        assert [chunk["output_tokens"] for chunk in chunks] == [1, 2, 3, 4, 5]
        [attempt] = request.attempts
        assert (attempt.chunks, attempt.input_tokens, attempt.output_tokens) == (5, 2, 5)
        assert attempt.first_token_at_us is not None
        assert attempt.last_token_at_us is not None
        assert attempt.sent_at_us <= attempt.first_token_at_us <= attempt.last_token_at_us <= attempt.done_at_us

    play(scenario)


@pytest.mark.parametrize("model", ["chat", "chat-small"])
def test_generate_answers_with_one_object(play: Play, model: str) -> None:
    async def scenario(resources: Resources) -> None:
        async with requested(resources, generate_call(model, "hello world", max_tokens=4)) as request:
            variables = await request.run(*TOPICS)
        assert request.answer is not None
        body = request.answer.body
        assert (body["model_name"], body["model_version"], body["output_tokens"]) == (model, "1", 4)
        assert len(body["text_output"].split()) == 4
        assert variables["total_tokens"] == 6

    play(scenario)


def test_a_model_that_is_not_decoupled_streams_its_one_answer(play: Play) -> None:
    async def scenario(resources: Resources) -> None:
        async with requested(resources, generate_call("chat-small", "hi", stream=True, max_tokens=3)) as request:
            await request.run(*TOPICS)
        [chunk] = request.chunks
        assert json.loads(chunk)["output_tokens"] == 3
        assert request.attempts[0].chunks == 1

    play(scenario)


def test_generate_of_a_model_with_many_answers_is_refused_in_tritons_words(play: Play) -> None:
    async def scenario(resources: Resources) -> None:
        call = InferenceCall(Operation.GENERATE, "chat", "", "", body={"text_input": "hi", "max_tokens": 3})
        error, _ = await refused(resources, call)
        assert error.code == Code.INPUT_REFUSED
        assert error.message.startswith("generate expects model to produce exactly 1 response")

    play(scenario)


@pytest.mark.parametrize(
    ("call", "code", "status", "words"),
    [
        (infer_call("embed", "x", version="9"), Code.MODEL_NOT_FOUND, "NOT_FOUND", "version 9 is not found"),
        (
            infer_call("embed", "x", name="no"),
            Code.INPUT_REFUSED,
            "INVALID_ARGUMENT",
            "unexpected inference input 'no'",
        ),
        (infer_call("chat", "x"), Code.UNSUPPORTED, "UNIMPLEMENTED", "decoupled transaction policy"),
    ],
)
def test_what_the_caller_got_wrong_is_not_retryable(
    play: Play, call: InferenceCall, code: Code, status: str, words: str
) -> None:
    async def scenario(resources: Resources) -> None:
        error, request = await refused(resources, call)
        assert error.code == code
        assert words in error.message
        assert request.variables["error"]["retryable"] is False
        assert request.variables["error"]["grpc_status"] == status
        assert (request.attempts[0].outcome, request.attempts[0].error_code) == ("error", code)
        assert request.usage == []
        assert resources.fleet.health_of(call.model)[0] == ["a"]

    play(scenario)


def test_a_body_that_does_not_fit_the_model_is_refused_before_it_is_sent(play: Play) -> None:
    async def scenario(resources: Resources) -> None:
        error, request = await refused(resources, generate_call("chat", "x", max_tokens="many", stop=["x"]))
        assert error.code == Code.INPUT_REFUSED
        assert "input `max_tokens`: element 0 is a string, INT32 needs a whole number" in error.message
        assert "`stop` is no input of the model" in error.message
        assert (request.attempts, request.variables["attempts"], request.variables["tried"]) == ([], 0, [])

    play(scenario)


def test_a_call_ends_at_the_requests_deadline(play: Play) -> None:
    async def scenario(resources: Resources) -> None:
        slow = generate_call("chat", "hi", max_tokens=100, delay_ms=50, stream=True)
        error, request = await refused(resources, slow, deadline_s=0.4)
        assert error.code == Code.DEADLINE_EXCEEDED
        assert request.variables["error"]["retryable"] is False
        [attempt] = request.attempts
        assert (attempt.outcome, attempt.grpc_status) == ("timeout", "DEADLINE_EXCEEDED")
        assert attempt.output_tokens == attempt.chunks == len(request.chunks)

    play(scenario)


def test_a_cancelled_stream_records_what_was_used_until_then(play: Play) -> None:
    async def scenario(resources: Resources) -> None:
        slow = generate_call("chat", "hello world", max_tokens=1_000, delay_ms=20, stream=True)
        async with requested(resources, slow) as request:
            running = asyncio.create_task(request.run(*TOPICS))
            await request.chunk_arrived.wait()
            running.cancel(Code.CLIENT_DISCONNECTED)
            with pytest.raises(asyncio.CancelledError):
                await running
        [attempt] = request.attempts
        assert (attempt.outcome, attempt.error_code) == ("client_disconnected", Code.CLIENT_DISCONNECTED)
        assert attempt.output_tokens == attempt.chunks == len(request.chunks) >= 1
        assert {line.sku: line.billable for line in request.usage} == {"input_tokens": True, "output_tokens": True}

    play(scenario)
