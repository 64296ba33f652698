"""The fallback text model `chat-small`: the whole answer in one response, for unary and streamed requests.

It never answers with more than MAX_TOKENS tokens. Triton's Python backend calls it.
"""

import sys
import time
from pathlib import Path
from typing import Any

# The text models share two files, which lie beside the model `chat` of the same repository.
sys.path.append(str(Path(__file__).resolve().parents[2] / "chat" / "1"))

from tensors import Prompt, cancelled, invalid, read_prompt, response
from words import words

MAX_TOKENS = 32


class TritonPythonModel:
    """One instance of the model; it answers one request at a time."""

    def execute(self, requests: list[Any]) -> list[Any]:
        return [self._answer(request) for request in requests]

    def _answer(self, request: Any) -> Any:
        try:
            prompt = read_prompt(request)
        except ValueError as problem:
            return invalid(str(problem))
        return self._whole(request, prompt)

    def _whole(self, request: Any, prompt: Prompt) -> Any:
        tokens: list[str] = []
        for token in words(prompt.text, min(prompt.max_tokens, MAX_TOKENS)):
            time.sleep(prompt.delay_s)
            if request.is_cancelled():
                return cancelled()
            tokens.append(token)
        return response("".join(tokens), prompt.input_tokens, len(tokens))
