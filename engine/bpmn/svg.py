"""Owns the words of SVG that a picture is written in; every text that comes from a diagram is escaped here.
Never decides what is drawn or where.
Called by the picture, its shapes and its lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final
from xml.sax.saxutils import escape

from engine.bpmn.layout import Box, Point
from engine.bpmn.lettering import wrapped

TASK_TEXT: Final = 12.0  # font sizes in pixels, as the style sheet says them
LABEL_TEXT: Final = 11.0
LINE_HEIGHT: Final = 1.22


def quoted(text: str) -> str:
    """The text inside a double-quoted attribute."""
    return escape(text, {'"': "&quot;"})


def group(classes: str, title: str, content: Iterable[str]) -> str:
    return f'<g class="{classes}"><title>{escape(title)}</title>{"".join(content)}</g>'


def shape(classes: str, data: str) -> str:
    return f'<path class="{classes}" d="{data}"/>'


def rectangle(box: Box, radius: float, classes: str) -> str:
    return (
        f'<rect class="{classes}" x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" '
        f'height="{box.height:.1f}" rx="{radius:g}"/>'
    )


def circle(centre: Point, radius: float, classes: str) -> str:
    return f'<circle class="{classes}" cx="{centre.x:.1f}" cy="{centre.y:.1f}" r="{max(radius, 0):.1f}"/>'


def text(content: str, x: float, y: float, classes: str, turned: float | None = None) -> str:
    """One line of text; `turned` in degrees around its own place."""
    turn = "" if turned is None else f' transform="rotate({turned:g} {x:.1f} {y:.1f})"'
    return f'<text class="{classes}" x="{x:.1f}" y="{y:.1f}"{turn}>{escape(content)}</text>'


def text_block(lines: list[str], x: float, middle: float, size: float, classes: str) -> Iterator[str]:
    """Lines of text whose block is centred vertically on `middle`."""
    step = size * LINE_HEIGHT
    first = middle - step * (len(lines) - 1) / 2 + size * 0.35
    for number, line in enumerate(lines):
        yield text(line, x, first + number * step, classes)


def label(content: str, box: Box) -> Iterator[str]:
    """A name beside its shape or line, in the box that the designer gave it."""
    lines = wrapped(content, max(box.width * 1.15, 60), LABEL_TEXT, 4)
    height = len(lines) * LABEL_TEXT * LINE_HEIGHT
    yield from text_block(lines, box.centre.x, box.y + height / 2, LABEL_TEXT, "label")
