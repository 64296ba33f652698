"""Deployments on a real Postgres: what serves, who switched it, what is refused, and how other processes follow."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import psycopg
import pytest

from engine import linking
from engine.bpmn.definition import Binding, ElementType, TopicSpec
from engine.deployments import Deployment, Deployments
from engine.errors import Code, DefinitionInvalid, Rejected
from engine.linking import DeployedDefinition, Part, Programs
from engine.records import DefinitionRef, Key, Start, Tags
from engine.store.database import Database, connect
from engine.store.definitions import DECISION, Definitions, StoredDefinition
from engine.uploads import Resource, judge
from tests.audit_samples import keys
from tests.builders import Diagram, message

pytestmark = pytest.mark.postgres

ROUTE = "answer"
TOPICS = {name: TopicSpec(frozenset(), frozenset(), frozenset()) for name in ("ask", "tell", "look")}
FORM = b'{"id": "approval", "components": []}'
DECISION_TABLE = """<?xml version="1.0" encoding="UTF-8"?>
<definitions xmlns="https://www.omg.org/spec/DMN/20191111/MODEL/" id="policy" name="Policy" namespace="tests">
  <decision id="retry" name="Retry">
    <variable name="retry"/>
    <literalExpression><text>attempts &lt; %d</text></literalExpression>
  </decision>
</definitions>"""

Scenario = Callable[["Gateway"], Awaitable[None]]


class Gateway:
    """One process's view of the deployments of a database."""

    def __init__(self, database: Database, writer_id: int, route: str | None = ROUTE) -> None:
        self.definitions = Definitions(database)
        self.programs = Programs()
        self.deployments = Deployments(self.definitions, self.programs, keys(writer_id).mint, TOPICS, route)

    async def deploy(self, *files: Diagram | Resource) -> Deployment:
        resources = [file if isinstance(file, Resource) else resource(file) for file in files]
        return await self.deployments.deploy(resources, deployed_by="a test")

    async def refused(self, *files: Diagram | Resource) -> list[tuple[str, str, str]]:
        """What is told of the files, as (file, element, rule); nothing may have changed."""
        before = await self.deployments.search()
        serving = dict(self.deployments.active)
        with pytest.raises(DefinitionInvalid) as invalid:
            await self.deploy(*files)
        assert await self.deployments.search() == before
        assert dict(self.deployments.active) == serving
        assert all(each.message and each.remedy for each in invalid.value.problems)
        return [(each.file, each.element_id, each.rule) for each in invalid.value.problems if each.severity == "error"]

    def serving(self, process_id: str = ROUTE) -> tuple[int, int]:
        """The version, and how many definitions are pinned with it."""
        deployed = self.deployments.serving(process_id)
        return deployed.ref.version, len(deployed.calls)


def resource(diagram: Diagram) -> Resource:
    return Resource(f"{diagram.process_id}.bpmn", diagram.to_xml().encode())


def answering(name: str = "ask", *calls: str, process_id: str = ROUTE, binding: Binding = Binding.LATEST) -> Diagram:
    """One job, then calls in a row."""
    diagram = Diagram(process_id).start().task(name)
    elements = [f"call_{each.partition('@')[0]}" for each in calls]
    for element, call in zip(elements, calls, strict=True):
        called, _, tag = call.partition("@")
        diagram.call(element, called, Binding.VERSION_TAG if tag else binding, tag or None)
    return diagram.end().path("started", name, *elements, "ended")


def running(url: str, scenario: Scenario, route: str | None = ROUTE) -> None:
    async def main() -> None:
        database = await connect(url)
        try:
            async with asyncio.timeout(60):
                gateway = Gateway(database, 1, route)
                await gateway.deployments.refresh()
                await scenario(gateway)
        finally:
            await database.close()

    asyncio.run(main())


def start_of(deployed: DeployedDefinition, key: Key = 1) -> Start:
    return Start(key, deployed.ref, "0", "", Tags(), {}, True, calls=deployed.calls)


