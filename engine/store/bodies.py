"""Owns the body of each kind of row: the columns from `kind` to the last JSON column, in binary COPY form.
Never knows which instance a row belongs to, or how it is stored.
Called by the row encoder, through `BODY_OF`. One function per kind, a line per group of columns.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from engine.errors import meaning_of
from engine.records import (
    ActivityEnded,
    AttemptMade,
    DecisionMade,
    EventTaken,
    IncidentEnded,
    IncidentRaised,
    InstanceEnded,
    InstanceStarted,
    Key,
    Refusal,
    RetriesGiven,
    SignalThrown,
    Start,
    TryFailed,
    UsageMeasured,
    Variables,
    VariablesWritten,
)
from engine.store import binary
from engine.store.binary import NULL, PG_EPOCH_US, bigint, boolean, instant, integer, jsonb, label, numeric, text
from engine.store.binary import int4 as _int4
from engine.store.binary import int8 as _int8
from engine.store.columns import (
    NO_ACTIVITY,
    NO_ATTEMPT,
    NO_CALL,
    NO_COUNTS,
    NO_DECISION,
    NO_ERROR,
    NO_JOB,
    NO_JSON,
    NO_LIFECYCLE,
    NO_REQUEST,
    NO_USAGE,
    PLACE,
)
from engine.store.json_text import dumps

_NOTHING: Variables = MappingProxyType({})
_span = struct.Struct(">iqiqiq").pack
_four = struct.Struct(">iqiqiqiq").pack

# fmt: off

COMMAND_BODY: Final = b"".join(
    (
        label("command"), NO_REQUEST, NO_ACTIVITY, NO_LIFECYCLE, NO_JOB, NO_ERROR, NO_COUNTS, NO_CALL,
        NO_ATTEMPT, NO_DECISION, NO_USAGE,
    )
)

_STARTED = label("instance_started")
_STARTED_GAP = NO_ACTIVITY + NO_LIFECYCLE + NO_JOB + NO_ERROR + NO_COUNTS + NULL
_STARTED_REST = NULL * 2 + NO_ATTEMPT + NO_DECISION + NO_USAGE + NULL

_NAMES = ("business_id", "start_event_id", "start_element_ids", "terminate_after_id")
_NAMED_FROM = Start._fields.index(_NAMES[0])
_UNNAMED = tuple(Start._field_defaults[name] for name in _NAMES)


def _instance_started(fact: InstanceStarted) -> bytes:
    start = fact.start
    model = start.variables.get("model")
    return b"".join(
        (
            _STARTED, binary.uuid(start.request_id) if start.request_id else NULL, boolean(start.online), NULL,
            label(start.engine_version), _STARTED_GAP, text(model) if isinstance(model, str) else NULL, _STARTED_REST,
            jsonb(dumps(start.variables)), NULL if start[_NAMED_FROM:] == _UNNAMED else _named(start),
        )
    )


def _named(start: Start) -> bytes:
    """`details` of a Start that says more than what it runs: by what it was started, and where it begins and ends."""
    details = {name: getattr(start, name) for name in _NAMES if getattr(start, name)}
    return jsonb(dumps(details)) if details else NULL


_ACTIVITY = label("activity") + NO_REQUEST
_ACTIVITY_REST = NO_COUNTS + NO_CALL + NO_ATTEMPT + NO_DECISION + NO_USAGE + NULL  # from `attempts` to `payload`
_NO_ERROR_REST = NO_ERROR + _ACTIVITY_REST
_NO_TIMES = NULL * 4  # of a job, which an event or a gateway has none of
_AT_THE_TOP = NULL * len(PLACE[1:])  # directly in the instance: in no sub-process and no called process


@lru_cache(maxsize=4_096)
def _element(element_id: str, element_type: str, element_name: str, state: str) -> bytes:
    return text(element_id) + text(element_type) + text(element_name) + text(state)


def _activity_ended(fact: ActivityEnded) -> bytes:
    (
        key, element_id, element_type, element_name, state, started_at_us, ended_at_us,
        job_key, queued, job_started, job_finished, error_code, message, taken_flow_ids, variables,
        scope_key, process_id, loop_counter,
    ) = fact
    return b"".join(
        (
            _ACTIVITY, _int8(8, key), _element(element_id, element_type, element_name, state),
            _span(8, started_at_us - PG_EPOCH_US, 8, ended_at_us - PG_EPOCH_US, 8, ended_at_us - started_at_us),
            _NO_TIMES if job_key is None else _job(job_key, queued, job_started, job_finished),
            binary.text_array(tuple(taken_flow_ids)),
            _AT_THE_TOP if scope_key is None and process_id is None else bigint(scope_key) + label(process_id),
            _NO_ERROR_REST if error_code is None and message is None
            else label(error_code) + text(message) + NULL + _ACTIVITY_REST,
            NULL if variables is None else jsonb(dumps(variables)),
            NULL if loop_counter is None else jsonb(b'{"loop_counter":%d}' % loop_counter),
        )
    )


def _job(key: Key, queued: int | None, started: int | None, finished: int | None) -> bytes:
    if queued is None or started is None or finished is None:
        return bigint(key) + instant(queued) + instant(started) + instant(finished)
    return _four(8, key, 8, queued - PG_EPOCH_US, 8, started - PG_EPOCH_US, 8, finished - PG_EPOCH_US)


_TOLD_GAP = NULL * 2 + NO_LIFECYCLE
_TOLD_REST = NULL * 3 + NO_ATTEMPT + NO_DECISION + NO_USAGE + NULL
_Told: TypeAlias = TryFailed | EventTaken | SignalThrown | VariablesWritten | RetriesGiven


def _told(
    kind: str, fact: _Told, *, job: bytes = _NO_TIMES, error: bytes = NO_ERROR, try_no: int | None = None,
    variables: Variables = _NOTHING, details: Variables = _NOTHING,
) -> bytes:
    """A row of what happened at an activity or a scope while it went on."""
    return b"".join(
        (
            label(kind), NO_REQUEST, bigint(fact.activity_instance_key), label(fact.element_id), _TOLD_GAP,
            job, NULL, bigint(fact.scope_key), label(fact.process_id), error, NO_COUNTS, integer(try_no), _TOLD_REST,
            jsonb(dumps(variables)) if variables else NULL, jsonb(dumps(details)) if details else NULL,
        )
    )


def _try_failed(fact: TryFailed) -> bytes:
    again = {} if fact.again_at_us is None else {"again_at_us": fact.again_at_us}
    return _told(
        "job_failed", fact, try_no=fact.try_no, variables=fact.variables, details={"retries": fact.retries, **again},
        job=_job(fact.job_key, fact.queued_at_us, fact.started_at_us, fact.finished_at_us),
        error=label(fact.error_code) + text(fact.message) + NULL,
    )


def _event_taken(fact: EventTaken) -> bytes:
    about = {"event": fact.kind, "name": fact.name, "event_key": str(fact.event_key)}
    about["subscription_key"] = str(fact.subscription_key)
    if fact.correlation_key is not None:
        about["correlation_key"] = fact.correlation_key
    return _told("event_received", fact, variables=fact.variables, details=about)


def _signal_thrown(fact: SignalThrown) -> bytes:
    about = {"event": "signal", "name": fact.name, "event_key": str(fact.event_key)}
    return _told("signal_thrown", fact, variables=fact.variables, details=about)


def _variables_written(fact: VariablesWritten) -> bytes:
    return _told("variables_set", fact, variables=fact.variables, details={"local": True} if fact.local else _NOTHING)


def _retries_given(fact: RetriesGiven) -> bytes:
    job = bigint(fact.job_key) + NULL * 3
    return _told("retries_set", fact, job=job, details={"retries": fact.retries})


_ATTEMPT = label("attempt") + NO_REQUEST
_UNNAMED_ELEMENT = NULL * 2  # element type and name are those of the activity row
_ATTEMPT_REST = NO_DECISION + NO_USAGE + NO_JSON


def _attempt_made(fact: AttemptMade) -> bytes:
    attempt = fact.attempt
    return b"".join(
        (
            _ATTEMPT, _int8(8, fact.activity_instance_key), label(fact.element_id), _UNNAMED_ELEMENT,
            NO_LIFECYCLE, NO_JOB, label(attempt.error_code), text(attempt.message), NULL, NO_COUNTS,
            _int4(4, fact.attempt_no), label(attempt.model), label(attempt.replica),
            boolean(attempt.billable), label(attempt.pool), label(attempt.model_version),
            label(attempt.protocol), label(attempt.outcome),
            instant(attempt.sent_at_us), instant(attempt.first_chunk_at_us), instant(attempt.first_token_at_us),
            instant(attempt.last_token_at_us), instant(attempt.done_at_us), integer(attempt.chunks),
            integer(attempt.input_tokens), integer(attempt.output_tokens), boolean(attempt.tokens_estimated),
            label(attempt.finish_reason), label(attempt.grpc_status), _ATTEMPT_REST,
        )
    )


_DECISION = label("decision") + NO_REQUEST
_DECISION_GAP = NULL * 2 + NO_LIFECYCLE + NO_JOB + NO_ERROR + NO_COUNTS + NO_CALL + NO_ATTEMPT
_DECISION_REST = NO_USAGE + NULL * 2


def _decision_made(fact: DecisionMade) -> bytes:
    decision = fact.decision
    return b"".join(
        (
            _DECISION, _int8(8, fact.activity_instance_key), label(fact.element_id), _DECISION_GAP,
            label(decision.name), text(decision.chosen), text(decision.reason), _DECISION_REST,
            jsonb(dumps(decision.details)) if decision.details else NULL,
        )
    )


_USAGE = label("usage") + NO_REQUEST
_USAGE_GAP = NULL * 2 + NO_LIFECYCLE + NO_JOB + NO_ERROR + NO_COUNTS


def _usage_measured(fact: UsageMeasured) -> bytes:
    usage = fact.usage
    return b"".join(
        (
            _USAGE, _int8(8, fact.activity_instance_key), label(fact.element_id), _USAGE_GAP,
            _int4(4, fact.attempt_no), label(usage.model), label(usage.replica), boolean(usage.billable),
            NO_ATTEMPT, NO_DECISION, label(usage.sku), numeric(usage.quantity), label(usage.unit),
            label(usage.price_id), numeric(usage.unit_price_usd), numeric(usage.cost_usd),
            boolean(usage.estimated), NO_JSON,
        )
    )


_INCIDENT = label("incident") + NO_REQUEST
_INCIDENT_REST = NO_COUNTS + NO_CALL + NO_ATTEMPT + NO_DECISION + NO_USAGE + NO_JSON


def _incident_raised(fact: IncidentRaised) -> bytes:
    return b"".join(
        (
            _INCIDENT, bigint(fact.activity_instance_key), label(fact.element_id), NULL * 2,
            NO_LIFECYCLE, NO_JOB, label(fact.error_code), text(fact.message),
            _int8(8, fact.incident_key), _INCIDENT_REST,
        )
    )


_INCIDENT_ENDED = label("incident_ended") + NO_REQUEST
_INCIDENT_ENDED_GAP = NULL * 3 + NO_JOB + NULL * 2


def _incident_ended(fact: IncidentEnded) -> bytes:
    return b"".join(
        (
            _INCIDENT_ENDED, _int8(8, fact.activity_instance_key), label(fact.element_id), NULL * 2,
            label("resolved" if fact.resolved else "ended"), _INCIDENT_ENDED_GAP,
            _int8(8, fact.incident_key), _INCIDENT_REST,
        )
    )


_ENDED = label("instance_ended") + NULL * 2
_ENDED_REST = NO_CALL + NO_ATTEMPT + NO_DECISION + NO_USAGE + NULL * 2  # then comes `digest_of_commands`


def _instance_ended(fact: InstanceEnded) -> bytes:
    started, ended = fact.started_at_us - PG_EPOCH_US, fact.ended_at_us - PG_EPOCH_US
    status = 200 if fact.error_code is None else meaning_of(fact.error_code).http_status
    return b"".join(
        (
            _ENDED, binary.int2(2, status) if fact.answered else NULL, NULL * 2, label(fact.end_element_id), NULL * 2,
            label(fact.state), _span(8, started, 8, ended, 8, ended - started), NO_JOB,
            label(fact.error_code), text(fact.message), NULL,
            _int4(4, fact.attempts), _int4(4, fact.activities), _ENDED_REST,
        )
    )


_OPERATIONAL = (
    (label("activity") + NULL * 2, label("activity") + NULL + boolean(False)),
    (_ENDED, label("instance_ended") + NULL + boolean(False)),
)


def operational(body: bytes) -> bytes:
    """The body of a fact of an instance that is not online: an activity and the end say so, to be found by that."""
    for online, offline in _OPERATIONAL:
        if body.startswith(online):
            return offline + body[len(online) :]
    return body


def digest_of_commands(said: str) -> bytes:
    """`details` of an instance's end: the digest of all its commands, in hex."""
    return jsonb(b'{"commands_blake2b":"%b"}' % said.encode())


