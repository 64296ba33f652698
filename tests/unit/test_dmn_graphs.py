"""Decisions together: requirements, knowledge models, input data, boxed expressions, names with spaces."""

from __future__ import annotations

import hashlib
from decimal import Decimal
from typing import Any

import pytest

from engine.dmn import DecisionFailed, check_decisions, parse_decisions
from engine.errors import DefinitionInvalid
from engine.feel import Date, EvaluationContext
from tests.dmn_builders import decision, definitions, evaluated, literal, only, table, text

SEASON = decision("season", table(["month"], ["season"], [["[3..9]", '"summer"'], ["not([3..9])", '"winter"']]))
KNOWLEDGE = (
    '<businessKnowledgeModel id="tax" name="Tax Of"><variable name="Tax Of"/><encapsulatedLogic>'
    '<formalParameter name="gross amount" typeRef="number"/>'
    f"{literal('gross amount * 0.25')}</encapsulatedLogic></businessKnowledgeModel>"
)


def value(xml: bytes, decision_id: str, **variables: Any) -> Any:
    return evaluated(parse_decisions(xml, "test.dmn").decisions[decision_id], **variables).value


def invocation(function: str, **arguments: str) -> str:
    bindings = "".join(
        f'<binding><parameter name="{name.replace("_", " ")}"/>{literal(given)}</binding>'
        for name, given in arguments.items()
    )
    return f"<invocation>{literal(function)}{bindings}</invocation>"


def knowledge(own_id: str, body: str, parameters: str = "n", requires: str = "") -> str:
    formal = "".join(f'<formalParameter name="{each}"/>' for each in parameters.split())
    needed = f'<knowledgeRequirement><requiredKnowledge href="#{requires}"/></knowledgeRequirement>' if requires else ""
    return (
        f'<businessKnowledgeModel id="{own_id}" name="{own_id}"><encapsulatedLogic>{formal}{body}'
        f"</encapsulatedLogic>{needed}</businessKnowledgeModel>"
    )


def test_a_required_decision_is_read_by_name() -> None:
    dish = decision(
        "dish", table(["season"], ["dish"], [['"summer"', '"salad"'], ['"winter"', '"stew"']]), ["Decision:season"]
    )
    result = evaluated(parse_decisions(definitions(dish, SEASON), "test.dmn").decisions["dish"], month=1)
    assert result.value == "stew"
    assert result.inputs == {"season": "winter"}
    assert result.required == {"season": "winter"}
    assert [each.id for each in result.evaluated] == ["season", "dish"]
    assert result.matched_rule_ids == ("rule_2",)


def test_without_a_variable_a_required_decision_is_read_by_id_as_in_camunda_and_by_name() -> None:
    season = SEASON.replace('<variable name="season"/>', "").replace('name="season">', 'name="Season Of Year">', 1)
    for name in ("season", "Season Of Year"):
        xml = definitions(season, decision("answer", literal(f'{name} = "winter"'), ["Decision:season"]))
        assert value(xml, "answer", month=1) is True


def test_a_decision_that_is_required_twice_is_evaluated_once() -> None:
    base = decision("base", literal("random number()"))
    left, right = (decision(side, literal("base"), ["Decision:base"]) for side in ("left", "right"))
    top = decision("top", literal("left = right"), ["Decision:left", "Decision:right"])
    model = parse_decisions(definitions(top, left, right, base), "test.dmn")
    numbers = iter([Decimal("0.1"), Decimal("0.2")])
    result = model.decisions["top"].evaluate({}, EvaluationContext(random=lambda: next(numbers)))
    assert result.value is True
    assert [each.id for each in result.evaluated] == ["base", "left", "right", "top"]


def test_a_long_chain_of_requirements_needs_no_stack() -> None:
    links = [decision("d0", literal("1"))]
    links += [decision(f"d{n}", literal(f"d{n - 1} + 1"), [f"Decision:d{n - 1}"]) for n in range(1, 1500)]
    assert value(definitions(*links), "d1499") == 1500


def test_a_failure_names_the_required_decision() -> None:
    broken = decision("season", table([], ["x"], [["1"], ["2"]]))
    xml = definitions(broken, decision("dish", literal("season"), ["Decision:season"]))
    with pytest.raises(DecisionFailed, match="decision `season`: the rules 1 and 2"):
        value(xml, "dish")


