"""Owns text in pictures: how wide a text is in a Helvetica-like font, where it wraps, how durations are written.
Never draws; widths are estimates, because the reader's font is unknown.
Called by the picture.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

# Advance widths in thousandths of an em, rounded, in groups of characters that are about equally wide.
_WIDTHS: Final = {
    **dict.fromkeys("ijl|'", 230),
    **dict.fromkeys(" ftI.,:;/!()[]\\", 290),
    **dict.fromkeys('r-"`*', 340),
    **dict.fromkeys("cksvxyzJ", 500),
    **dict.fromkeys("ABEKPSVXY&", 667),
    **dict.fromkeys("CDHNRUw", 722),
    **dict.fromkeys("GOQ", 778),
    **dict.fromkeys("mM%", 850),
    **dict.fromkeys("W@", 950),
}
_OTHER: Final = 560
_WIDE: Final = 1000  # ideographs and pictographs
_FIRST_WIDE: Final = 0x2E80


def text_width(text: str, size: float) -> float:
    """Estimated width of `text` in pixels at a font size of `size` pixels."""
    thousandths = sum(_WIDE if ord(char) >= _FIRST_WIDE else _WIDTHS.get(char, _OTHER) for char in text)
    return thousandths * size / 1000


def wrapped(text: str, width: float, size: float, max_lines: int) -> list[str]:
    """Break `text` at blanks, and inside words wider than a line; what does not fit ends in an ellipsis."""
    lines: list[str] = []
    line = ""
    for piece, begins_word in _pieces(text, width, size):
        candidate = f"{line} {piece}" if line and begins_word else piece
        if begins_word and text_width(candidate, size) <= width:
            line = candidate
            continue
        if line:
            lines.append(line)
        line = piece
        if len(lines) > max_lines:
            break
    if line:
        lines.append(line)
    if len(lines) > max_lines:
        lines = lines[:max_lines]
        lines[-1] = lines[-1].rstrip(" .,") + "…"
    return lines


def _pieces(text: str, width: float, size: float) -> Iterator[tuple[str, bool]]:
    """The words, each cut where it is wider than a line, with whether a piece begins its word."""
    for word in text.split():
        start, used = 0, 0.0
        for place, char in enumerate(word):
            used += text_width(char, size)
            if used > width and place > start:
                yield word[start:place], start == 0
                start, used = place, text_width(char, size)
        yield word[start:], start == 0


def duration_text(duration_us: int) -> str:
    """A duration with three significant digits and the unit that keeps it short: `640 µs`, `4.21 ms`, `2 min 5 s`."""
    if duration_us < 1_000:
        return f"{duration_us} µs"
    if duration_us < 999_500:
        return f"{_three_digits(duration_us / 1_000)} ms"
    if duration_us < 59_950_000:
        return f"{_three_digits(duration_us / 1_000_000)} s"
    seconds = round(duration_us / 1_000_000)
    if seconds < 3_600:
        return f"{seconds // 60} min {seconds % 60} s"
    return f"{seconds // 3_600} h {seconds % 3_600 // 60} min"


def _three_digits(value: float) -> str:
    decimals = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{decimals}f}"
