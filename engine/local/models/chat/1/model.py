"""The decoupled text model `chat`: one response per token, paced by the request, cancelled on demand.

It never fails on a valid request: no prompt can trigger a fault. Triton's Python backend calls it.
"""

import asyncio
from typing import Any

from tensors import FINAL, Prompt, cancelled, invalid, read_prompt, response
from words import words


class TritonPythonModel:
    """One instance of the model; its requests run side by side on the stub's event loop."""

    async def execute(self, requests: list[Any]) -> None:
        await asyncio.gather(*(self._answer(request) for request in requests))

    async def _answer(self, request: Any) -> None:
        sender = request.get_response_sender()
        try:
            prompt = read_prompt(request)
        except ValueError as problem:
            sender.send(invalid(str(problem)), flags=FINAL)
            return
        if prompt.stream:
            await self._stream(request, sender, prompt)
        else:
            await self._whole(request, sender, prompt)

    async def _stream(self, request: Any, sender: Any, prompt: Prompt) -> None:
        for count, token in enumerate(words(prompt.text, prompt.max_tokens), start=1):
            await asyncio.sleep(prompt.delay_s)
            if request.is_cancelled():
                sender.send(cancelled(), flags=FINAL)
                return
            flags = FINAL if count == prompt.max_tokens else 0
            sender.send(response(token, prompt.input_tokens, count), flags=flags)

    async def _whole(self, request: Any, sender: Any, prompt: Prompt) -> None:
        tokens: list[str] = []
        for token in words(prompt.text, prompt.max_tokens):
            await asyncio.sleep(prompt.delay_s)
            if request.is_cancelled():
                sender.send(cancelled(), flags=FINAL)
                return
            tokens.append(token)
        sender.send(response("".join(tokens), prompt.input_tokens, len(tokens)), flags=FINAL)
