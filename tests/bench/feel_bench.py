"""Owns the speed of FEEL: compiling, and evaluating compiled expressions, beside feelin and pySFEEL in the same run.
Never asserts a duration; it checks that every implementation gives the answer before its figure counts.
Called by `make bench`, or by hand: python -m tests.bench.feel_bench
"""

from __future__ import annotations

import sys

from engine.feel import compile_expression, to_json
from tests.bench import other_feel
from tests.bench.engine_bench import seconds_per_call
from tests.bench.other_feel import Case

BATCH = 500
LOADS = [12, 87, 45, 60, 33]
CASES = (
    Case("compare", "requests < limit", {"requests": 17, "limit": 64}, True),
    Case("path", "request.model.name", {"request": {"model": {"name": "chat"}}}, "chat"),
    Case("if", 'if tokens > 1000 then "long" else "short"', {"tokens": 512}, "short"),
    Case("arithmetic", "tokens * 1.5 + 20", {"tokens": 512}, 788),
    Case("filter", "loads[item < 50]", {"loads": LOADS}, [12, 45, 33]),
    Case("for", "for load in loads return load * 2", {"loads": LOADS}, [24, 174, 90, 120, 66]),
    Case("builtin", "upper case(model)", {"model": "chat"}, "CHAT"),
)


def evaluation_us(case: Case) -> float:
    """Microseconds of one evaluation of the compiled expression."""
    expression, variables = compile_expression(case.expression), case.variables
    answer = to_json(expression.evaluate(variables))
    if answer != case.expected:
        raise AssertionError(f"{case.expression} gives {answer!r}, not {case.expected!r}")

    def evaluate() -> None:
        for _ in range(BATCH):
            expression.evaluate(variables)

    return seconds_per_call(evaluate) / BATCH * 1e6


def compile_us() -> float:
    """Microseconds to compile one expression, over all cases."""

    def compile_all() -> None:
        for case in CASES:
            compile_expression(case.expression)

    return seconds_per_call(compile_all) / len(CASES) * 1e6


def measure() -> dict[str, float]:
    """Flat keys of build/bench.json, microseconds; a ratio says how many times faster than feelin, like for like."""
    figures: dict[str, float] = {"feel.compile_us": compile_us()}
    others, left_out = other_feel.feelin(CASES)
    slower, refused = other_feel.pysfeel(CASES)
    others |= slower
    for case in CASES:
        ours = evaluation_us(case)
        figures[f"feel.{case.name}_us"] = ours
        figures |= {name: figure for name, figure in others.items() if name.startswith(f"feel.{case.name}_")}
        if theirs := others.get(f"feel.{case.name}_feelin_taking_us"):
            figures[f"feel.{case.name}_feelin_ratio"] = theirs / ours
    for reason in (*left_out, *refused):
        print(f"left out: {reason}", file=sys.stderr)
    return figures


def main() -> None:
    for name, value in measure().items():
        print(f"{name:<32} {value:>12.2f}")


if __name__ == "__main__":
    main()
