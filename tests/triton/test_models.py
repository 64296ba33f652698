"""Owns the tests of the shipped Triton models over the wire: what they answer and how they fail.

Never tests the gateway; its failure table relies on what is pinned here. Called by pytest.
"""

import asyncio
import json
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc.aio as triton_grpc
from tritonclient.utils import InferenceServerException

from tests.triton_fixtures import TritonServer

pytestmark = pytest.mark.triton

DEADLINE_S = 30.0


def post(server: TritonServer, path: str, body: dict[str, Any]) -> tuple[int, str]:
    """Status and text of a POST with a JSON body."""
    request = urllib.request.Request(f"{server.http_url}/v2/models/{path}", data=json.dumps(body).encode())
    try:
        with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def events(text: str) -> list[dict[str, Any]]:
    """The JSON objects of a server-sent event stream."""
    return [json.loads(line.removeprefix("data: ")) for line in text.splitlines() if line]


def tensors(model_input: dict[str, str | int], batched: bool = False) -> list[triton_grpc.InferInput]:
    """Request tensors of one element each: BYTES for text, INT32 for numbers."""
    shape = [1, 1] if batched else [1]
    found = []
    for name, value in model_input.items():
        is_text = isinstance(value, str)
        array = np.array([value.encode() if isinstance(value, str) else value], np.object_ if is_text else np.int32)
        tensor = triton_grpc.InferInput(name, shape, "BYTES" if is_text else "INT32")
        tensor.set_data_from_numpy(array.reshape(shape))
        found.append(tensor)
    return found


def grpc_infer(server: TritonServer, model: str, model_input: dict[str, str | int]) -> Any:
    """The answer of a unary gRPC call."""

    async def call() -> Any:
        async with triton_grpc.InferenceServerClient(server.grpc_url) as client:
            inputs = tensors(model_input, batched=model in {"embed", "faulty"})
            return await client.infer(model, inputs, client_timeout=DEADLINE_S)

    return asyncio.run(call())


def grpc_stream(server: TritonServer, model: str, model_input: dict[str, str | int]) -> list[str]:
    """The texts of a gRPC stream in order; a failure ends it as `error: <message>`."""

    async def requests() -> AsyncIterator[dict[str, Any]]:
        yield {"model_name": model, "inputs": tensors(model_input)}

    async def call() -> list[str]:
        found = []
        async with triton_grpc.InferenceServerClient(server.grpc_url) as client:
            async for result, error in client.stream_infer(requests(), stream_timeout=DEADLINE_S):
                if error is not None:
                    found.append(f"error: {error.message()}")
                else:
                    found.append(result.as_numpy("text_output")[0].decode())
        return found

    return asyncio.run(call())


async def drain(stream: AsyncIterator[Any]) -> None:
    """Read a stream to its end."""
    async for _ in stream:
        pass


def test_embed_depends_on_the_text_alone(triton: TritonServer) -> None:
    first = grpc_infer(triton, "embed", {"text": "hello big world"})
    again = grpc_infer(triton, "embed", {"text": "hello big world"})
    other = grpc_infer(triton, "embed", {"text": "hello"})
    assert first.as_numpy("embedding").shape == (1, 8)
    assert (first.as_numpy("embedding") == again.as_numpy("embedding")).all()
    assert (first.as_numpy("embedding") != other.as_numpy("embedding")).any()
    assert first.as_numpy("input_tokens").tolist() == [[3]]


def test_embed_answers_each_text_of_a_batch(triton: TritonServer) -> None:
    texts = {"name": "text", "datatype": "BYTES", "shape": [3, 1], "data": ["a", "b c", ""]}
    status, body = post(triton, "embed/infer", {"inputs": [texts]})
    outputs = {output["name"]: output for output in json.loads(body)["outputs"]}
    assert status == 200
    assert outputs["embedding"]["shape"] == [3, 8]
    assert outputs["input_tokens"]["data"] == [1, 2, 0]


def test_chat_streams_one_token_per_event_and_counts_them(triton: TritonServer) -> None:
    status, body = post(triton, "chat/generate_stream", {"text_input": "hi there", "max_tokens": 5})
    found = events(body)
    assert status == 200
    assert [event["output_tokens"] for event in found] == [1, 2, 3, 4, 5]
    assert {event["input_tokens"] for event in found} == {2}
    assert "".join(event["text_output"] for event in found).count(" ") == 4


