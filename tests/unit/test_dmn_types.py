"""Declared types: what fits, what is converted, and that anything else is null with a warning that says why."""

from __future__ import annotations

from typing import Any

import pytest

from engine.dmn import DecisionFailed, check_decisions, parse_decisions
from engine.feel import Date, EvaluationContext
from engine.feel.temporal import midnight_utc
from tests.dmn_builders import decision, definitions, literal, text

STRUCTURE = (
    '<itemDefinition name="tOrder"><itemComponent name="number"><typeRef>number</typeRef></itemComponent>'
    '<itemComponent name="tags" isCollection="true"><typeRef>string</typeRef></itemComponent></itemDefinition>'
)
LEVELS = (
    f'<itemDefinition name="tLevel"><typeRef>string</typeRef><allowedValues>{text(chr(34) + "low" + chr(34))}'
    "</allowedValues></itemDefinition>"
    '<itemDefinition name="tLevels" isCollection="true"><typeRef>tLevel</typeRef></itemDefinition>'
    f'<itemDefinition name="tPair" isCollection="true"><typeRef>number</typeRef><typeConstraint>{text("count(?) = 2")}'
    "</typeConstraint></itemDefinition>"
)
TREE = (
    '<itemDefinition name="tTree"><itemComponent name="value"><typeRef>number</typeRef></itemComponent>'
    '<itemComponent name="children" isCollection="true"><typeRef>tTree</typeRef></itemComponent></itemDefinition>'
)
FUNCTION = (
    '<itemDefinition name="tTest"><functionItem outputTypeRef="boolean"><parameters name="a" typeRef="number"/>'
    "</functionItem></itemDefinition>"
)
TYPES = STRUCTURE + LEVELS + TREE + FUNCTION


def tried(*elements: str, **variables: Any) -> tuple[Any, list[str]]:
    """The value of the decision `answer`, and the causes of all warnings."""
    context = EvaluationContext()
    model = parse_decisions(definitions(TYPES, *elements), "test.dmn")
    value = model.decisions["answer"].evaluate(variables, context).value
    return value, [warning.cause for warning in context.warnings]


def decided(expression: str, kind: str) -> tuple[Any, list[str]]:
    return tried(decision("Answer", literal(expression), kind=kind))


@pytest.mark.parametrize(
    ("expression", "kind", "value"),
    [
        ("1", "number", 1),
        ("[1]", "number", 1),
        ("1", "list", [1]),
        ('"low"', "tLevels", ["low"]),
        ('["low"]', "tLevel", "low"),
        ("[1, 2]", "tPair", [1, 2]),
        ("[1, 2]", "list&lt;number&gt;", [1, 2]),
        ('["low"]', "list&lt;tLevel&gt;", ["low"]),
        ("{a: 1, b: 2}", "context&lt;a: number&gt;", {"a": 1, "b": 2}),
        ('date("2024-01-02")', "dateTime", midnight_utc(Date(2024, 1, 2))),
        ('{number: 1, tags: ["a"], more: 2}', "tOrder", {"number": 1, "tags": ["a"], "more": 2}),
        ('[{number: 1, tags: ["a"]}]', "tOrder", {"number": 1, "tags": ["a"]}),
        ("{number: null, tags: null}", "tOrder", {"number": None, "tags": None}),
        (
            "{value: 1, children: [{value: 2, children: []}]}",
            "tTree",
            {"value": 1, "children": [{"value": 2, "children": []}]},
        ),
        (
            "{low: 1, order: {number: 1, tags: []}}",
            "context&lt;order: tOrder&gt;",
            {"low": 1, "order": {"number": 1, "tags": []}},
        ),
        ('[["low"]]', "list&lt;list&lt;tLevel&gt;&gt;", [["low"]]),
        ("null", "tLevel", None),
        ("1", "Any", 1),
    ],
)
def test_values_of_the_type_and_those_that_dmn_converts(expression: str, kind: str, value: Any) -> None:
    assert decided(expression, kind) == (value, [])


