"""Owns the queues between jobs and the requests of workers for them: who gets which job, and for how long.
Never tells an instance anything, and never asks anybody whether there is work: a job that comes wakes who waits.
Called by work.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from engine.errors import Code, Rejected
from engine.records import Job, Key

MOST_WAITING = 1_000  # requests, over all topics


class Offer:
    """A job on offer, and the lock of the worker that has it."""

    __slots__ = (
        "activated_at_us",
        "gone",
        "held",
        "instance_key",
        "job",
        "lock",
        "locked_until_us",
        "offered_at_us",
        "worker",
    )

    def __init__(self, instance_key: Key, job: Job, offered_at_us: int):
        self.instance_key = instance_key
        self.job = job
        self.offered_at_us = offered_at_us
        self.activated_at_us: int | None = None  # when it was handed out last
        self.worker = ""
        self.locked_until_us = 0
        self.lock: asyncio.TimerHandle | None = None
        self.held = 0  # answers that are on their way to the disk
        self.gone = False

    @property
    def is_locked(self) -> bool:
        return self.lock is not None


class _Poll:
    """A request that waits."""

    __slots__ = ("jobs", "most", "timeout_ms", "worker")

    def __init__(self, worker: str, timeout_ms: int, most: int):
        self.worker = worker
        self.timeout_ms = timeout_ms
        self.most = most
        self.jobs: asyncio.Future[list[Offer]] = asyncio.get_running_loop().create_future()


class _Topic:
    """Either jobs wait here, or requests do, or both for the moment until they are brought together."""

    __slots__ = ("name", "polls", "ready", "serving")

    def __init__(self, name: str):
        self.name = name
        self.ready: OrderedDict[Key, Offer] = OrderedDict()  # longest on offer first
        self.polls: dict[_Poll, None] = {}  # longest waiting first
        self.serving = False  # they will be brought together in this turn of the loop


class Polls:
    """Brings jobs and waiting requests together. Belongs to one event loop."""

    def __init__(self, now_us: Callable[[], int]):
        self._now_us = now_us
        self._topics: dict[str, _Topic] = {}  # those in which somebody or something waits
        self._waiting = 0
        self._closed = False

    def add(self, offer: Offer) -> None:
        topic = self._topics.get(offer.job.topic)
        if topic is None:
            topic = self._topics[offer.job.topic] = _Topic(offer.job.topic)
        topic.ready[offer.job.key] = offer
        self._serve_soon(topic)

    def remove(self, offer: Offer) -> None:
        """The job is not on offer any more."""
        offer.gone = True
        self._unlock(offer)
        topic = self._topics.get(offer.job.topic)
        if topic is not None and topic.ready.pop(offer.job.key, None) is not None:
            self._tidy(topic)

    async def take(self, name: str, worker: str, timeout_ms: int, most: int, wait_ms: int) -> list[Offer]:
        """Lock up to `most` jobs, waiting for the first of them. Raises Rejected with OVERLOADED or DRAINING."""
        if self._closed:
            raise Rejected(Code.DRAINING, "the gateway is shutting down", retry_after_ms=1_000)
        topic = self._topics.get(name)
        if topic is not None and topic.ready and (wait_ms < 0 or not topic.polls):
            return self._hand_out(topic, worker, timeout_ms, most)
        if wait_ms < 0:
            return []
        if self._waiting >= MOST_WAITING:
            raise Rejected(Code.OVERLOADED, f"{MOST_WAITING} requests wait for jobs already", retry_after_ms=1_000)
        if topic is None:
            topic = self._topics[name] = _Topic(name)
        return await self._wait(topic, _Poll(worker, timeout_ms, most), wait_ms)

    async def _wait(self, topic: _Topic, poll: _Poll, wait_ms: int) -> list[Offer]:
        topic.polls[poll] = None
        self._waiting += 1
        try:
            await asyncio.wait((poll.jobs,), timeout=wait_ms / 1000)
        except asyncio.CancelledError:  # nobody is there to take what it was given in the same moment
            for offer in reversed(poll.jobs.result() if poll.jobs.done() else []):
                self.give_back(offer)
            raise
        finally:
            self._waiting -= 1
            topic.polls.pop(poll, None)
            self._tidy(topic)
        return poll.jobs.result() if poll.jobs.done() else []

    def lock(self, offer: Offer, worker: str, timeout_ms: int) -> None:
        """From now on the job is that worker's, for so long."""
        self._unlock(offer)
        offer.worker = worker
        offer.locked_until_us = self._now_us() + timeout_ms * 1000
        offer.lock = asyncio.get_running_loop().call_later(timeout_ms / 1000, self._expired, offer)

    @contextmanager
    def held(self, offer: Offer) -> Iterator[None]:
        """While an answer to this job is on its way, nobody else gets it."""
        offer.held += 1
        topic = self._topics.get(offer.job.topic)
        if topic is not None and topic.ready.pop(offer.job.key, None) is not None:
            self._tidy(topic)
        try:
            yield
        finally:
            offer.held -= 1
            if not offer.is_locked:
                self._return(offer)

    def close(self) -> None:
        """Answer every waiting request with no jobs, and refuse further ones."""
        self._closed = True
        for topic in self._topics.values():
            for poll in topic.polls:
                if not poll.jobs.done():
                    poll.jobs.set_result([])

    # --- bringing together ----------------------------------------------------------------------------------------

    def _serve_soon(self, topic: _Topic) -> None:
        if topic.polls and not topic.serving:
            topic.serving = True
            asyncio.get_running_loop().call_soon(self._serve, topic)

    def _serve(self, topic: _Topic) -> None:
        """Share what is ready among those that wait, the longest waiting first."""
        topic.serving = False
        while topic.ready and topic.polls:
            share = -(-len(topic.ready) // len(topic.polls))
            poll = next(iter(topic.polls))
            del topic.polls[poll]
            if not poll.jobs.done():
                poll.jobs.set_result(self._hand_out(topic, poll.worker, poll.timeout_ms, min(share, poll.most)))

    def _hand_out(self, topic: _Topic, worker: str, timeout_ms: int, most: int) -> list[Offer]:
        keys = [key for key, _ in zip(topic.ready, range(most), strict=False)]
        offers = [topic.ready.pop(key) for key in keys]
        for offer in offers:
            offer.activated_at_us = self._now_us()
            self.lock(offer, worker, timeout_ms)
        self._tidy(topic)
        return offers

    def _expired(self, offer: Offer) -> None:
        offer.lock = None
        self._return(offer)

    def give_back(self, offer: Offer) -> None:
        """Nobody has seen this job: it goes to the head of its queue."""
        if offer.gone or offer.held:
            return
        self._unlock(offer)
        offer.activated_at_us = None
        self.add(offer)
        self._topics[offer.job.topic].ready.move_to_end(offer.job.key, last=False)

    def _return(self, offer: Offer) -> None:
        if not offer.gone and not offer.held:
            self.add(offer)

    def _unlock(self, offer: Offer) -> None:
        if offer.lock is not None:
            offer.lock.cancel()
            offer.lock = None

    def _tidy(self, topic: _Topic) -> None:
        if not topic.ready and not topic.polls and self._topics.get(topic.name) is topic:
            del self._topics[topic.name]