def test_input_data_has_the_type_that_it_declares() -> None:
    data = '<inputData id="born" name="Day Of Birth"><variable name="Day Of Birth" typeRef="date"/></inputData>'
    xml = definitions(data, decision("answer", literal("Day Of Birth.year"), ["Input:born"]))
    subject = parse_decisions(xml, "test.dmn").decisions["answer"]
    result = subject.evaluate({"Day Of Birth": "2000-01-02"}, EvaluationContext())
    assert result.value == 2000
    assert result.inputs == {"Day Of Birth": Date(2000, 1, 2)}


def test_item_definitions_convert_and_constrain() -> None:
    kinds = (
        '<itemDefinition name="tLevel"><typeRef>string</typeRef><allowedValues>'
        + text('"low", "high"')
        + "</allowedValues>"
        '</itemDefinition><itemDefinition name="tLevels" isCollection="true"><typeRef>tLevel</typeRef></itemDefinition>'
        '<itemDefinition name="tCase"><itemComponent name="opened"><typeRef>date</typeRef></itemComponent>'
        '<itemComponent name="levels"><typeRef>tLevels</typeRef></itemComponent></itemDefinition>'
    )
    data = '<inputData id="x" name="x"><variable name="x" typeRef="tCase"/></inputData>'
    xml = definitions(kinds, data, decision("answer", literal("x"), ["Input:x"], kind="tCase"))
    assert value(xml, "answer", x={"opened": "2024-02-29", "levels": "low"}) == {
        "opened": Date(2024, 2, 29),
        "levels": ["low"],
    }
    context = EvaluationContext()
    decisions = parse_decisions(xml, "test.dmn").decisions
    assert decisions["answer"].evaluate({"x": {"levels": ["odd"]}}, context).value is None
    assert context.warnings[0].cause.startswith("entry `levels`: 'odd' is none of the allowed values")


def test_a_knowledge_model_is_called_from_feel_and_by_invocation() -> None:
    xml = definitions(
        KNOWLEDGE,
        decision("by call", literal("Tax Of(200)"), knows=["tax"]),
        decision("by invocation", invocation("Tax Of", gross_amount="n * 2"), knows=["tax"]),
    )
    assert value(xml, "by_call") == 50
    assert value(xml, "by_invocation", n=100) == 50


def test_a_knowledge_model_sees_its_parameters_and_what_it_requires_alone() -> None:
    xml = definitions(
        knowledge("double", literal("n * 2")),
        knowledge("quadruple", literal("double(double(n)) + (if outside = null then 0 else 1)"), requires="double"),
        decision("answer", literal("quadruple(3)"), knows=["quadruple"]),
    )
    assert value(xml, "answer", outside=1) == 12


def test_a_table_may_be_the_body_of_a_knowledge_model() -> None:
    body = table(["n"], ["size"], [["< 5", '"small"'], [">= 5", '"large"']])
    xml = definitions(
        knowledge("sized", body), decision("answer", literal("for i in [1, 7] return sized(i)"), knows=["sized"])
    )
    assert value(xml, "answer") == ["small", "large"]


def test_recursion_works_and_is_bounded() -> None:
    recursive = knowledge("sum to", literal("if n = 0 then 0 else n + sum to(n - 1)"), requires="sum to")
    xml = definitions(recursive, decision("answer", literal("sum to(depth)"), knows=["sum to"]))
    assert value(xml, "answer", depth=10) == 55
    with pytest.raises(DecisionFailed, match="calls of `sum to` are nested too deeply"):
        value(xml, "answer", depth=10_000)


def test_calls_in_loops_share_one_budget() -> None:
    costly = knowledge("costly", literal("count(for i in 1..10000 return n * i)"))
    xml = definitions(costly, decision("answer", literal("for i in 1..10000 return costly(i)"), knows=["costly"]))
    with pytest.raises(DecisionFailed, match="evaluation steps"):
        value(xml, "answer")


def test_a_boxed_context_gives_its_entries_or_its_result() -> None:
    entries = (
        f'<contextEntry><variable name="net price"/>{literal("price * 0.8")}</contextEntry>'
        f'<contextEntry><variable name="tax"/>{literal("price - net price")}</contextEntry>'
    )
    assert evaluated(only(f"<context>{entries}</context>"), price=10).value == {"net price": 8, "tax": 2}
    result = f"<contextEntry>{literal('net price + tax')}</contextEntry>"
    subject = only(f"<context>{entries}{result}</context>")
    assert evaluated(subject, price=10).value == 10
    assert subject.reads == {"price"}


