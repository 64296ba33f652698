ALTER TABLE record
    ADD COLUMN scope_key bigint,
    ADD COLUMN called_process_id text;
CREATE INDEX record_process_idx ON record (process_id, process_instance_key) WHERE kind = 'instance_started';
CREATE INDEX record_business_id_idx ON record ((details ->> 'business_id'))
    WHERE kind = 'instance_started' AND details IS NOT NULL;
CREATE INDEX record_called_process_idx ON record (activity_instance_key) WHERE element_type = 'PROCESS';
CREATE INDEX record_activity_idx ON record (activity_instance_key) WHERE kind = 'activity' AND NOT online;
CREATE INDEX record_job_idx ON record (job_key) WHERE kind = 'activity' AND NOT online AND job_key IS NOT NULL;
CREATE INDEX record_incident_idx ON record (incident_key) WHERE kind = 'incident';

CREATE TABLE open_instance (
    process_instance_key bigint NOT NULL,
    process_id text NOT NULL,
    process_definition_key bigint NOT NULL,
    started_at timestamptz NOT NULL,
    owner_epoch bigint NOT NULL,
    open_incidents integer NOT NULL DEFAULT 0,
    CONSTRAINT open_instance_pkey PRIMARY KEY (process_instance_key)
);
CREATE INDEX open_instance_owner_epoch_idx ON open_instance (owner_epoch, process_instance_key);
COMMENT ON TABLE open_instance IS
    'Operational instances that have not ended, by the engine that owns each; kept by the records themselves.';

-- Only rows of an operational instance say that it is not online, so that the rows of requests pass by.
CREATE FUNCTION keep_open_instance() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    CASE NEW.kind
        WHEN 'instance_started' THEN
            INSERT INTO open_instance (process_instance_key, process_id, process_definition_key, started_at, owner_epoch)
            VALUES (
                NEW.process_instance_key, NEW.process_id, NEW.process_definition_key, NEW.recorded_at, NEW.writer_epoch
            )
            ON CONFLICT DO NOTHING;
        WHEN 'instance_ended' THEN
            DELETE FROM open_instance WHERE process_instance_key = NEW.process_instance_key;
            -- A message that it had claimed for a subscription and never took stays free for others.
            UPDATE message_correlation SET lock_key = NULL, delivered_at = coalesce(delivered_at, now())
            WHERE process_instance_key = NEW.process_instance_key AND subscription_key IS NULL
              AND (delivered_at IS NULL OR lock_key IS NOT NULL);
        WHEN 'incident' THEN
            UPDATE open_instance SET open_incidents = open_incidents + 1
            WHERE process_instance_key = NEW.process_instance_key;
        WHEN 'incident_ended' THEN
            UPDATE open_instance SET open_incidents = open_incidents - 1
            WHERE process_instance_key = NEW.process_instance_key;
        ELSE
            NULL;  -- a kind of row that came later: an error here would stop every row
    END CASE;
    RETURN NULL;
END
$$;
CREATE TRIGGER record_open_instance AFTER INSERT ON record
    FOR EACH ROW WHEN (NEW.incident_key IS NOT NULL OR (NOT NEW.online AND NEW.kind <> 'activity'))
    EXECUTE FUNCTION keep_open_instance();

CREATE TABLE message (
    key bigint NOT NULL,
    name text NOT NULL,
    correlation_key text NOT NULL,
    message_id text,
    tenant text NOT NULL,
    variables jsonb NOT NULL,
    published_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    stored_in bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint,
    CONSTRAINT message_pkey PRIMARY KEY (key)
);
CREATE UNIQUE INDEX message_message_id_idx ON message (tenant, name, correlation_key, message_id)
    WHERE message_id IS NOT NULL;
CREATE INDEX message_name_idx ON message (name, correlation_key, key);
CREATE INDEX message_expires_at_idx ON message (expires_at);
CREATE INDEX message_stored_in_idx ON message (stored_in);
COMMENT ON TABLE message IS 'Messages that were published, until they expire and nothing waits for them any more.';

CREATE TABLE message_correlation (
    message_key bigint NOT NULL,
    process_id text NOT NULL,
    process_instance_key bigint NOT NULL,
    subscription_key bigint,
    claimed_at timestamptz NOT NULL DEFAULT now(),
    delivered_at timestamptz,
    lock_key text,
    CONSTRAINT message_correlation_pkey PRIMARY KEY (message_key, process_id),
    CONSTRAINT message_correlation_message_key_fkey
        FOREIGN KEY (message_key) REFERENCES message (key) ON DELETE CASCADE
);
CREATE INDEX message_correlation_process_instance_key_idx ON message_correlation (process_instance_key)
    WHERE delivered_at IS NULL OR lock_key IS NOT NULL;
CREATE UNIQUE INDEX message_correlation_lock_key_idx ON message_correlation (process_id, lock_key)
    WHERE lock_key IS NOT NULL;
COMMENT ON TABLE message_correlation IS
    'Which instance got a message: at most one of each process, and at most one started by a correlation key at a time.';

CREATE TABLE signal (
    key bigint NOT NULL,
    name text NOT NULL,
    variables jsonb NOT NULL,
    thrown_by bigint,
    broadcast_at timestamptz NOT NULL DEFAULT now(),
    stored_in bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint,
    CONSTRAINT signal_pkey PRIMARY KEY (key)
);
CREATE INDEX signal_name_idx ON signal (name, broadcast_at);
CREATE INDEX signal_broadcast_at_idx ON signal (broadcast_at);
CREATE INDEX signal_stored_in_idx ON signal (stored_in);
COMMENT ON TABLE signal IS 'Signals that were broadcast, for as long as an engine may still have to hear of them.';

CREATE TABLE signal_start (
    signal_key bigint NOT NULL,
    process_id text NOT NULL,
    process_instance_key bigint NOT NULL,
    claimed_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT signal_start_pkey PRIMARY KEY (signal_key, process_id),
    CONSTRAINT signal_start_signal_key_fkey FOREIGN KEY (signal_key) REFERENCES signal (key) ON DELETE CASCADE
);
COMMENT ON TABLE signal_start IS 'Which instance a signal started: one of each process.';

CREATE TABLE start_schedule (
    process_definition_key bigint NOT NULL,
    element_id text NOT NULL,
    due_at timestamptz NOT NULL,
    repetitions_left integer,
    claimed_key bigint,
    claimed_at timestamptz,
    CONSTRAINT start_schedule_pkey PRIMARY KEY (process_definition_key, element_id)
);
CREATE INDEX start_schedule_due_at_idx ON start_schedule (due_at);
COMMENT ON TABLE start_schedule IS
    'Timer start events that are armed: when each is due, and for which instance an engine has claimed it.';
