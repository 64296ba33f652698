"""The page about decisions names exactly the hit policies and the rules that exist."""

from __future__ import annotations

import re
from pathlib import Path

from engine.dmn.hit_policy import AGGREGATORS, POLICIES
from tests.unit.test_dmn_refusals import ERRORS, WARNINGS

PAGE = (Path(__file__).parents[2] / "docs" / "dmn.md").read_text(encoding="utf-8")
# Tested for what they say, one by one.
ELSEWHERE = {
    "cyclic-requirement",
    "cyclic-import",
    "wrong-import",
    "ambiguous-import",
    "imports-too-deep",
    "too-many-imports",
    "not-dmn",
    "not-xml",
    "doctype-forbidden",
    "file-too-large",
    "file-too-complex",
    "input-variable",
    "invocation",
}


def test_the_page_tells_every_hit_policy_and_aggregator() -> None:
    rows = PAGE.split("| hit policy |")[1].split("\n\n")[0]
    assert set(re.findall(r"`([A-Z ]+)`", rows)) == {*POLICIES, *AGGREGATORS}


def test_the_page_tells_every_rule_and_no_other() -> None:
    told = set(re.findall(r"`([a-z-]+)`", "".join(re.findall(r"^\| (`.*?) \| (?:error|warning)", PAGE, re.MULTILINE))))
    assert told == {*ERRORS, *WARNINGS, *ELSEWHERE}
