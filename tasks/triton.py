"""Owns one gRPC channel to one Triton server: unary calls, streams, model cards, deadlines and cancellation.
Never chooses a replica, retries, or decides what a failure means beyond the table in verdicts.
Called by infer and by the probes of the fleet.

It speaks the protocol's own messages: the client library's tensor classes cost about as much as the whole call.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from functools import partial
from typing import Any

import grpc
from tritonclient.grpc import model_config_pb2, service_pb2

from engine import Code, Tensor
from tasks.generate import InputSpec, ModelCard
from tasks.tensors import TensorInvalid, decode
from tasks.verdicts import CallFailed, failure_of, failure_within

_SERVICE = "/inference.GRPCInferenceService"
_FINAL = "triton_final_response"
_EMPTY_FINAL = "triton_enable_empty_final_response"
_INT64 = range(-(2**63), 2**63)

# A restarted server must be found within a second, so the back-off stays short. Pings faster than the server's
# default of one in 300 s would make it close the connection; that keepalive is set at all makes the kernel give up
# a silent peer after the timeout as soon as anything was sent. Each replica has its own connection and back-off.
_CHANNEL_OPTIONS = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 500),
    ("grpc.keepalive_time_ms", 300_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),  # the diagram alone retries; gRPC would do it unseen
)


class TritonClient:
    """The channel of one replica, for one event loop. Connects on the first call and reconnects by itself."""

    def __init__(self, address: str):
        self.address = address
        self._channel = grpc.aio.insecure_channel(address, options=_CHANNEL_OPTIONS)
        pb = service_pb2
        # Serialized by the caller: a prepared request is pointed at another model by the next attempt.
        self._infer: Any = self._channel.unary_unary(
            f"{_SERVICE}/ModelInfer", response_deserializer=pb.ModelInferResponse.FromString
        )
        self._config = self._unary("ModelConfig", pb.ModelConfigRequest, pb.ModelConfigResponse)
        self._ready = self._unary("ModelReady", pb.ModelReadyRequest, pb.ModelReadyResponse)
        self._stream = self._channel.stream_stream(
            f"{_SERVICE}/ModelStreamInfer",
            request_serializer=pb.ModelInferRequest.SerializeToString,
            response_deserializer=pb.ModelStreamInferResponse.FromString,
        )

    def _unary(self, method: str, request: Any, response: Any) -> Any:
        return self._channel.unary_unary(
            f"{_SERVICE}/{method}",
            request_serializer=request.SerializeToString,
            response_deserializer=response.FromString,
        )

    async def close(self) -> None:
        """Close the connection; calls under way are cancelled."""
        await self._channel.close()

    async def infer(self, request: Any, timeout_s: float) -> Any:
        """One ModelInfer. Cancelling the caller cancels the call. The deadline is always set: a call that gets a
        second message, from a decoupled model, would otherwise never end.

        Raises CallFailed.
        """
        call = self._infer(request.SerializeToString(), timeout=timeout_s)
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        call.add_done_callback(partial(_resolve, ended))
        try:
            await ended  # awaiting the call itself would lose the reason that a cancellation carries
            return await call
        except asyncio.CancelledError:
            call.cancel()
            raise
        except grpc.aio.AioRpcError as error:
            raise failure_of(error) from None

    async def stream(self, request: Any, timeout_s: float, first_s: float, stall_s: float) -> AsyncGenerator[Any, None]:
        """The responses of one ModelStreamInfer, the empty final one left out. `timeout_s` bounds the whole call,
        `first_s` the wait for the first response, `stall_s` the wait for each later one.

        A model's error comes as a text within the stream. The header `triton_grpc_error` would turn it into a status,
        but a stream that failed under it has been seen to crash the server later (2.51, signal 11). Leaving the
        generator early cancels the call. Raises CallFailed; StreamStalled when a wait was too long.
        """
        request.parameters[_EMPTY_FINAL].bool_param = True
        call = self._stream(timeout=timeout_s)
        try:
            await call.write(request)
            await call.done_writing()
            wait_s = first_s
            while (response := await _read(call, wait_s)) is not grpc.aio.EOF:
                if response.error_message:
                    raise failure_within(response.error_message)
                answer = response.infer_response
                if answer.outputs:
                    yield answer
                    wait_s = stall_s
                if answer.parameters[_FINAL].bool_param:
                    return
            if (status := await call.code()) is not grpc.StatusCode.OK:
                raise await _failure(call, status)
        except asyncio.InvalidStateError:
            raise await _failure(call, await call.code()) from None
        except grpc.aio.AioRpcError as error:
            raise failure_of(error) from None
        finally:
            call.cancel()

    async def card(self, model: str, version: str, timeout_s: float) -> ModelCard:
        """What the server says about a model's inputs. Raises CallFailed."""
        request = service_pb2.ModelConfigRequest(name=model, version=version)
        try:
            response = await self._config(request, timeout=timeout_s)
        except grpc.aio.AioRpcError as error:
            raise failure_of(error) from None
        config = response.config
        batch = (-1,) if config.max_batch_size > 0 else ()
        inputs = {
            each.name: InputSpec(_datatype(each.data_type), (*batch, *each.dims), each.optional)
            for each in config.input
        }
        return ModelCard(inputs, config.model_transaction_policy.decoupled)

    async def ready(self, model: str, timeout_s: float) -> bool:
        """Whether the server calls a model ready; it may be wrong. Raises CallFailed."""
        try:
            response = await self._ready(service_pb2.ModelReadyRequest(name=model), timeout=timeout_s)
        except grpc.aio.AioRpcError as error:
            raise failure_of(error) from None
        return bool(response.ready)