_REFUSAL = label("refusal")
_REFUSAL_GAP = NO_ACTIVITY + NO_LIFECYCLE + NO_JOB
_REFUSAL_REST = NULL * 2 + NO_ATTEMPT + NO_DECISION + NULL
_REFUSAL_END = NULL * 5 + NULL * 2


def _refusal(refusal: Refusal) -> bytes:
    return b"".join(
        (
            _REFUSAL, binary.uuid(refusal.request_id) if refusal.request_id else NULL, NULL,
            binary.int2(2, refusal.http_status), NULL, _REFUSAL_GAP,
            label(refusal.error_code), text(refusal.message), NULL, NO_COUNTS, NULL,
            text(refusal.model or None), _REFUSAL_REST, numeric(Decimal(refusal.times)), _REFUSAL_END,
            jsonb(dumps({"operation": refusal.operation})),
        )
    )


# fmt: on
BODY_OF: Final[dict[type[Any], Callable[[Any], bytes]]] = {
    InstanceStarted: _instance_started,
    ActivityEnded: _activity_ended,
    AttemptMade: _attempt_made,
    DecisionMade: _decision_made,
    UsageMeasured: _usage_measured,
    IncidentRaised: _incident_raised,
    IncidentEnded: _incident_ended,
    TryFailed: _try_failed,
    EventTaken: _event_taken,
    SignalThrown: _signal_thrown,
    VariablesWritten: _variables_written,
    RetriesGiven: _retries_given,
    InstanceEnded: _instance_ended,
    Refusal: _refusal,
}
