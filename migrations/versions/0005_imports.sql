CREATE TABLE imported_file (
    content_hash text NOT NULL,
    content bytea NOT NULL,
    CONSTRAINT imported_file_pkey PRIMARY KEY (content_hash)
);
COMMENT ON TABLE imported_file IS 'Every file that a deployed decision file imports, once, by the SHA-256 of its content.';

-- Names of files and the hashes of their contents; null where nothing is imported.
ALTER TABLE process_definition ADD imports jsonb;

COMMENT ON COLUMN audit.activations.content_hash IS
    'SHA-256 of the deployed file, hex; of a decision file that imports others, of its hash and theirs.';
