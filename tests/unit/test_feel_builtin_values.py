"""Built-in functions on strings, numbers, contexts and any value, as tables; and what the table of them tells."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pytest

from engine.feel import EvaluationContext, FeelLimits, builtins, compile_expression
from tests.feel_values import evaluated


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('substring("foobar", 3)', "obar"),
        ('substring("foobar", -3, 2)', "ba"),
        ('substring("foobar", 3, 99)', "obar"),
        ('substring("foobar", 3.9, 2.9)', "ob"),
        ('substring(length: 1, string: "foobar", start position: -1)', "r"),
        ('substring("\\U01F40Eab", 2)', "ab"),
        ('substring("a\\uD83D\\uDC0Eb", 2, 1)', "\U0001f40e"),
        ('string length("\\U01F40Eab")', 3),
        ('upper case("straße")', "STRASSE"),
        ('substring before("foobar", "")', ""),
        ('substring after("foobar", "")', "foobar"),
        ('contains("foobar", "")', True),
        ('contains(["foobar"], "oba")', True),
        ('starts with(match: "foo", string: "foobar")', True),
        ('is blank("")', True),
        ('is blank(" \\t\\n")', True),
        ('is blank("a")', False),
        ('trim("  a b ")', "a b"),
        ('to base64("FEEL")', "RkVFTA=="),
        ('to base64("")', ""),
        ('to base64(value: "ß")', "w58="),
        ('string join(["a", null, "b"])', "ab"),
        ('string join(["a", "b"], ", ")', "a, b"),
        ('string join(["a", "b"], null)', "ab"),
        ('string join("a", "-")', "a"),
        ('string join([], "-")', ""),
        ('string join(["a", "b"], ", ", "[", "]")', "[a, b]"),
        ('string join([], ", ", "[", "]")', "[]"),
        ('string join(suffix: "!", prefix: "¡", delimiter: "", list: ["a"])', "¡a!"),
        ('string length("🐎ab")', 3),
        ('substring("foobar", 3, 2)', "ob"),
        ('substring("foobar", -2, 1)', "a"),
        ('substring(start position: 2, string: "abc")', "bc"),
        ('upper case("aé")', "AÉ"),
        ('lower case("AB")', "ab"),
        ('trim("  a ")', "a"),
        ('contains("foobar", "ob")', True),
        ('starts with("foobar", "fo")', True),
        ('ends with("foobar", "r")', True),
        ('substring before("foobar", "bar")', "foo"),
        ('substring before("foobar", "xyz")', ""),
        ('substring after("foobar", "ob")', "ar"),
        ('substring after("", "a")', ""),
        ('split("a;b;c", ";")', ["a", "b", "c"]),
        ('split("a.b", "\\\\.")', ["a", "b"]),
        ('string join(["a", null, "b"], "-")', "a-b"),
        ('string join(["a", "b"])', "ab"),
        ("string join([])", ""),
    ],
)
def test_strings(text: str, expected: Any) -> None:
    assert evaluated(text) == (expected, [])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("decimal(1/3, 2)", Decimal("0.33")),
        ("decimal(1/3, 2.5)", Decimal("0.33")),
        ("decimal(2.5, 0)", 2),
        ('decimal(2.5, 0, "HALF_UP")', 3),
        ('decimal(2.5, 0, "half_down")', 2),
        ('decimal(2.1, 0, "CEILING")', 3),
        ('decimal(2.5, 1, "UNNECESSARY")', Decimal("2.5")),
        ("decimal(n: 1.25, scale: 1)", Decimal("1.2")),
        ("decimal(1234, -2)", 1200),
        ("floor(-1.5)", -2),
        ("floor(n: -1.56, scale: 1)", Decimal("-1.6")),
        ("ceiling(-1.56, 1)", Decimal("-1.5")),
        ("round up(5.2)", 6),
        ("round up(n: -5.2)", -6),
        ("round down(5.9)", 5),
        ("round half up(5.5)", 6),
        ("round half down(5.5)", 5),
        ("round half up(-1.126, 2)", Decimal("-1.13")),
        ("abs(-5.5)", Decimal("5.5")),
        ("abs(n: [-5])", 5),
        ('abs(@"-PT5H") = @"PT5H"', True),
        ('abs(@"-P2M") = @"P2M"', True),
        ("modulo(-12, 5)", 3),
        ("modulo(12, -5)", -3),
        ("modulo(divisor: 4.5, dividend: 10.1)", Decimal("1.1")),
        ("sqrt(16)", 4),
        ("odd(-3)", True),
        ("even(2.0)", True),
        ('number("-1.5e2")', -150),
        ('number("1.000,5", ".", ",")', Decimal("1000.5")),
        ('number("1 000", " ")', 1000),
        ('number("1000.5", null, ".")', Decimal("1000.5")),
        ('number("1,000.5", ",", null)', Decimal("1000.5")),
        ('number(decimal separator: ",", from: "1,5", grouping separator: null)', Decimal("1.5")),
        ("floor(-1.56, 1)", Decimal("-1.6")),
        ("ceiling(1.2)", 2),
        ("round up(5.5)", 6),
        ("round up(-1.121, 2)", Decimal("-1.13")),
        ("round down(-5.5, 0)", -5),
        ("round half up(5.5, 0)", 6),
        ("round half up(-5.5, 0)", -6),
        ("round half down(5.5, 0)", 5),
        ("abs(-5)", 5),
        ('abs(@"-PT5S") = @"PT5S"', True),
        ("modulo(12, 5)", 2),
        ("modulo(10.1, 4.5)", Decimal("1.1")),
        ("exp(0)", 1),
        ("decimal(log(10), 8)", Decimal("2.30258509")),
        ("odd(3)", True),
        ("abs([-1])", 1),
    ],
)
def test_numbers(text: str, expected: Any) -> None:
    assert evaluated(text) == (expected, [])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("is(1, 1.0)", True),
        ('is(1, "1")', False),
        ("is(null, null)", True),
        ("is(null, 1)", False),
        ("is(value1: 1)", False),
        ("is(value2: 1, value1: 1)", True),
        ('is(@"P1D", @"PT24H")', True),
        ('is(@"P0Y", @"P0D")', False),
        ('is(@"2024-01-01", @"2024-01-01T00:00:00")', False),
        ('is(@"12:00:00Z", @"12:00:00+00:00")', True),
        ('is(@"12:00:00Z", @"13:00:00+01:00")', False),
        ('is(@"12:00:00", @"12:00:00Z")', False),
        ('is([1, @"12:00:00Z"], [1, @"13:00:00+01:00"])', False),
        ("is([1, {a: [2]}], [1, {a: [2]}])", True),
        ("is({a: 1}, {b: 1})", False),
        ("is([1..2], [1..2])", True),
        ("is([1..2], [1..2))", False),
        ("is(function(a) a, function(a) a)", False),
        ("not(negand: false)", True),
        ("not(null)", None),
        ("assert(x, x > 0)", 4),
        ('assert(condition: true, value: null, cause: "never")', None),
        ('fromAi(x, "a number", "number", {enum: [4]}, {required: true})', 4),
        ('fromAi(value: x, type: "number")', 4),
        ("get or else(default: 1, value: null)", 1),
        ("is empty([])", True),
        ("is empty({a: 1})", False),
        ('get value({a: {b: 2}}, "a")', {"b": 2}),
        ('get value({a: {b: 2}}, ["a", "b"])', 2),
        ('get value(keys: ["a"], context: {a: null})', None),
        ('get value(m: {a: 1}, key: "a")', 1),
        ('context put({a: 1}, ["b", "c"], 2)', {"a": 1, "b": {"c": 2}}),
        ('context put(context: {}, key: "a", value: null)', {"a": None}),
        ('context put(keys: ["a", "b"], context: {a: {c: 1}}, value: 2)', {"a": {"c": 1, "b": 2}}),
        ("context merge({a: 1}, {a: 2})", {"a": 2}),
        ("context merge([])", {}),
        ("context([])", {}),
        ("get entries({})", []),
    ],
)
def test_any_value_and_contexts(text: str, expected: Any) -> None:
    assert evaluated(text, {"x": 4}) == (expected, [])


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ('substring("abc", 0)', "outside a string of 3 characters"),
        ('substring("abc", 4)', "outside"),
        ('substring("abc", 1, 0)', "at least 1"),
        ("substring(null, 1)", "'string' must be a string, found null"),
        ("upper case(1)", "'string' must be a string, found number"),
        ('contains("abc", ["a", "b"])', "'match' must be a string, found list"),
        ("is blank(null)", "found null"),
        ("to base64(1)", "found number"),
        ('string join(["a", 1])', "'list' must hold strings, found number at position 2"),
        ('string join(["a"], 1)', "'delimiter' must be a string"),
        (
            'string join(["a"], "b", "c")',
            "takes (list: list, delimiter?: string or null) or (list: list, delimiter: string or null, prefix: str",
        ),
        ('string join(["a"], "b", "c", null)', "'suffix' must be a string, found null"),
        ("string join(null)", "found null"),
        ('decimal(1.25, 1, "unnecessary")', "more than 1 decimal places"),
        ('decimal(1.25, 1, "sideways")', "must be one of floor, ceiling"),
        ("decimal(1, 9999)", "scale"),
        ("round up(5.5, null)", "'scale' must be a number, found null"),
        ("round up(scale: 0)", "needs the parameter 'n'; it takes (n: number, scale?: number)"),
        ('floor("1")', "found string"),
        ("abs(number: -5)", "has no parameter 'number'; it takes (n: number or duration)"),
        ("abs(true)", "'n' must be a number or duration, found boolean"),
        ("modulo(1, 0)", "'divisor' must not be 0"),
        ("sqrt(-1)", "'number' must not be negative, found -1"),
        ("log(0)", "positive"),
        ("exp(1e6)", "too large"),
        ("odd(1.5)", "whole number"),
        ('number("1,000", ":")', "grouping separator"),
        ('number("1,000.00", ",", ",")', "decimal separator"),
        ('number(123, ".", ",")', "'from' must be a string, found number"),
        ("number(null)", "found null"),
        ("number(true)", "found boolean"),
        ('not("a")', "'negand' must be a boolean, found string"),
        ("assert(x, x > 9)", "the condition is not met"),
        ('assert(x, null, "x is wrong")', "assert: x is wrong"),
        ("is(1, 2, 3)", "takes (value1: any, value2: any), found 3 arguments"),
        ("is(value1: 1, value3: 2)", "has no parameter 'value3'"),
        ("is empty(1)", "found number"),
        ("get value({a: 1}, 1)", "a key must be a string, found number"),
        ('get value({a: 1}, "b")', "there is no entry 'b'"),
        ("get value({a: 1}, [])", "'keys' must hold 1 to 64 keys, found 0"),
        ('get value(null, "a")', "found null"),
        ('context put({a: 1}, ["a", "b"], 2)', "not a context"),
        ("context put({}, [null], 2)", "a key must be a string, found null"),
        ("context put({}, null, 2)", "must be a string or a list, found null"),
        ('context put(context: {}, key: ["a", "b"], value: 2)', "'key' must be a string, found list"),
        ("context merge([1])", "'contexts' must hold contexts, found number"),
        ('context([{key: "a", value: 1}, {key: "a", value: 2}])', "different strings"),
        ("get entries(null)", "found null"),
        ("floor(null)", "floor: 'n' must be a number, found null"),
        ('abs("a")', "abs: "),
        ("abs()", "takes (n: number or duration), found none"),
        ("abs(1, 2)", "found 2 arguments"),
        ("abs(x: 1)", "has no parameter 'x'"),
        ("contains(1, 2)", "'string' must be a string, found number"),
        ("floor(1.5, 9999)", "scale"),
        ('number("1,5")', "'1,5' is not a number"),
        ('number("0x10")', "is not a number"),
        ('number("1", ";")', "grouping separator"),
        ('from json("{")', "not JSON"),
        ('from json("NaN")', "not JSON"),
        ("to json(function() 1)", "no JSON form"),
        ("floor(1.5, null)", "'scale' must be a number, found null"),
        ("not(1)", "must be a boolean"),
        ('date("2024-02-30")', "has no day 30"),
        ('duration("5 seconds")', "not a duration"),
    ],
)
def test_arguments_that_do_not_fit_give_null_with_a_warning(text: str, cause: str) -> None:
    value, warnings = evaluated(text, {"x": 4})
    assert value is None
    assert [cause in warning for warning in warnings] == [True], warnings


def test_a_string_that_grows_in_upper_case_stays_within_the_limit() -> None:
    context = EvaluationContext(limits=FeelLimits(max_string=10))
    assert compile_expression("upper case(text)").evaluate({"text": "ß" * 6}, context) is None
    assert "a string of more than 10 characters" in context.warnings[0].cause


def test_every_built_in_says_what_it_gives_and_where_it_comes_from() -> None:
    for name, builtin in builtins().items():
        assert builtin.name == name
        assert re.fullmatch(r"\S.{3,118}[^.\s]", builtin.about), name
        assert builtin.origin in ("standard", "Camunda")
        assert builtin.usage


def test_no_two_parameters_of_a_signature_have_one_name() -> None:
    for builtin in builtins().values():
        for signature in builtin.signatures:
            names = [parameter.name for parameter in signature]
            assert len({*names}) == len(names), (builtin.name, names)


@pytest.mark.parametrize(
    ("name", "usage"),
    [
        ("substring", ("substring(string: string, start position: number, length?: number or null)",)),
        ("uuid", ("uuid()",)),
        ("append", ("append(list: list, item: any...)",)),
        ("get value", ("get value(context: context, key: string)", "get value(context: context, keys: list)")),
        ("coincides", ("coincides(point1: point, point2: point)", "coincides(range1: range, range2: range)")),
    ],
)
def test_a_built_in_prints_how_it_is_called(name: str, usage: tuple[str, ...]) -> None:
    assert builtins()[name].usage == usage


def test_the_table_of_built_ins_cannot_be_changed_from_outside() -> None:
    with pytest.raises(TypeError):
        builtins()["mine"] = builtins()["abs"]  # type: ignore[index]
