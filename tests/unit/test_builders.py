"""The diagrams that tests build say the same as files and as definitions."""

from __future__ import annotations

from lxml import etree

from engine.bpmn.definition import ElementType, EventKind
from tests.every_element import every_element


def test_one_diagram_holds_every_element_and_every_event() -> None:
    nodes = every_element().build().nodes.values()
    never_drawn = {ElementType.PROCESS, ElementType.MULTI_INSTANCE_BODY}
    assert {node.type for node in nodes} == set(ElementType) - never_drawn
    assert {node.event_kind for node in nodes} == {None, *EventKind}


def test_every_node_and_flow_is_in_the_file_under_its_id_and_inside_its_parent() -> None:
    definition = every_element().build()
    root = etree.fromstring(every_element().to_xml().encode())
    written = {element.get("id"): element for element in root.iter() if element.get("id")}
    for node in definition.nodes.values():
        assert written[node.id].getparent().get("id") == (node.parent or definition.process_id)
    for flow in definition.flows.values():
        inside = definition.nodes[flow.source].parent or definition.process_id
        assert written[flow.id].getparent().get("id") == inside
    for element in written.values():
        for reference in ("messageRef", "signalRef", "errorRef", "escalationRef", "targetRef"):
            assert element.get(reference, "every_element") in written


def test_nodes_come_outer_before_inner_in_document_order() -> None:
    definition = every_element().build()
    order = list(definition.nodes)
    written = [element.get("id") for element in etree.fromstring(every_element().to_xml().encode()).iter()]
    assert order == [id for id in written if id in definition.nodes]
