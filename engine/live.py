"""Owns one process instance in memory: its state, its inbox, and the jobs and timers that the shell holds for it.
Never acts by itself; the runtime works on it.
Called by the runtime.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias, final

from engine.core.instance import ProcessInstance
from engine.errors import Rejected
from engine.job import Fresh, RunningJob
from engine.records import Key, Record, Start
from engine.run import Run
from engine.store.encoding import InstanceContext

Notice: TypeAlias = tuple[Callable[..., None], tuple[Any, ...]]


@final
class Told:
    """A command from outside, and whoever waits to hear what became of it."""

    __slots__ = ("applied", "fresh")

    def __init__(self, fresh: Fresh, applied: asyncio.Future[Live] | None):
        self.fresh = fresh
        self.applied = applied  # none: nobody waits

    def accept(self, live: Live) -> None:
        if self.applied is not None and not self.applied.done():
            self.applied.set_result(live)

    def refuse(self, reason: Rejected) -> None:
        if self.applied is not None and not self.applied.done():
            self.applied.set_exception(reason)


class Live:
    """One process instance, from its Start, or from when it was loaded, until it leaves memory."""

    __slots__ = (
        "at_us",
        "busy",
        "context",
        "deadline_at_us",
        "flush",
        "inbox",
        "instance",
        "jobs",
        "left",
        "notices",
        "offered",
        "operational",
        "queued",
        "records",
        "run",
        "start",
        "timers",
        "watched",
    )

    def __init__(
        self,
        instance: ProcessInstance,
        start: Start,
        run: Run,
        deadline_at_us: int = 0,
        context: InstanceContext | None = None,
    ):
        self.instance = instance
        self.start = start
        self.context = context or InstanceContext.of_start(start)
        self.run = run
        self.operational = not start.online
        self.deadline_at_us = deadline_at_us  # 0: each job has a deadline of its own
        self.at_us = 0
        self.inbox: deque[tuple[RunningJob | Told | None, Fresh]] = deque()
        self.jobs: dict[Key, RunningJob] = {}
        self.timers: dict[Key, asyncio.TimerHandle] = {}  # of an online instance; the others' are alarms
        self.records: list[Record] = []  # not yet handed to the journal
        self.offered: set[Key] = set()  # jobs that somebody else does
        self.notices: list[Notice] = []  # for when those records are durable
        self.watched = self.operational  # somebody else is told what it waits for
        self.flush = False
        self.busy = False  # its inbox is being worked on, further up this stack
        self.queued = False  # waits for the next slice
        self.left = False  # has left memory
