"""The page about FEEL names exactly the built-in functions and limits that exist.

`python -m tests.unit.test_feel_docs` prints the table of built-in functions as the page has to show it.
"""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from engine.feel import EvaluationContext, FeelLimits, builtins, compile_expression, compile_unary_tests
from engine.feel.functions.registry import Builtin
from tests.unit.test_dmn_tck import FLOORS

PAGE = (Path(__file__).parents[2] / "docs" / "feel.md").read_text(encoding="utf-8")
KINDS = {
    "logic": "Logic and presence",
    "contexts": "Contexts",
    "conversion": "Conversion",
    "strings": "Strings",
    "patterns": "Regular expressions",
    "lists": "Lists",
    "aggregates": "Aggregates of lists",
    "numeric": "Numbers",
    "ranges": "Ranges",
    "temporal": "Dates, times and durations",
    "outside": "From the caller",
}


def _row(function: Builtin) -> str:
    usage = "<br>".join(f"`{each}`" for each in function.usage)
    return f"| {usage} | {function.about} | {function.origin} |"


def table() -> str:
    """The built-in functions by kind, as Markdown."""
    kinds: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for _, function in sorted(builtins().items()):
        kinds[function.implementation.__module__.rpartition(".")[2]].append(_row(function))
    head = "| function | what it gives | from |\n|---|---|---|\n"
    return "\n".join(f"### {KINDS[kind]}\n\n{head}" + "\n".join(rows) + "\n" for kind, rows in kinds.items())


def test_the_page_lists_the_built_in_functions_that_exist() -> None:
    assert table() in PAGE


def test_the_page_states_the_default_limits() -> None:
    stated = {name: int(value.replace(",", "")) for name, value in re.findall(r"\| `(max_\w+)` \| ([\d,]+) \|", PAGE)}
    assert stated == {field.name: field.default for field in fields(FeelLimits)}


def _syntax() -> list[tuple[str, str]]:
    rows = PAGE.split("| form | example | gives |")[1].split("\n\n")[0].split("\n")[2:]
    cells = [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]
    return [
        (cell[1].strip("`").strip() if cell[1][:2] != "``" else cell[1][2:-2].strip(), cell[2].strip("`"))
        for cell in cells
    ]


@pytest.mark.parametrize(("example", "gives"), [each for each in _syntax() if each[1]])
def test_an_example_of_the_page_gives_what_it_says(example: str, gives: str) -> None:
    context = EvaluationContext()
    compiled = compile_expression(f"string([{example}\n])")
    assert compiled.evaluate({}, context) == f"[{gives}]"
    assert not compiled.remarks
    assert not context.warnings


def test_the_unary_test_of_the_page_is_one() -> None:
    (tests,) = (example for example, gives in _syntax() if not gives)
    cell = compile_unary_tests(tests)
    assert [cell.evaluate({"limit": 5}, None, each) for each in (2, 5, 6, 8)] == [True, True, False, True]


def test_the_page_states_the_conformance_that_is_held() -> None:
    told = " ".join(PAGE.split("## Conformance")[1].split())
    for level, floor in FLOORS.items():
        assert (
            f"{floor.total:,} {'tests ' if level == '2' else ''}of level {level}, of which {floor.passed:,} pass"
            in told
        )


if __name__ == "__main__":
    print(table())
