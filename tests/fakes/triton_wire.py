"""Owns a server that speaks Triton's gRPC protocol on a real socket, for what a real one will not do on demand.

Its models `embed`, `chat` and `chat-small` answer as the shipped ones do, which the contract tests hold it to; a test
may script the next answers of any model. Called by contract tests.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import grpc
from tritonclient.grpc import model_config_pb2, service_pb2, service_pb2_grpc

from engine import Tensor
from tasks.tensors import decode, encode

TYPE = model_config_pb2.DataType.Value
INVALID = grpc.StatusCode.INVALID_ARGUMENT
Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Script: TypeAlias = "Callable[[Any, Context], Awaitable[Any]]"

_CONFIGS: dict[str, dict[str, Any]] = {
    "embed": {"max_batch_size": 8, "input": [("text", "TYPE_STRING", False)]},
    "chat": {
        "decoupled": True,
        "input": [
            ("text_input", "TYPE_STRING", False),
            ("max_tokens", "TYPE_INT32", True),
            ("delay_ms", "TYPE_INT32", True),
            ("stream", "TYPE_BOOL", True),
        ],
    },
}
_CONFIGS["chat-small"] = _CONFIGS["chat"] | {"decoupled": False}


@dataclass
class FakeTriton:
    """What the server was asked, and what it is to answer next."""

    port: int = 0
    requests: list[Any] = field(default_factory=list)
    timeouts_s: list[float] = field(default_factory=list)
    cancelled: int = 0
    probes_answered: asyncio.Event = field(default_factory=asyncio.Event)
    probes_waiting: int = 0
    scripts: dict[str, deque[Script]] = field(default_factory=dict)
    card_answers: deque[Script] = field(default_factory=deque)

    @property
    def grpc_url(self) -> str:
        return f"127.0.0.1:{self.port}"

    def script(self, model: str, *answers: Script) -> None:
        """Have the next calls of `model` answered by these, in turn."""
        self.scripts.setdefault(model, deque()).extend(answers)

    def asked(self, model: str) -> list[Any]:
        """The requests of `model` that were not probes, oldest first."""
        return [each for each in self.requests if each.model_name == model and not each.id.startswith("conch-probe-")]


@asynccontextmanager
async def fake_triton() -> AsyncIterator[FakeTriton]:
    """A server on a free port of the loopback interface."""
    fake, server = FakeTriton(), grpc.aio.server()
    fake.probes_answered.set()
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(_Servicer(fake), server)
    fake.port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield fake
    finally:
        await server.stop(None)


def refuse(status: grpc.StatusCode, text: str, **trailers: str) -> Script:
    """An answer that is an error; `_` in the name of a trailer stands for `-`."""
    metadata = tuple((name.replace("_", "-"), value) for name, value in trailers.items())

    async def answer(_: Any, context: Context) -> Any:
        await context.abort(status, text, metadata)

    return answer


def hang() -> Script:
    """An answer that never comes."""

    async def answer(_: Any, __: Context) -> Any:
        await asyncio.get_running_loop().create_future()

    return answer


def response(model: str, *tensors: Tensor, final: bool | None = None) -> Any:
    """A ModelInferResponse."""
    made = service_pb2.ModelInferResponse(model_name=model, model_version="1")
    for tensor in tensors:
        made.outputs.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
        made.raw_output_contents.append(encode(tensor).raw)
    if final is not None:
        made.parameters["triton_final_response"].bool_param = final
    return made


def reply(made: Any) -> Script:
    """This ModelInferResponse."""

    async def answer(_: Any, __: Context) -> Any:
        return made

    return answer


class _Servicer(service_pb2_grpc.GRPCInferenceServiceServicer):  # type: ignore[misc]  # generated without types
    def __init__(self, fake: FakeTriton):
        self.fake = fake

    async def ModelConfig(self, request: Any, context: Context) -> Any:
        if self.fake.card_answers:
            return await self.fake.card_answers.popleft()(request, context)
        described = await self._described(request.name, request.version, context)
        config = model_config_pb2.ModelConfig(name=request.name, max_batch_size=described.get("max_batch_size", 0))
        config.model_transaction_policy.decoupled = described.get("decoupled", False)
        for name, data_type, optional in described["input"]:
            config.input.add(name=name, data_type=TYPE(data_type), dims=[1], optional=optional)
        return service_pb2.ModelConfigResponse(config=config)

    async def ModelReady(self, request: Any, _: Context) -> Any:
        return service_pb2.ModelReadyResponse(ready=request.name in _CONFIGS)

    async def ModelInfer(self, request: Any, context: Context) -> Any:
        self._note(request, context)
        described = await self._described(request.model_name, request.model_version, context)
        if script := self._next(request):
            return await self._counting_cancels(script(request, context))
        if request.id.startswith("conch-probe-") and not self.fake.probes_answered.is_set():
            self.fake.probes_waiting += 1
            await self._counting_cancels(self.fake.probes_answered.wait())
        if described.get("decoupled"):
            text = "ModelInfer RPC doesn't support models with decoupled transaction policy"
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, text)
        known = {name for name, *_ in described["input"]}
        for each in request.inputs:
            if each.name not in known:
                text = f"unexpected inference input '{each.name}' for model '{request.model_name}'"
                await context.abort(INVALID, text)
        return _embedded(request) if request.model_name == "embed" else _whole(request)

    async def ModelStreamInfer(self, requests: AsyncIterator[Any], context: Context) -> AsyncIterator[Any]:
        async for request in requests:
            self._note(request, context)
            await self._described(request.model_name, request.model_version, context)
            if script := self._next(request):
                yield await self._counting_cancels(script(request, context))
                continue
            answers = _streamed(request) if _scalar(request, "stream", True) else _one(request)
            try:
                async for each in answers:
                    yield service_pb2.ModelStreamInferResponse(infer_response=each)
            except (asyncio.CancelledError, GeneratorExit):
                self.fake.cancelled += 1
                raise

    def _note(self, request: Any, context: Context) -> None:
        self.fake.requests.append(request)
        self.fake.timeouts_s.append(context.time_remaining())

    def _next(self, request: Any) -> Script | None:
        queue = self.fake.scripts.get(request.model_name)
        return queue.popleft() if queue and not request.id.startswith("conch-probe-") else None

    async def _counting_cancels(self, answer: Awaitable[Any]) -> Any:
        try:
            return await answer
        except asyncio.CancelledError:
            self.fake.cancelled += 1
            raise

    async def _described(self, model: str, version: str, context: Context) -> Mapping[str, Any]:
        if model not in _CONFIGS:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"Request for unknown model: '{model}' is not found")
        if version not in ("", "1"):
            text = f"Request for unknown model: '{model}' version {version} is not found"
            await context.abort(grpc.StatusCode.NOT_FOUND, text)
        return _CONFIGS[model]


def _values(request: Any, name: str) -> list[Any] | None:
    for each, raw in zip(request.inputs, request.raw_input_contents, strict=True):
        if each.name == name:
            return decode(name, each.datatype, each.shape, raw)
    return None


def _scalar(request: Any, name: str, default: Any) -> Any:
    values = _values(request, name)
    return default if values is None else values[0]


def _embedded(request: Any) -> Any:
    texts = _values(request, "text") or []
    digests = [hashlib.sha256(text.encode()).digest() for text in texts]
    vectors = [int.from_bytes(d[i : i + 4], "big") / 2**31 - 1.0 for d in digests for i in range(0, 32, 4)]
    tensors = (
        Tensor("embedding", "FP32", (len(texts), 8), vectors),
        Tensor("input_tokens", "INT32", (len(texts), 1), [len(text.split()) for text in texts]),
    )
    wanted = {each.name for each in request.outputs}
    return response("embed", *(tensor for tensor in tensors if not wanted or tensor.name in wanted))


def _text(request: Any, text: str, output_tokens: int, final: bool | None = None) -> Any:
    return response(
        request.model_name,
        Tensor("text_output", "BYTES", (1,), [text]),
        Tensor("input_tokens", "INT32", (1,), [len(_scalar(request, "text_input", "").split())]),
        Tensor("output_tokens", "INT32", (1,), [output_tokens]),
        final=final,
    )


def _whole(request: Any) -> Any:
    count = _scalar(request, "max_tokens", 16)
    return _text(request, " ".join(["word"] * count), count)


async def _one(request: Any) -> AsyncIterator[Any]:
    count = _scalar(request, "max_tokens", 16)
    yield _text(request, " ".join(["word"] * count), count, final=True)


async def _streamed(request: Any) -> AsyncIterator[Any]:
    count, delay_s = _scalar(request, "max_tokens", 16), _scalar(request, "delay_ms", 0) / 1000
    for number in range(1, count + 1):
        await asyncio.sleep(delay_s)
        yield _text(request, "word", number, final=number == count)
