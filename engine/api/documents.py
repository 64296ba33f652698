"""Owns the JSON form of what the audit holds of one process instance.
Never reads the audit; the rows are given.
Called by the operations routes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any

from engine.store.queries import StoredInstance

_STEP = (
    *("position", "activity_instance_key", "element_id", "element_type", "element_name", "state", "started_at"),
    *("ended_at", "duration_us", "job_key", "job_queued_at", "job_started_at", "job_finished_at", "taken_flow_ids"),
    *("error_code", "message", "variables", "details"),
)
_FAILED_TRY = (
    *("position", "activity_instance_key", "element_id", "job_key", "job_queued_at", "job_started_at"),
    *("job_finished_at", "attempt_no", "error_code", "message", "variables", "details"),
)
_BETWEEN = ("position", "activity_instance_key", "element_id", "job_key", "variables", "details")
_ATTEMPT = (
    *("position", "element_id", "attempt_no", "replica", "pool", "model", "model_version", "protocol", "outcome"),
    *("sent_at", "first_chunk_at", "first_token_at", "last_token_at", "done_at", "chunks", "input_tokens"),
    *("output_tokens", "tokens_estimated", "finish_reason", "error_code", "grpc_status", "message", "billable"),
)
_DECISION = ("position", "element_id", "decision", "chosen", "reason", "details")
_USAGE = (
    *("position", "element_id", "attempt_no", "sku", "quantity", "unit", "price_id", "unit_price_usd", "cost_usd"),
    *("estimated", "billable", "model", "replica"),
)
_INCIDENT = ("position", "incident_key", "activity_instance_key", "element_id", "error_code", "message")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_KEYS = frozenset(("activity_instance_key", "job_key", "incident_key"))


def instance_document(stored: StoredInstance) -> dict[str, Any]:
    """Every step, failed try, event, change from outside, attempt, decision, usage and incident, in order.

    Keys are decimal strings, instants ISO 8601 with microseconds, money and quantities decimal strings.
    """
    start, definition = stored.start, stored.definition
    ended = next((fact for fact in stored.facts if fact["kind"] == "instance_ended"), None)
    return {
        "process_instance_key": str(stored.key),
        "request_id": start.request_id,
        "process_definition_key": str(definition.key),
        "process_id": definition.process_id,
        "process_version": definition.version,
        "content_hash": definition.content_hash,
        "engine_version": start.engine_version,
        "tags": start.tags._asdict(),
        "state": ended["state"] if ended else "active",
        "started_at": _plain(stored.started_at),
        "ended_at": _plain(ended["ended_at"]) if ended else None,
        "duration_us": ended["duration_us"] if ended else None,
        "end_element_id": ended.get("element_id") if ended else None,
        "error_code": ended.get("error_code") if ended else None,
        "message": ended.get("message") if ended else None,
        "variables": _plain(start.variables),
        "steps": _picked(stored.facts, "activity", _STEP),
        "failed_tries": _picked(stored.facts, "job_failed", _FAILED_TRY),
        "events_received": _picked(stored.facts, "event_received", _BETWEEN),
        "signals_thrown": _picked(stored.facts, "signal_thrown", _BETWEEN),
        "variables_set": _picked(stored.facts, "variables_set", _BETWEEN),
        "retries_set": _picked(stored.facts, "retries_set", _BETWEEN),
        "attempts": _picked(stored.facts, "attempt", _ATTEMPT),
        "decisions": _picked(stored.facts, "decision", _DECISION),
        "usage": _picked(stored.facts, "usage", _USAGE),
        "incidents": _picked(stored.facts, "incident", _INCIDENT),
        "commands": [
            {"ordinal": logged.ordinal, "command": type(logged.command).__name__, "at": iso_of_us(logged.at_us)}
            for logged in stored.commands
        ],
    }


def _picked(facts: Iterable[Mapping[str, Any]], kind: str, names: tuple[str, ...]) -> list[dict[str, Any]]:
    return [
        {name: str(fact[name]) if name in _KEYS and name in fact else _plain(fact.get(name)) for name in names}
        for fact in facts
        if fact["kind"] == kind
    ]


def _plain(value: Any) -> Any:
    """What JSON can hold, without losing a digit of money."""
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds").replace("+00:00", "Z")
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def iso_of_us(at_us: int) -> str:
    """Microseconds since the Unix epoch as ISO 8601 in UTC, to the microsecond."""
    seconds, microseconds = divmod(at_us, 1_000_000)
    return f"{_iso_of_second(seconds)}.{microseconds:06}Z"


@lru_cache(maxsize=256)
def _iso_of_second(seconds: int) -> str:
    """Without its zone. Requests that arrive together have their deadlines within a few seconds of each other."""
    return (_EPOCH + timedelta(seconds=seconds)).replace(tzinfo=None).isoformat()
