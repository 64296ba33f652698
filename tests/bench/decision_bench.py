"""Owns the speed of decision tables: evaluating small and large ones, and reading a file with one.
Never asserts a duration; it checks that every table gives what its rules say.
Called by `make bench`, or by hand: python -m tests.bench.decision_bench
"""

from __future__ import annotations

from engine.dmn import Decision, parse_decisions
from engine.feel import EvaluationContext
from tests.bench.engine_bench import seconds_per_call
from tests.dmn_builders import decision, definitions, only, table

INPUTS = [("tokens", "number"), ("tier", "string"), ("stream", "boolean")]
OUTPUTS = [("limit", "number"), ("queue", "string")]
WIDTH = 10  # tokens between the bounds of one rule
BATCH = 200


def rules_table(count: int) -> Decision:
    """A UNIQUE table: rule i takes the i-th interval of tokens, one of seven tiers, and streams when i is odd."""
    rows = [
        [f"[{i * WIDTH}..{(i + 1) * WIDTH})", f'"tier {i % 7}"', str(i % 2 == 1).lower(), str(i), f'"queue {i}"']
        for i in range(count)
    ]
    return only(table(INPUTS, OUTPUTS, rows))


def evaluation_us(count: int) -> float:
    """Microseconds of one evaluation whose inputs the second last rule takes."""
    subject, wanted = rules_table(count), count - 2
    variables = {"tokens": wanted * WIDTH + 3, "tier": f"tier {wanted % 7}", "stream": wanted % 2 == 1}

    def evaluate() -> None:
        for _ in range(BATCH):
            subject.evaluate(variables, EvaluationContext())

    result = subject.evaluate(variables, EvaluationContext())
    if result.value != {"limit": wanted, "queue": f"queue {wanted}"}:
        raise AssertionError(f"{count} rules: {result}")
    return seconds_per_call(evaluate) / BATCH * 1e6


def parse_ms(rows: int = 50, columns: int = 5) -> float:
    """Milliseconds to read a file with one table of so many rules and input columns, all cells different."""
    cells = [[f"[{row * 100 + column}..{row * 100 + 50})" for column in range(columns)] for row in range(rows)]
    for row, rule in enumerate(cells):
        rule[0], rule[1] = f'"tier {row}"', f"< {row}"
        rule.append(f'"queue {row}"')
    logic = table([f"input_{column}" for column in range(columns)], ["queue"], cells)
    xml = definitions(decision("Answer", logic))

    def read() -> None:
        parse_decisions(xml, "bench.dmn")

    return seconds_per_call(read) * 1e3


def measure() -> dict[str, float]:
    figures = {f"feel.table_{count}_us": evaluation_us(count) for count in (5, 100, 1000)}
    return figures | {"feel.table_parse_ms": parse_ms()}


if __name__ == "__main__":
    for name, figure in measure().items():
        print(f"{name:24} {figure:10.2f}")
