"""Types of FEEL: `instance of` with every type, conformance, declared parameters and their conversions."""

from __future__ import annotations

from typing import Any

import pytest

from engine.feel import DateTime, EvaluationContext, FeelSyntaxError, compile_expression


def value(text: str, scope: dict[str, Any] | None = None) -> Any:
    return compile_expression(text).evaluate(scope or {})


def causes(text: str) -> list[str]:
    context = EvaluationContext()
    assert compile_expression(text).evaluate({}, context) is None
    return [warning.cause for warning in context.warnings]


SAMPLES = {
    "number": "1",
    "string": '"a"',
    "boolean": "true",
    "date": '@"2024-02-29"',
    "time": '@"10:00:00"',
    "date and time": '@"2024-02-29T10:00:00"',
    "days and time duration": '@"P1D"',
    "years and months duration": '@"P1M"',
    "list<number>": "[1, 2]",
    "list<list<string>>": '[["a"], []]',
    "context<a: string, b: list<date>>": '{a: "x", b: [@"2024-02-29"]}',
    "range<date>": '[@"2024-02-29"..@"2024-03-01"]',
    "function<number, string> -> boolean": "function(a: number, b: string) a > 1",
}


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("other", SAMPLES)
def test_a_value_is_an_instance_of_its_own_type_alone(name: str, other: str) -> None:
    assert value(f"({SAMPLES[name]}) instance of {other}") is (name == other)


@pytest.mark.parametrize("name", SAMPLES)
def test_every_value_but_null_is_an_instance_of_any(name: str) -> None:
    assert value(f"({SAMPLES[name]}) instance of Any") is True
    assert value(f"({SAMPLES[name]}) instance of Null") is False
    assert value(f"null instance of {name}") is False


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[] instance of list<number>", True),
        ("[1, null] instance of list<number>", True),
        ('[1, "a"] instance of list<number>', False),
        ("[null] instance of list<Null>", True),
        ("[[1], [2, 3]] instance of list<list<number>>", True),
        ("[[1], 2] instance of list<list<number>>", False),
        ("{a: 1} instance of context<a: number>", True),
        ("{a: 1, b: 2} instance of context<a: number>", True),
        ("{a: 1} instance of context<a: number, b: string>", False),
        ("{a: null} instance of context<a: number>", True),
        ("{a: {b: 1}} instance of context<a: context<b: string>>", False),
        ("{first name: 1, for: 2} instance of context<first name: number, for: number>", True),
        ("(> 2) instance of range<number>", True),
        ('["a".."b"] instance of range<number>', False),
        ('@"P1D" instance of day and time duration', True),
        ('@"P1M" instance of year and month duration', True),
        ("[1] instance of list < number >", True),
        ("[1] instance of\nlist<number> and true", True),
        ("-1 instance of number", True),
        ("x.y instance of string", False),
        ('[{a: 1}, {a: "b"}][a instance of string].a', ["b"]),
        ('[1, "a", null][item instance of number]', [1]),
        ('"a" instance of number', False),
        ("true instance of boolean", True),
        ("[1, 2] instance of list<number>", True),
        ("{b: 1} instance of context<a: number>", False),
        ("(function(a) a) instance of function<number> -> number", True),
        ('@"PT1S" instance of days and time duration', True),
        ('@"P1Y" instance of days and time duration', False),
        ('@"2024-01-01T00:00:00" instance of date and time', True),
    ],
)
def test_instance_of_follows_the_conformance_of_types(text: str, expected: Any) -> None:
    assert value(text, {"x": {"y": 1}}) == expected


