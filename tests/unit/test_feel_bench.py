"""That the benchmark of FEEL counts no figure of another answer, and says what it leaves out."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from engine.feel import compile_expression, to_json
from tests.bench import other_feel
from tests.bench.feel_bench import CASES
from tests.bench.other_feel import Case, Missing


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_case_has_the_answer_that_all_have_to_give(case: Case) -> None:
    assert to_json(compile_expression(case.expression).evaluate(case.variables)) == case.expected


def test_a_figure_counts_only_with_the_right_answer() -> None:
    cases = [Case(name, "1 + 1", {}, 2) for name in ("right", "wrong", "none")]
    told = {
        "right": {"answers": [2], "call_us": 5.0},
        "wrong": {"answers": [3], "call_us": 1.0},
        "none": {"refused": "no such function"},
    }
    figures, left_out = other_feel._measured("other", {"call_us": "other_us"}, cases, lambda _: json.dumps(told))
    assert figures == {"feel.right_other_us": 5.0}
    assert left_out == ["other, 1 + 1: gives 3, not 2", "other, 1 + 1: no such function"]


def test_what_cannot_be_installed_is_left_out_with_its_reason() -> None:
    def run(_: str) -> str:
        raise Missing("no registry")

    assert other_feel._measured("other", {}, CASES, run) == ({}, ["other: no registry"])


def test_the_measure_of_pysfeel_imports_nothing_of_conch() -> None:
    script = other_feel.HERE / "pysfeel_measure.py"
    told = subprocess.run(
        [sys.executable, "-P", "-c", f"import runpy, sys; runpy.run_path({str(script)!r}); print(*sys.modules)"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    assert not [module for module in told if module.split(".")[0] in ("engine", "tasks", "tests")]
