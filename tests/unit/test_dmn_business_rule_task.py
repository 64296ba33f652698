"""A business rule task: the decision's value becomes a variable, its reasons a fact, its failure an incident."""

from __future__ import annotations

from typing import Any

import pytest

from engine.bpmn.spiff import Program
from engine.dmn import parse_decisions
from engine.feel import EvaluationContext
from engine.records import DecisionMade, IncidentRaised
from tests.builders import Diagram
from tests.dmn_builders import decision, definitions, literal, table
from tests.driven import Driven

LIMITS = definitions(
    decision("limit", table(["tier"], ["limit"], [['"gold"', "100"], ['"basic", "none"', "10"], ['"none"', "0"]]))
)


def deciding(tier: str, **start: Any) -> Driven:
    diagram = Diagram().start().decide("choose_limit", "limit", "limit").end().path("started", "choose_limit", "ended")
    called = parse_decisions(LIMITS, "limits.dmn").decisions["limit"]
    return Driven(Program(diagram.build(), decisions={"choose_limit": called}), {"tier": tier}, **start)


def test_the_value_becomes_the_result_variable_and_the_reason_a_fact() -> None:
    driven = deciding("gold")
    assert driven.instance.outcome is not None
    assert driven.instance.variables["limit"] == 100
    (made,) = driven.facts(DecisionMade)
    assert (made.element_id, made.decision.name, made.decision.chosen) == ("choose_limit", "limit", "100")
    assert "rule_1" in made.decision.reason
    assert made.decision.details["inputs"] == {"tier": "gold"}


def chosen(logic: str) -> tuple[str | None, str]:
    """What the audit says was chosen by a task with that decision, and why."""
    model = parse_decisions(definitions(decision("answer", logic)), "answer.dmn")
    diagram = Diagram().start().decide("decide", "answer", "answer").end().path("started", "decide", "ended")
    driven = Driven(Program(diagram.build(), decisions={"decide": model.decisions["answer"]}), {})
    (made,) = driven.facts(DecisionMade)
    return made.decision.chosen, made.decision.reason


def test_what_became_null_several_times_for_one_reason_is_told_once() -> None:
    subject = parse_decisions(definitions(decision("answer", literal("for i in 1..9 return x"))), "answer.dmn")
    result = subject.decisions["answer"].evaluate({}, EvaluationContext())
    assert result.details()["warnings"] == ["no variable 'x' (line 1, column 22 of for i in 1..9 return x)"]


@pytest.mark.parametrize(
    ("logic", "word"),
    [("0.081 * 100", "8.1"), ("10 ** 30 + 0.5", f"1{'0' * 30}.5"), ("true", "true"), ('"a"', "a"), ("[1]", None)],
)
def test_what_was_chosen_is_told_in_a_word_where_there_is_one(logic: str, word: str | None) -> None:
    assert chosen(literal(logic))[0] == word


@pytest.mark.parametrize(
    ("logic", "reason"),
    [
        (literal("1 + 1"), "evaluated"),
        (literal("x + 1"), "evaluated; null, first because: no variable 'x' (line 1, column 1 of x + 1)"),
        (table(["1"], ["r"], [["2", "3"]]), "no rule matched"),
        (table(["1"], ["r"], [["1", "3"]]), "matched rule_1"),
    ],
)
def test_the_reason_speaks_of_rules_where_there_are_rules(logic: str, reason: str) -> None:
    assert chosen(logic)[1] == reason


def test_a_decision_that_fails_is_an_incident_that_names_the_rules() -> None:
    driven = deciding("none")
    (raised,) = driven.facts(IncidentRaised)
    assert raised.error_code == "DECISION_FAILED"
    assert "the rules 2 and 3 match, but the hit policy UNIQUE allows only one" in raised.message


def test_a_decision_that_fails_tells_what_it_saw_and_which_rules_matched() -> None:
    (made,) = deciding("none").facts(DecisionMade)
    assert made.decision.chosen is None
    assert made.decision.reason.startswith("failed: decision `limit`")
    assert made.decision.details == {
        "inputs": {"tier": "none"},
        "rules": [{"row": 2, "id": "rule_2"}, {"row": 3, "id": "rule_3"}],
        "required": {},
        "failed": "limit",
    }


