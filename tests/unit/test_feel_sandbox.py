"""No variable of a caller and no text of an author makes FEEL raise, hang, or run code that is not its own."""

from __future__ import annotations

import operator
from collections import OrderedDict, UserDict, UserList
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cache
from typing import Any, NoReturn

import pytest

from engine.feel import Date, EvaluationContext, FeelSyntaxError, Range, compile_expression, kind_of, to_json


class Reached(BaseException):
    """Code of a value has run that should not."""


def _reach(*_: object, **__: object) -> NoReturn:
    raise Reached


HOSTILE = [
    "__eq__", "__ne__", "__lt__", "__gt__", "__hash__", "__bool__", "__str__", "__repr__", "__format__", "__add__",
    "__mul__", "__int__", "__float__", "__index__", "__getattr__", "__call__", "__contains__", "__abs__", "__neg__",
    "__trunc__", "__round__", "is_integer", "bit_length", "upper", "lower", "encode", "strip", "split",
]  # fmt: skip
EVILS: dict[str, type] = {
    base.__name__: type(f"Evil{base.__name__}", (base,), dict.fromkeys(HOSTILE, _reach)) for base in (int, float, str)
}
USES = [
    "x", "x = x", "x = 1", 'x = "a"', "x + 1", 'x + "a"', "x < 2", "string(x)", "to json(x)", "[x][item = 1]",
    "x in [1]",
    "upper case(x)", "abs(x)", "distinct values([x, 1])", "{a: x}.a", "if x then 1 else 2", "x[1]", "x.a",
    "count(x)",
    "sum([x])", "sort([x, 1])", "x instance of number", "x between 1 and 2", "get value(x, \"a\")",
    "for i in x return i",
    "contains(x, \"a\")", "[1..x]", "not(x)", "x ** 2", "date(x)", "split(x, \"a\")", "-x", "x and true",
]  # fmt: skip


compiled = cache(compile_expression)


def evaluated(text: str, **variables: Any) -> tuple[Any, list[str]]:
    context = EvaluationContext()
    value = compiled(text).evaluate(variables, context)
    kind_of(value)
    return value, [warning.cause for warning in context.warnings]


def _usable(text: str) -> bool:
    try:
        compile_expression(text)
    except FeelSyntaxError:
        return False
    return True


@pytest.mark.parametrize(
    "given", [EVILS["int"](1), EVILS["float"](1.5), EVILS["str"]("a")], ids=["int", "float", "str"]
)
def test_the_methods_of_a_subclass_never_run(given: Any) -> None:
    for text in USES:
        for value in (given, [given], {"a": given}, (given, [given]), [[given], [given]]):
            evaluated(text, x=value)


def test_the_plain_value_of_a_subclass_comes_in() -> None:
    plain = {"int": 7, "float": Decimal("1.5"), "str": "ab"}
    for name, raw in (("int", 7), ("float", 1.5), ("str", "ab")):
        value, _ = evaluated("x", x=EVILS[name](raw))
        assert value == plain[name]
        assert type(value) in (int, Decimal, str)


def test_the_keys_of_a_context_are_plain_texts() -> None:
    class Key(str):
        def __eq__(self, other: object) -> bool:
            return False

        __hash__ = str.__hash__

    value, _ = evaluated("x", x={Key("a"): 1})
    assert [type(key) for key in value] == [str]
    assert evaluated("x.a", x={Key("a"): 1})[0] == 1
    assert evaluated("x", x={1: 2})[1] == ["variable 'x': the keys of a context are strings"]


class Endless(Sequence[int]):
    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: Any) -> Any:
        return 1

    def __iter__(self) -> Iterator[int]:
        while True:
            yield 1


class EndlessKeys(Mapping[str, int]):
    def __len__(self) -> int:
        return 0

    def __getitem__(self, key: str) -> int:
        return 1

    def __iter__(self) -> Iterator[str]:
        number = 0
        while True:
            number += 1
            yield str(number)


class Failing(Sequence[int]):
    def __len__(self) -> int:
        raise OSError

    def __getitem__(self, index: Any) -> Any:
        raise OSError


class FailingKeys(UserDict[str, int]):
    def __getitem__(self, key: str) -> int:
        raise RuntimeError(key)


