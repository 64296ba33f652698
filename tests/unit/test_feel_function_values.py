"""Built-in functions as values, and variables of the caller that are called like one."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from engine.feel import EvaluationContext, FeelLimits, builtins, compile_expression
from engine.feel.values import kind_of


def evaluated(text: str, scope: dict[str, Any] | None = None, names: tuple[str, ...] = ()) -> tuple[Any, list[str]]:
    context = EvaluationContext(now_us=0)
    result = compile_expression(text, names=names).evaluate(scope or {}, context)
    return result, [warning.cause for warning in context.warnings]


def made(text: str) -> Any:
    return compile_expression(text).evaluate({})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{f: sum, r: f([1, 2])}.r", 3),
        ("{f: sum, r: f(1, 2)}.r", 3),
        ('{f: substring, r: f("foobar", 3)}.r', "obar"),
        ('{f: substring, r: f("foobar", 3, 2)}.r', "ob"),
        ('{f: substring, r: f(start position: 3, string: "foobar")}.r', "obar"),
        ("{f: list contains, r: f([1], 1)}.r", True),
        ("{f: not, r: f(true)}.r", False),
        ("{f: if true then min else max, r: f([1, 2])}.r", 1),
        ("string({f: now, r: f()}.r)", "1970-01-01T00:00:00Z"),
        ("{tools: {f: sum}, r: tools.f([1])}.r", 1),
        ("sort([2, 1], before)", [1, 2]),
        ("sort(list: [1, 2], precedes: after)", [2, 1]),
        ('list replace(["abc", "xyz"], contains, "b")', ["b", "xyz"]),
        ('(function(f, x) f(x))(upper case, "a")', "A"),
        ("(function(f: function<number> -> number) f(-1))(abs)", 1),
        ("(if true then min else max)(1, 2)", 1),
        ("for f in [min, max] return f([1, 2])", [1, 2]),
        ("[abs, sqrt][2](4)", 2),
        ("{f: abs}.f(-1)", 1),
        ("some f in [odd, even] satisfies f(3)", True),
        ("abs instance of function<number> -> number", True),
        ("abs instance of function<years and months duration> -> years and months duration", True),
        ("abs instance of function<string> -> number", False),
        ("abs instance of function<number, number> -> number", False),
        ("floor instance of function<number> -> number", True),
        ("floor instance of function<number, number> -> number", True),
        ("string length instance of function<string> -> number", True),
        ("sum instance of function<list<number>> -> number", True),
        ("string length instance of function<string> -> string", False),
        ("(if true then odd else even) instance of function<number> -> boolean", True),
        ("before instance of function<date, date> -> boolean", True),
        ("before instance of function<date, range<date>> -> boolean", True),
        ("before instance of function<date, list<date>> -> boolean", False),
    ],
)
def test_the_name_of_a_built_in_is_the_function(text: str, expected: Any) -> None:
    assert evaluated(text) == (expected, [])


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ('{f: substring, r: f("a")}.r', "substring: takes (string: string"),
        ('{f: substring, r: f(text: "a")}.r', "substring: has no parameter 'text'"),
        ("{f: abs, r: f(null)}.r", "abs: 'n' must be a number or duration, found null"),
        ("sort([1, 2], sqrt)", "'precedes' must be a function of two parameters, found one of 1"),
    ],
)
def test_a_wrong_call_of_a_built_in_by_its_value_says_why(text: str, cause: str) -> None:
    value, warnings = evaluated(text)
    assert value is None
    assert cause in warnings[0]


def test_a_variable_and_a_local_name_win_over_a_built_in() -> None:
    assert evaluated("(function(x) x)(count)", {"count": 4}) == (4, [])
    assert evaluated("{count: 5, f: function(x) x, r: f(count)}.r") == (5, [])
    assert compile_expression("(function(x) x)(count)").possible_names == {"count"}


@pytest.mark.parametrize(
    "text", ["count", "count > 1", "count + 1", "{total: count}.total", "get or else(count, null)", "string(count)"]
)
def test_where_a_function_is_of_no_use_a_name_is_a_variable(text: str) -> None:
    assert compile_expression(text).names | compile_expression(text).possible_names == {"count"}
    value, warnings = evaluated(text)
    assert value is None
    assert warnings[0] == "no variable 'count'"


def test_the_name_of_a_built_in_without_its_brackets_is_remarked() -> None:
    (remark,) = compile_expression('upper case = "A"').remarks
    assert remark.cause == "'upper case' is a function: call it with its arguments in brackets"
    assert compile_expression("upper case = 1", names=["upper case"]).remarks == ()


def test_a_declared_function_is_called_instead_of_the_built_in_of_its_name() -> None:
    scope = {"mode": made("function(a, b) a + b"), "before": made("function(it) it")}
    assert evaluated("mode(1, 2)", scope, ("mode",)) == (3, [])
    assert evaluated("mode(b: 1, a: 2)", scope, ("mode",)) == (3, [])
    assert evaluated('before("x")', scope, ("before",)) == ("x", [])
    assert compile_expression("mode(b: 1, a: 2)", names=["mode"]).remarks == ()
    assert compile_expression("mode(b: 1, a: 2)", names=["mode"]).names == {"mode"}


@pytest.mark.parametrize("scope", [{"count": 7}, {}])
def test_a_declared_variable_that_holds_no_function_leaves_the_call_to_the_built_in(scope: dict[str, Any]) -> None:
    assert evaluated("count([1, 2])", scope, ("count",)) == (2, [])


def test_nested_calls_of_a_declared_name_are_compiled_once_each() -> None:
    text = f"{'count(' * 50}1{')' * 50}"
    assert evaluated(text, {}, ("count",)) == (1, [])
    (remark,) = compile_expression('count(upper("a"))', names=["count"]).remarks
    assert "no function 'upper'" in remark.cause


def test_a_call_by_way_of_the_value_costs_steps_and_depth() -> None:
    context = EvaluationContext(limits=FeelLimits(max_steps=100))
    assert compile_expression("sort(rows, before)").evaluate({"rows": list(range(60, 0, -1))}, context) is None
    assert "100 evaluation steps" in context.warnings[-1].cause
    context = EvaluationContext(limits=FeelLimits(max_call_depth=250))
    nested = "for i in 1..400 return if i = 1 then [f, 1] else [f, partial[-1]]"
    text = f"(function(f) sort(({nested})[-1], f))(sort)"
    assert compile_expression(text).evaluate({}, context) is None
    assert "calls nested deeper than 250 levels" in context.warnings[-1].cause


KINDS = [
    "null",
    "true",
    "0",
    "-1",
    "2",
    "1.5",
    "1e40",
    "1e-6000",
    '""',
    '"a"',
    '"2024-01-01"',
    '"[1..2]"',
    '"P1D"',
    "[]",
    "[1]",
    "[1,2,3]",
    "[null]",
    '["a","b"]',
    "[[1],[2]]",
    "{}",
    "{a:1}",
    '{key:"a",value:1}',
    '@"2024-01-01"',
    '@"10:00:00"',
    '@"2024-01-01T10:00:00Z"',
    '@"P1D"',
    '@"-P1Y"',
    "[1..5]",
    '["a".."b"]',
    "(>3)",
    '@"999999999-12-31"',
    '@"-999999999-01-01T00:00:00@Europe/Berlin"',
    "function(a)a",
    "function(a,b)a<b",
]


@pytest.mark.parametrize("arity", range(5))
def test_whatever_they_are_given_built_ins_never_raise_and_give_the_same_by_their_value(arity: int) -> None:
    values = [made(text) for text in KINDS]
    drawn = Random(f"built-ins of {arity}")
    names = "uvwxyz"[:arity]
    for name in sorted({*builtins()} - {"date and time", "is defined"}):
        call = compile_expression(f"{name}({', '.join(names)})")
        by_value = compile_expression(f"{{f: {name}, r: f({', '.join(names)})}}.r")
        for _ in range(40 if arity else 1):
            scope = {each: drawn.choice(values) for each in names}
            context = EvaluationContext()
            found = call.evaluate(scope, context)
            assert found == by_value.evaluate(scope), (name, scope)
            gives = builtins()[name].gives
            assert not gives or found is None or kind_of(found) == gives, (name, scope)
            empty = [] in scope.values() or [None] in scope.values() or None in scope.values()
            assert found is not None or context.warnings or empty, (name, scope)