# --- versions and the switch --------------------------------------------------------------------------------------


def test_a_deployment_serves_at_once_and_the_same_content_again_is_the_same_version(audit_url: str) -> None:
    async def scenario(gateway: Gateway) -> None:
        first = await gateway.deploy(answering())
        assert gateway.serving() == (1, 0)
        again = await gateway.deploy(answering())
        assert [each.new for each in (*first.items, *again.items)] == [True, False]
        assert again.key == first.key
        assert again.items[0].definition == first.items[0].definition
        second = await gateway.deploy(answering("tell"))
        assert (second.items[0].definition.version, gateway.serving()) == (2, (2, 0))
        newest, oldest = await gateway.deployments.search(process_id=ROUTE)
        assert (newest.active, oldest.active) == (True, False)
        assert (newest.deployed_by, newest.tenant, newest.resource_name) == ("a test", "default", "answer.bpmn")
        assert newest.deployment_key == second.key
        assert await gateway.deployments.xml(newest.key) == answering("tell").to_xml().encode()

    running(audit_url, scenario)


def test_every_turn_of_the_switch_is_recorded_and_a_rollback_takes_back_the_last(audit_url: str) -> None:
    async def scenario(gateway: Gateway) -> None:
        deployments = gateway.deployments
        for name in ("ask", "tell", "look"):
            await gateway.deploy(answering(name))
        back = await deployments.rollback(ROUTE, by="ann", reason="too slow")
        assert (back.version, back.activated_by, back.reason, back.cause) == (2, "ann", "too slow", "rolled_back")
        assert gateway.serving() == (2, 0)
        assert (await deployments.rollback(ROUTE, by="ann")).version == 1
        with pytest.raises(Rejected, match="nothing to go back to"):
            await deployments.rollback(ROUTE, by="ann")
        assert (await deployments.activate(ROUTE, 3, by="bob")).cause == "activated"
        assert (await deployments.activate(ROUTE, 3, by="eve")).activated_by == "bob"
        assert (await deployments.rollback(ROUTE, by="bob")).version == 1
        told = [(each.version, each.cause, each.activated_by) for each in await deployments.history(ROUTE)]
        assert told == [
            *((version, "deployed", "a test") for version in (1, 2, 3)),
            *((version, "rolled_back", "ann") for version in (2, 1)),
            *((3, "activated", "bob"), (1, "rolled_back", "bob")),
        ]

    running(audit_url, scenario)


def test_deploying_the_latest_content_again_lets_it_serve_after_a_rollback(audit_url: str) -> None:
    async def scenario(gateway: Gateway) -> None:
        await gateway.deploy(answering())
        await gateway.deploy(answering("tell"))
        await gateway.deployments.rollback(ROUTE, by="ann")
        again = await gateway.deploy(answering("tell"))
        assert (again.items[0].definition.version, again.items[0].new, gateway.serving()[0]) == (2, False, 2)
        assert again.items[0].definition.active
        (*_, last) = await gateway.deployments.history(ROUTE)
        assert (last.version, last.cause) == (2, "deployed")

    running(audit_url, scenario)


def test_what_is_not_there_is_said_with_what_is(audit_url: str) -> None:
    async def scenario(gateway: Gateway) -> None:
        deployments = gateway.deployments
        await gateway.deploy(answering())
        for ask, told in (
            (deployments.activate(ROUTE, 7, by="ann"), "no version 7 of `answer`; the newest is 1"),
            (deployments.activate("other", 1, by="ann"), "no process `other` is deployed"),
            (deployments.rollback("other", by="ann"), "no process `other` is deployed"),
        ):
            with pytest.raises(Rejected, match=told) as refused:
                await ask
            assert refused.value.code == Code.NOT_FOUND
        with pytest.raises(Rejected, match="no process `other`"):
            deployments.serving("other")
        assert await deployments.find(key=1) is None
        assert await deployments.find(process_id="other") is None
        assert await deployments.find(process_id=ROUTE, version=2) is None

    running(audit_url, scenario)


