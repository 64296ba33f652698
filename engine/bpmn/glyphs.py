"""Owns the small symbols inside BPMN shapes, as SVG path data around a centre.
Never chooses a colour or a place.
Called by the shapes and the connections of a picture.
"""

from __future__ import annotations

import re
from math import cos, pi, sin
from typing import Final

from engine.bpmn.layout import Point

# Each symbol on a square from -10 to 10, y downwards. Closed outlines may be filled, the others are lines.
SYMBOLS: Final = {
    # events
    "message": "M-9,-6 L9,-6 L9,6 L-9,6Z",
    "message-flap": "M-9,-6 L0,1 L9,-6",
    "error": "M-8.5,7.5 L-3,-7.2 L2.2,1 L8.5,-8.2 L3.6,6.8 L-1.8,-1.2Z",
    "escalation": "M0,-9 L6.5,8 L0,1.2 L-6.5,8Z",
    "signal": "M0,-8.5 L8.6,6 L-8.6,6Z",
    "compensation": "M0,-6 L0,6 L-8.5,0Z M8.5,-6 L8.5,6 L0,0Z",
    "conditional": "M-6.5,-8 L6.5,-8 L6.5,8 L-6.5,8Z M-4.3,-4.8 L4.3,-4.8 M-4.3,-1.6 L4.3,-1.6 "
    "M-4.3,1.6 L4.3,1.6 M-4.3,4.8 L4.3,4.8",
    "link": "M1.5,-7.5 L9,0 L1.5,7.5 L1.5,3 L-8.5,3 L-8.5,-3 L1.5,-3Z",
    "cancel": "M-8,-5.5 L-5.5,-8 L0,-2.5 L5.5,-8 L8,-5.5 L2.5,0 L8,5.5 L5.5,8 L0,2.5 L-5.5,8 L-8,5.5 L-2.5,0Z",
    "multiple": "M0,-9 L8.6,-2.8 L5.3,7.3 L-5.3,7.3 L-8.6,-2.8Z",
    "parallel-multiple": "M-2.4,-8.5 L2.4,-8.5 L2.4,-2.4 L8.5,-2.4 L8.5,2.4 L2.4,2.4 L2.4,8.5 L-2.4,8.5 L-2.4,2.4 "
    "L-8.5,2.4 L-8.5,-2.4 L-2.4,-2.4Z",
    # tasks
    "person": "M0,-9 C5,-9 5,-1 0,-1 C-5,-1 -5,-9 0,-9Z M-8.5,9 C-8.5,-2 8.5,-2 8.5,9Z",
    "hand": "M-9,-0.5 L-4,-7.5 L-1.6,-6.4 L-3.2,-3.4 L7.6,-3.4 L7.6,-1 L1,-1 M7.6,-1 L9,-1 L9,1.6 L1,1.6 "
    "M8.4,1.6 L8.4,4.2 L1,4.2 M6.8,4.2 L6.8,6.8 L-5.4,6.8 L-9,4.4 L-9,-0.5",
    "scroll": "M-2.5,-9 L8.5,-9 C3,-4 9.5,1 4,9 L-7,9 C-1.5,1 -8,-4 -2.5,-9Z "
    "M-2.6,-4.8 L4,-4.8 M-2.2,-0.4 L5,-0.4 M-2.6,4.2 L4,4.2",
    "table": "M-9,-7 L9,-7 L9,7 L-9,7Z M-9,2.4 L9,2.4 M-3.5,-2.4 L-3.5,7",
    "table-head": "M-9,-7 L9,-7 L9,-2.4 L-9,-2.4Z",
    # gateways
    "cross": "M-5.4,-7.2 L5.4,7.2 M5.4,-7.2 L-5.4,7.2",
    "plus": "M0,-10 L0,10 M-10,0 L10,0",
    "asterisk": "M0,-10 L0,10 M-10,0 L10,0 M-7,-7 L7,7 M7,-7 L-7,7",
    # markers of activities
    "parallel": "M-6,-9 L-6,9 M0,-9 L0,9 M6,-9 L6,9",
    "sequential": "M-9,-6 L9,-6 M-9,0 L9,0 M-9,6 L9,6",
    "loop": "M-4.5,8.5 C-16,-1 -5,-14 4,-8 C12,-2.5 9,7 2,8.5 M-4.5,8.5 L-5.5,2.5 M-4.5,8.5 L-10.5,8.5",
    "ad-hoc": "M-9,3.5 C-6,-8 -2.5,-4 0,0 C3,4.5 6,6 9,-4",
    "collapsed": "M-9,-9 L9,-9 L9,9 L-9,9Z M0,-5.5 L0,5.5 M-5.5,0 L5.5,0",
    # data
    "page": "M-7.5,-10 L2.5,-10 L7.5,-5 L7.5,10 L-7.5,10Z M2.5,-10 L2.5,-5 L7.5,-5",
    "store": "M-10,-7 C-10,-11 10,-11 10,-7 L10,7 C10,11 -10,11 -10,7Z M-10,-7 C-10,-3 10,-3 10,-7 "
    "M-10,-4.5 C-10,-0.5 10,-0.5 10,-4.5",
}
_PAIR: Final = re.compile(r"(-?[\d.]+),(-?[\d.]+)")


def symbol(name: str, centre: Point, radius: float, across: float | None = None) -> str:
    """One of SYMBOLS as path data, reaching `radius` pixels up and down from its centre, and `across` to its sides."""
    tall, wide = radius / 10, (radius if across is None else across) / 10

    def placed(pair: re.Match[str]) -> str:
        return f"{centre.x + wide * float(pair[1]):.1f},{centre.y + tall * float(pair[2]):.1f}"

    return _PAIR.sub(placed, SYMBOLS[name])


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
