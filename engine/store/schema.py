"""Owns the tables as SQLAlchemy Core sees them; the migrations create them and a test holds both together.
Never issues a statement. Partitions of `record` are made by engine.store.partitions, views by the migrations.
Called by the queries, the definitions, the leases and Alembic's drift check.

`seal` stays empty until batches are sealed. A row per batch written now, unsigned and by the same hand as the batch,
would prove nothing and cost a statement per commit; writer, epoch, batch and leaf are in every record, so that sealing
can begin at any batch and rewrites nothing.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    TIMESTAMP,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Date,
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Numeric,
    PrimaryKeyConstraint,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, UUID
from sqlalchemy.types import TypeEngine

metadata = MetaData(
    naming_convention={
        "pk": "%(table_name)s_pkey",
        "uq": "%(table_name)s_%(column_0_N_name)s_key",
        "ix": "%(table_name)s_%(column_0_N_name)s_idx",
        "ck": "%(table_name)s_%(constraint_name)s_check",
    }
)

_Instant = TIMESTAMP(timezone=True)


def _nullable(kind: TypeEngine[Any] | type[TypeEngine[Any]], *names: str) -> list[Column[Any]]:
    return [Column(name, kind) for name in names]


def _required(kind: TypeEngine[Any] | type[TypeEngine[Any]], *names: str) -> list[Column[Any]]:
    return [Column(name, kind, nullable=False) for name in names]


# The columns stand in the order of the encoded rows; see engine.store.columns.
record = Table(
    "record",
    metadata,
    *_required(BigInteger, "position"),
    *_required(_Instant, "recorded_at"),
    *_required(BigInteger, "process_instance_key"),
    *_nullable(BigInteger, "process_definition_key"),
    *_required(Date, "day"),
    *_nullable(Integer, "process_version"),
    *_required(Integer, "deadline_ms"),
    *_required(SmallInteger, "schema_version"),
    *_required(Text, "tenant", "product", "feature", "priority"),
    *_nullable(Text, "process_id"),
    *_required(Text, "kind"),
    *_nullable(UUID(as_uuid=False), "request_id"),
    *_nullable(Boolean, "online"),
    *_nullable(SmallInteger, "http_status"),
    *_nullable(Text, "engine_version"),
    *_nullable(BigInteger, "activity_instance_key"),
    *_nullable(Text, "element_id", "element_type", "element_name", "state"),
    *_nullable(_Instant, "started_at", "ended_at"),
    *_nullable(BigInteger, "duration_us", "job_key"),
    *_nullable(_Instant, "job_queued_at", "job_started_at", "job_finished_at"),
    *_nullable(ARRAY(Text), "taken_flow_ids"),
    *_nullable(BigInteger, "scope_key"),
    *_nullable(Text, "called_process_id"),
    *_nullable(Text, "error_code", "message"),
    *_nullable(BigInteger, "incident_key"),
    *_nullable(Integer, "attempts", "activities", "attempt_no"),
    *_nullable(Text, "model", "replica"),
    *_nullable(Boolean, "billable"),
    *_nullable(Text, "pool", "model_version", "protocol", "outcome"),
    *_nullable(_Instant, "sent_at", "first_chunk_at", "first_token_at", "last_token_at", "done_at"),
    *_nullable(Integer, "chunks", "input_tokens", "output_tokens"),
    *_nullable(Boolean, "tokens_estimated"),
    *_nullable(Text, "finish_reason", "grpc_status"),
    *_nullable(Text, "decision", "chosen", "reason"),
    *_nullable(Text, "sku"),
    *_nullable(Numeric, "quantity"),
    *_nullable(Text, "unit", "price_id"),
    *_nullable(Numeric, "unit_price_usd", "cost_usd"),
    *_nullable(Boolean, "estimated"),
    *_nullable(JSONB, "payload", "variables", "details"),
    *_nullable(Boolean, "sanitized"),
    *_required(SmallInteger, "writer_id"),
    *_required(BigInteger, "writer_epoch", "batch_no"),
    *_required(Integer, "leaf_no"),
    PrimaryKeyConstraint("process_instance_key", "position", "day"),
    CheckConstraint(
        "day = DATE '2024-01-01' + ((process_instance_key >> 22) / 86400000)::integer",
        name="day_of_key",
    ),
    Index("record_recorded_at_idx", "recorded_at", postgresql_using="brin"),
    Index("record_request_id_idx", "request_id", postgresql_where=text("request_id IS NOT NULL")),
    Index(
        "record_process_idx",
        *("process_id", "process_instance_key"),
        postgresql_where=text("kind = 'instance_started'"),
    ),
    Index(
        "record_business_id_idx",
        text("(details ->> 'business_id')"),
        postgresql_where=text("kind = 'instance_started' AND details IS NOT NULL"),
    ),
    Index("record_called_process_idx", "activity_instance_key", postgresql_where=text("element_type = 'PROCESS'")),
    Index("record_activity_idx", "activity_instance_key", postgresql_where=text("kind = 'activity' AND NOT online")),
    Index(
        "record_job_idx",
        "job_key",
        postgresql_where=text("kind = 'activity' AND NOT online AND job_key IS NOT NULL"),
    ),
    Index("record_failed_job_idx", "job_key", postgresql_where=text("kind = 'job_failed'")),
    Index("record_incident_idx", "incident_key", postgresql_where=text("kind = 'incident'")),
    comment="Append-only: every command (position < 0) and fact (position > 0) of every process instance.",
    postgresql_partition_by="RANGE (day)",
)

seal = Table(
    "seal",
    metadata,
    *_required(SmallInteger, "writer_id"),
    *_required(BigInteger, "writer_epoch", "batch_no"),
    *_required(BigInteger, "first_process_instance_key", "last_process_instance_key"),
    *_required(Integer, "row_count"),
    *_nullable(LargeBinary, "root", "prev_hash"),
    *_nullable(Text, "key_id"),
    *_nullable(LargeBinary, "signature"),
    Column("sealed_at", _Instant, nullable=False, server_default=func.now()),
    PrimaryKeyConstraint("writer_epoch", "batch_no"),
    comment="One row per sealed batch: the root over its leaves, chained to the batch before it.",
)

deployment = Table(
    "deployment",
    metadata,
    Column("key", BigInteger, autoincrement=False),
    Column("deployed_at", _Instant, nullable=False, server_default=func.now()),
    *_required(Text, "deployed_by", "tenant"),
    PrimaryKeyConstraint("key"),
    comment="One row per deployment that made a new version: who brought which files when.",
)

process_definition = Table(
    "process_definition",
    metadata,
    Column("key", BigInteger, autoincrement=False),
    *_required(Text, "process_id"),
    *_required(Integer, "version"),
    *_required(Text, "content_hash", "resource_name"),
    *_required(LargeBinary, "xml"),
    Column("deployed_at", _Instant, nullable=False, server_default=func.now()),
    *_required(Text, "deployed_by", "kind", "name"),
    *_nullable(Text, "version_tag"),
    *_required(BigInteger, "deployment_key"),
    *_nullable(JSONB, "imports"),
    PrimaryKeyConstraint("key"),
    ForeignKeyConstraint(["deployment_key"], ["deployment.key"], name="process_definition_deployment_key_fkey"),
    UniqueConstraint("kind", "process_id", "version", name="process_definition_kind_process_id_version_key"),
    CheckConstraint("kind IN ('process', 'decision', 'requirements', 'form')", name="kind"),
    Index("process_definition_deployment_key_idx", "deployment_key"),
    comment="Every deployed version of every process, decision and form, immutable; an instance is pinned to them.",
)

imported_file = Table(
    "imported_file",
    metadata,
    *_required(Text, "content_hash"),
    *_required(LargeBinary, "content"),
    PrimaryKeyConstraint("content_hash"),
    comment="Every file that a deployed decision file imports, once, by the SHA-256 of its content.",
)

activation = Table(
    "activation",
    metadata,
    Column("id", BigInteger, Identity(always=True)),
    *_required(Text, "kind", "process_id"),
    *_required(BigInteger, "definition_key"),
    *_required(Text, "cause"),
    Column("activated_at", _Instant, nullable=False, server_default=func.now()),
    *_required(Text, "activated_by", "reason"),
    PrimaryKeyConstraint("id"),
    ForeignKeyConstraint(["definition_key"], ["process_definition.key"], name="activation_definition_key_fkey"),
    CheckConstraint("cause IN ('deployed', 'activated', 'rolled_back')", name="cause"),
    Index("activation_kind_process_id_id_idx", "kind", "process_id", "id"),
    comment="Append-only: each turn of the switch that says which version serves; the newest row of an id counts.",
)

engine_process = Table(
    "engine_process",
    metadata,
    Column("epoch", BigInteger, autoincrement=False),
    *_required(SmallInteger, "writer_id"),
    *_required(Text, "owner", "engine_version"),
    *_required(_Instant, "acquired_at", "leased_until"),
    *_nullable(_Instant, "released_at"),
    *_nullable(BigInteger, "claimed_by"),
    *_nullable(_Instant, "claimed_until", "recovered_at"),
    PrimaryKeyConstraint("epoch"),
    comment="One row per start of an engine: the lease on its writer number, and who cleaned up after it.",
)

dead_letter = Table(
    "dead_letter",
    metadata,
    Column("id", BigInteger, Identity(always=True)),
    Column("died_at", _Instant, nullable=False, server_default=func.now()),
    *_required(BigInteger, "process_instance_key", "position"),
    *_required(SmallInteger, "writer_id"),
    *_required(BigInteger, "writer_epoch", "batch_no"),
    *_required(Integer, "leaf_no"),
    *_required(Text, "sqlstate", "error"),
    *_required(LargeBinary, "raw"),
    PrimaryKeyConstraint("id"),
    UniqueConstraint("writer_epoch", "batch_no", "leaf_no"),
    comment="Rows that Postgres refused, in binary COPY form, committed with the rest of their batch.",
)

# A trigger of `record` keeps it: in the transaction that stores an instance's start, its incidents and its end.
open_instance = Table(
    "open_instance",
    metadata,
    Column("process_instance_key", BigInteger, autoincrement=False),
    *_required(Text, "process_id"),
    *_required(BigInteger, "process_definition_key"),
    *_required(_Instant, "started_at"),
    *_required(BigInteger, "owner_epoch"),
    Column("open_incidents", Integer, nullable=False, server_default=text("0")),
    PrimaryKeyConstraint("process_instance_key"),
    Index("open_instance_owner_epoch_idx", "owner_epoch", "process_instance_key"),
    comment="Operational instances that have not ended, by the engine that owns each; kept by the records themselves.",
)

# The transaction in which a row was stored: what one reader has not seen is what was stored since its snapshot.
_STORED_IN = text("pg_current_xact_id()::text::bigint")

message = Table(
    "message",
    metadata,
    Column("key", BigInteger, autoincrement=False),
    *_required(Text, "name", "correlation_key"),
    *_nullable(Text, "message_id"),
    *_required(Text, "tenant"),
    *_required(JSONB, "variables"),
    Column("published_at", _Instant, nullable=False, server_default=func.now()),
    *_required(_Instant, "expires_at"),
    Column("stored_in", BigInteger, nullable=False, server_default=_STORED_IN),
    PrimaryKeyConstraint("key"),
    Index(
        "message_message_id_idx",
        *("tenant", "name", "correlation_key", "message_id"),
        unique=True,
        postgresql_where=text("message_id IS NOT NULL"),
    ),
    Index("message_name_idx", "name", "correlation_key", "key"),
    Index("message_expires_at_idx", "expires_at"),
    Index("message_stored_in_idx", "stored_in"),
    comment="Messages that were published, until they expire and nothing waits for them any more.",
)

message_correlation = Table(
    "message_correlation",
    metadata,
    Column("message_key", BigInteger, autoincrement=False),
    Column("process_id", Text),
    *_required(BigInteger, "process_instance_key"),
    *_nullable(BigInteger, "subscription_key"),
    Column("claimed_at", _Instant, nullable=False, server_default=func.now()),
    *_nullable(_Instant, "delivered_at"),
    *_nullable(Text, "lock_key"),
    PrimaryKeyConstraint("message_key", "process_id"),
    ForeignKeyConstraint(
        ["message_key"], ["message.key"], name="message_correlation_message_key_fkey", ondelete="CASCADE"
    ),
    Index(
        "message_correlation_process_instance_key_idx",
        "process_instance_key",
        postgresql_where=text("delivered_at IS NULL OR lock_key IS NOT NULL"),
    ),
    Index(
        "message_correlation_lock_key_idx",
        *("process_id", "lock_key"),
        unique=True,
        postgresql_where=text("lock_key IS NOT NULL"),
    ),
    comment=(
        "Which instance got a message: at most one of each process,"
        " and at most one started by a correlation key at a time."
    ),
)

signal = Table(
    "signal",
    metadata,
    Column("key", BigInteger, autoincrement=False),
    *_required(Text, "name"),
    *_required(JSONB, "variables"),
    *_nullable(BigInteger, "thrown_by"),
    Column("broadcast_at", _Instant, nullable=False, server_default=func.now()),
    Column("stored_in", BigInteger, nullable=False, server_default=_STORED_IN),
    PrimaryKeyConstraint("key"),
    Index("signal_name_idx", "name", "broadcast_at"),
    Index("signal_broadcast_at_idx", "broadcast_at"),
    Index("signal_stored_in_idx", "stored_in"),
    comment="Signals that were broadcast, for as long as an engine may still have to hear of them.",
)

signal_start = Table(
    "signal_start",
    metadata,
    Column("signal_key", BigInteger, autoincrement=False),
    Column("process_id", Text),
    *_required(BigInteger, "process_instance_key"),
    Column("claimed_at", _Instant, nullable=False, server_default=func.now()),
    PrimaryKeyConstraint("signal_key", "process_id"),
    ForeignKeyConstraint(["signal_key"], ["signal.key"], name="signal_start_signal_key_fkey", ondelete="CASCADE"),
    comment="Which instance a signal started: one of each process.",
)

start_schedule = Table(
    "start_schedule",
    metadata,
    Column("process_definition_key", BigInteger, autoincrement=False),
    Column("element_id", Text),
    *_required(_Instant, "due_at"),
    *_nullable(Integer, "repetitions_left"),
    *_nullable(BigInteger, "claimed_key"),
    *_nullable(_Instant, "claimed_at"),
    PrimaryKeyConstraint("process_definition_key", "element_id"),
    Index("start_schedule_due_at_idx", "due_at"),
    comment="Timer start events that are armed: when each is due, and for which instance an engine has claimed it.",
)
