"""`conch feel`: what a designer sees of one expression, and of the built-in functions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from engine.cli.feel import command
from engine.feel import builtins


def feel(*arguments: str, typed: str | bytes | None = None) -> Result:
    return CliRunner().invoke(command, arguments, input=typed)


def told(*arguments: str) -> dict[str, Any]:
    done = feel(*arguments, "--json")
    assert done.exit_code == 0, done.output
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_the_result_its_type_and_what_was_read_are_told() -> None:
    done = feel("x + y", "--vars", '{"x": 1, "y": 2}')
    assert done.exit_code == 0
    assert done.stdout.splitlines()[0] == "3"
    assert "type   number" in done.stdout
    assert "reads  x, y" in done.stdout


@pytest.mark.parametrize(
    ("expression", "shown"),
    [
        ('"a" + "b"', '"ab"'),
        ("null", "null"),
        ('[1, "a", {b: null}]', '[1, "a", {b:null}]'),
        ('@"P1DT2H"', "P1DT2H"),
        ("[1..5)", "[1..5)"),
        ("function(x) x", "function"),
        ("= 1 + 1", "2"),
    ],
)
def test_a_value_is_shown_as_feel_writes_it(expression: str, shown: str) -> None:
    assert feel(expression).stdout.splitlines()[0] == shown


def test_variables_may_be_json_feel_or_a_file(tmp_path: Path) -> None:
    file = tmp_path / "variables.json"
    file.write_text('{"first name": "Ada \\/ \\u0041"}', encoding="utf-8")
    assert told("first name", "--vars", f"@{file}")["result"] == "Ada / A"
    assert told("at.year", "--vars", '{at: @"2026-01-31"}')["result"] == 2026


def test_an_expression_may_come_from_standard_input() -> None:
    assert feel("-", typed="1 +\n1\n").stdout.splitlines()[0] == "2"


def test_an_expression_may_begin_with_a_minus() -> None:
    assert told("-1")["result"] == -1
    assert told("-x", "--vars", '{"x": 2}')["result"] == -2
    assert told("--vars", '{"hours": 2}', "-hours")["result"] == -2
    assert told("-5", "--unary", "--input", "-5")["result"] is True
    assert feel("--vras", "{}", "1").exit_code == 2
    assert feel("--help").stdout.startswith("Usage:")


def test_what_is_typed_has_to_be_utf_8() -> None:
    assert feel("-", typed=b"\xef\xbb\xbf1 + 1\r\n").stdout.splitlines()[0] == "2"
    done = feel("-", typed=b"\xff")
    assert done.exit_code == 2
    assert "standard input is not UTF-8" in done.stderr


def test_json_holds_exact_numbers_and_the_value_as_feel_writes_it() -> None:
    document = json.loads(feel("{b: 0.10, a: 2**100}", "--json").stdout, parse_float=str)
    assert document["result"] == {"b": "0.1", "a": 2**100}
    assert document["feel"] == "{b:0.1, a:1267650600228229401496703205376}"
    assert told("{f: function(x) x, n: 1}")["feel"] == "{f:function, n:1}"


def test_unary_tests_are_applied_to_the_input() -> None:
    assert told("[1..5], > 7", "--unary", "--input", "8")["result"] is True
    assert told('< @"2026-01-01"', "--unary", "--input", '@"2025-12-31"')["result"] is True
    assert told("? > 1", "--unary", "--vars", '{"?": 2}')["result"] is True


def test_the_clock_can_be_set() -> None:
    assert told("now().month", "--now", "2026-01-31T10:00:00+02:00")["result"] == 1


def test_each_warning_names_its_place_and_points_at_it() -> None:
    done = feel('1 +\n upper case(2) + "a"')
    assert done.exit_code == 0
    assert done.stdout.startswith("null\n")
    assert "line 2, column 12: upper case: 'string' must be a string, found number" in done.stdout
    assert "\n     upper case(2)" in done.stdout
    (first, *_) = told('upper case(2) + "a"')["warnings"]
    assert first == {"line": 1, "column": 11, "cause": "upper case: 'string' must be a string, found number"}


def test_what_is_no_feel_is_told_with_its_place() -> None:
    done = feel("a && b")
    assert done.exit_code == 1
    assert not done.stdout
    assert "line 1, column 3" in done.stderr
    assert "\n    ^" in done.stderr
    error = json.loads(feel("a && b", "--json").stdout)["error"]
    assert (error["line"], error["column"], error["hint"]) == (1, 3, "write 'and'")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "name an expression"),
        (("5", "--unary"), "--input VALUE"),
        (("5", "--input", "5"), "add --unary"),
        (("5", "--vars", "[1]"), "not a list"),
        (("5", "--vars", "{x: "), "neither JSON"),
        (("5", "--vars", "{x: 1 / 0}"), "division by zero"),
        (("5", "--vars", "@no-such-file.json"), "cannot be read"),
        (("5", "--now", "yesterday"), "not a date and time with a zone"),
        (("5", "--now", "2026-01-31T10:00:00"), "not a date and time with a zone"),
    ],
)
def test_a_command_that_says_too_little_is_told_what_is_missing(arguments: tuple[str, ...], words: str) -> None:
    done = feel(*arguments)
    assert done.exit_code == 2
    assert words in done.stderr


def test_the_limits_are_those_of_the_settings(tmp_path: Path) -> None:
    settings = tmp_path / "conch.toml"
    settings.write_text("[feel]\nmax_list = 10\n", encoding="utf-8")
    document = told("for i in 1..x return i", "--vars", '{"x": 11}', "--config", str(settings))
    assert document["result"] is None
    assert document["warnings"][0]["cause"] == "a list of more than 10 elements"


def test_every_built_in_function_is_listed_with_what_it_does() -> None:
    listed = json.loads(feel("--functions", "--json").stdout)
    assert {each["name"] for each in listed} == set(builtins())
    assert not [each["name"] for each in listed if not each["usage"] or not each["about"]]


def test_built_in_functions_are_found_by_a_part_of_their_name() -> None:
    assert "string join(" in feel("--functions", "join").stdout
    assert feel("--functions", "no such function").exit_code == 1