@pytest.mark.parametrize(
    ("function", "wanted", "expected"),
    [
        ("function() 1", "function<> -> number", True),
        ("function() 1", "function<> -> Any", True),
        ("function() 1", "function<number> -> Any", False),
        ("function(a: Any) 1", "function<number> -> number", True),
        ("function(a) 1", "function<number> -> number", True),
        ("function(a: number) 1", "function<Any> -> number", False),
        ("function(a: context<x: number>) 1", "function<context<x: number, y: string>> -> number", True),
        ("function(a: context<x: number, y: string>) 1", "function<context<x: number>> -> number", False),
        ("function(a: list<Any>) a", "function<list<number>> -> list<number>", False),
        ("function(a: number) a", "function<number> -> number", True),
        ("function(a: number) a + 1", "function<number> -> string", False),
        ("function(a: number) a > 1 and true", "function<number> -> boolean", True),
        ('function(a) if a then "x" else "y"', "function<boolean> -> number", False),
        ("function(a) null", "function<boolean> -> number", True),
        ("function(a) a + 1", "function<number> -> number", True),
        ("function(a) 1 - a", "function<number> -> string", False),
        ('function(a) "x" + a', "function<string> -> number", False),
        ("function(a) a ** a", "function<number> -> string", False),
        ("function(a) a * 2", "function<number> -> days and time duration", True),
        ("function(a) a * a", "function<number> -> string", True),
        ("function(a: number) -a", "function<number> -> string", False),
        ("function(a: number) [a, null]", "function<number> -> list<number>", True),
        ("function(a: number) [a, 1]", "function<number> -> list<string>", False),
        ('function(a: number) [a, "x"]', "function<number> -> list<number>", False),
        ('function(a: number) [a, "x"]', "function<number> -> list<Any>", True),
        ("function(a) []", "function<number> -> list<string>", True),
        ("function(a) [a]", "function<number> -> list<string>", True),
        ("function(a) [a]", "function<number> -> number", True),
        ("function() [function(b) b, function(c) c]", "function<> -> list<function<Any> -> Any>", True),
        ("function(a) [1..2]", "function<number> -> range<number>", True),
        ("function(a) [1..2]", "function<number> -> range<string>", False),
        ("function(a) for i in a return i > 1", "function<list<number>> -> list<boolean>", True),
        ("function(a) for i in a return 1", "function<list<number>> -> list<boolean>", False),
        ("function(a: number) for a in [true] return a", "function<number> -> list<boolean>", True),
        ("function(a) {b: 1}", "function<boolean> -> context<b: number>", True),
        ("function(a) {b: 1}", "function<boolean> -> context<b: string>", False),
        ("function(a: number) function(b: string) 1", "function<number> -> function<string> -> number", True),
        ("function(a: number) function(b: string) 1", "function<number> -> function<number> -> number", False),
        ("function(a) unknown(a)", "function<number> -> number", True),
    ],
)
def test_functions_are_contravariant_in_parameters_and_covariant_in_results(
    function: str, wanted: str, expected: bool
) -> None:
    assert value(f"({function}) instance of {wanted}") is expected


@pytest.mark.parametrize("kind", ["list", "context", "range", "function", "list<list>", "context<a: range>"])
def test_a_constructed_type_without_its_parts_is_no_type(kind: str) -> None:
    assert "is a type only with its parts; write " in causes(f"1 instance of {kind}")[0]
    assert "is a type only with its parts" in compile_expression(f"x instance of {kind}").remarks[0].cause


@pytest.mark.parametrize(
    ("kind", "wide", "samples"),
    [
        ("list", "list<Any>", ["[]", '[1, "a"]', "[null]", "[[]]"]),
        ("context", "context<>", ["{}", "{a: 1}"]),
        ("range", "range<Any>", ["[1..2]", '["a".."b"]', "(< 5)"]),
        ("function", "function<Any, Any> -> Any", ["function(a, b) a", "function(a: Any, b) 1"]),
    ],
)
def test_the_remark_about_a_type_without_its_parts_names_the_widest_one(
    kind: str, wide: str, samples: list[str]
) -> None:
    assert wide in causes(f"1 instance of {kind}")[0]
    for sample in samples:
        assert value(f"({sample}) instance of {wide}") is True
    for other in ("1", "null", '"a"', '@"P1D"'):
        assert value(f"{other} instance of {wide}") is False


