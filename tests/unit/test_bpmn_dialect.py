"""What a diagram means: the shipped process, what all elements share, and the same diagram from other tools."""

from __future__ import annotations

import hashlib
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import tasks  # registers the topics
from engine.bpmn import ElementType, ProcessDefinition, Static, TimerKind, check, parse
from engine.errors import DefinitionInvalid
from engine.registry import REGISTRY
from tests.dialect_samples import END, START, file_of, flow, plain, process, read_one, rules_of
from tests.every_element import every_element

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "processes" / "inference-request.bpmn"
TOPICS = ["admit", "check_health", "route", "infer", "settle", "fall_back"]


def shipped() -> ProcessDefinition:
    (definition,) = parse(SHIPPED.read_bytes(), SHIPPED.name)
    return definition


def test_shipped_process_has_no_problem_and_no_warning() -> None:
    assert tasks.infer is not None
    (definition,), problems = check(SHIPPED.read_bytes(), SHIPPED.name, REGISTRY.specs, serves_route=True)
    assert problems == []
    assert definition.content_hash == hashlib.sha256(SHIPPED.read_bytes()).hexdigest()


def test_shipped_process_has_eight_flow_nodes_on_the_happy_path() -> None:
    definition = shipped()
    path = [definition.start_id]
    while definition.nodes[path[-1]].outgoing:
        node = definition.nodes[path[-1]]
        flow = node.default_flow or node.outgoing[0]
        path.append(definition.flows[flow].target)
    assert path == [
        "request_received",
        "admit",
        "check_health",
        "route",
        "infer",
        "settle",
        "succeeded",
        "answered",
    ]


def test_shipped_tasks_are_served_and_never_tried_twice_by_their_job() -> None:
    nodes = shipped().nodes.values()
    assert {node.id: (node.topic, node.retries) for node in nodes if node.topic} == {t: (t, 1) for t in TOPICS}


def test_shipped_errors_and_deadline_are_caught_where_the_picture_shows_them() -> None:
    nodes = shipped().nodes
    catching = {node.attached_to: node.id for node in nodes.values() if node.catches_error}
    assert catching == {"admit": "not_admitted", "route": "no_replica", "infer": "attempt_failed"}
    assert all(nodes[node_id].error_code is None for node_id in catching.values())
    deadline = nodes["deadline_reached"]
    assert (deadline.type, deadline.attached_to, deadline.interrupting) == (ElementType.BOUNDARY_EVENT, "infer", True)
    assert deadline.timer is not None
    assert deadline.timer.kind is TimerKind.DATE
    assert [mapping.target for mapping in deadline.outputs] == ["error"]


# --- one element at a time --------------------------------------------------------------------------------------

TASK = '<bpmn:extensionElements><zeebe:taskDefinition type="work"/>{}</bpmn:extensionElements>'


def task(extensions: str = "", content: str = "", attributes: str = "") -> str:
    return (
        f'<bpmn:serviceTask id="t" name="Do\n  it" {attributes}>{TASK.format(extensions)}{content}</bpmn:serviceTask>'
    )


def around_task(*more: str, roots: str = "", **parts: Any) -> ProcessDefinition:
    elements = (START, task(**parts), END, flow("s", "t"), flow("t", "e"), *more)
    return read_one(process(*elements, roots=roots))


def problems_around_task(*more: str, roots: str = "", **parts: Any) -> list[tuple[str, str]]:
    with pytest.raises(DefinitionInvalid) as refused:
        around_task(*more, roots=roots, **parts)
    return [(problem.rule, problem.element_id) for problem in refused.value.problems]


def test_service_task_keeps_topic_headers_mappings_and_default_retries() -> None:
    definition = around_task(
        extensions='<zeebe:taskHeaders><zeebe:header key="k" value="v"/></zeebe:taskHeaders>'
        '<zeebe:ioMapping><zeebe:input source="=a + 1" target="b"/><zeebe:input source="text" target="c"/>'
        '<zeebe:output source="=d" target="e.f"/></zeebe:ioMapping>'
        '<zeebe:properties><zeebe:property name="note" value="for tools"/></zeebe:properties>'
    )
    node = definition.nodes["t"]
    assert (node.name, node.topic, node.retries, node.headers) == ("Do it", "work", 3, {"k": "v"})
    computed, constant = node.inputs
    assert not isinstance(computed.source, Static)
    assert (computed.target, computed.source.text) == ("b", "a + 1")
    assert (constant.target, constant.source) == ("c", Static("text"))
    assert [mapping.target for mapping in node.outputs] == ["e.f"]
    assert (node.incoming, node.outgoing) == (("s_t",), ("t_e",))


