"""Notices: others hear of what is durable, in the order in which it happened, whatever one listener does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from engine.errors import ConchError, LeaseLost
from engine.live import Notice
from engine.notices import Notices
from engine.records import Cancel, Record, Tags
from engine.store.encoding import InstanceContext
from engine.store.journal import Commit
from tests.loop import run_virtual
from tests.simulation.disk import FaultyJournal

Scenario = Callable[[Notices, FaultyJournal], Awaitable[None]]


def running(scenario: Scenario) -> None:
    async def main() -> None:
        notices, journal = Notices(), FaultyJournal(write_s=1)
        await journal.start()
        giving = asyncio.create_task(notices.run())
        await scenario(notices, journal)
        giving.cancel()
        await journal.close()

    run_virtual(main())


def append(journal: FaultyJournal, key: int, position: int = -1) -> Commit:
    record = Record(position, 0, Cancel(1, "CANCELLED", ""))
    return journal.append(InstanceContext(key, Tags(), None), [record], flush=True)


def test_a_notice_waits_for_its_commit_and_later_ones_wait_for_it() -> None:
    said: list[str] = []

    async def scenario(notices: Notices, journal: FaultyJournal) -> None:
        notices.add(append(journal, 1), [say(said, "first"), say(said, "second")])
        notices.add(None, [say(said, "third")])
        await asyncio.sleep(0.9)
        assert said == []
        await notices.flushed()
        assert said == ["first", "second", "third"]

    running(scenario)


def test_an_outage_that_outlasts_everybodys_patience_only_delays_it() -> None:
    said: list[str] = []

    async def scenario(notices: Notices, journal: FaultyJournal) -> None:
        journal.back.clear()
        notices.add(append(journal, 1), [say(said, "at last")])
        await asyncio.sleep(600)
        assert journal.gave_up
        assert said == []
        journal.back.set()
        await notices.flushed()
        assert said == ["at last"]

    running(scenario)


def test_what_will_never_be_durable_is_not_said_and_its_owner_learns_why() -> None:
    said: list[str] = []
    reasons: list[ConchError] = []

    async def scenario(notices: Notices, journal: FaultyJournal) -> None:
        await append(journal, 1)
        notices.add(append(journal, 1), [say(said, "never")], reasons.append)
        notices.add(append(journal, 2), [say(said, "of another")])
        await notices.flushed()
        assert said == ["of another"]
        assert isinstance(reasons[0], LeaseLost)

    running(scenario)


def test_a_listener_that_fails_keeps_the_others_from_nothing(caplog: pytest.LogCaptureFixture) -> None:
    said: list[str] = []

    def fails() -> None:
        raise ValueError("of the listener")

    async def scenario(notices: Notices, journal: FaultyJournal) -> None:
        notices.add(None, [(fails, ()), say(said, "next")])
        await notices.flushed()
        assert said == ["next"]
        assert caplog.messages == ["notice failed"]

    running(scenario)


def say(said: list[str], word: str) -> Notice:
    return said.append, (word,)