@pytest.mark.parametrize("given", [Endless(), EndlessKeys()], ids=["list", "context"])
def test_a_container_without_end_is_read_to_the_limit(given: Any) -> None:
    assert evaluated("x", x=given) == (None, ["a list of more than 100000 elements"])


@pytest.mark.parametrize("given", [Failing(), FailingKeys(a=1)], ids=["list", "context"])
def test_a_container_that_fails_is_no_value(given: Any) -> None:
    value, causes = evaluated("x", x=given)
    assert value is None
    assert causes == [f"variable 'x': a Python {type(given).__name__} that cannot be read"]


def test_what_lies_about_its_class_is_no_value() -> None:
    for claimed in (int, float, str, list, dict, Date, Range, Decimal, bool):
        liar = type("Liar", (), {"__class__": claimed})()
        assert evaluated("x", x=liar) == (None, ["variable 'x': a Python Liar is no FEEL value"])


def test_subclasses_of_temporal_values_are_no_values() -> None:
    class Someday(Date):
        pass

    assert evaluated("x.year", x=Someday(2024, 1, 1))[0] is None


def test_the_ends_of_a_range_are_values() -> None:
    assert evaluated("x", x=Range(object(), 5)) == (None, ["variable 'x': a Python object is no FEEL value"])  # type: ignore[arg-type]
    assert evaluated("1 in x", x=Range(0.5, 5)) == (True, [])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "given",
    [
        b"a",
        bytearray(b"a"), memoryview(b"a"), {1, 2}, object(), print, operator, type, 1j, float("nan"), float("inf"),
        Decimal("NaN"), Decimal("sNaN"), Decimal("-Infinity"), iter([1]), ..., NotImplemented, lambda: 1, range,
        10**20_000, Decimal("1E+7000"), Decimal("1E-7000"),
    ],
    ids=lambda given: type(given).__name__,
)  # fmt: skip
def test_what_is_no_value_is_null(given: Any) -> None:
    for text in USES:
        for value in (given, [given], {"a": given}):
            found, causes = evaluated(text, x=value)
            assert causes, text
            to_json(found)


def _cyclic_list() -> Any:
    cycle: list[Any] = [1]
    cycle.append(cycle)
    return cycle


def _cyclic_context() -> Any:
    cycle: dict[str, Any] = {"a": 1}
    cycle["b"] = {"c": [cycle]}
    return cycle


def _branching() -> Any:
    value: Any = [1]
    for _ in range(60):
        value = [value, value]
    return value


def _foreign_cycle() -> Any:
    cycle: UserList[Any] = UserList([0.5])
    cycle.append(cycle)
    return cycle


@pytest.mark.parametrize("make", [_cyclic_list, _cyclic_context, _branching, _foreign_cycle])
@pytest.mark.parametrize("text", ["x", "x = x", "string(x)", "to json(x)", "count(x)", "x[1]", "flatten(x)", "x in x"])
def test_a_cycle_is_refused(make: Callable[[], Any], text: str) -> None:
    value, causes = evaluated(text, x=make())
    assert value in (None, True, False, "null")  # of the null that stands in its place
    assert "deeper than 64 levels" in causes[0] or "evaluation steps" in causes[0]


def test_a_variable_is_read_once_and_stays_as_it_was() -> None:
    class Changing(UserList[int]):
        reads = 0

        def __iter__(self) -> Iterator[int]:
            Changing.reads += 1
            return iter([Changing.reads])

    assert evaluated("[x, x, x = x]", x=Changing())[0] == [[1], [1], True]
    assert evaluated("x", x=OrderedDict(b=1, a=2.5))[0] == {"b": 1, "a": Decimal("2.5")}


DIGITS = "9" * 5_000


