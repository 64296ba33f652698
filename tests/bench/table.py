"""Owns how figures are shown: units, targets, the table on a terminal, beside older figures, and in Markdown.
Never measures.
Called by `python -m tests.bench`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple


class Target(NamedTuple):
    """What a figure has to reach. `at_least` False: it may not be above `value`."""

    value: float
    at_least: bool = True

    def holds(self, figure: float) -> bool:
        return figure >= self.value if self.at_least else figure <= self.value

    def __str__(self) -> str:
        return f"{'>=' if self.at_least else '<='} {_number(self.value)}"


TARGETS: Mapping[str, Target] = {
    "feel.compare_us": Target(1.5, at_least=False),
    "feel.compare_feelin_ratio": Target(1),
    "feel.path_feelin_ratio": Target(1),
    "feel.if_feelin_ratio": Target(1),
    "feel.arithmetic_feelin_ratio": Target(1),
    "feel.filter_feelin_ratio": Target(1),
    "feel.for_feelin_ratio": Target(1),
    "feel.builtin_feelin_ratio": Target(1),
    "feel.table_5_us": Target(15, at_least=False),
    "feel.table_100_us": Target(20, at_least=False),
    "feel.table_1000_us": Target(25, at_least=False),
    "feel.table_parse_ms": Target(15, at_least=False),
    "engine.lifecycle_per_s": Target(2500),
    "engine.chain300_ratio": Target(40),
    "gateway.triton.c16.rps": Target(600),
    "operational.work.c16.per_s": Target(250),
    "operational.work.c1.p50_ms": Target(5, at_least=False),
    "operational.message.correlated_per_s": Target(300),
}
# CPU time of one audited request in the gateway, microseconds: what each part was given beforehand.
BUDGET_US: Mapping[str, float] = {
    "http": 80,
    "grpc": 200,
    "engine": 300,
    "records": 60,
    "journal": 110,
    "asyncio": 40,
    "metrics": 10,
    "total": 800,
}
_PARTS = {
    "http": "uvicorn, the routes, JSON in and out",
    "grpc": "the channel, protobuf, tensors, gRPC's own threads",
    "engine": "core, SpiffWorkflow, FEEL",
    "records": "encoding rows and commands",
    "journal": "batches, COPY, commits, psycopg",
    "asyncio": "the event loop, tasks, timers",
    "metrics": "Prometheus counters and histograms",
    "runtime": "inboxes, jobs, the registry",
    "tasks": "admit, check_health, route, infer, settle",
    "total": "all CPU time of the gateway's process",
}


def terminal(figures: Mapping[str, float], older: Mapping[str, Any] | None) -> Iterator[str]:
    """One line per figure: name, value, target, and the change against `older` figures."""
    width = max(map(len, figures), default=0)
    for name, figure in figures.items():
        line = f"  {name:<{width}}  {_number(figure):>10}"
        if target := TARGETS.get(name):
            line += f"  {target} {'ok' if target.holds(figure) else 'MISSED'}"
        elif name.startswith("budget.") and (given := BUDGET_US.get(_part(name))):
            line += f"  of {_number(given)}"
        before = older.get(name) if older else None
        if isinstance(before, int | float) and before:
            line += f"  {100 * (figure / before - 1):+.0f} % against {_number(before)}"
        yield line


def markdown(figures: Mapping[str, float], conditions: Mapping[str, Any]) -> Iterator[str]:
    """The tables of docs/benchmarks.md."""
    yield "| condition | |"
    yield "|---|---|"
    yield from (f"| {name.replace('_', ' ')} | {value} |" for name, value in conditions.items())
    yield ""
    yield "| figure | measured | target |"
    yield "|---|---:|---:|"
    for name, figure in figures.items():
        if not name.startswith("budget."):
            yield f"| `{name}` | {_number(figure)} | {TARGETS.get(name, '')} |"
    yield ""
    yield "| part of a request's CPU time in the gateway | budget, µs | measured, µs |"
    yield "|---|---:|---:|"
    for name, figure in figures.items():
        if name.startswith("budget."):
            part = _part(name)
            given = BUDGET_US.get(part)
            yield f"| {part}: {_PARTS[part]} | {_number(given) if given else ''} | {figure:.0f} |"


def missed(figures: Mapping[str, float]) -> list[str]:
    """The figures that miss their target."""
    return [name for name, target in TARGETS.items() if name in figures and not target.holds(figures[name])]


def _part(name: str) -> str:
    return name.removeprefix("budget.").removesuffix("_us")


def _number(value: float) -> str:
    if value == int(value) or value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.3f}"
