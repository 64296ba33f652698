"""The unary model `faulty`: like `embed`, and fails as the optional input `fault` says.

It never fails without `fault`: error, invalid, unavailable, slow:<milliseconds>, die.
Triton's Python backend calls it.
"""

import os
import sys
import time
from pathlib import Path
from typing import Any

# The arithmetic lies beside the model `embed` of the same repository.
sys.path.append(str(Path(__file__).resolve().parents[2] / "embed" / "1"))

import numpy as np
import triton_python_backend_utils as pb_utils
from digest import embedding, token_count

# Names of error codes; the backend adds `TritonError` to its module only after this file is imported.
CODES = {"error": "INTERNAL", "invalid": "INVALID_ARG", "unavailable": "UNAVAILABLE"}
MAX_SLOW_MS = 60_000


class TritonPythonModel:
    """One instance of the model; it answers one request at a time, so a slow one holds up the next."""

    def execute(self, requests: list[Any]) -> list[Any]:
        return [self._answer(request) for request in requests]

    def _answer(self, request: Any) -> Any:
        fault = _fault(request)
        kind, _, argument = fault.partition(":")
        if fault in CODES:
            return _failure(f"fault {fault}", CODES[fault])
        if fault == "die":
            os._exit(1)
        if kind == "slow" and argument.isascii() and argument.isdigit() and int(argument) <= MAX_SLOW_MS:
            time.sleep(int(argument) / 1000)
        elif fault:
            known = ", ".join([*CODES, f"slow:<0 to {MAX_SLOW_MS}>", "die"])
            return _failure(f"fault must be one of {known}; got {fault!r}", "INVALID_ARG")
        text = pb_utils.get_input_tensor_by_name(request, "text")
        # Triton lets a request without this input pass once a model has optional ones.
        return _failure("the input text is missing", "INVALID_ARG") if text is None else _vectors(text)


def _fault(request: Any) -> str:
    tensor = pb_utils.get_input_tensor_by_name(request, "fault")
    return "" if tensor is None else bytes(tensor.as_numpy().reshape(-1)[0]).decode(errors="replace")


def _vectors(text: Any) -> Any:
    texts = text.as_numpy().reshape(-1)
    vectors = np.array([embedding(one) for one in texts], dtype=np.float32)
    tokens = np.array([[token_count(one)] for one in texts], dtype=np.int32)
    return pb_utils.InferenceResponse([pb_utils.Tensor("embedding", vectors), pb_utils.Tensor("input_tokens", tokens)])


def _failure(message: str, code: str) -> Any:
    error = pb_utils.TritonError(message, getattr(pb_utils.TritonError, code))
    return pb_utils.InferenceResponse(error=error)
