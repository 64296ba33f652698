CREATE SCHEMA audit;
COMMENT ON SCHEMA audit IS 'What analysts read: views over public.record, each documented down to its columns.';

CREATE VIEW audit.requests WITH (security_invoker = true) AS
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
    f.ended_at IS NULL OR f.facts <> f.last_position AS incomplete
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
        count(*) FILTER (WHERE r.kind = 'activity') AS steps,
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
COMMENT ON VIEW audit.requests IS
    'One row per request that was let in: what it wanted, how it ended, what it took.';
COMMENT ON COLUMN audit.requests.process_instance_key IS 'Key of the process instance; one instance is one request.';
COMMENT ON COLUMN audit.requests.request_id IS
    'UUID that the gateway minted for the request; also in its response headers.';
COMMENT ON COLUMN audit.requests.day IS
    'UTC day on which the instance began; filter on it and Postgres reads only that day.';
COMMENT ON COLUMN audit.requests.started_at IS 'When the gateway let the request in.';
COMMENT ON COLUMN audit.requests.ended_at IS 'When the instance ended; null while it runs.';
COMMENT ON COLUMN audit.requests.duration_us IS 'From started_at to ended_at, in microseconds.';
COMMENT ON COLUMN audit.requests.tenant IS 'Who pays.';
COMMENT ON COLUMN audit.requests.product IS 'Product tag of the request.';
COMMENT ON COLUMN audit.requests.feature IS 'Feature tag of the request.';
COMMENT ON COLUMN audit.requests.priority IS 'Priority class of the request.';
COMMENT ON COLUMN audit.requests.deadline_ms IS 'Time that the client gave the request, in milliseconds.';
COMMENT ON COLUMN audit.requests.process_id IS 'BPMN process that governed the request.';
COMMENT ON COLUMN audit.requests.process_version IS 'Its version, pinned when the request began.';
COMMENT ON COLUMN audit.requests.process_definition_key IS 'Key of that exact version.';
COMMENT ON COLUMN audit.requests.engine_version IS 'Version of the engine that ran it.';
COMMENT ON COLUMN audit.requests.online IS 'True when a client was waiting; false for batch and operational work.';
COMMENT ON COLUMN audit.requests.operation IS 'What was asked for: infer, generate or generate_stream.';
COMMENT ON COLUMN audit.requests.model IS 'Model that the client named.';
COMMENT ON COLUMN audit.requests.state IS
    'active, completed (an end event was reached), terminated (ended from outside) or aborted (its gateway died).';
COMMENT ON COLUMN audit.requests.succeeded IS 'True when the client got the answer it asked for.';
COMMENT ON COLUMN audit.requests.error_code IS 'Why the request failed; null when it did not.';
COMMENT ON COLUMN audit.requests.error_message IS 'The same for a person.';
COMMENT ON COLUMN audit.requests.http_status IS 'HTTP status that belongs to the outcome; null while it runs.';
COMMENT ON COLUMN audit.requests.end_element_id IS 'End event that was reached; null when none was.';
COMMENT ON COLUMN audit.requests.incident_key IS 'Key of the incident that a person has to look at, if any.';
COMMENT ON COLUMN audit.requests.steps IS 'Flow nodes of the diagram that the request passed.';
COMMENT ON COLUMN audit.requests.attempts IS 'Calls of a replica, failed ones included.';
COMMENT ON COLUMN audit.requests.retries IS 'Attempts after the first.';
COMMENT ON COLUMN audit.requests.fell_back IS 'True when an attempt was made on another model than the client named.';
COMMENT ON COLUMN audit.requests.answered_by_model IS 'Model of the attempt that succeeded; null when none did.';
COMMENT ON COLUMN audit.requests.answered_by_replica IS 'Replica of the attempt that succeeded; null when none did.';
COMMENT ON COLUMN audit.requests.ttft_us IS
    'Time to first token as the client saw it: from started_at to the first token of the attempt that succeeded, queueing and retries included, in microseconds.';
