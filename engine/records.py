"""Owns the language of the engine: keys, commands that go in, facts that are stored, and the Step that comes out.
Never holds behaviour beyond naming its own parts: NamedTuples, immutable at a fifth of a frozen dataclass's price.
Called by every room; a change here is a change of the audit's meaning and of what replay can read.

Instants are integer microseconds since the Unix epoch (UTC) and end in `_at_us`. Keys are 63-bit and time-ordered:
41 bits of milliseconds since 2024-01-01, 9 bits of writer, 13 bits of sequence. Variables are immutable JSON whose
numbers are int or Decimal.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias

Key: TypeAlias = int
Variables: TypeAlias = Mapping[str, Any]

_NONE: Variables = MappingProxyType({})

KEY_EPOCH_MS = 1_704_067_200_000  # 2024-01-01T00:00:00Z
WRITER_BITS = 9
SEQUENCE_BITS = 13
KEY_TIME_SHIFT = WRITER_BITS + SEQUENCE_BITS
MAX_KEYS_PER_COMMAND = 4_000  # half of what a millisecond holds: the next command may come in the same one
RECORD_SCHEMA_VERSION = 2
USER_TASK_TOPIC = "io.camunda.zeebe:userTask"  # Camunda 8's job type of tasks for people
MAX_DEADLINE_MS = 3_600_000  # recovery looks no further back for instances that were left open


class Tags(NamedTuple):
    """Who pays and how urgent it is; in every row of an instance."""

    tenant: str = "default"
    product: str = "none"
    feature: str = "none"
    priority: str = "normal"
    deadline_ms: int = 30_000


class DefinitionRef(NamedTuple):
    """The exact process definition that an instance is pinned to."""

    key: Key
    process_id: str
    version: int
    content_hash: str  # sha256 of the deployed file, hex; where it imports others, of its hash and theirs


class CallTarget(NamedTuple):
    """What one call activity or business rule task of an instance calls, resolved when the instance starts."""

    caller: str  # content hash of the file that holds the calling element
    element_id: str
    target: DefinitionRef


# --- what a job reports beside its variables; measured by the shell and the task, never by the core -------------


class Attempt(NamedTuple):
    """One call of one replica. Instants are null where that moment never came."""

    replica: str
    pool: str
    model: str
    model_version: str
    protocol: str  # grpc | http
    outcome: str  # ok | error | timeout | cancelled | client_disconnected
    sent_at_us: int
    done_at_us: int
    first_chunk_at_us: int | None = None
    first_token_at_us: int | None = None
    last_token_at_us: int | None = None
    chunks: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    tokens_estimated: bool = False
    finish_reason: str | None = None
    error_code: str | None = None
    grpc_status: str | None = None
    message: str | None = None
    billable: bool = True


class Decision(NamedTuple):
    """A choice and its reason in words."""

    name: str
    chosen: str | None
    reason: str
    details: Variables  # inputs, runners-up, filter counts


class Usage(NamedTuple):
    """A measured quantity of one priced thing; `cost_usd` is null when no price is known, never a silent zero."""

    sku: str
    quantity: Decimal
    unit: str  # FOCUS unit: Tokens, Requests, GPU-Seconds
    price_id: str | None
    unit_price_usd: Decimal | None
    cost_usd: Decimal | None
    estimated: bool
    billable: bool
    model: str
    replica: str | None


class JobReport(NamedTuple):
    """What the shell measured of one job."""

    queued_at_us: int
    started_at_us: int
    finished_at_us: int
    attempts: tuple[Attempt, ...] = ()
    decisions: tuple[Decision, ...] = ()
    usage: tuple[Usage, ...] = ()


# --- commands: the only way in, and the only truth; `key` is the first key that this command may mint -----------


class Start(NamedTuple):
    key: Key  # becomes the process instance's key
    definition: DefinitionRef
    engine_version: str
    request_id: str  # UUID of the request, minted by the gateway
    tags: Tags
    variables: Variables
    online: bool  # an online instance lives and dies in memory and never waits for a person
    max_activity_instances: int = 500  # above, the instance ends with LIMIT_EXCEEDED
    calls: tuple[CallTarget, ...] = ()  # everything called from here, transitively
    business_id: str | None = None
    start_event_id: str | None = None  # a start event that was triggered; null: the none start event
    start_element_ids: tuple[str, ...] = ()  # begin before these elements instead
    terminate_after_id: str | None = None  # end the instance once this element has ended
    feel_limits: tuple[tuple[str, int], ...] = ()  # bounds of its expressions other than FEEL's defaults, by name


class JobCompleted(NamedTuple):
    key: Key
    job_key: Key
    variables: Variables
    report: JobReport


class JobFailed(NamedTuple):
    key: Key
    job_key: Key
    error_code: str
    message: str
    retryable: bool
    report: JobReport
    retries: int | None = None  # tries that are left, as a worker from outside says; null: the engine counts them
    back_off_ms: int | None = None  # before the next try; null: the engine's own back-off
    variables: Variables = _NONE  # kept local to the activity


class BpmnErrorThrown(NamedTuple):
    key: Key
    job_key: Key
    error_code: str
    message: str
    variables: Variables
    report: JobReport


class JobStopped(NamedTuple):
    """A job that the core asked to stop has stopped; its activity ends now, with what was used until then."""

    key: Key
    job_key: Key
    report: JobReport


class TimerFired(NamedTuple):
    key: Key
    timer_key: Key


class EventReceived(NamedTuple):
    """A message was correlated with, or a signal was broadcast to, a subscription of this instance."""

    key: Key
    subscription_key: Key
    event_key: Key  # of the message or of the broadcast
    variables: Variables


class VariablesSet(NamedTuple):
    """Variables written from outside, at a process instance or an open activity instance."""

    key: Key
    scope_key: Key
    variables: Variables
    local: bool = False  # write them in that very scope, not in the nearest that has the name


class RetriesSet(NamedTuple):
    """How many tries a job has left, said by a person; an incident of that job stays until it is resolved."""

    key: Key
    job_key: Key
    retries: int


class IncidentResolved(NamedTuple):
    """A person has mended the cause: try again what failed."""

    key: Key
    incident_key: Key


class Cancel(NamedTuple):
    """End the instance from outside; running jobs are stopped first and report what they used."""

    key: Key
    error_code: str  # CLIENT_DISCONNECTED | CANCELLED | DEADLINE_EXCEEDED
    message: str


class Abort(NamedTuple):
    """Close an instance whose owner died: its jobs are gone and cannot report."""

    key: Key
    message: str


Command: TypeAlias = (
    Start
    | JobCompleted
    | JobFailed
    | BpmnErrorThrown
    | JobStopped
    | TimerFired
    | EventReceived
    | VariablesSet
    | RetriesSet
    | IncidentResolved
    | Cancel
    | Abort
)


# --- facts: one row each in the audit, a pure fold of the commands ----------------------------------------------


class InstanceStarted(NamedTuple):
    start: Start


class ActivityEnded(NamedTuple):
    """One activity instance (event, gateway or task), written when it ends."""

    activity_instance_key: Key
    element_id: str
    element_type: str
    element_name: str
    state: str  # completed | terminated | failed
    started_at_us: int
    ended_at_us: int
    job_key: Key | None = None
    job_queued_at_us: int | None = None
    job_started_at_us: int | None = None
    job_finished_at_us: int | None = None
    error_code: str | None = None
    message: str | None = None
    taken_flow_ids: tuple[str, ...] = ()  # sequence flows taken out of this element, for the walked path
    variables: Variables | None = None  # every variable that this activity changed, after output mapping
    scope_key: Key | None = None  # of the activity around it (sub-process, body, called process); null: the instance
    process_id: str | None = None  # of the called process that it is part of; null: the instance's own
    loop_counter: int | None = None  # which item of a multi-instance body, from 1


class TryFailed(NamedTuple):
    """A try of a job failed for a technical reason, or with an error that no event catches."""

    activity_instance_key: Key
    element_id: str
    job_key: Key
    queued_at_us: int
    started_at_us: int
    finished_at_us: int
    try_no: int  # 1-based, of its activity
    retries: int  # tries that are left
    error_code: str
    message: str
    again_at_us: int | None  # when the next try is due; null: the incident that follows stands in its way
    variables: Variables  # that the worker left behind, local to the activity
    scope_key: Key | None  # as in ActivityEnded
    process_id: str | None


class EventTaken(NamedTuple):
    """A message or a signal reached a subscription, of an activity or of an event sub-process in a scope."""

    activity_instance_key: Key | None  # null: it starts an event sub-process
    element_id: str  # of the catching event or receive task
    kind: Literal["message", "signal"]
    name: str
    correlation_key: str | None
    subscription_key: Key
    event_key: Key  # of the message or of the broadcast
    variables: Variables  # that it brought
    scope_key: Key | None
    process_id: str | None


class SignalThrown(NamedTuple):
    activity_instance_key: Key
    element_id: str
    name: str
    event_key: Key  # of the broadcast; whoever takes it says the same
    variables: Variables
    scope_key: Key | None
    process_id: str | None


class VariablesWritten(NamedTuple):
    """Somebody outside wrote variables at an activity, or without one at the process in `scope_key`."""

    activity_instance_key: Key | None
    element_id: str | None
    variables: Variables
    local: bool
    scope_key: Key | None
    process_id: str | None


class RetriesGiven(NamedTuple):
    """Somebody outside said how many tries a job has left."""

    activity_instance_key: Key
    element_id: str
    job_key: Key
    retries: int
    scope_key: Key | None
    process_id: str | None


class AttemptMade(NamedTuple):
    activity_instance_key: Key
    element_id: str
    attempt_no: int  # 1-based over the whole instance
    attempt: Attempt


class DecisionMade(NamedTuple):
    activity_instance_key: Key
    element_id: str
    decision: Decision


class UsageMeasured(NamedTuple):
    activity_instance_key: Key
    element_id: str
    attempt_no: int
    usage: Usage


class IncidentRaised(NamedTuple):
    incident_key: Key
    activity_instance_key: Key | None
    element_id: str | None
    error_code: str
    message: str


class IncidentEnded(NamedTuple):
    """An incident is over: its cause was mended and the try goes on, or its activity was ended otherwise."""

    incident_key: Key
    activity_instance_key: Key
    element_id: str
    resolved: bool


class InstanceEnded(NamedTuple):
    state: str  # completed | terminated | aborted
    end_element_id: str | None
    error_code: str | None
    message: str | None
    started_at_us: int
    ended_at_us: int
    attempts: int
    activities: int
    answered: bool = True  # whether a client waited for this


Fact: TypeAlias = (
    InstanceStarted
    | ActivityEnded
    | TryFailed
    | EventTaken
    | SignalThrown
    | VariablesWritten
    | RetriesGiven
    | AttemptMade
    | DecisionMade
    | UsageMeasured
    | IncidentRaised
    | IncidentEnded
    | InstanceEnded
)


class Refusal(NamedTuple):
    """A request that was turned away before an instance existed; a row of its own, under a key of its own.

    `times` is above 1 where refusals that could not be written one by one were counted per second, tenant and code.
    """

    key: Key
    request_id: str  # UUID minted by the gateway; "" for a count
    tags: Tags
    error_code: str
    http_status: int
    message: str
    model: str  # as the client named it; "" where it named none
    operation: str  # infer | generate | ... or the path of the request
    times: int = 1


class Record(NamedTuple):
    """A row to be: a command (position < 0: minus its ordinal, from 1) or a fact (position > 0, from 1).

    Two number lines, so that how commands are packed into rows cannot move a fact's position.
    """

    position: int
    at_us: int
    body: Command | Fact | Refusal


# --- the way out ------------------------------------------------------------------------------------------------


class Job(NamedTuple):
    """One call of a task for one activity instance. A user task is a job that only a person completes."""

    key: Key
    activity_instance_key: Key
    element_id: str
    topic: str
    headers: Mapping[str, str]
    variables: Variables  # everything visible from the activity: its own inputs first, then outwards
    execution: int  # how often this element has been entered in this instance, from 1
    attempt: int  # of this job (job retries), from 1
    retries: int = 1  # tries left, this one included
    process_instance_key: Key = 0  # of the called process that it is part of, else of the instance
    process_id: str = ""


class Subscription(NamedTuple):
    """An event that an activity, or an event sub-process of it, waits for."""

    key: Key
    activity_instance_key: Key
    element_id: str  # of the catching event or receive task
    kind: Literal["message", "signal"]
    name: str
    correlation_key: str | None  # message only
    interrupting: bool  # closed by the first event
    process_id: str


class Signal(NamedTuple):
    """A signal that the instance throws: broadcast to every subscription of that name, its own included."""

    key: Key
    element_id: str
    name: str
    variables: Variables


class Timer(NamedTuple):
    key: Key
    activity_instance_key: Key
    element_id: str
    due_at_us: int


class OpenActivity(NamedTuple):
    """An activity instance that has not ended."""

    key: Key
    element_id: str
    element_type: str
    element_name: str
    state: str  # active | terminating | incident
    started_at_us: int
    scope_key: Key  # of the activity or process instance around it
    process_instance_key: Key  # of the called process that it is part of, else of the instance
    process_id: str
    incident_key: Key | None


class OpenIncident(NamedTuple):
    """An incident that waits for a person."""

    key: Key
    activity_instance_key: Key
    element_id: str
    error_code: str
    message: str
    raised_at_us: int
    job_key: Key | None
    process_instance_key: Key
    process_id: str


OutcomeState: TypeAlias = Literal["completed", "terminated", "aborted"]


class Outcome(NamedTuple):
    """How the instance ended. `error` is the process variable of that name, or what ended the instance from outside:
    an object with code, message and retryable. Null means success."""

    state: OutcomeState
    end_element_id: str | None
    error: Variables | None
    variables: Variables
    incident_key: Key | None = None


class Step(NamedTuple):
    """Everything that one apply asks of the shell; nothing else leaves the core."""

    records: tuple[Record, ...]
    start: tuple[Job, ...]
    stop: tuple[Key, ...]  # job keys: cancel, then send JobStopped
    arm: tuple[Timer, ...]
    disarm: tuple[Key, ...]  # timer keys
    outcome: Outcome | None
    next_key: Key  # first key not minted yet
    subscribe: tuple[Subscription, ...] = ()
    unsubscribe: tuple[Key, ...] = ()  # subscription keys
    broadcast: tuple[Signal, ...] = ()
