"""Owns the row of the audit: which record fills which columns, and its bytes in binary COPY form.
Never touches a connection; the same bytes serve the journal, the seals and `replay`.
Called by the journal for every record and by the queries for the rows that a replay derives.

A row is head (position, instant, everything constant for the instance), body (by kind), and tail (how it was stored).
`COLUMNS` is the order of both the table and the bytes; a test holds it against the schema.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from engine.errors import meaning_of
from engine.keys import key_day
from engine.records import (
    RECORD_SCHEMA_VERSION,
    ActivityEnded,
    AttemptMade,
    Command,
    DecisionMade,
    DefinitionRef,
    IncidentRaised,
    InstanceEnded,
    InstanceStarted,
    Key,
    Record,
    Refusal,
    Start,
    Tags,
    UsageMeasured,
)
from engine.store import binary, command_log, json_text
from engine.store.binary import NULL, PG_EPOCH_US, bigint, boolean, instant, integer, jsonb, label, numeric, text
from engine.store.binary import int4 as _int4
from engine.store.binary import int8 as _int8
from engine.store.json_text import Poison, dumps

HEAD: Final = ("position", "recorded_at")
CONSTANT: Final = (
    *("process_instance_key", "process_definition_key", "day", "process_version", "deadline_ms"),
    *("schema_version", "tenant", "product", "feature", "priority", "process_id"),
)
REQUEST: Final = ("request_id", "online", "http_status", "engine_version")
ACTIVITY: Final = ("activity_instance_key", "element_id", "element_type", "element_name")
LIFECYCLE: Final = ("state", "started_at", "ended_at", "duration_us")
JOB: Final = ("job_key", "job_queued_at", "job_started_at", "job_finished_at", "taken_flow_ids")
ERROR: Final = ("error_code", "message", "incident_key")
COUNTS: Final = ("attempts", "activities")
CALL: Final = ("attempt_no", "model", "replica", "billable")
ATTEMPT: Final = (
    *("pool", "model_version", "protocol", "outcome", "sent_at", "first_chunk_at", "first_token_at"),
    *("last_token_at", "done_at", "chunks", "input_tokens", "output_tokens", "tokens_estimated"),
    *("finish_reason", "grpc_status"),
)
DECISION: Final = ("decision", "chosen", "reason")
USAGE: Final = ("sku", "quantity", "unit", "price_id", "unit_price_usd", "cost_usd", "estimated")
JSON: Final = ("payload", "variables", "details")
TAIL: Final = ("sanitized", "writer_id", "writer_epoch", "batch_no", "leaf_no")

SAYS: Final = (
    *HEAD,
    *CONSTANT,
    "kind",
    *REQUEST,
    *ACTIVITY,
    *LIFECYCLE,
    *JOB,
    *ERROR,
    *COUNTS,
    *CALL,
    *ATTEMPT,
    *DECISION,
    *USAGE,
    *JSON,
)
"""The columns that say what happened; the tail says how it was stored and takes no part in a replay's comparison."""
COLUMNS: Final = (*SAYS, *TAIL)

_NO_REQUEST = NULL * len(REQUEST)
_NO_ACTIVITY = NULL * len(ACTIVITY)
_NO_LIFECYCLE = NULL * len(LIFECYCLE)
_NO_JOB = NULL * len(JOB)
_NO_ERROR = NULL * len(ERROR)
_NO_COUNTS = NULL * len(COUNTS)
_NO_CALL = NULL * len(CALL)
_NO_ATTEMPT = NULL * len(ATTEMPT)
_NO_DECISION = NULL * len(DECISION)
_NO_USAGE = NULL * len(USAGE)
_NO_JSON = NULL * len(JSON)

DIGEST_BYTES: Final = 16
_head = struct.Struct(">hiqiq").pack
_WIDTH = len(COLUMNS)
_keys_and_day = struct.Struct(">iqiqiiiiiiih").pack
_key_and_day = struct.Struct(">iq4siiiiiih").pack  # no definition: process_definition_key and process_version null
_span = struct.Struct(">iqiqiq").pack
_four = struct.Struct(">iqiqiqiq").pack


