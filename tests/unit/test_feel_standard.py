"""DMN 1.5, chapters 10.3.1 and 10.3.2, rule by rule: what the standard says of an expression is what it gives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.feel import EvaluationContext, FeelFunction, FeelSyntaxError, compile_expression, kind_of, to_json

TABLES = Path(__file__).with_name("feel_standard.txt")


def sections() -> Iterator[Any]:
    """Of each section of the tables: its expressions, with the one whose value each has to have, and their lines."""
    rows: list[tuple[int, str, str]] = []
    for number, line in enumerate(TABLES.read_text("utf-8").splitlines(), 1):
        if line.startswith("# "):
            rows = []
            yield pytest.param(rows, id=line[2:].partition(":")[0])
        elif line and number > 2:
            text, _, wanted = line.rpartition(" => ")
            rows.append((number, text, wanted))


def given(text: str) -> tuple[str, Any]:
    """The kind of an expression's value, and the value as JSON."""
    value = compile_expression(text).evaluate({}, EvaluationContext())
    return kind_of(value), None if isinstance(value, FeelFunction) else to_json(value)


def told(text: str, wanted: str) -> str:
    """What is wrong with the value of an expression; nothing when it is as it has to be."""
    try:
        found = given(text)
    except FeelSyntaxError as error:
        return "" if wanted == "SYNTAX" else f"is refused: {error}"
    if wanted == "SYNTAX":
        return f"is not refused, but gives {found}"
    return "" if found == given(wanted) else f"gives {found}, not {given(wanted)}"


@pytest.mark.parametrize("rows", [*sections()])
def test_an_expression_gives_what_the_standard_says(rows: list[tuple[int, str, str]]) -> None:
    assert rows
    wrong = [(number, text, why) for number, text, wanted in rows if (why := told(text, wanted))]
    assert not wrong, "\n".join(f"line {number}: {text} {why}" for number, text, why in wrong)
