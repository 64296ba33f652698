"""Boxed expressions, services and models as editors draw them: with odd names, empty parts and foreign elements."""

from __future__ import annotations

from typing import Any

import pytest

from engine.dmn import check_decisions, parse_decisions
from engine.feel import EvaluationContext
from tests.dmn_builders import decision, definitions, evaluated, literal, only


def value(xml: bytes, decision_id: str = "answer", **variables: Any) -> Any:
    return evaluated(parse_decisions(xml, "test.dmn").decisions[decision_id], **variables).value


def loop(kind: str, source: str, part: str, body: str) -> str:
    return f'<{kind} iteratorVariable="i"><in>{literal(source)}</in><{part}>{literal(body)}</{part}></{kind}>'


@pytest.mark.parametrize(
    ("kind", "source", "part", "body", "expected"),
    [
        ("for", "[1..3]", "return", "i * 2", [2, 4, 6]),
        ("for", "(1..3]", "return", "i", [2, 3]),
        ("for", "[1, 2, 3]", "return", "count(partial) + i", [1, 3, 5]),
        ("for", "5", "return", "i", [5]),
        ("for", "null", "return", "i", None),
        ("some", "[1..3]", "satisfies", "i > 2", True),
        ("every", "[1..3]", "satisfies", "i > 2", False),
        ("every", "[]", "satisfies", "i > 2", True),
        ("every", "[1, null]", "satisfies", "i > 0", None),
    ],
)
def test_boxed_loops_go_through_what_feels_loops_go_through(
    kind: str, source: str, part: str, body: str, expected: Any
) -> None:
    assert evaluated(only(loop(kind, source, part, body))).value == expected


def test_a_context_may_have_an_empty_result_cell() -> None:
    entry = f'<contextEntry><variable name="a"/>{literal("1")}</contextEntry>'
    for empty in ("<literalExpression/>", "<literalExpression><text/></literalExpression>"):
        assert evaluated(only(f"<context>{entry}<contextEntry>{empty}</contextEntry></context>")).value == {"a": 1}


def test_an_invocation_binds_parameters_of_any_name_in_any_order() -> None:
    model = (
        '<businessKnowledgeModel id="k" name="Rate of  change"><encapsulatedLogic>'
        '<formalParameter name="first\n value"/><formalParameter name="b-a"/>'
        f"{literal('first value - b-a')}</encapsulatedLogic></businessKnowledgeModel>"
    )
    bindings = "".join(
        f'<binding><parameter name="{name}"/>{literal(argument)}</binding>'
        for name, argument in (("b-a", "n"), ("first value", "10"))
    )
    called = f"<invocation>{literal('Rate of change')}{bindings}</invocation>"
    assert value(definitions(model, decision("Answer", called, knows=["k"])), n=3) == 7


def test_a_service_is_invoked_by_a_boxed_invocation_and_gives_several_outputs_as_a_context() -> None:
    xml = definitions(
        '<inputData id="n" name="n"/>',
        decision("low", literal("n - 1"), ["Input:n"]),
        decision("high", literal("n + 1"), ["Input:n"]),
        '<decisionService id="s" name="near by"><variable name="near by"/><outputDecision href="#low"/>'
        '<outputDecision href="#high"/><inputData href="#n"/></decisionService>',
        decision(
            "Answer",
            f'<invocation>{literal("near by")}<binding><parameter name="n"/>{literal("5")}</binding></invocation>',
            knows=["s"],
        ),
    )
    assert value(xml, n=100) == {"low": 4, "high": 6}


def test_an_input_of_a_service_may_be_a_decision_without_logic() -> None:
    xml = definitions(
        decision("given", ""),
        decision("shown", literal('"it is " + given'), ["Decision:given"]),
        '<decisionService id="s" name="s"><outputDecision href="#shown"/><inputDecision href="#given"/>'
        "</decisionService>",
        decision("Answer", literal('s("so")'), knows=["s"]),
    )
    assert value(xml) == "it is so"
    assert value(xml, "shown") is None
    assert [each.rule for each in check_decisions(xml, "test.dmn")] == ["no-logic"]


