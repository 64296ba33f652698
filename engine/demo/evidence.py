"""Owns what the demonstration reads from the audit, by SQL on its views, and the comparison with the client's log.
Never trusts the gateway's own counters, and never writes.
Called by the play, once all traffic is over.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import psycopg
from psycopg.rows import class_row, dict_row

from engine.api.narrative import tell
from engine.demo.traffic import Answer
from engine.records import Key
from engine.store.database import connect
from engine.store.queries import Queries


class Totals(NamedTuple):
    requests: int
    answered: int
    failed: int
    incomplete: int
    retried: int
    fell_back: int
    attempts: int
    retries: int
    input_tokens: int
    output_tokens: int
    cost_usd: Decimal


class StepLatency(NamedTuple):
    step: str
    passed: int
    p50_ms: float
    p99_ms: float


class ReplicaShare(NamedTuple):
    replica: str
    attempts: int
    ok: int
    share_percent: float


class AttemptRow(NamedTuple):
    """One call of a replica, as the audit has it."""

    attempt_no: int
    replica: str
    model: str
    outcome: str
    error_code: str | None
    grpc_status: str | None
    message: str | None


class Evidence(NamedTuple):
    """Everything that the report says, as the audit has it."""

    totals: Totals
    failures: dict[str, int]
    steps: list[StepLatency]
    replicas: list[ReplicaShare]
    differences: list[str]  # between the client's log and the rows
    retried_key: Key | None  # a request that the killed server failed and that was answered all the same
    retried_attempts: list[AttemptRow]
    story: list[str]
    served_again: int  # attempts that the killed replica answered after it was back


_TOTALS = """
SELECT count(*) AS requests,
       count(*) FILTER (WHERE succeeded) AS answered,
       count(*) FILTER (WHERE NOT succeeded) AS failed,
       count(*) FILTER (WHERE incomplete) AS incomplete,
       count(*) FILTER (WHERE retries > 0) AS retried,
       count(*) FILTER (WHERE fell_back) AS fell_back,
       coalesce(sum(attempts), 0)::bigint AS attempts,
       coalesce(sum(retries), 0)::bigint AS retries,
       coalesce(sum(input_tokens), 0)::bigint AS input_tokens,
       coalesce(sum(output_tokens), 0)::bigint AS output_tokens,
       coalesce(sum(cost_usd), 0) AS cost_usd
FROM audit.requests
"""
_FAILURES = """
SELECT error_code, count(*) FROM audit.requests WHERE error_code IS NOT NULL GROUP BY error_code ORDER BY 2 DESC, 1
"""
_STEPS = """
SELECT element_id AS step, count(*) AS passed,
       percentile_cont(0.5) WITHIN GROUP (ORDER BY duration_us) / 1000 AS p50_ms,
       percentile_cont(0.99) WITHIN GROUP (ORDER BY duration_us) / 1000 AS p99_ms
FROM audit.steps WHERE element_type IN ('SERVICE_TASK', 'INTERMEDIATE_CATCH_EVENT')
GROUP BY element_id ORDER BY min(position), element_id
"""
_REPLICAS = """
SELECT replica, count(*) AS attempts, count(*) FILTER (WHERE outcome = 'ok') AS ok,
       (100.0 * count(*) / sum(count(*)) OVER ())::float AS share_percent
FROM audit.attempts GROUP BY replica ORDER BY replica
"""
_SERVED_AGAIN = """
SELECT count(*) FROM audit.attempts
WHERE replica = %(victim)s AND outcome = 'ok' AND sent_at > to_timestamp(%(back_at_s)s)
"""
# The shortest story that has everything.
_RETRIED = """
SELECT r.process_instance_key
FROM audit.requests r JOIN audit.attempts a USING (process_instance_key)
WHERE r.succeeded AND a.replica = %(victim)s AND a.grpc_status = 'UNAVAILABLE'
ORDER BY r.steps, a.sent_at LIMIT 1
"""
_ATTEMPTS = """
SELECT attempt_no, replica, model, outcome, error_code, grpc_status, error_message AS message
FROM audit.attempts WHERE process_instance_key = %(key)s ORDER BY position
"""
_ROWS = """
SELECT r.process_instance_key, r.succeeded, r.error_code, r.incomplete, r.attempts, array_agg(s.element_id) AS elements,
       (SELECT a.replica FROM audit.attempts a WHERE a.process_instance_key = r.process_instance_key
        ORDER BY a.attempt_no DESC LIMIT 1) AS replica
