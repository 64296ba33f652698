"""What DMN 1.5, chapter 8, asks of decision tables beyond their everyday use."""

from __future__ import annotations

from typing import Any

import pytest

from engine.dmn import Decision, check_decisions, parse_decisions
from engine.dmn.rule_index import BLOCK
from engine.errors import DefinitionInvalid
from engine.feel import Date, EvaluationContext
from tests.dmn_builders import decision, definitions, evaluated, only, table

POINTS = [[">= 1", "1"], [">= 5", "5"], [">= 5", "7"]]


def value(subject: Decision, **variables: Any) -> Any:
    return evaluated(subject, **variables).value


def warnings(subject: Decision, **variables: Any) -> list[str]:
    context = EvaluationContext()
    subject.evaluate(variables, context)
    return [warning.cause for warning in context.warnings]


@pytest.mark.parametrize(
    ("letter", "expected"),
    [
        ("F", 1),
        ("C", [1, 5, 7]),
        ("R", [1, 5, 7]),
        ("C+", 13),
        ("C<", 1),
        ("C>", 7),
        ("C#", 3),
        ("P", 7),
        ("O", [7, 5, 1]),
    ],
)
def test_a_hit_policy_may_be_written_by_its_letter(letter: str, expected: Any) -> None:
    logic = table(["n"], ["points"], POINTS, letter.replace("<", "&lt;"), values={"points": "7, 5, 1"})
    assert value(only(logic), n=5) == expected


def test_unique_and_any_by_their_letters() -> None:
    assert value(only(table(["n"], ["points"], POINTS, "U")), n=2) == 1
    assert value(only(table(["n"], ["points"], [["-", "1"], ["1", "1.0"]], "A")), n=1) == 1


def test_an_aggregator_by_its_letter_needs_one_output() -> None:
    xml = definitions(decision("Answer", table(["n"], ["a", "b"], [["-", "1", "2"]], "C+")))
    with pytest.raises(DefinitionInvalid) as refused:
        parse_decisions(xml, "test.dmn")
    assert [problem.rule for problem in refused.value.problems] == ["aggregator"]


def test_several_outputs_are_collected_as_contexts() -> None:
    rows = [["-", "1", '"x"'], ["> 1", "2", '"y"']]
    assert value(only(table(["n"], ["a", "b"], rows, "COLLECT")), n=2) == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]


@pytest.mark.parametrize("policy", ["COLLECT", "RULE ORDER"])
def test_the_default_stands_where_nothing_is_collected(policy: str) -> None:
    logic = table(["n"], ["a", "b"], [["> 5", "1", "2"]], policy, defaults={"a": "0", "b": "n"})
    assert value(only(logic), n=3) == {"a": 0, "b": 3}


def test_listed_output_values_may_be_ranges() -> None:
    rows = [["-", "3"], ["-", "15"], ["-", "40"]]
    logic = table(["n"], ["points"], rows, "OUTPUT ORDER", values={"points": "[10..20], > 30"})
    assert value(only(logic), n=0) == [15, 40, 3]


@pytest.mark.parametrize("constraint", ["allowedValues", "typeConstraint"])
def test_the_priority_may_come_from_the_type_of_the_output(constraint: str) -> None:
    item = f'<itemDefinition name="tLevel"><typeRef>string</typeRef><{constraint}><text>"b", "a"</text></{constraint}>'
    logic = table(["n"], [("level", "tLevel")], [["-", '"a"'], ["-", '"b"']], "PRIORITY")
    xml = definitions(f"{item}</itemDefinition>", decision("Answer", logic))
    assert value(parse_decisions(xml, "test.dmn").decisions["answer"], n=1) == "b"


def with_input_values(text: str) -> Decision:
    logic = table(["tier"], ["rate"], [['"gold"', "1"], ["-", "2"]], "FIRST")
    listed = f"<inputValues><text>{text}</text></inputValues></input>"
    return only(logic.replace("</input>", listed, 1))


def test_an_input_that_is_not_among_the_input_values_is_told_and_left_to_the_cells() -> None:
    subject = with_input_values('"gold","silver"')
    assert value(subject, tier="else") == 2
    assert warnings(subject, tier="else") == ['\'else\' is none of the input values "gold","silver"']
    assert warnings(subject, tier="gold") == warnings(subject, tier=None) == []


