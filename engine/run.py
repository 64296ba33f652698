"""Owns what a client waits on: the run of one process instance, its chunks, its answer and how it ended.
Never applies a command or touches the journal; it awaits commits that others made.
Called by the api (which reads it), the runtime (which drives it) and tasks (through TaskContext, as Delivery).

The run of an operational instance has no call: nobody waits for chunks, and it goes on while the instance is parked.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple, Protocol

from engine.errors import Code, LeaseLost, Rejected, TaskError
from engine.inference import Chunk, InferenceAnswer, InferenceCall
from engine.records import Key, Outcome
from engine.store.journal import Commit

log = logging.getLogger("conch.run")

CHUNKS_BUFFERED = 32  # per run; a task that is further ahead of its client waits


class RunResult(NamedTuple):
    """How a run ended, once every row of it is durable."""

    outcome: Outcome
    answer: InferenceAnswer | None
    attempts: int  # calls of replicas
    replica: str | None  # the last one called


class Canceller(Protocol):
    def __call__(self, key: Key, code: Code | str, message: str) -> None: ...


class Run:
    """One process instance as seen from outside. Its methods belong to the loop that made it."""

    __slots__ = (
        "__weakref__",
        "_answer",
        "_call",
        "_cancel",
        "_chunks",
        "_commits",
        "_ending",
        "_fed",
        "_readable",
        "_releases",
        "_waiters",
        "_writable",
        "attempts",
        "commit_timeout_s",
        "key",
        "replica",
        "routed_to",
        "waited_us",
    )

    def __init__(self, key: Key, call: InferenceCall | None, cancel: Canceller, commit_timeout_s: float):
        self.key = key
        self._call = call
        self.commit_timeout_s = commit_timeout_s
        self.attempts = 0
        self.replica: str | None = None  # the last one called
        self.routed_to: str | None = None  # the one that was chosen last
        self.waited_us = 0  # for replicas, over all attempts
        self._cancel = cancel
        self._answer: InferenceAnswer | None = None
        self._chunks: deque[Chunk] = deque()
        self._fed = False  # by an attempt that has not ended
        self._readable: asyncio.Event | None = None
        self._writable: asyncio.Event | None = None
        self._releases: list[Callable[[], None]] | None = []
        self._commits: list[Commit] = []
        self._ending: Outcome | Rejected | None = None
        self._waiters: list[asyncio.Future[None]] = []

    def __repr__(self) -> str:
        return f"<Run {self.key} {'ended' if self.ended else 'running'}>"

    # --- for the client's side ----------------------------------------------------------------------------------

    @property
    def ended(self) -> bool:
        """True once the instance has left memory; its rows may still be on their way to the disk."""
        return self._ending is not None

    async def started(self) -> None:
        """Return when the Start and the first rows are durable.

        Raises Rejected(JOURNAL_UNAVAILABLE) when they are not in time, Rejected(ABORTED) when ownership is lost.
        """
        await self._durable(self._commits[:1])

    async def chunks(self) -> AsyncIterator[Chunk]:
        """The stream's chunks in order; the first one only when every row that led to it is durable. Ends when the
        instance has ended.

        Raises as `started` does. One reader only.
        """
        try:
            await self.started()
            await self._chunk_or_end()
            await self._durable(self._commits)
        except Rejected as refused:
            self.cancel(refused.code, refused.message)
            raise
        while self._chunks or not self.ended:
            while self._chunks:
                chunk = self._chunks.popleft()
                if self._writable is not None:
                    self._writable.set()
                yield chunk
            await self._chunk_or_end()

    async def _chunk_or_end(self) -> None:
        while not self._chunks and not self.ended:
            self._readable = self._readable or asyncio.Event()
            self._readable.clear()
            await self._readable.wait()

    async def result(self) -> RunResult:
        """Return how the run ended, after the commit of all its rows.

        Raises Rejected(JOURNAL_UNAVAILABLE) when the rows are not durable in time: then there is no answer to give;
        Rejected(ABORTED) when another process owns the instance now or this one goes down.
        """
        if self._ending is None:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter
        if isinstance(self._ending, Rejected):
            raise self._ending
        assert self._ending is not None
        await self._durable(self._commits)
        return RunResult(self._ending, self._answer, self.attempts, self.replica)

    def cancel(self, code: Code | str, message: str) -> None:
        """End the run from outside; what was used until now is still recorded. Nothing happens when it has ended."""
        if not self.ended:
            self._cancel(self.key, code, message)

    # --- registry.Delivery: for tasks ---------------------------------------------------------------------------

    @property
    def call(self) -> InferenceCall:
        """Raises TaskError for an operational instance: it was not begun by an inference request."""
        if self._call is None:
            raise TaskError(Code.TASK_FAULT, "this process instance was not begun by an inference request")
        return self._call

    async def emit(self, chunk: Chunk) -> None:
        if self._call is None:
            return
        while len(self._chunks) >= CHUNKS_BUFFERED and not self.ended:
            self._writable = self._writable or asyncio.Event()
            self._writable.clear()
            await self._writable.wait()
        if self.ended:
            return
        if not self._fed:  # the attempt is recorded when it ends, and the stream's head has to tell of it
            self._fed = True
            self.attempts += 1
            self.replica = self.routed_to or self.replica
        self._chunks.append(chunk)
        if self._readable is not None:
            self._readable.set()

    def deliver(self, answer: InferenceAnswer) -> None:
        self._answer = answer

    def defer(self, release: Callable[[], None]) -> None:
        if self._releases is None:
            _call(self.key, release)
        else:
            self._releases.append(release)

    # --- for the runtime ----------------------------------------------------------------------------------------

    def add_commit(self, commit: Commit) -> None:
        if self._call is None and len(self._commits) > 1:  # such an instance may make commits for years
            first, *others = self._commits
            self._commits = [first, *(each for each in others if not each.stored)]
        self._commits.append(commit)

    @property
    def is_durable(self) -> bool:
        """Whether everything appended until now is."""
        return all(commit.stored for commit in self._commits)

    def latest_commit(self) -> Commit | None:
        return self._commits[-1] if self._commits else None

    async def durable(self) -> None:
        """Return when everything appended until now is durable. Raises what the commit raises."""
        for commit in tuple(self._commits):
            await commit

    async def settled(self) -> None:
        """Return when everything appended until now is durable. Raises as `started` does."""
        await self._durable(self._commits)

    def end(self, ending: Outcome | Rejected) -> None:
        """The instance has left memory, with an outcome or without one that could be told."""
        self._ending = ending
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()
        for event in (self._readable, self._writable):
            if event is not None:
                event.set()
        self.release()
        self._releases = None

    def release(self) -> None:
        """The instance leaves memory, with an end or for a while: give back what its tasks hold."""
        releases, self._releases = self._releases, []
        for release in releases or ():
            _call(self.key, release)

    async def _durable(self, commits: list[Commit]) -> None:
        try:
            async with asyncio.timeout(self.commit_timeout_s):
                for commit in tuple(commits):
                    await commit
        except TimeoutError:
            raise Rejected(
                Code.JOURNAL_UNAVAILABLE,
                f"the audit rows were not durable within {self.commit_timeout_s:g} s, so there is no answer",
                retry_after_ms=1000,
            ) from None
        except LeaseLost as lost:
            raise owned_elsewhere(lost) from lost


def owned_elsewhere(lost: LeaseLost) -> Rejected:
    """What a client is told when another process has taken its instance over."""
    return Rejected(Code.ABORTED, f"the request was taken over and closed by another process: {lost}")


def _call(key: Key, release: Callable[[], None]) -> None:
    try:
        release()
    except Exception as error:  # one broken release must not keep the others from being called
        log.error("release failed", extra={"process_instance_key": key, "error_type": type(error).__name__})