FROM audit.requests r LEFT JOIN audit.steps s USING (process_instance_key)
GROUP BY r.process_instance_key, r.succeeded, r.error_code, r.incomplete, r.attempts
"""
_PATH = {"request_received", "admit", "check_health", "route", "settle"}


async def read_evidence(url: str, answers: Sequence[Answer], victim: str, back_at_s: float) -> Evidence:
    """Read the audit. `back_at_s` is when the killed server was back, in seconds since the Unix epoch."""
    async with await psycopg.AsyncConnection.connect(url) as connection:
        totals = await _all(connection, Totals, _TOTALS)
        steps = await _all(connection, StepLatency, _STEPS)
        replicas = await _all(connection, ReplicaShare, _REPLICAS)
        failures = await (await connection.execute(_FAILURES)).fetchall()
        again = await (await connection.execute(_SERVED_AGAIN, {"victim": victim, "back_at_s": back_at_s})).fetchone()
        retried = await (await connection.execute(_RETRIED, {"victim": victim})).fetchone()
        key = retried[0] if retried else None
        attempts = await _all(connection, AttemptRow, _ATTEMPTS, {"key": key})
        rows = connection.cursor(row_factory=dict_row)
        await rows.execute(_ROWS)
        by_key = {row["process_instance_key"]: row for row in await rows.fetchall()}
    differences = [text for answer in answers for text in _differences(answer, by_key)]
    unknown = by_key.keys() - {answer.process_instance_key for answer in answers}
    differences += [f"process instance {each} is in the audit, but no client saw it" for each in sorted(unknown)]
    return Evidence(
        totals[0],
        dict(failures),
        steps,
        replicas,
        differences,
        key,
        attempts,
        await _told(url, key) if key else [],
        int(again[0]) if again else 0,
    )


async def _told(url: str, key: Key) -> list[str]:
    """The request in the sentences of `conch explain`."""
    database = await connect(url, pool_size=1)
    try:
        stored = await Queries(database).load_instance(key)
    finally:
        await database.close()
    return tell(stored) if stored else []


async def _all(connection: Any, row: Any, query: str, values: dict[str, Any] | None = None) -> list[Any]:
    async with connection.cursor(row_factory=class_row(row)) as cursor:
        await cursor.execute(query, values)
        return list(await cursor.fetchall())


def _differences(answer: Answer, rows: dict[Key, dict[str, Any]]) -> list[str]:
    """How the rows of one request contradict what its client saw."""
    key = answer.process_instance_key
    if key is None:
        return [f"a request was answered {answer.http_status} {answer.error_code} without a process instance"]
    row = rows.get(key)
    if row is None:
        return [f"process instance {key} was answered, but the audit has no row of it"]
    found = []
    if row["incomplete"]:
        found.append("was answered, but rows of it are missing")
    if row["succeeded"] != (answer.error_code is None) or row["error_code"] != answer.error_code:
        found.append(f"ended with {row['error_code']}, but the client saw {answer.error_code}")
    if row["attempts"] != answer.attempts:
        found.append(f"has {row['attempts']} attempts, but the client was told of {answer.attempts}")
    if row["replica"] != (answer.replica or None):
        found.append(f"was last tried on {row['replica']}, but the client was told of {answer.replica or 'none'}")
    if missing := _PATH - set(row["elements"] or ()):
        found.append(f"lacks the steps {', '.join(sorted(missing))}")
    return [f"process instance {key} {text}" for text in found]
