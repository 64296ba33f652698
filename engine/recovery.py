"""Owns what happens around a lease: it is renewed, and somebody looks after the open instances of dead processes.
Never takes an instance from a process that may be alive, and never answers anybody.
Called by the runtime, which runs both sides as its side tasks.

Online instances are closed as aborted, by the same words as any other: the durable commands are replayed, Abort is
applied, and the records of that go through this process's own journal. Operational ones are adopted and go on. The
primary key of the rows is the fence if two processes try.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from engine.core.instance import has_ended
from engine.core.replay import replay
from engine.errors import Code, ConchError, LeaseLost, Rejected
from engine.job import place_of
from engine.keys import KeySource
from engine.ownership import Ownership, StoreAway
from engine.records import Abort, Key, Start
from engine.run import Run
from engine.store.encoding import InstanceContext
from engine.store.journal import Commit, Journal
from engine.store.leases import DeadProcess

log = logging.getLogger("conch.recovery")

_MESSAGE = "the process that ran this request died before it was done"

Adopt: TypeAlias = Callable[[Sequence[Key]], Awaitable[int]]


class Recovery:
    """Closes or adopts what others, or a fault of this process, have left open.

    `adopt` takes those of some operational instances that are not here yet; it returns how many, once they are here or
    known to be unreadable.
    """

    def __init__(
        self,
        ownership: Ownership,
        journal: Journal,
        keys: KeySource,
        now_us: Callable[[], int],
        adopt: Adopt,
    ):
        self._adopt = adopt
        self.under_way = False  # instances pass over to this process; some may be its own and not be here yet
        self._ownership = ownership
        self._beat_s = ownership.lease_s / 3
        self._claimed: list[DeadProcess] = []  # by us, and not yet looked after
        self._left: set[int] = set()  # epochs with instances that this process could not close
        self._journal = journal
        self._keys = keys
        self._now_us = now_us

    async def beat(self) -> None:
        """Renew the lease for ever. Raises LeaseLost when it is another's; ends with the runtime otherwise."""
        while True:
            try:
                await self._ownership.renew()
            except StoreAway as away:
                log.warning("lease not renewed", extra={"reason": str(away)})
            await asyncio.sleep(self._beat_s)

    async def watch(self, strays: list[Run]) -> None:
        """Take over for ever, and close the runs that a fault of this process has put into `strays`."""
        while True:
            try:
                await self._close_strays(strays)
                await self.take_over()
            except StoreAway as away:
                log.warning("nothing taken over", extra={"reason": str(away)})
            await asyncio.sleep(self._beat_s)

    async def _close_strays(self, strays: list[Run]) -> None:
        """What cannot be closed now stays, for the next look and, if this process ends before, for its heir."""
        for run in tuple(strays):
            try:
                await run.durable()  # what was handed over before the fault comes first
            except LeaseLost:
                strays.remove(run)  # another process closes it
                continue
            except Rejected as refused:
                if refused.code == Code.JOURNAL_UNAVAILABLE:
                    raise StoreAway(refused.message) from refused
            if await self.close([run.key]):
                strays.remove(run)

    async def take_over(self) -> None:
        """Look after every open instance of the processes that are dead by now."""
        self._claimed += await self._ownership.claim_dead(self._left)
        while self._claimed:
            await self._recover(self._claimed[0])  # while the store is away it stays claimed, and first in line
            self._claimed.pop(0)

    async def _recover(self, dead: DeadProcess) -> None:
        keys = await self._ownership.open_instances(dead)
        done = await self.close(keys)
        adopted = await self._take_on(dead)
        if done == len(keys):
            await self._ownership.mark_recovered(dead)
        else:
            self._left.add(dead.epoch)  # another version may be able to read what this one cannot
        counted = {"closed": done, "left_open": len(keys) - done, "adopted": adopted}
        log.warning("dead process recovered", extra={"owner": dead.owner, "epoch": dead.epoch, **counted})

    async def _take_on(self, dead: DeadProcess) -> int:
        """Adopt what goes on, and what has ended without others having been told of all it threw."""
        ended = await self._ownership.ended_lately(dead)
        self.under_way = True
        adopted = await self._adopt(await self._ownership.adopt(dead))
        self.under_way = False
        return adopted + await self._adopt(ended)

    async def close(self, keys: Sequence[Key]) -> int:
        """End these instances as aborted; returns how many have a durable end now, or go on here."""
        commits: list[Commit] = []
        done = 0
        for key in keys:
            try:
                commit = await self._abort(key)
            except StoreAway:
                raise
            except Exception as error:  # recovery edge: one instance that cannot be read must not keep others open
                reason = (
                    str(error)[:500] if isinstance(error, ConchError) else f"{type(error).__name__} {place_of(error)}"
                )
                log.error("instance cannot be closed", extra={"process_instance_key": key, "reason": reason})
                continue
            if commit is None:
                done += 1
            else:
                commits.append(commit)
        for commit in commits:
            try:
                await commit
                done += 1
            except LeaseLost:
                done += 1  # another process has closed it, or is about to
            except Rejected as refused:
                log.error("closing is not durable", extra={"code": refused.code})
        return done

    async def _abort(self, key: Key) -> Commit | None:
        recorded = await self._ownership.load(key)
        if recorded is None:
            return None
        instance = replay(recorded.program, recorded.commands)
        if has_ended(instance):
            return None
        start = recorded.commands[0][0]
        assert isinstance(start, Start)
        if not start.online:  # one that a fault of this process has lost
            await self._adopt([key])
            return None
        # The dead process may have had a faster clock. Abort mints nothing, so its next key stays unused.
        abort = Abort(max(self._keys.mint(), instance.next_key), _MESSAGE)
        step = instance.apply(abort, self._now_us())
        return self._journal.append(InstanceContext.of_commands(recorded.commands), step.records, flush=True)
