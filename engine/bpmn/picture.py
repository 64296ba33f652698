"""Owns the picture of a diagram: SVG of the designer's own layout, with the path that an instance walked.
Never reads a database and never moves an element; the output depends on nothing but the two arguments.
Called by `conch explain --svg` and by documentation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from engine.bpmn import svg
from engine.bpmn.layout import Box, Layout, Line, Point, Shape, extent, read_layout
from engine.bpmn.lettering import duration_text, text_width
from engine.bpmn.lines import connection
from engine.bpmn.shapes import drawn, is_background, is_frame

MARGIN: Final = 24.0
LEGEND_HEIGHT: Final = 34.0
LEGEND_WIDTH: Final = 490.0
PILL_TEXT: Final = 10.5

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
.frame{fill:none;stroke:#7b8794;stroke-width:1.2}.dashed{stroke-dasharray:5 3.5}.scattered{stroke-dasharray:1.5 3.5;\
stroke-linecap:round}.thick{stroke-width:4}.strong{stroke-width:1.7}.tip{fill:#fff;stroke:#1c2733;stroke-width:1.3;\
stroke-linejoin:round}.flap{fill:none;stroke:#fff;stroke-width:1.3}.message{stroke-dasharray:8 5}
.is-left .body{stroke:#aab4bf}.is-left .ink,.is-left .flow{stroke:#aab4bf}
.is-left .solid,.is-left .head{fill:#aab4bf}.is-left text{fill:#7d8894}
.is-walked .body{stroke:#0b6bcb;stroke-width:2.2;fill:#f0f7ff}.is-walked .ink,.is-walked .flow{stroke:#0b6bcb}
.is-walked .flow{stroke-width:2.6}.is-walked .solid,.is-walked .head{fill:#0b6bcb}
.is-walked.end .body.rim,.is-walked .body.thick,.is-failed .body.thick{stroke-width:4}
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
    behind = [shape for shape in layout.shapes if is_background(shape)]
    before = [shape for shape in layout.shapes if not is_background(shape)]
    behind.sort(key=lambda shape: -shape.box.width * shape.box.height)  # the outer one first
    before.sort(key=lambda shape: shape.kind == "boundaryEvent")
    parts = [*_opening(layout, frame), *_shapes(behind, walked), *_lines(layout, walked), *_shapes(before, walked)]
    parts += _badges(layout, walked)
    if walked is not None:
        parts += _legend(frame)
    return "\n".join([*parts, "</svg>", ""])


def _frame(layout: Layout, legend: bool) -> Box:
    around = extent(layout)
    below, width = (LEGEND_HEIGHT, max(around.width, LEGEND_WIDTH)) if legend else (0.0, around.width)
    return Box(around.x - MARGIN, around.y - MARGIN, width + 2 * MARGIN, around.height + 2 * MARGIN + below)


def _opening(layout: Layout, frame: Box) -> Iterator[str]:
    name = svg.quoted(layout.name)
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{name}" width="{frame.width:g}" '
        f'height="{frame.height:g}" viewBox="{frame.x:g} {frame.y:g} {frame.width:g} {frame.height:g}">'
    )
    yield f"<title>{name}</title>"
    yield f"<style>{_STYLE}</style>"
    inner = Box(frame.x + 0.5, frame.y + 0.5, frame.width - 1, frame.height - 1)
    yield svg.rectangle(inner, 10, "paper")


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


# --- elements -----------------------------------------------------------------------------------------------------


def _lines(layout: Layout, walked: Walked | None) -> Iterator[str]:
    def is_walked(line: Line) -> bool:
        return walked is not None and line.element_id in walked.flows

    for line in sorted(layout.lines, key=is_walked):  # walked lines on top
        if line.kind == "sequenceFlow":
            state = _state(line.element_id, walked, is_line=True)
            yield svg.group(f"line{state}", _tooltip(line.element_id, line.name, walked), connection(line))
        else:
            yield svg.group("line", _tooltip(line.element_id, line.name, None), connection(line))


def _shapes(shapes: Iterable[Shape], walked: Walked | None) -> Iterator[str]:
    for shape in shapes:
        if is_frame(shape) or shape.kind.startswith("data"):
            yield svg.group("frame-of", _tooltip(shape.element_id, shape.name, None), drawn(shape))
        else:
            kind = "end" if shape.kind == "endEvent" else "node"
            state = _state(shape.element_id, walked)
            yield svg.group(f"{kind}{state}", _tooltip(shape.element_id, shape.name, walked), drawn(shape))


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
            middle = box.x + box.width - 60 if shape.expanded else box.centre.x  # beside the name of a frame
            content += _pill(text, Point(middle, box.y - raised))
            if raised:
                corner = Point(box.centre.x + text_width(text, PILL_TEXT) / 2 + 18, box.y - raised)
        if count > 1:
            content += _count(f"×{count}", corner)
        title = _tooltip(shape.element_id, shape.name, walked)
        if content:
            yield svg.group(f"badge{_state(shape.element_id, walked)}", title, content)


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
        svg.rectangle(box, 8, "pill"),
        f'<text class="pill-text" x="{centre.x:.1f}" y="{centre.y + 3.7:.1f}">{text}</text>',
    ]


def _count(text: str, centre: Point) -> list[str]:
    width = max(text_width(text, PILL_TEXT) + 9, 18)
    box = Box(centre.x - width / 2, centre.y - 8.5, width, 17)
    return [
        svg.rectangle(box, 8.5, "count"),
        f'<text class="count-text" x="{centre.x:.1f}" y="{centre.y + 3.7:.1f}">{text}</text>',
    ]


def _legend(frame: Box) -> list[str]:
    y = frame.y + frame.height - 18
    x = frame.x + MARGIN
    parts = [f'<path class="flow" d="M{x:g},{y:g} h26"/>']
    parts = [svg.group("line is-walked", "path taken", parts)]
    parts.append(f'<text x="{x + 34:g}" y="{y + 4:g}">path taken, time spent in each step</text>')
    x += 250
    parts.append(f'<g class="is-failed">{svg.circle(Point(x, y), 7, "body")}</g>')
    parts.append(f'<text x="{x + 15:g}" y="{y + 4:g}">failed at least once</text>')
    x += 155
    parts += _count("×2", Point(x, y))
    parts.append(f'<text x="{x + 18:g}" y="{y + 4:g}">ran twice</text>')
    return ['<g class="legend">', *parts, "</g>"]
