"""Owns SpiffWorkflow: turns a process definition into its task specs and steps its tasks; nobody else imports it.
Never evaluates an expression, keeps a variable, reads a clock or decides what an element does: it asks its host.
Called by the core, which is that host: one Program per process definition, one Execution per process instance.

What stock SpiffWorkflow 3.2 does here, and what this module does instead (stock classes stay untouched):

    predicts every task to the end, recursively       makes a task, ready at once, when the one before it completes
    finds READY tasks by walking the tree             a new task goes into a queue
    ties tasks to parents and children                a task stands alone
    walks waiting tasks after each completion         waiting is the host's: an index by job, timer and subscription
    walks the tree to see whether all is done         the tokens that are left in each scope are counted
    makes a workflow for each sub-process             makes none: a token knows its scope
    joins by walking all tasks                        the host counts the arrivals by sequence flow
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
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Protocol

from SpiffWorkflow.bpmn.specs import BpmnProcessSpec, defaults
from SpiffWorkflow.bpmn.specs.event_definitions.multiple import MultipleEventDefinition
from SpiffWorkflow.bpmn.specs.event_definitions.simple import NoneEventDefinition
from SpiffWorkflow.bpmn.workflow import BpmnWorkflow
from SpiffWorkflow.task import Task
from SpiffWorkflow.util.task import TaskState

from engine.bpmn.definition import ElementType, FlowNode, ProcessDefinition
from engine.bpmn.structure import Structure, body_and_inner
from engine.dmn import Decision

_EMPTY: Mapping[str, Any] = MappingProxyType({})
_READY: int = TaskState.READY


class Scope(Protocol):
    """What tokens run in: a process, a sub-process, a multi-instance body. It knows how many they are."""

    tokens: int


class Host(Protocol):
    """Who decides what elements do."""

    halted: bool  # no token runs any more

    def enter(self, token: Token) -> bool | None:
        """A token has reached its element. True: passed it; None: waits in it; False: failed there.

        A token passes over all outgoing flows of its element, or over those that its `taken` names.
        """

    def leave(self, scope: Any) -> None:
        """The last token of a scope is gone."""

    def settle(self) -> bool:
        """No token is ready. Whether the host has made one so."""


class Token(Task):
    """A SpiffWorkflow task: one visit of one element. `activity` and `payload` are the host's to use."""

    data = _EMPTY
    internal_data = _EMPTY
    last_state_change = 0
    thread_id = 0
    triggered = False
    taken: tuple[str, ...] | None = None  # flows to pass over; null: all
    activity: Any = None
    payload: Any = None  # what the host gave this token on its way
    forward: Any = None  # the payload of the tokens that come after this one
    _parent = None
    _children = ()

    def __init__(self, workflow: Execution, task_spec: Any, scope: Any, came_by: str = "") -> None:
        # Task.__init__ draws a uuid and reads the clock: this one does the rest of it
        workflow.created += 1
        self.id = workflow.created
        self.workflow = workflow
        self.task_spec = task_spec
        self.node: FlowNode = task_spec.node  # the element that this token is in
        self.scope = scope
        self.came_by = came_by  # the sequence flow; "" for the first token of a scope and for events
        self._state = _READY
        scope.tokens += 1
        workflow.ready.append(self)

    def _set_state(self, value: int) -> None:
        self._state = value

    @property
    def is_ready(self) -> bool:
        """Whether it has not reached its element yet."""
        return bool(self._state == _READY)


class _Element:
    """What every spec of a Program has in common; mixed in before the stock class of the element."""

    node: FlowNode
    successors: tuple[tuple[str, Any], ...] = ()
    by_flow: Mapping[str, Any]

    def _run_hook(self, task: Token) -> bool | None:
        return task.workflow.host.enter(task)

    def _on_complete(self, task: Token) -> None:
        workflow, scope = task.workflow, task.scope
        if task.taken is None:
            for flow_id, spec in self.successors:
                Token(workflow, spec, scope, flow_id)
        else:
            for flow_id in task.taken:
                Token(workflow, self.by_flow[flow_id], scope, flow_id).payload = task.forward
        workflow.drop(task)

    def _on_cancel(self, task: Token) -> None:
        task.workflow.drop(task)

    def _on_error(self, task: Token) -> None:
        task.workflow.drop(task)


