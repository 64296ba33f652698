"""Owns the proof that a gateway may be killed at any moment: what was answered is whole, and nothing is left running.
Never spares a moment: under load, while it starts, while it looks after its predecessor.
Called by pytest, with `-m crash`. The printed seed repeats a run's choices; what the machine does between them varies.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import engine.local
from tests.gateway_fixtures import MODELS, SETTINGS, GatewayProcess, replicas, until
from tests.system.bodies import CHAT, INFER, prompt, texts
from tests.system.load import Answer, Broken, Connection, connected, events
from tests.triton_fixtures import TritonServer

pytestmark = [pytest.mark.postgres, pytest.mark.triton, pytest.mark.crash]

KILLS = 22
CLIENTS = 6


class Told(NamedTuple):
    """What a client knows of one request: it got this answer, or only the head of one before the connection broke."""

    key: int
    status: int
    complete: bool
    tokens: int  # of a stream


class Clients:
    """Clients that go on over restarts, and write down everything that they are told."""

    def __init__(self, url: str, dice: random.Random) -> None:
        self.told: list[Told] = []
        self.broken = 0  # requests whose connection broke before anything came
        self.up = asyncio.Event()
        self.over = False
        self._url = url
        self._dice = dice

    async def run(self) -> None:
        """Ask until it is over."""
        async with connected(self._url) as connection:
            while not self.over:
                await self.up.wait()
                ask = self._dice.choice((self._infer, self._infer, self._generate, self._stream))
                try:
                    await ask(connection, f"request {self._dice.getrandbits(40)}")
                except Broken:
                    self.broken += 1
                    await asyncio.sleep(0)

    async def hear(self, more: int) -> None:
        """Wait until they have been told so much more."""
        goal = len(self.told) + more
        await asyncio.to_thread(until, f"{more} more answers", lambda: len(self.told) >= goal)

    async def _infer(self, connection: Connection, text: str) -> None:
        answer = await connection.post(INFER, {"id": text, **texts(text)})
        self._note(answer)
        if answer.status == 200:
            document = answer.json()
            got = {each["name"]: each["data"] for each in document["outputs"]}
            assert document["id"] == text
            assert got["embedding"] == pytest.approx(embedding(text.encode())), "somebody else's answer"

    async def _generate(self, connection: Connection, text: str) -> None:
        self._note(await connection.post("/v2/models/chat/generate", prompt(text, max_tokens=5, delay_ms=4)))

    async def _stream(self, connection: Connection, text: str) -> None:
        try:
            status, headers, reader = await connection.open(CHAT, {"text_input": text, "max_tokens": 12, "delay_ms": 5})
        except (OSError, EOFError) as error:
            connection.close()
            raise Broken(repr(error)) from error
        key = int(headers.get("conch-process-instance", 0))
        tokens, complete = 0, False
        try:
            if status == 200:
                async for event in events(reader):
                    tokens += "text_output" in event
                complete = tokens == 12
        except (OSError, EOFError, ValueError):
            pass
        if not complete:
            connection.close()
        if key:
            self.told.append(Told(key, status, complete, tokens))

    def _note(self, answer: Answer) -> None:
        if answer.key:
            self.told.append(Told(answer.key, answer.status, True, 0))


def _digest() -> Any:
    path = Path(next(iter(engine.local.__path__))) / "models" / "embed" / "1" / "digest.py"
    spec = importlib.util.spec_from_file_location("embed_digest", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_DIGEST = _digest()


def embedding(text: bytes) -> list[float]:
    """What the model answers, in the precision of its output."""
    return [float(np.float32(value)) for value in _DIGEST.embedding(text)]


async def kill_again_and_again(gateway: GatewayProcess, clients: Clients, dice: random.Random) -> list[str]:
    """Kill it KILLS times and start it again; returns when it runs for good."""
    moments = []
    running = [asyncio.create_task(clients.run()) for _ in range(CLIENTS)]
    port = gateway.url.rpartition(":")[2]
    for _ in range(KILLS):
        clients.up.set()
        await clients.hear(dice.choice((0, 0, 3, 10, 25, 40)))
        assert not any(task.done() for task in running), "a client has given up"
        await asyncio.sleep(dice.uniform(0, 0.03))  # into the midst of whatever goes on then
        clients.up.clear()
        moments.append(f"{len(clients.told)} told")
        await asyncio.to_thread(gateway.kill)
        gateway.launch("--port", port)
        await asyncio.to_thread(gateway.wait_listening)
    clients.up.set()
    await clients.hear(20)
    clients.over = True
    await asyncio.gather(*running)
    return moments


def test_a_gateway_that_is_killed_at_random_moments_keeps_its_word(
    make_gateway: Callable[..., GatewayProcess], triton_pair: tuple[TritonServer, TritonServer]
) -> None:
    seed = int(os.environ.get("CONCH_TEST_SEED", random.randrange(2**32)))
    print(f"repeat with CONCH_TEST_SEED={seed}")
    dice = random.Random(seed)
    gateway = make_gateway(SETTINGS + MODELS + replicas(*triton_pair)).start("embed", "chat")

    async def scenario() -> Clients:
        clients = Clients(gateway.url, dice)
        print(await kill_again_and_again(gateway, clients, dice))
        return clients

    clients = asyncio.run(scenario())
    audit = gateway.audit
    until("nothing is left running", lambda: not audit.ask("SELECT FROM audit.requests WHERE ended_at IS NULL"))
    until(
        "every dead process is looked after",
        lambda: len(audit.ask("SELECT FROM engine_process WHERE recovered_at IS NULL")) == 1,
    )
    rows = {row["process_instance_key"]: row for row in audit.requests()}
    states = Counter(row["state"] for row in rows.values())
    print(f"{len(clients.told)} told, {clients.broken} broken, in the audit: {dict(states)}")
    assert audit.broken(list(rows)) == []
    assert audit.count("dead_letter") == 0
    assert {told.key for told in clients.told} <= rows.keys()
    for told in clients.told:
        row = rows[told.key]
        if told.complete:
            assert (row["state"], row["http_status"]) == ("completed", told.status), told
            assert row["succeeded"] == (told.status == 200), told
            if told.tokens:
                assert row["output_tokens"] == told.tokens, told
        else:  # the head of a stream leaves after its start is durable, so there are rows, and they have an end
            assert row["state"] in ("aborted", "completed", "terminated"), told
    answered = {told.key for told in clients.told if told.complete}
    aborted = {key for key, row in rows.items() if row["state"] == "aborted"}
    assert not answered & aborted
    assert aborted, "no kill hit a request whose start was durable"
    assert {rows[key]["error_code"] for key in aborted} == {"ABORTED"}
    open_without_answer = {key for key, row in rows.items() if key not in answered and row["state"] == "completed"}
    print(f"{len(aborted)} aborted, {len(open_without_answer)} complete whose answer did not arrive")