def test_every_version_can_be_found_and_run(audit_url: str) -> None:
    async def scenario(gateway: Gateway) -> None:
        find = gateway.deployments.find
        tagged = Diagram(ROUTE, version_tag="spring").start().task("ask").end().path("started", "ask", "ended")
        old = (await gateway.deploy(tagged)).items[0].definition
        await gateway.deploy(answering("tell"))
        active = gateway.deployments.serving(ROUTE)
        assert await find(process_id=ROUTE) is active
        assert await find(process_id=ROUTE, version=2) is active
        assert await find(key=active.ref.key) is active
        for found in (
            await find(key=old.key),
            await find(process_id=ROUTE, version=1),
            await find(process_id=ROUTE, version_tag="spring"),
        ):
            assert found is not None
            assert found.ref == old.ref
            assert "ask" in found.program.definition.nodes

    running(audit_url, scenario)


# --- calls --------------------------------------------------------------------------------------------------------


def test_a_new_version_of_a_callee_is_called_by_what_starts_from_then_on(audit_url: str) -> None:
    async def scenario(gateway: Gateway) -> None:
        await gateway.deploy(answering("ask", "part"), answering("ask", process_id="part"))
        before = gateway.deployments.serving(ROUTE)
        await gateway.deploy(answering("tell", process_id="part"))
        after = gateway.deployments.serving(ROUTE)
        assert before.ref == after.ref
        assert [call.target.version for call in (*before.calls, *after.calls)] == [1, 2]
        assert "ask" in before.program.calls["call_part"].definition.nodes
        assert "tell" in after.program.calls["call_part"].definition.nodes
        await gateway.deployments.rollback("part", by="ann")
        assert gateway.deployments.serving(ROUTE).calls == before.calls
        assert await Programs().of_start(gateway.definitions, start_of(after)) is not after.program
        assert await gateway.programs.of_start(gateway.definitions, start_of(after)) is after.program

    running(audit_url, scenario)


def test_the_program_of_a_recorded_start_is_the_one_it_began_with(audit_url: str) -> None:
    async def scenario(gateway: Gateway) -> None:
        await gateway.deploy(answering("ask", process_id="leaf"), Resource("policy.dmn", (DECISION_TABLE % 3).encode()))
        part = Diagram("part").start().call("call_leaf", "leaf").decide("decide", "retry", "retry").end()
        await gateway.deploy(part.path("started", "call_leaf", "decide", "ended"))
        await gateway.deploy(answering("ask", "part", "leaf"))
        start = start_of(gateway.deployments.serving(ROUTE))
        assert sorted(call.target.process_id for call in start.calls) == ["leaf", "leaf", "part", "retry"]
        await gateway.deploy(
            answering("tell", process_id="leaf"), Resource("policy.dmn", (DECISION_TABLE % 5).encode())
        )
        assert start_of(gateway.deployments.serving(ROUTE)).calls != start.calls

        program = await Programs().of_start(gateway.definitions, start)
        inner = program.calls["call_part"]
        assert "ask" in inner.calls["call_leaf"].definition.nodes
        assert inner.calls["call_leaf"] is program.calls["call_leaf"]
        assert inner.decisions["decide"].content_hash == _target(start, "retry").content_hash
        elsewhere = start._replace(calls=(start.calls[0]._replace(target=start.definition._replace(key=7)),))
        with pytest.raises(Rejected, match="definition 7 "):
            await Programs().of_start(gateway.definitions, elsewhere)

    running(audit_url, scenario)


def _target(start: Start, process_id: str) -> DefinitionRef:
    return next(call.target for call in start.calls if call.target.process_id == process_id)


