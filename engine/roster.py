"""Owns who is here: instances in memory, operational instances that are open at all, and whose a key is.
Never loads, parks or works on an instance.
Called by the shell's other parts, which enter and strike out instances, and by the runtime, which is asked for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from types import MappingProxyType
from typing import Any
from weakref import WeakValueDictionary

from engine.errors import Rejected
from engine.live import Live
from engine.records import Key, Start, Variables
from engine.run import Run

_NONE: tuple[Key, ...] = ()
_NO_VARIABLES: Variables = MappingProxyType({})
_SHARED_AT_MOST = 1_000


class Entry:
    """What stays of an open operational instance while it is parked: how it began, and the keys of what is open in it.

    `start` lacks the variables; it is null until an instance that is taken over has been read.
    """

    __slots__ = ("incidents", "jobs", "scopes", "start")

    def __init__(self) -> None:
        self.start: Start | None = None
        self.jobs: tuple[Key, ...] = _NONE
        self.incidents: tuple[Key, ...] = _NONE
        self.scopes: tuple[Key, ...] = _NONE


class Roster:
    """Instances by key. `live` and `online` are in memory; `open` holds every operational instance, parked or not."""

    def __init__(self) -> None:
        self.online: dict[Key, Live] = {}
        self.live: dict[Key, Live] = {}
        self.open: dict[Key, Entry] = {}
        self.ending: set[Key] = set()  # have left, and their end is not durable yet
        self.unreadable: set[Key] = set()  # open ones that could not be loaded when it was last tried
        self._runs: WeakValueDictionary[Key, Run] = WeakValueDictionary()  # somebody may wait on a parked instance's
        self._jobs: dict[Key, Key] = {}
        self._incidents: dict[Key, Key] = {}
        self._scopes: dict[Key, Key] = {}
        self._changed: set[Key] = set()  # in memory, and their entries are not up to date
        self._shared: dict[Any, Any] = {}  # equal values of many starts, kept once
        self._quiet: asyncio.Event | None = None

    @property
    def in_memory(self) -> int:
        return len(self.online) + len(self.live)

    @property
    def parked(self) -> int:
        return len(self.open) - len(self.live)

    def find(self, key: Key) -> Live | None:
        """The instance, if it is in memory."""
        return self.live.get(key) or self.online.get(key)

    def run_of(self, key: Key) -> Run | None:
        """The run of an operational instance, if anybody still holds it."""
        return self._runs.get(key)

    def end_runs(self, error: Rejected) -> None:
        """Whoever waits for the end of an operational instance waits in vain."""
        for run in list(self._runs.values()):
            if not run.ended:
                run.end(Rejected(error.code, error.message))

    def start_of(self, key: Key) -> Start | None:
        """How an open operational instance began, without its variables."""
        entry = self.open.get(key)
        return None if entry is None else entry.start

    def everyone(self) -> tuple[Live, ...]:
        """Every instance in memory."""
        return (*self.online.values(), *self.live.values())

    # --- coming and going ---------------------------------------------------------------------------------------

    def enlist(self, live: Live) -> None:
        """An operational instance is in memory."""
        key = live.run.key
        self.live[key] = live
        self._runs[key] = live.run
        self.unreadable.discard(key)
        entry = self.open.setdefault(key, Entry())
        if entry.start is None:
            entry.start = self._slim(live.start)
        self._changed.add(key)

    def _slim(self, start: Start) -> Start:
        """The same Start without its variables, sharing what many instances have in common."""
        if len(self._shared) > _SHARED_AT_MOST:
            self._shared.clear()
        common = {
            "definition": start.definition,
            "calls": start.calls,
            "tags": start.tags,
            "engine_version": start.engine_version,
        }
        return start._replace(
            variables=_NO_VARIABLES, **{name: self._shared.setdefault(value, value) for name, value in common.items()}
        )

    def park(self, live: Live) -> None:
        """It leaves memory and stays open."""
        key = live.run.key
        self._refresh(key)
        self._changed.discard(key)
        del self.live[key]
        self.look_quiet()

    def strand(self, live: Live) -> None:
        """It leaves memory by a fault and stays open; nobody can say what is open in it."""
        key = live.run.key
        del self.live[key]
        self._changed.discard(key)
        self.unreadable.add(key)
        self.look_quiet()

    def strike_out(self, live: Live) -> None:
        """It has ended, or is another's."""
        key = live.run.key
        if live.operational:
            del self.live[key]
            for job_key in tuple(live.offered):
                self.withdraw(live, job_key)
            self.forget(key)
        else:
            del self.online[key]
        self.look_quiet()

    def forget(self, key: Key) -> None:
        """An operational instance that is not in memory is not open here any more."""
        entry = self.open.pop(key, None)
        if entry is not None:
            self._drop(entry)
        self._changed.discard(key)
        self.unreadable.discard(key)

    # --- peace --------------------------------------------------------------------------------------------------

    async def quiet(self) -> None:
        """Return when no online instance is left and no operational one has a job running here."""
        self._quiet = asyncio.Event()
        self.look_quiet()
        await self._quiet.wait()

    def look_quiet(self) -> None:
        if self._quiet is not None and not self.online and not any(live.jobs for live in self.live.values()):
            self._quiet.set()

    # --- whose a key is -----------------------------------------------------------------------------------------

    def changed(self, live: Live) -> None:
        """What is open in it may have changed."""
        self._changed.add(live.run.key)

    def offer(self, live: Live, job_key: Key) -> None:
        """A job is done by somebody else, who will soon ask whose it is."""
        live.offered.add(job_key)
        self._jobs[job_key] = live.run.key

    def withdraw(self, live: Live, job_key: Key) -> None:
        """An offered job is over."""
        live.offered.discard(job_key)
        self._jobs.pop(job_key, None)

    def of_job(self, job_key: Key) -> Key | None:
        return self._jobs.get(job_key) or self._fresh(self._jobs, job_key)

    def of_incident(self, incident_key: Key) -> Key | None:
        return self._fresh(self._incidents, incident_key)

    def of_scope(self, scope_key: Key) -> Key | None:
        return scope_key if scope_key in self.open else self._fresh(self._scopes, scope_key)

    def _fresh(self, index: dict[Key, Key], key: Key) -> Key | None:
        for changed in self._changed:
            self._refresh(changed)
        self._changed.clear()
        return index.get(key)

    def _refresh(self, key: Key) -> None:
        """Let the entry of an instance in memory say what is open now."""
        entry, instance = self.open[key], self.live[key].instance
        self._drop(entry)
        incidents = instance.open_incidents
        activities = instance.open_activities
        jobs = {job.key for job in instance.open_jobs} | {each.job_key for each in incidents if each.job_key}
        entry.jobs = tuple(jobs)
        entry.incidents = tuple(incident.key for incident in incidents)
        scopes = {activity.key for activity in activities}
        scopes.update(activity.process_instance_key for activity in activities)
        entry.scopes = tuple((scopes | set(instance.scopes)) - {key})
        for found, index in self._indexes(entry):
            index.update(dict.fromkeys(found, key))

    def _drop(self, entry: Entry) -> None:
        for found, index in self._indexes(entry):
            for key in found:
                index.pop(key, None)

    def _indexes(self, entry: Entry) -> Iterable[tuple[tuple[Key, ...], dict[Key, Key]]]:
        return (
            (entry.jobs, self._jobs),
            (entry.incidents, self._incidents),
            (entry.scopes, self._scopes),
        )