def test_error_boundary_event_catches_the_code_of_its_error() -> None:
    roots = '<bpmn:error id="Error_1" name="Full" errorCode="QUEUE_FULL"/>'
    event = (
        '<bpmn:boundaryEvent id="b" attachedToRef="t"><bpmn:errorEventDefinition errorRef="{}"/></bpmn:boundaryEvent>'
    )
    for reference in ("Error_1", "any:Error_1"):
        node = around_task(event.format(reference), flow("b", "e"), roots=roots).nodes["b"]
        assert (node.catches_error, node.error_code, node.attached_to) == (True, "QUEUE_FULL", "t")
    assert problems_around_task(event.format("Error_2"), flow("b", "e"), roots=roots) == [
        ("invalid-error-reference", "b")
    ]
    for code in ('errorCode="=code"', 'errorCode=""', ""):
        broken = f'<bpmn:error id="Error_1" {code}/>'
        assert problems_around_task(event.format("Error_1"), flow("b", "e"), roots=broken) == [
            ("invalid-error-reference", "b")
        ]


def test_branches_stay_in_document_order_and_conditions_are_compiled() -> None:
    elements = [START, '<bpmn:exclusiveGateway id="g" default="g_e3"/>', flow("s", "g")]
    for number in (3, 1, 2):
        condition = "" if number == 3 else f"<bpmn:conditionExpression> =a = {number} </bpmn:conditionExpression>"
        elements += [f'<bpmn:endEvent id="e{number}"/>', flow("g", f"e{number}", condition)]
    (definition,) = parse(process(*elements), "a.bpmn")
    assert definition.nodes["g"].outgoing == ("g_e3", "g_e1", "g_e2")
    assert definition.nodes["g"].default_flow == "g_e3"
    condition = definition.flows["g_e1"].condition
    assert condition is not None
    assert condition.text == "a = 1"
    assert condition.evaluate({"a": 1}) is True


def test_chain_of_a_thousand_tasks_is_read() -> None:
    tasks = [f'<bpmn:serviceTask id="t{n}">{TASK.format("")}</bpmn:serviceTask>' for n in range(1000)]
    ids = ["s", *(f"t{n}" for n in range(1000)), "e"]
    flows = [flow(source, target) for source, target in pairwise(ids)]
    (definition,) = parse(process(START, *tasks, END, *flows), "a.bpmn")
    assert len(definition.nodes) == 1002


@pytest.mark.parametrize(
    "content",
    [
        "<bpmn:standardLoopCharacteristics/>",
        "<bpmn:potentialOwner/>",
        "<bpmn:dataInputAssociation><bpmn:assignment/></bpmn:dataInputAssociation>",
        "<bpmn:dataOutputAssociation><bpmn:transformation/></bpmn:dataOutputAssociation>",
        "<bpmn:timerEventDefinition/>",
        "<bpmn:somethingNew/>",
    ],
)
def test_what_stands_inside_a_task_and_would_be_passed_over_is_refused(content: str) -> None:
    assert problems_around_task(content=content) == [("unsupported-element", "t")]


@pytest.mark.parametrize(
    "name", ["adHocSubProcess", "transaction", "complexGateway", "choreographyTask", "somethingNew"]
)
def test_element_that_does_not_run_is_refused_by_id_and_name(name: str) -> None:
    with pytest.raises(DefinitionInvalid) as refused:
        around_task(f'<bpmn:{name} id="x" name="X"><bpmn:task id="y"/></bpmn:{name}>', flow("t", "x"))
    (problem,) = refused.value.problems
    assert (problem.rule, problem.element_id, problem.element_name) == ("unsupported-element", "x", "X")
    assert "does not run here" in problem.message


