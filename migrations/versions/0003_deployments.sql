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

CREATE VIEW audit.activations WITH (security_invoker = true) AS
SELECT
    a.id AS activation_no,
    a.kind,
    a.process_id,
    d.version AS process_version,
    d.version_tag,
    a.cause,
    a.activated_at,
    lead(a.activated_at) OVER (PARTITION BY a.kind, a.process_id ORDER BY a.id) AS replaced_at,
    a.activated_by,
    a.reason,
    d.key AS process_definition_key,
    d.content_hash,
    d.resource_name,
    d.deployed_at,
    d.deployed_by
FROM public.activation a
JOIN public.process_definition d ON d.key = a.definition_key;
COMMENT ON VIEW audit.activations IS
    'One row per turn of the switch that says which version of a process, decision or form serves.';
COMMENT ON COLUMN audit.activations.activation_no IS 'Number of the turn; they count in this order.';
COMMENT ON COLUMN audit.activations.kind IS 'process, decision, requirements or form.';
COMMENT ON COLUMN audit.activations.process_id IS 'Id of the process, decision, requirements or form.';
COMMENT ON COLUMN audit.activations.process_version IS 'Version that served from then on.';
COMMENT ON COLUMN audit.activations.version_tag IS 'Tag that the designer gave this version; null without one.';
COMMENT ON COLUMN audit.activations.cause IS 'deployed, activated or rolled_back.';
COMMENT ON COLUMN audit.activations.activated_at IS 'When it began to serve; instances that ran kept their version.';
COMMENT ON COLUMN audit.activations.replaced_at IS 'When another turn followed; null for the version that serves now.';
COMMENT ON COLUMN audit.activations.activated_by IS 'Who turned the switch.';
COMMENT ON COLUMN audit.activations.reason IS 'Why, in that person''s words; may be empty.';
COMMENT ON COLUMN audit.activations.process_definition_key IS 'Key of that exact version.';
COMMENT ON COLUMN audit.activations.content_hash IS 'SHA-256 of the deployed file, hex.';
COMMENT ON COLUMN audit.activations.resource_name IS 'Name of the deployed file.';
COMMENT ON COLUMN audit.activations.deployed_at IS 'When this version was deployed.';
COMMENT ON COLUMN audit.activations.deployed_by IS 'Who deployed it.';
