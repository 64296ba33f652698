CREATE INDEX record_failed_job_idx ON record (job_key) WHERE kind = 'job_failed';

CREATE OR REPLACE VIEW audit.steps WITH (security_invoker = true) AS
SELECT
    process_instance_key,
    day,
    position,
    tenant,
    product,
    feature,
    priority,
    process_id,
    process_version,
    activity_instance_key,
    element_id,
    element_type,
    element_name,
    state,
    started_at,
    ended_at,
    duration_us,
    job_key,
    job_queued_at,
    job_started_at,
    job_finished_at,
    (extract(epoch FROM job_started_at - job_queued_at) * 1000000)::bigint AS job_wait_us,
    (extract(epoch FROM job_finished_at - job_started_at) * 1000000)::bigint AS job_run_us,
    taken_flow_ids,
    error_code,
    message AS error_message,
    variables,
    scope_key,
    called_process_id,
    (details ->> 'loop_counter')::integer AS loop_counter
FROM public.record
WHERE kind = 'activity';
COMMENT ON COLUMN audit.steps.job_key IS
    'Key of the job that did the step''s work, the last one where it was tried again; null for events and gateways.';
COMMENT ON COLUMN audit.steps.job_finished_at IS 'When its Python task returned; null where nobody waited for that.';
COMMENT ON COLUMN audit.steps.loop_counter IS
    'Which item of a multi-instance step it ran for, from 1; null everywhere else.';
COMMENT ON COLUMN audit.requests.http_status IS
    'HTTP status that belongs to the outcome; null while it runs, and where no client waited for it.';

CREATE VIEW audit.job_failures WITH (security_invoker = true) AS
SELECT
    process_instance_key,
    day,
    position,
    recorded_at AS failed_at,
    tenant,
    product,
    feature,
    priority,
    process_id,
    process_version,
    activity_instance_key,
    element_id,
    job_key,
    job_queued_at,
    job_started_at,
    job_finished_at,
    attempt_no AS try_no,
    (details ->> 'retries')::integer AS tries_left,
    error_code,
    message AS error_message,
    'epoch'::timestamptz + (details ->> 'again_at_us')::bigint * interval '1 microsecond' AS again_at,
    variables,
    scope_key,
    called_process_id
FROM public.record
WHERE kind = 'job_failed';
COMMENT ON VIEW audit.job_failures IS
    'One row per try of a job that failed: for a technical reason, or with an error that nothing catches. An error that an event catches is in audit.steps.';
COMMENT ON COLUMN audit.job_failures.process_instance_key IS
    'Key of the process instance; one instance is one request.';
COMMENT ON COLUMN audit.job_failures.day IS
    'UTC day on which the instance began; filter on it and Postgres reads only that day.';
COMMENT ON COLUMN audit.job_failures.position IS 'Order of the instance''s rows, from 1.';
COMMENT ON COLUMN audit.job_failures.failed_at IS 'When the failure was taken note of.';
COMMENT ON COLUMN audit.job_failures.tenant IS 'Who pays.';
COMMENT ON COLUMN audit.job_failures.product IS 'Product tag of the request.';
COMMENT ON COLUMN audit.job_failures.feature IS 'Feature tag of the request.';
COMMENT ON COLUMN audit.job_failures.priority IS 'Priority class of the request.';
COMMENT ON COLUMN audit.job_failures.process_id IS 'BPMN process that governed the request.';
COMMENT ON COLUMN audit.job_failures.process_version IS 'Its version, pinned when the request began.';
COMMENT ON COLUMN audit.job_failures.activity_instance_key IS
    'Key of the activity instance; all tries of one have the same.';
COMMENT ON COLUMN audit.job_failures.element_id IS 'Id of the element in the diagram.';
COMMENT ON COLUMN audit.job_failures.job_key IS 'Key of the job; each try is a job of its own.';
COMMENT ON COLUMN audit.job_failures.job_queued_at IS 'When the job was handed over.';
COMMENT ON COLUMN audit.job_failures.job_started_at IS 'When its work began.';
COMMENT ON COLUMN audit.job_failures.job_finished_at IS 'When it failed, as whoever worked on it says.';
COMMENT ON COLUMN audit.job_failures.try_no IS
    'Which try of the activity it was, from 1. No attempt at a replica: of those a job may make none or many.';
COMMENT ON COLUMN audit.job_failures.tries_left IS 'How many tries were left after it.';
COMMENT ON COLUMN audit.job_failures.error_code IS 'Why it failed.';
COMMENT ON COLUMN audit.job_failures.error_message IS 'The same for a person.';
COMMENT ON COLUMN audit.job_failures.again_at IS 'When the next try was due; null where an incident stood in its way.';
COMMENT ON COLUMN audit.job_failures.variables IS
    'Variables that the worker left with its failure; only the step itself sees them.';
COMMENT ON COLUMN audit.job_failures.scope_key IS
    'Activity instance around it: sub-process, multi-instance body or called process; null directly in the instance.';
COMMENT ON COLUMN audit.job_failures.called_process_id IS
    'Called process that it is part of; null in the instance''s own process.';

CREATE VIEW audit.events WITH (security_invoker = true) AS
SELECT
    process_instance_key,
    day,
    position,
    recorded_at AS happened_at,
    tenant,
    product,
    feature,
    priority,
    process_id,
    process_version,
    CASE kind WHEN 'event_received' THEN 'received' ELSE 'thrown' END AS direction,
    details ->> 'event' AS event,
    details ->> 'name' AS name,
    details ->> 'correlation_key' AS correlation_key,
    (details ->> 'event_key')::bigint AS event_key,
    (details ->> 'subscription_key')::bigint AS subscription_key,
    activity_instance_key,
    element_id,
    variables,
    scope_key,
    called_process_id
