"""Owns the words in which the runtime tells others what an instance waits for: outside work, events, its own signals.
Never keeps or delivers anything.
Called by the runtime; implemented by those who lend work to others and who correlate events.
"""

from __future__ import annotations

from typing import Protocol

from engine.records import Job, Key, Signal, Subscription


class Waiting(Protocol):
    """Who is told what instances wait for. Every method is synchronous, quick, and never raises.

    Everything is told once it is durable, in the order in which it happened. After a restart, or when this process
    takes over another's instances, what is still open is told again: `offered` and `subscribed` for everything open,
    and `threw` for every signal that the instance has ever thrown. The keys stay the same, so that what is known
    already can be left alone.
    """

    def offered(self, instance_key: Key, job: Job) -> None:
        """A job of an operational instance that no task of this process does; a user task too (USER_TASK_TOPIC).

        Answer with `Runtime.tell(instance_key, JobCompleted | JobFailed | BpmnErrorThrown, job.key, ...)`.
        """

    def withdrawn(self, job_key: Key) -> None:
        """An offered job is over: completed, failed, or stopped by its instance. An answer would come too late."""

    def subscribed(self, instance_key: Key, subscription: Subscription) -> None:
        """An instance waits for an event. Answer with `Runtime.tell(instance_key, EventReceived, subscription.key,
        event_key, variables)`; an online instance takes it as well while it is in memory."""

    def unsubscribed(self, subscription_key: Key) -> None:
        """Nobody waits for it any more."""

    def threw(self, instance_key: Key, signal: Signal) -> None:
        """An instance broadcasts a signal."""

    def ended(self, instance_key: Key) -> None:
        """An instance that was told of has ended; whatever of it is still open is void."""