COMMENT ON COLUMN audit.requests.input_tokens IS 'Input tokens of all attempts; null when none was counted.';
COMMENT ON COLUMN audit.requests.output_tokens IS 'Output tokens of all attempts; null when none was counted.';
COMMENT ON COLUMN audit.requests.cost_usd IS
    'Sum of the billable usage that has a price, in US dollars; null when nothing had one.';
COMMENT ON COLUMN audit.requests.unpriced_usage IS
    'Billable usage rows of a model without a price; above 0 means that cost_usd is too low.';
COMMENT ON COLUMN audit.requests.incomplete IS
    'True when the end is missing or a row between start and end is. A request that still runs is incomplete; an answered one never is.';

CREATE VIEW audit.steps WITH (security_invoker = true) AS
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
    variables
FROM public.record
WHERE kind = 'activity';
COMMENT ON VIEW audit.steps IS
    'One row per flow node that an instance passed, written when it ended.';
COMMENT ON COLUMN audit.steps.process_instance_key IS 'Key of the process instance; one instance is one request.';
COMMENT ON COLUMN audit.steps.day IS
    'UTC day on which the instance began; filter on it and Postgres reads only that day.';
COMMENT ON COLUMN audit.steps.position IS 'Order of the instance''s rows, from 1.';
COMMENT ON COLUMN audit.steps.tenant IS 'Who pays.';
COMMENT ON COLUMN audit.steps.product IS 'Product tag of the request.';
COMMENT ON COLUMN audit.steps.feature IS 'Feature tag of the request.';
COMMENT ON COLUMN audit.steps.priority IS 'Priority class of the request.';
COMMENT ON COLUMN audit.steps.process_id IS 'BPMN process that governed the request.';
COMMENT ON COLUMN audit.steps.process_version IS 'Its version, pinned when the request began.';
COMMENT ON COLUMN audit.steps.activity_instance_key IS
    'Key of the activity instance; a step that is passed twice has two.';
COMMENT ON COLUMN audit.steps.element_id IS 'Id of the element in the diagram.';
COMMENT ON COLUMN audit.steps.element_type IS
    'Kind of flow node, in Camunda''s words: SERVICE_TASK, EXCLUSIVE_GATEWAY ...';
COMMENT ON COLUMN audit.steps.element_name IS 'Name that the diagram shows.';
COMMENT ON COLUMN audit.steps.state IS
    'completed, terminated (stopped from outside or by a boundary event) or failed.';
COMMENT ON COLUMN audit.steps.started_at IS 'When the step was entered.';
COMMENT ON COLUMN audit.steps.ended_at IS 'When it was left.';
COMMENT ON COLUMN audit.steps.duration_us IS
    'From started_at to ended_at, in microseconds; 0 for what happens within one move of the engine.';
COMMENT ON COLUMN audit.steps.job_key IS 'Key of the job that did the step''s work; null for events and gateways.';
COMMENT ON COLUMN audit.steps.job_queued_at IS 'When the job was handed over.';
COMMENT ON COLUMN audit.steps.job_started_at IS 'When its Python task began.';
COMMENT ON COLUMN audit.steps.job_finished_at IS 'When its Python task returned.';
COMMENT ON COLUMN audit.steps.job_wait_us IS 'From job_queued_at to job_started_at, in microseconds.';
COMMENT ON COLUMN audit.steps.job_run_us IS 'From job_started_at to job_finished_at, in microseconds.';
COMMENT ON COLUMN audit.steps.taken_flow_ids IS 'Sequence flows by which the instance went on from here.';
COMMENT ON COLUMN audit.steps.error_code IS 'Error that ended the step; null when none did.';
COMMENT ON COLUMN audit.steps.error_message IS 'The same for a person.';
COMMENT ON COLUMN audit.steps.variables IS 'Variables that the step changed, with their new values.';

