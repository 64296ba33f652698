CREATE TABLE record (
    position bigint NOT NULL,
    recorded_at timestamptz NOT NULL,
    process_instance_key bigint NOT NULL,
    process_definition_key bigint,
    day date NOT NULL,
    process_version integer,
    deadline_ms integer NOT NULL,
    schema_version smallint NOT NULL,
    tenant text NOT NULL,
    product text NOT NULL,
    feature text NOT NULL,
    priority text NOT NULL,
    process_id text,
    kind text NOT NULL,
    request_id uuid,
    online boolean,
    http_status smallint,
    engine_version text,
    activity_instance_key bigint,
    element_id text,
    element_type text,
    element_name text,
    state text,
    started_at timestamptz,
    ended_at timestamptz,
    duration_us bigint,
    job_key bigint,
    job_queued_at timestamptz,
    job_started_at timestamptz,
    job_finished_at timestamptz,
    taken_flow_ids text[],
    error_code text,
    message text,
    incident_key bigint,
    attempts integer,
    activities integer,
    attempt_no integer,
    model text,
    replica text,
    billable boolean,
    pool text,
    model_version text,
    protocol text,
    outcome text,
    sent_at timestamptz,
    first_chunk_at timestamptz,
    first_token_at timestamptz,
    last_token_at timestamptz,
    done_at timestamptz,
    chunks integer,
    input_tokens integer,
    output_tokens integer,
    tokens_estimated boolean,
    finish_reason text,
    grpc_status text,
    decision text,
    chosen text,
    reason text,
    sku text,
    quantity numeric,
    unit text,
    price_id text,
    unit_price_usd numeric,
    cost_usd numeric,
    estimated boolean,
    payload jsonb,
    variables jsonb,
    details jsonb,
    sanitized boolean,
    writer_id smallint NOT NULL,
    writer_epoch bigint NOT NULL,
    batch_no bigint NOT NULL,
    leaf_no integer NOT NULL,
    CONSTRAINT record_pkey PRIMARY KEY (process_instance_key, position, day),
    CONSTRAINT record_day_of_key_check
        CHECK (day = DATE '2024-01-01' + ((process_instance_key >> 22) / 86400000)::integer)
) PARTITION BY RANGE (day);
CREATE INDEX record_recorded_at_idx ON record USING brin (recorded_at);
CREATE INDEX record_request_id_idx ON record (request_id) WHERE request_id IS NOT NULL;
COMMENT ON TABLE record IS
    'Append-only: every command (position < 0) and fact (position > 0) of every process instance.';

CREATE TABLE seal (
    writer_id smallint NOT NULL,
    writer_epoch bigint NOT NULL,
    batch_no bigint NOT NULL,
    first_process_instance_key bigint NOT NULL,
    last_process_instance_key bigint NOT NULL,
    row_count integer NOT NULL,
    root bytea,
    prev_hash bytea,
    key_id text,
    signature bytea,
    sealed_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT seal_pkey PRIMARY KEY (writer_epoch, batch_no)
);
COMMENT ON TABLE seal IS 'One row per sealed batch: the root over its leaves, chained to the batch before it.';

CREATE TABLE process_definition (
    key bigint NOT NULL,
    process_id text NOT NULL,
    version integer NOT NULL,
    content_hash text NOT NULL,
    resource_name text NOT NULL,
    xml bytea NOT NULL,
    deployed_at timestamptz NOT NULL DEFAULT now(),
    deployed_by text NOT NULL,
    CONSTRAINT process_definition_pkey PRIMARY KEY (key),
    CONSTRAINT process_definition_process_id_version_key UNIQUE (process_id, version)
);
COMMENT ON TABLE process_definition IS
    'Every deployed version of every process, immutable; an instance is pinned to one of them.';

CREATE TABLE engine_process (
    epoch bigint NOT NULL,
    writer_id smallint NOT NULL,
    owner text NOT NULL,
    engine_version text NOT NULL,
    acquired_at timestamptz NOT NULL,
    leased_until timestamptz NOT NULL,
    released_at timestamptz,
    claimed_by bigint,
    claimed_until timestamptz,
    recovered_at timestamptz,
    CONSTRAINT engine_process_pkey PRIMARY KEY (epoch)
);
COMMENT ON TABLE engine_process IS
    'One row per start of an engine: the lease on its writer number, and who cleaned up after it.';

CREATE TABLE dead_letter (
    id bigint GENERATED ALWAYS AS IDENTITY,
    died_at timestamptz NOT NULL DEFAULT now(),
    process_instance_key bigint NOT NULL,
    position bigint NOT NULL,
    writer_id smallint NOT NULL,
    writer_epoch bigint NOT NULL,
    batch_no bigint NOT NULL,
    leaf_no integer NOT NULL,
    sqlstate text NOT NULL,
    error text NOT NULL,
    raw bytea NOT NULL,
    CONSTRAINT dead_letter_pkey PRIMARY KEY (id),
    CONSTRAINT dead_letter_writer_epoch_batch_no_leaf_no_key UNIQUE (writer_epoch, batch_no, leaf_no)
);
COMMENT ON TABLE dead_letter IS
    'Rows that Postgres refused, in binary COPY form, committed with the rest of their batch.';
