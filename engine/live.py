"""Owns one process instance in memory: its state, its inbox, and the jobs and timers that the shell holds for it.
Never acts by itself; the runtime works on it.
Called by the runtime.
"""

from __future__ import annotations

import asyncio
from collections import deque

from engine.core.instance import ProcessInstance
from engine.job import Fresh, RunningJob
from engine.records import Key, Record, Start
from engine.run import Run
from engine.store.encoding import InstanceContext


class Live:
    """One process instance, from its Start until it leaves memory."""

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
        "queued",
        "records",
        "run",
        "start",
        "timers",
    )

    def __init__(self, instance: ProcessInstance, start: Start, run: Run, deadline_at_us: int):
        self.instance = instance
        self.start = start
        self.context = InstanceContext.of_start(start)
        self.run = run
        self.deadline_at_us = deadline_at_us
        self.at_us = 0
        self.inbox: deque[tuple[RunningJob | None, Fresh]] = deque()
        self.jobs: dict[Key, RunningJob] = {}
        self.timers: dict[Key, asyncio.TimerHandle] = {}
        self.records: list[Record] = []  # not yet handed to the journal
        self.flush = False
        self.busy = False  # its inbox is being worked on, further up this stack
        self.queued = False  # waits for the next slice
        self.left = False  # has left memory
