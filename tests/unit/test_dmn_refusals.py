"""Decision files that cannot be executed as drawn, or are doubtful: each named by rule, element and remedy."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.dmn import check_decisions, parse_decisions
from engine.errors import DefinitionInvalid, Problem
from tests.dmn_builders import decision, definitions, literal, table

LITERAL = literal("1")


def problems(*elements: str) -> list[Problem]:
    return check_decisions(definitions(*elements), "test.dmn")


def only_problem(*elements: str) -> Problem:
    (problem,) = problems(*elements)
    return problem


def answer(logic: str, requires: tuple[str, ...] = (), kind: str = "") -> str:
    return decision("Answer", logic, requires, kind=kind)


KNOWLEDGE = (
    '<businessKnowledgeModel id="k" name="K"><encapsulatedLogic{}>{}</encapsulatedLogic></businessKnowledgeModel>'
)
ENTRY = f'<contextEntry><variable name="a"/>{LITERAL}</contextEntry>'
ERRORS: dict[str, tuple[str, ...]] = {
    "aggregator": (answer(table([], ["a"], [], "COLLECT", "AVERAGE")),),
    "context-entry": (answer(f"<context>{ENTRY}{ENTRY}</context>"),),
    "cyclic-type": (
        answer(LITERAL),
        '<itemDefinition name="a"><typeRef>b</typeRef></itemDefinition>'
        '<itemDefinition name="b"><typeRef>a</typeRef></itemDefinition>',
    ),
    "dangling-reference": (answer(LITERAL, requires=("Decision:gone",)),),
    "duplicate-id": (answer(LITERAL), answer(LITERAL)),
    "duplicate-output-name": (answer(table([], ["a", "a"], [])),),
    "duplicate-parameter": (answer(LITERAL), KNOWLEDGE.format("", '<formalParameter name="n"/>' * 2 + LITERAL)),
    "expression-language": (answer(LITERAL.replace("Expression>", 'Expression expressionLanguage="juel">', 1)),),
    "external-reference": (answer(LITERAL, requires=("Decision:x",)).replace('"#x"', '"http://other#x"'),),
    "feel-syntax": (answer(literal("1 +")),),
    "function-kind": (answer(LITERAL), KNOWLEDGE.format(' kind="Java"', LITERAL)),
    "hit-policy": (answer(table([], ["a"], [], "LAST")),),
    "missing-import": ('<import name="m" namespace="http://other" importType="DMN"/>', answer(LITERAL)),
    "imported-values": (answer('<literalExpression><importedValues namespace="x"/></literalExpression>'),),
    "missing-cell": (answer(table(["n"], ["a"], [["1"]])),),
    "missing-expression": (answer("<list><literalExpression/></list>"),),
    "missing-name": (answer(LITERAL).replace(' name="Answer"', "", 1),),
    "missing-output": (answer(table(["n"], [], [])),),
    "missing-output-name": (answer(table([], ["a", ""], [])),),
    "missing-output-values": (answer(table([], ["a"], [], "PRIORITY")),),
    "no-decision": ('<inputData id="i" name="i"/>',),
    "too-deep": (answer("<list>" * 41 + LITERAL + "</list>" * 41),),
}
WARNINGS: dict[str, tuple[str, ...]] = {
    "no-logic": (answer(""),),
    "feel-no-value": (answer(literal("1 + g(1)")),),
    "import-kind": (
        '<import namespace="http://other" importType="http://www.w3.org/2001/XMLSchema"/>',
        answer(LITERAL),
    ),
    "empty-output": (answer(table([], ["a"], [[""]])),),
    "missing-id": (answer(LITERAL).replace(' id="answer"', "", 1),),
    "overlapping-rules": (answer(table(["n"], ["a"], [["[1..5]", "1"], ["> 3", "2"]])),),
    "not-required": (decision("Other", LITERAL), answer(literal("Other + 1"))),
    "unknown-element": (answer(LITERAL), "<novelty/>"),
    "unknown-name": (answer(LITERAL), KNOWLEDGE.format("", literal("outside"))),
    "unknown-type": (answer(LITERAL, kind="tGone"),),
    "unfit-output": (answer(table(["n"], [("a", "number")], [["1", '"many"'], ["2", "3"]])),),
    "unquoted-text": (answer(table(["n"], ["a"], [["1", "red"]])),),
    "unreachable-rule": (answer(table(["n"], ["a"], [["> 1", "1"], ["> 1", "2"]], "FIRST")),),
}


@pytest.mark.parametrize("rule", ERRORS)
def test_what_cannot_be_executed_is_refused_with_a_remedy(rule: str) -> None:
    problem = only_problem(*ERRORS[rule])
    assert (problem.rule, problem.severity, problem.file) == (rule, "error", "test.dmn")
    assert problem.message
    assert problem.remedy.endswith(".")
    with pytest.raises(DefinitionInvalid) as refused:
        parse_decisions(definitions(*ERRORS[rule]), "test.dmn")
    assert problem in refused.value.problems


@pytest.mark.parametrize("rule", WARNINGS)
def test_what_is_doubtful_is_warned_about_and_still_read(rule: str) -> None:
    problem = only_problem(*WARNINGS[rule])
    assert (problem.rule, problem.severity) == (rule, "warning")
    assert problem.remedy.endswith(".")
    assert parse_decisions(definitions(*WARNINGS[rule]), "test.dmn").decisions


def test_all_problems_are_told_at_once() -> None:
    logic = table(["n +", "m"], ["a", ""], [["1", "((", "1", "2"], ["1", "2", "+", "2"]])
    found = problems(answer(logic), decision("Other", literal("]")))
    assert [problem.rule for problem in found].count("feel-syntax") == 4
    assert "missing-output-name" in {problem.rule for problem in found}


def test_a_wrong_cell_is_named_by_rule_and_column() -> None:
    problem = only_problem(answer(table(["amount"], ["a"], [["1", "1"], ["( 5", "2"]])))
    assert problem.element_id == "cell_2_1"
    assert problem.element_name == "Answer"
    assert problem.message.startswith('rule 2, input column 1 "amount" is not valid FEEL: line 1, column ')


def test_a_wrong_output_is_named_by_rule_and_column() -> None:
    problem = only_problem(answer(table([], ["colour"], [["'red'"]])))
    assert (problem.element_id, problem.message.split(" is not")[0]) == ("cell_1_1", 'rule 1, output column 1 "colour"')


def test_a_service_without_an_output_decision_is_refused() -> None:
    problem = only_problem(answer(LITERAL), '<decisionService id="s" name="S"/>')
    assert (problem.rule, problem.element_id) == ("missing-output", "s")


def test_two_arguments_of_one_name_are_refused() -> None:
    binding = f'<binding><parameter name="n"/>{LITERAL}</binding>'
    found = problems(answer(f"<invocation>{literal('abs')}{binding}{binding}</invocation>"))
    assert "invocation" in [problem.rule for problem in found]
    assert "two arguments of the name `n`" in found[0].message


def test_an_argument_without_a_name_is_refused() -> None:
    binding = f'<binding><parameter name=""/>{LITERAL}</binding>'
    found = problems(answer(f"<invocation>{literal('abs')}{binding}</invocation>"))
    assert [problem.rule for problem in found] == ["missing-name", "invocation"]


def test_a_file_that_is_no_dmn_is_refused() -> None:
    for xml, rule in [
        (b"<definitions xmlns='http://www.omg.org/spec/BPMN/20100524/MODEL'/>", "not-dmn"),
        (b"<a/>", "not-dmn"),
        (b"<a>", "not-xml"),
        (b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', "doctype-forbidden"),
        (b"<" * 3_000_000, "file-too-large"),
    ]:
        (problem,) = check_decisions(xml, "test.dmn")
        assert problem.rule == rule
        with pytest.raises(DefinitionInvalid):
            parse_decisions(xml, "test.dmn")


def test_more_decisions_than_a_file_may_have_are_refused() -> None:
    found = problems(*(decision(f"d{n}", LITERAL) for n in range(2_001)))
    assert [problem.rule for problem in found] == ["file-too-complex"]


@pytest.mark.parametrize(
    ("rules", "overlap"),
    [
        ([["[1..5]", "-"], ["> 5", "-"]], None),
        ([["[1..5]", "-"], [">= 5", "-"]], (2, "1")),
        ([["]1..2[", "-"], ["]1..2[", "-"]], (2, "1")),
        ([["(1..2)", "-"], ["(1.5..3)", "-"]], (2, "1")),
        ([['"a"', "1"], ['"a", "b"', "2"]], None),
        ([['"a"', "1"], ['"a", "b"', "[0..1]"]], (2, "1")),
        ([['not("a")', "-"], ['"b"', "-"]], (2, "1")),
        ([["not ( 1 )", "-"], ["2, 3", "-"]], (2, "1")),
        ([["= 5", "-"], ["[5..6]", "-"]], (2, "1")),
        ([["= 5", "-"], ["!= 5", "-"]], None),
        ([["limit", "-"], ["limit + 1", "-"]], None),
        ([["limit", "-"], ["limit", "1"]], (2, "1")),
        ([["-", "1"], ["2", "-"]], (2, "1")),
    ],
)
def test_overlap_is_told_only_where_it_is_proved(rules: list[list[str]], overlap: tuple[int, str] | None) -> None:
    told = problems(answer(table(["a", "b"], ["c"], [[*cells, "1"] for cells in rules])))
    found = [problem for problem in told if problem.rule != "unquoted-text"]
    if overlap is None:
        assert found == []
    else:
        (problem,) = found
        assert problem.rule == "overlapping-rules"
        assert problem.element_id == f"rule_{overlap[0]}"
        assert problem.message.startswith(f"rule {overlap[0]} overlaps with rule {overlap[1]}:")


def test_overlap_of_columns_that_depend_on_each_other_is_not_claimed() -> None:
    rules = [["> 5", "-", "1"], ["-", "< 3", "2"]]
    assert problems(answer(table(["a", "a"], ["c"], rules))) == []
    assert problems(answer(table(["a", "a * 2"], ["c"], rules))) == []
    assert len(problems(answer(table(["a", "b"], ["c"], rules)))) == 1


def test_other_policies_may_overlap() -> None:
    for policy in ("ANY", "COLLECT", "RULE ORDER"):
        assert problems(answer(table(["n"], ["a"], [["> 1", "1"], ["> 2", "2"]], policy))) == []


def test_a_catch_all_at_the_end_is_no_unreachable_rule() -> None:
    assert problems(answer(table(["n"], ["a"], [["> 1", "1"], ["-", "2"]], "FIRST"))) == []
    assert only_problem(answer(table(["n"], ["a"], [["-", "1"], ["> 1", "2"]], "FIRST"))).element_id == "rule_2"


PIECES = [
    "decisionTable",
    "literalExpression",
    "<text>",
    "</text>",
    "UNIQUE",
    'id="',
    "#a",
    "> 1",
    "(((",
    "\x00",
    "input",
    "rule",
]
WHOLE = definitions(
    decision("a", table(["n"], ["x"], [["> 1", "1"], ["[0..1]", '"b"']])),
    decision(
        "b", f"<context><contextEntry><variable name='c'/>{literal('a')}</contextEntry></context>", ["Decision:a"]
    ),
)


@given(
    st.lists(
        st.tuples(st.integers(0, len(WHOLE)), st.integers(0, 40), st.sampled_from(PIECES) | st.text(max_size=3)),
        min_size=1,
        max_size=3,
    )
)
def test_a_cut_and_pasted_file_is_read_or_refused_and_nothing_else(edits: list[tuple[int, int, str]]) -> None:
    xml = WHOLE
    for at, length, piece in edits:
        xml = xml[:at] + piece.encode("utf-8", "replace") + xml[at + length :]
    found = check_decisions(xml, "mutated.dmn")
    if any(problem.severity == "error" for problem in found):
        with pytest.raises(DefinitionInvalid):
            parse_decisions(xml, "mutated.dmn")
    else:
        parse_decisions(xml, "mutated.dmn")
