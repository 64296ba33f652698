"""Decisions on a real Postgres: files pinned to what they import for ever, and reasons that the audit keeps."""

from __future__ import annotations

import pytest

from engine.core.replay import derive_records
from engine.dmn import Decision
from engine.feel import EvaluationContext
from engine.linking import Programs
from engine.records import Start
from engine.store.canonical import differences, rows_from_records
from engine.store.definitions import DECISION, REQUIREMENTS
from engine.store.encoding import InstanceContext
from engine.uploads import Resource
from tests.audit_samples import REQUEST_ID
from tests.builders import Diagram
from tests.dmn_builders import DMN_13, literal
from tests.driven import Driven
from tests.postgres.test_deployments import ROUTE, Gateway, running, start_of
from tests.postgres.test_store_instances import Audit
from tests.postgres.test_store_instances import running as storing
from tests.unit.test_dmn_business_rule_task import REASONS, graph

pytestmark = pytest.mark.postgres

POLICY = f"""<definitions xmlns="{DMN_13}" id="policy" name="Policy" namespace="policy">
  <import name="rates" namespace="rates" importType="{DMN_13}"/>
  <decision id="price" name="Price"><variable name="Price"/>
    <knowledgeRequirement><requiredKnowledge href="rates#rate"/></knowledgeRequirement>
    {literal("tokens * rates.rate()")}
  </decision>
</definitions>"""
DECIDING = Diagram(ROUTE).start().decide("decide", "price", "price").end().path("started", "decide", "ended")


def rates(usd: int) -> Resource:
    logic = f"<encapsulatedLogic>{literal(str(usd))}</encapsulatedLogic>"
    knowledge = f'<businessKnowledgeModel id="rate" name="rate"><variable name="rate"/>{logic}</businessKnowledgeModel>'
    xml = f'<definitions xmlns="{DMN_13}" id="rates" name="Rates" namespace="rates">{knowledge}</definitions>'
    return Resource("rates.dmn", xml.encode())


def policy(name: str = "policy.dmn") -> Resource:
    return Resource(name, POLICY.encode())


def priced(decision: Decision | None) -> object:
    assert decision is not None
    return decision.evaluate({"tokens": 10}, EvaluationContext()).value


def test_what_a_file_imports_is_pinned_to_its_version_and_read_again_after_a_restart(audit_url: str) -> None:
    async def scenario(gateway: Gateway) -> None:
        await gateway.deploy(policy(), rates(2), DECIDING)
        start = start_of(gateway.deployments.serving(ROUTE))
        assert priced(gateway.deployments.serving(ROUTE).program.decisions["decide"]) == 20

        await gateway.deploy(policy(), rates(3))
        newer = gateway.deployments.serving(ROUTE)
        (call,) = newer.calls
        assert call.target.version == 2
        assert priced(newer.program.decisions["decide"]) == 30

        elsewhere = Programs()  # of another process, which has parsed nothing yet
        pinned = await elsewhere.of_start(gateway.definitions, start)
        assert priced(pinned.decisions["decide"]) == 20
        now = await elsewhere.of_start(gateway.definitions, start_of(newer))
        assert priced(now.decisions["decide"]) == 30
        assert now.decisions["decide"].content_hash == call.target.content_hash

        await gateway.deployments.rollback("price", by="ann", kind=DECISION)
        assert priced(gateway.deployments.serving(ROUTE).program.decisions["decide"]) == 20

    running(audit_url, scenario)


def test_the_same_files_again_are_the_same_versions(audit_url: str) -> None:
    async def scenario(gateway: Gateway) -> None:
        made = await gateway.deploy(policy(), rates(2))
        assert [(each.kind, each.definition.process_id, each.new) for each in made.items] == [
            (REQUIREMENTS, "policy", True),
            (DECISION, "price", True),
            (REQUIREMENTS, "rates", True),
        ]
        again = await gateway.deploy(rates(2), policy())
        assert [each.new for each in again.items] == [False, False, False]
        (own, imported) = (
            next(each.definition for each in made.items if each.definition.process_id == name)
            for name in ("price", "rates")
        )
        async with gateway.definitions.reading() as catalog:
            assert await catalog.imports(own.key) == {"rates.dmn": rates(2).content}
            assert await catalog.imports(imported.key) == {}
            assert await catalog.xml(own.key) == policy().content

    running(audit_url, scenario)


def test_a_file_without_what_it_imports_is_refused(audit_url: str) -> None:
    async def scenario(gateway: Gateway) -> None:
        assert await gateway.refused(policy()) == [("policy.dmn", "policy", "missing-import")]
        broken = rates(2)._replace(content=rates(2).content.replace(b"<text>2</text>", b"<text>2 +</text>"))
        assert await gateway.refused(policy(), broken) == [
            ("policy.dmn", "policy", "wrong-import"),
            ("rates.dmn", "rate", "feel-syntax"),
        ]
        cyclic = rates(2)._replace(
            content=rates(2).content.replace(b"<business", b'<import name="p" namespace="policy"/><business')
        )
        assert {rule for _, _, rule in await gateway.refused(policy(), cyclic)} == {"cyclic-import"}

    running(audit_url, scenario)


def test_the_reasons_of_a_decision_are_rows_of_the_audit_that_replay_derives_again(audit_url: str) -> None:
    async def scenario(store: Audit) -> None:
        program = graph()
        driven = Driven(program, {"tenant": "acme", "tokens": 2}, key=store.keys.reserve(), request_id=REQUEST_ID)
        (start, at_us) = driven.log[0]
        assert isinstance(start, Start)
        await store.journal.append(InstanceContext.of_start(start), driven.step.records, flush=True)
        (row,) = await store.ask("SELECT decision, reason, details FROM audit.decisions")
        assert row == {"decision": "answer", "reason": "evaluated", "details": REASONS}
        again = derive_records(graph(), [(start, at_us)])
        derived = rows_from_records(InstanceContext.of_start(start), again)
        assert differences(start.key, await store.queries.stored_rows(start.key), derived) == []

    storing(audit_url, scenario)
