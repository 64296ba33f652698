"""Names of FEEL: several tokens, signs and keywords in them, longest match first, where each is known."""

from __future__ import annotations

from typing import Any

import pytest

from engine.feel import FeelSyntaxError, compile_expression


def value(text: str, scope: dict[str, Any] | None = None) -> Any:
    return compile_expression(text, names=tuple(scope or ())).evaluate(scope or {})


@pytest.mark.parametrize(
    "name",
    [
        "first name",
        "a+b",
        "a-b",
        "a*b/c",
        "Student's name",
        "Student’s name",
        "v1.2 of it",
        "Flight 234 pre-check procedure",
        "part 2nd 3",
        "time offset",
        "days and time duration",
        "date and time",
        "for each",
        "if any",
        "what if?",
        "Profit and loss",
        "größe der Stücke",
        "数量 合計",
        "x ** y",
        "get or else",
        "not yet",
        "in stock",
        "item",
        "price [net]",
        "a & b",
        "$total",
    ],
)
def test_a_known_name_is_one_variable(name: str) -> None:
    assert value(f"{name} + 1", {name: 41}) == 42
    assert value(f"[{name}, {name}][1]", {name: 41}) == 41
    assert compile_expression(f"({name})", names=(name,)).names == {name}
    assert value(f"`{name}`", {name: 41}) == 41


@pytest.mark.parametrize("key", ["a+b", "Student's name", "Flight 234 pre-check", "time offset", "for each", "a - b"])
def test_a_key_is_known_to_the_entries_behind_it_and_to_paths(key: str) -> None:
    assert value(f"{{{key}: 1, next: {key} + 1}}.next") == 2
    assert value(f"{{{key}: 1}}.{key}") == 1
    assert value(f'{{"{key}": 1}}.{key} + 1') == 2
    assert value(f'[{{"{key}": 1}}, {{"{key}": 2}}].{key}[2]') == 2


def test_white_space_only_separates_the_tokens_of_a_name() -> None:
    assert value("a - b", {"a-b": 7, "a": 1, "b": 1}) == 7
    assert value("(a)-(b)", {"a-b": 7, "a": 1, "b": 1}) == 0
    assert value("first\n\tname", {"first name": 7}) == 7
    assert value("first /* the one */ name", {"first name": 7}) == 7
    assert value("first\u00a0name", {"first name": 7}) == 7


def test_the_longest_known_name_wins() -> None:
    scope = {"a": 1, "b": 2, "a b": 10, "a b c": 100, "a b c - d": 1000, "d": 5}
    assert value("a b c - d", scope) == 1000
    assert value("a b c + d", scope) == 105
    assert value("a b + d", scope) == 15


def test_a_name_is_forgotten_with_the_part_of_the_text_that_declares_it() -> None:
    with pytest.raises(FeelSyntaxError):
        compile_expression("[for one item in [1] return one item, one item]")
    with pytest.raises(FeelSyntaxError):
        compile_expression("[(function(one item) one item)(1), one item]")
    assert value("[{a-b: 1, c: a-b}, a-b]", {"a": 5, "b": 3}) == [{"a-b": 1, "c": 1}, 2]


def test_loop_variables_and_parameters_may_contain_signs_and_keywords() -> None:
    assert value("for a-b in [1, 2] return a-b * 2") == [2, 4]
    assert value("some profit and loss in [1, 2] satisfies profit and loss > 1") is True
    assert value("(function(cost-centre, for each: number) cost-centre + for each)(1, 2)") == 3
    assert value("(function(first one) first one)(first one: 3)") == 3


def test_a_variable_shadows_a_built_in_of_its_name() -> None:
    assert value("{count: 5, r: count + 1}.r") == 6
    assert value("{string length: 5, r: string length + 1}.r") == 6
    assert value("{sum: function(a) 42, r: sum(1)}.r") == 42
    assert value('{string length: function(a) 42, r: string length("a")}.r') == 42
    assert value("count + count([1])", {"count": 5}) == 6


def test_a_property_may_be_a_keyword_or_several_words() -> None:
    assert value("order.for", {"order": {"for": 3}}) == 3
    assert value("order.line items 2nd part", {"order": {"line items 2nd part": 3}}) == 3
    assert value("order.line items instance of number", {"order": {"line items": 3}}) is True
    assert value("[1..10[.start included") is True
    assert value('time("10:00:00+01:00").time offset = @"PT1H"') is True
    assert value("{a: {b c: {in: 3}}}.a.b c.in") == 3
    assert value("order.`line items`", {"order": {"line items": 3}}) == 3


def test_entries_of_items_are_names_in_a_filter() -> None:
    assert value("[{first name: 1}, {first name: 2}][first name = 2]") == [{"first name": 2}]
    assert value("[{first name: 1}, {first name: 2}][item.first name = 2].first name") == [2]
    assert value("[{x: 1}, {x: 2}][x > y]", {"y": 1}) == [{"x": 2}]


def test_white_space_of_the_standard_separates_tokens() -> None:
    for space in "\t\n\v\f\r \u0085\u00a0\u1680\u180e\u2000\u200a\u200b\u2028\u2029\u202f\u205f\u3000\ufeff":
        assert value(f"{space}1{space}+{space}a{space}", {"a": 2}) == 3


def test_comments_stand_between_any_two_tokens() -> None:
    assert value("/*a*/1//b\n+/*c\nd*/2//e") == 3
    assert value("/* // */ 1") == 1
    assert value("// /* \r1") == 1
    assert value('"/* no comment */ // "') == "/* no comment */ // "


def test_a_name_of_the_caller_is_judged_in_time_proportional_to_the_text() -> None:
    names = tuple(f"name {index} of a-list" for index in range(2_000))
    expression = compile_expression("[" + ", ".join(names[:1_500]) + "]", names=names)
    assert len(expression.names) == 1_500