CREATE VIEW audit.attempts WITH (security_invoker = true) AS
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
    attempt_no,
    replica,
    pool,
    model,
    model_version,
    protocol,
    outcome,
    error_code,
    message AS error_message,
    grpc_status,
    sent_at,
    first_chunk_at,
    first_token_at,
    last_token_at,
    done_at,
    (extract(epoch FROM done_at - sent_at) * 1000000)::bigint AS duration_us,
    (extract(epoch FROM first_chunk_at - sent_at) * 1000000)::bigint AS time_to_first_chunk_us,
    (extract(epoch FROM first_token_at - sent_at) * 1000000)::bigint AS ttft_us,
    CASE WHEN output_tokens > 1 THEN (extract(epoch FROM last_token_at - first_token_at) * 1000000 / (output_tokens - 1))::bigint END AS tpot_us,
    chunks,
    input_tokens,
    output_tokens,
    tokens_estimated,
    finish_reason,
    billable
FROM public.record
WHERE kind = 'attempt';
COMMENT ON VIEW audit.attempts IS
    'One row per call of a replica. Every instant is that of the gateway''s clock; null where the moment never came.';
COMMENT ON COLUMN audit.attempts.process_instance_key IS 'Key of the process instance; one instance is one request.';
COMMENT ON COLUMN audit.attempts.day IS
    'UTC day on which the instance began; filter on it and Postgres reads only that day.';
COMMENT ON COLUMN audit.attempts.position IS 'Order of the instance''s rows, from 1.';
COMMENT ON COLUMN audit.attempts.tenant IS 'Who pays.';
COMMENT ON COLUMN audit.attempts.product IS 'Product tag of the request.';
COMMENT ON COLUMN audit.attempts.feature IS 'Feature tag of the request.';
COMMENT ON COLUMN audit.attempts.priority IS 'Priority class of the request.';
COMMENT ON COLUMN audit.attempts.process_id IS 'BPMN process that governed the request.';
COMMENT ON COLUMN audit.attempts.process_version IS 'Its version, pinned when the request began.';
COMMENT ON COLUMN audit.attempts.activity_instance_key IS
    'Key of the activity instance; a step that is passed twice has two.';
COMMENT ON COLUMN audit.attempts.element_id IS 'Id of the element in the diagram.';
COMMENT ON COLUMN audit.attempts.attempt_no IS 'Number of the attempt within the request, from 1.';
COMMENT ON COLUMN audit.attempts.replica IS 'Replica that was called.';
COMMENT ON COLUMN audit.attempts.pool IS 'Pool that the replica belongs to.';
COMMENT ON COLUMN audit.attempts.model IS 'Model that was called.';
COMMENT ON COLUMN audit.attempts.model_version IS 'Version that answered, as the replica named it.';
COMMENT ON COLUMN audit.attempts.protocol IS 'grpc or http.';
COMMENT ON COLUMN audit.attempts.outcome IS 'ok, error, timeout, cancelled or client_disconnected.';
COMMENT ON COLUMN audit.attempts.error_code IS 'Why the attempt failed; null when it did not.';
COMMENT ON COLUMN audit.attempts.error_message IS 'The same for a person.';
COMMENT ON COLUMN audit.attempts.grpc_status IS 'Status of the call as gRPC names it; null over HTTP.';
COMMENT ON COLUMN audit.attempts.sent_at IS 'When the call left the gateway.';
COMMENT ON COLUMN audit.attempts.first_chunk_at IS 'When the first piece of the answer arrived.';
COMMENT ON COLUMN audit.attempts.first_token_at IS 'When the first piece with a token in it arrived.';
COMMENT ON COLUMN audit.attempts.last_token_at IS 'When the last piece with a token in it arrived.';
COMMENT ON COLUMN audit.attempts.done_at IS 'When the call was over.';
COMMENT ON COLUMN audit.attempts.duration_us IS 'From sent_at to done_at, in microseconds.';
COMMENT ON COLUMN audit.attempts.time_to_first_chunk_us IS 'From sent_at to first_chunk_at, in microseconds.';
COMMENT ON COLUMN audit.attempts.ttft_us IS
    'Time to first token: from sent_at to first_token_at, in microseconds; network and the replica''s queue included.';
