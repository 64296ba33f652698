CREATE TABLE deployment (
    key bigint NOT NULL,
    deployed_at timestamptz NOT NULL DEFAULT now(),
    deployed_by text NOT NULL,
    tenant text NOT NULL,
    CONSTRAINT deployment_pkey PRIMARY KEY (key)
);
COMMENT ON TABLE deployment IS 'One row per deployment that made a new version: who brought which files when.';

-- Until now each definition was a deployment of its own; its key serves for both.
INSERT INTO deployment (key, deployed_at, deployed_by, tenant)
SELECT key, deployed_at, deployed_by, 'default' FROM process_definition;

ALTER TABLE process_definition ADD kind text;
ALTER TABLE process_definition ADD name text;
ALTER TABLE process_definition ADD version_tag text;
ALTER TABLE process_definition ADD deployment_key bigint;
UPDATE process_definition SET kind = 'process', name = '', deployment_key = key;
ALTER TABLE process_definition ALTER kind SET NOT NULL;
ALTER TABLE process_definition ALTER name SET NOT NULL;
ALTER TABLE process_definition ALTER deployment_key SET NOT NULL;
ALTER TABLE process_definition DROP CONSTRAINT process_definition_process_id_version_key;
ALTER TABLE process_definition ADD CONSTRAINT process_definition_kind_process_id_version_key
    UNIQUE (kind, process_id, version);
ALTER TABLE process_definition ADD CONSTRAINT process_definition_kind_check
    CHECK (kind IN ('process', 'decision', 'requirements', 'form'));
ALTER TABLE process_definition ADD CONSTRAINT process_definition_deployment_key_fkey
    FOREIGN KEY (deployment_key) REFERENCES deployment (key);
CREATE INDEX process_definition_deployment_key_idx ON process_definition (deployment_key);
COMMENT ON TABLE process_definition IS
    'Every deployed version of every process, decision and form, immutable; an instance is pinned to them.';

CREATE TABLE activation (
    id bigint GENERATED ALWAYS AS IDENTITY,
    kind text NOT NULL,
    process_id text NOT NULL,
    definition_key bigint NOT NULL,
    cause text NOT NULL,
    activated_at timestamptz NOT NULL DEFAULT now(),
    activated_by text NOT NULL,
    reason text NOT NULL,
    CONSTRAINT activation_pkey PRIMARY KEY (id),
    CONSTRAINT activation_definition_key_fkey FOREIGN KEY (definition_key) REFERENCES process_definition (key),
    CONSTRAINT activation_cause_check CHECK (cause IN ('deployed', 'activated', 'rolled_back'))
);
CREATE INDEX activation_kind_process_id_id_idx ON activation (kind, process_id, id);
COMMENT ON TABLE activation IS
    'Append-only: each turn of the switch that says which version serves; the newest row of an id counts.';

-- Until now the newest version served.
INSERT INTO activation (kind, process_id, definition_key, cause, activated_at, activated_by, reason)
SELECT kind, process_id, key, 'deployed', deployed_at, deployed_by, '' FROM process_definition
ORDER BY process_id, version;