def test_a_name_may_hold_white_space_apostrophes_and_signs() -> None:
    names = ("Student's name", "Pre-bureau  risk", "a\n b", "x + y", "Größe (cm)")
    for name in names:
        data = f'<inputData id="i" name="{name}"><variable name="{name}"/></inputData>'
        xml = definitions(data, decision("Answer", literal(f"[{' '.join(name.split())}]"), ["Input:i"]))
        assert value(xml, **{" ".join(name.split()): 7}) == [7], name


def test_references_may_name_the_files_own_namespace_and_elements_may_have_no_id() -> None:
    xml = definitions(decision("base", literal("1")), decision("Answer", literal("base + 1"), ["Decision:base"]))
    xml = xml.replace(b'"#base"', b'" http://camunda.org/schema/1.0/dmn#base "')
    assert value(xml) == 2
    assert value(xml.replace(b' id="answer"', b""), "Answer") == 2


def test_what_is_drawn_or_belongs_to_an_editor_changes_nothing() -> None:
    foreign = (
        '<extensionElements><x:attribute xmlns:x="urn:editor" name="a"><x:text>1 +</x:text></x:attribute>'
        "</extensionElements><description>1 +</description>"
    )
    drawn = (
        '<dmndi:DMNDI xmlns:dmndi="https://www.omg.org/spec/DMN/20191111/DMNDI/"><dmndi:DMNDiagram>'
        '<dmndi:DMNShape dmnElementRef="gone"/></dmndi:DMNDiagram></dmndi:DMNDI>'
        '<textAnnotation id="t"><text>1 +</text></textAnnotation><association id="l"/>'
        '<knowledgeSource id="law" name="Law"/><group id="g" name="G"/>'
    )
    answer = decision(
        "Answer",
        literal("1").replace("<text>", f"{foreign}<text>"),
        extra=f'{foreign}<authorityRequirement><requiredAuthority href="#law"/></authorityRequirement>',
    )
    xml = definitions(foreign, answer, drawn)
    assert check_decisions(xml, "test.dmn") == []
    assert value(xml) == 1


def test_the_language_of_a_part_counts_before_that_of_the_file() -> None:
    xml = definitions(decision("Answer", literal("1")))
    for language in ("https://www.omg.org/spec/DMN/20191111/FEEL/", "feel", "FEEL"):
        assert value(xml.replace(b"<definitions ", f'<definitions expressionLanguage="{language}" '.encode())) == 1
    other = xml.replace(b"<definitions ", b'<definitions expressionLanguage="urn:other" ')
    assert [each.rule for each in check_decisions(other, "test.dmn")] == ["expression-language"]
    assert value(other.replace(b"<literalExpression>", b'<literalExpression expressionLanguage="feel">')) == 1


def test_functions_of_other_languages_are_refused_at_their_place() -> None:
    java = (
        '<functionDefinition id="f" kind="Java"><formalParameter name="a"/>'
        f'<context><contextEntry><variable name="class"/>{literal("1")}</contextEntry></context></functionDefinition>'
    )
    xml = definitions(decision("Answer", java), decision("Other", literal("1")))
    (problem,) = check_decisions(xml, "test.dmn")
    assert (problem.rule, problem.element_id) == ("function-kind", "f")
    assert "kind Java; only FEEL is executed" in problem.message
    feel = definitions(decision("Answer", literal('function(a) external {java: {class: "java.lang.Math"}}')))
    (problem,) = check_decisions(feel, "test.dmn")
    assert (problem.rule, problem.element_id) == ("feel-syntax", "answer")
    assert "found 'external'" in problem.message


def test_missing_variables_of_input_data_are_null() -> None:
    data = '<inputData id="n" name="n"><variable name="n" typeRef="number"/></inputData>'
    context = EvaluationContext()
    answer = parse_decisions(definitions(data, decision("Answer", literal("n = null"), ["Input:n"])), "test.dmn")
    assert answer.decisions["answer"].evaluate({}, context).value is True


def test_a_boxed_filter_reads_an_entry_item_before_the_member() -> None:
    members = literal("[{item: 5, a: 1}, {item: 1}, {a: 9}]")
    logic = f"<filter><in>{members}</in><match>{literal('item = 5 or item = {a: 9}')}</match></filter>"
    assert evaluated(only(logic)).value == [{"item": 5, "a": 1}, {"a": 9}]
