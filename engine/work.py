"""Owns the jobs that are done outside of this process: by workers in any language, and by people.
Never does a job, decides what its result means, or keeps a job that its instance has taken back.
Called by the runtime (as Waiting: offered, withdrawn, ended) and by the api, for the workers and for people.

A job that was handed out is locked until its timeout; then the next request gets it, and whoever answers first counts:
the instance takes one answer and refuses the others as stale. Locks are kept in memory only. A process that takes the
instance over offers the job anew, and the answer of the first worker is still as good as any.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from engine.errors import Code, Rejected, refuse_if
from engine.instances import Instances, definition_of
from engine.owned import Owned
from engine.polls import Offer, Polls
from engine.records import (
    USER_TASK_TOPIC,
    BpmnErrorThrown,
    Command,
    DefinitionRef,
    Job,
    JobCompleted,
    JobFailed,
    JobReport,
    Key,
    RetriesSet,
    Variables,
)

DEFAULT_REQUEST_TIMEOUT_MS = 10_000  # Camunda 8's, for a request that says 0
LONGEST_REQUEST_TIMEOUT_MS = 600_000
LONGEST_LOCK_MS = 30 * 86_400_000
MOST_JOBS = 1_000  # of one answer
_WITH_ITS_INSTANCE: Variables = MappingProxyType({})


class ActivatedJob(NamedTuple):
    """A job that a worker has taken, as Camunda 8 describes it."""

    key: Key
    topic: str
    process_instance_key: Key
    definition: DefinitionRef
    element_id: str
    element_instance_key: Key
    headers: dict[str, str]
    worker: str
    retries: int  # tries left, this one included
    deadline_at_us: int  # until then nobody else gets it
    variables: Variables
    tenant: str


class OpenJob(NamedTuple):
    """A job that waits for a worker, or is with one, without its variables.

    A job whose tries failed is not open: its incident names it.
    """

    job: Job
    instance_key: Key
    state: Literal["CREATED", "ACTIVATED"]
    offered_at_us: int
    worker: str | None
    deadline_at_us: int | None  # of its lock
    definition: DefinitionRef
    tenant: str


class OpenUserTask(NamedTuple):
    """A task that waits for a person, without its variables. What its diagram says of assignee and candidates stands in
    the job's headers."""

    job: Job
    instance_key: Key
    offered_at_us: int
    definition: DefinitionRef
    tenant: str

    @property
    def key(self) -> Key:
        return self.job.key