COMMENT ON COLUMN audit.attempts.tpot_us IS
    'Time per output token: from first_token_at to last_token_at, divided by output_tokens - 1, in microseconds; null below two tokens.';
COMMENT ON COLUMN audit.attempts.chunks IS 'Pieces in which the answer came.';
COMMENT ON COLUMN audit.attempts.input_tokens IS 'Tokens that went in.';
COMMENT ON COLUMN audit.attempts.output_tokens IS 'Tokens that came out.';
COMMENT ON COLUMN audit.attempts.tokens_estimated IS 'True when the replica did not say and the gateway counted.';
COMMENT ON COLUMN audit.attempts.finish_reason IS 'Why the model stopped, as it said itself.';
COMMENT ON COLUMN audit.attempts.billable IS 'False when the attempt may not be charged for.';

CREATE VIEW audit.decisions WITH (security_invoker = true) AS
SELECT
    process_instance_key,
    day,
    position,
    recorded_at AS decided_at,
    tenant,
    product,
    feature,
    priority,
    process_id,
    process_version,
    activity_instance_key,
    element_id,
    decision,
    chosen,
    reason,
    details
FROM public.record
WHERE kind = 'decision';
COMMENT ON VIEW audit.decisions IS
    'One row per choice that a task made, with its reason in words.';
COMMENT ON COLUMN audit.decisions.process_instance_key IS 'Key of the process instance; one instance is one request.';
COMMENT ON COLUMN audit.decisions.day IS
    'UTC day on which the instance began; filter on it and Postgres reads only that day.';
COMMENT ON COLUMN audit.decisions.position IS 'Order of the instance''s rows, from 1.';
COMMENT ON COLUMN audit.decisions.decided_at IS 'When the step that decided had ended.';
COMMENT ON COLUMN audit.decisions.tenant IS 'Who pays.';
COMMENT ON COLUMN audit.decisions.product IS 'Product tag of the request.';
COMMENT ON COLUMN audit.decisions.feature IS 'Feature tag of the request.';
COMMENT ON COLUMN audit.decisions.priority IS 'Priority class of the request.';
COMMENT ON COLUMN audit.decisions.process_id IS 'BPMN process that governed the request.';
COMMENT ON COLUMN audit.decisions.process_version IS 'Its version, pinned when the request began.';
COMMENT ON COLUMN audit.decisions.activity_instance_key IS
    'Key of the activity instance; a step that is passed twice has two.';
COMMENT ON COLUMN audit.decisions.element_id IS 'Id of the element in the diagram.';
COMMENT ON COLUMN audit.decisions.decision IS 'What was to be decided: admission, route, fall_back ...';
COMMENT ON COLUMN audit.decisions.chosen IS 'What was chosen; null when nothing could be.';
COMMENT ON COLUMN audit.decisions.reason IS 'Why, in words.';
COMMENT ON COLUMN audit.decisions.details IS 'What the choice was made from: candidates, weights, counts.';

CREATE VIEW audit.usage WITH (security_invoker = true) AS
SELECT
    process_instance_key,
    day,
    position,
    recorded_at AS measured_at,
    tenant,
    product,
    feature,
    priority,
    process_id,
    process_version,
    activity_instance_key,
    element_id,
    attempt_no,
    model,
    replica,
    sku,
    quantity,
    unit,
    price_id,
    unit_price_usd,
    cost_usd,
    estimated,
    billable
FROM public.record
WHERE kind = 'usage';
COMMENT ON VIEW audit.usage IS
    'One row per measured quantity of one priced thing; the base of every bill.';
COMMENT ON COLUMN audit.usage.process_instance_key IS 'Key of the process instance; one instance is one request.';
COMMENT ON COLUMN audit.usage.day IS
    'UTC day on which the instance began; filter on it and Postgres reads only that day.';
