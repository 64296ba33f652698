"""Owns the asyncio shell around process instances: admission, inboxes, jobs, timers, drain.
Never decides what an instance does next (the core), what a task means, or how rows reach the disk (the journal).
Called by the api, which submits and waits on the run, and by cli, which opens, drains and aborts it.

Everything here belongs to one event loop, so there are no locks. An instance's commands pass one inbox in order.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from time import perf_counter
from types import TracebackType
from typing import Any

from engine.bpmn.spiff import Program
from engine.core.instance import ProcessInstance
from engine.errors import Code, LeaseLost, Rejected
from engine.gate import Gate
from engine.inference import InferenceCall, Operation
from engine.job import Fresh, RunningJob, place_of, unknown_topic
from engine.keys import KeySource
from engine.live import Live
from engine.meter import Meter
from engine.records import (
    CallTarget,
    Cancel,
    Command,
    DefinitionRef,
    Job,
    Key,
    Outcome,
    Start,
    Tags,
    Timer,
    TimerFired,
    Variables,
)
from engine.recovery import Ownership, Recovery
from engine.registry import Registry, TaskContext
from engine.run import Run, owned_elsewhere
from engine.settings import RuntimeSettings
from engine.slices import Slices
from engine.store.journal import Journal
from engine.telemetry import Telemetry
from engine.waiting import Waiting

log = logging.getLogger("conch.runtime")

STOP_GRACE_S = 5.0  # a cancelled task that has not ended by then is left behind
SLOW_S = 0.05  # an apply that keeps everybody else waiting for longer is worth a line in the log
COARSE_US = 20_000  # a loop may fire this early; more means that the wall clock was set back, and then it is due


@dataclass(frozen=True, slots=True)
class DeployedDefinition:
    """A process definition in the form that instances run, with its identity."""

    ref: DefinitionRef
    program: Program
    calls: tuple[CallTarget, ...] = ()  # everything called from here, transitively


class Runtime:
    """Runs process instances. An async context manager; a side task that dies ends it, loudly, from inside."""

    def __init__(
        self,
        *,
        journal: Journal,
        keys: KeySource,
        registry: Registry,
        resources: Any,
        telemetry: Telemetry,
        settings: RuntimeSettings,
        now_us: Callable[[], int],
        engine_version: str,
        commit_timeout_s: float = 10.0,
        ownership: Ownership | None = None,
        waiting: Waiting | None = None,
    ):
        self._waiting = waiting
        self._journal = journal
        self._keys = keys
        self._registry = registry
        self._resources = resources
        self._max_activity_instances = settings.max_activity_instances
        self._now_us = now_us
        self._engine_version = engine_version
        self._commit_timeout_s = commit_timeout_s
        self._meter = Meter(telemetry)
        telemetry.instances_active.set_function(lambda: float(len(self._live)))
        self._ownership = ownership  # none: nobody could take over, so there is no lease to renew
        self._side_tasks: list[asyncio.Task[None]] = []
        self._strays: list[Run] = []  # lost by a fault of ours; recovery closes them
        self._live: dict[Key, Live] = {}
        self._slices = Slices(settings.slice_ms / 1000, self._turn)
        self._gate = Gate(journal, ownership, settings.max_instances)
        self._emptied: asyncio.Event | None = None
        self._dropped = 0  # instances that `abort` has left without an end

    # --- life ---------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Runtime:
        self._loop = asyncio.get_running_loop()
        self._group = await asyncio.TaskGroup().__aenter__()
        self._gate.open()
        if self._ownership is not None:
            recovery = Recovery(self._ownership, self._journal, self._keys, self._now_us)
            self._side_tasks = [
                self._group.create_task(self._beat(recovery), name="lease"),
                self._group.create_task(recovery.watch(self._strays), name="recovery"),
            ]
        return self

    async def _beat(self, recovery: Recovery) -> None:
        try:
            await recovery.beat()
        except LeaseLost as lost:
            self._gate.close(Code.JOURNAL_UNAVAILABLE, "another process has taken this gateway for dead")
            self._lose_all(owned_elsewhere(lost))
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abort()
        for task in self._side_tasks:
            task.cancel()
        if isinstance(error, asyncio.CancelledError):
            await self._group.__aexit__(kind, error, trace)
        else:  # what went wrong inside the block leaves it as it is, not in a group
            await self._group.__aexit__(None, None, None)

    async def drain(self, timeout_s: float) -> None:
        """Refuse new runs, let the running ones finish for `timeout_s`, then cancel the rest with the reason.

        Returns when every instance has ended and its rows have been handed to the journal; `abort` ends it early.
        """
        self._gate.close(Code.DRAINING, "the gateway is shutting down")
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._empty()
        for live in tuple(self._live.values()):
            self._cancel(live.run.key, Code.DRAINING, "the gateway shut down before the request was done")
        await self._empty()

    def abort(self) -> None:
        """Drop every instance at once. Its rows stay open: whoever takes them over closes them as aborted."""
        self._gate.close(Code.DRAINING, "the gateway was stopped")
        self._dropped += len(self._live)
        self._lose_all(Rejected(Code.ABORTED, "the gateway was stopped before the request was done"))

    async def _empty(self) -> None:
        if self._live:
            self._emptied = self._emptied or asyncio.Event()
            await self._emptied.wait()

    @property
    def active(self) -> int:
        """Process instances in memory."""
        return len(self._live)

    @property
    def left_open(self) -> int:
        """Instances of this process that somebody else has to close."""
        return self._dropped + len(self._strays)

    # --- admission ----------------------------------------------------------------------------------------------

    def submit(
        self,
        deployed: DeployedDefinition,
        call: InferenceCall,
        tags: Tags,
        variables: Variables,
        *,
        request_id: str,
        deadline_at_us: int | None = None,
    ) -> Run:
        """Start an instance and run it up to its first real wait.

        `deadline_at_us` is what tasks see; by default now plus the tag's deadline. Raises Rejected with DRAINING,
        JOURNAL_UNAVAILABLE or OVERLOADED, or with what the core has against the Start; then nothing has changed.
        """
        self._gate.check(len(self._live))
        at_us = self._now_us()
        key = self._keys.reserve()
        most = self._max_activity_instances
        start = Start(key, deployed.ref, self._engine_version, request_id, tags, variables, True, most)
        if deadline_at_us is None:
            deadline_at_us = at_us + tags.deadline_ms * 1000
        run = Run(key, call, self._cancel, self._commit_timeout_s)
        live = Live(ProcessInstance(deployed.program), start, run, deadline_at_us)
        live.flush = call.operation is Operation.GENERATE_STREAM
        live.busy = True
        self._live[key] = live
        try:
            self._apply(live, start)
        except BaseException:
            self._lose(live, Rejected(Code.ENGINE_FAULT, "the request could not be started"))
            raise
        self._turn(live)
        return run

    # --- operational instances ----------------------------------------------------------------------------------

    def start(
        self,
        deployed: DeployedDefinition,
        variables: Variables,
        *,
        tags: Tags,
        request_id: str,
        business_id: str | None = None,
        start_event_id: str | None = None,
        start_element_ids: tuple[str, ...] = (),
        terminate_after_id: str | None = None,
    ) -> Run:
        """Start an operational instance; durable when `await run.started()` returns.

        Raises Rejected with DRAINING, JOURNAL_UNAVAILABLE or OVERLOADED, or with what the core has against the Start;
        then nothing has changed.
        """
        raise NotImplementedError

    async def tell(self, instance_key: Key, kind: type[Command], *args: Any) -> None:
        """Apply one command, without its key, to an open instance; returns once that is durable.

        A parked instance is loaded first. Raises Rejected: NOT_FOUND when the instance is not open here, STALE or
        INVALID_ARGUMENT when it refuses the command, JOURNAL_UNAVAILABLE when the store is away.
        """
        raise NotImplementedError

    async def read(self, instance_key: Key) -> ProcessInstance | None:
        """An open instance to look at, loaded if it is parked; nobody but the runtime may apply to it."""
        raise NotImplementedError

    def open_instances(self) -> Iterable[Key]:
        """Operational instances of this process, parked ones included."""
        raise NotImplementedError

    def find_job(self, job_key: Key) -> Key | None:
        """The instance with this open job, also one that waits in an incident."""
        raise NotImplementedError

    def find_incident(self, incident_key: Key) -> Key | None:
        """The instance with this open incident."""
        raise NotImplementedError

    def find_scope(self, scope_key: Key) -> Key | None:
        """The instance with this scope: itself, a called process or an open activity instance."""
        raise NotImplementedError

    # --- the inbox ----------------------------------------------------------------------------------------------

    def _feed(self, live: Live, running: RunningJob | None, fresh: Fresh) -> None:
        if live.left:
            return
        live.inbox.append((running, fresh))
        if live.busy or live.queued:
            return
        if self._slices.spent:
            self._slices.queue(live)
        else:
            self._turn(live)

    def _turn(self, live: Live) -> None:
        """Work on the inbox until it is empty or the slice is spent, then hand the rows over in one go."""
        live.queued = False
        live.busy = True
        try:
            while live.inbox:
                if self._slices.spent:
                    self._slices.queue(live)
                    break
                self._take(live)
            self._append(live)
        except Exception as error:  # apply edge: a fault of the shell, or a report no row can hold, costs one instance
            self._fail(live, error)
        finally:
            live.busy = False

    def _take(self, live: Live) -> None:
        running, fresh = live.inbox.popleft()
        if running is not None:
            del live.jobs[running.job.key]
            if running.stopping:
                fresh = running.stopped(fresh)
        kind, args = fresh
        try:
            self._apply(live, kind(self._keys.reserve(), *args))
        except Rejected as refused:
            if refused.code != Code.STALE:
                if running is None:
                    raise  # a command of our own making
                live.inbox.appendleft((None, running.unusable(refused, fresh)))
                return
            extra = {"process_instance_key": live.run.key, "command": kind.__name__, "code": refused.code}
            log.debug("command dropped", extra=extra)

    def _apply(self, live: Live, command: Command) -> None:
        """Apply one command and do what its step asks for. Raises Rejected; then nothing has changed."""
        began = perf_counter()
        at_us = max(self._now_us(), live.at_us)
        try:
            step = live.instance.apply(command, at_us)
        finally:
            spent_s = perf_counter() - began
            self._slices.charge(spent_s)
        self._meter.apply_seconds(spent_s)
        if spent_s > SLOW_S:
            extra = {"process_instance_key": live.run.key, "ms": round(spent_s * 1000)}
            log.warning("slow apply", extra=extra)
        self._keys.advance(step.next_key)
        live.at_us = at_us
        live.records += step.records
        self._meter.count(live.run, step.records)
        for key in step.disarm:
            handle = live.timers.pop(key, None)  # none: it fired, and its TimerFired waits in the inbox in vain
            if handle is not None:
                handle.cancel()
        for timer in step.arm:
            self._arm(live, timer)
        for job in step.start:
            self._start(live, job, at_us)
        for key in step.stop:
            if key in live.jobs:  # else nobody runs it: its failure for want of a task waits in the inbox
                self._stop(live, live.jobs[key], command.error_code if isinstance(command, Cancel) else None)
        if step.outcome is not None:
            if live.instance.fault is not None:
                _log_fault(live.run.key, live.instance.fault)
            self._end(live, step.outcome)

    def _append(self, live: Live) -> None:
        if not live.records:
            return
        records, live.records = live.records, []
        flush, live.flush = live.flush, False
        try:
            live.run.add_commit(self._journal.append(live.context, records, flush=flush))
        except LeaseLost as lost:
            self._lose(live, owned_elsewhere(lost))

    # --- jobs ---------------------------------------------------------------------------------------------------

    def _start(self, live: Live, job: Job, at_us: int) -> None:
        definition = self._registry.get(job.topic)
        if definition is None:
            self._feed(live, None, unknown_topic(job, at_us))
            return
        start, run = live.start, live.run
        context = TaskContext(
            job, start.key, start.request_id, start.tags, live.deadline_at_us, self._resources, run, self._now_us
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

    # --- timers -------------------------------------------------------------------------------------------------

    def _arm(self, live: Live, timer: Timer) -> None:
        delay_s = max(timer.due_at_us - self._now_us(), 0) / 1_000_000
        live.timers[timer.key] = self._loop.call_later(delay_s, self._due, live, timer)

    def _due(self, live: Live, timer: Timer) -> None:
        if 0 < timer.due_at_us - self._now_us() < COARSE_US:
            self._arm(live, timer)
            return
        del live.timers[timer.key]
        self._feed(live, None, (TimerFired, (timer.key,)))

    # --- the end ------------------------------------------------------------------------------------------------

    def _cancel(self, key: Key, code: Code | str, message: str) -> None:
        live = self._live.get(key)
        if live is not None:
            self._feed(live, None, (Cancel, (str(code), message)))

    def _end(self, live: Live, outcome: Outcome) -> None:
        live.flush = True
        self._append(live)
        if not live.left:
            self._leave(live)
            live.run.end(outcome)

    def _lose(self, live: Live, error: Rejected) -> None:
        """Forget an instance that cannot go on here; nothing more is written for it."""
        if not live.left:
            live.records.clear()
            self._leave(live)
            live.run.end(error)

    def _lose_all(self, error: Rejected) -> None:
        for live in tuple(self._live.values()):
            self._lose(live, Rejected(error.code, error.message))  # each run raises an exception of its own

    def _fail(self, live: Live, error: Exception) -> None:
        if not live.left:
            _log_fault(live.run.key, error)
            self._strays.append(live.run)
            self._lose(live, Rejected(Code.ENGINE_FAULT, "the engine failed on this request"))

    def _leave(self, live: Live) -> None:
        del self._live[live.run.key]
        live.left = True
        live.inbox.clear()
        for handle in live.timers.values():
            handle.cancel()
        live.timers.clear()
        for running in live.jobs.values():
            running.stop(None)
        live.jobs.clear()
        if self._emptied is not None and not self._live:
            self._emptied.set()


def _log_fault(key: Key, error: Exception) -> None:
    extra = {"process_instance_key": key, "error_type": type(error).__name__, "place": place_of(error)}
    log.critical("engine fault", extra=extra)
