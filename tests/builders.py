"""Owns small process definitions for tests, and the commands that drive them.
Never reads a file or starts anything.
Called by the tests of the core and by the bench.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from itertools import pairwise
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from engine.bpmn.definition import (
    ElementType,
    EventDefinition,
    EventKind,
    FlowNode,
    IoMapping,
    ProcessDefinition,
    SequenceFlow,
    Static,
    TimerDefinition,
    TimerKind,
)
from engine.records import DefinitionRef, JobReport, Start, Tags

Say = Callable[[Mapping[str, Any], Any], Any]
EMPTY_REPORT = JobReport(0, 0, 0)


class Says:
    """A stand-in for an expression: a Python function of the visible variables and the evaluation's context."""

    def __init__(self, say: Say, text: str = "=stand-in") -> None:
        self.say = say
        self.text = text

    def evaluate(self, scope: Mapping[str, Any], context: Any = None) -> Any:
        return self.say(scope, context)


def expression(source: str | Say | None) -> Any:
    """FEEL with a leading `=`, other text as a constant, a function as a stand-in."""
    if source is None:
        return None
    if callable(source):
        return Says(source)
    if source.startswith("="):
        from engine.feel import compile_expression

        return compile_expression(source[1:])
    return Static(source)


class Diagram:
    """A process definition in the making; sequence flows are named after what they connect."""

    def __init__(self, process_id: str = "process") -> None:
        self.process_id = process_id
        self._nodes: dict[str, dict[str, Any]] = {}
        self._flows: dict[str, SequenceFlow] = {}
        self._defaults: dict[str, str] = {}

    def node(self, id: str, type: ElementType, **fields: Any) -> Diagram:
        """An element of any type, with the fields of a FlowNode."""
        self._nodes[id] = {
            "id": id,
            "name": fields.pop("name", id.replace("_", " ").capitalize()),
            "type": type,
        } | fields
        return self

    def start(self, id: str = "started") -> Diagram:
        return self.node(id, ElementType.START_EVENT)

    def end(self, id: str = "ended", error_code: str | None = None) -> Diagram:
        event = None if error_code is None else EventDefinition(EventKind.ERROR, code=error_code)
        return self.node(id, ElementType.END_EVENT, event=event)

    def task(
        self,
        id: str,
        *,
        retries: int = 1,
        inputs: Mapping[str, str | Say] | None = None,
        outputs: Mapping[str, str | Say] | None = None,
    ) -> Diagram:
        return self.node(
            id,
            ElementType.SERVICE_TASK,
            topic=id,
            retries=retries,
            inputs=_mappings(inputs),
            outputs=_mappings(outputs),
        )

    def gateway(self, id: str) -> Diagram:
        return self.node(id, ElementType.EXCLUSIVE_GATEWAY)

    def wait(self, id: str, duration: str | Say) -> Diagram:
        return self.node(
            id,
            ElementType.INTERMEDIATE_CATCH_EVENT,
            event=_timer(TimerKind.DURATION, duration),
        )

    def on_error(
        self,
        activity: str,
        id: str,
        code: str | None = None,
        *,
        outputs: Mapping[str, str | Say] | None = None,
    ) -> Diagram:
        return self.node(
            id,
            ElementType.BOUNDARY_EVENT,
            attached_to=activity,
            event=EventDefinition(EventKind.ERROR, code=code),
            outputs=_mappings(outputs),
        )

    def on_timer(
        self,
        activity: str,
        id: str,
        value: str | Say,
        *,
        kind: TimerKind = TimerKind.DURATION,
        outputs: Mapping[str, str | Say] | None = None,
    ) -> Diagram:
        return self.node(
            id,
            ElementType.BOUNDARY_EVENT,
            attached_to=activity,
            event=_timer(kind, value),
            outputs=_mappings(outputs),
        )

    def flow(
        self, source: str, target: str, when: str | Say | None = None, *, default: bool = False, id: str = ""
    ) -> Diagram:
        id = id or f"{source}_to_{target}"
        self._flows[id] = SequenceFlow(id, "", source, target, expression(when))
        if default:
            self._defaults[source] = id
        return self

    def path(self, *ids: str) -> Diagram:
        """Connect elements in a row."""
        for source, target in pairwise(ids):
            self.flow(source, target)
        return self

    def build(self) -> ProcessDefinition:
        nodes = {
            id: FlowNode(
                **fields,
                incoming=tuple(flow.id for flow in self._flows.values() if flow.target == id),
                outgoing=tuple(flow.id for flow in self._flows.values() if flow.source == id),
                default_flow=self._defaults.get(id),
            )
            for id, fields in self._nodes.items()
        }
        shape = repr(
            (nodes, [(flow.id, getattr(flow.condition, "text", "")) for flow in self._flows.values()])
        ).encode()
        start_id = next(node.id for node in nodes.values() if node.type is ElementType.START_EVENT)
        return ProcessDefinition(
            process_id=self.process_id,
            name=self.process_id,
            version_tag=None,
            resource_name=f"{self.process_id}.bpmn",
            content_hash=sha256(shape).hexdigest(),
            xml=shape,
            nodes=nodes,
            flows=dict(self._flows),
            start_id=start_id,
        )

    def to_xml(self) -> str:
        """The diagram as a BPMN file of the Camunda 8 dialect; every expression must have a text."""
        definition = self.build()
        body = [_node_xml(node) for node in definition.nodes.values()]
        for flow in definition.flows.values():
            text = getattr(flow.condition, "text", None)
            condition = "" if text is None else f"<bpmn:conditionExpression>={escape(text)}</bpmn:conditionExpression>"
            ends = f"sourceRef={quoteattr(flow.source)} targetRef={quoteattr(flow.target)}"
            body.append(f"<bpmn:sequenceFlow id={quoteattr(flow.id)} {ends}>{condition}</bpmn:sequenceFlow>")
        process = "".join(body)
        return (
            '<bpmn:definitions xmlns:bpmn="http://www.omg.org/spec/BPMN/20100524/MODEL"'
            ' xmlns:zeebe="http://camunda.org/schema/zeebe/1.0" id="definitions" targetNamespace="tests">'
            f'<bpmn:process id={quoteattr(self.process_id)} isExecutable="true">{process}</bpmn:process>'
            f"{_errors_xml(definition)}</bpmn:definitions>"
        )


