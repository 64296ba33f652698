"""Owns random diagrams over every element: well-formed blocks within blocks, and then flows drawn at random.
Never runs them.
Called by the property tests of the core and by the simulation of crashes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from engine.bpmn.definition import ElementType, EventDefinition, MultiInstance, TimerKind, UserTask
from engine.bpmn.spiff import Program
from tests.builders import (
    TERMINATE,
    Diagram,
    compensation,
    conditional,
    each,
    error,
    escalation,
    link,
    mappings,
    message,
    signal,
    timer,
)

CONDITIONS = ("=x < 1", "=x > 0", "=true", "=false", "=x = y", "=random number() < 0.5")
CODES = ("A", "B")
AWAITED: tuple[EventDefinition, ...] = (
    timer("PT1S"),
    timer("PT0.0005S"),
    message("m", "=x"),
    message("n", '="k"'),
    signal("s"),
    conditional("=x > 1"),
)
BORDER = (*AWAITED, timer("R2/PT1S", TimerKind.CYCLE), error("A"), error(), escalation("A"), escalation())
MAPPINGS: tuple[dict[str, str], ...] = (
    {},
    {},
    {"x": "=x"},
    {"y": "=if x = null then 0 else 1"},
    {"x": "=1", "z": "=2"},
    {"z": "=if x = 3 then function(a) a else x"},  # which is no JSON
)
DEPTH = 3


class Drawing:
    """A diagram in the making and the numbers that its ids have used up."""

    def __init__(self, draw: st.DrawFn, prefix: str = "") -> None:
        self.draw = draw
        self.prefix = prefix
        self.diagram = Diagram(f"{prefix}process")
        self.used = 0
        self.scopes: dict[str, tuple[list[str], list[str]]] = {}  # sources and targets of flows, by scope
        self.calls: dict[str, Program] = {}

    def id(self, kind: str) -> str:
        self.used += 1
        return f"{self.prefix}{kind}_{self.used}"

    def one(self, *choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    def often(self, times: int) -> bool:
        """Once in so many times."""
        return self.draw(st.integers(1, times)) == 1

    # --- scopes -----------------------------------------------------------------------------------------------

    def scope(self, depth: int) -> None:
        """A start event, a block, an end event, and perhaps event sub-processes."""
        self.fill(self.diagram.start, depth)
        if depth and self.often(3):
            self.reaction(depth - 1)

    def fill(self, start: Callable[[str], Any], depth: int) -> None:
        start_id = self.id("start")
        start(start_id)
        first, last = self.block(depth)
        self.diagram.path(start_id, first)
        self.end(last)

    def end(self, last: str) -> None:
        end_id = self.id("end")
        event = self.one(None, None, None, None, TERMINATE, error("A"), escalation("A"), compensation(), signal("s"))
        self.diagram.end(end_id, event=event).path(last, end_id)

    def reaction(self, depth: int) -> None:
        reaction_id = self.id("reaction")
        event = self.one(*AWAITED, error("A"), error(), escalation("A"))
        interrupting = event.kind.value == "ERROR" or self.draw(st.booleans())
        self.diagram.event_sub_process(reaction_id)
        with self.diagram.inside(reaction_id):
            self.fill(lambda start_id: self.diagram.start(start_id, event, interrupting=interrupting), depth)

    # --- blocks: each has one way in and one way out ----------------------------------------------------------

    def block(self, depth: int) -> tuple[str, str]:
        simple: list[Callable[[], tuple[str, str]]] = [self.task, self.task, self.wait, self.throw]
        nested: list[Callable[[int], tuple[str, str]]] = [
            self.sequence,
            self.choice,
            self.fork,
            self.loop,
            self.sub_process,
            self.first_event,
            self.call,
        ]
        if depth == 0 or self.often(3):
            return self.one(*simple)()
        return self.one(*nested)(depth - 1)

    def task(self) -> tuple[str, str]:
        task_id = self.id("task")
        fields = self.mapped()
        if self.often(4):
            fields["loop"] = self.items("=[x, 2, null]")
        match self.one("service", "service", "script", "user", "receive", "manual"):
            case "service":
                self.diagram.node(task_id, ElementType.SERVICE_TASK, topic=task_id, retries=self.one(1, 2), **fields)
                if "loop" not in fields and self.often(5):
                    self.diagram.compensated_by(task_id, self.id("undo"))
            case "script":
                self.diagram.script(task_id, "=if x = null then 0 else 1", "x", **fields)
            case "user":
                self.diagram.user_task(task_id, UserTask(), **fields)
            case "receive":
                self.diagram.receive(task_id, message("m", "=x"), **fields)
            case _:
                self.diagram.node(task_id, ElementType.MANUAL_TASK, **fields)
        self.borders(task_id)
        return task_id, task_id

    def items(self, collection: str) -> MultiInstance:
        until = self.one(None, None, "=numberOfCompletedInstances > 0", "=if x = 3 then null else x > 1")
        result = self.one("=item", "=x", "=if x = 3 then function(a) a else z")
        return each(collection, "item", sequential=self.draw(st.booleans()), into="all", result=result, until=until)

    def mapped(self) -> dict[str, Any]:
        return {"inputs": mappings(self.one(*MAPPINGS)), "outputs": mappings(self.one(*MAPPINGS))}

    def borders(self, activity_id: str) -> None:
        """Boundary events, each with a way of its own to an end."""
        taken: set[tuple[Any, Any]] = set()
        for _ in range(self.one(0, 0, 1, 2)):
            event = self.one(*BORDER)
            if (event.kind, event.code) in taken and event.kind.value in ("ERROR", "ESCALATION"):
                continue
            taken.add((event.kind, event.code))
            interrupting = event.kind.value == "ERROR" or (
                self.draw(st.booleans()) and not (event.timer and event.timer.kind is TimerKind.CYCLE)
            )
            border_id = self.id("border")
            outputs = mappings(self.one(*MAPPINGS))
            self.diagram.boundary(activity_id, border_id, event, interrupting=interrupting, outputs=outputs)
            if self.often(2):
                task_id = self.id("after")
                self.diagram.task(task_id).path(border_id, task_id)
                border_id = task_id
            self.end(border_id)

    def wait(self) -> tuple[str, str]:
        wait_id = self.id("wait")
        self.diagram.catch(wait_id, self.one(*AWAITED), outputs=mappings(self.one(*MAPPINGS)))
        return wait_id, wait_id

    def throw(self) -> tuple[str, str]:
        throw_id = self.id("throw")
        event = self.one(None, signal("s"), escalation("A"), escalation("B"), compensation(), link(throw_id))
        self.diagram.throw(throw_id, event)
        if event is not None and event.link:
            catch_id = self.id("landed")
            self.diagram.catch(catch_id, link(throw_id))
            return throw_id, catch_id
        return throw_id, throw_id

    def sequence(self, depth: int) -> tuple[str, str]:
        first, middle = self.block(depth)
        second, last = self.block(depth)
        self.diagram.path(middle, second)
        return first, last

    def choice(self, depth: int) -> tuple[str, str]:
        return self._branches(ElementType.EXCLUSIVE_GATEWAY, depth, conditions=True)

    def fork(self, depth: int) -> tuple[str, str]:
        kind = self.one(ElementType.PARALLEL_GATEWAY, ElementType.INCLUSIVE_GATEWAY)
        return self._branches(kind, depth, conditions=kind is ElementType.INCLUSIVE_GATEWAY)

    def _branches(self, kind: ElementType, depth: int, *, conditions: bool) -> tuple[str, str]:
        split, join = self.id("split"), self.id("join")
        self.diagram.gateway(split, kind).gateway(join, kind)
        for i in range(self.one(2, 2, 3)):
            first, last = self.block(depth)
            condition = self.one(*CONDITIONS) if conditions and i else None
            self.diagram.flow(split, first, condition, default=conditions and not i).path(last, join)
        return split, join

    def loop(self, depth: int) -> tuple[str, str]:
        enter, leave = self.id("again"), self.id("enough")
        self.diagram.gateway(enter).gateway(leave)
        first, last = self.block(depth)
        back = self.id("once_more")
        self.diagram.wait(back, "PT1S").path(enter, first).path(last, leave).path(back, enter)
        self.diagram.flow(leave, back, self.one(*CONDITIONS))
        after = self.id("after")
        self.diagram.throw(after).flow(leave, after, default=True)
        return enter, after

    def sub_process(self, depth: int) -> tuple[str, str]:
        sub_id = self.id("sub")
        fields = self.mapped()
        if self.often(5):
            fields["loop"] = self.items("=[1, x]")
        self.diagram.sub_process(sub_id, **fields)
        with self.diagram.inside(sub_id):
            self.scope(depth)
        self.borders(sub_id)
        return sub_id, sub_id

    def first_event(self, depth: int) -> tuple[str, str]:
        gateway, join = self.id("first"), self.id("join")
        self.diagram.gateway(gateway, ElementType.EVENT_BASED_GATEWAY).gateway(join)
        for _ in range(2):
            event_id = self.id("event")
            self.diagram.catch(event_id, self.one(*AWAITED)).path(gateway, event_id, join)
        return gateway, join

    def call(self, depth: int) -> tuple[str, str]:
        call_id = self.id("call")
        child = Drawing(self.draw, f"{call_id}_")
        child.scope(min(depth, 1))
        self.calls[call_id] = Program(child.diagram.build(), child.calls)
        all_in, all_out = self.draw(st.booleans()), self.draw(st.booleans())
        fields = self.mapped()
        if self.often(5):
            fields["loop"] = self.items("=[1, x]")
        self.diagram.call(call_id, child.diagram.process_id, all_in=all_in, all_out=all_out, **fields)
        self.borders(call_id)
        return call_id, call_id


@st.composite
def structured(draw: st.DrawFn) -> Program:
    """A program of blocks within blocks: what splits is joined, what is entered is left."""
    drawing = Drawing(draw)
    drawing.scope(draw(st.integers(0, DEPTH)))
    return Program(drawing.diagram.build(), drawing.calls)


@st.composite
def unstructured(draw: st.DrawFn) -> Program:
    """The same, with flows between elements of one scope that no designer would draw."""
    drawing = Drawing(draw)
    drawing.scope(draw(st.integers(1, DEPTH)))
    definition = drawing.diagram.build()
    for number in range(draw(st.integers(1, 4))):
        leaving = [
            node
            for node in definition.nodes.values()
            if node.outgoing
            and node.type not in (ElementType.EVENT_BASED_GATEWAY, ElementType.EXCLUSIVE_GATEWAY)
            and node.type is not ElementType.INCLUSIVE_GATEWAY
        ]
        source = draw(st.sampled_from(leaving))
        entered = [
            node
            for node in definition.children(source.parent)
            if node.incoming and not _follows_an_event_based_gateway(definition, node)
        ]
        target = draw(st.sampled_from(entered))
        drawing.diagram.flow(source.id, target.id, id=f"stray_{number}")
    return Program(drawing.diagram.build(), drawing.calls)


def _follows_an_event_based_gateway(definition: Any, node: Any) -> bool:
    sources = (definition.nodes[definition.flows[flow].source] for flow in node.incoming)
    return any(source.type is ElementType.EVENT_BASED_GATEWAY for source in sources)
