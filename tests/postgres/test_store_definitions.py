"""Stored files: numbered versions without gaps, groups that become new together, and the turns of the switch."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from engine.store.database import Database, connect
from engine.store.definitions import DECISION, FORM, PROCESS, Definitions, Deployable
from tests.audit_samples import keys

pytestmark = pytest.mark.postgres


def running(url: str, scenario: Callable[[Definitions], Awaitable[None]]) -> None:
    async def main() -> None:
        database: Database = await connect(url)
        try:
            async with asyncio.timeout(60):
                await scenario(Definitions(database))
        finally:
            await database.close()

    asyncio.run(main())


def deployable(process_id: str, xml: bytes, group: int | None = None, kind: str = PROCESS) -> Deployable:
    return Deployable(process_id, f"hash of {xml!r}", f"{process_id}.bpmn", xml, kind, group=group)


def test_deploying_numbers_versions_and_the_same_content_twice_is_one(audit_url: str) -> None:
    async def scenario(definitions: Definitions) -> None:
        source = keys()
        one, other = deployable("a", b"<1/>"), deployable("b", b"<1/>")
        first = await definitions.deploy([one, other], source.mint, "tests")
        assert [(each.ref.process_id, each.ref.version, each.new) for each in first] == [("a", 1, True), ("b", 1, True)]
        again = await definitions.deploy([one, other], source.mint, "tests")
        assert [(each.ref, each.new) for each in again] == [(each.ref, False) for each in first]

        (second,) = await definitions.deploy([deployable("a", b"<2/>")], source.mint, "tests")
        (back,) = await definitions.deploy([one], source.mint, "tests")
        assert (second.ref.version, back.ref.version) == (2, 3)
        latest, pinned = await definitions.latest("a"), await definitions.load(second.ref.key)
        assert latest is not None
        assert pinned is not None
        assert (latest.ref, latest.xml) == (back.ref, b"<1/>")
        assert (pinned.ref, pinned.xml, pinned.resource_name) == (second.ref, b"<2/>", "a.bpmn")
        assert await definitions.latest("never") is None
        assert await definitions.load(1) is None
        async with definitions.reading() as catalog:
            listed = await catalog.search()
            assert [(each.process_id, each.version, each.active) for each in listed] == [
                *(("a", 3, True), ("a", 2, False)),
                *(("b", 1, True), ("a", 1, False)),
            ]
            assert await catalog.search(process_id="a", active_only=True) == listed[:1]
            assert await catalog.search(process_id="a", version=2) == listed[1:2]
            assert await catalog.xml(second.ref.key) == b"<2/>"
            assert await catalog.xml(1) is None

    running(audit_url, scenario)


def test_one_id_of_each_kind_is_a_thing_of_its_own(audit_url: str) -> None:
    async def scenario(definitions: Definitions) -> None:
        kinds = [deployable("a", b"%d" % n, kind=kind) for n, kind in enumerate((PROCESS, DECISION, FORM))]
        made = await definitions.deploy(kinds, keys().mint, "tests")
        assert [(each.definition.kind, each.ref.version) for each in made] == [(PROCESS, 1), (DECISION, 1), (FORM, 1)]
        async with definitions.reading() as catalog:
            assert await catalog.all_active(PROCESS, DECISION) == [made[1].definition, made[0].definition]

    running(audit_url, scenario)


def test_a_group_becomes_new_together_and_what_stands_alone_stays(audit_url: str) -> None:
    async def scenario(definitions: Definitions) -> None:
        source = keys()
        tied = [deployable("a", b"1", 0), deployable("b", b"1", 0)]
        first = await definitions.deploy([*tied, deployable("c", b"1")], source.mint, "tests")
        again = await definitions.deploy([*tied, deployable("c", b"1")], source.mint, "tests")
        assert [each.new for each in (*first, *again)] == [True] * 3 + [False] * 3
        changed = await definitions.deploy([tied[0], deployable("b", b"2", 0), deployable("c", b"1")], source.mint, "x")
        assert [(each.new, each.ref.version) for each in changed] == [(True, 2), (True, 2), (False, 1)]
        await definitions.deploy([deployable("b", b"3")], source.mint, "tests")
        # the same contents, but from two deployments
        apart = await definitions.deploy([tied[0], deployable("b", b"3", 0)], source.mint, "tests")
        assert [(each.new, each.ref.version) for each in apart] == [(True, 3), (True, 4)]

    running(audit_url, scenario)


def test_deployments_at_the_same_time_leave_no_gap_and_no_double(audit_url: str) -> None:
    async def scenario(definitions: Definitions) -> None:
        source = keys()
        done = await asyncio.gather(
            *(definitions.deploy([deployable("a", b"%d" % n)], source.mint, "tests") for n in range(4))
        )
        assert sorted(each.ref.version for (each,) in done) == [1, 2, 3, 4]

    running(audit_url, scenario)


def test_a_deployment_is_all_or_nothing(audit_url: str) -> None:
    async def scenario(definitions: Definitions) -> None:
        minted = iter([10, 11, 11])  # of the deployment, and of two definitions: the last one is taken
        with pytest.raises(Exception, match="process_definition_pkey"):
            await definitions.deploy([deployable("a", b"1"), deployable("b", b"1")], lambda: next(minted), "tests")
        with pytest.raises(ValueError, match="deployed twice"):
            await definitions.deploy([deployable("a", b"1"), deployable("a", b"2")], keys().mint, "tests")
        async with definitions.reading() as catalog:
            assert await catalog.search() == []
            assert await catalog.changes() == (0, 0)

    running(audit_url, scenario)