class InstanceContext:
    """What every row of one instance repeats, encoded once.

    `owned` turns false when another process is found to own the instance: its rows are refused from then on.
    `said` is the digest of the commands encoded so far; the closing row bears it, so that a replay finds a change of
    any of them, also of what no other row repeats.
    """

    __slots__ = ("definition", "encoded", "key", "owned", "said", "sanitized", "tags")

    def __init__(self, key: Key, tags: Tags, definition: DefinitionRef | None) -> None:
        self.key = key
        self.tags = tags
        self.definition = definition
        self.owned = True
        self.sanitized = False
        self.said = blake2b(digest_size=DIGEST_BYTES)
        try:
            self.encoded = _constant(key, tags, definition)
        except Poison:
            self.encoded = _constant(key, json_text.clean(tags), definition)
            self.sanitized = True

    @classmethod
    def of_start(cls, start: Start) -> InstanceContext:
        return cls(start.key, start.tags, start.definition)

    @classmethod
    def of_commands(cls, commands: Sequence[tuple[Command, int]]) -> InstanceContext:
        """The context of an instance that goes on after these commands, each with its instant; the first is a Start."""
        (start, _), *_ = commands
        if not isinstance(start, Start):
            raise ValueError("the first command of an instance is its Start")
        instance = cls.of_start(start)
        for ordinal, (command, at_us) in enumerate(commands, 1):
            encode_command(instance, Record(-ordinal, at_us, command))
        return instance

    @classmethod
    def of_refusal(cls, refusal: Refusal) -> InstanceContext:
        return cls(refusal.key, refusal.tags, None)


class EncodedRow(NamedTuple):
    """A row without its tail."""

    position: int
    data: bytes
    sanitized: bool


def encode_fact(instance: InstanceContext, record: Record) -> EncodedRow:
    """The row of a fact or refusal. What Postgres cannot store is replaced by U+FFFD and the row flagged.

    Raises TypeError for a value that is no JSON, ValueError for a request id that is no UUID.
    """
    position, at_us, body = record
    encode = _ENCODERS[type(body)]
    sanitized = instance.sanitized
    try:
        encoded = encode(body)
    except Poison:
        encoded, sanitized = encode(json_text.clean(body)), True
    if type(body) is InstanceEnded:
        encoded += jsonb(b'{"commands_blake2b":"%b"}' % instance.said.hexdigest().encode())
    head = _head(_WIDTH, 8, position, 8, at_us - PG_EPOCH_US)
    return EncodedRow(position, b"".join((head, instance.encoded, encoded)), sanitized)


def encode_command(instance: InstanceContext, record: Record) -> tuple[bytes, bool]:
    """A command as JSON, and whether it had to be cleaned. Commands are encoded in their order, from the first."""
    position, at_us, command = record
    cleaned = False
    try:
        encoded = command_log.encode(command, at_us)  # type: ignore[arg-type]  # the sign of position tells
    except Poison:
        encoded, cleaned = command_log.encode(json_text.clean(command), at_us), True
    if position == -1:
        instance.said = blake2b(digest_size=DIGEST_BYTES)
    instance.said.update(encoded)
    return encoded, cleaned


def encode_commands(
    instance: InstanceContext, first_ordinal: int, at_us: int, commands: list[bytes], sanitized: bool
) -> EncodedRow:
    """One row for consecutive commands of an instance; its instant is that of the first."""
    head = _head(_WIDTH, 8, -first_ordinal, 8, at_us - PG_EPOCH_US) + instance.encoded
    data = head + _COMMAND_BODY + jsonb(command_log.pack(commands)) + NULL * 2
    return EncodedRow(-first_ordinal, data, sanitized or instance.sanitized)


def tail_of_batch(writer_id: int, writer_epoch: int, batch_no: int) -> bytes:
    """What the tails of one batch share, between `sanitized` and the leaf number."""
    return binary.int2(2, writer_id) + _int8(8, writer_epoch) + _int8(8, batch_no) + b"\0\0\0\4"


def _constant(key: Key, tags: Tags, definition: DefinitionRef | None) -> bytes:
    day = key_day(key) - binary.PG_EPOCH_DAY
    if definition is None:
        numbers = _key_and_day(8, key, NULL, 4, day, -1, 4, tags.deadline_ms, 2, RECORD_SCHEMA_VERSION)
    else:
        numbers = _keys_and_day(
            *(8, key, 8, definition.key, 4, day, 4, definition.version),
            *(4, tags.deadline_ms, 2, RECORD_SCHEMA_VERSION),
        )
    process_id = NULL if definition is None else label(definition.process_id)
    return b"".join(
        (numbers, label(tags.tenant), label(tags.product), label(tags.feature), label(tags.priority), process_id)
    )


