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
    """Flow nodes that run today, in Camunda 8's spelling of element types."""

    START_EVENT = "START_EVENT"
    END_EVENT = "END_EVENT"
    SERVICE_TASK = "SERVICE_TASK"
    EXCLUSIVE_GATEWAY = "EXCLUSIVE_GATEWAY"
    INTERMEDIATE_CATCH_EVENT = "INTERMEDIATE_CATCH_EVENT"
    BOUNDARY_EVENT = "BOUNDARY_EVENT"


class TimerKind(StrEnum):
    DATE = "date"
    DURATION = "duration"


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
class FlowNode:
    id: str
    name: str
    type: ElementType
    incoming: tuple[str, ...]  # sequence flow ids, document order
    outgoing: tuple[str, ...]
    topic: str | None = None  # service task: zeebe:taskDefinition type
    retries: int = 3  # job retries for technical failures; Camunda's default
    headers: Mapping[str, str] = field(default_factory=dict)
    inputs: tuple[IoMapping, ...] = ()
    outputs: tuple[IoMapping, ...] = ()
    default_flow: str | None = None
    attached_to: str | None = None  # boundary event: id of its activity
    interrupting: bool = True
    timer: TimerDefinition | None = None
    error_code: str | None = None  # error event: null catches every code
    catches_error: bool = False
    source_line: int = 0


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
    nodes: Mapping[str, FlowNode]  # document order
    flows: Mapping[str, SequenceFlow]
    start_id: str
    # Names that the start event's example output declares; None when it declares nothing.
    start_variables: frozenset[str] | None = None


class TopicSpec(NamedTuple):
    """What the task behind a topic reads and writes, for the checks at deployment."""

    inputs: frozenset[str]
    required: frozenset[str]
    outputs: frozenset[str]