def test_a_boxed_function_may_call_itself() -> None:
    factorial = literal("if n < 2 then 1 else n * f(n - 1)")
    body = f'<functionDefinition><formalParameter name="n"/>{factorial}</functionDefinition>'
    entry = f'<contextEntry><variable name="f"/>{body}</contextEntry>'
    assert evaluated(only(f"<context>{entry}<contextEntry>{literal('f(5)')}</contextEntry></context>")).value == 120


def test_boxed_lists_relations_and_iterations() -> None:
    assert evaluated(only(f"<list>{literal('1')}{literal('n')}</list>"), n=2).value == [1, 2]
    relation = f'<relation><column name="a"/><column name="b"/><row>{literal("1")}{literal("n")}</row></relation>'
    assert evaluated(only(relation), n=2).value == [{"a": 1, "b": 2}]
    loop = f'<for iteratorVariable="i"><in>{literal("[1, 2]")}</in><return>{literal("i * n")}</return></for>'
    assert evaluated(only(loop), n=2).value == [2, 4]
    kept = f"<filter><in>{literal('[1, 5]')}</in><match>{literal('item > n')}</match></filter>"
    assert evaluated(only(kept), n=2).value == [5]
    some = f'<some iteratorVariable="i"><in>{literal("[1, 5]")}</in><satisfies>{literal("i > n")}</satisfies></some>'
    assert evaluated(only(some), n=2).value is True
    assert evaluated(only(some.replace("some", "every")), n=2).value is False
    choice = (
        f"<conditional><if>{literal('n > 1')}</if><then>{literal('1')}</then><else>{literal('2')}</else></conditional>"
    )
    assert evaluated(only(choice), n=2).value == 1


@pytest.mark.parametrize(
    "namespace",
    [
        "http://www.omg.org/spec/DMN/20151101/dmn.xsd",
        "http://www.omg.org/spec/DMN/20180521/MODEL/",
        "https://www.omg.org/spec/DMN/20191111/MODEL/",
        "https://www.omg.org/spec/DMN/20211108/MODEL/",
        "https://www.omg.org/spec/DMN/20230324/MODEL/",
    ],
)
def test_every_version_of_dmn_is_read(namespace: str) -> None:
    assert value(definitions(decision("answer", literal("1 + 1")), namespace=namespace), "answer") == 2


def test_the_model_tells_its_identity() -> None:
    tag = (
        '<extensionElements><zeebe:versionTag xmlns:zeebe="http://camunda.org/schema/zeebe/1.0" value="v7"/>'
        "</extensionElements>"
    )
    xml = definitions(decision("Answer", literal("1"), extra=tag), decision("Other", literal("2")))
    model = parse_decisions(xml, "test.dmn")
    assert (model.requirements_id, model.name, list(model.decisions)) == ("graph", "Graph", ["answer", "other"])
    answer = model.decisions["answer"]
    assert (answer.id, answer.name, answer.version_tag) == ("answer", "Answer", "v7")
    assert answer.content_hash == hashlib.sha256(xml).hexdigest()


def test_reads_names_what_the_whole_graph_needs_from_outside() -> None:
    dish = decision("dish", literal("season + guests"), ["Decision:season"])
    model = parse_decisions(definitions(dish, SEASON), "test.dmn")
    assert model.decisions["dish"].reads == {"month", "guests"}


def test_evaluating_changes_nothing_of_the_caller() -> None:
    variables = {"x": [1, {"a": 2}]}
    context = EvaluationContext(now_us=5)
    only(literal("x")).evaluate(variables, context)
    assert variables == {"x": [1, {"a": 2}]}
    assert context == EvaluationContext(now_us=5)


SERVICE = definitions(
    '<inputData id="n" name="n"><variable name="n" typeRef="number"/></inputData>',
    decision("factor", literal("1000")),
    decision("scaled", literal("n * factor"), ["Input:n", "Decision:factor"]),
    '<decisionService id="scaling" name="scaling"><outputDecision href="#scaled"/><inputDecision href="#factor"/>'
    '<inputData href="#n"/></decisionService>',
    decision("by position", literal("scaling(2, 10)"), knows=["scaling"]),
    decision("by name", literal("scaling(factor: 10, n: 3)"), knows=["scaling"]),
    decision("too few", literal("scaling(2)"), knows=["scaling"]),
)


