"""The picture of a diagram: complete, deterministic, safe to embed, and true to what an instance did."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from lxml import etree

from engine.bpmn import Walked, draw, parse
from engine.bpmn.lettering import duration_text, text_width, wrapped
from engine.errors import DefinitionInvalid

SHIPPED = (Path(__file__).parents[2] / "processes" / "inference-request.bpmn").read_bytes()
RETRIED = Walked(
    visits={
        "request_received": (1, 0),
        "admit": (1, 412),
        "check_health": (2, 96),
        "route": (2, 310),
        "infer": (2, 48_120),
        "attempt_failed": (1, 0),
        "may_retry": (1, 3),
        "back_off": (1, 43_700),
        "settle": (1, 120),
        "succeeded": (1, 0),
        "answered": (1, 0),
    },
    flows={"check_health_to_route": 2, "may_retry_yes": 1},
    failed=frozenset({"infer"}),
)
SVG = "{http://www.w3.org/2000/svg}"


def groups(svg: str) -> dict[str, str]:
    """The class of each drawn element, by its tooltip."""
    root = etree.fromstring(svg.encode())
    return {group.findtext(f"{SVG}title"): group.get("class") for group in root.iter(f"{SVG}g") if len(group)}


def test_every_element_and_flow_is_drawn_with_its_name() -> None:
    (definition,) = parse(SHIPPED, "a.bpmn")
    titles = groups(draw(SHIPPED, None))
    for element in (*definition.nodes.values(), *definition.flows.values()):
        assert (f"{element.name} ({element.id})" if element.name else element.id) in titles


def test_same_input_gives_the_same_bytes() -> None:
    assert draw(SHIPPED, RETRIED) == draw(SHIPPED, RETRIED)


def test_walked_path_is_told_from_the_rest() -> None:
    drawn = groups(draw(SHIPPED, RETRIED))
    assert drawn["Route to a replica (route): ran 2 times, 310 µs in total"].split() == ["badge", "is-walked"]
    assert drawn["Run inference (infer): ran 2 times, 48.1 ms in total; failed at least once"].endswith("is-failed")
    assert drawn["Fall back to another model (fall_back): not reached"] == "node is-left"
    assert drawn["check_health_to_route: taken 2 times"] == "line is-walked"
    assert drawn["No (may_retry_no): not reached"] == "line is-left"


def test_badges_show_time_and_repetition() -> None:
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", draw(SHIPPED, RETRIED))
    assert {"412 µs", "48.1 ms", "43.7 ms"} <= set(texts)
    assert texts.count("×2") == 4  # check_health, route, infer, and the legend


def test_plain_picture_has_no_badges_and_no_legend() -> None:
    svg = draw(SHIPPED, None)
    assert 'class="pill"' not in svg
    assert 'class="legend"' not in svg


def test_names_cannot_break_out_of_the_picture() -> None:
    evil = SHIPPED.replace(b'name="Run inference"', b'name="&lt;script&gt;alert(1)&lt;/script&gt;&#34;]]&gt;"')
    evil = evil.replace(b'name="Inference request"', b'name="&#34; onload=&#34;alert(1)"')
    for walked in (None, RETRIED):
        svg = draw(evil, walked)
        root = etree.fromstring(svg.encode())
        assert "<script" not in svg
        assert root.get("onload") is None
        assert not any(name.startswith("on") for element in root.iter() for name in element.attrib)
        assert "http" not in svg.replace("http://www.w3.org/2000/svg", "")


def test_file_without_layout_says_what_to_do() -> None:
    bare = SHIPPED[: SHIPPED.index(b"<bpmndi:BPMNDiagram")] + b"</bpmn:definitions>"
    with pytest.raises(DefinitionInvalid, match="no-layout"):
        draw(bare, None)


@pytest.mark.parametrize("value", [b"nan", b"1e999", b"inf", b"wide", b"", b"-1e7"])
def test_place_that_is_no_number_is_refused(value: bytes) -> None:
    with pytest.raises(DefinitionInvalid, match="invalid-layout"):
        draw(SHIPPED.replace(b'x="260"', b'x="' + value + b'"', 1), None)


def test_long_names_wrap_inside_their_shape_and_end_in_an_ellipsis() -> None:
    lines = wrapped("a long name with a " + "very" * 30 + "longword", 88, 12, 4)
    assert len(lines) == 4
    assert lines[-1].endswith("…")
    assert all(text_width(line, 12) <= 88 + 12 for line in lines)
    assert wrapped("", 88, 12, 4) == []


@pytest.mark.parametrize(
    ("duration_us", "text"),
    [
        (0, "0 µs"),
        (999, "999 µs"),
        (1_000, "1.00 ms"),
        (9_996, "10.0 ms"),
        (48_120, "48.1 ms"),
        (421_400, "421 ms"),
        (999_600, "1.00 s"),
        (4_210_000, "4.21 s"),
        (59_960_000, "1 min 0 s"),
        (125_000_000, "2 min 5 s"),
        (7_320_000_000, "2 h 2 min"),
    ],
)
def test_durations_have_three_digits_and_a_fitting_unit(duration_us: int, text: str) -> None:
    assert duration_text(duration_us) == text