def test_input_values_that_are_no_feel_are_told_and_not_used() -> None:
    assert value(with_input_values("very good, bad"), tier="gold") == 1
    assert warnings(with_input_values("very good, bad"), tier="else") == []
    logic = table(["tier"], ["rate"], [["-", "2"]])
    listed = "<inputValues><text>very good</text></inputValues></input>"
    (problem,) = check_decisions(definitions(decision("Answer", logic.replace("</input>", listed))), "test.dmn")
    assert (problem.rule, problem.severity) == ("feel-syntax", "warning")
    assert "the list of input values of input column 1" in problem.message


def test_a_table_without_rules_gives_null_or_the_default() -> None:
    assert value(only(table(["n"], ["a"], [])), n=1) is None
    assert value(only(table(["n"], ["a"], [], "COLLECT", defaults={"a": "[]"})), n=1) == []


@pytest.mark.parametrize("orientation", ["Rule-as-Row", "Rule-as-Column", "CrossTable"])
def test_how_a_table_is_drawn_changes_nothing(orientation: str) -> None:
    logic = table(["n"], ["a"], [["1", "2"]]).replace(
        "<decisionTable", f'<decisionTable preferredOrientation="{orientation}"'
    )
    assert value(only(logic), n=1) == 2


def test_a_cell_that_is_true_or_false_is_passed_by_nothing_else() -> None:
    subject = only(table(["x"], ["hit"], [["true", '"yes"'], ["false", '"no"']]))
    assert [value(subject, x=x) for x in (True, False, None, "true", 1)] == ["yes", "no", None, None, None]
    assert "cannot compare number with boolean" in warnings(subject, x=1)[0]


@pytest.mark.parametrize(
    ("cell", "passing", "failing"),
    [
        ("[1..3], > 7", [1, 3, 8, 2.5], [7, 4, 0]),
        ("not(< 0, [10..20))", [0, 9, 20], [-1, 10, 19]),
        ('"a", null', ["a", None], ["b"]),
        ("not(null)", ["a", 1], [None]),
        ('["b".."d"]', ["b", "c", "d"], ["a", "da"]),
        ('> date("2024-02-28")', [Date(2024, 2, 29)], [Date(2024, 2, 28)]),
        ('[@"2024-01-01"..@"2024-12-31"]', [Date(2024, 6, 1)], [Date(2025, 1, 1)]),
        ("y", [7], [8]),
        ("[y..y + 2]", [7, 9], [10]),
        ("[1, 2]", [1, 2, [1, 2]], [3]),
        ("? + 1 = y", [6], [7]),
        ("some i in [1, 2] satisfies i = ?", [1], [3]),
    ],
)
def test_cells_with_several_tests_ranges_and_variables(cell: str, passing: list[Any], failing: list[Any]) -> None:
    subject = only(table(["x"], ["hit"], [[cell, "true"]]))
    assert [value(subject, x=x, y=7) for x in passing] == [True] * len(passing)
    assert [value(subject, x=x, y=7) for x in failing] == [None] * len(failing)


def test_a_cell_in_another_language_is_refused_by_its_place() -> None:
    logic = table(["n"], ["a"], [["1", "2"]]).replace(
        '<inputEntry id="cell_1_1"', '<inputEntry id="c" expressionLanguage="juel"'
    )
    (problem,) = check_decisions(definitions(decision("Answer", logic)), "test.dmn")
    assert (problem.rule, problem.element_id) == ("expression-language", "c")
    assert "rule 1, input column 1" in problem.message


def test_a_table_of_many_rules_finds_each() -> None:
    count = BLOCK + 40
    rows = [[f"[{row}..{row + 1})", f'"t{row % 3}"', str(row)] for row in range(count)]
    subject = only(table(["n", "t"], ["a"], rows))
    for row in (0, BLOCK - 1, BLOCK, count - 1):
        assert value(subject, n=row + 0.5, t=f"t{row % 3}") == row
        assert value(subject, n=row, t=f"t{(row + 1) % 3}") is None


def test_rules_that_other_cells_rule_out_still_warn_as_if_read_from_left_to_right() -> None:
    subject = only(table(["x", "y"], ["a"], [["< 5", "1", "1"], ["-", "1", "2"]], "COLLECT"))
    assert warnings(subject, x="text", y=2) == ["cannot compare string with number"]
    turned = only(table(["y", "x"], ["a"], [["1", "< 5", "1"], ["1", "-", "2"]], "COLLECT"))
    assert warnings(turned, x="text", y=2) == []