def test_a_decision_service_is_a_function_of_its_input_data_and_decisions() -> None:
    assert value(SERVICE, "by_position") == 20
    assert value(SERVICE, "by_name") == 30
    assert value(SERVICE, "scaled", n=2) == 2000
    assert value(SERVICE, "too_few") is None


def test_a_decision_service_is_evaluated_from_variables() -> None:
    service = parse_decisions(SERVICE, "test.dmn").services["scaling"]
    assert evaluated(service, n=2, factor=3).value == 6
    assert service.reads == {"n", "factor"}
    context = EvaluationContext()
    assert service.evaluate({"n": "two", "factor": 3}, context).value is None
    assert "'two' is a string, where a number is declared" in context.warnings[0].cause


def test_a_service_as_a_decision_calls_the_models_that_its_decisions_require() -> None:
    xml = definitions(
        '<inputData id="n" name="n"/>',
        knowledge("tenfold", literal("n * 10")),
        decision("scaled", literal("tenfold(n)"), ["Input:n"], ["tenfold"]),
        '<decisionService id="s" name="s"><outputDecision href="#scaled"/><inputData href="#n"/></decisionService>',
    )
    assert evaluated(parse_decisions(xml, "test.dmn").services["s"], n=4).value == 40


def test_a_knowledge_model_may_call_itself_without_requiring_itself() -> None:
    body = literal("if n <= 1 then 1 else n * factorial(n - 1)")
    xml = definitions(knowledge("factorial", body), decision("answer", literal("factorial(5)"), knows=["factorial"]))
    assert check_decisions(xml, "test.dmn") == []
    assert value(xml, "answer") == 120


@pytest.mark.parametrize("name", ["sum", "date", "string length", "substring", "now"])
def test_a_declared_function_with_the_name_of_a_built_in_is_the_one_that_is_called(name: str) -> None:
    own = knowledge("own", literal("[only, 1]"), "only").replace('name="own"', f'name="{name}"')
    xml = definitions(
        own,
        decision("by position", literal(f"{name}(7)"), knows=["own"]),
        decision("by name", literal(f"{name}(only: 7)"), knows=["own"]),
        decision("by invocation", invocation(name, only="7"), knows=["own"]),
    )
    assert check_decisions(xml, "test.dmn") == []
    for each in ("by_position", "by_name", "by_invocation"):
        assert value(xml, each) == [7, 1]


def test_a_built_in_may_be_invoked_by_a_boxed_invocation() -> None:
    assert evaluated(only(invocation("string length", string='"abc"'))).value == 3
    assert evaluated(only(invocation("substring", string='"abc"', start_position="2"))).value == "bc"


def test_arguments_that_a_call_by_name_leaves_out_are_null() -> None:
    model = knowledge("pair", literal("[a, b]"), "a b")
    assert value(definitions(model, decision("answer", literal("pair(b: 1)"), knows=["pair"])), "answer") == [None, 1]
    assert value(definitions(model, decision("answer", invocation("pair", a="1"), knows=["pair"])), "answer") == [
        1,
        None,
    ]


def test_a_service_that_calls_itself_through_its_decisions_fails_and_does_not_hang() -> None:
    xml = definitions(
        decision("a", literal("s()"), knows=["s"]),
        '<decisionService id="s" name="s"><outputDecision href="#a"/></decisionService>',
    )
    with pytest.raises(DecisionFailed, match="nested too deeply"):
        value(xml, "a")


def test_circles_are_refused_with_their_way() -> None:
    xml = definitions(
        decision("a", literal("b"), ["Decision:b"]),
        decision("b", literal("c"), ["Decision:c"]),
        decision("c", literal("a"), ["Decision:a"]),
    )
    with pytest.raises(DefinitionInvalid) as refused:
        parse_decisions(xml, "test.dmn")
    (problem,) = refused.value.problems
    assert problem.rule == "cyclic-requirement"
    assert problem.message == "`a` requires `b` requires `c` requires `a`"
