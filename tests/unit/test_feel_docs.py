"""The page about FEEL names exactly the built-in functions and limits that exist.

`python -m tests.unit.test_feel_docs` prints the table of built-in functions as the page has to show it.
"""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from engine.feel import FeelLimits, builtins
from engine.feel.functions.registry import Builtin

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


if __name__ == "__main__":
    print(table())