def test_drawing_and_foreign_extensions_are_harmless() -> None:
    definition = around_task(
        '<bpmn:laneSet id="lanes"><bpmn:lane id="lane"/></bpmn:laneSet>',
        '<bpmn:dataObject id="d"/><bpmn:dataObjectReference id="dr" dataObjectRef="d"/>',
        '<bpmn:dataStoreReference id="ds"/>',
        "<bpmn:documentation>why</bpmn:documentation>",
        '<bpmn:textAnnotation id="n"><bpmn:text>note</bpmn:text></bpmn:textAnnotation>',
        '<bpmn:association id="a" sourceRef="t" targetRef="n"/>',
        '<bpmn:group id="g" categoryValueRef="c"/>',
        roots='<bpmn:collaboration id="c0"><bpmn:participant id="pool" processRef="p"/></bpmn:collaboration>'
        '<bpmn:category id="c1"/><bpmn:message id="m"/><bpmn:dataStore id="store"/>',
        content='<bpmn:property id="pr"/><bpmn:ioSpecification/>'
        "<bpmn:dataInputAssociation><bpmn:sourceRef>dr</bpmn:sourceRef></bpmn:dataInputAssociation>",
        extensions="<other:thing/>",
        attributes='zeebe:modelerTemplate="x" zeebe:modelerTemplateVersion="1" '
        'zeebe:modelerTemplateIcon="i" other:a="b"',
    )
    assert list(definition.nodes) == ["s", "t", "e"]


def test_unknown_zeebe_word_on_a_running_element_is_refused() -> None:
    assert problems_around_task(extensions="<zeebe:script/>", attributes='zeebe:brandNew="1"') == [
        ("unsupported-extension", "t"),
        ("unsupported-extension", "t"),
    ]


def test_camunda_7_words_are_refused_where_they_stand() -> None:
    extension = '<camunda:inputOutput><camunda:inputParameter name="a">b</camunda:inputParameter></camunda:inputOutput>'
    with pytest.raises(DefinitionInvalid) as refused:
        around_task(extensions=extension, attributes='camunda:asyncBefore="true" camunda:neverHeardOf="1"')
    assert [problem.remedy for problem in refused.value.problems] == [
        "The Camunda 8 equivalent is nothing: remove it.",
        "The Camunda 8 equivalent is no equivalent: remove it.",
        "The Camunda 8 equivalent is zeebe:ioMapping.",
    ]


def test_version_tag_and_process_name_are_read() -> None:
    tag = '<bpmn:extensionElements><zeebe:versionTag value="2.1"/></bpmn:extensionElements>'
    (definition,) = parse(process(tag, START, END, flow("s", "e"), attributes='name="A  B"'), "a.bpmn")
    assert (definition.process_id, definition.name, definition.version_tag) == ("p", "A B", "2.1")
    assert definition.start_variables is None


def test_several_executable_processes_are_read_in_the_order_of_the_file() -> None:
    def one(id: str, tail: str) -> str:
        content = f'<bpmn:startEvent id="s{tail}"/><bpmn:endEvent id="e{tail}"/>{flow(f"s{tail}", f"e{tail}")}'
        return f'<bpmn:process id="{id}" isExecutable="true">{content}</bpmn:process>'

    partner = '<bpmn:process id="partner"><bpmn:userTask id="u"/><bpmn:transaction id="tr"/></bpmn:process>'
    definitions = parse(file_of(one("first", ""), partner, one("second", "2")), "a.bpmn")
    assert [(each.process_id, list(each.nodes), each.start_id) for each in definitions] == [
        ("first", ["s", "e"], "s"),
        ("second", ["s2", "e2"], "s2"),
    ]
    assert len({each.content_hash for each in definitions}) == 1


def test_problems_of_all_processes_come_at_once() -> None:
    processes = [
        f'<bpmn:process id="p{n}" isExecutable="true"><bpmn:transaction id="t{n}"/></bpmn:process>' for n in "12"
    ]
    assert rules_of(file_of(*processes)) == [
        ("unsupported-element", "t1"),
        ("one-start-event", "p1"),
        ("unsupported-element", "t2"),
        ("one-start-event", "p2"),
    ]


# --- other tools ------------------------------------------------------------------------------------------------


def test_a_definition_that_is_written_and_read_again_is_the_same() -> None:
    diagram = every_element()
    assert plain(read_one(diagram.to_xml().encode())) == plain(diagram.build())


def test_a_save_in_another_style_means_the_same() -> None:
    """Another prefix for BPMN, one line, single quotes, a comment: what other editors make of the same diagram."""
    text = SHIPPED.read_text(encoding="utf-8")
    other = (
        text.replace("<bpmn:", "<semantic:").replace("</bpmn:", "</semantic:").replace("xmlns:bpmn=", "xmlns:semantic=")
    )
    other = other.replace('type="bpmn:', 'type="semantic:')
    other = "".join(line.strip() + " " for line in other.splitlines()).replace(
        "<semantic:process", "<!-- x --><semantic:process"
    )
    assert plain(read_one(other.encode())) == plain(shipped())
