"""Owns an instance that is driven for a recording: real keys, instants that move, reports with measured times.
Never draws anything but from its seed: the same script and the same seed are the same log.
Called by the recorder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

from engine.keys import KeySource
from engine.records import Command, JobCompleted, JobReport, JobStopped, Key, Start, Step, Tags, TimerFired
from tests.acts import Act
from tests.audit_samples import job_report
from tests.builders import EMPTY_REPORT
from tests.driven import Driven
from tests.linked import Linked

BEGAN_AT_US = int(datetime(2026, 1, 5, 9, tzinfo=UTC).timestamp()) * 1_000_000
SEED = 20260105


@dataclass(frozen=True)
class Script:
    """A log to record: what it shows, the files that it runs on (the first holds the process), and what happens."""

    says: str
    files: tuple[Path, ...]
    variables: Mapping[str, Any]
    acts: tuple[Act, ...]
    online: bool = False
    start: Mapping[str, Any] = field(default_factory=dict)


class Recording(Driven):
    """An instance of a script; `log` holds its commands."""

    def __init__(self, linked: Linked, script: Script, name: str) -> None:
        self._chance = Random(f"{SEED} {name}")
        self._keys: KeySource | None = None
        self._attempts = 0
        self._queued_at_us: dict[Key, int] = {}
        super().__init__(
            linked.program,
            script.variables,
            online=script.online,
            **{
                "definition": linked.ref,
                "calls": linked.calls,
                "request_id": "019b8d4a-1e80-7000-8000-00000000c0de" if script.online else "",
                "tags": Tags("acme", "search", "answer") if script.online else Tags(),
                **script.start,
            },
        )
        for act in script.acts:
            act(self)

    def do(self, command: Command) -> Step:
        if self._keys is None:
            self.at_us = BEGAN_AT_US
            self._keys = KeySource(1, lambda: self.at_us // 1000)
        elif isinstance(command, TimerFired):
            self.at_us += self._chance.randint(50, 1_500)
        else:
            self.at_us += self._chance.randint(4_000, 80_000)
        report = getattr(command, "report", None)
        if report == EMPTY_REPORT:
            command = command._replace(report=self._measured(command))  # type: ignore[call-arg]
        step = super().do(command._replace(key=self._keys.reserve()))
        self._keys.advance(step.next_key)
        self._queued_at_us |= {job.key: self.at_us for job in step.start}
        assert self.instance.fault is None, repr(self.instance.fault)
        return step

    def _measured(self, command: Command) -> JobReport:
        job = next(each for each in self.instance.open_jobs if each.key == command.job_key)  # type: ignore[union-attr]
        queued_at_us = self._queued_at_us[job.key]
        times = {
            "queued_at_us": queued_at_us,
            "started_at_us": queued_at_us + self._chance.randint(90, 400),
            "finished_at_us": self.at_us - self._chance.randint(30, 300),
        }
        self._attempts += job.topic == "infer"
        outcome = {JobCompleted: "ok", JobStopped: "cancelled"}.get(type(command), "error")  # type: ignore[arg-type]
        report = job_report(job.topic, self.at_us, self._attempts, outcome)._replace(**times)
        if outcome == "cancelled":
            stopped = {"error_code": None, "grpc_status": "CANCELLED", "message": None}
            report = report._replace(attempts=tuple(each._replace(**stopped) for each in report.attempts))
        return report


def head_of(name: str, script: Script, log: list[tuple[Command, int]], schema_version: int) -> dict[str, Any]:
    start = log[0][0]
    assert isinstance(start, Start)
    return {
        "log": name,
        "says": script.says,
        "engine_version": start.engine_version,
        "schema_version": schema_version,
        "steps": True,
    }
