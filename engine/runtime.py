"""Owns the runtime as others see it: instances begin, are told things, are asked for, drain and are handed on.
Never works on an instance (the inboxes do), decides what it does next (the core), or knows what a task means.
Called by the api, which submits, starts, tells and reads, and by cli, which opens, drains and aborts it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import TracebackType
from typing import Any

from engine.alarms import Alarms
from engine.core.instance import ProcessInstance
from engine.errors import Code, LeaseLost, Rejected
from engine.gate import Gate
from engine.inbox import Inboxes
from engine.inference import InferenceCall, Operation
from engine.jobs import Shell
from engine.keys import KeySource
from engine.linking import DeployedDefinition
from engine.live import Live, Told
from engine.loading import Loader
from engine.notices import Notices
from engine.ownership import Ownership
from engine.parking import Parking
from engine.records import (
    BpmnErrorThrown,
    Cancel,
    Command,
    EventReceived,
    IncidentResolved,
    JobCompleted,
    JobFailed,
    Key,
    RetriesSet,
    Start,
    Tags,
    Variables,
    VariablesSet,
)
from engine.recovery import Recovery
from engine.registry import Registry
from engine.roster import Roster
from engine.run import Run, owned_elsewhere
from engine.settings import RuntimeSettings
from engine.store.journal import Journal
from engine.telemetry import Telemetry
from engine.waiting import Waiting

TELLABLE = frozenset(
    {JobCompleted, JobFailed, BpmnErrorThrown, EventReceived, VariablesSet, RetriesSet, IncidentResolved, Cancel}
)


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
        feel_limits: tuple[tuple[str, int], ...] = (),
        ownership: Ownership | None = None,
        waiting: Waiting | None = None,
    ):
        self._journal = journal
        self._keys = keys
        self._max_activity_instances = settings.max_activity_instances
        self._max_operational_activity_instances = settings.max_operational_activity_instances
        self._feel_limits = feel_limits
        self._now_us = now_us
        self._engine_version = engine_version
        self._ownership = ownership  # none: nobody could take over, there is no lease to renew, and nobody is parked
        self._side_tasks: list[asyncio.Task[None]] = []
        self._recovery: Recovery | None = None
        self._dropped = 0  # instances that `abort` has left without an end
        self._gate = Gate(journal, ownership, settings.max_instances, settings.max_operational_instances)
        self._roster = Roster()
        self._notices = Notices()
        self._alarms = Alarms(now_us, lambda: journal.available and journal.room > 0, self._ring)
        park_after_s = None if ownership is None else settings.park_after_ms / 1000
        self._parking = Parking(self._roster, self._notices, park_after_s, now_us)
        self._loader = Loader(self._roster, self._alarms, self._parking, telemetry)
        shell = Shell(
            journal,
            keys,
            registry,
            resources,
            telemetry,
            now_us,
            slice_s=settings.slice_ms / 1000,
            commit_timeout_s=commit_timeout_s,
            waiting=waiting,
        )
        self._inboxes = Inboxes(shell, self._roster, self._alarms, self._notices, self._parking.rest, self._cancel)
        telemetry.instances_active.set_function(lambda: float(self._roster.in_memory))
        operational = telemetry.operational_instances.labels
        operational("live").set_function(lambda: float(len(self._roster.live)))
        operational("parked").set_function(lambda: float(self._roster.parked))
        operational("unreadable").set_function(lambda: float(len(self._roster.unreadable)))

    # --- life ---------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Runtime:
        self._group = await asyncio.TaskGroup().__aenter__()
        self._inboxes.open(self._group)
        self._parking.open(self._inboxes)
        self._loader.open(self._inboxes)
        self._gate.open()
        self._side_tasks = [self._group.create_task(self._notices.run(), name="notices")]
        if self._ownership is not None:
            self._recovery = recovery = Recovery(
                self._ownership, self._journal, self._keys, self._now_us, self._loader.adopt
            )
            self._side_tasks += [
                self._group.create_task(self._beat(recovery), name="lease"),
                self._group.create_task(recovery.watch(self._inboxes.strays), name="recovery"),
                self._group.create_task(self._loader.run(self._ownership), name="loader"),
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
        """Refuse new runs, and let what runs here finish for `timeout_s`.

        Then what is left of the online instances is cancelled with the reason, and the operational ones are left to
        the next process, as they are. Returns when every row has been handed to the journal; `abort` ends it early.
        """
        self._gate.close(Code.DRAINING, "the gateway is shutting down")
        self._alarms.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._roster.quiet()
        for live in tuple(self._roster.online.values()):
            self._cancel(live.run.key, Code.DRAINING, "the gateway shut down before the request was done")
        self._hand_on()
        await self._roster.quiet()
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._notices.flushed()

    def _hand_on(self) -> None:
        reason = Rejected(Code.DRAINING, "the process instance goes on in another process", retry_after_ms=1000)
        self._parking.close()
        self._loader.close(reason)
        for live in tuple(self._roster.live.values()):
            self._inboxes.park(live)
        self._roster.end_runs(reason)

    def abort(self) -> None:
        """Drop every instance at once. Its rows stay open: whoever takes them over closes or continues them."""
        self._gate.close(Code.DRAINING, "the gateway was stopped")
        self._dropped += self._roster.in_memory
        self._lose_all(Rejected(Code.ABORTED, "the gateway was stopped before the request was done"))

    def _lose_all(self, error: Rejected) -> None:
        self._alarms.close()
        self._parking.close()
        self._loader.close(error)
        for live in self._roster.everyone():
            self._inboxes.lose(live, Rejected(error.code, error.message))  # each run raises an exception of its own
        self._roster.end_runs(error)

    @property
    def active(self) -> int:
        """Process instances in memory."""
        return self._roster.in_memory

    @property
    def requests(self) -> int:
        """Online instances, which a drain waits for."""
        return len(self._roster.online)

    @property
    def left_open(self) -> int:
        """Instances of this process that somebody else has to close or continue; one more while it may be others."""
        strays = sum(run.key not in self._roster.open for run in self._inboxes.strays)
        unknown = self._recovery is not None and self._recovery.under_way
        return self._dropped + strays + len(self._roster.open) + unknown

    # --- requests -----------------------------------------------------------------------------------------------

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
        """Start an online instance and run it up to its first real wait.

        `deadline_at_us` is what tasks see; by default now plus the tag's deadline. Raises Rejected with DRAINING,
        JOURNAL_UNAVAILABLE or OVERLOADED, or with what the core has against the Start; then nothing has changed.
        """
        online = self._roster.online
        self._gate.check(len(online))
        if deadline_at_us is None:
            deadline_at_us = self._now_us() + tags.deadline_ms * 1000
        key = self._keys.reserve()
        most = self._max_activity_instances
        start = Start(
            key,
            deployed.ref,
            self._engine_version,
            request_id,
            tags,
            variables,
            True,
            most,
            deployed.calls,
            feel_limits=self._feel_limits,
        )
        run = self._inboxes.new_run(key, call)
        live = online[key] = Live(ProcessInstance(deployed.program), start, run, deadline_at_us)
        live.flush = call.operation is Operation.GENERATE_STREAM
        self._inboxes.begin(live)
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
        key: Key | None = None,
    ) -> Run:
        """Start an operational instance; durable when `await run.started()` returns.

        `key` is the first of a run that was minted for it, by whoever claimed its start beforehand; two engines that
        start the same one cannot both be durable. Raises Rejected with DRAINING, JOURNAL_UNAVAILABLE or OVERLOADED,
        STALE when it is open here already, or with what the core has against the Start; then nothing has changed.
        """
        self._gate.check_operational(len(self._roster.open))
        if key is None:
            key = self._keys.reserve()
        elif key in self._roster.open:
            raise Rejected(Code.STALE, f"the instance {key} is open already")
        else:
            self._keys.skip_to(key)
        start = Start(
            key,
            deployed.ref,
            self._engine_version,
            request_id,
            tags,
            variables,
            False,
            self._max_operational_activity_instances,
            deployed.calls,
            business_id,
            start_event_id,
            start_element_ids,
            terminate_after_id,
            self._feel_limits,
        )
        live = Live(ProcessInstance(deployed.program), start, self._inboxes.new_run(key, None))
        live.flush = True
        self._roster.enlist(live)
        self._inboxes.begin(live)
        return live.run

    async def tell(self, instance_key: Key, kind: type[Command], *args: Any) -> None:
        """Apply one command, without its key, to an open instance; returns once that is durable.

        A parked instance is loaded first. Raises Rejected: NOT_FOUND when the instance is not open here, STALE or
        INVALID_ARGUMENT when it refuses the command, JOURNAL_UNAVAILABLE when the store is away (the command may have
        been taken, and then takes effect), OVERLOADED or DRAINING when nothing more comes in.
        """
        if kind not in TELLABLE:
            raise Rejected(Code.INVALID_ARGUMENT, f"a {kind.__name__} does not come from outside")
        self._gate.check_store()
        applied: asyncio.Future[Live] = asyncio.get_running_loop().create_future()
        self._loader.tell(instance_key, Told((kind, args), applied))
        live = await applied
        await live.run.settled()

    async def read(self, instance_key: Key) -> ProcessInstance | None:
        """An open instance to look at, loaded if it is parked; nobody but the runtime may apply to it.

        Null when it is not open here. Raises Rejected: JOURNAL_UNAVAILABLE when the store is away, OVERLOADED,
        DRAINING, ENGINE_FAULT when this process cannot read it.
        """
        return await self._loader.read(instance_key)

    async def settled(self, instance_key: Key) -> None:
        """Return when everything that has happened so far to an instance in memory is durable. Raises as `tell`."""
        live = self._roster.find(instance_key)
        if live is not None:
            await live.run.settled()

    def open_instances(self) -> Iterable[Key]:
        """Operational instances of this process, parked ones included."""
        return tuple(self._roster.open)

    def start_of(self, instance_key: Key) -> Start | None:
        """How an open operational instance began, without its variables; null when it is not open here."""
        return self._roster.start_of(instance_key)

    def find_job(self, job_key: Key) -> Key | None:
        """The instance with this open job, also one that waits in an incident."""
        return self._roster.of_job(job_key)

    def find_incident(self, incident_key: Key) -> Key | None:
        """The instance with this open incident."""
        return self._roster.of_incident(incident_key)

    def find_scope(self, scope_key: Key) -> Key | None:
        """The instance with this scope: itself, a called process or an open activity instance."""
        return self._roster.of_scope(scope_key)

    # --- what the parts ask of one another ----------------------------------------------------------------------

    def _ring(self, instance_key: Key, timer_key: Key, due_at_us: int) -> None:
        live = self._roster.live.get(instance_key)
        if live is not None:
            self._inboxes.ring(live, timer_key, due_at_us)
        else:
            self._loader.wake(instance_key)

    def _cancel(self, key: Key, code: Code | str, message: str) -> None:
        self._loader.tell(key, Told((Cancel, (str(code), message)), None))
