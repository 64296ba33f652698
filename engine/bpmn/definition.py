"""Owns the process definition: the graph that a diagram means, immutable, with every expression compiled.
Never reads XML, runs anything or knows SpiffWorkflow.
Called by the dialect (which builds it), lint (which judges it), spiff and core (which run it) and the renderer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from engine.feel import Expression


class ElementType(StrEnum):
    """Elements that run, in Camunda 8's spelling of element types."""

    PROCESS = "PROCESS"
    SUB_PROCESS = "SUB_PROCESS"
    EVENT_SUB_PROCESS = "EVENT_SUB_PROCESS"
    CALL_ACTIVITY = "CALL_ACTIVITY"
    MULTI_INSTANCE_BODY = "MULTI_INSTANCE_BODY"
    TASK = "TASK"
    SERVICE_TASK = "SERVICE_TASK"
    BUSINESS_RULE_TASK = "BUSINESS_RULE_TASK"
    SCRIPT_TASK = "SCRIPT_TASK"
    SEND_TASK = "SEND_TASK"
    RECEIVE_TASK = "RECEIVE_TASK"
    USER_TASK = "USER_TASK"
    MANUAL_TASK = "MANUAL_TASK"
    EXCLUSIVE_GATEWAY = "EXCLUSIVE_GATEWAY"
    INCLUSIVE_GATEWAY = "INCLUSIVE_GATEWAY"
    PARALLEL_GATEWAY = "PARALLEL_GATEWAY"
    EVENT_BASED_GATEWAY = "EVENT_BASED_GATEWAY"
    START_EVENT = "START_EVENT"
    END_EVENT = "END_EVENT"
    INTERMEDIATE_CATCH_EVENT = "INTERMEDIATE_CATCH_EVENT"
    INTERMEDIATE_THROW_EVENT = "INTERMEDIATE_THROW_EVENT"
    BOUNDARY_EVENT = "BOUNDARY_EVENT"


class EventKind(StrEnum):
    """What an event waits for or throws, in Camunda 8's spelling of event types."""

    TIMER = "TIMER"
    MESSAGE = "MESSAGE"
    SIGNAL = "SIGNAL"
    CONDITIONAL = "CONDITIONAL"
    ERROR = "ERROR"
    ESCALATION = "ESCALATION"
    COMPENSATION = "COMPENSATION"
    LINK = "LINK"
    TERMINATE = "TERMINATE"


class TimerKind(StrEnum):
    DATE = "date"
    DURATION = "duration"
    CYCLE = "cycle"


class Binding(StrEnum):
    """Which version of a called process or decision is meant."""

    LATEST = "latest"
    DEPLOYMENT = "deployment"  # the one deployed together with the caller
    VERSION_TAG = "versionTag"


@dataclass(frozen=True, slots=True)
class Static:
    """A constant where FEEL was optional (no leading `=`)."""

    text: str


@dataclass(frozen=True, slots=True)
class IoMapping:
    source: Expression | Static
    target: str


@dataclass(frozen=True, slots=True)
class TimerDefinition:
    kind: TimerKind
    value: Expression | Static


@dataclass(frozen=True, slots=True)
class EventDefinition:
    """The one event definition of an event, or of a send or receive task. Fields that its kind has no use for are
    null."""

    kind: EventKind
    timer: TimerDefinition | None = None
    name: Expression | Static | None = None  # of the message or signal; static at a process's start event
    correlation_key: Expression | None = None  # message; null at a process's start event
    code: str | None = None  # error or escalation; a catching event without one catches every code
    condition: Expression | None = None
    link: str | None = None
    activity_ref: str | None = None  # compensation throw: the one activity to compensate; null means all of the scope


@dataclass(frozen=True, slots=True)
class CalledElement:
    """The process that a call activity calls. Static, so that a Start can pin every version."""

    process_id: str
    binding: Binding = Binding.LATEST
    version_tag: str | None = None
    propagate_all_parent_variables: bool = True
    propagate_all_child_variables: bool = True


@dataclass(frozen=True, slots=True)
class CalledDecision:
    """The decision that a business rule task evaluates."""

    decision_id: str
    result_variable: str
    binding: Binding = Binding.LATEST
    version_tag: str | None = None


