"""How the end of an instance becomes an answer on the wire."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

from engine.api.inference import _say_result
from engine.inference import InferenceAnswer, InferenceCall, Operation
from engine.records import Outcome
from engine.run import Run, RunResult


def test_what_a_model_said_of_its_failure_cannot_end_a_header() -> None:
    sent: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    async def main() -> None:
        run = Run(1, InferenceCall(Operation.INFER, "m", "", ""), lambda key, code, message: None, 1.0)
        reason = "failed:\r\nSet-Cookie: a=b\n\nAt:\n  model.py(3)\x00 \u2028ü"
        outcome = Outcome("completed", "answered", None, {"degraded_reason": reason}, None)
        await _say_result(send, RunResult(outcome, InferenceAnswer("m", "1"), 1, "a"), "id", run, "")

    asyncio.run(main())
    headers = dict(sent[0]["headers"])
    assert headers[b"conch-degraded"] == b"failed:  Set-Cookie: a=b  At:   model.py(3)"