COMMENT ON COLUMN audit.usage.position IS 'Order of the instance''s rows, from 1.';
COMMENT ON COLUMN audit.usage.measured_at IS 'When the step that measured it had ended.';
COMMENT ON COLUMN audit.usage.tenant IS 'Who pays.';
COMMENT ON COLUMN audit.usage.product IS 'Product tag of the request.';
COMMENT ON COLUMN audit.usage.feature IS 'Feature tag of the request.';
COMMENT ON COLUMN audit.usage.priority IS 'Priority class of the request.';
COMMENT ON COLUMN audit.usage.process_id IS 'BPMN process that governed the request.';
COMMENT ON COLUMN audit.usage.process_version IS 'Its version, pinned when the request began.';
COMMENT ON COLUMN audit.usage.activity_instance_key IS
    'Key of the activity instance; a step that is passed twice has two.';
COMMENT ON COLUMN audit.usage.element_id IS 'Id of the element in the diagram.';
COMMENT ON COLUMN audit.usage.attempt_no IS 'Attempt that used it.';
COMMENT ON COLUMN audit.usage.model IS 'Model that used it.';
COMMENT ON COLUMN audit.usage.replica IS 'Replica that used it; null when none did.';
COMMENT ON COLUMN audit.usage.sku IS 'What was used: input_tokens, output_tokens, requests ...';
COMMENT ON COLUMN audit.usage.quantity IS 'How much, in units.';
COMMENT ON COLUMN audit.usage.unit IS 'Tokens, Requests or GPU-Seconds.';
COMMENT ON COLUMN audit.usage.price_id IS 'Price that applied; null when none is known.';
COMMENT ON COLUMN audit.usage.unit_price_usd IS 'Price of one unit, in US dollars.';
COMMENT ON COLUMN audit.usage.cost_usd IS
    'quantity times unit_price_usd; null when no price is known, never a silent zero.';
COMMENT ON COLUMN audit.usage.estimated IS 'True when the quantity was estimated rather than measured.';
COMMENT ON COLUMN audit.usage.billable IS 'False when it may not be charged for.';

CREATE VIEW audit.refusals WITH (security_invoker = true) AS
SELECT
    process_instance_key AS refusal_key,
    day,
    recorded_at AS refused_at,
    request_id,
    tenant,
    product,
    feature,
    priority,
    deadline_ms,
    error_code,
    message AS error_message,
    http_status,
    model,
    details ->> 'operation' AS operation,
    quantity::bigint AS refusals
FROM public.record
WHERE kind = 'refusal';
COMMENT ON VIEW audit.refusals IS
    'One row per request that was turned away before it began; without a request_id, a count of many.';
COMMENT ON COLUMN audit.refusals.refusal_key IS 'Key of the refusal itself; there is no process instance.';
COMMENT ON COLUMN audit.refusals.day IS
    'UTC day on which the instance began; filter on it and Postgres reads only that day.';
COMMENT ON COLUMN audit.refusals.refused_at IS 'When it was refused.';
COMMENT ON COLUMN audit.refusals.request_id IS 'UUID that the gateway minted for the request; null for a count.';
COMMENT ON COLUMN audit.refusals.tenant IS 'Who pays.';
COMMENT ON COLUMN audit.refusals.product IS 'Product tag of the request.';
COMMENT ON COLUMN audit.refusals.feature IS 'Feature tag of the request.';
COMMENT ON COLUMN audit.refusals.priority IS 'Priority class of the request.';
COMMENT ON COLUMN audit.refusals.deadline_ms IS 'Time that the client gave the request, in milliseconds.';
COMMENT ON COLUMN audit.refusals.error_code IS 'Why it was refused.';
COMMENT ON COLUMN audit.refusals.error_message IS 'The same for a person.';
COMMENT ON COLUMN audit.refusals.http_status IS 'HTTP status of the refusal.';
COMMENT ON COLUMN audit.refusals.model IS 'Model that the client named; null when it named none.';
COMMENT ON COLUMN audit.refusals.operation IS 'What was asked for: an operation or a path.';
COMMENT ON COLUMN audit.refusals.refusals IS 'How many refusals this row stands for.';

