"""Owns small process definitions for tests, and the commands that drive them.
Never reads a file or starts anything.
Called by the tests of the core and by the bench.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from itertools import pairwise
from typing import Any

from engine import __version__
from engine.bpmn.definition import (
    Binding,
    CalledDecision,
    CalledElement,
    ElementType,
    EventDefinition,
    EventKind,
    FlowNode,
    IoMapping,
    MultiInstance,
    ProcessDefinition,
    Script,
    SequenceFlow,
    Static,
    TimerDefinition,
    TimerKind,
    UserTask,
)
from engine.records import DefinitionRef, JobReport, Start, Tags
from tests.diagram_xml import xml_of

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


# --- event definitions -------------------------------------------------------------------------------------------


def timer(value: str | Say, kind: TimerKind = TimerKind.DURATION) -> EventDefinition:
    return EventDefinition(EventKind.TIMER, timer=TimerDefinition(kind, expression(value)))


def message(name: str | Say, correlation_key: str | Say | None = None) -> EventDefinition:
    """`correlation_key` starts with `=`; leave it out at a process's start event."""
    key = expression(correlation_key)
    return EventDefinition(EventKind.MESSAGE, name=expression(name), correlation_key=key)


def signal(name: str | Say) -> EventDefinition:
    return EventDefinition(EventKind.SIGNAL, name=expression(name))


def conditional(condition: str | Say) -> EventDefinition:
    return EventDefinition(EventKind.CONDITIONAL, condition=expression(condition))


def error(code: str | None = None) -> EventDefinition:
    return EventDefinition(EventKind.ERROR, code=code)


def escalation(code: str | None = None) -> EventDefinition:
    return EventDefinition(EventKind.ESCALATION, code=code)


def link(name: str) -> EventDefinition:
    return EventDefinition(EventKind.LINK, link=name)


def compensation(activity: str | None = None) -> EventDefinition:
    return EventDefinition(EventKind.COMPENSATION, activity_ref=activity)


TERMINATE = EventDefinition(EventKind.TERMINATE)


def each(
    collection: str | Say,
    item: str | None = None,
    *,
    sequential: bool = False,
    into: str | None = None,
    result: str | Say | None = None,
    until: str | Say | None = None,
) -> MultiInstance:
    """Multi-instance: pass it as `loop=` of an activity."""
    return MultiInstance(sequential, expression(collection), item, into, expression(result), expression(until))


