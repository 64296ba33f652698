"""Owns how connections are drawn: sequence flows, message flows, associations of every kind.
Never draws a shape or says what an instance did.
Called by the picture.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from engine.bpmn import glyphs, svg
from engine.bpmn.layout import Box, Line, Point

CORNER: Final = 6.0  # rounding of bends in sequence flows


def connection(line: Line) -> Iterator[str]:
    """The line with its ends and its name, by the kind of BPMN element that it stands for."""
    if line.kind == "sequenceFlow":
        yield from _sequence_flow(line)
    elif line.kind == "messageFlow":
        start = line.points[0]
        yield svg.shape("flow message", _rounded(list(line.points)))
        yield svg.circle(start, 3.5, "tip")
        yield svg.shape("tip", glyphs.path(_head(line, 10, 4.5), closed=True))
    else:
        yield svg.shape("dotted", glyphs.path(list(line.points)))
        if line.directed:
            end, *sides = _head(line, 9, 5)
            yield svg.shape("ink", glyphs.path([sides[0], end, sides[1]]))
    if line.name:
        first = line.points[(len(line.points) - 1) // 2]
        second = line.points[(len(line.points) - 1) // 2 + 1]
        middle = Point((first.x + second.x) / 2, (first.y + second.y) / 2)
        yield from svg.label(line.name, line.label or Box(middle.x - 20, middle.y - 18, 40, 14))


def _sequence_flow(line: Line) -> Iterator[str]:
    before, end = line.points[-2], line.points[-1]
    ux, uy = _direction(before, end)
    neck = Point(end.x - 7 * ux, end.y - 7 * uy)
    yield svg.shape("flow", _rounded([*line.points[:-1], neck]))
    yield svg.shape("head", glyphs.path(_head(line, 10, 4.5), closed=True))
    start = line.points[0]
    sx, sy = _direction(start, line.points[1])
    if line.is_default:
        middle = Point(start.x + 10 * sx, start.y + 10 * sy)
        slash = Point(3 * sx - 5 * sy, 3 * sy + 5 * sx)
        ends = [Point(middle.x - slash.x, middle.y - slash.y), Point(middle.x + slash.x, middle.y + slash.y)]
        yield svg.shape("flow", glyphs.path(ends))
    elif line.conditional:
        far, middle = Point(start.x + 16 * sx, start.y + 16 * sy), Point(start.x + 8 * sx, start.y + 8 * sy)
        sides = [Point(middle.x - 5 * sy, middle.y + 5 * sx), Point(middle.x + 5 * sy, middle.y - 5 * sx)]
        yield svg.shape("tip", glyphs.path([start, sides[0], far, sides[1]], closed=True))


def _head(line: Line, length: float, half_width: float) -> list[Point]:
    """The tip of an arrow at the line's end, and its two other corners."""
    before, end = line.points[-2], line.points[-1]
    ux, uy = _direction(before, end)
    base = Point(end.x - length * ux, end.y - length * uy)
    across = Point(half_width * uy, half_width * ux)
    return [end, Point(base.x - across.x, base.y + across.y), Point(base.x + across.x, base.y - across.y)]


def _direction(start: Point, end: Point) -> Point:
    """The unit vector from `start` to `end`; to the right when they coincide."""
    length = ((end.x - start.x) ** 2 + (end.y - start.y) ** 2) ** 0.5
    return Point((end.x - start.x) / length, (end.y - start.y) / length) if length else Point(1, 0)


def _rounded(points: list[Point]) -> str:
    """A path through `points` with rounded bends."""
    data = f"M{points[0].x:.1f},{points[0].y:.1f}"
    for previous, bend, following in zip(points, points[1:], points[2:], strict=False):
        inwards, onwards = _direction(bend, previous), _direction(bend, following)
        radius = min(CORNER, _distance(previous, bend) / 2, _distance(bend, following) / 2)
        data += f" L{bend.x + radius * inwards.x:.1f},{bend.y + radius * inwards.y:.1f}"
        data += f" Q{bend.x:.1f},{bend.y:.1f} {bend.x + radius * onwards.x:.1f},{bend.y + radius * onwards.y:.1f}"
    return f"{data} L{points[-1].x:.1f},{points[-1].y:.1f}"


def _distance(start: Point, end: Point) -> float:
    return float(((end.x - start.x) ** 2 + (end.y - start.y) ** 2) ** 0.5)
