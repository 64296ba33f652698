"""Owns the columns of the audit's record table, in the groups that the kinds of rows fill or leave empty.
Never encodes a value.
Called by the row encoder, the journal's COPY, the canonical form and the queries.
"""

from __future__ import annotations

from typing import Final

from engine.store.binary import NULL

HEAD: Final = ("position", "recorded_at")
CONSTANT: Final = (
    *("process_instance_key", "process_definition_key", "day", "process_version", "deadline_ms"),
    *("schema_version", "tenant", "product", "feature", "priority", "process_id"),
)
REQUEST: Final = ("request_id", "online", "http_status", "engine_version")
ACTIVITY: Final = ("activity_instance_key", "element_id", "element_type", "element_name")
LIFECYCLE: Final = ("state", "started_at", "ended_at", "duration_us")
JOB: Final = ("job_key", "job_queued_at", "job_started_at", "job_finished_at")
PLACE: Final = ("taken_flow_ids", "scope_key", "called_process_id")
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
    *PLACE,
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

NO_REQUEST: Final = NULL * len(REQUEST)
NO_ACTIVITY: Final = NULL * len(ACTIVITY)
NO_LIFECYCLE: Final = NULL * len(LIFECYCLE)
NO_JOB: Final = NULL * len(JOB + PLACE)
NO_ERROR: Final = NULL * len(ERROR)
NO_COUNTS: Final = NULL * len(COUNTS)
NO_CALL: Final = NULL * len(CALL)
NO_ATTEMPT: Final = NULL * len(ATTEMPT)
NO_DECISION: Final = NULL * len(DECISION)
NO_USAGE: Final = NULL * len(USAGE)
NO_JSON: Final = NULL * len(JSON)
