"""Faults of our own while a request is taken or answered: told in the protocol's shape, logged once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import MutableMapping
from typing import Any, cast

import orjson
import pytest

from engine.api.gateway import Gateway
from engine.api.inference import BrokenOff, InferenceEndpoint
from engine.errors import Code
from engine.inference import Chunk, InferenceAnswer, Operation
from engine.keys import KeySource
from engine.settings import Settings
from engine.telemetry import Telemetry
from tests.loop import now_us
from tests.simulation.world import SHIPPED, Attempted, Script, World, simulate, world

SECRET = "what only the client may know"
BODY = orjson.dumps({"text_input": SECRET, "stream": False})


class Fleet:
    def readiness(self) -> dict[str, list[str]]:
        return {"chat": ["r1"]}


class Wire:
    """What the endpoint said to the client."""

    def __init__(self) -> None:
        self.messages: list[MutableMapping[str, Any]] = []

    async def send(self, message: MutableMapping[str, Any]) -> None:
        self.messages.append(message)

    @property
    def answer(self) -> tuple[int, str]:
        start, body = self.messages
        return start["status"], orjson.loads(body["body"])["code"]


async def ask(engine: World, operation: Operation, wire: Wire) -> None:
    keys = KeySource(2, lambda: now_us() // 1000)
    gateway = Gateway(
        settings=Settings(),
        version="test",
        runtime=engine.runtime,
        journal=engine.journal,
        keys=keys,
        queries=cast(Any, None),  # no question is asked here
        deployments=cast(Any, None),
        serving=lambda: SHIPPED,
        fleet=Fleet(),
        telemetry=Telemetry(),
        now_us=now_us,
        lease_held=lambda: True,
    )
    scope: dict[str, Any] = {"path_params": {"model": "chat"}, "headers": [], "client": None}
    messages = [{"type": "http.request", "body": BODY}]

    async def receive() -> MutableMapping[str, Any]:
        if not messages:
            await asyncio.Event().wait()
        return messages.pop()

    try:
        await InferenceEndpoint(gateway, operation)(scope, receive, wire.send)
    finally:
        gateway.refusals.close()


def faults(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    assert SECRET not in caplog.text
    return [each for each in caplog.records if each.levelno == logging.CRITICAL]


def test_a_fault_while_a_request_is_taken_is_a_refusal_of_the_protocol(caplog: pytest.LogCaptureFixture) -> None:
    wire = Wire()

    broken = False

    def clock() -> int:
        if broken:
            raise OverflowError(SECRET)
        return now_us()

    async def main() -> list[str]:
        nonlocal broken
        async with world(clock=clock) as engine:
            broken = True
            await ask(engine, Operation.GENERATE, wire)
            broken = False
            return [row.kind for each in engine.journal.disk.instances().values() for row in each.facts]

    assert simulate(main) == ["refusal"]
    assert wire.answer == (500, Code.ENGINE_FAULT)
    (logged,) = faults(caplog)
    assert dict(wire.messages[0]["headers"])[b"conch-request-id"].decode() == logged.__dict__["request_id"]


async def answers_what_is_no_json(attempted: Attempted) -> None:
    context = attempted.context
    if context.call.operation is Operation.GENERATE_STREAM:
        await context.emit(Chunk(b"{}"))
        await context.emit(Chunk(cast(Any, SECRET)))
    answer = InferenceAnswer("chat", "1", body={"text_output": {SECRET}})
    context.defer(lambda: context.deliver(answer))  # after the one that the scripted replica gives


def test_a_fault_while_a_request_is_answered_is_told_in_the_shape_of_the_protocol(
    caplog: pytest.LogCaptureFixture,
) -> None:
    wire = Wire()

    async def main() -> None:
        async with world(Script(answers_what_is_no_json)) as engine:
            await ask(engine, Operation.GENERATE, wire)

    simulate(main)
    assert wire.answer == (500, Code.ENGINE_FAULT)
    assert len(faults(caplog)) == 1


def test_a_stream_that_has_begun_breaks_off_at_a_fault(caplog: pytest.LogCaptureFixture) -> None:
    wire = Wire()

    async def main() -> None:
        async with world(Script(answers_what_is_no_json)) as engine:
            with pytest.raises(BrokenOff) as broken:
                await ask(engine, Operation.GENERATE_STREAM, wire)
            assert broken.value.__suppress_context__
            assert engine.runtime.active == 0

    simulate(main)
    assert [each["type"] for each in wire.messages] == ["http.response.start", "http.response.body"]
    assert len(faults(caplog)) == 1
