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
        tensor = pb_utils.get_input_tensor_by_name(request, "fault")
        fault = "" if tensor is None else bytes(tensor.as_numpy().reshape(-1)[0]).decode(errors="replace")
        kind, _, argument = fault.partition(":")
        if fault in CODES:
            return _failure(f"fault {fault}", getattr(pb_utils.TritonError, CODES[fault]))
        if fault == "die":
            os._exit(1)
        if kind == "slow" and argument.isascii() and argument.isdigit() and int(argument) <= MAX_SLOW_MS:
            time.sleep(int(argument) / 1000)
        elif fault:
            known = ", ".join([*CODES, f"slow:<0 to {MAX_SLOW_MS}>", "die"])
            return _failure(f"fault must be one of {known}; got {fault!r}", pb_utils.TritonError.INVALID_ARG)
        texts = pb_utils.get_input_tensor_by_name(request, "text").as_numpy().reshape(-1)
        vectors = np.array([embedding(text) for text in texts], dtype=np.float32)
        tokens = np.array([[token_count(text)] for text in texts], dtype=np.int32)
        return pb_utils.InferenceResponse(
            [pb_utils.Tensor("embedding", vectors), pb_utils.Tensor("input_tokens", tokens)]
        )


def _failure(message: str, code: int) -> Any:
    return pb_utils.InferenceResponse(error=pb_utils.TritonError(message, code))
