"""Each element that runs has a small diagram: it is valid, drawn whole, and means what `meanings.txt` says."""

from __future__ import annotations

from pathlib import Path

import pytest
from lxml import etree

from engine.bpmn import ElementType, check, parse
from engine.bpmn.definition import Binding, EventKind
from engine.bpmn.xml import BPMN, BPMNDI
from tests.element_sentences import sentences

FOLDER = Path(__file__).parents[1] / "diagrams" / "elements"
DIAGRAMS = sorted(FOLDER.glob("*.bpmn"))


def _meanings() -> dict[str, list[str]]:
    """By diagram, a sentence for every element in it that does more than connect."""
    diagram, meanings = "", dict[str, list[str]]()
    for line in (FOLDER / "meanings.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("  "):
            meanings[diagram].append(line.strip())
        elif line:
            diagram = line
            meanings[diagram] = []
    return meanings


MEANINGS = _meanings()


@pytest.mark.parametrize("path", DIAGRAMS, ids=lambda path: path.stem)
def test_an_element_means_what_is_written_down(path: Path) -> None:
    definitions, problems = check(path.read_bytes(), path.name, None)
    assert problems == []
    assert definitions[0].process_id == path.stem
    assert [said for each in definitions for said in sentences(each)] == MEANINGS[path.stem]


@pytest.mark.parametrize("path", DIAGRAMS, ids=lambda path: path.stem)
def test_an_element_diagram_is_drawn_whole(path: Path) -> None:
    """The editor shows what has a shape or an edge, and nothing else."""
    root = etree.fromstring(path.read_bytes())
    drawn = {each.get("bpmnElement") for each in root.iter(f"{{{BPMNDI}}}BPMNShape", f"{{{BPMNDI}}}BPMNEdge")}
    associations = {each.get("id") for each in root.iter(f"{{{BPMN}}}association")}
    for definition in parse(path.read_bytes(), path.name):
        assert drawn >= {*definition.nodes, *definition.flows, *associations}


def test_every_type_of_element_every_event_and_every_binding_has_a_diagram() -> None:
    nodes = [
        node
        for path in DIAGRAMS
        for definition in parse(path.read_bytes(), path.name)
        for node in definition.nodes.values()
    ]
    assert {node.type for node in nodes} == set(ElementType) - {ElementType.PROCESS, ElementType.MULTI_INSTANCE_BODY}
    assert {node.event_kind for node in nodes} == {*EventKind, None}
    assert {node.called.binding for node in nodes if node.called is not None} == set(Binding)
    caught = {(node.event_kind, node.interrupting) for node in nodes if node.type is ElementType.BOUNDARY_EVENT}
    interrupting = {(kind, True) for kind in EventKind} - {(EventKind.LINK, True), (EventKind.TERMINATE, True)}
    going_on = {kind for kind in EventKind if kind not in (EventKind.ERROR, EventKind.COMPENSATION)}
    assert caught == interrupting | {(kind, False) for kind in going_on - {EventKind.LINK, EventKind.TERMINATE}}


def test_no_meaning_is_left_over() -> None:
    assert sorted(MEANINGS) == sorted(path.stem for path in DIAGRAMS)
