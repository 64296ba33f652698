"""Owns the picture of a diagram: SVG of the designer's own layout, with the path that an instance walked.
Never reads a database and never moves an element; the output depends on nothing but the two arguments.
Called by `conch explain --svg` and by documentation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

from engine.bpmn import glyphs
from engine.bpmn.layout import Box, Layout, Line, Point, Shape, read_layout
from engine.bpmn.lettering import duration_text, text_width, wrapped

MARGIN: Final = 24.0
LEGEND_HEIGHT: Final = 34.0
LEGEND_WIDTH: Final = 490.0
TASK_TEXT: Final = 12.0
LABEL_TEXT: Final = 11.0
PILL_TEXT: Final = 10.5
LINE_HEIGHT: Final = 1.22
CORNER: Final = 6.0  # rounding of bends in sequence flows

# Class names: `is-walked`, `is-failed` and `is-left` (not walked, while others were) on each element's group.
_STYLE: Final = """
.paper{fill:#fcfcfd;stroke:#d5dae1}
text{font-family:'Helvetica Neue',Helvetica,Arial,'Liberation Sans',sans-serif;fill:#1c2733}
.task{font-size:12px;text-anchor:middle}.label{font-size:11px;text-anchor:middle;paint-order:stroke;stroke:#fcfcfd;\
stroke-width:3px;stroke-linejoin:round}.note{font-size:11px;fill:#4b5866}
.body{fill:#fff;stroke:#1c2733;stroke-width:1.6}.end .body.rim{stroke-width:3.6}
.ink{fill:none;stroke:#1c2733;stroke-width:1.3;stroke-linecap:round;stroke-linejoin:round}
.solid{fill:#1c2733;stroke:none;fill-rule:evenodd}.heavy{stroke-width:3.2}
.flow{fill:none;stroke:#1c2733;stroke-width:1.6;stroke-linejoin:round}.head{fill:#1c2733}
.dotted{fill:none;stroke:#7b8794;stroke-width:1.4;stroke-dasharray:1 4;stroke-linecap:round}
.frame{fill:none;stroke:#7b8794;stroke-width:1.2}.dashed{stroke-dasharray:6 4}
.is-left .body{stroke:#aab4bf}.is-left .ink,.is-left .flow{stroke:#aab4bf}
.is-left .solid,.is-left .head{fill:#aab4bf}.is-left text{fill:#7d8894}
.is-walked .body{stroke:#0b6bcb;stroke-width:2.2;fill:#f0f7ff}.is-walked .ink,.is-walked .flow{stroke:#0b6bcb}
.is-walked .flow{stroke-width:2.6}.is-walked .solid,.is-walked .head{fill:#0b6bcb}
.is-walked.end .body.rim{stroke-width:4}
.is-failed .body{stroke:#c92a2a;stroke-width:2.2;fill:#fff4f3}.is-failed .ink{stroke:#c92a2a}
.is-failed .solid{fill:#c92a2a}.is-failed.end .body.rim{stroke-width:4}
.pill{fill:#0b6bcb}.is-failed .pill{fill:#c92a2a}
.pill-text{font-size:10.5px;font-weight:600;fill:#fff;text-anchor:middle}
.count{fill:#fff;stroke:#0b6bcb;stroke-width:1.6}.count-text{font-size:10.5px;font-weight:700;fill:#0b6bcb;\
text-anchor:middle}.is-failed .count{stroke:#c92a2a}.is-failed .count-text{fill:#c92a2a}
.legend text{font-size:11px;fill:#4b5866}
"""


class Walked(NamedTuple):
    """What one instance did."""

    visits: Mapping[str, tuple[int, int]]  # element id: times entered, total duration in microseconds
    flows: Mapping[str, int]  # sequence flow id: times taken
    failed: frozenset[str]  # elements of which at least one run failed


def draw(xml: bytes, walked: Walked | None, resource_name: str = "diagram.bpmn") -> str:
    """The diagram as SVG; with `walked`, the path is highlighted with durations and counts.

    Raises DefinitionInvalid when `xml` cannot be read or says nothing about where its elements are drawn.
    """
    layout = read_layout(xml, resource_name)
    frame = _frame(layout, walked is not None)
    parts = [*_opening(layout, frame), *_lines(layout, walked), *_shapes(layout, walked), *_badges(layout, walked)]
    if walked is not None:
        parts += _legend(frame)
    return "\n".join([*parts, "</svg>", ""])


def _frame(layout: Layout, legend: bool) -> Box:
    boxes = [box for shape in layout.shapes for box in (shape.box, shape.label) if box is not None]
    boxes += [line.label for line in layout.lines if line.label is not None]
    boxes += [Box(point.x, point.y, 0, 0) for line in layout.lines for point in line.points]
    left, top = min(box.x for box in boxes), min(box.y for box in boxes)
    width = max(box.x + box.width for box in boxes) - left
    height = max(box.y + box.height for box in boxes) - top
    below = 0.0
    if legend:
        below, width = LEGEND_HEIGHT, max(width, LEGEND_WIDTH)
    return Box(left - MARGIN, top - MARGIN, width + 2 * MARGIN, height + 2 * MARGIN + below)


def _opening(layout: Layout, frame: Box) -> Iterator[str]:
    name = escape(layout.name, {'"': "&quot;"})
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{name}" width="{frame.width:g}" '
        f'height="{frame.height:g}" viewBox="{frame.x:g} {frame.y:g} {frame.width:g} {frame.height:g}">'
    )
    yield f"<title>{name}</title>"
    yield f"<style>{_STYLE}</style>"
    inner = Box(frame.x + 0.5, frame.y + 0.5, frame.width - 1, frame.height - 1)
    yield _rectangle(inner, 10, "paper")


# --- what happened to an element ----------------------------------------------------------------------------------


def _state(element_id: str, walked: Walked | None, is_line: bool = False) -> str:
    if walked is None:
        return ""
    if element_id in walked.failed:
        return " is-failed"
    return " is-walked" if element_id in (walked.flows if is_line else walked.visits) else " is-left"


def _tooltip(element_id: str, name: str, walked: Walked | None) -> str:
    title = f"{name} ({element_id})" if name else element_id
    if walked is None:
        return title
    if element_id in walked.flows:
        return f"{title}: taken {_times(walked.flows[element_id])}"
    if element_id not in walked.visits:
        return f"{title}: not reached"
    count, total_us = walked.visits[element_id]
    text = f"{title}: ran {_times(count)}, {duration_text(total_us)} in total"
    return text + ("; failed at least once" if element_id in walked.failed else "")


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _group(kind: str, state: str, title: str, content: Iterable[str]) -> str:
    return f'<g class="{kind}{state}"><title>{escape(title)}</title>{"".join(content)}</g>'


# --- lines --------------------------------------------------------------------------------------------------------


def _lines(layout: Layout, walked: Walked | None) -> Iterator[str]:
    def order(line: Line) -> bool:  # walked lines on top
        return walked is not None and line.element_id in walked.flows

    for line in sorted(layout.lines, key=order):
        if line.kind == "sequenceFlow":
            state = _state(line.element_id, walked, is_line=True)
            yield _group("line", state, _tooltip(line.element_id, line.name, walked), _sequence_flow(line))
        else:
            yield f'<path class="dotted" d="{glyphs.path(list(line.points))}"/>'


def _sequence_flow(line: Line) -> Iterator[str]:
    before, end = line.points[-2], line.points[-1]
    ux, uy = _direction(before, end)
    neck = Point(end.x - 7 * ux, end.y - 7 * uy)
    yield f'<path class="flow" d="{_rounded([*line.points[:-1], neck])}"/>'
    base = Point(end.x - 10 * ux, end.y - 10 * uy)
    sides = [Point(base.x - 4.5 * uy, base.y + 4.5 * ux), Point(base.x + 4.5 * uy, base.y - 4.5 * ux)]
    yield f'<path class="head" d="{glyphs.path([end, *sides], closed=True)}"/>'
    if line.is_default:
        start = line.points[0]
        sx, sy = _direction(start, line.points[1])
        middle = Point(start.x + 10 * sx, start.y + 10 * sy)
        slash = Point(3 * sx - 5 * sy, 3 * sy + 5 * sx)
        ends = [Point(middle.x - slash.x, middle.y - slash.y), Point(middle.x + slash.x, middle.y + slash.y)]
        yield f'<path class="flow" d="{glyphs.path(ends)}"/>'
    if line.name:
        half = line.points[(len(line.points) - 1) // 2], line.points[(len(line.points) - 1) // 2 + 1]
        middle = Point((half[0].x + half[1].x) / 2, (half[0].y + half[1].y) / 2)
        yield from _label(line.name, line.label or Box(middle.x - 20, middle.y - 18, 40, 14))


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


# --- shapes -------------------------------------------------------------------------------------------------------


def _shapes(layout: Layout, walked: Walked | None) -> Iterator[str]:
    for shape in sorted(layout.shapes, key=lambda shape: shape.kind == "boundaryEvent"):
        if shape.kind == "textAnnotation":
            yield from _annotation(shape)
        elif shape.kind in ("participant", "lane", "group"):
            yield from _pool(shape)
        else:
            kind = "end" if shape.kind == "endEvent" else "node"
            title = _tooltip(shape.element_id, shape.name, walked)
            yield _group(kind, _state(shape.element_id, walked), title, _flow_node(shape))


def _flow_node(shape: Shape) -> Iterator[str]:
    if shape.kind.endswith("Event"):
        yield from _event(shape)
    elif shape.kind.endswith("Gateway"):
        yield from _gateway(shape)
    else:
        yield from _activity(shape)


def _activity(shape: Shape) -> Iterator[str]:
    yield _rectangle(shape.box, 9, "body")
    if shape.kind == "serviceTask":
        x, y = shape.box.x, shape.box.y
        yield f'<path class="solid" d="{glyphs.gear(Point(x + 12, y + 12), 6.8)}"/>'
        yield f'<path class="solid" d="{glyphs.gear(Point(x + 20.8, y + 18), 4.4)}"/>'
    lines = wrapped(shape.name, shape.box.width - 12, TASK_TEXT, max(1, int(shape.box.height / 16)))
    yield from _text_block(lines, shape.box.centre.x, shape.box.centre.y, TASK_TEXT, "task")


def _event(shape: Shape) -> Iterator[str]:
    centre, radius = shape.box.centre, shape.box.width / 2
    dashed = "" if shape.interrupting else " dashed"
    yield _circle(centre, radius, f"body rim{dashed}")
    if shape.kind in ("boundaryEvent", "intermediateCatchEvent", "intermediateThrowEvent"):
        yield _circle(centre, radius - 3.2, f"ink{dashed}")
    if shape.event == "timer":
        yield _circle(centre, radius * 0.56, "ink")
        yield f'<path class="ink" d="{glyphs.clock(centre, radius * 0.56)}"/>'
    elif shape.event == "error":
        yield f'<path class="ink" d="{glyphs.lightning(centre, radius * 0.56)}"/>'
    if shape.name:
        below = Box(centre.x - 45, shape.box.y + shape.box.height + 6, 90, 14)
        yield from _label(shape.name, shape.label or below)


def _gateway(shape: Shape) -> Iterator[str]:
    box, centre = shape.box, shape.box.centre
    corners = [
        Point(centre.x, box.y),
        Point(box.x + box.width, centre.y),
        Point(centre.x, box.y + box.height),
        Point(box.x, centre.y),
    ]
    yield f'<path class="body" stroke-linejoin="round" d="{glyphs.path(corners, closed=True)}"/>'
    mark = glyphs.plus if shape.kind == "parallelGateway" else glyphs.cross
    yield f'<path class="ink heavy" d="{mark(centre, box.height * 0.22)}"/>'
    if shape.name:
        below = Box(centre.x - 45, box.y + box.height + 6, 90, 14)
        yield from _label(shape.name, shape.label or below)


def _annotation(shape: Shape) -> Iterator[str]:
    box = shape.box
    bracket = [
        Point(box.x + 10, box.y),
        Point(box.x, box.y),
        Point(box.x, box.y + box.height),
        Point(box.x + 10, box.y + box.height),
    ]
    yield f'<path class="frame" d="{glyphs.path(bracket)}"/>'
    lines = wrapped(shape.name, box.width - 10, LABEL_TEXT, max(1, int(box.height / (LABEL_TEXT * LINE_HEIGHT))))
    yield from _text_block(lines, box.x + 8, box.centre.y, LABEL_TEXT, "note")


def _pool(shape: Shape) -> Iterator[str]:
    yield _rectangle(shape.box, 4, "frame dashed" if shape.kind == "group" else "frame")
    if shape.name:
        x, y = shape.box.x + 18, shape.box.centre.y
        turned = f'transform="rotate(-90 {x:g} {y:g})"'
        yield f'<text class="task" x="{x:g}" y="{y:g}" {turned}>{escape(shape.name)}</text>'


# --- badges and legend ----------------------------------------------------------------------------------------------


def _badges(layout: Layout, walked: Walked | None) -> Iterator[str]:
    """How long each activity and timer took, and how often an element ran when it ran more than once."""
    if walked is None:
        return
    for shape in layout.shapes:
        if shape.element_id not in walked.visits:
            continue
        count, total_us = walked.visits[shape.element_id]
        box, content = shape.box, list[str]()
        corner = _corner(shape)
        if shape.kind not in ("startEvent", "endEvent", "boundaryEvent") and not shape.kind.endswith("Gateway"):
            text, raised = duration_text(total_us), 12 if shape.kind.endswith("Event") else 0
            content += _pill(text, Point(box.centre.x, box.y - raised))
            if raised:
                corner = Point(box.centre.x + text_width(text, PILL_TEXT) / 2 + 18, box.y - raised)
        if count > 1:
            content += _count(f"×{count}", corner)
        title = _tooltip(shape.element_id, shape.name, walked)
        if content:
            yield _group("badge", _state(shape.element_id, walked), title, content)


def _corner(shape: Shape) -> Point:
    """The upper right of a shape's outline."""
    box = shape.box
    if shape.kind.endswith("Gateway"):
        return Point(box.x + box.width - 8, box.y + 8)
    return Point(box.x + box.width, box.y + (3 if shape.kind.endswith("Event") else 0))


def _pill(text: str, centre: Point) -> list[str]:
    width = text_width(text, PILL_TEXT) + 14
    box = Box(centre.x - width / 2, centre.y - 8, width, 16)
    return [
        _rectangle(box, 8, "pill"),
        f'<text class="pill-text" x="{centre.x:.1f}" y="{centre.y + 3.7:.1f}">{text}</text>',
    ]


def _count(text: str, centre: Point) -> list[str]:
    width = max(text_width(text, PILL_TEXT) + 9, 18)
    box = Box(centre.x - width / 2, centre.y - 8.5, width, 17)
    return [
        _rectangle(box, 8.5, "count"),
        f'<text class="count-text" x="{centre.x:.1f}" y="{centre.y + 3.7:.1f}">{text}</text>',
    ]


def _legend(frame: Box) -> list[str]:
    y = frame.y + frame.height - 18
    x = frame.x + MARGIN
    parts = [f'<path class="flow" d="M{x:g},{y:g} h26"/>']
    parts = [_group("line", " is-walked", "path taken", parts)]
    parts.append(f'<text x="{x + 34:g}" y="{y + 4:g}">path taken, time spent in each step</text>')
    x += 250
    parts.append(f'<g class="is-failed">{_circle(Point(x, y), 7, "body")}</g>')
    parts.append(f'<text x="{x + 15:g}" y="{y + 4:g}">failed at least once</text>')
    x += 155
    parts += _count("×2", Point(x, y))
    parts.append(f'<text x="{x + 18:g}" y="{y + 4:g}">ran twice</text>')
    return ['<g class="legend">', *parts, "</g>"]


# --- words of SVG -----------------------------------------------------------------------------------------------------


def _rectangle(box: Box, radius: float, classes: str) -> str:
    return (
        f'<rect class="{classes}" x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" '
        f'height="{box.height:.1f}" rx="{radius:g}"/>'
    )


def _circle(centre: Point, radius: float, classes: str) -> str:
    return f'<circle class="{classes}" cx="{centre.x:.1f}" cy="{centre.y:.1f}" r="{radius:.1f}"/>'


def _label(text: str, box: Box) -> Iterator[str]:
    lines = wrapped(text, max(box.width * 1.15, 60), LABEL_TEXT, 4)
    height = len(lines) * LABEL_TEXT * LINE_HEIGHT
    yield from _text_block(lines, box.centre.x, box.y + height / 2, LABEL_TEXT, "label")


def _text_block(lines: list[str], x: float, middle: float, size: float, classes: str) -> Iterator[str]:
    """Lines of text whose block is centred vertically on `middle`."""
    step = size * LINE_HEIGHT
    first = middle - step * (len(lines) - 1) / 2 + size * 0.35
    for number, line in enumerate(lines):
        yield f'<text class="{classes}" x="{x:.1f}" y="{first + number * step:.1f}">{escape(line)}</text>'
