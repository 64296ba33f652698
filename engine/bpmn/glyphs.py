"""Owns the small symbols inside BPMN shapes, as SVG path data around a centre.
Never chooses a colour or a place.
Called by the picture.
"""

from __future__ import annotations

from math import cos, pi, sin

from engine.bpmn.layout import Point


def path(points: list[Point], closed: bool = False) -> str:
    """Straight path data through `points`."""
    joined = " L".join(f"{point.x:.1f},{point.y:.1f}" for point in points)
    return f"M{joined}" + ("Z" if closed else "")


def _around(centre: Point, radius: float, turn: float) -> Point:
    """The point at `turn` (1 is a full circle, clockwise from the top)."""
    return Point(centre.x + radius * sin(2 * pi * turn), centre.y - radius * cos(2 * pi * turn))


def gear(centre: Point, radius: float) -> str:
    """A cog wheel with eight teeth and a hole (fill rule evenodd)."""
    teeth = 8
    rim: list[Point] = []
    for tooth in range(teeth):
        for offset, at in ((-0.30, 0.74), (-0.17, 1.0), (0.17, 1.0), (0.30, 0.74)):
            rim.append(_around(centre, radius * at, (tooth + offset) / teeth))
    hole = [_around(centre, radius * 0.34, step / 12) for step in range(12)]
    return path(rim, closed=True) + path(hole, closed=True)


def clock(centre: Point, radius: float) -> str:
    """Twelve ticks and two hands; the face is a circle of the same radius."""
    ticks = [[_around(centre, radius, hour / 12), _around(centre, radius * 0.8, hour / 12)] for hour in range(12)]
    hands = [_around(centre, radius * 0.75, 0.04), centre, _around(centre, radius * 0.5, 0.25)]
    return "".join(path(tick) for tick in ticks) + path(hands)


def lightning(centre: Point, radius: float) -> str:
    """The zigzag of an error event."""
    corners = [(-0.85, 0.75), (-0.30, -0.72), (0.22, 0.10), (0.85, -0.82), (0.36, 0.68), (-0.18, -0.12)]
    return path([Point(centre.x + radius * x, centre.y + radius * y) for x, y in corners], closed=True)


def cross(centre: Point, radius: float) -> str:
    """The X of an exclusive gateway."""
    arm = radius * 0.72
    return "".join(
        path([Point(centre.x - arm * side * 0.75, centre.y - arm), Point(centre.x + arm * side * 0.75, centre.y + arm)])
        for side in (1, -1)
    )


def plus(centre: Point, radius: float) -> str:
    """The + of a parallel gateway and of a collapsed sub-process."""
    upright = path([Point(centre.x, centre.y - radius), Point(centre.x, centre.y + radius)])
    return upright + path([Point(centre.x - radius, centre.y), Point(centre.x + radius, centre.y)])
