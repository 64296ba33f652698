"""Owns the words in which outside work and events reach process instances; the way back is engine.waiting.
Never runs or keeps an instance.
Called by work, correlation and starts; implemented by the runtime.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from engine.records import Command, DefinitionRef, Job, Key, Start


class Instances(Protocol):
    """The open instances of this process."""

    async def tell(self, instance_key: Key, kind: type[Command], *args: Any) -> None:
        """Apply one command, without its key, to an open instance; returns once that is durable.

        Raises Rejected: NOT_FOUND when the instance is not open here, STALE or INVALID_ARGUMENT when it refuses the
        command, JOURNAL_UNAVAILABLE when the store is away.
        """

    async def open_jobs(self, instance_key: Key) -> Sequence[Job]:
        """The open jobs of an instance, with their variables; none when it is not open here. It is loaded if parked.

        Raises Rejected: ENGINE_FAULT when this process cannot read it, else when it cannot be loaded at the moment.
        """

    def find_job(self, job_key: Key) -> Key | None:
        """The instance with this open job, also one that waits in an incident."""

    def start_of(self, instance_key: Key) -> Start | None:
        """How an open instance began; null when it is not open here."""


def definition_of(start: Start, job: Job) -> DefinitionRef:
    """The definition that a job's element stands in: the instance's own, or that of the process it has called."""
    if job.process_id and job.process_id != start.definition.process_id:
        for call in start.calls:
            if call.target.process_id == job.process_id:
                return call.target
    return start.definition