def test_a_type_that_does_not_exist_gives_null_with_a_warning_at_its_place() -> None:
    assert causes("1 instance of nummber") == ["there is no type 'nummber'"]
    remark = compile_expression("a instance of list<imp.tLoan>").remarks[0]
    assert (remark.position, remark.cause) == (19, "there is no type 'imp.tLoan'")


def test_types_of_the_caller_may_be_named() -> None:
    types = {
        "tAge": lambda found: isinstance(found, int) and found >= 0,
        "line item": lambda found: isinstance(found, dict) and "sku" in found,
        "imp.tName": lambda found: isinstance(found, str),
    }

    def typed(text: str) -> Any:
        return compile_expression(text, types=types).evaluate({})

    assert typed("3 instance of tAge") is True
    assert typed("-3 instance of tAge") is False
    assert typed("null instance of tAge") is False
    assert typed("[{sku: 1}] instance of list<line item> and true") is True
    assert typed('"a" instance of imp.tName') is True
    assert typed("3 instance of `tAge`") is True
    assert typed("(function(age: tAge) age + 1)(3)") == 4
    assert typed("(function(age: tAge) age + 1)(-3)") is None
    assert typed("(function(items: list<line item>) count(items))({sku: 1})") == 1
    assert typed("(function(age: tAge) 1) instance of function<tAge> -> number") is True


@pytest.mark.parametrize(
    ("parameter", "argument", "expected"),
    [
        ("number", "1", 1),
        ("number", "[1]", 1),
        ("number", "null", None),
        ("Any", '["a"]', ["a"]),
        ("list<number>", "1", [1]),
        ("list<number>", "[1, 2]", [1, 2]),
        ("list<number>", "[]", []),
        ("list", "1", [1]),
        ("list<list<number>>", "[[1]]", [[1]]),
        ("context<a: number>", "{a: 1, b: 2}", {"a": 1, "b": 2}),
        ("context<a: number>", "[{a: 1}]", {"a": 1}),
    ],
)
def test_an_argument_is_converted_to_the_declared_type(parameter: str, argument: str, expected: Any) -> None:
    context = EvaluationContext()
    text = f"(function(first one: {parameter}, b) first one)({argument}, 2)"
    assert compile_expression(text).evaluate({}, context) == expected
    assert not context.warnings


def test_a_date_becomes_midnight_utc_where_a_date_and_time_is_declared() -> None:
    found = value('(function(at: date and time) at)(@"2024-02-29")')
    assert isinstance(found, DateTime)
    assert value('(function(at: date and time) at)(@"2024-02-29") = @"2024-02-29T00:00:00Z"') is True


@pytest.mark.parametrize(
    ("parameter", "argument", "given"),
    [
        ("number", '"1"', "a string, not a number"),
        ("number", "[1, 2]", "a list, not a number"),
        ("list<number>", '"a"', "a string, not a list<number>"),
        ("list<number>", '[1, "a"]', "a list, not a list<number>"),
        ("date", '@"2024-02-29T00:00:00Z"', "a date and time, not a date"),
        ("context<a: number>", "{b: 1}", "a context, not a context<a: number>"),
        ("function<number> -> number", "function(a: string) 1", "a function, not a function<number> -> number"),
    ],
)
def test_an_argument_that_does_not_conform_makes_the_result_null(parameter: str, argument: str, given: str) -> None:
    assert causes(f"(function(a: {parameter}) a = null)({argument})") == [f"the argument 'a' is {given}"]
    assert causes(f"(function(a: {parameter}) a = null)(a: {argument})") == [f"the argument 'a' is {given}"]


def test_the_declared_type_of_a_parameter_must_exist() -> None:
    with pytest.raises(FeelSyntaxError) as raised:
        compile_expression("function(a: number, b: list<tLoan>) a", types={"tOther": lambda found: True})
    assert (raised.value.column, raised.value.found, raised.value.expected) == (29, "'tLoan'", "a type")
    assert "tOther" in raised.value.hint
