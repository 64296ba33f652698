"""Whatever stands in a decision and whatever it is given, evaluating it gives a FEEL value or says why not."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from engine.dmn import DecisionFailed, DecisionResult, parse_decisions
from engine.dmn.hit_policy import AGGREGATORS, POLICIES
from engine.dmn.types import SIMPLE
from engine.errors import DefinitionInvalid
from engine.feel import EvaluationContext, kind_of
from engine.feel.numbers import number_text
from tests.dmn_builders import decision, definitions, literal, table

CELLS = st.sampled_from(
    [
        "",
        "-",
        "1",
        '"a"',
        "< 5",
        "[1..3]",
        "not(1)",
        "? > x",
        "x",
        "null",
        "1 / 0",
        "function(a) a",
        "{a: 1}",
        "[1, [2]]",
        'date("2024-02-29")',
        '@"PT1H"',
        "x.y",
        "k(1)",
        "k()",
        "sum(x)",
        "for i in x return i",
        "now()",
        "> x",
        "true",
    ]
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from([None, True, 0, 2, -1, 1.5, float("nan"), 10**40, "a", "2024-02-29", b"bytes", object()]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["y", "z"]), inner) | st.tuples(inner),
    max_leaves=5,
)
TYPES = st.sampled_from([*SIMPLE, "Any", "tThing", "tThings"])
ITEMS = (
    '<itemDefinition name="tThing"><itemComponent name="y"><typeRef>number</typeRef></itemComponent></itemDefinition>'
    '<itemDefinition name="tThings" isCollection="true"><typeRef>tThing</typeRef></itemDefinition>'
)
MODEL = (
    '<businessKnowledgeModel id="k" name="k"><encapsulatedLogic><formalParameter name="n" typeRef="{}"/>{}'
    "</encapsulatedLogic></businessKnowledgeModel>"
)


@given(data=st.data(), x=VALUES, z=VALUES)
def test_a_decision_gives_a_value_or_says_why_not(data: st.DataObject, x: Any, z: Any) -> None:
    rows = data.draw(st.lists(st.lists(CELLS, min_size=3, max_size=3), max_size=4))
    policy = data.draw(st.sampled_from(list(POLICIES)))
    aggregation = data.draw(st.sampled_from(["", *AGGREGATORS])) if policy == "COLLECT" else ""
    kinds = [data.draw(TYPES) for _ in range(5)]
    logic = table([("x", kinds[0]), "z"], [("out", kinds[1])], rows, policy, aggregation, values={"out": '"a", 1'})
    xml = definitions(
        ITEMS,
        MODEL.format(kinds[2], literal(data.draw(st.sampled_from(["n", "k(n)", "n.y", "n + 1"])))),
        f'<inputData id="x" name="x"><variable name="x" typeRef="{kinds[3]}"/></inputData>',
        decision("t", logic, ["Input:x"], ["k"]),
        decision("answer", literal("[t, k(t)]"), ["Decision:t"], ["k"], kind=kinds[4]),
    )
    result = evaluated(xml, {"x": x, "z": z})
    if result is not None:
        assert kind_of(result.value)
        json.dumps(result.details(), default=number_text, allow_nan=False)


def evaluated(xml: bytes, variables: dict[str, Any]) -> DecisionResult | None:
    try:
        return parse_decisions(xml, "random.dmn").decisions["answer"].evaluate(variables, EvaluationContext())
    except (DefinitionInvalid, DecisionFailed):
        return None