CREATE VIEW audit.incidents WITH (security_invoker = true) AS
SELECT
    incident_key,
    process_instance_key,
    day,
    recorded_at AS raised_at,
    tenant,
    product,
    feature,
    priority,
    process_id,
    process_version,
    activity_instance_key,
    element_id,
    error_code,
    message AS error_message
FROM public.record
WHERE kind = 'incident';
COMMENT ON VIEW audit.incidents IS
    'One row per fault that a person has to look at.';
COMMENT ON COLUMN audit.incidents.incident_key IS 'Key of the incident; clients get it with their error.';
COMMENT ON COLUMN audit.incidents.process_instance_key IS 'Key of the process instance; one instance is one request.';
COMMENT ON COLUMN audit.incidents.day IS
    'UTC day on which the instance began; filter on it and Postgres reads only that day.';
COMMENT ON COLUMN audit.incidents.raised_at IS 'When it was raised.';
COMMENT ON COLUMN audit.incidents.tenant IS 'Who pays.';
COMMENT ON COLUMN audit.incidents.product IS 'Product tag of the request.';
COMMENT ON COLUMN audit.incidents.feature IS 'Feature tag of the request.';
COMMENT ON COLUMN audit.incidents.priority IS 'Priority class of the request.';
COMMENT ON COLUMN audit.incidents.process_id IS 'BPMN process that governed the request.';
COMMENT ON COLUMN audit.incidents.process_version IS 'Its version, pinned when the request began.';
COMMENT ON COLUMN audit.incidents.activity_instance_key IS
    'Activity instance at which it happened; null when at none.';
COMMENT ON COLUMN audit.incidents.element_id IS 'Element at which it happened; null when at none.';
COMMENT ON COLUMN audit.incidents.error_code IS 'What kind of fault.';
COMMENT ON COLUMN audit.incidents.error_message IS 'The same for a person.';

CREATE VIEW audit.step_latency WITH (security_invoker = true) AS
SELECT
    day,
    process_id,
    process_version,
    element_id,
    max(element_name) AS element_name,
    count(*) AS passed,
    percentile_disc(0.50) WITHIN GROUP (ORDER BY duration_us) AS p50_us,
    percentile_disc(0.95) WITHIN GROUP (ORDER BY duration_us) AS p95_us,
    percentile_disc(0.99) WITHIN GROUP (ORDER BY duration_us) AS p99_us,
    max(duration_us) AS max_us
FROM public.record
WHERE kind = 'activity'
GROUP BY day, process_id, process_version, element_id;
COMMENT ON VIEW audit.step_latency IS
    'How long each step of each process version took, per UTC day. Percentiles of several days cannot be averaged: compute them from audit.steps.';
COMMENT ON COLUMN audit.step_latency.day IS 'UTC day on which the instances began.';
COMMENT ON COLUMN audit.step_latency.process_id IS 'BPMN process.';
COMMENT ON COLUMN audit.step_latency.process_version IS 'Its version.';
COMMENT ON COLUMN audit.step_latency.element_id IS 'Id of the element in the diagram.';
COMMENT ON COLUMN audit.step_latency.element_name IS 'Name that the diagram shows.';
COMMENT ON COLUMN audit.step_latency.passed IS
    'How often the step was passed; percentiles of fewer than 100 say little.';
COMMENT ON COLUMN audit.step_latency.p50_us IS
    'Half of the passes took at most this long, in microseconds; a duration that happened, not interpolated.';
COMMENT ON COLUMN audit.step_latency.p95_us IS '95 % of the passes took at most this long, in microseconds.';
COMMENT ON COLUMN audit.step_latency.p99_us IS '99 % of the passes took at most this long, in microseconds.';
COMMENT ON COLUMN audit.step_latency.max_us IS 'The longest pass, in microseconds.';
