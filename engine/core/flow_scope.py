"""Owns the flow scope: the inside of a process, a sub-process or a multi-instance body, and the tokens in it.
Never decides when it opens or ends.
Called by the course of an instance and its elements.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from engine.bpmn.definition import FlowNode
from engine.bpmn.spiff import Program, Token
from engine.core.scopes import Scope, copied
from engine.records import Key, Variables

if TYPE_CHECKING:
    from engine.core.activity import Activity, Caught

NO_REACTIONS = ""  # the scope id of a multi-instance body: event sub-processes belong to what it runs


class Compensable(NamedTuple):
    """A completed activity that can be compensated: by its handler, or by those of the activities inside it."""

    element_id: str
    handler: FlowNode | None
    local: Variables  # of the sub-process around it, where that has ended
    inner: tuple[Compensable, ...] = ()


class Items:
    """What a multi-instance body works through."""

    __slots__ = ("all", "completed", "next", "outputs", "satisfied", "terminated")

    def __init__(self, items: list[Any], collects: bool) -> None:
        self.all = items
        self.next = 0  # the first that has not been started
        self.completed = 0
        self.terminated = 0
        self.outputs: list[Any] | None = [None] * len(items) if collects else None
        self.satisfied = False  # by the completion condition

    def picture(self) -> tuple[Any, ...]:
        return copied(self.all), self.next, self.completed, self.terminated, copied(self.outputs), self.satisfied


class FlowScope:
    """`key` is the activity instance that it is the inside of, or the process instance."""

    __slots__ = (
        "activities",
        "arrivals",
        "compensable",
        "draws",
        "fact_key",
        "fact_process_id",
        "interrupted",
        "items",
        "key",
        "left",
        "owner",
        "parked",
        "pending",
        "process_key",
        "program",
        "scope_id",
        "started_at_us",
        "tokens",
        "tries",
        "variables",
        "waits",
    )

    def __init__(
        self,
        key: Key,
        owner: Activity | None,
        program: Program,
        scope_id: str | None,
        variables: Scope,
        process_key: Key,
        at_us: int,
    ) -> None:
        self.key = key
        self.owner = owner  # null: the process instance itself
        self.program = program
        self.scope_id = scope_id  # of the sub-process; null: the process
        self.variables = variables
        self.process_key = process_key  # of the called process that it is part of, else of the instance
        self.started_at_us = at_us
        self.tokens = 0  # counted by the execution
        self.activities: dict[Key, Activity] = {}  # open directly in here, in order of their start
        self.waits: tuple[Key, ...] = ()  # of its event sub-processes
        self.arrivals: dict[str, dict[str, deque[Token]]] = {}  # tokens at joins, by gateway and sequence flow
        self.parked = 0  # how many these are
        self.interrupted = False  # by an event sub-process: no other one starts
        self.pending: tuple[FlowNode, Caught] | None = None  # the event sub-process start that waits for the rest
        self.left = False
        self.items: Items | None = None
        self.compensable: list[Compensable] = []
        self.draws = 0  # of chance, where there is no owner that draws
        self.tries = 0
        self.fact_key: Key | None = None if owner is None else key
        self.fact_process_id: str | None = None

    def picture(self) -> tuple[Any, ...]:
        """What is open in here, as values that compare."""
        arrivals = [
            (gateway, [(flow, len(tokens)) for flow, tokens in flows.items()])
            for gateway, flows in self.arrivals.items()
        ]
        return (
            self.key,
            self.scope_id,
            self.process_key,
            (self.tokens, self.draws),
            self.waits,
            (arrivals, self.parked),
            (self.interrupted, self.pending and (self.pending[0].id, *self.pending[1]), self.left),
            self.items and self.items.picture(),
            [_pictured(each) for each in self.compensable],
            copied(self.variables.local),
            [activity.picture() for activity in self.activities.values()],
        )


def _pictured(each: Compensable) -> tuple[Any, ...]:
    handler = each.handler and each.handler.id
    return each.element_id, handler, dict(each.local), [_pictured(inner) for inner in each.inner]