class Work:
    """Every open job of this process's instances that no task of this process does."""

    def __init__(self, instances: Instances, now_us: Callable[[], int]):
        self._instances = instances
        self._now_us = now_us
        self._polls = Polls(now_us)
        self._offers: dict[Key, Offer] = {}  # workers' jobs and user tasks alike
        self._of_instance = Owned()

    # --- Waiting: what the runtime tells --------------------------------------------------------------------------

    def offered(self, instance_key: Key, job: Job) -> None:
        """Take a job in; one that is known already keeps its lock.

        Its variables stay with its instance, which leaves memory while nobody takes the job.
        """
        job = job._replace(variables=_WITH_ITS_INSTANCE)
        known = self._offers.get(job.key)
        if known is not None:
            known.job = job
            return
        self._offers[job.key] = offer = Offer(instance_key, job, self._now_us())
        self._of_instance.add(instance_key, job.key)
        if job.topic != USER_TASK_TOPIC:
            self._polls.add(offer)

    def withdrawn(self, job_key: Key) -> None:
        """Forget a job: its instance waits for it no more."""
        offer = self._offers.pop(job_key, None)
        if offer is None:
            return
        self._polls.remove(offer)
        self._of_instance.discard(offer.instance_key, job_key)

    def ended(self, instance_key: Key) -> None:
        """Forget every job of an instance."""
        for job_key in self._of_instance.of(instance_key):
            self.withdrawn(job_key)

    # --- for workers ----------------------------------------------------------------------------------------------

    async def activate(
        self,
        topic: str,
        *,
        worker: str,
        timeout_ms: int,
        max_jobs: int,
        fetch_variables: Sequence[str] | None = None,
        request_timeout_ms: int = 0,
    ) -> list[ActivatedJob]:
        """Lock and return jobs of one topic; none when none came within `request_timeout_ms`.

        0 stands for 10 s, a negative number for not waiting (Camunda 8's meaning). `fetch_variables` names what the
        worker wants to see; null or nothing means all. Requests are served in the order in which they began to wait,
        and jobs that came together are shared among them. A request that is cancelled gives its jobs back at once.

        Raises Rejected with INVALID_ARGUMENT, with OVERLOADED when too many requests wait, with DRAINING, and with
        JOURNAL_UNAVAILABLE when an instance that has left memory cannot be loaded; then nobody has the jobs.
        """
        refuse_if(
            (not topic, "the type of the jobs is empty"),
            (topic == USER_TASK_TOPIC, "user tasks are for people: complete them as user tasks"),
            (not 0 < timeout_ms <= LONGEST_LOCK_MS, f"the timeout is between 1 and {LONGEST_LOCK_MS} ms"),
            (max_jobs < 1, "the most jobs to activate are at least 1"),
            (
                request_timeout_ms > LONGEST_REQUEST_TIMEOUT_MS,
                f"the request timeout is at most {LONGEST_REQUEST_TIMEOUT_MS} ms",
            ),
        )
        wait_ms = request_timeout_ms or DEFAULT_REQUEST_TIMEOUT_MS
        offers = await self._polls.take(topic, worker, timeout_ms, min(max_jobs, MOST_JOBS), wait_ms)
        try:
            variables = await self._variables(offers)
        except BaseException:  # nobody has seen these jobs
            for offer in reversed(offers):
                self._polls.give_back(offer)
            raise
        wanted = frozenset(fetch_variables or ())
        there = [offer for offer in offers if offer.job.key in variables and not offer.gone]
        return [self._activated(offer, variables[offer.job.key], wanted) for offer in there]

    async def complete(self, job_key: Key, variables: Variables) -> None:
        """The job is done. Durable on return.

        Raises Rejected: NOT_FOUND for no such job, STALE for one whose tries have failed, INVALID_ARGUMENT for
        variables that are no JSON, JOURNAL_UNAVAILABLE when the store is away.
        """
        offer = self._offer(job_key, for_people=False)
        await self._answer(offer, JobCompleted, variables, self._report(offer))

    async def fail(
        self,
        job_key: Key,
        *,
        retries: int | None,
        message: str,
        back_off_ms: int | None = None,
        variables: Variables,
        error_code: str = "WORKER_FAILED",
    ) -> None:
        """A try has failed; with 0 `retries` left its instance raises an incident. Raises as `complete` does."""
        refuse_if(
            (retries is not None and retries < 0, "the retries are at least 0"),
            (back_off_ms is not None and back_off_ms < 0, "the back-off is at least 0 ms"),
        )
        offer = self._offer(job_key, for_people=False)
        report = self._report(offer)
        await self._answer(offer, JobFailed, error_code, message, True, report, retries, back_off_ms, variables)

    async def throw(self, job_key: Key, code: str, message: str, variables: Variables) -> None:
        """The job ended in a BPMN error. Raises as `complete` does."""
        refuse_if((not code, "the error code is empty"))
        offer = self._offer(job_key, for_people=False)
        await self._answer(offer, BpmnErrorThrown, code, message, variables, self._report(offer))

    async def update(self, job_key: Key, *, retries: int | None = None, timeout_ms: int | None = None) -> None:
        """Set the tries that a job has left, also while it waits in an incident, and when its lock ends from now.

        Raises as `complete` does; STALE for the lock of a job that nobody holds.
        """
        refuse_if(
            (retries is None and timeout_ms is None, "name retries, a timeout, or both"),
            (retries is not None and retries < 1, "the retries are at least 1"),
            (
                timeout_ms is not None and not 0 < timeout_ms <= LONGEST_LOCK_MS,
                f"the timeout is between 1 and {LONGEST_LOCK_MS} ms",
            ),
        )
        offer = self._offers.get(job_key)
        if timeout_ms is not None and (offer is None or not offer.is_locked):
            if offer is None and self._instances.find_job(job_key) is None:
                raise _no_job(job_key)
            raise Rejected(Code.STALE, f"the job {job_key} is with no worker, so it has no timeout to change")
        if retries is not None:
            await self._set_retries(job_key, offer, retries)
        if timeout_ms is not None and offer is not None and offer.is_locked:
            self._polls.lock(offer, offer.worker, timeout_ms)

    async def _set_retries(self, job_key: Key, offer: Offer | None, retries: int) -> None:
        instance_key = self._instances.find_job(job_key) if offer is None else offer.instance_key
        if instance_key is None:
            raise _no_job(job_key)
        await self._tell(instance_key, job_key, RetriesSet, job_key, retries)
        if offer is not None:
            offer.job = offer.job._replace(retries=retries)

    # --- for people -----------------------------------------------------------------------------------------------

    async def complete_user_task(self, key: Key, variables: Variables) -> None:
        """A person has done the task. Raises as `complete` does.

        There is no assigning: the assignee is the diagram's, because one that was said from outside would have to
        survive its process, and would be a fact of the audit.
        """
        offer = self._offer(key, for_people=True)
        await self._answer(offer, JobCompleted, variables, self._report(offer))

    # --- for whoever looks ----------------------------------------------------------------------------------------

    def jobs(self, where: Callable[[OpenJob], bool] | None = None, *, instance_key: Key | None = None) -> list[OpenJob]:
        """Open jobs of workers in the order of their keys, of one instance or of all."""
        found = [self._open_job(offer) for offer in self._listed(instance_key, for_people=False)]
        return found if where is None else [each for each in found if where(each)]

    def user_tasks(
        self, where: Callable[[OpenUserTask], bool] | None = None, *, instance_key: Key | None = None
    ) -> list[OpenUserTask]:
        """Open user tasks in the order of their keys, of one instance or of all."""
        found = [self._open_user_task(offer) for offer in self._listed(instance_key, for_people=True)]
        return found if where is None else [each for each in found if where(each)]

    def close(self) -> None:
        """Send every waiting request home without jobs; further ones are refused."""
        self._polls.close()

    # --- inside ---------------------------------------------------------------------------------------------------

    def _offer(self, job_key: Key, *, for_people: bool) -> Offer:
        offer = self._offers.get(job_key)
        if offer is not None and (offer.job.topic == USER_TASK_TOPIC) is for_people:
            return offer
        if offer is None and self._instances.find_job(job_key) is not None:
            raise Rejected(
                Code.STALE,
                f"the job {job_key} has failed: it waits for its next try, or for its incident to be resolved",
            )
        raise _no_job(job_key, "user task" if for_people else "job")

    async def _answer(self, offer: Offer, kind: type[Command], *args: Any) -> None:
        """Tell the instance; until it is durable nobody else gets the job."""
        with self._polls.held(offer):
            await self._tell(offer.instance_key, offer.job.key, kind, offer.job.key, *args)
        if self._offers.get(offer.job.key) is offer:  # else it was withdrawn, and perhaps offered again for another try
            self.withdrawn(offer.job.key)

    async def _tell(self, instance_key: Key, job_key: Key, kind: type[Command], *args: Any) -> None:
        try:
            await self._instances.tell(instance_key, kind, *args)
        except Rejected as refused:
            if refused.code in (Code.STALE, Code.NOT_FOUND):
                raise _no_job(job_key) from refused
            raise

    def _report(self, offer: Offer) -> JobReport:
        at_us = max(self._now_us(), offer.offered_at_us)
        started_at_us = at_us if offer.activated_at_us is None else offer.activated_at_us
        return JobReport(offer.offered_at_us, started_at_us, max(at_us, started_at_us))

    def _place(self, offer: Offer) -> tuple[DefinitionRef, str]:
        start = self._instances.start_of(offer.instance_key)
        if start is None:  # it ends at this very moment
            return DefinitionRef(0, offer.job.process_id, 0, ""), "default"
        return definition_of(start, offer.job), start.tags.tenant

    async def _variables(self, offers: Sequence[Offer]) -> dict[Key, Variables]:
        """What the workers of these jobs see. Raises Rejected when an instance cannot be loaded at the moment.

        The jobs of an instance that this process cannot read are left out. They stay locked for as long as if they had
        been handed out, so that they do not keep others from their turn.
        """
        instances = dict.fromkeys(offer.instance_key for offer in offers)
        found = await asyncio.gather(*(self._jobs_of(key) for key in instances))
        return {job.key: job.variables for jobs in found for job in jobs}

    async def _jobs_of(self, instance_key: Key) -> Sequence[Job]:
        try:
            return await self._instances.open_jobs(instance_key)
        except Rejected as refused:
            if refused.code == Code.ENGINE_FAULT:
                return ()  # whoever loads it has said so
            raise

    def _activated(self, offer: Offer, seen: Variables, wanted: frozenset[str]) -> ActivatedJob:
        job = offer.job
        variables = {name: value for name, value in seen.items() if not wanted or name in wanted}
        definition, tenant = self._place(offer)
        return ActivatedJob(
            job.key,
            job.topic,
            job.process_instance_key or offer.instance_key,
            definition,
            job.element_id,
            job.activity_instance_key,
            dict(job.headers),
            offer.worker,
            job.retries,
            offer.locked_until_us,
            variables,
            tenant,
        )

    def _listed(self, instance_key: Key | None, *, for_people: bool) -> list[Offer]:
        keys = self._offers if instance_key is None else self._of_instance.of(instance_key)
        offers = (self._offers[key] for key in sorted(keys))
        return [offer for offer in offers if (offer.job.topic == USER_TASK_TOPIC) is for_people]

    def _open_job(self, offer: Offer) -> OpenJob:
        worker, until = (offer.worker, offer.locked_until_us) if offer.is_locked else (None, None)
        state: Literal["CREATED", "ACTIVATED"] = "ACTIVATED" if offer.is_locked else "CREATED"
        return OpenJob(offer.job, offer.instance_key, state, offer.offered_at_us, worker, until, *self._place(offer))

    def _open_user_task(self, offer: Offer) -> OpenUserTask:
        return OpenUserTask(offer.job, offer.instance_key, offer.offered_at_us, *self._place(offer))


def _no_job(job_key: Key, what: str = "job") -> Rejected:
    return Rejected(
        Code.NOT_FOUND, f"there is no open {what} {job_key} here: it is over, or at another gateway of this database"
    )