def test_chat_gives_the_same_words_over_grpc_and_as_one_answer(triton: TritonServer) -> None:
    streamed = grpc_stream(triton, "chat", {"text_input": "hi there", "max_tokens": 5})
    status, body = post(triton, "chat/generate", {"text_input": "hi there", "max_tokens": 5, "stream": False})
    assert status == 200
    assert json.loads(body)["text_output"] == "".join(streamed)
    assert len(streamed) == 5


def test_generate_of_a_streaming_model_is_an_error_in_a_200(triton: TritonServer) -> None:
    status, body = post(triton, "chat/generate", {"text_input": "hi", "max_tokens": 3})
    assert status == 200
    assert "exactly 1 response" in json.loads(body)["error"]


def test_a_unary_call_of_a_decoupled_model_is_not_implemented(triton: TritonServer) -> None:
    text = {"name": "text_input", "datatype": "BYTES", "shape": [1], "data": ["hi"]}
    assert post(triton, "chat/infer", {"inputs": [text]})[0] == 501
    with pytest.raises(InferenceServerException) as caught:
        grpc_infer(triton, "chat", {"text_input": "hi"})
    assert caught.value.status() == "StatusCode.UNIMPLEMENTED"


def test_chat_names_every_limit_that_a_request_breaks(triton: TritonServer) -> None:
    status, body = post(triton, "chat/generate_stream", {"text_input": "hi", "max_tokens": 0, "delay_ms": -1})
    assert status == 400
    assert events(body) == [{"error": "max_tokens must be 1 to 4096, got 0; delay_ms must be 0 to 60000, got -1"}]


@pytest.mark.parametrize("model", ["chat", "chat-small", "faulty-stream"])
def test_a_missing_prompt_is_refused(triton: TritonServer, model: str) -> None:
    status, body = post(triton, f"{model}/generate_stream", {"max_tokens": 3})
    assert (status, events(body)) == (400, [{"error": "the input text_input is missing"}])


def test_chat_runs_requests_side_by_side(triton: TritonServer) -> None:
    async def call() -> list[str]:
        finished = []
        async with triton_grpc.InferenceServerClient(triton.grpc_url) as client:

            async def one(name: str, model_input: dict[str, str | int]) -> None:
                async def requests() -> AsyncIterator[dict[str, Any]]:
                    yield {"model_name": "chat", "inputs": tensors(model_input)}

                async for _ in client.stream_infer(requests(), stream_timeout=DEADLINE_S):
                    started.set()
                finished.append(name)

            started = asyncio.Event()
            slow = asyncio.create_task(one("slow", {"text_input": "a", "max_tokens": 30, "delay_ms": 50}))
            await started.wait()
            await one("quick", {"text_input": "b", "max_tokens": 2})
            await slow
        return finished

    assert asyncio.run(call()) == ["quick", "slow"]


def test_a_cancelled_chat_stops_in_the_model(triton: TritonServer) -> None:
    # Uncancelled, this request would outlast the deadline; Triton counts it once the model has let go of it.
    long: dict[str, str | int] = {"text_input": "a", "max_tokens": 4096, "delay_ms": 20}
    before = finished_requests(triton)

    async def call() -> None:
        async def requests() -> AsyncIterator[dict[str, Any]]:
            yield {"model_name": "chat", "inputs": tensors(long)}

        async with triton_grpc.InferenceServerClient(triton.grpc_url) as client:
            stream = client.stream_infer(requests())
            await anext(aiter(stream))
            stream.cancel()

    asyncio.run(call())
    deadline = time.monotonic() + DEADLINE_S
    while finished_requests(triton) == before:
        assert time.monotonic() < deadline, "the model never let go of the cancelled request"
        time.sleep(0.01)


def finished_requests(server: TritonServer) -> int:
    with urllib.request.urlopen(f"{server.http_url}/v2/models/chat/stats", timeout=DEADLINE_S) as answer:
        statistics = json.load(answer)["model_stats"][0]["inference_stats"]
    return int(statistics["success"]["count"]) + int(statistics["fail"]["count"])


@pytest.mark.parametrize("call", ["infer", "generate", "generate_stream"])
def test_chat_small_answers_every_kind_of_call_at_once(triton: TritonServer, call: str) -> None:
    if call == "infer":
        text = {"name": "text_input", "datatype": "BYTES", "shape": [1], "data": ["hi there"]}
        status, body = post(triton, "chat-small/infer", {"inputs": [text]})
        answer = json.loads(body)["outputs"][0]["data"][0]
    else:
        status, body = post(triton, f"chat-small/{call}", {"text_input": "hi there"})
        answer = json.loads(body.removeprefix("data: "))["text_output"]
    assert status == 200
    assert len(answer.split()) == 16


