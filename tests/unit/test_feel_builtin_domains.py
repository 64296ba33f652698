"""What the built-in functions of DMN 1.5, 10.3.4 take: kinds, implicit conversions, names of parameters, null."""

from __future__ import annotations

from typing import Any

import pytest

from engine.feel import EvaluationContext, builtins, compile_expression
from engine.feel.border import text_of
from engine.feel.environment import Env


def evaluated(text: str) -> tuple[Any, list[str]]:
    context = EvaluationContext()
    value = compile_expression(text).evaluate({}, context)
    causes = [warning.cause for warning in context.warnings]
    return (value if isinstance(value, str | bool) or value is None else text_of(Env({}, None, text), value)), causes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('date(["2012-12-25"])', "2012-12-25"),
        ('date([date and time("2012-12-25T11:00:00Z")])', "2012-12-25"),
        ("date([2012], [12], [25])", "2012-12-25"),
        ('date and time([date("2012-12-24")], [time("10:00:00")])', "2012-12-24T10:00:00"),
        ('time([10], [30], [15], [duration("PT1H")])', "10:30:15+01:00"),
        ('duration(["P1D"])', "P1D"),
        ('years and months duration([date("2010-08-11")], [date("2012-08-11")])', "P2Y"),
        ("week of year([date(2005, 1, 9)])", "1"),
        ('number(["1 0,5"], [" "], [","])', "10.5"),
        ("not([true])", False),
        ('string join(["a", "b"], ["-"])', "a-b"),
        ('matches("a", "A", ["i"])', True),
        ("sum([1], [2])", "3"),
        ("max([1], 2)", "2"),
        ("all([true], [false])", False),
        ("stddev([1], [3])", "1.414213562373095048801688724209698"),
        ("context merge([{a: 1}], [{b: 2}])", "{a:1, b:2}"),
        ('string(["a"])', '["a"]'),
        ("is([1], 1)", False),
    ],
)
def test_one_element_goes_for_its_list_where_one_value_is_wanted(text: str, expected: Any) -> None:
    assert evaluated(text) == (expected, [])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('substring("foobar", 3, null)', "obar"),
        ("sublist([4, 5, 6], 2, null)", "[5, 6]"),
        ("sort([2, 1], null)", "[1, 2]"),
        ("time(10, 30, 15, null)", "10:30:15"),
        ('number("1000,5", null, ",")', "1000.5"),
        ('number("1,000", ",", null)', "1000"),
        ('replace("a", "A", "b", null)', "a"),
        ("list contains([null], null)", True),
        ("index of([1, null], null)", "[2]"),
        ("append([1], null)", "[1, null]"),
        ("insert before([1], 1, null)", "[null, 1]"),
        ('context put({}, "a", null)', "{a:null}"),
        ("all([null, false])", False),
        ("all([true, null])", None),
        ("any([null, true])", True),
    ],
)
def test_where_null_fits_it_is_no_fault(text: str, expected: Any) -> None:
    assert evaluated(text) == (expected, [])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sum(n1: 1, n2: 2)", "3"),
        ("min(c2: 2, c1: 3)", "2"),
        ("any(b1: false, b2: true)", True),
        ("stddev(n1: 1, n2: 3)", "1.414213562373095048801688724209698"),
        ("mean(list: [1, 3])", "2"),
        ('number(from: "1000,5", decimal separator: ",")', "1000.5"),
        ("is(value1: null)", True),
        ("list contains(list: [null])", True),
        ("insert before(list: [1], position: 1)", "[null, 1]"),
        ("time(second: 15, minute: 30, hour: 10)", "10:30:15"),
        ('get value(m: {a: 1}, key: "a")', "1"),
        ("before(range: [1..2], point: 3)", True),
        ("before(point: 3, range: [1..2])", False),
    ],
)
def test_by_name_what_is_left_out_is_null(text: str, expected: Any) -> None:
    assert evaluated(text) == (expected, [])


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("is(1)", "is: takes (value1: any, value2: any), found 1 argument"),
        ("now(1)", "now: takes no arguments, found 1 argument"),
        ("sum()", "sum: takes (list: list...), found none"),
        ("sum(n1: 1, n3: 2)", "sum: has no parameter 'n1'; it takes (list: list...)"),
        ('substring(string: "a", length: 1)', "substring: needs the parameter 'start position'; it takes (string: str"),
        ('upper case(string: "a", string: "b")', "upper case: has a parameter that is given twice"),
        ("before(point: 3, point2: 4)", "before: takes (point1: point, point2: point) or (point: point, range: range)"),
        ("date(null)", "date: 'from' must be a string, date or date and time, found null"),
        ('date("2012", 12, 25)', "date: 'year' must be a number, found string"),
        ("date(2012, 12, 25.5)", "date: 'day' must be a whole number, found 25.5"),
        ('date and time(date("2012-12-24"), null)', "'time or timezone' must be a time or a string, found null"),
        ("date and time(1, null)", "'date' must be a date or date and time, found number"),
        ("time(24, 0, 0)", "time: 'hour' must be at least 0 and less than 24, found 24"),
        ("time(0, 0, 60)", "time: 'second' must be at least 0 and less than 60, found 60"),
        ('time(10, 30, 15, "PT1H")', "time: 'offset' must be a days and time duration, found string"),
        (
            'time(10, 30, 15, duration("PT15H"))',
            "'offset' must be of whole seconds between -PT14H and PT14H, found PT15",
        ),
        ('number("1", ";")', "'grouping separator' must be a space, a comma, a full stop or null, found ';'"),
        ('number("1", ",", ",")', "'decimal separator' must be a comma, a full stop or null, and not the grouping"),
        ('week of year("2019-09-17")', "week of year: 'date' must be a date or date and time, found string"),
        ('years and months duration(date("2010-08-11"), 1)', "'to' must be a date or date and time, found number"),
        ("before(1, null)", "before: argument 2 must be a point or a range, found null"),
        ('substring("a", 2)', "substring: 'start position' 2 is outside a string of 1 character"),
        ("sublist([1, 2], -3)", "sublist: 'start position' -3 is outside a list of 2 elements"),
        ("remove([1], 0)", "remove: 'position' 0 is outside a list of 1 element"),
        ('substring("abc", 2, 0)', "substring: 'length' must be at least 1, found 0"),
        ('string join(["a", 1])', "string join: 'list' must hold strings, found number at position 2"),
        ('sum(duration("P1D"), 1)', "must each be a days and time duration like the first, found number at position 2"),
        ('max(1, "a")', "max: 'list' must hold values of one kind with an order: cannot compare string with number"),
        ("min([true])", "min: 'list' must hold values of one kind with an order: a boolean has no order"),
        ('all([true, "x"])', "all: 'list' must hold booleans, found string"),
        ("any(0)", "any: 'list' must hold booleans, found number"),
        ("context([1])", "context: 'entries' must hold contexts with 'key' and 'value', found number"),
        ('context([{key: "a"}])', "'entries' must hold contexts with 'key' and 'value', found one without 'value'"),
        ("context([{key: 1, value: 1}])", "context: a key must be a string, found number"),
        ("modulo(1, 0)", "modulo: 'divisor' must not be 0"),
        ("log(0.0)", "log: 'number' must be positive, found 0"),
        ("odd(5.5)", "odd: 'number' must be a whole number, found 5.5"),
        ('range("[5..1]")', "range: it ends before it starts"),
        ('range("[\\"b\\"..\\"a\\"]")', "range: it ends before it starts"),
        ('range("[date(2024, 1, 2)..@\\"2024-01-01\\"]")', "range: it ends before it starts"),
        ("sort([2, 1], function(a, b) null)", "sort: 'precedes' must give true or false, found null"),
    ],
)
def test_a_refusal_names_the_function_the_parameter_what_it_takes_and_what_it_got(text: str, cause: str) -> None:
    value, (warning,) = evaluated(text)
    assert value is None
    assert cause in warning


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("modulo(1e100, 3)", "1"),
        ("modulo(-1e100, 3)", "2"),
        ("modulo(1, 1e-100)", "0"),
        ("modulo(-10.1, 4.5)", "3.4"),
        ("modulo(9.999e6144, 7e-6143) = 6e-6143", True),
        ("even(1e40)", True),
        ("odd(1e40)", False),
        ("odd(-5)", True),
    ],
)
def test_remainders_are_exact_whatever_the_size(text: str, expected: Any) -> None:
    assert evaluated(text) == (expected, [])


def test_every_parameter_can_be_given_by_its_name() -> None:
    for builtin in builtins().values():
        for signature in builtin.declared:
            if not signature:
                continue
            arguments = ", ".join(f"{parameter.name}: x" for parameter in signature)
            text = f"{builtin.name}({arguments})"
            assert compile_expression(text).remarks == (), text