def _resolve(ended: asyncio.Future[None], _: Any) -> None:
    if not ended.done():
        ended.set_result(None)


class StreamStalled(Exception):
    """No response came in time; the call was cancelled."""


async def _read(call: Any, wait_s: float) -> Any:
    reading = asyncio.ensure_future(call.read())
    try:
        await asyncio.wait((reading,), timeout=wait_s)  # awaiting the read would lose a cancellation's reason here too
        if not reading.done():
            raise StreamStalled
        return reading.result()
    finally:
        reading.cancel()


async def _failure(call: Any, status: grpc.StatusCode) -> CallFailed:
    """A stream that ended with a status, in the words that a raised error would have had."""
    error = grpc.aio.AioRpcError(
        status,
        await call.initial_metadata(),
        await call.trailing_metadata(),
        details=await call.details(),
        debug_error_string=call.debug_error_string(),
    )
    return failure_of(error)


def request_of(
    model: str,
    version: str,
    request_id: str,
    tensors: Sequence[tuple[Tensor, bytes]],
    outputs: Sequence[str] = (),
    parameters: Mapping[str, Any] | None = None,
) -> Any:
    """The ModelInferRequest of encoded tensors. Parameters are scalars; a whole number beyond 64 bits becomes a
    floating one."""
    request = service_pb2.ModelInferRequest(model_name=model, model_version=version, id=request_id)
    for tensor, raw in tensors:
        described = request.inputs.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
        if tensor.parameters:
            set_parameters(described.parameters, tensor.parameters)
        request.raw_input_contents.append(raw)
    for name in outputs:
        request.outputs.add(name=name)
    if parameters:
        set_parameters(request.parameters, parameters)
    return request


def set_parameters(target: Any, parameters: Mapping[str, Any]) -> None:
    """Write scalar parameters into a protobuf map."""
    for name, value in parameters.items():
        if isinstance(value, bool):
            target[name].bool_param = value
        elif isinstance(value, int) and value in _INT64:
            target[name].int64_param = value
        elif isinstance(value, str):
            target[name].string_param = value
        else:
            target[name].double_param = float(value)


def address_to(request: Any, model: str, version: str, request_id: str, timeout_us: int) -> Any:
    """Point a prepared request at a model. `timeout_us` is Triton's own limit of its time in the replica's queue, in
    microseconds."""
    request.model_name = model
    request.model_version = version
    request.id = request_id
    request.parameters["timeout"].int64_param = timeout_us
    return request


def outputs_of(response: Any) -> tuple[Tensor, ...]:
    """The outputs of a ModelInferResponse. Raises CallFailed (OUTPUT_INVALID) when they contradict themselves."""
    described, raws = response.outputs, response.raw_output_contents
    if len(described) != len(raws):
        problem = f"{len(described)} outputs are described, {len(raws)} have raw contents"
        raise CallFailed(Code.OUTPUT_INVALID, problem)
    try:
        return tuple(map(_output, described, raws))
    except TensorInvalid as error:
        raise CallFailed(Code.OUTPUT_INVALID, str(error)) from None


def _output(described: Any, raw: bytes) -> Tensor:
    name, datatype, shape = described.name, described.datatype, tuple(described.shape)
    return Tensor(name, datatype, shape, decode(name, datatype, shape, raw))


def parameters_of(response: Any) -> dict[str, Any]:
    """The scalar parameters of a response, without those of the stream protocol itself."""
    return {
        name: getattr(value, value.WhichOneof("parameter_choice"))
        for name, value in response.parameters.items()
        if name != _FINAL and value.WhichOneof("parameter_choice")
    }


_DATATYPES = {"STRING": "BYTES"}


def _datatype(number: int) -> str:
    """The protocol's name of a model configuration's data type."""
    name: str = model_config_pb2.DataType.Name(number).removeprefix("TYPE_")
    return _DATATYPES.get(name, name)
