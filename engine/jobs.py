"""Owns the jobs of instances in memory: a task of this process does them, or somebody outside to whom they are offered.
Never applies a command, and never decides which jobs there are.
Called by the inboxes, which start and stop jobs; each result goes back into its instance's inbox.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Protocol

from engine.errors import LeaseLost, Rejected
from engine.job import Fresh, RunningJob, unknown_topic
from engine.keys import KeySource
from engine.live import Live, Told
from engine.records import Job, JobReport, JobStopped, Key
from engine.registry import Registry, TaskContext
from engine.roster import Roster
from engine.run import owned_elsewhere
from engine.slices import Slices
from engine.store.journal import Journal
from engine.telemetry import Telemetry
from engine.waiting import Waiting

log = logging.getLogger("conch.jobs")

STOP_GRACE_S = 5.0  # a cancelled task that has not ended by then is left behind


class Feed(Protocol):
    def __call__(self, live: Live, source: RunningJob | Told | None, fresh: Fresh) -> None: ...


@dataclass(frozen=True, slots=True)
class Shell:
    """What the inboxes work with."""

    journal: Journal
    keys: KeySource
    registry: Registry
    resources: Any
    telemetry: Telemetry
    now_us: Callable[[], int]
    slice_s: float
    commit_timeout_s: float
    waiting: Waiting | None  # none: nobody does what no task of this process does


class Jobs:
    """Starts and stops jobs. `feed` takes what comes of them; `lose` an instance that another process owns."""

    def __init__(
        self, shell: Shell, roster: Roster, slices: Slices, feed: Feed, lose: Callable[[Live, Rejected], None]
    ) -> None:
        self._registry = shell.registry
        self._resources = shell.resources
        self._now_us = shell.now_us
        self._waiting = shell.waiting
        self._roster = roster
        self._slices = slices
        self._feed = feed
        self._lose = lose

    def open(self, group: asyncio.TaskGroup) -> None:
        self._group = group
        self._loop = asyncio.get_running_loop()

    def start(self, live: Live, job: Job, at_us: int) -> None:
        definition = self._registry.get(job.topic)
        if definition is None:
            if live.operational:
                self._offer(live, job)
            else:
                self._feed(live, None, unknown_topic(job, at_us))
            return
        start, run = live.start, live.run
        deadline_at_us = live.deadline_at_us or at_us + start.tags.deadline_ms * 1000
        context = TaskContext(
            job, start.key, start.request_id, start.tags, deadline_at_us, self._resources, run, self._now_us
        )
        running = RunningJob(job, definition, context, self._now_us, at_us)
        live.jobs[job.key] = running
        if definition.effect:
            live.flush = True
        elif definition.inline:
            began = perf_counter()
            fresh = running.call()
            self._slices.charge(perf_counter() - began)
            if fresh is not None:
                self._finish(live, running, fresh)
                return
        running.task = self._group.create_task(self._perform(live, running))

    async def _perform(self, live: Live, running: RunningJob) -> None:
        running.begun = True
        if running.definition.effect and not running.stopping:
            try:
                await live.run.durable()
            except asyncio.CancelledError:
                if not running.stopping:
                    raise
            except LeaseLost as lost:
                self._lose(live, owned_elsewhere(lost))
                return
            except Rejected as refused:
                self._finish(live, running, running.refused(refused))
                return
        self._finish(live, running, await running.perform())

    def _finish(self, live: Live, running: RunningJob, fresh: Fresh) -> None:
        if not running.finished:
            running.finished = True
            self._feed(live, running, fresh)

    def stop(self, live: Live, job_key: Key, code: str | None) -> None:
        """Stop a job that the core wants stopped; it answers, or is answered for. `code` says why, if a cancel does."""
        running = live.jobs.get(job_key)
        if running is not None:
            self._stop(live, running, code)
        elif job_key in live.offered:
            self.withdraw(live, job_key)
            self.answer_stop(live, job_key)
        # else nobody runs it: its failure for want of a task waits in the inbox

    def _stop(self, live: Live, running: RunningJob, code: str | None) -> None:
        running.stop(code)
        if not running.finished:  # else its result waits in the inbox and will be taken as JobStopped
            self._loop.call_later(STOP_GRACE_S, self._leave_behind, live, running)

    def _leave_behind(self, live: Live, running: RunningJob) -> None:
        if running.finished:
            return
        extra = {"process_instance_key": live.run.key, "job_key": running.job.key, "topic": running.job.topic}
        log.error("task ignores its cancellation", extra=extra)
        self._finish(live, running, running.stopped())

    def answer_stop(self, live: Live, job_key: Key) -> None:
        """Answer the core's stop of a job that nobody runs here."""
        now_us = self._now_us()
        self._feed(live, None, (JobStopped, (job_key, JobReport(now_us, now_us, now_us))))

    def _offer(self, live: Live, job: Job) -> None:
        self._roster.offer(live, job.key)
        if self._waiting is not None:
            live.notices.append((self._waiting.offered, (live.run.key, job)))

    def withdraw(self, live: Live, job_key: Key) -> None:
        self._roster.withdraw(live, job_key)
        if self._waiting is not None:
            live.notices.append((self._waiting.withdrawn, (job_key,)))
