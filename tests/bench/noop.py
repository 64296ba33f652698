"""Owns a replica that does nothing: Triton's gRPC protocol, one model, the same bytes for every answer.
Never parses a request, so that nearly all that is measured against it is the gateway.
Called by the gateway's benchmark; runs as `python -m tests.bench.noop PORT` in a process of its own.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Self

import grpc
from tritonclient.grpc import model_config_pb2, service_pb2

from engine.demo.gateway import HOST, free_port

ROOT = Path(__file__).parents[2]
_SERVICE = "inference.GRPCInferenceService"
_READY_TIMEOUT_S = 15.0


class NoopReplica:
    """The replica as a child process."""

    def __init__(self) -> None:
        self.grpc_url = f"{HOST}:{free_port()}"
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.bench.noop", self.grpc_url, cwd=ROOT
        )
        try:
            async with asyncio.timeout(_READY_TIMEOUT_S), grpc.aio.insecure_channel(self.grpc_url) as channel:
                await channel.channel_ready()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._process is not None
        if self._process.returncode is None:
            self._process.terminate()
        await self._process.wait()


def _answers() -> dict[str, bytes]:
    infer = service_pb2.ModelInferResponse(model_name="embed", model_version="1")
    infer.outputs.add(name="embedding", datatype="FP32", shape=[1, 8])
    infer.raw_output_contents.append(bytes(32))
    infer.outputs.add(name="input_tokens", datatype="INT32", shape=[1, 1])
    infer.raw_output_contents.append((7).to_bytes(4, "little"))
    config = service_pb2.ModelConfigResponse()
    config.config.name = "embed"
    config.config.max_batch_size = 8
    config.config.input.add(name="text", data_type=model_config_pb2.TYPE_STRING, dims=[1])
    ready = service_pb2.ModelReadyResponse(ready=True)
    return {
        "ModelInfer": infer.SerializeToString(),
        "ModelConfig": config.SerializeToString(),
        "ModelReady": ready.SerializeToString(),
    }


def _always(answer: bytes) -> Callable[[bytes, Any], Awaitable[bytes]]:
    async def handle(_: bytes, __: Any) -> bytes:
        return answer

    return handle


async def _serve(address: str) -> None:
    server = grpc.aio.server()
    methods: dict[str, Any] = {
        name: grpc.unary_unary_rpc_method_handler(_always(answer)) for name, answer in _answers().items()
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, methods),))
    if not server.add_insecure_port(address):
        sys.exit(f"cannot listen on {address}")
    await server.start()
    await server.wait_for_termination()


def main() -> None:
    serving = _serve(sys.argv[1])
    try:
        import uvloop
    except ImportError:
        asyncio.run(serving)
    else:
        uvloop.run(serving)


if __name__ == "__main__":
    main()
