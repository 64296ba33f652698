"""Owns the demonstration's report: for a person on a terminal, and as one JSON object for a machine.
Never computes a figure; everything was read from the audit.
Called by the command `conch demo`.
"""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

import click

from engine.demo.play import Play

_MAX_WIDTH = 120


def as_document(play: Play) -> dict[str, Any]:
    """The report for a machine. Times are milliseconds, money is a decimal string in US dollars."""
    evidence = play.evidence
    return {
        **evidence.totals._asdict(),
        "cost_usd": str(evidence.totals.cost_usd),
        "failures": evidence.failures,
        "steps": {
            step.step: {"count": step.passed, "p50_ms": step.p50_ms, "p99_ms": step.p99_ms} for step in evidence.steps
        },
        "replicas": {
            each.replica: {"attempts": each.attempts, "ok": each.ok, "share_percent": float(each.share_percent)}
            for each in evidence.replicas
        },
        "retried_request": {
            "process_instance_key": str(evidence.retried_key) if evidence.retried_key else None,
            "attempts": [row._asdict() for row in evidence.retried_attempts],
            "story": evidence.story,
        },
        "seed": play.seed,
        "traffic_s": play.traffic_s,
        "outage_s": play.outage_s,
        "checks": [check._asdict() for check in play.checks],
        "holds": play.holds,
    }


def as_text(play: Play) -> str:
    """The report for a person; styled, the caller decides whether the terminal can show it."""
    return "\n".join(_lines(play))


def _lines(play: Play) -> Iterator[str]:
    evidence, totals = play.evidence, play.evidence.totals
    failures = ", ".join(f"{count} {code}" for code, count in evidence.failures.items())
    yield ""
    yield _title(f"What the audit says about {totals.requests} requests in {play.traffic_s:.1f} s (seed {play.seed})")
    yield ""
    yield from _table(
        ("requests", "answered", "failed", "incomplete", "attempts", "retries", "fell back"),
        [
            (
                totals.requests,
                totals.answered,
                totals.failed,
                totals.incomplete,
                totals.attempts,
                totals.retries,
                totals.fell_back,
            )
        ],
    )
    if failures:
        yield f"  failed: {failures}. A stream that has begun cannot be repeated; the diagram says so."
    yield f"  tokens: {totals.input_tokens:,} in, {totals.output_tokens:,} out; cost ${totals.cost_usd:.6f}"
    yield ""
    steps = [(each.step, each.passed, f"{each.p50_ms:.2f}", f"{each.p99_ms:.2f}") for each in evidence.steps]
    yield from _table(("step", "count", "p50 ms", "p99 ms"), steps)
    yield ""
    shares = [
        (each.replica, each.attempts, f"{each.share_percent:.0f} %", each.ok, each.attempts - each.ok)
        for each in evidence.replicas
    ]
    yield from _table(("replica", "attempts", "share", "ok", "failed"), shares)
    if evidence.retried_key:
        yield ""
        yield _title(f"One retried request, step by step (conch explain {evidence.retried_key})")
        width = min(_MAX_WIDTH, shutil.get_terminal_size().columns)
        for sentence in evidence.story:
            yield textwrap.fill(sentence, width, initial_indent="  - ", subsequent_indent="    ")
    yield ""
    for check in play.checks:
        mark = click.style("✓", fg="green") if check.holds else click.style("✗", fg="red", bold=True)
        detail = f": {check.detail}" if check.detail and not check.holds else ""
        yield f"  {mark} {check.claim}{detail}"


def _title(text: str) -> str:
    return click.style(text, bold=True)


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    """Left-aligned first column unless it is a number, everything else to the right."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(text) for text in column) for column in zip(head, *cells, strict=True)]
    left = bool(rows) and isinstance(rows[0][0], str)

    def line(row: Sequence[str]) -> str:
        parts = [
            text.ljust(width) if left and at == 0 else text.rjust(width)
            for at, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        return "  " + "   ".join(parts).rstrip()

    yield click.style(line(head), dim=True)
    yield from (line(row) for row in cells)
