"""The picture of a diagram: complete, deterministic, safe to embed, and true to what an instance did."""

from __future__ import annotations

import re
from pathlib import Path
from xml.sax.saxutils import quoteattr

import pytest
from lxml import etree

from engine.bpmn import Walked, draw, parse
from engine.bpmn.layout import read_layout
from engine.bpmn.lettering import duration_text, text_width, wrapped
from engine.errors import DefinitionInvalid
from tests.builders import Diagram
from tests.every_element import every_element
from tests.laid_out import laid_out
from tests.unit.test_miwg import ROOT

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
    assert wrapped("one two", 88, 12, 4) == ["one two"]
    assert "".join(wrapped("w" * 30, 88, 12, 9)) == "w" * 30


@pytest.mark.parametrize("word", ["x", "x ", "处"])
def test_an_endless_name_is_cut_without_reading_it_again_and_again(word: str) -> None:
    lines = wrapped(word * 1_000_000, 88, 12, 4)
    assert len(lines) == 4
    assert lines[-1].endswith("…")


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


# --- every element ----------------------------------------------------------------------------------------------

EVERY = laid_out(every_element().to_xml())


def drawn_as(svg: str, element_id: str) -> list[tuple[str, str, str]]:
    """Tag, class and path data of all that is drawn for an element."""
    for group in etree.fromstring(svg.encode()).iter(f"{SVG}g"):
        title = group.findtext(f"{SVG}title") or ""
        if f"({element_id})" in title or title == element_id:
            return [(each.tag.removeprefix(SVG), each.get("class"), each.get("d", "")) for each in group[1:]]
    raise AssertionError(f"{element_id} is not drawn")


def marks(svg: str, element_id: str) -> set[tuple[str, str]]:
    """What is drawn inside the outline, wherever it is: symbols by their shape (moved to the origin) and ink."""
    return {(_shape_of(data), classes) for tag, classes, data in drawn_as(svg, element_id)[1:] if tag == "path"}


def _shape_of(data: str) -> str:
    x, y = map(float, re.match(r"M(-?[\d.]+),(-?[\d.]+)", data).groups())  # type: ignore[union-attr]
    return re.sub(
        r"(-?[\d.]+),(-?[\d.]+)", lambda pair: f"{float(pair[1]) - x:.0f},{float(pair[2]) - y:.0f}", data
    ).replace("-0", "0")


def test_every_element_and_flow_of_the_whole_set_is_drawn() -> None:
    definition = every_element().build()
    titles = groups(draw(EVERY, None))
    for element in (*definition.nodes.values(), *definition.flows.values()):
        assert (f"{element.name} ({element.id})" if element.name else element.id) in titles


def test_each_kind_of_task_has_a_symbol_of_its_own() -> None:
    svg = draw(EVERY, None)
    tasks = ["work", "decided", "computed", "sent", "received", "approved", "by_hand"]
    assert len({frozenset(marks(svg, task)) for task in tasks}) == len(tasks)
    assert marks(svg, "nothing") == set()


def test_each_kind_of_gateway_has_a_symbol_of_its_own() -> None:
    svg = draw(EVERY, None)
    gateways = {
        tuple((tag, classes, _shape_of(data) if data else "") for tag, classes, data in drawn_as(svg, each)[1:])
        for each in ("any", "all", "one", "first")
    }
    assert len(gateways) == 4


def test_an_event_is_an_outline_where_it_is_caught_and_filled_where_it_is_thrown() -> None:
    svg = draw(EVERY, None)
    for caught, thrown in [("a_message", "a_notice"), ("a_signal", "a_broadcast"), ("from_there", "to_there")]:
        assert {classes for _, classes in marks(svg, caught)} == {"ink"}
        assert "solid" in {classes for _, classes in marks(svg, thrown)}
    assert ("circle", "solid", "") in drawn_as(svg, "stopped")
    assert "solid" in {classes for _, classes in marks(svg, "failed_ended")}
    kinds = ["a_message", "a_signal", "a_condition", "from_there", "failed", "raised", "decided_undone", "a_timer"]
    assert len({frozenset(marks(svg, each)) for each in kinds}) == len(kinds)


def test_what_does_not_interrupt_is_dashed_and_an_event_sub_process_is_dotted() -> None:
    svg = draw(EVERY, None)
    for event, dashed in [("late", True), ("failed", False), ("on_timer_started", True), ("on_message_started", False)]:
        assert ("dashed" in drawn_as(svg, event)[0][1]) == dashed
    assert "scattered" in drawn_as(svg, "on_error")[0][1]
    assert "scattered" not in drawn_as(svg, "inner")[0][1]


def test_a_call_is_bold_and_markers_say_what_repeats_and_what_undoes() -> None:
    svg = draw(EVERY, None)
    assert drawn_as(svg, "called")[0][1] == "body thick"
    in_turn, at_once, undone = (
        [_shape_of(data) for _, classes, data in drawn_as(svg, each) if classes == "ink strong"]
        for each in ("in_turn", "at_once", "undone")
    )
    assert len(in_turn) == len(undone) == 1
    assert len(at_once) == 2  # parallel, and what it calls
    assert len({*in_turn, *undone, *at_once}) == 4