def _element(stock: type[Any]) -> type[Any]:
    return type(f"_{stock.__name__}", (_Element, stock), {})


_SPECS: dict[ElementType, type[Any]] = {
    ElementType.SUB_PROCESS: _element(defaults.SubWorkflowTask),
    ElementType.EVENT_SUB_PROCESS: _element(defaults.EventSubprocess),
    ElementType.CALL_ACTIVITY: _element(defaults.CallActivity),
    ElementType.TASK: _element(defaults.NoneTask),
    ElementType.SERVICE_TASK: _element(defaults.ServiceTask),
    ElementType.BUSINESS_RULE_TASK: _element(defaults.ServiceTask),  # stock's own is made of DMN in Python
    ElementType.SCRIPT_TASK: _element(defaults.ScriptTask),
    ElementType.SEND_TASK: _element(defaults.SendTask),
    ElementType.RECEIVE_TASK: _element(defaults.ReceiveTask),
    ElementType.USER_TASK: _element(defaults.UserTask),
    ElementType.MANUAL_TASK: _element(defaults.ManualTask),
    ElementType.EXCLUSIVE_GATEWAY: _element(defaults.ExclusiveGateway),
    ElementType.INCLUSIVE_GATEWAY: _element(defaults.InclusiveGateway),
    ElementType.PARALLEL_GATEWAY: _element(defaults.ParallelGateway),
    ElementType.EVENT_BASED_GATEWAY: _element(defaults.EventBasedGateway),
    ElementType.START_EVENT: _element(defaults.StartEvent),
    ElementType.END_EVENT: _element(defaults.EndEvent),
    ElementType.INTERMEDIATE_CATCH_EVENT: _element(defaults.IntermediateCatchEvent),
    ElementType.INTERMEDIATE_THROW_EVENT: _element(defaults.IntermediateThrowEvent),
    ElementType.BOUNDARY_EVENT: _element(defaults.BoundaryEvent),
}
_PARALLEL_BODY = _element(defaults.ParallelMultiInstanceTask)
_SEQUENTIAL_BODY = _element(defaults.SequentialMultiInstanceTask)
_CALLING = frozenset({ElementType.SUB_PROCESS, ElementType.EVENT_SUB_PROCESS, ElementType.CALL_ACTIVITY})
_WITHOUT_EVENT = _CALLING | {
    ElementType.TASK,
    ElementType.SERVICE_TASK,
    ElementType.BUSINESS_RULE_TASK,
    ElementType.SCRIPT_TASK,
    ElementType.USER_TASK,
    ElementType.MANUAL_TASK,
    ElementType.EXCLUSIVE_GATEWAY,
    ElementType.INCLUSIVE_GATEWAY,
    ElementType.PARALLEL_GATEWAY,
}


