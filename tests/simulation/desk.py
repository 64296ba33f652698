"""Owns a desk that takes commands for instances as the runtime promises to, without instances behind it.
Never decides anything: it takes a command when the job is open, refuses it as stale when not, and keeps what it took.
Called by the simulation of outside work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from engine.errors import Code, Rejected
from engine.records import Command, DefinitionRef, Job, Key, RetriesSet, Start, Tags, Variables
from engine.work import Work
from tests.loop import now_us

COMMIT_S = 0.005
DEFINITION = DefinitionRef(7, "order", 3, "f" * 64)


class Desk:
    """Open jobs by instance, and the commands that were taken."""

    def __init__(self) -> None:
        self.work = Work(self, now_us)
        self.open: dict[Key, Key] = {}  # job -> instance
        self.jobs: dict[Key, Job] = {}  # as they were offered
        self.unreadable: dict[Key, Rejected] = {}  # instances that cannot be loaded
        self.loaded_after_s = 0.0
        self.failed: dict[Key, Key] = {}  # in an incident, or waiting for the next try
        self.taken: list[tuple[Key, type[Command], tuple[Any, ...]]] = []
        self.refuse: Rejected | None = None  # the next command, whatever it is
        self._keys = 1_000

    def offer(
        self, topic: str = "work", instance_key: Key = 1, variables: Variables | None = None, **changes: Any
    ) -> Key:
        self._keys += 1
        headers: Mapping[str, str] = {"colour": "red"}
        job = Job(self._keys, self._keys + 1_000, "do_it", topic, headers, variables or {}, 1, 1)._replace(**changes)
        self.open[job.key] = instance_key
        self.jobs[job.key] = job
        self.work.offered(instance_key, job)
        return job.key

    def end(self, instance_key: Key) -> None:
        self.open = {job: owner for job, owner in self.open.items() if owner != instance_key}
        self.work.ended(instance_key)

    # --- engine.instances.Instances -------------------------------------------------------------------------------

    async def tell(self, instance_key: Key, kind: type[Command], *args: Any) -> None:
        if self.refuse is not None:
            refused, self.refuse = self.refuse, None
            await asyncio.sleep(COMMIT_S)
            raise refused
        job_key = args[0]
        if job_key not in self.open and not (kind is RetriesSet and job_key in self.failed):
            raise Rejected(Code.STALE, f"the job {job_key} does not run")
        self.taken.append((instance_key, kind, args))
        if kind is not RetriesSet:
            del self.open[job_key]
        await asyncio.sleep(COMMIT_S)
        if kind is not RetriesSet:
            self.work.withdrawn(job_key)

    async def open_jobs(self, instance_key: Key) -> Sequence[Job]:
        if self.loaded_after_s:
            await asyncio.sleep(self.loaded_after_s)
        if (refused := self.unreadable.get(instance_key)) is not None:
            raise Rejected(refused.code, refused.message)
        return [self.jobs[key] for key, owner in self.open.items() if owner == instance_key]

    def find_job(self, job_key: Key) -> Key | None:
        return self.open.get(job_key) or self.failed.get(job_key)

    def start_of(self, instance_key: Key) -> Start | None:
        if instance_key not in self.open.values():
            return None
        return Start(instance_key, DEFINITION, "test", "", Tags(tenant="acme"), {}, False)