@pytest.mark.parametrize(
    ("fault", "grpc_status", "http_status"),
    [
        ("error", "StatusCode.INTERNAL", 500),
        ("invalid", "StatusCode.INVALID_ARGUMENT", 400),
        ("unavailable", "StatusCode.UNAVAILABLE", 503),
        ("slow:x", "StatusCode.INVALID_ARGUMENT", 400),
        ("other", "StatusCode.INVALID_ARGUMENT", 400),
    ],
)
def test_faulty_fails_as_asked(triton: TritonServer, fault: str, grpc_status: str, http_status: int) -> None:
    with pytest.raises(InferenceServerException) as caught:
        grpc_infer(triton, "faulty", {"text": "a", "fault": fault})
    assert caught.value.status() == grpc_status
    inputs = [
        {"name": name, "datatype": "BYTES", "shape": [1, 1], "data": [value]}
        for name, value in (("text", "a"), ("fault", fault))
    ]
    assert post(triton, "faulty/infer", {"inputs": inputs})[0] == http_status


def test_faulty_answers_like_embed_without_a_fault_and_when_only_slow(triton: TritonServer) -> None:
    expected = grpc_infer(triton, "embed", {"text": "a b"}).as_numpy("embedding")
    slow = grpc_infer(triton, "faulty", {"text": "a b", "fault": "slow:1"})
    plain = grpc_infer(triton, "faulty", {"text": "a b"})
    assert (slow.as_numpy("embedding") == expected).all()
    assert (plain.as_numpy("embedding") == expected).all()


def test_a_dead_stub_fails_its_model_alone_while_the_server_says_ready(triton: TritonServer) -> None:
    for _ in range(2):
        with pytest.raises(InferenceServerException, match="is not healthy") as caught:
            grpc_infer(triton, "faulty", {"text": "a", "fault": "die"})
        assert caught.value.status() == "StatusCode.INTERNAL"
    with urllib.request.urlopen(f"{triton.http_url}/v2/models/faulty/ready", timeout=DEADLINE_S) as answer:
        assert answer.status == 200
    assert grpc_infer(triton, "embed", {"text": "a"}).as_numpy("input_tokens").tolist() == [[1]]
    assert not triton.complete


def test_a_test_finds_the_stub_alive_that_the_last_one_killed(triton: TritonServer) -> None:
    assert triton.complete


@pytest.mark.parametrize("fault", ["error", "invalid", "unavailable"])
def test_a_stream_that_fails_at_once_is_400_over_http(triton: TritonServer, fault: str) -> None:
    body: dict[str, Any] = {"text_input": "a", "fault": fault, "fail_after_tokens": 0}
    status, text = post(triton, "faulty-stream/generate_stream", body)
    assert (status, events(text)) == (400, [{"error": f"fault {fault} after 0 tokens"}])
    assert grpc_stream(triton, "faulty-stream", body) == [f"error: fault {fault} after 0 tokens"]


def test_a_stream_that_fails_later_is_200_with_the_error_last(triton: TritonServer) -> None:
    body: dict[str, Any] = {"text_input": "a", "fail_after_tokens": 2}
    status, text = post(triton, "faulty-stream/generate_stream", body)
    assert status == 200
    assert ["text_output" in event for event in events(text)] == [True, True, False]
    assert events(text)[2] == {"error": "fault error after 2 tokens"}
    assert grpc_stream(triton, "faulty-stream", body)[2:] == ["error: fault error after 2 tokens"]


def test_a_faulty_stream_without_a_fault_streams_like_chat(triton: TritonServer) -> None:
    body: dict[str, str | int] = {"text_input": "a", "max_tokens": 4}
    assert grpc_stream(triton, "faulty-stream", body) == grpc_stream(triton, "chat", body)


def test_a_killed_server_ends_its_stream_as_unavailable(
    triton_pair: tuple[TritonServer, TritonServer],
) -> None:
    victim = triton_pair[0]

    async def requests() -> AsyncIterator[dict[str, Any]]:
        inputs = tensors({"text_input": "a", "max_tokens": 4096, "delay_ms": 20})
        yield {"model_name": "chat", "inputs": inputs}

    async def call() -> grpc.aio.AioRpcError:
        async with triton_grpc.InferenceServerClient(victim.grpc_url) as client:
            stream = aiter(client.stream_infer(requests(), stream_timeout=DEADLINE_S))
            await anext(stream)
            await asyncio.to_thread(victim.kill)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await drain(stream)
        return caught.value

    assert asyncio.run(call()).code() == grpc.StatusCode.UNAVAILABLE
