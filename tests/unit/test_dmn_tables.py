"""Decision tables: every hit policy and aggregator, the cells, the types, and what fails in words."""

from __future__ import annotations

from typing import Any

import pytest

from engine.dmn import Decision, DecisionFailed
from engine.feel import Date, EvaluationContext, instant
from tests.dmn_builders import evaluated, only, table

RULES = [[">= 1", '"low"', "1"], [">= 5", '"high"', "5"], [">= 5", '"low"', "7"]]


def scores(policy: str, aggregation: str = "", **given: Any) -> Decision:
    rows = [[condition, points] for condition, _, points in RULES]
    return only(table(["n"], ["points"], rows, policy, aggregation, **given))


def levels(policy: str, values: str | None = '"high", "low"') -> Decision:
    rows = [[condition, level] for condition, level, _ in RULES]
    return only(table(["n"], ["level"], rows, policy, values={"level": values} if values else None))


def value(subject: Decision, **variables: Any) -> Any:
    return evaluated(subject, **variables).value


def test_unique_gives_the_only_rule_that_matches() -> None:
    result = evaluated(scores("UNIQUE"), n=2)
    assert result.value == 1
    assert result.matched_rule_ids == ("rule_1",)


def test_unique_fails_when_two_rules_match_and_names_them() -> None:
    with pytest.raises(DecisionFailed, match=r'decision `answer` "Answer": the rules 1, 2 and 3 match.*UNIQUE'):
        evaluated(scores("UNIQUE"), n=5)


def test_no_hit_policy_means_unique() -> None:
    logic = table(["n"], ["points"], [["-", "1"]]).replace(' hitPolicy="UNIQUE"', "")
    assert value(only(logic), n=1) == 1


def test_first_gives_the_first_rule_and_looks_no_further() -> None:
    result = evaluated(scores("FIRST"), n=9)
    assert result.value == 1
    assert result.matched_rule_ids == ("rule_1",)


def test_any_gives_what_all_matching_rules_agree_on() -> None:
    agreed = only(table(["n"], ["a", "b"], [["> 0", "1", '"x"'], ["> 1", "1.0", '"x"']], "ANY"))
    result = evaluated(agreed, n=2)
    assert result.value == {"a": 1, "b": "x"}
    assert result.matched_rule_ids == ("rule_1", "rule_2")


def test_any_fails_when_matching_rules_differ() -> None:
    with pytest.raises(DecisionFailed, match=r"rules 1 and 2 match with different outputs, 1 and 5.*ANY"):
        evaluated(scores("ANY"), n=5)


def test_any_tells_true_from_one() -> None:
    with pytest.raises(DecisionFailed, match="ANY"):
        evaluated(only(table(["n"], ["a"], [["-", "1"], ["-", "true"]], "ANY")), n=2)


def test_outputs_are_the_same_where_feel_calls_them_equal() -> None:
    noon, elsewhere = '@"2024-01-01T12:00:00Z"', '@"2024-01-01T13:00:00+01:00"'
    assert value(only(table([], ["at"], [[noon], [elsewhere]], "ANY"))) == instant(1_704_110_400 * 10**9)
    assert value(only(table([], ["at"], [[f"[{noon}]"], [f"[{elsewhere}]"]], "ANY"))) is not None
    listed = table([], ["at"], [['@"2024-01-02T00:00:00Z"'], [noon]], "PRIORITY", values={"at": elsewhere})
    assert value(only(listed)) == instant(1_704_110_400 * 10**9)


def test_priority_gives_the_output_that_is_listed_first() -> None:
    assert value(levels("PRIORITY"), n=5) == "high"
    assert value(levels("PRIORITY"), n=1) == "low"


def test_priority_of_several_outputs_goes_from_left_to_right() -> None:
    rows = [["-", '"a"', "2"], ["-", '"b"', "1"], ["-", '"a"', "1"]]
    logic = table(["n"], ["x", "y"], rows, "PRIORITY", values={"x": '"a", "b"', "y": "1, 2"})
    assert value(only(logic), n=0) == {"x": "a", "y": 1}


def test_a_value_that_is_not_listed_comes_after_all_others() -> None:
    rows = [["-", '"other"'], ["-", '"low"']]
    logic = table(["n"], ["level"], rows, "PRIORITY", values={"level": '"high", "low"'})
    assert value(only(logic), n=0) == "low"


def test_output_order_sorts_by_the_listed_values_and_keeps_row_order_otherwise() -> None:
    assert value(levels("OUTPUT ORDER"), n=5) == ["high", "low", "low"]


def test_rule_order_and_collect_give_all_in_row_order() -> None:
    assert value(scores("RULE ORDER"), n=5) == [1, 5, 7]
    assert value(scores("COLLECT"), n=5) == [1, 5, 7]
    assert value(scores("COLLECT"), n=1) == [1]


@pytest.mark.parametrize(("aggregation", "expected"), [("SUM", 13), ("MIN", 1), ("MAX", 7), ("COUNT", 3)])
def test_collect_aggregates(aggregation: str, expected: int) -> None:
    result = evaluated(scores("COLLECT", aggregation), n=5)
    assert result.value == expected
    assert len(result.matched_rule_ids) == 3


@pytest.mark.parametrize("aggregation", ["SUM", "MIN", "MAX"])
def test_an_aggregator_over_what_it_cannot_take_is_null_and_names_the_rule(aggregation: str) -> None:
    rows = [["-", "1"], ["-", '"a"']]
    result = evaluated(only(table(["n"], ["points"], rows, "COLLECT", aggregation)), n=1)
    assert result.value is None
    assert result.matched_rule_ids == ("rule_1", "rule_2")
    (warning,) = result.warnings
    assert warning.cause.startswith(f"{aggregation} of the outputs of rules 1 and 2: ")
    assert warning.cause.endswith("; rule 2 gives 'a'")


