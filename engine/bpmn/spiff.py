"""Owns SpiffWorkflow: turns a process definition into its task specs and steps its tasks; nobody else imports it.
Never evaluates an expression, keeps a variable, reads a clock or decides what an element does: it asks its host.
Called by the core, which is that host: one Program per process definition, one Execution per process instance.

What stock SpiffWorkflow 3.2 does here, and what this module does instead (stock classes stay untouched):

    predicts every task to the end, recursively       makes a task, ready at once, when the one before it completes
    finds READY tasks by walking the tree             a new task goes into a queue
    ties tasks to parents and children                a task stands alone
    walks waiting tasks after each completion         waiting is the host's: an index by job and timer
    walks the tree to see whether all is done         the tasks that are left are counted
    keeps finished tasks; the walk stops at 1,000     drops them, so a loop costs the same on every turn
    makes locks, events and data for each workflow    makes none of them
    copies data from task to task                     task.data is one empty mapping that refuses writes
    builds log extras for each change of state        no logging
    uuid4 and time.time() for each task               a number in order of creation, no time
    fires every boundary event that matches           the host names the one that catches
"""

# mypy: disable-error-code="misc"
# SpiffWorkflow ships no types, so its classes are Any and deriving from them is an error of that kind.

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Protocol

from SpiffWorkflow.bpmn.specs import BpmnProcessSpec
from SpiffWorkflow.bpmn.specs.defaults import (
    BoundaryEvent,
    EndEvent,
    ExclusiveGateway,
    IntermediateCatchEvent,
    ServiceTask,
    StartEvent,
)
from SpiffWorkflow.bpmn.specs.event_definitions.simple import NoneEventDefinition
from SpiffWorkflow.bpmn.workflow import BpmnWorkflow
from SpiffWorkflow.task import Task
from SpiffWorkflow.util.task import TaskState

from engine.bpmn.definition import ElementType, FlowNode, ProcessDefinition

_EMPTY: Mapping[str, Any] = MappingProxyType({})
_READY: int = TaskState.READY


class Host(Protocol):
    """Who decides what elements do."""

    def enter(self, token: Token) -> bool | None:
        """A token has reached its element. True: passed it; None: waits in it; False: failed there.

        Before a token passes an exclusive gateway, its `flow_id` must name the sequence flow taken.
        """


class Token(Task):
    """A SpiffWorkflow task: one visit of one element. `activity` and `payload` are the host's to use."""

    data = _EMPTY
    internal_data = _EMPTY
    last_state_change = 0
    thread_id = 0
    triggered = False
    flow_id = ""
    activity: Any = None
    payload: Any = None
    _parent = None
    _children = ()

    def __init__(self, workflow: Execution, task_spec: Any) -> None:
        # Task.__init__ draws a uuid and reads the clock: this one does the rest of it
        workflow.created += 1
        self.id = workflow.created
        self.workflow = workflow
        self.task_spec = task_spec
        self.node: FlowNode = task_spec.node  # the element that this token is in
        self._state = _READY
        workflow.tasks[self.id] = self
        workflow.ready.append(self)

    def _set_state(self, value: int) -> None:
        self._state = value


class _Element:
    """What every spec of a Program has in common; mixed in before the stock class of the element."""

    node: FlowNode
    successors: tuple[Any, ...] = ()

    def _run_hook(self, task: Token) -> bool | None:
        return task.workflow.host.enter(task)

    def _on_complete(self, task: Token) -> None:
        for spec in self.successors:
            Token(task.workflow, spec)
        task.workflow.drop(task)

    def _on_cancel(self, task: Token) -> None:
        task.workflow.drop(task)

    def _on_error(self, task: Token) -> None:
        task.workflow.drop(task)


class _StartEvent(_Element, StartEvent): ...


class _EndEvent(_Element, EndEvent): ...


class _ServiceTask(_Element, ServiceTask): ...


class _IntermediateCatchEvent(_Element, IntermediateCatchEvent): ...


class _BoundaryEvent(_Element, BoundaryEvent): ...


class _ExclusiveGateway(_Element, ExclusiveGateway):
    by_flow: Mapping[str, Any]

    def _on_complete(self, task: Token) -> None:
        Token(task.workflow, self.by_flow[task.flow_id])
        task.workflow.drop(task)


_SPECS: dict[ElementType, type[Any]] = {
    ElementType.START_EVENT: _StartEvent,
    ElementType.END_EVENT: _EndEvent,
    ElementType.SERVICE_TASK: _ServiceTask,
    ElementType.EXCLUSIVE_GATEWAY: _ExclusiveGateway,
    ElementType.INTERMEDIATE_CATCH_EVENT: _IntermediateCatchEvent,
    ElementType.BOUNDARY_EVENT: _BoundaryEvent,
}


