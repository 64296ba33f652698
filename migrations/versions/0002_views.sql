CREATE OR REPLACE VIEW audit.requests WITH (security_invoker = true) AS
SELECT
    s.process_instance_key,
    s.request_id,
    s.day,
    s.recorded_at AS started_at,
    f.ended_at,
    f.duration_us,
    s.tenant,
    s.product,
    s.feature,
    s.priority,
    s.deadline_ms,
    s.process_id,
    s.process_version,
    s.process_definition_key,
    s.engine_version,
    s.online,
    s.variables ->> 'operation' AS operation,
    s.model,
    coalesce(f.state, 'active') AS state,
    f.ended_at IS NOT NULL AND f.error_code IS NULL AND f.state = 'completed' AS succeeded,
    f.error_code,
    f.message AS error_message,
    f.http_status,
    f.end_element_id,
    f.incident_key,
    f.steps,
    f.attempts,
    greatest(f.attempts - 1, 0) AS retries,
    f.fell_back,
    f.answered_by_model,
    f.answered_by_replica,
    (extract(epoch FROM f.first_token_at - s.recorded_at) * 1000000)::bigint AS ttft_us,
    f.input_tokens,
    f.output_tokens,
    f.cost_usd,
    f.unpriced_usage,
    f.ended_at IS NULL OR f.facts <> f.last_position AS incomplete,
    s.details ->> 'business_id' AS business_id
FROM public.record s
CROSS JOIN LATERAL (
    SELECT
        max(r.ended_at) FILTER (WHERE r.kind = 'instance_ended') AS ended_at,
        max(r.duration_us) FILTER (WHERE r.kind = 'instance_ended') AS duration_us,
        max(r.state) FILTER (WHERE r.kind = 'instance_ended') AS state,
        max(r.error_code) FILTER (WHERE r.kind = 'instance_ended') AS error_code,
        max(r.message) FILTER (WHERE r.kind = 'instance_ended') AS message,
        max(r.http_status) FILTER (WHERE r.kind = 'instance_ended') AS http_status,
        max(r.element_id) FILTER (WHERE r.kind = 'instance_ended') AS end_element_id,
        min(r.incident_key) AS incident_key,
        count(*) FILTER (WHERE r.kind = 'activity' AND r.element_type <> 'PROCESS') AS steps,
        count(*) FILTER (WHERE r.kind = 'attempt') AS attempts,
        coalesce(bool_or(r.model IS DISTINCT FROM s.model) FILTER (WHERE r.kind = 'attempt'), false) AS fell_back,
        (array_agg(r.model ORDER BY r.attempt_no DESC) FILTER (WHERE r.outcome = 'ok'))[1] AS answered_by_model,
        (array_agg(r.replica ORDER BY r.attempt_no DESC) FILTER (WHERE r.outcome = 'ok'))[1] AS answered_by_replica,
        (array_agg(r.first_token_at ORDER BY r.attempt_no DESC) FILTER (WHERE r.outcome = 'ok'))[1] AS first_token_at,
        sum(r.input_tokens) AS input_tokens,
        sum(r.output_tokens) AS output_tokens,
        sum(r.cost_usd) FILTER (WHERE r.billable) AS cost_usd,
        count(*) FILTER (WHERE r.kind = 'usage' AND r.billable AND r.price_id IS NULL) AS unpriced_usage,
        count(*) AS facts,
        max(r.position) AS last_position
    FROM public.record r
    WHERE r.process_instance_key = s.process_instance_key AND r.day = s.day AND r.position > 0
) f
WHERE s.kind = 'instance_started' AND s.request_id IS NOT NULL;
COMMENT ON COLUMN audit.requests.business_id IS
    'Id that the caller gave the instance, of whatever it is about; null when it gave none.';

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
    called_process_id
FROM public.record
WHERE kind = 'activity';
COMMENT ON COLUMN audit.steps.scope_key IS
    'Activity instance around this one: sub-process, multi-instance body or called process; null directly in the instance.';
COMMENT ON COLUMN audit.steps.called_process_id IS
    'Called process that the step is part of; null in the instance''s own process. The called process itself is a step of the type PROCESS.';

CREATE OR REPLACE VIEW audit.incidents WITH (security_invoker = true) AS
SELECT
    r.incident_key,
    r.process_instance_key,
    r.day,
    r.recorded_at AS raised_at,
    r.tenant,
    r.product,
    r.feature,
    r.priority,
    r.process_id,
    r.process_version,
    r.activity_instance_key,
    r.element_id,
    r.error_code,
    r.message AS error_message,
    coalesce(e.state, CASE WHEN l.kind = 'instance_ended' THEN 'ended' ELSE 'open' END) AS state,
    coalesce(e.recorded_at, l.ended_at) AS ended_at,
    (extract(epoch FROM coalesce(e.recorded_at, l.ended_at) - r.recorded_at) * 1000000)::bigint AS duration_us
FROM public.record r
LEFT JOIN LATERAL (
    SELECT i.state, i.recorded_at
    FROM public.record i
    WHERE i.process_instance_key = r.process_instance_key AND i.day = r.day AND i.position > r.position
      AND i.kind = 'incident_ended' AND i.incident_key = r.incident_key
    ORDER BY i.position
    LIMIT 1
) e ON true
LEFT JOIN LATERAL (
    SELECT i.kind, i.ended_at
    FROM public.record i
    WHERE i.process_instance_key = r.process_instance_key AND i.day = r.day
    ORDER BY i.position DESC
    LIMIT 1
) l ON true
WHERE r.kind = 'incident';
COMMENT ON COLUMN audit.incidents.state IS
    'open, resolved (a person mended the cause and it was tried again) or ended (its step or its instance ended otherwise).';
COMMENT ON COLUMN audit.incidents.ended_at IS 'When it was resolved or ended; null while it is open.';
COMMENT ON COLUMN audit.incidents.duration_us IS
    'How long it was open, from raised_at to ended_at, in microseconds; null while it is open.';
