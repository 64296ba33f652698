"""A table finds its rules by an index; whatever stands in its cells, that gives what looking at each cell gives."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.dmn import DecisionFailed
from engine.dmn.hit_policy import AGGREGATORS, POLICIES, Hit, value_of
from engine.dmn.logic import Evaluation, Unfit, fitted
from engine.dmn.rule_index import BLOCK
from engine.dmn.table import Rule, Table, TableResult
from engine.feel import DEFAULT_LIMITS, EvaluationContext, FeelLimits, Value
from tests.dmn_builders import only, table

NUMBERS = ["0", "1", "-1", "2", "2.5", "1e0", "3", "1.0"]
TEXTS = ['"a"', '"b"', '""', '"m"', '"1"']
DAYS = ['date("2024-01-01")', '@"2024-01-02"', 'date("2024-03-01")', 'date("2024-01-01")']
SPANS = ['duration("P1D")', '@"PT24H"', '@"P1M"', '@"P2Y"', 'time("10:00:00")', '@"2024-01-01T00:00:00Z"']
OTHERS = ["true", "false", "null", "x", "? > x", "[1, 2]", "1 / 0", "y + 1", "{a: 1}", "is defined(z)", "function(a) a"]
ONES = st.one_of(*map(st.sampled_from, (NUMBERS, TEXTS, DAYS, SPANS)))


def _interval(opening: str, ends: tuple[str, str], closing: str) -> str:
    return f"{opening}{ends[0]}..{ends[1]}{closing}"


INTERVALS = st.one_of(
    *(
        st.builds(
            _interval,
            st.sampled_from("[(]"),
            st.tuples(st.sampled_from(ends), st.sampled_from(ends)),
            st.sampled_from("])["),
        )
        for ends in (NUMBERS, TEXTS, DAYS, [*SPANS, "x"])
    )
)
BOUNDS = st.builds("{} {}".format, st.sampled_from(["<", "<=", ">", ">=", "=", "!="]), ONES)
TESTS = st.one_of(ONES, INTERVALS, BOUNDS, st.sampled_from(OTHERS))
SEVERAL = st.lists(TESTS, min_size=1, max_size=3).map(", ".join)
CELLS = st.one_of(st.just("-"), TESTS, SEVERAL, SEVERAL.map("not({})".format))
VALUES: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, False, 0, 1, -1, 2, 2.5, 3, 1.0, 10**40, "a", "b", "c", "", "1", "2024-01-02", [1], [1, 2], {"a": 1}]
)
INPUTS = ["x", "y", 'date("2024-01-0" + string(y))', 'duration("P" + string(x) + "D")', "x + 0.5"]
OUTPUTS = ["1", "2", "x", '"a"', "null", "[1]", "{a: y}", "sum(x)", "true", "2 * y"]


def by_hand(subject: Table, variables: dict[str, Any], evaluation: Evaluation) -> TableResult:
    """What a table whose inputs declare no types gives, cell by cell, rule by rule."""
    context = evaluation.context
    values = []
    for column in subject.inputs:
        values.append(column.expression.evaluate(variables, context))
    evaluation.check()
    hits = []
    for rule in subject.rules:
        if all(test.evaluate(variables, context, values[column]) is True for column, test in rule.tests):
            hits.append(Hit(rule.row, rule.id, tuple(_outputs(subject, rule, variables, evaluation))))
            if subject.policy_name == "FIRST":
                break
        evaluation.check()
    value: Value = None
    if hits:
        try:
            value = subject.policy(subject.columns, hits)
        except Unfit as unfit:
            evaluation.warn(subject.policy_name, str(unfit))
    elif any(column.default is not None for column in subject.outputs):
        given = []
        for column in subject.outputs:
            default = None if column.default is None else column.default.evaluate(variables, context)
            given.append(fitted(column.convert, default, f"the default, output `{column.name}`", evaluation))
        value = value_of(subject.columns, given)
    return TableResult(value, tuple(values), tuple(hits))


def _outputs(subject: Table, rule: Rule, variables: dict[str, Any], evaluation: Evaluation) -> list[Value]:
    given = []
    for column, entry in zip(subject.outputs, rule.outputs, strict=True):
        value = None if entry is None else entry.evaluate(variables, evaluation.context)
        given.append(fitted(column.convert, value, f"rule {rule.row}, output `{column.name}`", evaluation))
    return given


def outcome(run: Any, variables: dict[str, Any], limits: FeelLimits) -> tuple[Any, Any]:
    """The result or the failure, and the warnings."""
    context = EvaluationContext(limits=limits)
    try:
        result: Any = run(variables, Evaluation(context))
    except DecisionFailed as failed:
        result = str(failed)
    return repr(result), context.warnings


def assert_same(subject: Table, variables: dict[str, Any], limits: FeelLimits = DEFAULT_LIMITS) -> None:
    found = outcome(subject.evaluate, variables, limits)
    expected = outcome(lambda *given: by_hand(subject, *given), variables, limits)
    assert found == expected


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_the_index_gives_what_looking_at_each_cell_gives(data: st.DataObject) -> None:
    inputs = data.draw(st.lists(st.sampled_from(INPUTS), max_size=3))
    policy = data.draw(st.sampled_from(list(POLICIES)))
    aggregation = data.draw(st.sampled_from(["", *AGGREGATORS])) if policy == "COLLECT" else ""
    outputs: list[str | tuple[str, str]] = [("out", data.draw(st.sampled_from(["number", "string", "Any"])))]
    if not aggregation and data.draw(st.booleans()):
        outputs.append("more")
    row = st.tuples(*[CELLS] * len(inputs), *[st.sampled_from(OUTPUTS)] * len(outputs))
    rules = data.draw(st.lists(row, max_size=7))
    defaults = {"out": "y"} if data.draw(st.booleans()) else {}
    subject = only(table(inputs, outputs, rules, policy, aggregation, values={"out": '"a", 1'}, defaults=defaults))
    assert subject.table is not None
    for variables in data.draw(st.lists(st.fixed_dictionaries({"x": VALUES, "y": VALUES}), min_size=1, max_size=6)):
        assert_same(subject.table, variables)


@settings(deadline=None)
@given(data=st.data())
def test_the_steps_of_a_table_are_bounded_alike(data: st.DataObject) -> None:
    cells = st.sampled_from(["-", "1", "[0..2]", "sum(for i in 1..30 return i) > 0", "for i in 1..90 return i"])
    rules = data.draw(st.lists(st.tuples(cells, cells, st.sampled_from(["1", "sum(for i in 1..50 return i)"]))))
    inputs = ["x", data.draw(st.sampled_from(["y", "sum(for i in 1..60 return i)"]))]
    subject = only(table(inputs, ["out"], rules, data.draw(st.sampled_from(["COLLECT", "FIRST"]))))
    assert subject.table is not None
    variables = data.draw(st.fixed_dictionaries({"x": VALUES, "y": VALUES}))
    assert_same(subject.table, variables, FeelLimits(max_steps=data.draw(st.integers(20, 300))))


def test_tables_of_several_blocks_give_what_looking_at_each_cell_gives() -> None:
    rules = [
        [f"[{row}..{row + 9}]", f'"a{row % 5}", "a{row % 7}"', "x" if row % 50 == 0 else "-", str(row)]
        for row in range(2 * BLOCK + 3)
    ]
    subject = only(table(["x", "y", "x"], ["out"], rules, "COLLECT"))
    assert subject.table is not None
    for row in (0, 4, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 2, 2 * BLOCK + 30):
        for text in ("a1", "a6", None, 3):
            assert_same(subject.table, {"x": row, "y": text})