def test_a_call_by_tag_or_deployment_means_that_version_whatever_else_comes(audit_url: str) -> None:
    async def scenario(gateway: Gateway) -> None:
        tagged = Diagram("part", version_tag="spring").start().task("look").end().path("started", "look", "ended")
        bound = answering("ask", "part", process_id="bound", binding=Binding.DEPLOYMENT)
        await gateway.deploy(tagged)
        together = await gateway.deploy(bound, answering("ask", process_id="part"))
        await gateway.deploy(answering("ask", "part@spring", process_id="by_tag"))
        await gateway.deploy(answering("tell", process_id="part"))

        def called(process_id: str) -> int:
            return gateway.deployments.serving(process_id).calls[0].target.version

        assert (called("bound"), called("by_tag")) == (2, 1)
        # what is bound together becomes new together, so that the binding holds
        again = await gateway.deploy(bound, answering("tell", process_id="part"))
        assert [each.new for each in again.items] == [True, True]
        assert again.key != together.key
        assert called("bound") == 4
        assert await gateway.refused(bound) == [("bound.bpmn", "call_part", "unknown-process")]
        assert [each.new for each in (await gateway.deploy(bound, answering("tell", process_id="part"))).items] == [
            False,
            False,
        ]

    running(audit_url, scenario)


def test_calls_that_lead_nowhere_or_in_a_circle_are_refused_with_everything_else(audit_url: str) -> None:
    async def scenario(gateway: Gateway) -> None:
        await gateway.deploy(answering("ask", process_id="part"))
        lost = answering("ask", "nobody", "part@autumn", process_id="lost")
        lost.decide("decide", "no_decision", "x").flow("ask", "decide")
        told = await gateway.refused(lost, Resource("broken.bpmn", b"<a>"), answering("ask", "part"))
        assert set(told) >= {
            ("broken.bpmn", "", "not-xml"),
            ("lost.bpmn", "call_nobody", "unknown-process"),
            ("lost.bpmn", "call_part", "unknown-version-tag"),
            ("lost.bpmn", "decide", "unknown-decision"),
        }
        await gateway.deploy(answering("ask", "part"))
        assert await gateway.refused(answering("tell", ROUTE, process_id="part")) == [
            ("part.bpmn", "call_answer", "cyclic-call")
        ]
        assert await gateway.refused(answering("ask", "self", process_id="self")) == [
            ("self.bpmn", "call_self", "cyclic-call")
        ]

    running(audit_url, scenario)


def test_an_older_version_of_a_process_may_be_called_by_a_newer_one(audit_url: str) -> None:
    async def scenario(gateway: Gateway) -> None:
        first = Diagram(ROUTE, version_tag="v1").start().task("ask").end().path("started", "ask", "ended")
        await gateway.deploy(first)
        await gateway.deploy(answering("tell", f"{ROUTE}@v1"))
        assert gateway.serving() == (2, 1)
        assert "ask" in gateway.deployments.serving(ROUTE).program.calls["call_answer"].definition.nodes

    running(audit_url, scenario)


def test_calls_deeper_than_the_limit_are_refused(audit_url: str) -> None:
    async def scenario(gateway: Gateway) -> None:
        chain = [answering("ask", f"p{n + 1}", process_id=f"p{n}") for n in range(31)]
        await gateway.deploy(*chain, answering("ask", process_id="p31"))
        told = await gateway.refused(answering("ask", "p0", process_id="top"))
        assert {rule for _, _, rule in told} == {"calls-too-deep"}

    running(audit_url, scenario)


# --- the inference route ------------------------------------------------------------------------------------------