class Program:
    """A process definition as SpiffWorkflow specs, linked with all that it calls; immutable once built, shared by all
    its instances.

    `calls` and `decisions` name the called programs and decisions by the id of the calling element.
    """

    def __init__(
        self,
        definition: ProcessDefinition,
        calls: Mapping[str, Program] = _EMPTY,
        decisions: Mapping[str, Decision] = _EMPTY,
    ) -> None:
        self.definition = definition
        self.structure = Structure(definition)
        self.calls = calls
        self.decisions = decisions
        self.spec = BpmnProcessSpec(name=definition.process_id)
        # element ids may be "Start" or "End": the stock start and end join are in the way and never run
        self.spec.task_specs.clear()
        self.spec.bpmn_start_events.clear()
        self._inner: dict[str, Any] = {}
        self._specs = {node.id: self._make(node) for node in definition.nodes.values()}
        for spec in self._specs.values():
            self._connect(spec)

    def _make(self, node: FlowNode) -> Any:
        if node.loop is None:
            return self._spec(node, _SPECS[node.type], node.id)
        body, inner = body_and_inner(node)
        self._inner[node.id] = self._spec(inner, _SPECS[node.type], f"{node.id} [each]")
        stock = _SEQUENTIAL_BODY if node.loop.sequential else _PARALLEL_BODY
        return self._spec(body, stock, node.id, task_spec=self._inner[node.id].name)

    def _spec(self, node: FlowNode, stock: type[Any], name: str, **kwargs: Any) -> Any:
        kwargs["bpmn_name"] = node.name
        if node.type in _CALLING:
            kwargs["subworkflow_spec"] = node.id
        elif node.type is ElementType.SCRIPT_TASK:
            kwargs["script"] = ""  # evaluated by the host
        elif node.type is ElementType.EVENT_BASED_GATEWAY:
            kwargs["event_definition"] = MultipleEventDefinition()
        elif node.type not in _WITHOUT_EVENT and node.type is not ElementType.MULTI_INSTANCE_BODY:
            kwargs["event_definition"] = NoneEventDefinition()  # what an event waits for is the host's to know
        if node.type is ElementType.BOUNDARY_EVENT:
            kwargs["cancel_activity"] = node.interrupting
        spec = stock(self.spec, name, **kwargs)
        spec.node = node
        return spec

    def _connect(self, spec: Any) -> None:
        flows = [self.definition.flows[flow_id] for flow_id in spec.node.outgoing]
        for flow in flows:
            spec.connect(self._specs[flow.target])
        spec.successors = tuple((flow.id, self._specs[flow.target]) for flow in flows)
        spec.by_flow = dict(spec.successors)

    def spec_of(self, node: FlowNode) -> Any:
        """The spec of a node of this definition."""
        return self._specs[node.id]

    def each_of(self, body: FlowNode) -> Any:
        """The spec of what a multi-instance body runs for each item."""
        return self._inner[body.id]


class Execution(BpmnWorkflow):
    """The tokens of one process instance. Never calls itself: an instance of any length runs in one loop."""

    def __init__(self, program: Program, host: Host) -> None:
        # as in Token: the rest of what the stock constructor does, without what nothing here uses
        self.spec = program.spec
        self.host = host
        self.ready: deque[Token] = deque()
        self.emptied: deque[Any] = deque()  # scopes whose last token is gone
        self.created = 0

    def place(self, spec: Any, scope: Any, payload: Any = None) -> Token:
        """A new token before an element; it enters with the next steps."""
        token = Token(self, spec, scope)
        token.payload = payload
        return token

    def occupy(self, spec: Any, scope: Any) -> Token:
        """A new token that waits in its element already."""
        token = Token(self, spec, scope)
        self.ready.pop()
        token._set_state(TaskState.STARTED)
        return token

    def do_engine_steps(self, will_complete_task: Any = None, did_complete_task: Any = None) -> None:
        """Run ready tokens in the order in which they became ready, until all wait or none is left."""
        ready, emptied, host = self.ready, self.emptied, self.host
        while not host.halted:
            if emptied:
                host.leave(emptied.popleft())
            elif ready:
                token = ready.popleft()
                if token._state == _READY:
                    token.run()
            elif not host.settle():
                return

    def withdraw(self, scope: Any) -> None:
        """Cancel the tokens of a scope that have not reached their element."""
        for token in [token for token in self.ready if token.scope is scope]:
            token.cancel()

    def close(self) -> None:
        """Forget all tokens and let go of the host, so that no cycle of references outlives the instance."""
        self.ready.clear()
        self.emptied.clear()
        del self.host

    def drop(self, token: Token) -> None:
        """Forget a finished token."""
        scope = token.scope
        scope.tokens -= 1
        if not scope.tokens:
            self.emptied.append(scope)
