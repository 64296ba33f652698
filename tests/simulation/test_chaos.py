"""Thousands of instances under seeded faults: every one ends once, is durable, and is what its commands mean."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random

import pytest

from engine.errors import Code, Rejected, TaskError
from engine.inference import Operation
from engine.records import Key
from tests.simulation.disk import FaultyJournal
from tests.simulation.world import SHIPPED, Attempted, Script, World, failure, simulate, world

INSTANCES = 700


async def misbehaves(attempted: Attempted) -> None:
    random = attempted.random
    await asyncio.sleep(random.expovariate(20))
    fate = random.random()
    if fate < 0.25:
        code = random.choice([Code.REPLICA_UNAVAILABLE, Code.REPLICA_OVERLOADED, Code.REPLICA_TIMEOUT])
        raise failure(code, attempted.number, retry_after_ms=random.choice([None, 5, 300]))
    if fate < 0.28:
        raise failure(Code.INPUT_REFUSED, attempted.number, retryable=False)
    if fate < 0.30:
        raise TaskError(Code.OUTPUT_INVALID, "no JSON")
    if fate < 0.32:
        raise ZeroDivisionError
    if fate < 0.35:
        await asyncio.sleep(random.expovariate(0.5))
    if fate < 0.37:
        raise asyncio.CancelledError  # a client library that cancels itself
    for _ in range(random.randrange(4)):
        await attempted.emit(b"chunk")


async def client(engine: World, random: Random, answers: dict[Key, str], refused: Counter[str]) -> None:
    await asyncio.sleep(random.random() * 10)
    operation = random.choice(list(Operation))
    try:
        run = engine.submit(operation=operation, deadline_ms=random.choice([200, 1_000, 30_000]))
    except Rejected as refusal:
        refused[refusal.code] += 1
        return
    if random.random() < 0.1:
        delay_s = random.choice([0, random.random(), random.random() * 0.01])
        asyncio.get_running_loop().call_later(delay_s, run.cancel, Code.CLIENT_DISCONNECTED, "left")
    try:
        if operation is Operation.GENERATE_STREAM:
            async for _ in run.chunks():
                if random.random() < 0.05:
                    await asyncio.sleep(random.random())
        answers[run.key] = (await run.result()).outcome.state
    except Rejected as refusal:
        refused[refusal.code] += 1


async def stumble(journal: FaultyJournal, random: Random) -> None:
    for _ in range(4):
        await asyncio.sleep(random.random() * 2)
        journal.back.clear()
        await asyncio.sleep(random.choice([0.05, 0.5, 2]) * random.random())
        journal.back.set()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_instance_ends_once_and_is_durable(seed: int) -> None:
    print(f"seed {seed}")
    random = Random(seed)

    async def main() -> None:
        journal = FaultyJournal(write_s=0.003)
        script = Script(misbehaves, fallback_model="chat-small", random=random)
        answers: dict[Key, str] = {}
        refused: Counter[str] = Counter()
        async with world(script, journal=journal, max_instances=200) as engine:
            stumbling = asyncio.create_task(stumble(journal, random))
            await asyncio.gather(*(client(engine, random, answers, refused) for _ in range(INSTANCES)))
            await stumbling
            await engine.runtime.drain(60)
            assert await journal.close() == 0
            assert script.slots == 0
        instances = journal.disk.instances()
        assert len(answers) + refused.total() == INSTANCES
        assert len(answers) > INSTANCES / 3
        for stored in instances.values():
            assert stored.kinds.count("instance_ended") == 1
        for key in random.sample(sorted(instances), 60):
            assert instances[key].is_what_its_commands_mean(SHIPPED.program)
        assert {key: instances[key].end for key in answers} == answers

    simulate(main)
