"""DMN 1.5, chapters 10.3.1 and 10.3.2, rule by rule: what the standard says of an expression is what it gives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.feel import EvaluationContext, FeelFunction, FeelSyntaxError, compile_expression, kind_of, to_json

TABLES = Path(__file__).with_name("feel_standard.txt")


def rows() -> Iterator[Any]:
    """Every expression of the tables, with the one whose value it has to have."""
    rule = ""
    for number, line in enumerate(TABLES.read_text("utf-8").splitlines(), 1):
        if line.startswith("# "):
            rule = line[2:].partition(":")[0]
        elif rule and line:
            text, _, wanted = line.rpartition(" => ")
            yield pytest.param(text, wanted, id=f"{rule}, line {number}")


def given(text: str) -> tuple[str, Any]:
    """The kind of an expression's value, and the value as JSON."""
    value = compile_expression(text).evaluate({}, EvaluationContext())
    return kind_of(value), None if isinstance(value, FeelFunction) else to_json(value)


@pytest.mark.parametrize(("text", "wanted"), [*rows()])
def test_an_expression_gives_what_the_standard_says(text: str, wanted: str) -> None:
    if wanted == "SYNTAX":
        with pytest.raises(FeelSyntaxError):
            compile_expression(text)
    else:
        assert given(text) == given(wanted)
