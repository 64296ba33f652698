"""What the compiler remarks on: parts of a text that parses but surely has no value."""

from __future__ import annotations

import pytest

from engine.feel import EvaluationContext, Expression, FeelLimits, compile_expression, compile_unary_tests


def said(expression: Expression) -> list[tuple[int, str]]:
    return [(remark.position, remark.cause) for remark in expression.remarks]


@pytest.mark.parametrize(
    ("text", "position", "cause"),
    [
        ('[1, date("2024-13-01")]', 8, "date: month 13 is outside 1..12"),
        ('amount + (1 + "a")', 12, "cannot add number and string"),
        ("for i in rows return null + 1", 26, "cannot add null and number"),
        (
            'substring("a")',
            9,
            "substring: takes (string: string, start position: number, length?: number or null), found 1 argument",
        ),
        (
            'substring(text: "a", start: 1)',
            9,
            "substring: has no parameter 'text'; "
            "it takes (string: string, start position: number, length?: number or null)",
        ),
        ('upper("a")', 0, "no function 'upper'; did you mean 'upper case'?"),
        ('uppercase("a")', 0, "no function 'uppercase'; did you mean 'upper case'?"),
        ("toString(1)", 0, "no function 'toString'; did you mean 'string'?"),
        ("sqr(n)", 0, "no function 'sqr'; did you mean 'sqrt'?"),
        ("frobnicate(n)", 0, "no function 'frobnicate'"),
        ("is defined(frobnicate(n).a)", 11, "no function 'frobnicate'"),
    ],
)
def test_what_surely_has_no_value_is_remarked_once_at_its_place(text: str, position: int, cause: str) -> None:
    expression = compile_expression(text)
    assert said(expression) == [(position, cause)]
    assert expression.remarks[0].expression == text


@pytest.mark.parametrize(
    "text",
    [
        "a + b",
        'date("2024-12-01")',
        "function(f) f(1)",
        "{f: function(x) x, g: f(1)}",
        "for f in functions return f(1)",
        "rows[f(1)]",
        "module.f(1)",
        "if null then 1 else 2",
        "null = 1",
        "true or variable",
    ],
)
def test_what_may_have_a_value_is_not_remarked(text: str) -> None:
    assert said(compile_expression(text)) == []


def test_a_declared_variable_may_hold_a_function() -> None:
    assert said(compile_expression("bonus(1)", names=["bonus"])) == []
    assert said(compile_unary_tests("bonus(?)", names=["bonus"])) == []
    assert said(compile_unary_tests("bonus(?)")) == [(0, "no function 'bonus'")]


def test_remarks_stand_in_the_order_of_the_text_and_do_not_change_what_an_evaluation_gives() -> None:
    expression = compile_expression('{a: upper("x"), b: 1 + "a", c: number("x", 2)}')
    assert [position for position, _ in said(expression)] == sorted(position for position, _ in said(expression))
    assert len(expression.remarks) == 3
    context = EvaluationContext()
    scope = {"upper": compile_expression('function(x) x + "!"').evaluate({})}
    assert expression.evaluate(scope, context) == {"a": "x!", "b": None, "c": None}
    assert len(context.warnings) == 2


def test_a_call_of_a_function_that_does_not_exist_is_told_once() -> None:
    for text, position, cause in (
        ("foo(1)", 0, "no function 'foo'"),
        ("foo(1 / 0)", 0, "no function 'foo'"),
        ("for x in [1] return upper(x)", 20, "no function 'upper'; did you mean 'upper case'?"),
    ):
        context = EvaluationContext()
        expression = compile_expression(text)
        expression.evaluate({}, context)
        assert [(warning.position, warning.cause) for warning in context.warnings] == [(position, cause)]
        assert context.warnings[0] in expression.remarks
    context = EvaluationContext()
    assert compile_expression("foo(1)").evaluate({"foo": None}, context) is None
    assert [warning.cause for warning in context.warnings] == ["cannot call a null"]


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ('matches(a, "[")', "matches: "),
        ('matches(pattern: "(", input: a)', "matches: "),
        ('matches(a, "a", "z")', "matches: there is no flag 'z'"),
        ('matches(a, b, "z")', "matches: there is no flag 'z'"),
        ('replace(a, "(b", "c")', "replace: "),
        ('replace(a, "b", "$")', "replace: the replacement is wrong at character 1"),
        ('replace(a, "b*", b)', "replace: the pattern fits a text without characters"),
        ('split(a, ")")', "split: "),
        ('split(a, ",*")', "split: the pattern fits a text without characters"),
        ('extract(a, "a{2,1}")', "extract: "),
        ('if a = "b" then null else matches(a, "[")', "matches: "),
    ],
)
def test_a_pattern_that_is_wrong_whatever_the_text_is_told(text: str, cause: str) -> None:
    (remark,) = compile_expression(text).remarks
    assert remark.cause.startswith(cause)
    context = EvaluationContext()
    assert compile_expression(text).evaluate({"a": "x", "b": "y"}, context) is None
    assert context.warnings == [remark]


@pytest.mark.parametrize(
    "text",
    [
        'matches(a, "[a-z]")', "matches(a, b)", 'matches(a, "[", b)', 'matches(a, "[", "q")',
        'replace(a, "b*", b, "q")',
        'replace(a, "b", "$", "q")', 'split(a, b)', 'matches(a, "a", null)', "matches(a, null)", 'replace(a, b, "$")',
    ],
)  # fmt: skip
def test_what_may_be_a_pattern_is_not_remarked(text: str) -> None:
    assert not compile_expression(text).remarks


def test_all_constant_parts_of_a_text_may_spend_as_much_as_one_evaluation() -> None:
    part = 'matches("{}", "(a|b|ab)*[c-d]")'
    texts = [part.format("ab" * 1_000 + str(number)) for number in range(20)]
    expression = compile_expression(f"[{', '.join(texts)}, 1 + 1]", limits=FeelLimits(max_steps=60_000))
    assert not expression.is_constant
    assert len(expression.remarks) <= 3
    value = expression.evaluate({}, EvaluationContext(limits=FeelLimits(max_steps=5_000_000)))
    assert isinstance(value, list)
    assert value[-1] == 2
