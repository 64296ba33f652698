"""Owns the command of the benchmarks: which ones run, build/bench.json, and what is shown.
Never lets a figure go without the conditions that it was measured under.
Called by `make bench`: python -m tests.bench [--only PREFIX] [--quick] [--compare OLD.json] [--markdown]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.bench import (
    decision_bench,
    elements_bench,
    engine_bench,
    feel_bench,
    gateway_bench,
    machine,
    operational_bench,
    table,
)
from tests.bench.served import NotAudited

ROOT = Path(__file__).parents[2]
RESULT = ROOT / "build" / "bench.json"
GROUPS = ("feel", "engine", "elements", "journal", "gateway", "operational")


def main() -> int:
    options = _options()
    if options.markdown:
        print("\n".join(_stored_markdown()))
        return 0
    # Read before anything is measured: the result may replace this very file.
    older = json.loads(options.compare.read_text()) if options.compare else None
    conditions: dict[str, Any] = machine.describe()
    figures: dict[str, float] = {}
    try:
        for group in GROUPS:
            if group.startswith(options.only) or options.only.startswith(group):
                print(f"measuring {group} ...", file=sys.stderr, flush=True)
                figures |= _MEASURES[group](options.quick, conditions)
    except (machine.InMemory, NotAudited) as refused:
        print(refused, file=sys.stderr)
        return 1
    figures = {name: figure for name, figure in figures.items() if _wanted(name, options.only)}
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(figures | {f"conditions.{key}": value for key, value in conditions.items()}, indent=2))
    for name, value in conditions.items():
        print(f"  {name.replace('_', ' ')}: {value}")
    print("\n".join(["", *table.terminal(figures, older), "", f"written to {RESULT.relative_to(ROOT)}"]))
    return 0


def _feel(_: bool, __: dict[str, Any]) -> dict[str, float]:
    return feel_bench.measure() | decision_bench.measure()


def _engine(_: bool, __: dict[str, Any]) -> dict[str, float]:
    return engine_bench.measure()


def _elements(_: bool, __: dict[str, Any]) -> dict[str, float]:
    return elements_bench.measure()


def _journal(_: bool, __: dict[str, Any]) -> dict[str, float]:
    from tests.bench import journal_bench

    return journal_bench.measure()


def _gateway(quick: bool, conditions: dict[str, Any]) -> dict[str, float]:
    plan = gateway_bench.QUICK if quick else gateway_bench.FULL
    figures, storage = asyncio.run(gateway_bench.measure(plan))
    conditions |= storage | {"seconds_per_measurement": plan.seconds, "repetitions": plan.repetitions}
    return figures


def _operational(quick: bool, conditions: dict[str, Any]) -> dict[str, float]:
    plan = operational_bench.QUICK if quick else operational_bench.FULL
    figures, storage = asyncio.run(operational_bench.measure(plan))
    conditions |= storage | {"waiting_instances": plan.waiting}
    return figures


_MEASURES: dict[str, Callable[[bool, dict[str, Any]], dict[str, float]]] = {
    "feel": _feel,
    "engine": _engine,
    "elements": _elements,
    "journal": _journal,
    "gateway": _gateway,
    "operational": _operational,
}


def _wanted(name: str, prefix: str) -> bool:
    # The budget and the other processes' CPU time are measured along with the gateway.
    return name.startswith(prefix) or (
        prefix == "gateway" and not name.startswith(("feel.", "engine.", "elements.", "journal.", "operational."))
    )


def _stored_markdown() -> list[str]:
    stored = json.loads(RESULT.read_text())
    conditions = {k.removeprefix("conditions."): v for k, v in stored.items() if k.startswith("conditions.")}
    figures = {name: value for name, value in stored.items() if not name.startswith("conditions.")}
    return list(table.markdown(figures, conditions))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench", description="Measure speed; writes build/bench.json."
    )
    parser.add_argument(
        "--only",
        default="",
        metavar="PREFIX",
        help="feel, engine, elements, journal, gateway, operational, or a longer prefix of a key",
    )
    parser.add_argument("--quick", action="store_true", help="a second per measurement: shows that it runs, no more")
    parser.add_argument("--compare", type=Path, metavar="OLD.json", help="show the change against older figures")
    parser.add_argument("--markdown", action="store_true", help="print build/bench.json as Markdown; measures nothing")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
