"""The page about FEEL names exactly the built-in functions and limits that exist."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from engine.feel import FeelLimits
from engine.feel.functions import BUILTINS

PAGE = (Path(__file__).parents[2] / "docs" / "feel.md").read_text(encoding="utf-8")


def test_the_page_lists_the_built_in_functions_that_exist() -> None:
    table = PAGE.split("## Built-in functions")[1].split("## Limits")[0]
    assert set(re.findall(r"`([A-Za-z0-9 ]+)`", table)) == set(BUILTINS)


def test_the_page_states_the_default_limits() -> None:
    stated = {name: int(value.replace(",", "")) for name, value in re.findall(r"\| `(max_\w+)` \| ([\d,]+) \|", PAGE)}
    assert stated == {field.name: field.default for field in fields(FeelLimits)}