@pytest.mark.parametrize(
    ("expression", "kind", "cause"),
    [
        ('"1"', "number", "'1' is a string, where a number is declared"),
        ("[[1]]", "number", "[[1]] is a list, where a number is declared"),
        ('"2024-01-02"', "date", "'2024-01-02' is a string, where a date is declared"),
        ('"high"', "tLevel", "'high' is none of the allowed values \"low\""),
        ('["low", "high"]', "tLevels", "'high' is none of the allowed values \"low\""),
        ("[1, 2, 3]", "tPair", "[1, 2, 3] is none of the allowed values count(?) = 2"),
        ('[1, "2"]', "list&lt;number&gt;", "'2' is a string, where a number is declared"),
        ('{a: "1"}', "context&lt;a: number&gt;", "{'a': '1'} is no context<a: number>"),
        ('["high"]', "list&lt;tLevel&gt;", "'high' is none of the allowed values \"low\""),
        ("{number: 1}", "tOrder", "the entry `tags` of the type `tOrder` is missing"),
        ("{number: 1, tags: [1]}", "tOrder", "entry `tags`: 1 is a number, where a string is declared"),
        ("{value: 1, children: [{value: true, children: []}]}", "tTree", "entry `children`: entry `value`: True is a"),
        (
            "{order: {number: 1}}",
            "context&lt;order: tOrder&gt;",
            "{'order': {'number': 1}} is no context<order: tOrder>",
        ),
        ("function(a: string) 1", "function&lt;tLevel&gt; -> string", "function is no function<tLevel> -> string"),
        ("5", "tOrder", "5 is a number, where a context of type `tOrder` is declared"),
        ("function(a, b) a", "tTest", "the function has 2 parameters, not 1"),
    ],
)
def test_what_does_not_fit_is_null_and_says_why(expression: str, kind: str, cause: str) -> None:
    value, causes = decided(expression, kind)
    assert value is None
    assert len(causes) == 1
    assert causes[0].startswith(cause)


def test_a_type_written_in_feel_that_names_an_unknown_one_is_told_and_takes_any_value() -> None:
    answer = decision("Answer", literal("{a: 1}"), kind="context&lt;a: tNone&gt;")
    (problem,) = check_decisions(definitions(TYPES, answer), "test.dmn")
    assert (problem.rule, problem.severity) == ("unknown-type", "warning")
    assert tried(answer) == ({"a": 1}, [])


def test_input_data_is_read_as_json_means_it() -> None:
    kinds = (
        '<itemDefinition name="tStay"><itemComponent name="from"><typeRef>date</typeRef></itemComponent>'
        '<itemComponent name="nights" isCollection="true"><typeRef>date</typeRef></itemComponent></itemDefinition>'
    )
    data = '<inputData id="stay" name="stay"><variable name="stay" typeRef="tStay"/></inputData>'
    answer = decision("Answer", literal("stay"), ["Input:stay"])
    value, causes = tried(kinds, data, answer, stay={"from": "2024-01-02", "nights": "2024-01-03", "more": 1})
    assert value == {"from": Date(2024, 1, 2), "nights": [Date(2024, 1, 3)], "more": 1}
    assert tried(kinds, data, answer, stay=[{"nights": []}]) == ({"from": None, "nights": []}, [])
    assert causes == []
    value, causes = tried(kinds, data, answer, stay={"from": "yesterday"})
    assert value is None
    assert causes[0].startswith("entry `from`: 'yesterday' is not a date")


def test_a_call_with_an_argument_that_does_not_fit_is_not_made() -> None:
    model = (
        '<businessKnowledgeModel id="k" name="k"><encapsulatedLogic><formalParameter name="n" typeRef="number"/>'
        f"{literal('n = null')}</encapsulatedLogic></businessKnowledgeModel>"
    )
    value, causes = tried(model, decision("Answer", literal('k("a")'), knows=["k"]))
    assert (value, causes) == (None, ["`k`, parameter `n`: 'a' is a string, where a number is declared"])
    assert tried(model, decision("Answer", literal("k([1])"), knows=["k"])) == (False, [])
    value, causes = tried(model, decision("Answer", literal("k()"), knows=["k"]))
    assert value is None
    assert len(causes) == 1


