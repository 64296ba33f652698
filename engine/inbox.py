"""Owns the inboxes: an instance's commands pass one after another, and what each step asks for is done.
Never decides what an instance does next (the core), what a task means, or who may come in.
Called by the runtime for what begins, by parking for what goes on, and by jobs, timers and tellers for what happens.

Everything here belongs to one event loop, so there are no locks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from time import perf_counter

from engine.alarms import Alarms
from engine.errors import Code, ConchError, LeaseLost, Rejected
from engine.inference import InferenceCall
from engine.job import Fresh, RunningJob, place_of
from engine.jobs import Jobs, Shell
from engine.live import Live, Told
from engine.meter import Meter
from engine.notices import Notices
from engine.records import (
    BpmnErrorThrown,
    Cancel,
    Command,
    JobCompleted,
    JobFailed,
    Key,
    Outcome,
    Signal,
    Step,
    Timer,
    TimerFired,
)
from engine.roster import Roster
from engine.run import Canceller, Run, owned_elsewhere
from engine.slices import Slices

log = logging.getLogger("conch.runtime")

SLOW_S = 0.05  # an apply that keeps everybody else waiting for longer is worth a line in the log
COARSE_US = 20_000  # a loop may fire this early; more means that the wall clock was set back, and then it is due
JOB_RESULTS = frozenset({JobCompleted, JobFailed, BpmnErrorThrown})


class Inboxes:
    """Works on instances in memory. `rest` is called with an operational one whose inbox is empty, `cancel` by whoever
    holds a run."""

    def __init__(
        self,
        shell: Shell,
        roster: Roster,
        alarms: Alarms,
        notices: Notices,
        rest: Callable[[Live], None],
        cancel: Canceller,
    ) -> None:
        self._journal = shell.journal
        self._keys = shell.keys
        self._now_us = shell.now_us
        self._waiting = shell.waiting
        self._meter = Meter(shell.telemetry)
        self._lateness = shell.telemetry.timer_lateness_seconds.labels()
        self.slices = Slices(shell.slice_s, self.turn)
        self._jobs = Jobs(shell, roster, self.slices, self.feed, self.lose)
        self._roster = roster
        self._alarms = alarms
        self._notices = notices
        self._rest = rest
        self._cancel = cancel
        self._commit_timeout_s = shell.commit_timeout_s
        self._faulted: set[Key] = set()  # operational instances that have failed once already
        self.strays: list[Run] = []  # lost by a fault of ours; recovery looks after them

    def open(self, group: asyncio.TaskGroup) -> None:
        self._jobs.open(group)
        self._loop = asyncio.get_running_loop()

    def new_run(self, key: Key, call: InferenceCall | None) -> Run:
        return Run(key, call, self._cancel, self._commit_timeout_s)

    def run_of(self, key: Key) -> Run:
        """The run of an instance that comes back into memory: the one that somebody still holds, or a new one."""
        return self._roster.run_of(key) or self.new_run(key, None)

    # --- the inbox ----------------------------------------------------------------------------------------------

    def begin(self, live: Live) -> None:
        """Apply the Start of an instance that is on the roster. Raises Rejected; then it has left again."""
        live.busy = True
        try:
            self._apply(live, live.start)
        except BaseException:
            self.lose(live, Rejected(Code.ENGINE_FAULT, "the request could not be started"))
            raise
        self.turn(live)

    def feed(self, live: Live, source: RunningJob | Told | None, fresh: Fresh) -> None:
        """Let a command wait for its turn, which comes at once unless others have taken this slice."""
        if live.left:
            return
        live.inbox.append((source, fresh))
        if live.busy or live.queued:
            return
        if self.slices.spent:
            self.slices.queue(live)
        else:
            self.turn(live)

    def turn(self, live: Live) -> None:
        """Work on the inbox until it is empty or the slice is spent, then hand the rows over in one go."""
        live.queued = False
        live.busy = True
        try:
            while live.inbox:
                if self.slices.spent:
                    self.slices.queue(live)
                    break
                self._take(live)
            self._append(live)
        except Exception as error:  # apply edge: a fault of the shell, or a report no row can hold, costs one instance
            self.fail(live, error)
        finally:
            live.busy = False
        if live.operational and not (live.left or live.queued):
            self._rest(live)

    def _take(self, live: Live) -> None:
        source, fresh = live.inbox.popleft()
        if source is not None:
            if type(source) is Told:
                self._take_told(live, source)
                return
            del live.jobs[source.job.key]
            if source.stopping:
                fresh = source.stopped(fresh)
        kind, args = fresh
        try:
            self._apply(live, kind(self._keys.reserve(), *args))
        except Rejected as refused:
            if refused.code != Code.STALE:
                if source is None:
                    raise  # a command of our own making
                live.inbox.appendleft((None, source.unusable(refused, fresh)))
                return
            extra = {"process_instance_key": live.run.key, "command": kind.__name__, "code": refused.code}
            log.debug("command dropped", extra=extra)

    def _take_told(self, live: Live, told: Told) -> None:
        kind, args = told.fresh
        try:
            if kind in JOB_RESULTS and args[0] not in live.offered:
                raise Rejected(Code.STALE, f"the job {args[0]} waits for no result from outside")
            self._apply(live, kind(self._keys.reserve(), *args))
        except Rejected as refused:
            told.refuse(refused)
        except Exception:  # whoever waits for the command has to hear of it; the fault itself goes on
            told.refuse(Rejected(Code.ENGINE_FAULT, "the engine failed on this command"))
            raise
        else:
            told.accept(live)

    def _apply(self, live: Live, command: Command) -> None:
        """Apply one command and do what its step asks for. Raises Rejected; then nothing has changed."""
        began = perf_counter()
        at_us = max(self._now_us(), live.at_us)
        try:
            step = live.instance.apply(command, at_us)
        finally:
            spent_s = perf_counter() - began
            self.slices.charge(spent_s)
        self._meter.apply_seconds(spent_s)
        if spent_s > SLOW_S:
            extra = {"process_instance_key": live.run.key, "ms": round(spent_s * 1000)}
            log.warning("slow apply", extra=extra)
        if live.at_us or command.key >= self._keys.peek():  # else a Start with a run of its own, which is used already
            self._keys.advance(step.next_key)
        live.at_us = at_us
        live.records += step.records
        self._meter.count(live.run, step.records)
        if live.watched or step.subscribe or step.broadcast:
            self._note(live, command, step)
        for key in step.disarm:
            handle = live.timers.pop(key, None)  # none: it fired, and its TimerFired waits in the inbox in vain
            if handle is not None:
                handle.cancel()
            elif live.operational:
                self._alarms.disarm(key)
        for timer in step.arm:
            self._arm(live, timer)
        for job in step.start:
            self._jobs.start(live, job, at_us)
        for key in step.stop:
            self._jobs.stop(live, key, command.error_code if isinstance(command, Cancel) else None)
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
            commit = self._journal.append(live.context, records, flush=flush)
        except LeaseLost as lost:
            self.lose(live, owned_elsewhere(lost))
            return
        live.run.add_commit(commit)
        if live.watched:
            notices, live.notices = live.notices, []
            self._notices.add(commit, notices, lambda error: self._not_durable(live, error))

    def _not_durable(self, live: Live, error: ConchError) -> None:
        if isinstance(error, LeaseLost):
            self.lose(live, owned_elsewhere(error))
        else:
            extra = {"process_instance_key": live.run.key, "reason": str(error)}
            log.error("rows of a waiting instance are not durable", extra=extra)

    # --- what others are told -----------------------------------------------------------------------------------

    def _note(self, live: Live, command: Command, step: Step) -> None:
        live.watched = True
        if live.operational:
            self._roster.changed(live)
        if type(command) in JOB_RESULTS and command.job_key in live.offered:  # type: ignore[union-attr]
            self._jobs.withdraw(live, command.job_key)  # type: ignore[union-attr]
        if self._waiting is None:
            return
        key, waiting = live.run.key, self._waiting
        live.notices += [(waiting.unsubscribed, (each,)) for each in step.unsubscribe]
        live.notices += [(waiting.subscribed, (key, each)) for each in step.subscribe]
        live.notices += [(waiting.threw, (key, each)) for each in step.broadcast]

    # --- timers -------------------------------------------------------------------------------------------------

    def _arm(self, live: Live, timer: Timer) -> None:
        if live.operational:
            self._alarms.arm(live.run.key, timer)
            return
        delay_s = max(timer.due_at_us - self._now_us(), 0) / 1_000_000
        live.timers[timer.key] = self._loop.call_later(delay_s, self._due, live, timer)

    def _due(self, live: Live, timer: Timer) -> None:
        if 0 < timer.due_at_us - self._now_us() < COARSE_US:
            self._arm(live, timer)
            return
        del live.timers[timer.key]
        self.ring(live, timer.key, timer.due_at_us)

    def ring(self, live: Live, timer_key: Key, due_at_us: int) -> None:
        """A timer is due."""
        self._lateness.observe((self._now_us() - due_at_us) / 1_000_000)
        self.feed(live, None, (TimerFired, (timer_key,)))

    # --- going on -----------------------------------------------------------------------------------------------

    def revive(self, live: Live, stopping: Collection[Key], signals: Sequence[Signal] | None) -> None:
        """Do what an instance that was loaded waits for; `turn` follows.

        `signals` are all that it has thrown, if nobody has been told of it by this process; null: it was parked here.
        """
        self._keys.skip_to(live.instance.next_key)
        self._roster.enlist(live)
        live.busy = True
        at_us = self._now_us()
        for job in live.instance.open_jobs:
            if job.key in stopping:
                self._jobs.answer_stop(live, job.key)
            else:
                self._jobs.start(live, job, at_us)
        notices, live.notices = live.notices, []
        if signals is not None and self._waiting is not None:
            key, waiting = live.run.key, self._waiting
            notices += [(waiting.subscribed, (key, each)) for each in live.instance.open_subscriptions]
            self._notices.add(None, notices)
            self.tell_of_signals(key, signals)

    def tell_of_signals(self, key: Key, signals: Sequence[Signal]) -> None:
        """Say what an instance has thrown, all of it durable."""
        if self._waiting is not None:
            self._notices.add(None, [(self._waiting.threw, (key, each)) for each in signals])

    # --- the end ------------------------------------------------------------------------------------------------

    def _end(self, live: Live, outcome: Outcome) -> None:
        live.flush = True
        if live.operational:
            self._faulted.discard(live.run.key)
            self._roster.ending.add(live.run.key)
            live.notices.append((self._roster.ending.discard, (live.run.key,)))
        if live.watched and self._waiting is not None:
            live.notices.append((self._waiting.ended, (live.run.key,)))
        self._append(live)
        if not live.left:
            self._leave(live, Rejected(Code.NOT_FOUND, f"the process instance {live.run.key} has ended"))
            live.run.end(outcome)

    def lose(self, live: Live, error: Rejected) -> None:
        """Forget an instance that cannot go on here; nothing more is written for it."""
        if not live.left:
            live.records.clear()
            self._leave(live, error)
            live.run.end(error)

    def fail(self, live: Live, error: Exception) -> None:
        """Lose an instance by a fault of ours; recovery looks after it, as far as it is durable."""
        if live.left:
            return
        _log_fault(live.run.key, error)
        if live.run.key not in self._faulted:  # else it would fail for ever; it is loaded when somebody needs it
            self.strays.append(live.run)
        reason = Rejected(Code.ENGINE_FAULT, "the engine failed on this request")
        if live.operational:
            self._faulted.add(live.run.key)
            self._roster.strand(live)
            self._disarm_all(live)
            self._empty(live, reason)
        else:
            self.lose(live, reason)

    def park(self, live: Live) -> None:
        """Take an operational instance out of memory; it stays open, its timers armed."""
        self._roster.park(live)
        self._empty(live, Rejected(Code.DRAINING, "the process instance goes on in another process"))
        live.run.release()

    def _leave(self, live: Live, reason: Rejected) -> None:
        self._roster.strike_out(live)
        self._disarm_all(live)
        self._empty(live, reason)

    def _disarm_all(self, live: Live) -> None:
        if live.operational:
            for timer in live.instance.open_timers:
                self._alarms.disarm(timer.key)
        for handle in live.timers.values():
            handle.cancel()
        live.timers.clear()

    def _empty(self, live: Live, reason: Rejected) -> None:
        live.left = True
        for source, _ in live.inbox:
            if type(source) is Told:
                source.refuse(Rejected(reason.code, reason.message))
        live.inbox.clear()
        for running in live.jobs.values():
            running.stop(None)
        live.jobs.clear()


def _log_fault(key: Key, error: Exception) -> None:
    extra = {"process_instance_key": key, "error_type": type(error).__name__, "place": place_of(error)}
    log.critical("engine fault", extra=extra)
