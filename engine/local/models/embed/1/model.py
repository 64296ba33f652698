"""The unary model `embed`: `text` in, `embedding` and `input_tokens` out, batched by Triton.

It never waits and never fails on a well-formed request. Triton's Python backend calls it.
"""

from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils
from digest import embedding, token_count


class TritonPythonModel:
    """One instance of the model in one stub process."""

    def execute(self, requests: list[Any]) -> list[Any]:
        return [self._answer(request) for request in requests]

    def _answer(self, request: Any) -> Any:
        texts = pb_utils.get_input_tensor_by_name(request, "text").as_numpy().reshape(-1)
        vectors = np.array([embedding(text) for text in texts], dtype=np.float32)
        tokens = np.array([[token_count(text)] for text in texts], dtype=np.int32)
        return pb_utils.InferenceResponse(
            [pb_utils.Tensor("embedding", vectors), pb_utils.Tensor("input_tokens", tokens)]
        )