def test_the_type_of_a_models_variable_or_logic_is_that_of_its_result() -> None:
    def knowledge(variable: str = "", logic: str = "") -> str:
        return (
            f'<businessKnowledgeModel id="k" name="k"><variable name="k"{variable}/><encapsulatedLogic{logic}>'
            f"{literal('[1]')}</encapsulatedLogic></businessKnowledgeModel>"
        )

    answer = decision("Answer", literal("k()"), knows=["k"])
    assert tried(knowledge(), answer) == ([1], [])
    assert tried(knowledge(' typeRef="number"'), answer) == (1, [])
    assert tried(knowledge(logic=' typeRef="number"'), answer) == (1, [])
    assert tried(knowledge(' typeRef="tTest"'), answer) == ([1], [])
    assert tried(knowledge(' typeRef="string"'), answer)[0] is None


def test_boxed_parts_have_their_types() -> None:
    entry = f'<contextEntry><variable name="a" typeRef="number"/>{literal("[1]")}</contextEntry>'
    wrong = f'<contextEntry><variable name="b" typeRef="number"/>{literal(chr(34) + "x" + chr(34))}</contextEntry>'
    assert tried(decision("Answer", f"<context>{entry}{wrong}</context>"))[0] == {"a": 1, "b": None}
    relation = f'<relation><column name="a" typeRef="string"/><row>{literal("1")}</row></relation>'
    assert tried(decision("Answer", relation))[0] == [{"a": None}]
    boxed = literal("[7]").replace("<literalExpression", '<literalExpression typeRef="number"')
    assert tried(decision("Answer", f"<list>{boxed}</list>")) == ([7], [])


def test_instance_of_asks_for_declared_types() -> None:
    data = '<inputData id="x" name="x"/>'
    for expression, value in (
        ('{number: 1, tags: ["a"]} instance of tOrder', True),
        ("{number: 1} instance of tOrder", False),
        ('"low" instance of tLevel', True),
        ('"high" instance of tLevel', False),
        ("null instance of tLevel", False),
        ("(function(o: tOrder) o.number)({number: 1, tags: []})", 1),
    ):
        assert tried(data, decision("Answer", literal(expression)))[0] == value, expression


PERSON = (
    '<itemDefinition name="tPerson"><itemComponent name="id"><typeRef>number</typeRef></itemComponent>'
    '<itemComponent name="name"><typeRef>string</typeRef></itemComponent></itemDefinition>'
)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("function&lt;tPerson&gt; -> number", True),
        ("function&lt;context&lt;id: number, name: string>> -> number", True),
        ("function&lt;context&lt;id: number, name: string, age: number>> -> number", True),
        ("function&lt;tPerson&gt; -> Any", True),
        ("function&lt;context&lt;id: number>> -> number", False),
        ("function&lt;number> -> number", False),
        ("function&lt;tPerson> -> string", False),
        ("function&lt;tPerson, tPerson> -> number", False),
    ],
)
def test_models_services_and_boxed_functions_have_the_types_that_they_declare(kind: str, value: bool) -> None:
    parameter = '<formalParameter name="p" typeRef="tPerson"/>'
    knowledge = (
        '<businessKnowledgeModel id="k" name="k"><variable name="k" typeRef="number"/>'
        f"<encapsulatedLogic>{parameter}{literal('p.id')}</encapsulatedLogic></businessKnowledgeModel>"
    )
    test = kind.replace("&lt;", "<").replace("&gt;", ">")
    asked = decision("Answer", literal(f"k instance of {test}"), knows=["k"])
    assert tried(PERSON, knowledge, asked) == (value, [])
    service = (
        '<inputData id="p" name="p"><variable name="p" typeRef="tPerson"/></inputData>'
        f"{decision('Inner', literal('p.id'), ['Input:p'], kind='number')}"
        '<decisionService id="k" name="k"><variable name="k"/><outputDecision href="#inner"/><inputData href="#p"/>'
        "</decisionService>"
    )
    assert tried(PERSON, service, asked) == (value, [])
    typed = literal("p.id").replace("<literalExpression", '<literalExpression typeRef="number"')
    boxed = (
        f'<context><contextEntry><variable name="f"/><functionDefinition>{parameter}{typed}</functionDefinition>'
        f"</contextEntry><contextEntry>{literal(f'f instance of {test}')}</contextEntry></context>"
    )
    assert tried(PERSON, decision("Answer", boxed)) == (value, [])
    in_feel = f"(function(p: tPerson) 1) instance of {test}"
    assert tried(PERSON, decision("Answer", literal(in_feel))) == (value, [])