_TAGS = {
    ElementType.START_EVENT: "startEvent",
    ElementType.END_EVENT: "endEvent",
    ElementType.SERVICE_TASK: "serviceTask",
    ElementType.EXCLUSIVE_GATEWAY: "exclusiveGateway",
    ElementType.INTERMEDIATE_CATCH_EVENT: "intermediateCatchEvent",
    ElementType.BOUNDARY_EVENT: "boundaryEvent",
}


def _text_of(source: Any) -> str:
    return escape(source.text if isinstance(source, Static) else f"={source.text}", {'"': "&quot;"})


def _node_xml(node: FlowNode) -> str:
    attributes = f"id={quoteattr(node.id)} name={quoteattr(node.name)}"
    extensions = ""
    if node.default_flow is not None:
        attributes += f" default={quoteattr(node.default_flow)}"
    if node.attached_to is not None:
        attributes += f" attachedToRef={quoteattr(node.attached_to)}"
    if node.topic is not None:
        extensions = f'<zeebe:taskDefinition type={quoteattr(node.topic)} retries="{node.retries}"/>'
    if node.inputs or node.outputs:
        inputs = "".join(f'<zeebe:input source="{_text_of(m.source)}" target="{m.target}"/>' for m in node.inputs)
        outputs = "".join(f'<zeebe:output source="{_text_of(m.source)}" target="{m.target}"/>' for m in node.outputs)
        extensions += f"<zeebe:ioMapping>{inputs}{outputs}</zeebe:ioMapping>"
    body = f"<bpmn:extensionElements>{extensions}</bpmn:extensionElements>" if extensions else ""
    body += "".join(f"<bpmn:incoming>{flow}</bpmn:incoming>" for flow in node.incoming)
    body += "".join(f"<bpmn:outgoing>{flow}</bpmn:outgoing>" for flow in node.outgoing)
    if node.timer is not None:
        tag = "timeDate" if node.timer.kind is TimerKind.DATE else "timeDuration"
        timer = f"<bpmn:{tag}>{_text_of(node.timer.value)}</bpmn:{tag}>"
        body += f"<bpmn:timerEventDefinition>{timer}</bpmn:timerEventDefinition>"
    if node.catches_error or (node.type is ElementType.END_EVENT and node.error_code is not None):
        reference = "" if node.error_code is None else f" errorRef={quoteattr(f'error_{node.error_code}')}"
        body += f"<bpmn:errorEventDefinition{reference}/>"
    return f"<bpmn:{_TAGS[node.type]} {attributes}>{body}</bpmn:{_TAGS[node.type]}>"


def _errors_xml(definition: ProcessDefinition) -> str:
    codes = sorted({node.error_code for node in definition.nodes.values() if node.error_code is not None})
    return "".join(f'<bpmn:error id="error_{code}" name="{code}" errorCode="{code}"/>' for code in codes)


def _timer(kind: TimerKind, value: str | Say) -> EventDefinition:
    return EventDefinition(EventKind.TIMER, timer=TimerDefinition(kind, expression(value)))


def _mappings(mappings: Mapping[str, str | Say] | None) -> tuple[IoMapping, ...]:
    return tuple(IoMapping(expression(source), target) for target, source in (mappings or {}).items())


def chain(length: int) -> Diagram:
    """start, `length` service tasks, end."""
    tasks = [f"task_{i}" for i in range(length)]
    diagram = Diagram(f"chain_{length}").start()
    for task in tasks:
        diagram.task(task)
    return diagram.end().path("started", *tasks, "ended")


def start_command(
    definition: ProcessDefinition,
    variables: Mapping[str, Any] | None = None,
    *,
    key: int = 1000,
    online: bool = True,
    max_activity_instances: int = 500,
) -> Start:
    """A Start of a definition, as the gateway would send it."""
    reference = DefinitionRef(1, definition.process_id, 1, definition.content_hash)
    request_id = "0190a3c0-0000-7000-8000-000000000000"
    return Start(key, reference, "0.1.0", request_id, Tags(), variables or {}, online, max_activity_instances)