# --- one function per kind: its body, from `kind` to the last JSON column, a line per group ---------------------
# fmt: off

_COMMAND_BODY = b"".join(
    (
        label("command"), _NO_REQUEST, _NO_ACTIVITY, _NO_LIFECYCLE, _NO_JOB, _NO_ERROR, _NO_COUNTS, _NO_CALL,
        _NO_ATTEMPT, _NO_DECISION, _NO_USAGE,
    )
)

_STARTED = label("instance_started")
_STARTED_GAP = _NO_ACTIVITY + _NO_LIFECYCLE + _NO_JOB + _NO_ERROR + _NO_COUNTS + NULL
_STARTED_REST = NULL * 2 + _NO_ATTEMPT + _NO_DECISION + _NO_USAGE + NULL


def _instance_started(fact: InstanceStarted) -> bytes:
    start = fact.start
    model = start.variables.get("model")
    return b"".join(
        (
            _STARTED, binary.uuid(start.request_id), boolean(start.online), NULL, label(start.engine_version),
            _STARTED_GAP, text(model) if isinstance(model, str) else NULL, _STARTED_REST,
            jsonb(dumps(start.variables)), NULL,
        )
    )


_ACTIVITY = label("activity") + _NO_REQUEST
_ACTIVITY_REST = _NO_COUNTS + _NO_CALL + _NO_ATTEMPT + _NO_DECISION + _NO_USAGE + NULL  # from `attempts` to `payload`
_NO_ERROR_REST = _NO_ERROR + _ACTIVITY_REST
_NO_TIMES = NULL * 4  # of a job, which an event or a gateway has none of


@lru_cache(maxsize=4_096)
def _element(element_id: str, element_type: str, element_name: str, state: str) -> bytes:
    return text(element_id) + text(element_type) + text(element_name) + text(state)


def _activity_ended(fact: ActivityEnded) -> bytes:
    (
        key, element_id, element_type, element_name, state, started_at_us, ended_at_us,
        job_key, queued, job_started, job_finished, error_code, message, taken_flow_ids, variables,
    ) = fact
    return b"".join(
        (
            _ACTIVITY, _int8(8, key), _element(element_id, element_type, element_name, state),
            _span(8, started_at_us - PG_EPOCH_US, 8, ended_at_us - PG_EPOCH_US, 8, ended_at_us - started_at_us),
            _NO_TIMES if job_key is None else _job(job_key, queued, job_started, job_finished),
            binary.text_array(tuple(taken_flow_ids)),
            _NO_ERROR_REST if error_code is None and message is None
            else label(error_code) + text(message) + NULL + _ACTIVITY_REST,
            NULL if variables is None else jsonb(dumps(variables)), NULL,
        )
    )


def _job(key: Key, queued: int | None, started: int | None, finished: int | None) -> bytes:
    if queued is None or started is None or finished is None:
        return bigint(key) + instant(queued) + instant(started) + instant(finished)
    return _four(8, key, 8, queued - PG_EPOCH_US, 8, started - PG_EPOCH_US, 8, finished - PG_EPOCH_US)


_ATTEMPT = label("attempt") + _NO_REQUEST
_UNNAMED_ELEMENT = NULL * 2  # element type and name are those of the activity row
_ATTEMPT_REST = _NO_DECISION + _NO_USAGE + _NO_JSON


def _attempt_made(fact: AttemptMade) -> bytes:
    attempt = fact.attempt
    return b"".join(
        (
            _ATTEMPT, _int8(8, fact.activity_instance_key), label(fact.element_id), _UNNAMED_ELEMENT,
            _NO_LIFECYCLE, _NO_JOB, label(attempt.error_code), text(attempt.message), NULL, _NO_COUNTS,
            _int4(4, fact.attempt_no), label(attempt.model), label(attempt.replica),
            boolean(attempt.billable), label(attempt.pool), label(attempt.model_version),
            label(attempt.protocol), label(attempt.outcome),
            instant(attempt.sent_at_us), instant(attempt.first_chunk_at_us), instant(attempt.first_token_at_us),
            instant(attempt.last_token_at_us), instant(attempt.done_at_us), integer(attempt.chunks),
            integer(attempt.input_tokens), integer(attempt.output_tokens), boolean(attempt.tokens_estimated),
            label(attempt.finish_reason), label(attempt.grpc_status), _ATTEMPT_REST,
        )
    )