@dataclass(frozen=True, slots=True)
class Script:
    expression: Expression
    result_variable: str


@dataclass(frozen=True, slots=True)
class MultiInstance:
    """One inner activity for each item of a collection."""

    sequential: bool
    input_collection: Expression
    input_element: str | None = None  # the local variable that holds the item
    output_collection: str | None = None
    output_element: Expression | None = None
    completion_condition: Expression | None = None

    @property
    def output_variable(self) -> str | None:
        """The variable that the output element is, or is an entry of: each inner activity has one of its own."""
        path = [] if self.output_element is None else self.output_element.text.strip().split(".")
        return path[0].strip() if path and all(name.strip().isidentifier() for name in path) else None


@dataclass(frozen=True, slots=True)
class UserTask:
    """Whose task it is, and until when; each value FEEL or a constant."""

    assignee: Expression | Static | None = None
    candidate_groups: Expression | Static | None = None
    candidate_users: Expression | Static | None = None
    due_date: Expression | Static | None = None
    follow_up_date: Expression | Static | None = None
    priority: Expression | Static | None = None
    form_key: str | None = None


@dataclass(frozen=True, slots=True)
class FlowNode:
    """A flow node of a process, or of one of its sub-processes."""

    id: str
    name: str
    type: ElementType
    incoming: tuple[str, ...]  # sequence flow ids, document order
    outgoing: tuple[str, ...]
    parent: str | None = None  # id of the sub-process around it; null directly in the process
    # what becomes a job: service task, and business rule, script, send, user task and message throw with a topic
    topic: str | None = None  # zeebe:taskDefinition type; known at deployment
    retries: int = 3  # job retries for technical failures; Camunda's default
    headers: Mapping[str, str] = field(default_factory=dict)
    inputs: tuple[IoMapping, ...] = ()
    outputs: tuple[IoMapping, ...] = ()
    default_flow: str | None = None
    event: EventDefinition | None = None  # null: a none event
    attached_to: str | None = None  # boundary event: id of its activity
    interrupting: bool = True  # boundary event, and start event of an event sub-process
    loop: MultiInstance | None = None
    called: CalledElement | None = None
    decision: CalledDecision | None = None
    script: Script | None = None
    user_task: UserTask | None = None
    handler: str | None = None  # compensation boundary event: id of the activity that compensates
    for_compensation: bool = False  # this activity is such a handler: no flow leads here
    source_line: int = 0

    @property
    def event_kind(self) -> EventKind | None:
        return None if self.event is None else self.event.kind

    @property
    def timer(self) -> TimerDefinition | None:
        return None if self.event is None else self.event.timer

    @property
    def catches_error(self) -> bool:
        """Whether this is a boundary or start event that catches errors."""
        return self.event_kind is EventKind.ERROR and self.type is not ElementType.END_EVENT

    @property
    def error_code(self) -> str | None:
        """The code that an error event catches (null: every code) or throws."""
        return self.event.code if self.event is not None and self.event.kind is EventKind.ERROR else None


@dataclass(frozen=True, slots=True)
class SequenceFlow:
    id: str
    name: str
    source: str
    target: str
    condition: Expression | None = None


@dataclass(frozen=True, slots=True)
class ProcessDefinition:
    process_id: str
    name: str
    version_tag: str | None
    resource_name: str
    content_hash: str  # sha256 of `xml`, hex
    xml: bytes
    nodes: Mapping[str, FlowNode]  # of the process and all its sub-processes, document order, outer before inner
    flows: Mapping[str, SequenceFlow]
    start_id: str  # the none start event; "" where the process has none
    # Names that the start event's example output declares; None when it declares nothing.
    start_variables: frozenset[str] | None = None

    def children(self, parent: str | None) -> tuple[FlowNode, ...]:
        """The flow nodes directly inside a sub-process, or directly in the process for null."""
        return tuple(node for node in self.nodes.values() if node.parent == parent)


class TopicSpec(NamedTuple):
    """What the task behind a topic reads and writes, for the checks at deployment."""

    inputs: frozenset[str]
    required: frozenset[str]
    outputs: frozenset[str]