FROM public.record
WHERE kind IN ('event_received', 'signal_thrown');
COMMENT ON VIEW audit.events IS
    'One row per message or signal that reached an instance where it waited for it, and per signal that it threw.';
COMMENT ON COLUMN audit.events.process_instance_key IS 'Key of the process instance; one instance is one request.';
COMMENT ON COLUMN audit.events.day IS
    'UTC day on which the instance began; filter on it and Postgres reads only that day.';
COMMENT ON COLUMN audit.events.position IS 'Order of the instance''s rows, from 1.';
COMMENT ON COLUMN audit.events.happened_at IS 'When the instance received it, or threw it.';
COMMENT ON COLUMN audit.events.tenant IS 'Who pays.';
COMMENT ON COLUMN audit.events.product IS 'Product tag of the request.';
COMMENT ON COLUMN audit.events.feature IS 'Feature tag of the request.';
COMMENT ON COLUMN audit.events.priority IS 'Priority class of the request.';
COMMENT ON COLUMN audit.events.process_id IS 'BPMN process that governed the request.';
COMMENT ON COLUMN audit.events.process_version IS 'Its version, pinned when the request began.';
COMMENT ON COLUMN audit.events.direction IS 'received or thrown.';
COMMENT ON COLUMN audit.events.event IS 'message or signal.';
COMMENT ON COLUMN audit.events.name IS 'Name of the message or signal.';
COMMENT ON COLUMN audit.events.correlation_key IS 'What the message was matched by; null for a signal.';
COMMENT ON COLUMN audit.events.event_key IS
    'Key of the message or of the broadcast; everybody who received the same one has it, and so has who threw it.';
COMMENT ON COLUMN audit.events.subscription_key IS 'Key of what waited for it; null where it was thrown.';
COMMENT ON COLUMN audit.events.activity_instance_key IS
    'Activity instance that waited or threw; null where the event starts an event sub-process.';
COMMENT ON COLUMN audit.events.element_id IS 'Id of the event or receive task in the diagram.';
COMMENT ON COLUMN audit.events.variables IS
    'Variables that came or went with it. Which of them the instance kept is said by the step that it led to.';
COMMENT ON COLUMN audit.events.scope_key IS
    'Activity instance around it: sub-process, multi-instance body or called process; null directly in the instance.';
COMMENT ON COLUMN audit.events.called_process_id IS
    'Called process that it is part of; null in the instance''s own process.';

CREATE VIEW audit.interventions WITH (security_invoker = true) AS
SELECT
    process_instance_key,
    day,
    position,
    recorded_at AS made_at,
    tenant,
    product,
    feature,
    priority,
    process_id,
    process_version,
    CASE kind WHEN 'variables_set' THEN 'variables' ELSE 'retries' END AS what,
    activity_instance_key,
    element_id,
    variables,
    CASE kind WHEN 'variables_set' THEN coalesce((details ->> 'local')::boolean, false) END AS local,
    job_key,
    (details ->> 'retries')::integer AS tries_left,
    scope_key,
    called_process_id
FROM public.record
WHERE kind IN ('variables_set', 'retries_set');
COMMENT ON VIEW audit.interventions IS
    'One row per change that somebody made to a running instance from outside: variables that were written, tries that a job was given. Resolved incidents are in audit.incidents.';
COMMENT ON COLUMN audit.interventions.process_instance_key IS
    'Key of the process instance; one instance is one request.';
COMMENT ON COLUMN audit.interventions.day IS
    'UTC day on which the instance began; filter on it and Postgres reads only that day.';
COMMENT ON COLUMN audit.interventions.position IS 'Order of the instance''s rows, from 1.';
COMMENT ON COLUMN audit.interventions.made_at IS 'When it was made.';
COMMENT ON COLUMN audit.interventions.tenant IS 'Who pays.';
COMMENT ON COLUMN audit.interventions.product IS 'Product tag of the request.';
COMMENT ON COLUMN audit.interventions.feature IS 'Feature tag of the request.';
COMMENT ON COLUMN audit.interventions.priority IS 'Priority class of the request.';
COMMENT ON COLUMN audit.interventions.process_id IS 'BPMN process that governed the request.';
COMMENT ON COLUMN audit.interventions.process_version IS 'Its version, pinned when the request began.';
COMMENT ON COLUMN audit.interventions.what IS 'variables or retries.';
COMMENT ON COLUMN audit.interventions.activity_instance_key IS
    'Activity instance at which it was made; null where it was made at the instance or a called process.';
COMMENT ON COLUMN audit.interventions.element_id IS 'Id of its element; null likewise.';
COMMENT ON COLUMN audit.interventions.variables IS
    'Variables that were written, with their new values; null for retries.';
COMMENT ON COLUMN audit.interventions.local IS
    'True when they were written right there, false when wherever a variable of that name was found outwards; null for retries.';
COMMENT ON COLUMN audit.interventions.job_key IS 'Job that was given tries; null for variables.';
COMMENT ON COLUMN audit.interventions.tries_left IS 'How many tries the job had from then on; null for variables.';
COMMENT ON COLUMN audit.interventions.scope_key IS
    'Activity instance around it: sub-process, multi-instance body or called process; null directly in the instance.';
COMMENT ON COLUMN audit.interventions.called_process_id IS
    'Called process that it is part of; null in the instance''s own process.';
