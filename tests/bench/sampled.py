"""Owns the split of a gateway's CPU time among its parts, by sampling its main thread.
Never traces calls, which would make cheap calls look expensive.
Called by the gateway's benchmark as `python -m tests.bench.sampled OUT serve ...`: SIGUSR1 begins, SIGUSR2 writes OUT.

A timer counts the CPU time of the process and interrupts the main thread every millisecond of it. Each interruption
charges the CPU time that the main thread has used since the last one to the part whose code is innermost on the stack.
Time in C code counts for the Python function that called it; the time of the event loop's own C code counts for the
callback that runs next. The CPU time of all other threads, which are gRPC's, is kept apart.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections import defaultdict
from functools import cache
from pathlib import Path
from types import FrameType

INTERVAL_S = 0.001
# Innermost first; the first one whose text is in the file's path.
PARTS = (
    ("metrics", ("/prometheus_client/", "/engine/telemetry.py", "/engine/meter.py")),
    ("records", ("/engine/store/encoding.py", "/engine/store/json_text.py", "/engine/store/binary.py")),
    ("records", ("/engine/store/command_log.py", "/engine/store/canonical.py")),
    ("journal", ("/engine/store/", "/psycopg/", "/sqlalchemy/")),
    ("http", ("/uvicorn/", "/starlette/", "/fastapi/", "/httptools/", "/engine/api/")),
    ("grpc", ("/grpc/", "/google/protobuf/", "/tritonclient/", "/tasks/triton.py", "/tasks/tensors.py")),
    ("engine", ("/engine/core/", "/engine/bpmn/", "/engine/feel/", "/SpiffWorkflow/")),
    ("engine", ("/engine/records.py", "/engine/keys.py")),
    ("tasks", ("/tasks/",)),
    # Below everything on the stack: what ends up here is the loop's own.
    ("asyncio", ("/engine/cli/", "/tests/bench/")),
    ("runtime", ("/engine/",)),
    ("asyncio", ("/asyncio/", "/uvloop/")),
)
REST = "asyncio"
_PLACES = 2000


@cache
def part_of(path: str) -> str | None:
    """The part that a source file belongs to; None for libraries that work for whoever calls them."""
    return next((part for part, texts in PARTS if any(text in path for text in texts)), None)


class Sampler:
    """Collects until it is told to write."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self._parts: defaultdict[str, float] = defaultdict(float)
        self._places: defaultdict[str, float] = defaultdict(float)
        self._inclusive: defaultdict[str, float] = defaultdict(float)
        self._main_s = self._process_s = 0.0
        self._begun_main_s = self._begun_process_s = 0.0

    def begin(self, *_: object) -> None:
        self._parts.clear()
        self._places.clear()
        self._inclusive.clear()
        self._begun_main_s = self._main_s = time.thread_time()
        self._begun_process_s = time.process_time()
        signal.signal(signal.SIGPROF, self._sample)
        signal.setitimer(signal.ITIMER_PROF, INTERVAL_S, INTERVAL_S)

    def write(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        main_s = time.thread_time() - self._begun_main_s
        threads_s = time.process_time() - self._begun_process_s - main_s
        found = {
            "parts_s": dict(self._parts),
            "threads_s": threads_s,
            "places_s": _most(self._places),
            "inclusive_s": _most(self._inclusive),
        }
        draft = self._out.with_suffix(".new")
        draft.write_text(json.dumps(found))
        draft.rename(self._out)

    def _sample(self, _: int, frame: FrameType | None) -> None:
        now_s = time.thread_time()
        spent_s, self._main_s = now_s - self._main_s, now_s
        places = []
        part = None
        while frame is not None:
            path = frame.f_code.co_filename
            part = part or part_of(path)
            places.append(f"{path}:{frame.f_code.co_qualname}")
            frame = frame.f_back
        self._parts[part or REST] += spent_s
        self._places[places[0] if places else ""] += spent_s
        for place in set(places):
            self._inclusive[place] += spent_s


def _most(seconds: dict[str, float]) -> dict[str, float]:
    return dict(sorted(seconds.items(), key=lambda item: -item[1])[:_PLACES])


def main() -> None:
    sampler = Sampler(Path(sys.argv.pop(1)))
    signal.signal(signal.SIGUSR1, sampler.begin)
    signal.signal(signal.SIGUSR2, sampler.write)
    from engine.cli import main as conch

    conch()


if __name__ == "__main__":
    main()
