"""What the text models read from a Triton request and how they write a response.

It never decides what to answer. The models `chat`, `chat-small` and `faulty-stream` call it inside the
Python backend's stub, the only place where `triton_python_backend_utils` can be imported.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils
from words import DEFAULT_MAX_TOKENS, problems, token_count

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


@dataclass(frozen=True)
class Prompt:
    """One validated request: the prompt, how many tokens to answer and the pause before each of them."""

    text: bytes
    input_tokens: int
    max_tokens: int
    delay_s: float
    stream: bool


def scalar(request: Any, name: str, default: Any) -> Any:
    """The first element of an optional input, or `default` where the request does not carry it."""
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return default if tensor is None else tensor.as_numpy().reshape(-1)[0]


def read_prompt(request: Any) -> Prompt:
    """The request's prompt; raises ValueError that names every limit the request breaks."""
    # Triton lets a request without this input pass once a model has optional ones.
    text = scalar(request, "text_input", None)
    if text is None:
        raise ValueError("the input text_input is missing")
    max_tokens = int(scalar(request, "max_tokens", DEFAULT_MAX_TOKENS))
    delay_ms = int(scalar(request, "delay_ms", 0))
    found = problems(max_tokens, delay_ms)
    if found:
        raise ValueError(found)
    stream = bool(scalar(request, "stream", True))
    return Prompt(bytes(text), token_count(bytes(text)), max_tokens, delay_ms / 1000, stream)


def response(text: str, input_tokens: int, output_tokens: int) -> Any:
    """A response with a piece of text and the tokens counted so far."""
    return pb_utils.InferenceResponse(
        [
            pb_utils.Tensor("text_output", np.array([text.encode()], dtype=np.object_)),
            pb_utils.Tensor("input_tokens", np.array([input_tokens], dtype=np.int32)),
            pb_utils.Tensor("output_tokens", np.array([output_tokens], dtype=np.int32)),
        ]
    )


def failure(message: str, code: int) -> Any:
    """A response that fails the request with a Triton error code."""
    return pb_utils.InferenceResponse(error=pb_utils.TritonError(message, code))


def invalid(message: str) -> Any:
    """A response that blames the request."""
    return failure(message, pb_utils.TritonError.INVALID_ARG)


def cancelled() -> Any:
    """A response that confirms a cancellation."""
    return failure("the request was cancelled", pb_utils.TritonError.CANCELLED)
