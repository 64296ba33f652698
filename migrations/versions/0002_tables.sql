ALTER TABLE record
    ADD COLUMN scope_key bigint,
    ADD COLUMN called_process_id text;
