"""A business rule task: the decision's value becomes a variable, its reasons a fact, its failure an incident."""

from __future__ import annotations

from engine.bpmn.spiff import Program
from engine.dmn import parse_decisions
from engine.records import DecisionMade, IncidentRaised
from tests.builders import Diagram
from tests.dmn_builders import decision, definitions, table
from tests.driven import Driven

LIMITS = definitions(
    decision("limit", table(["tier"], ["limit"], [['"gold"', "100"], ['"basic", "none"', "10"], ['"none"', "0"]]))
)


def deciding(tier: str) -> Driven:
    diagram = Diagram().start().decide("choose_limit", "limit", "limit").end().path("started", "choose_limit", "ended")
    called = parse_decisions(LIMITS, "limits.dmn").decisions["limit"]
    return Driven(Program(diagram.build(), decisions={"choose_limit": called}), {"tier": tier})


def test_the_value_becomes_the_result_variable_and_the_reason_a_fact() -> None:
    driven = deciding("gold")
    assert driven.instance.outcome is not None
    assert driven.instance.variables["limit"] == 100
    (made,) = driven.facts(DecisionMade)
    assert (made.element_id, made.decision.name, made.decision.chosen) == ("choose_limit", "limit", "100")
    assert "rule_1" in made.decision.reason
    assert made.decision.details["inputs"] == {"tier": "gold"}


def test_a_decision_that_fails_is_an_incident_that_names_the_rules() -> None:
    driven = deciding("none")
    (raised,) = driven.facts(IncidentRaised)
    assert raised.error_code == "DECISION_FAILED"
    assert "the rules 2 and 3 match, but the hit policy UNIQUE allows only one" in raised.message