class Diagram:
    """A process definition in the making; sequence flows are named after what they connect."""

    def __init__(self, process_id: str = "process", *, version_tag: str | None = None) -> None:
        self.process_id = process_id
        self.version_tag = version_tag
        self._declared: frozenset[str] | None = None
        self._parent: str | None = None
        self._nodes: dict[str, dict[str, Any]] = {}
        self._flows: dict[str, SequenceFlow] = {}
        self._defaults: dict[str, str] = {}

    def node(self, id: str, type: ElementType, **fields: Any) -> Diagram:
        """An element of any type, with the fields of a FlowNode."""
        self._nodes[id] = {
            "id": id,
            "name": fields.pop("name", id.replace("_", " ").capitalize()),
            "type": type,
            "parent": self._parent,
        } | fields
        return self

    def declares(self, *names: str) -> Diagram:
        """The variables that the start event's example output declares."""
        self._declared = frozenset(names)
        return self

    @contextmanager
    def inside(self, parent: str) -> Iterator[Diagram]:
        """Elements drawn meanwhile are children of this sub-process."""
        outer, self._parent = self._parent, parent
        yield self
        self._parent = outer

    def start(self, id: str = "started", event: EventDefinition | None = None, *, interrupting: bool = True) -> Diagram:
        return self.node(id, ElementType.START_EVENT, event=event, interrupting=interrupting)

    def end(self, id: str = "ended", error_code: str | None = None, *, event: EventDefinition | None = None) -> Diagram:
        return self.node(id, ElementType.END_EVENT, event=event if error_code is None else error(error_code))

    def task(
        self,
        id: str,
        *,
        retries: int = 1,
        inputs: Mapping[str, str | Say] | None = None,
        outputs: Mapping[str, str | Say] | None = None,
        **fields: Any,
    ) -> Diagram:
        work = {"topic": id, "retries": retries, "inputs": mappings(inputs), "outputs": mappings(outputs)}
        return self.node(id, ElementType.SERVICE_TASK, **work | fields)

    def gateway(self, id: str, type: ElementType = ElementType.EXCLUSIVE_GATEWAY, **fields: Any) -> Diagram:
        return self.node(id, type, **fields)

    def sub_process(self, id: str, **fields: Any) -> Diagram:
        return self.node(id, ElementType.SUB_PROCESS, **fields)

    def event_sub_process(self, id: str, **fields: Any) -> Diagram:
        return self.node(id, ElementType.EVENT_SUB_PROCESS, **fields)

    def call(
        self,
        id: str,
        process_id: str,
        binding: Binding = Binding.LATEST,
        version_tag: str | None = None,
        *,
        all_in: bool = True,
        all_out: bool = True,
        **fields: Any,
    ) -> Diagram:
        called = CalledElement(process_id, binding, version_tag, all_in, all_out)
        return self.node(id, ElementType.CALL_ACTIVITY, called=called, **fields)

    def decide(self, id: str, decision_id: str, result: str, **fields: Any) -> Diagram:
        return self.node(id, ElementType.BUSINESS_RULE_TASK, decision=CalledDecision(decision_id, result), **fields)

    def script(self, id: str, source: str | Say, result: str, **fields: Any) -> Diagram:
        return self.node(id, ElementType.SCRIPT_TASK, script=Script(expression(source), result), **fields)

    def user_task(self, id: str, user_task: UserTask | None = None, **fields: Any) -> Diagram:
        return self.node(id, ElementType.USER_TASK, user_task=user_task or UserTask(), **fields)

    def receive(self, id: str, event: EventDefinition, **fields: Any) -> Diagram:
        return self.node(id, ElementType.RECEIVE_TASK, event=event, **fields)

    def catch(self, id: str, event: EventDefinition, **fields: Any) -> Diagram:
        return self.node(id, ElementType.INTERMEDIATE_CATCH_EVENT, event=event, **fields)

    def throw(self, id: str, event: EventDefinition | None = None, **fields: Any) -> Diagram:
        return self.node(id, ElementType.INTERMEDIATE_THROW_EVENT, event=event, **fields)

    def boundary(
        self, activity: str, id: str, event: EventDefinition, *, interrupting: bool = True, **fields: Any
    ) -> Diagram:
        place = {"attached_to": activity, "interrupting": interrupting, "event": event}
        return self.node(id, ElementType.BOUNDARY_EVENT, **place | fields)

    def compensated_by(self, activity: str, handler: str) -> Diagram:
        """A service task `handler` undoes `activity`, tied to it by a compensation boundary event."""
        self.task(handler, for_compensation=True)
        return self.boundary(activity, f"{activity}_undone", compensation(), handler=handler)

    def wait(self, id: str, duration: str | Say) -> Diagram:
        return self.catch(id, timer(duration))

    def on_error(
        self,
        activity: str,
        id: str,
        code: str | None = None,
        *,
        outputs: Mapping[str, str | Say] | None = None,
    ) -> Diagram:
        return self.boundary(activity, id, error(code), outputs=mappings(outputs))

    def on_timer(
        self,
        activity: str,
        id: str,
        value: str | Say,
        *,
        kind: TimerKind = TimerKind.DURATION,
        outputs: Mapping[str, str | Say] | None = None,
    ) -> Diagram:
        return self.boundary(activity, id, timer(value, kind), outputs=mappings(outputs))

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
        incoming, outgoing = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
        for flow in self._flows.values():
            incoming[flow.target].append(flow.id)
            outgoing[flow.source].append(flow.id)
        nodes = {
            id: FlowNode(
                **fields,
                incoming=tuple(incoming[id]),
                outgoing=tuple(outgoing[id]),
                default_flow=self._defaults.get(id),
            )
            for id, fields in self._in_document_order().items()
        }
        shape = repr(
            (nodes, [(flow.id, getattr(flow.condition, "text", "")) for flow in self._flows.values()])
        ).encode()
        starts = [node.id for node in nodes.values() if node.type is ElementType.START_EVENT and node.parent is None]
        plain = [id for id in starts if nodes[id].event is None]
        return ProcessDefinition(
            process_id=self.process_id,
            name=self.process_id,
            version_tag=self.version_tag,
            resource_name=f"{self.process_id}.bpmn",
            content_hash=sha256(shape).hexdigest(),
            xml=shape,
            nodes=nodes,
            flows=dict(self._flows),
            start_id=plain[0] if plain else "",
            start_variables=self._declared,
        )

    def _in_document_order(self) -> dict[str, dict[str, Any]]:
        """A sub-process before its children, and these before what follows it."""
        children: dict[str | None, list[str]] = {}
        for id, fields in self._nodes.items():
            children.setdefault(fields["parent"], []).append(id)
        ordered: dict[str, dict[str, Any]] = {}
        waiting = children.get(None, [])[::-1]
        while waiting:
            id = waiting.pop()
            ordered[id] = self._nodes[id]
            waiting += children.get(id, [])[::-1]
        return ordered

    def to_xml(self) -> str:
        """The diagram as a BPMN file of the Camunda 8 dialect; every expression must have a text."""
        return xml_of(self.build())


def mappings(sources: Mapping[str, str | Say] | None) -> tuple[IoMapping, ...]:
    """Input or output mappings: a source by each target."""
    return tuple(IoMapping(expression(source), target) for target, source in (sources or {}).items())


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
    return Start(key, reference, __version__, request_id, Tags(), variables or {}, online, max_activity_instances)