@pytest.mark.parametrize(
    "text",
    [
        f"date({DIGITS}, 1, 1)", f'date("{DIGITS}-01-01")', f'duration("P{DIGITS}D")', f'duration("P{DIGITS}Y")',
        f'number("{DIGITS}")', f'from json("{DIGITS}")', f'from json("-{DIGITS}.5e10")', f"{DIGITS} + 1",
        f"[1][{DIGITS}]",
        f'time("10:00:00.{DIGITS}")', f'matches("a", "a{{{DIGITS}}}")', f'matches("a", "(a)\\\\{DIGITS}")',
        f'replace("a", "(a)", "${DIGITS}")', f"decimal(1, {DIGITS})", f"1e{DIGITS}", f"1e-{DIGITS}",
        f"date(9999, 1, 1) + duration(\"P{DIGITS}M\")", "string(1e6144)", "string(1e-6143)", "(10**34)**180",
        f"for i in 1..{DIGITS} return i", f"substring(\"a\", {DIGITS})", f"sublist([1], {DIGITS})",
        f"@\"P{'9' * 100}D\"",
        f"[1..{DIGITS}] = [1..2]", f'range("[1..{DIGITS}]")', f"modulo({DIGITS}, 7)", f"floor({DIGITS}.5)",
        f'date and time("2024-01-01T00:00:00", "{"A/" * 5_000}")', "time(10**33, 0, 0)", "@\"PT1S\" * 10**33",
        "years and months duration(@\"-999999999-01-01\", @\"999999999-12-31\")", f"round up(1.5, {DIGITS})",
    ],
    ids=range(33),
)  # fmt: skip
def test_huge_numbers_are_numbers_or_null(text: str) -> None:
    if not _usable(text):
        return
    value, causes = evaluated(text)
    assert value is not None or causes
    text_of_it, _ = evaluated("string(x)", x=value)
    assert text_of_it is None or len(text_of_it) <= 6_200


@pytest.mark.parametrize(
    "name",
    [
        "../../../etc/passwd", "/etc/passwd", "..", ".", "", "Europe/../Europe/Berlin", "localtime", "posixrules",
        "right/UTC",
        "Europe", "europe/berlin", "UTC\0", "C:\\Windows", "__import__", "Factory", "tzdata.zi", "Europe/Berlin/",
    ],
)  # fmt: skip
def test_a_zone_is_a_name_of_the_tz_database_and_no_path(name: str) -> None:
    for text in (
        'date and time(date and time("2024-01-01T00:00:00Z"), x)',
        'time("10:00:00@" + x)',
        'date and time("2024-01-01T10:00:00@" + x)',
        'date and time("2024-01-01T10:00:00+01:00[" + x + "]")',
    ):
        assert evaluated(text, x=name)[0] is None


@pytest.mark.parametrize(
    "text",
    [
        "x.__class__", "x.__class__.__mro__", "x.__init__.__globals__", 'get value(x, "__class__")', "x.format",
        "x.keys",
        "x.items", "x.as_tuple", "x.real", "x.bit_length", "x._value", "string.format", "x.__dict__",
        "count.__self__",
        "(function(a) a).__globals__", "(function(a) a).frame", "(function(a) a).scope", "(function(a) a).body",
        "[1..2].__class__", "__builtins__", "__import__", "self", "env", "env.scope", "context", "scope",
        'x["__class__"]', "x[__class__]", '"{0.__class__}".format', "@\"2024-01-01\".plus_months",
        "today.__class__",
    ],
)  # fmt: skip
def test_no_name_leads_to_python(text: str) -> None:
    for given in ({}, {"a": 1}, "text", 1, Decimal("1.5"), [1], Date(2024, 1, 1)):
        value, _ = evaluated(text, x=given)
        assert value in (None, [None], [])


def test_texts_are_never_format_strings() -> None:
    odd = "%s %n {0.__class__} {x!r} $x \\x41"
    assert evaluated("x + x", x=odd)[0] == odd * 2
    assert evaluated('replace("a", "a", x, "q")', x=odd)[0] == odd
    value, causes = evaluated("assert(1, false, x)", x=odd)
    assert (value, causes) == (None, [f"assert: {odd}"])
    assert evaluated("get value({}, x)", x=odd)[0] is None


def test_names_are_compared_as_they_are_written() -> None:
    composed, decomposed = "\u00e9", "e\u0301"
    assert evaluated("x", **{composed: 1})[0] is None
    assert compile_expression(composed).evaluate({decomposed: 1}) is None
    assert compile_expression("\uff41").evaluate({"a": 1}) is None  # a wide letter is another letter
    assert compile_expression("{ﬁ: 1}.fi").evaluate({}) is None