def test_the_route_is_held_to_the_gateways_own_tasks_and_other_processes_are_not(audit_url: str) -> None:
    async def scenario(gateway: Gateway) -> None:
        await gateway.deploy(answering("ask", process_id="part"))
        await gateway.deploy(answering("ask", "part"))
        await gateway.deploy(answering("work_outside", process_id="other"))
        with_person = Diagram("other").start().user_task("approve").end().path("started", "approve", "ended")
        await gateway.deploy(with_person)
        assert await gateway.refused(answering("work_outside")) == [("answer.bpmn", "work_outside", "unknown-topic")]
        # also when only a process that it calls has changed
        assert await gateway.refused(answering("work_outside", process_id="part")) == [
            ("part.bpmn", "work_outside", "unknown-topic")
        ]
        assert await gateway.refused(answering("ask", "other")) == [("other.bpmn", "approve", "person-in-request")]
        assert gateway.serving() == (1, 1)

    running(audit_url, scenario)


def test_the_route_needs_a_none_start_event(audit_url: str) -> None:
    async def scenario(gateway: Gateway) -> None:
        diagram = Diagram(ROUTE).start(event=message("order")).task("ask").end().path("started", "ask", "ended")
        assert ("answer.bpmn", ROUTE, "no-none-start-event") in await gateway.refused(diagram)
        diagram.process_id = "other"
        await gateway.deploy(diagram)

    running(audit_url, scenario)


# --- files --------------------------------------------------------------------------------------------------------


def test_decisions_and_forms_are_versions_too_and_a_switched_decision_is_evaluated_from_then_on(audit_url: str) -> None:
    async def scenario(gateway: Gateway) -> None:
        table, other = ((DECISION_TABLE % n).encode() for n in (3, 5))
        deciding = Diagram(ROUTE).start().decide("decide", "retry", "again").end().path("started", "decide", "ended")
        made = await gateway.deploy(Resource("policy.dmn", table), deciding, Resource("approval.form", FORM))
        told = [(each.kind, each.definition.process_id, each.definition.version) for each in made.items]
        assert told == [
            ("requirements", "policy", 1),
            ("decision", "retry", 1),
            ("process", ROUTE, 1),
            ("form", "approval", 1),
        ]
        await gateway.deploy(Resource("policy.dmn", other))
        newer = gateway.deployments.serving(ROUTE)
        assert newer.calls[0].target.version == 2
        await gateway.deployments.rollback("retry", by="ann", kind=DECISION)
        older = gateway.deployments.serving(ROUTE)
        assert older.calls[0].target.version == 1
        assert older.program.decisions["decide"] is not newer.program.decisions["decide"]

    running(audit_url, scenario)


def test_files_that_cannot_be_deployed_are_refused_by_name(audit_url: str) -> None:
    async def scenario(gateway: Gateway) -> None:
        told = await gateway.refused(
            Resource("robot.rpa", b"{}"),
            Resource("notes.txt", b""),
            Resource("a.form", b"{"),
            Resource("b.form", b'{"components": []}'),
            Resource("c.form", b'{"id": "%s"}' % (b"x" * 256)),
            Resource("d.form", b'{"id": "\\u0000"}'),
            Resource("e.dmn", b"<definitions/>"),
            Resource("\x00.form", FORM),
            resource(answering()),
            resource(answering("tell")),
            Resource("again.bpmn", answering().to_xml().encode()),
        )
        assert {(file, rule) for file, _, rule in told} >= {
            ("robot.rpa", "unsupported-file"),
            ("notes.txt", "unsupported-file"),
            ("a.form", "not-json"),
            ("b.form", "missing-id"),
            ("c.form", "invalid-id"),
            ("d.form", "invalid-id"),
            ("answer.bpmn", "duplicate-file"),
            ("again.bpmn", "duplicate-process-id"),
        }
        assert any(file == "e.dmn" for file, _, _ in told)
        assert any(rule == "invalid-name" for _, _, rule in told)
        assert await gateway.refused() == [("", "", "no-file")]

    running(audit_url, scenario)


