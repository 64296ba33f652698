"""Owns the plot of the demonstration: traffic, one server killed under it, its return, and the verdict.
Never formats anything for a person; that is the report's.
Called by the command `conch demo`.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import NamedTuple

import psycopg

from engine.demo.errors import DemoError
from engine.demo.evidence import Evidence, read_evidence
from engine.demo.progress import Progress
from engine.demo.stage import MODELS, Stage
from engine.demo.traffic import Answer, Client, script
from engine.errors import Code
from engine.local.triton import LocalTritonError

# What the policy in the diagram declares: once a token is out, an answer cannot be taken back and begun again.
DECLARED_FAILURES = frozenset({Code.STREAM_BROKEN.value})
_RECOVERY_TIMEOUT_S = 30.0
_POLL_S = 0.1


class Check(NamedTuple):
    """One claim of the demonstration."""

    claim: str
    holds: bool
    detail: str = ""


class Play(NamedTuple):
    """What happened, and whether it was as claimed."""

    seed: int
    traffic_s: float
    outage_s: float
    answers: list[Answer]
    evidence: Evidence
    checks: list[Check]

    @property
    def holds(self) -> bool:
        return all(check.holds for check in self.checks)


async def perform(stage: Stage, requests: int, concurrency: int, seed: int, progress: Progress) -> Play:
    """Run the demonstration on an open stage. Raises DemoError when the gateway or a server cannot go on."""
    acting = asyncio.create_task(_act(stage, requests, concurrency, seed, progress))
    dying = asyncio.create_task(stage.gateway.ended())
    try:
        await asyncio.wait({acting, dying}, return_when=asyncio.FIRST_COMPLETED)
        if not acting.done():
            raise DemoError(await dying)
        return await acting
    except (LocalTritonError, psycopg.Error) as error:
        raise DemoError(str(error)) from error
    finally:
        for task in (acting, dying):
            task.cancel()
        await asyncio.wait({acting, dying})


async def _act(stage: Stage, requests: int, concurrency: int, seed: int, progress: Progress) -> Play:
    planned = script(requests, seed)
    victim, name = stage.victim, stage.victim.config.name
    server = "up"

    def show() -> None:
        broken = sum(1 for answer in client.answers if answer.error_code)
        failed = f"  {broken} failed" if broken else ""
        under_way = f"{client.under_way.total()} in flight"
        progress.show(len(client.answers), requests, f"{under_way}{failed}  {name} {server}")

    client = Client(stage.http, stage.gateway.url, show)
    began_s = time.monotonic()
    kill_at, return_at, last_act = requests // 3, requests // 2, requests * 2 // 3
    traffic = asyncio.create_task(client.send_all(planned[:last_act], concurrency))
    try:
        # Both a stream and a whole text are under way, so that the kill meets what can and what cannot be repeated.
        await client.until(
            lambda: (
                len(client.answers) >= kill_at
                and (_both_under_way(client.under_way) or len(client.answers) == last_act)
            )
        )
        await victim.kill()
        killed_s = time.monotonic()
        server = "down"
        progress.note(f"{name} is killed (SIGKILL) with {client.under_way.total()} requests in flight")
        await client.until(lambda: len(client.answers) >= return_at)
        progress.note(f"{name} is started again")
        await victim.start()
        await traffic
    finally:
        traffic.cancel()
        await asyncio.wait({traffic})
    await _until_whole(stage, name)
    back_at_s, outage_s = time.time(), time.monotonic() - killed_s
    server = "up"
    progress.note(f"{name} serves again, {outage_s:.1f} s after it was killed")
    await client.send_all(planned[last_act:], concurrency)
    progress.finish()
    traffic_s = time.monotonic() - began_s
    evidence = await read_evidence(stage.database_url, client.answers, name, back_at_s)
    return Play(seed, traffic_s, outage_s, client.answers, evidence, _checks(requests, client.answers, evidence, name))


def _both_under_way(under_way: Counter[str]) -> bool:
    return under_way["generate"] > 0 and under_way["generate_stream"] > 0


async def _until_whole(stage: Stage, replica: str) -> None:
    """Return when the gateway's own probes find every model on `replica` again."""
    wanted = {f'conch_replica_up{{model="{model}",replica="{replica}"}} 1.0' for model in MODELS[:2]}
    try:
        async with asyncio.timeout(_RECOVERY_TIMEOUT_S):
            while True:
                async with stage.http.get(f"{stage.gateway.url}/metrics") as answer:
                    if wanted <= set((await answer.text()).splitlines()):
                        return
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        raise DemoError(f"the gateway did not find {replica} again within {_RECOVERY_TIMEOUT_S:g} s") from None


def _checks(requests: int, answers: list[Answer], evidence: Evidence, victim: str) -> list[Check]:
    totals = evidence.totals
    undeclared = Counter(a.error_code for a in answers if a.error_code and a.error_code not in DECLARED_FAILURES)
    first = next((f"{a.error_code}: {a.message}" for a in answers if a.error_code in undeclared), "")
    named = any(row.replica == victim and row.grpc_status == "UNAVAILABLE" for row in evidence.retried_attempts)
    return [
        Check("every request is in the audit", totals.requests == requests, f"{totals.requests} of {requests}"),
        Check("no request failed but as the diagram declares", not undeclared, first),
        Check(
            "every answered request is complete in the audit",
            not evidence.differences,
            "; ".join(evidence.differences[:3]),
        ),
        Check("no request is left unfinished", totals.incomplete == 0, f"{totals.incomplete} are"),
        Check("requests were retried and fell back", totals.retried > 0 and totals.fell_back > 0),
        Check("a retried request names the killed server and its gRPC status", named),
        Check(f"{victim} answers again after its return", evidence.served_again > 0),
    ]
