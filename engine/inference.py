"""Owns the payload that travels beside the engine: the inference call that arrived and the answer that goes back.
Never becomes a process variable, a log line or an audit row.
Called by the api (which builds calls and renders answers) and by tasks (which turn calls into answers).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Operation(StrEnum):
    INFER = "infer"  # KServe v2 inference, unary
    GENERATE = "generate"  # Triton generate extension, one answer
    GENERATE_STREAM = "generate_stream"  # Triton generate extension, server-sent events


@dataclass(frozen=True, slots=True)
class Tensor:
    """One named tensor in KServe v2 JSON form: `data` is flat or nested, row-major; BYTES are str."""

    name: str
    datatype: str  # BOOL UINT8.. INT64 FP16 FP32 FP64 BYTES
    shape: tuple[int, ...]
    data: Sequence[Any]
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InferenceCall:
    """What the client asked for. `model` is what it named; a fallback may answer with another."""

    operation: Operation
    model: str
    version: str  # "" lets the server choose
    client_id: str  # the client's own `id`, echoed; never a key of ours
    inputs: tuple[Tensor, ...] = ()  # infer
    outputs: tuple[str, ...] = ()  # infer: wanted outputs, empty for all
    body: Mapping[str, Any] = field(default_factory=dict)  # generate: fields by input name, and parameters
    parameters: Mapping[str, Any] = field(default_factory=dict)
    size_bytes: int = 0


@dataclass(slots=True)
class InferenceAnswer:
    """The final answer of a call; for a stream, what remains to be said after its chunks."""

    model: str
    version: str
    outputs: tuple[Tensor, ...] = ()  # infer
    body: Mapping[str, Any] = field(default_factory=dict)  # generate
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Chunk:
    """One piece of a stream, already in the client's JSON form; provisional until the stream's terminal event."""

    data: bytes