def test_ids_and_names_in_any_script_are_kept_as_they_are(audit_url: str) -> None:
    async def scenario(gateway: Gateway) -> None:
        diagram = Diagram("推論_διαδικασία_طلب").start()
        diagram.node("بررسی\u200cها", ElementType.MANUAL_TASK, name="Größe \U0001f409 & <名前>").end()
        diagram.path("started", "بررسی\u200cها", "ended")
        xml = diagram.to_xml().encode()
        await gateway.deploy(Resource("推論 \U0001f409.bpmn", xml))
        found = gateway.deployments.serving("推論_διαδικασία_طلب")
        assert found.program.definition.nodes["بررسی\u200cها"].name == "Größe \U0001f409 & <名前>"
        (stored,) = await gateway.deployments.search()
        assert (stored.process_id, stored.resource_name) == ("推論_διαδικασία_طلب", "推論 \U0001f409.bpmn")
        assert await gateway.deployments.xml(stored.key) == xml

    running(audit_url, scenario)


# --- starts -------------------------------------------------------------------------------------------------------


async def started(gateway: Gateway, *diagrams: Diagram) -> None:
    """What a gateway does with its folder of diagrams when it starts."""
    judged = judge([resource(each) for each in diagrams], TOPICS, ROUTE)
    await gateway.deployments.refresh()
    await gateway.deployments.deploy_unknown(judged, deployed_by="a start")


def test_a_start_deploys_what_is_new_and_never_undoes_a_deployment_or_a_rollback(audit_url: str) -> None:
    async def scenario(gateway: Gateway) -> None:
        await started(gateway, answering())
        assert gateway.serving() == (1, 0)
        await gateway.deploy(answering("tell"))
        await started(gateway, answering())
        assert gateway.serving() == (2, 0)
        await gateway.deployments.rollback(ROUTE, by="ann")
        await started(gateway, answering("tell"))
        assert gateway.serving() == (1, 0)
        await started(gateway, answering("look"))
        assert gateway.serving() == (3, 0)
        assert len(await gateway.deployments.history(ROUTE)) == 4

    running(audit_url, scenario)


def test_what_a_start_has_to_store_again_beside_something_new_does_not_serve_for_that(audit_url: str) -> None:
    async def scenario(gateway: Gateway) -> None:
        bound = answering("ask", "part", binding=Binding.DEPLOYMENT)
        await started(gateway, bound, answering("ask", process_id="part"))
        await gateway.deploy(answering("look"))
        await started(gateway, bound, answering("tell", process_id="part"))
        assert gateway.serving() == (2, 0)  # of the deployment, although version 3 was stored
        assert gateway.serving("part") == (2, 0)
        await gateway.deployments.activate(ROUTE, 3, by="ann")
        assert gateway.deployments.serving(ROUTE).calls[0].target.version == 2

    running(audit_url, scenario)


# --- other processes ----------------------------------------------------------------------------------------------


def test_another_process_follows_a_deployment_and_a_rollback(audit_url: str) -> None:
    async def scenario(gateway: Gateway) -> None:
        database = await connect(audit_url)
        other = Gateway(database, 2)
        following = asyncio.create_task(other.deployments.follow())
        try:
            await gateway.deploy(answering())
            revision = await other.deployments.changed(0)
            assert other.serving() == gateway.serving() == (1, 0)
            await gateway.deploy(answering("tell"))
            revision = await other.deployments.changed(revision)
            assert other.serving() == (2, 0)
            await gateway.deployments.rollback(ROUTE, by="ann")
            await other.deployments.changed(revision)
            assert other.serving() == (1, 0)
            assert other.deployments.serving(ROUTE).ref == gateway.deployments.serving(ROUTE).ref
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            await database.close()

    running(audit_url, scenario)


def test_who_lost_its_connection_catches_up(audit_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.deployments.RECONNECT_S", 0.01)

    async def scenario(gateway: Gateway) -> None:
        database = await connect(audit_url)
        other = Gateway(database, 2)
        following = asyncio.create_task(other.deployments.follow())
        try:
            await gateway.deploy(answering())
            revision = await other.deployments.changed(0)
            with psycopg.connect(audit_url, autocommit=True) as connection:
                ended = connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
                    " AND datname = current_database()"
                ).fetchall()
            assert ended == [(True,)]
            await gateway.deploy(answering("tell"))
            await other.deployments.changed(revision)
            assert other.serving() == (2, 0)
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            await database.close()

    running(audit_url, scenario)