@pytest.mark.parametrize(
    ("function", "actual"),
    [
        ("function(a: string) true", "function<string> -> boolean"),
        ('function(a: number) "x"', "function<number> -> string"),
        ("function(a: tOrder) true", "function<tOrder> -> boolean"),
    ],
)
def test_a_function_of_another_type_than_the_declared_one_does_not_fit(function: str, actual: str) -> None:
    cause = f"{actual} does not conform to function<number> -> boolean"
    assert decided(function, "tTest") == (None, [cause])
    assert tried(decision("Answer", literal(f"({function}) instance of tTest"))) == (False, [])
    for fitting in ("function(a) a", "function(a: number) a > 1", "even"):
        assert tried(decision("Answer", literal(f"({fitting}) instance of tTest"))) == (True, [])


def test_types_that_unfold_to_many_parts_are_compared_by_their_names_alone() -> None:
    kinds = '<itemDefinition name="{0}0"><typeRef>number</typeRef></itemDefinition>'
    for level in range(1, 40):
        parts = "".join(
            f'<itemComponent name="{part}"><typeRef>{{0}}{level - 1}</typeRef></itemComponent>' for part in "ab"
        )
        kinds += f'<itemDefinition name="{{0}}{level}">{parts}</itemDefinition>'
    asked = decision("Answer", literal("(function(a: x39) 1) instance of function<y39> -> number"))
    assert tried(kinds.format("x"), kinds.format("y"), asked) == (True, [])


def test_a_type_may_hold_itself_in_an_entry_but_not_be_itself() -> None:
    answer = decision("Answer", literal("1"))
    assert check_decisions(definitions(TREE, answer), "test.dmn") == []
    alias = '<itemDefinition name="a"><typeRef>a</typeRef></itemDefinition>'
    (problem,) = check_decisions(definitions(alias, answer), "test.dmn")
    assert (problem.rule, problem.message) == ("cyclic-type", "the type `a` is itself")


def test_types_of_dmn_1_1_have_prefixes_of_xml() -> None:
    xml = definitions(
        STRUCTURE,
        decision("Answer", literal("[1]"), kind="feel:number"),
        decision("Order", literal("1"), kind="own:tOrder"),
    ).replace(b"<definitions ", b'<definitions xmlns:feel="http://www.omg.org/spec/FEEL/20140401" ')
    xml = xml.replace(b"<definitions ", b'<definitions xmlns:own="http://camunda.org/schema/1.0/dmn" ')
    model = parse_decisions(xml, "test.dmn")
    assert model.decisions["answer"].evaluate({}, EvaluationContext()).value == 1
    assert model.decisions["order"].evaluate({}, EvaluationContext()).value is None


def test_constraints_are_paid_from_the_evaluation() -> None:
    costly = text("every i in 1..20000 satisfies i + ? > 0")
    item = f'<itemDefinition name="tCostly"><typeRef>number</typeRef><allowedValues>{costly}</allowedValues>'
    kinds = f'{item}</itemDefinition><itemDefinition name="tMany" isCollection="true"><typeRef>tCostly</typeRef>'
    data = '</itemDefinition><inputData id="x" name="x"><variable name="x" typeRef="tMany"/></inputData>'
    model = parse_decisions(definitions(kinds + data, decision("Answer", literal("x[1]"), ["Input:x"])), "test.dmn")
    assert model.decisions["answer"].evaluate({"x": [1, 2]}, EvaluationContext()).value == 1
    with pytest.raises(DecisionFailed, match="more than 1000000 evaluation steps"):
        model.decisions["answer"].evaluate({"x": [1] * 10_000}, EvaluationContext())


def test_a_type_nested_too_deeply_is_not_known() -> None:
    kind = "list&lt;" * 5_000 + "number" + ">" * 5_000
    assert [
        each.rule for each in check_decisions(definitions(decision("Answer", literal("1"), kind=kind)), "t.dmn")
    ] == ["unknown-type"]