def test_a_frame_lies_below_the_lines_and_shapes_inside_it() -> None:
    titles = [group.findtext(f"{SVG}title") for group in etree.fromstring(draw(EVERY, None).encode()).iter(f"{SVG}g")]
    frame, flow, task = (
        titles.index(title) for title in ("Inner (inner)", "inner_started_to_inner_work", "Inner work (inner_work)")
    )
    assert frame < flow < task


KINDS = ["subProcess", "scriptTask", "userTask", "callActivity", "startEvent", "boundaryEvent"]


@pytest.mark.parametrize("kind", KINDS)
def test_no_name_of_any_kind_of_element_can_break_out_of_the_picture(kind: str) -> None:
    name = quoteattr("</title><script>x()</script>\"'\u202e").encode()
    evil = re.sub(rb'(<bpmn:%s [^>]*?name=)"[^"]*"' % kind.encode(), lambda found: found[1] + name, EVERY)
    assert evil != EVERY
    root = etree.fromstring(draw(evil, None).encode())
    assert {each.tag.removeprefix(SVG) for each in root.iter()} <= {
        "svg",
        "title",
        "style",
        "g",
        "path",
        "rect",
        "circle",
        "text",
    }
    assert not any(name.startswith("on") for element in root.iter() for name in element.attrib)


def test_names_of_any_script_are_drawn_as_they_are() -> None:
    named = EVERY.replace(b'name="Work"', 'name="处理 обработать ✓"'.encode())
    assert "处理" in draw(named, None)


POOL = b"""<bpmndi:BPMNShape bpmnElement="pool" isHorizontal="%s"><dc:Bounds x="0" y="0" width="600" height="300"/>
</bpmndi:BPMNShape><bpmndi:BPMNShape bpmnElement="lane"><dc:Bounds x="30" y="0" width="570" height="300"/>
</bpmndi:BPMNShape>"""


@pytest.mark.parametrize("horizontal", [True, False])
def test_pools_and_lanes_are_boxes_behind_the_process(horizontal: bool) -> None:
    place = POOL % (b"true" if horizontal else b"false")
    xml = EVERY.replace(b"<bpmndi:BPMNPlane>", b"<bpmndi:BPMNPlane>" + place)
    xml = xml.replace(
        b"<bpmn:process ",
        b'<bpmn:collaboration id="c"><bpmn:participant id="pool" name="The &lt;pool&gt;" '
        b'processRef="every_element"/></bpmn:collaboration><bpmn:process ',
        1,
    )
    xml = xml.replace(
        b"<bpmn:startEvent ",
        b'<bpmn:laneSet id="lanes"><bpmn:lane id="lane" name="Clerks"/></bpmn:laneSet><bpmn:startEvent ',
        1,
    )
    svg = draw(xml, RETRIED)
    assert ("rotate(-90" in svg[svg.index("The &lt;pool&gt;</text>") - 200 :][:200]) == horizontal
    titles = list(groups(svg))
    assert titles.index("Clerks (lane)") < titles.index("Work (work): not reached")


def test_what_a_collapsed_sub_process_holds_is_drawn_below_with_its_name() -> None:
    diagram = Diagram().start().sub_process("inner").end().path("started", "inner", "ended")
    with diagram.inside("inner"):
        diagram.start("inner_started").end("inner_ended").path("inner_started", "inner_ended")
    root = etree.fromstring(laid_out(diagram.to_xml()))
    di = "{http://www.omg.org/spec/BPMN/20100524/DI}"
    (first,) = root.iter(f"{di}BPMNDiagram")
    second = etree.SubElement(etree.SubElement(root, f"{di}BPMNDiagram"), f"{di}BPMNPlane", bpmnElement="inner")
    for drawn in list(first.iter(f"{di}BPMNShape", f"{di}BPMNEdge")):
        drawn.attrib.pop("isExpanded", None)
        if drawn.get("bpmnElement").startswith("inner_"):
            second.append(drawn)
    layout = read_layout(etree.tostring(root), "a.bpmn")
    places = {shape.element_id or shape.kind: shape.box for shape in layout.shapes}
    assert places["plane"].y > places["inner"].y + places["inner"].height
    assert places["plane"].y < places["inner_started"].y < places["plane"].y + places["plane"].height
    assert [shape.markers for shape in layout.shapes if shape.element_id == "inner"] == [("collapsed",)]
    draw(etree.tostring(root), None)


def test_lines_end_as_their_kind_says() -> None:
    default = drawn_as(draw(EVERY, None), "otherwise")
    assert len([1 for _, classes, _ in default if classes == "flow"]) == 2  # the line, and the slash across it
    association = drawn_as(draw(EVERY, None), "decided_undone_association")
    assert [classes for _, classes, _ in association] == ["dotted", "ink"]


@pytest.mark.skipif(not ROOT.is_dir(), reason=f"no BPMN MIWG files at {ROOT} (set CONCH_TEST_SUITES)")
def test_every_public_reference_file_is_drawn() -> None:
    for path in sorted(ROOT.rglob("*.bpmn")):
        root = etree.fromstring(draw(path.read_bytes(), None).encode())
        assert len(root) > 10, path