@pytest.mark.parametrize("policy", ["UNIQUE", "FIRST", "ANY", "PRIORITY", "COLLECT", "RULE ORDER", "OUTPUT ORDER"])
def test_no_match_gives_null_or_the_default(policy: str) -> None:
    values = {"points": "1, 5, 7"}
    result = evaluated(scores(policy, values=values), n=0)
    assert result.value is None
    assert result.matched_rule_ids == ()
    assert value(scores(policy, values=values, defaults={"points": "n - 1"}), n=0) == -1


def test_defaults_of_several_outputs_make_a_context() -> None:
    logic = table(["n"], ["a", "b"], [["> 0", "1", "2"]], defaults={"a": "0"})
    assert value(only(logic), n=0) == {"a": 0, "b": None}


@pytest.mark.parametrize(
    ("cell", "passing", "failing"),
    [
        ("-", None, ...),
        ("", "anything", ...),
        ("5", 5, 6),
        ('"a", "b"', "b", "c"),
        ('not("a", "b")', "c", "a"),
        ("< 5", 4, 5),
        ("[1..3]", 3, 4),
        ("]1..3[", 2, 3),
        ("(1..3)", 2, 1),
        ("< 1, > 3", 4, 2),
        ("? > limit", 11, 10),
        ("> limit * 2", 21, 20),
        ("null", None, 1),
        ("true", True, False),
        ('ends with(?, "z")', "xyz", "zyx"),
        ("list contains(allowed, ?)", 2, 5),
        ("allowed", 1, 4),
        ('date("2024-01-01")', Date(2024, 1, 1), Date(2024, 1, 2)),
    ],
)
def test_cells(cell: str, passing: Any, failing: Any) -> None:
    subject = only(table(["x"], ["hit"], [[cell, "true"]]))
    assert value(subject, x=passing, limit=10, allowed=[1, 2]) is True
    if failing is not ...:
        assert value(subject, x=failing, limit=10, allowed=[1, 2]) is None


def test_a_cell_that_cannot_be_compared_does_not_match_and_warns() -> None:
    context = EvaluationContext()
    result = only(table(["x"], ["hit"], [["< 5", "true"]])).evaluate({"x": "four"}, context)
    assert result.value is None
    assert "cannot compare" in context.warnings[0].cause


def test_every_condition_of_a_rule_must_hold() -> None:
    subject = only(table(["a", "b"], ["c"], [["1", "1", '"both"'], ["1", "-", '"one"']], "FIRST"))
    assert value(subject, a=1, b=1) == "both"
    assert value(subject, a=1, b=2) == "one"
    assert value(subject, a=2, b=1) is None


def test_a_table_without_inputs_matches_always() -> None:
    assert value(only(table([], ["c"], [["1 + 1"]]))) == 2


def test_input_texts_become_what_the_column_declares() -> None:
    subject = only(table([("day", "date")], ["quarter"], [['< date("2024-04-01")', "1"]]))
    assert value(subject, day="2024-02-29") == 1
    assert evaluated(subject, day="2024-02-29").inputs == {"day": Date(2024, 2, 29)}


def test_an_input_of_another_type_is_left_to_the_cells_with_a_warning() -> None:
    context = EvaluationContext()
    subject = only(table([("n", "string")], ["big"], [["> 5", "true"]]))
    assert subject.evaluate({"n": 6}, context).value is True
    assert "6 is a number, where a string is declared" in context.warnings[0].cause


def test_an_output_of_another_type_is_null_and_says_where() -> None:
    subject = only(table(["n"], [("points", "number"), "why"], [["-", '"many"', '"x"']]))
    result = evaluated(subject, n=1)
    assert result.value == {"points": None, "why": "x"}
    assert result.matched_rule_ids == ("rule_1",)
    cause = "rule 1, output `points`: 'many' is a string, where a number is declared"
    assert result.details()["warnings"] == [cause]


def test_a_default_of_another_type_is_null_and_says_where() -> None:
    logic = table(["n"], [("points", "number")], [["> 5", "1"]], defaults={"points": '"none"'})
    result = evaluated(only(logic), n=1)
    assert result.value is None
    assert result.details()["warnings"] == [
        "the default, output `points`: 'none' is a string, where a number is declared"
    ]


def test_output_texts_become_what_the_column_declares() -> None:
    assert value(only(table([], [("day", "date")], [['"2024-02-29"']]))) == Date(2024, 2, 29)


def test_an_empty_output_gives_null() -> None:
    assert value(only(table([], ["a", "b"], [["1", ""]]))) == {"a": 1, "b": None}


def test_numbers_stay_exact() -> None:
    assert str(value(only(table(["n"], ["c"], [["-", "n + 0.2"]])), n=0.1)) == "0.3"


def test_details_are_json_with_inputs_rows_and_rule_ids() -> None:
    details = evaluated(only(table([("day", "date")], ["c"], [["-", "1"]])), day="2024-02-29").details()
    assert details == {"inputs": {"day": "2024-02-29"}, "rules": [{"row": 1, "id": "rule_1"}], "required": {}}


def test_the_table_tells_which_variables_it_reads() -> None:
    subject = only(table(["a.b", "c"], ["d"], [["> limit", "-", "e + 1"]]))
    assert subject.reads == {"a", "c", "limit", "e"}


def test_a_table_that_costs_too_much_fails_as_a_whole() -> None:
    rows = [["(for i in 1..100000 return i * i)[1] = 0", "1"]] * 20
    with pytest.raises(DecisionFailed, match="evaluation steps"):
        evaluated(only(table(["n"], ["c"], rows, "COLLECT")), n=1)
