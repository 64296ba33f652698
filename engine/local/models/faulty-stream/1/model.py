"""The decoupled text model `faulty-stream`: like `chat`, and fails where the request says.

It never fails unless the request carries `fail_after_tokens`; `fault` chooses how: error (the default),
invalid, unavailable, die. Triton's Python backend calls it.
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

# The text models share two files, which lie beside the model `chat` of the same repository.
sys.path.append(str(Path(__file__).resolve().parents[2] / "chat" / "1"))

import triton_python_backend_utils as pb_utils
from tensors import FINAL, Prompt, cancelled, failure, invalid, read_prompt, response, scalar
from words import words

# Names of error codes; the backend adds `TritonError` to its module only after this file is imported.
CODES = {"error": "INTERNAL", "invalid": "INVALID_ARG", "unavailable": "UNAVAILABLE"}


class TritonPythonModel:
    """One instance of the model; its requests run side by side on the stub's event loop."""

    async def execute(self, requests: list[Any]) -> None:
        await asyncio.gather(*(self._answer(request) for request in requests))

    async def _answer(self, request: Any) -> None:
        sender = request.get_response_sender()
        fault = bytes(scalar(request, "fault", b"error")).decode(errors="replace")
        fail_after_tokens = int(scalar(request, "fail_after_tokens", -1))
        try:
            prompt = read_prompt(request)
            if fault != "die" and fault not in CODES:
                raise ValueError(f"fault must be one of {', '.join([*CODES, 'die'])}; got {fault!r}")
        except ValueError as problem:
            sender.send(invalid(str(problem)), flags=FINAL)
            return
        await self._stream(request, sender, prompt, fault, fail_after_tokens)

    async def _stream(self, request: Any, sender: Any, prompt: Prompt, fault: str, fail_after_tokens: int) -> None:
        for sent, token in enumerate(words(prompt.text, prompt.max_tokens)):
            await asyncio.sleep(prompt.delay_s)
            if request.is_cancelled():
                sender.send(cancelled(), flags=FINAL)
                return
            if sent == fail_after_tokens:
                self._fail(sender, fault, sent)
                return
            sender.send(response(token, prompt.input_tokens, sent + 1))
        if prompt.max_tokens == fail_after_tokens:
            self._fail(sender, fault, prompt.max_tokens)
        else:
            sender.send(flags=FINAL)

    def _fail(self, sender: Any, fault: str, sent: int) -> None:
        if fault == "die":
            os._exit(1)
        sender.send(
            failure(f"fault {fault} after {sent} tokens", getattr(pb_utils.TritonError, CODES[fault])),
            flags=FINAL,
        )