def test_who_was_not_told_looks_by_itself(audit_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.deployments.CATCH_UP_S", 0.01)
    monkeypatch.setattr("engine.store.definitions.CHANNEL", "another_channel")

    async def scenario(gateway: Gateway) -> None:
        database = await connect(audit_url)
        other = Gateway(database, 2)
        following = asyncio.create_task(other.deployments.follow())
        try:
            await gateway.deploy(answering())
            await other.deployments.changed(0)
            assert other.serving() == (1, 0)
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            await database.close()

    running(audit_url, scenario)


def test_what_serves_stays_parsed_and_what_does_not_is_parsed_again_on_demand(
    audit_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[str] = []

    def counted(xml: bytes, imports: Mapping[str, bytes], stored: StoredDefinition) -> Part:
        parsed.append(stored.process_id)
        return read(xml, imports, stored)

    read = linking._read
    monkeypatch.setattr(linking, "_read", counted)
    monkeypatch.setattr(linking, "PARTS_KEPT", 2)
    monkeypatch.setattr(linking, "PROGRAMS_KEPT", 2)

    async def scenario(gateway: Gateway) -> None:
        many = [answering("ask", "shared", process_id=f"p{n}") for n in range(8)]
        await gateway.deploy(*many, answering("ask", process_id="shared"))
        await gateway.deploy(answering("tell", process_id="shared"))
        assert parsed == []
        fresh = Gateway(gateway.definitions.database, 2)
        await fresh.deployments.refresh()
        assert sorted(parsed) == sorted([*(f"p{n}" for n in range(8)), "shared"])
        await fresh.deployments.activate("shared", 1, by="ann")
        assert parsed[9:] == ["shared"]
        await fresh.deployments.rollback("shared", by="ann")
        assert parsed[10:] == ["shared"] * len(parsed[10:])

    running(audit_url, scenario)


def test_deployments_by_two_processes_at_once_get_a_version_each_and_both_see_the_last(audit_url: str) -> None:
    async def scenario(gateway: Gateway) -> None:
        database = await connect(audit_url)
        other = Gateway(database, 2)
        try:
            made = await asyncio.gather(
                *(each.deploy(answering(name)) for each in (gateway, other) for name in ("ask", "tell", "look"))
            )
            versions = {each.items[0].definition.key: each.items[0].definition.version for each in made}
            assert sorted(versions.values()) == list(range(1, len(versions) + 1))
            for each in (gateway, other):
                await each.deployments.refresh()
                assert each.serving() == (len(versions), 0)
        finally:
            await database.close()

    running(audit_url, scenario)


def test_what_another_engine_version_has_deployed_does_not_stop_the_version_before(audit_url: str) -> None:
    async def scenario(gateway: Gateway) -> None:
        await gateway.deploy(answering())
        database = await connect(audit_url)
        newer = Gateway(database, 2, route=None)  # one that knows other tasks
        try:
            await newer.deployments.refresh()
            await newer.deploy(answering("a_later_task"))
            await gateway.deployments.refresh()
            assert gateway.serving() == (1, 0)
            await gateway.deploy(answering("ask", process_id="other"))  # goes on, although the route is behind
            assert gateway.serving() == (1, 0)
            fresh = Gateway(database, 3)
            await fresh.deployments.refresh()
            with pytest.raises(DefinitionInvalid, match="a_later_task"):
                fresh.deployments.serving(ROUTE)
            await gateway.deployments.rollback(ROUTE, by="ann")
            await fresh.deployments.refresh()
            assert fresh.serving() == (1, 0)
        finally:
            await database.close()

    running(audit_url, scenario)
