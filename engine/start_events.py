"""Owns which start events serve: those of the active version of each process, by what triggers them.
Never starts an instance.
Called by starts and by the timers of start events; told by whoever follows the deployments.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Literal, NamedTuple

from engine.bpmn.definition import ElementType, EventKind, FlowNode, Static, TimerDefinition
from engine.linking import DeployedDefinition
from engine.records import Key

Trigger = Literal["message", "signal", "timer"]
_TRIGGERS: dict[EventKind, Trigger] = {
    EventKind.MESSAGE: "message",
    EventKind.SIGNAL: "signal",
    EventKind.TIMER: "timer",
}


class StartEvent(NamedTuple):
    """A start event that is triggered from outside."""

    deployed: DeployedDefinition
    element_id: str
    trigger: Trigger
    name: str  # of the message or signal
    timer: TimerDefinition | None
    since_key: Key  # what was published before it began to serve is not for it, unless somebody heard it just then

    @property
    def process_id(self) -> str:
        return self.deployed.ref.process_id

    @property
    def definition_key(self) -> Key:
        return self.deployed.ref.key


class StartEvents:
    """The start events of the versions that serve. A version that serves no more takes its start events with it."""

    def __init__(self) -> None:
        self._of_process: dict[str, tuple[StartEvent, ...]] = {}
        self._named: dict[tuple[Trigger, str], tuple[StartEvent, ...]] = {}
        self.keys: dict[str, Key] = {}  # process -> definition that serves

    def serve(self, active: Collection[DeployedDefinition], now_key: Key) -> None:
        """Replace everything. No key below `now_key` is minted from now on; a version that serves already is left."""
        of_process: dict[str, tuple[StartEvent, ...]] = {}
        for deployed in active:
            process_id, before = deployed.ref.process_id, self.keys.get(deployed.ref.process_id)
            if before == deployed.ref.key:
                of_process[process_id] = self._of_process[process_id]
            else:  # the first that serves here may have served for long
                since_key = deployed.ref.key if before is None else max(now_key, deployed.ref.key)
                of_process[process_id] = tuple(_start_events(deployed, since_key))
        self._of_process = of_process
        self.keys = {deployed.ref.process_id: deployed.ref.key for deployed in active}
        named: dict[tuple[Trigger, str], tuple[StartEvent, ...]] = {}
        for events in self._of_process.values():
            for event in events:
                named[event.trigger, event.name] = (*named.get((event.trigger, event.name), ()), event)
        self._named = named

    def of_message(self, name: str) -> tuple[StartEvent, ...]:
        return self._named.get(("message", name), ())

    def of_signal(self, name: str) -> tuple[StartEvent, ...]:
        return self._named.get(("signal", name), ())

    def of_process(self, process_id: str, trigger: Trigger) -> tuple[StartEvent, ...]:
        return tuple(event for event in self._of_process.get(process_id, ()) if event.trigger == trigger)

    def all(self, trigger: Trigger) -> tuple[StartEvent, ...]:
        return tuple(event for events in self._of_process.values() for event in events if event.trigger == trigger)

    def starting(self, process_id: str, trigger: Trigger, name: str) -> StartEvent | None:
        """The start event of that process with that message or signal."""
        return next((event for event in self.of_process(process_id, trigger) if event.name == name), None)

    def timer(self, definition_key: Key, element_id: str) -> StartEvent | None:
        """The timer start event of that very version; null when the version does not serve."""
        return next(
            (
                event
                for event in self.all("timer")
                if event.definition_key == definition_key and event.element_id == element_id
            ),
            None,
        )


def _start_events(deployed: DeployedDefinition, since_key: Key) -> Iterator[StartEvent]:
    for node in deployed.program.definition.children(None):
        if node.type is ElementType.START_EVENT and node.event is not None and node.event.kind in _TRIGGERS:
            trigger = _TRIGGERS[node.event.kind]
            yield StartEvent(deployed, node.id, trigger, _name(node), node.timer, since_key)


def _name(node: FlowNode) -> str:
    name = None if node.event is None else node.event.name
    return name.text if isinstance(name, Static) else ""  # the dialect lets nothing but constants through here