_DECISION = label("decision") + _NO_REQUEST
_DECISION_GAP = NULL * 2 + _NO_LIFECYCLE + _NO_JOB + _NO_ERROR + _NO_COUNTS + _NO_CALL + _NO_ATTEMPT
_DECISION_REST = _NO_USAGE + NULL * 2


def _decision_made(fact: DecisionMade) -> bytes:
    decision = fact.decision
    return b"".join(
        (
            _DECISION, _int8(8, fact.activity_instance_key), label(fact.element_id), _DECISION_GAP,
            label(decision.name), text(decision.chosen), text(decision.reason), _DECISION_REST,
            jsonb(dumps(decision.details)) if decision.details else NULL,
        )
    )


_USAGE = label("usage") + _NO_REQUEST
_USAGE_GAP = NULL * 2 + _NO_LIFECYCLE + _NO_JOB + _NO_ERROR + _NO_COUNTS


def _usage_measured(fact: UsageMeasured) -> bytes:
    usage = fact.usage
    return b"".join(
        (
            _USAGE, _int8(8, fact.activity_instance_key), label(fact.element_id), _USAGE_GAP,
            _int4(4, fact.attempt_no), label(usage.model), label(usage.replica), boolean(usage.billable),
            _NO_ATTEMPT, _NO_DECISION, label(usage.sku), numeric(usage.quantity), label(usage.unit),
            label(usage.price_id), numeric(usage.unit_price_usd), numeric(usage.cost_usd),
            boolean(usage.estimated), _NO_JSON,
        )
    )


_INCIDENT = label("incident") + _NO_REQUEST
_INCIDENT_REST = _NO_COUNTS + _NO_CALL + _NO_ATTEMPT + _NO_DECISION + _NO_USAGE + _NO_JSON


def _incident_raised(fact: IncidentRaised) -> bytes:
    return b"".join(
        (
            _INCIDENT, bigint(fact.activity_instance_key), label(fact.element_id), NULL * 2,
            _NO_LIFECYCLE, _NO_JOB, label(fact.error_code), text(fact.message),
            _int8(8, fact.incident_key), _INCIDENT_REST,
        )
    )


_ENDED = label("instance_ended") + NULL * 2
_ENDED_REST = _NO_CALL + _NO_ATTEMPT + _NO_DECISION + _NO_USAGE + NULL * 2  # `details` is the digest of the commands


def _instance_ended(fact: InstanceEnded) -> bytes:
    started, ended = fact.started_at_us - PG_EPOCH_US, fact.ended_at_us - PG_EPOCH_US
    http_status = 200 if fact.error_code is None else meaning_of(fact.error_code).http_status
    return b"".join(
        (
            _ENDED, binary.int2(2, http_status), NULL * 2, label(fact.end_element_id), NULL * 2,
            label(fact.state), _span(8, started, 8, ended, 8, ended - started), _NO_JOB,
            label(fact.error_code), text(fact.message), NULL,
            _int4(4, fact.attempts), _int4(4, fact.activities), _ENDED_REST,
        )
    )


_REFUSAL = label("refusal")
_REFUSAL_GAP = _NO_ACTIVITY + _NO_LIFECYCLE + _NO_JOB
_REFUSAL_REST = NULL * 2 + _NO_ATTEMPT + _NO_DECISION + NULL
_REFUSAL_END = NULL * 5 + NULL * 2


def _refusal(refusal: Refusal) -> bytes:
    return b"".join(
        (
            _REFUSAL, binary.uuid(refusal.request_id) if refusal.request_id else NULL, NULL,
            binary.int2(2, refusal.http_status), NULL, _REFUSAL_GAP,
            label(refusal.error_code), text(refusal.message), NULL, _NO_COUNTS, NULL,
            text(refusal.model or None), _REFUSAL_REST, numeric(Decimal(refusal.times)), _REFUSAL_END,
            jsonb(dumps({"operation": refusal.operation})),
        )
    )


# fmt: on
_ENCODERS: Final[dict[type[Any], Callable[[Any], bytes]]] = {
    InstanceStarted: _instance_started,
    ActivityEnded: _activity_ended,
    AttemptMade: _attempt_made,
    DecisionMade: _decision_made,
    UsageMeasured: _usage_measured,
    IncidentRaised: _incident_raised,
    InstanceEnded: _instance_ended,
    Refusal: _refusal,
}