class Program:
    """A process definition as SpiffWorkflow specs; immutable once built, shared by all its instances."""

    def __init__(self, definition: ProcessDefinition) -> None:
        self.definition = definition
        self.spec = BpmnProcessSpec(name=definition.process_id)
        # element ids may be "Start" or "End": the stock start and end join are in the way and never run
        self.spec.task_specs.clear()
        self.spec.bpmn_start_events.clear()
        self._specs = {node.id: self._make(node) for node in definition.nodes.values()}
        for spec in self._specs.values():
            self._connect(spec)
        self.spec.start = self._specs[definition.start_id]
        boundaries = [node for node in definition.nodes.values() if node.attached_to is not None]
        self._timers = _by_activity(node for node in boundaries if node.timer is not None)
        self._errors = _by_activity(node for node in boundaries if node.catches_error)

    def _make(self, node: FlowNode) -> Any:
        kwargs: dict[str, Any] = {"bpmn_name": node.name}
        if node.type not in (ElementType.SERVICE_TASK, ElementType.EXCLUSIVE_GATEWAY):
            kwargs["event_definition"] = NoneEventDefinition()  # what an event waits for is the host's to know
        if node.type is ElementType.BOUNDARY_EVENT:
            kwargs["cancel_activity"] = node.interrupting
        spec = _SPECS[node.type](self.spec, node.id, **kwargs)
        spec.node = node
        return spec

    def _connect(self, spec: Any) -> None:
        flows = [self.definition.flows[flow_id] for flow_id in spec.node.outgoing]
        for flow in flows:
            spec.connect(self._specs[flow.target])
        spec.successors = tuple(self._specs[flow.target] for flow in flows)
        spec.by_flow = {flow.id: self._specs[flow.target] for flow in flows}

    def spec_of(self, node: FlowNode) -> Any:
        """The spec of a node of this definition."""
        return self._specs[node.id]

    def timers_of(self, activity_id: str) -> tuple[FlowNode, ...]:
        """The timer boundary events of an activity, in document order."""
        return self._timers.get(activity_id, ())

    def catching(self, activity_id: str, error_code: str) -> FlowNode | None:
        """The one boundary event of an activity that catches an error: that of the code, else the catch-all."""
        events = self._errors.get(activity_id, ())
        exact = (event for event in events if event.error_code == error_code)
        return next(exact, next((event for event in events if event.error_code is None), None))


def _by_activity(events: Iterable[FlowNode]) -> dict[str, tuple[FlowNode, ...]]:
    found: dict[str, tuple[FlowNode, ...]] = {}
    for event in events:
        if event.attached_to is not None:
            found[event.attached_to] = (*found.get(event.attached_to, ()), event)
    return found


class Execution(BpmnWorkflow):
    """The tokens of one process instance. Never calls itself: an instance of any length runs in one loop."""

    def __init__(self, program: Program, host: Host) -> None:
        # as in Token: the rest of what the stock constructor does, without what nothing here uses
        self.spec = program.spec
        self.tasks: dict[int, Token] = {}
        self.program = program
        self.host = host
        self.ready: deque[Token] = deque()
        self.created = 0

    def begin(self) -> None:
        """Put the first token on the start event and step."""
        Token(self, self.spec.start)
        self.do_engine_steps()

    def do_engine_steps(self, will_complete_task: Any = None, did_complete_task: Any = None) -> None:
        """Run ready tokens in the order in which they became ready, until all wait or none is left."""
        ready = self.ready
        while ready:
            token = ready.popleft()
            if token._state == _READY:
                token.run()

    def resume(self, token: Token) -> None:
        """A waiting token has passed its element: go on from there."""
        token.complete()
        self.do_engine_steps()

    def interrupt(self, token: Token, boundary: FlowNode, payload: Any) -> None:
        """Take a waiting token away from its activity and go on from one of the activity's boundary events."""
        token.cancel()
        Token(self, self.program.spec_of(boundary)).payload = payload
        self.do_engine_steps()

    def is_completed(self) -> bool:
        return not self.tasks

    def close(self) -> None:
        """Forget all tokens and let go of the host, so that no cycle of references outlives the instance."""
        self.ready.clear()
        self.tasks.clear()
        del self.host

    def drop(self, token: Token) -> None:
        """Forget a finished token."""
        self.tasks.pop(token.id, None)