def test_a_required_decision_that_fails_is_named_after_those_before_it() -> None:
    graph = definitions(
        decision("early", literal("1 + 1")),
        decision("broken", table(["early"], ["r"], [["2", "3"], ["> 1", "4"]]), ["Decision:early"]),
        decision("answer", literal("broken"), ["Decision:broken"]),
    )
    decisions = parse_decisions(graph, "graph.dmn").decisions
    diagram = Diagram().start().decide("decide", "answer", "answer").end().path("started", "decide", "ended")
    driven = Driven(Program(diagram.build(), decisions={"decide": decisions["answer"]}), {})
    (made,) = driven.facts(DecisionMade)
    assert made.decision.name == "answer"
    assert made.decision.details == {
        "inputs": {"early": 2},
        "rules": [{"row": 1, "id": "rule_1"}, {"row": 2, "id": "rule_2"}],
        "required": {"early": {"inputs": {}, "rules": [], "value": 2}},
        "failed": "broken",
    }


@pytest.mark.parametrize(("engine_version", "facts"), [("0.1.0", 0), ("0.2.0", 0), ("0.3.0", 1)])
def test_an_instance_of_an_older_engine_tells_no_decision_that_failed(engine_version: str, facts: int) -> None:
    assert len(deciding("none", engine_version=engine_version).facts(DecisionMade)) == facts


GRAPH = definitions(
    '<businessKnowledgeModel id="sized" name="sized"><encapsulatedLogic><formalParameter name="n"/>'
    + table(["n"], ["size"], [["< 5", '"small"'], ["-", '"large"']], policy="FIRST")
    + "</encapsulatedLogic></businessKnowledgeModel>",
    '<inputData id="tokens" name="tokens"><variable name="tokens" typeRef="number"/></inputData>',
    decision("tier", table(["tenant"], ["tier"], [['"acme"', '"gold"'], ['not("acme")', '"basic"']])),
    decision("doubled", literal("tokens * 2"), ["Input:tokens"]),
    '<decisionService id="doubling" name="doubling"><outputDecision href="#doubled"/><inputData href="#tokens"/>'
    "</decisionService>",
    decision(
        "answer",
        literal("{odd: tokens + tier, tier: tier, size: sized(doubling(tokens))}"),
        ["Decision:tier", "Input:tokens"],
        ["sized", "doubling"],
    ),
)
REASONS = {
    "inputs": {"tokens": 2},
    "rules": [],
    "required": {"tier": {"inputs": {"tenant": "acme"}, "rules": [{"row": 1, "id": "rule_1"}], "value": "gold"}},
    "called": [
        {"logic": 'decision service "doubling", decision `doubled`', "inputs": {"tokens": 2}, "rules": [], "value": 4},
        {
            "logic": 'business knowledge model "sized"',
            "inputs": {"n": 4},
            "rules": [{"row": 1, "id": "rule_1"}],
            "value": "small",
        },
    ],
    "warnings": [
        "cannot add number and string (line 1, column 14 of "
        "{odd: tokens + tier, tier: tier, size: sized(doubling(tokens…)"
    ],
    "result": {"tier": "gold", "size": "small", "odd": None},
}


def graph() -> Program:
    """A process with one task, whose decision is made of every kind of logic that has reasons of its own."""
    diagram = Diagram().start().decide("decide", "answer", "answer").end().path("started", "decide", "ended")
    return Program(diagram.build(), decisions={"decide": parse_decisions(GRAPH, "graph.dmn").decisions["answer"]})


def test_the_fact_tells_the_reasons_of_all_that_was_evaluated_on_the_way() -> None:
    driven = Driven(graph(), {"tenant": "acme", "tokens": 2})
    (made,) = driven.facts(DecisionMade)
    assert made.decision.details == REASONS
