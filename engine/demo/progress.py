"""Owns what a person sees while the demonstration runs: on a terminal one line that changes, else a line now and then.
Never writes to standard output, which belongs to the report.
Called by the play.
"""

from __future__ import annotations

import time
from typing import TextIO

_BAR = 24
_REDRAW_S = 0.1
_LINES_PER_RUN = 10


class Progress:
    """Lines on `stream`. `note` is for events, `show` for the count of finished requests."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._live = stream.isatty()
        self._drawn_at_s = 0.0
        self._tenth = -1
        self._line = ""

    def note(self, text: str) -> None:
        """Say what happens, on a line of its own; the changing line moves below it."""
        self._write(f"\r\x1b[K{text}\n{self._line}" if self._live else f"{text}\n")

    def show(self, done: int, total: int, state: str) -> None:
        """`done` of `total` requests are finished; `state` says what else is worth knowing."""
        tenth = done * _LINES_PER_RUN // total
        if self._live:
            now_s = time.monotonic()
            if done < total and now_s - self._drawn_at_s < _REDRAW_S:
                return
            self._drawn_at_s = now_s
            filled = done * _BAR // total
            self._line = f"  {'█' * filled}{'░' * (_BAR - filled)} {done}/{total}  {state}"
            self._write(f"\r\x1b[K{self._line}")
        elif tenth != self._tenth:
            self._write(f"  {done}/{total}  {state}\n")
        self._tenth = tenth

    def finish(self) -> None:
        """Leave the changing line as it is and go on below it."""
        if self._line:
            self._write("\n")
            self._line = ""

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
