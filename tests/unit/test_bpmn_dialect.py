"""What a diagram means: the shipped process, each element that runs, and public files that were made by other tools."""

from __future__ import annotations

import hashlib
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import tasks  # registers the topics
from engine.bpmn import (
    ElementType,
    FlowNode,
    ProcessDefinition,
    SequenceFlow,
    Static,
    TimerDefinition,
    TimerKind,
    check,
    parse,
)
from engine.errors import DefinitionInvalid
from engine.registry import REGISTRY

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "processes" / "inference-request.bpmn"
DATA = Path(os.environ.get("CONCH_TEST_DATA", ROOT.parent / "shared" / "data"))
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

HEAD = (
    '<bpmn:definitions xmlns:bpmn="http://www.omg.org/spec/BPMN/20100524/MODEL" '
    'xmlns:zeebe="http://camunda.org/schema/zeebe/1.0" xmlns:camunda="http://camunda.org/schema/1.0/bpmn" '
    'xmlns:other="http://example.org/other">'
)


def process(*elements: str, roots: str = "", attributes: str = "") -> bytes:
    content = "".join(elements)
    opening = f'{HEAD}{roots}<bpmn:process id="p" isExecutable="true" {attributes}>'
    return f"{opening}{content}</bpmn:process></bpmn:definitions>".encode()


START, END = '<bpmn:startEvent id="s"/>', '<bpmn:endEvent id="e"/>'
TASK = '<bpmn:extensionElements><zeebe:taskDefinition type="work"/>{}</bpmn:extensionElements>'


def flow(source: str, target: str, content: str = "") -> str:
    opening = f'<bpmn:sequenceFlow id="{source}_{target}" sourceRef="{source}" targetRef="{target}">'
    return f"{opening}{content}</bpmn:sequenceFlow>"


def task(extensions: str = "", content: str = "", attributes: str = "") -> str:
    return (
        f'<bpmn:serviceTask id="t" name="Do\n  it" {attributes}>{TASK.format(extensions)}{content}</bpmn:serviceTask>'
    )


def around_task(*more: str, roots: str = "", **parts: Any) -> ProcessDefinition:
    elements = (START, task(**parts), END, flow("s", "t"), flow("t", "e"), *more)
    (definition,) = parse(process(*elements, roots=roots), "a.bpmn")
    return definition


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


@pytest.mark.parametrize(
    ("kind", "text", "good"),
    [
        ("timeDuration", "PT0.05S", True),
        ("timeDuration", "P1DT2H3M4S", True),
        ("timeDuration", "P1M", False),
        ("timeDuration", "P", False),
        ("timeDuration", "PT", False),
        ("timeDuration", "5 seconds", False),
        ("timeDuration", "", False),
        ("timeDate", "2026-01-31T12:00:00Z", True),
        ("timeDate", "2026-01-31T12:00:00.250+01:00", True),
        ("timeDate", "2026-01-31T12:00:00", False),
        ("timeDate", "tomorrow", False),
        ("timeCycle", "R3/PT1S", False),
    ],
)
def test_timer_constant_must_be_a_date_or_duration(kind: str, text: str, good: bool) -> None:
    event = (
        f'<bpmn:boundaryEvent id="b" attachedToRef="t"><bpmn:timerEventDefinition><bpmn:{kind}>{text}</bpmn:{kind}>'
        "</bpmn:timerEventDefinition></bpmn:boundaryEvent>"
    )
    if good:
        expected = TimerDefinition(TimerKind.DATE if kind == "timeDate" else TimerKind.DURATION, Static(text))
        assert around_task(event, flow("b", "e")).nodes["b"].timer == expected
    else:
        assert problems_around_task(event, flow("b", "e")) == [("invalid-timer", "b")]


@pytest.mark.parametrize("text", ["P1Y", "P1W", "P1M", "P1Y2M3DT4H"])
def test_a_calendar_duration_is_not_called_malformed(text: str) -> None:
    event = (
        '<bpmn:boundaryEvent id="b" attachedToRef="t"><bpmn:timerEventDefinition>'
        f"<bpmn:timeDuration>{text}</bpmn:timeDuration></bpmn:timerEventDefinition></bpmn:boundaryEvent>"
    )
    with pytest.raises(DefinitionInvalid) as refused:
        around_task(event, flow("b", "e"))
    (problem,) = refused.value.problems
    assert "has years, months or weeks, which do not run here" in problem.message


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
        "<bpmn:multiInstanceLoopCharacteristics/>",
        "<bpmn:standardLoopCharacteristics/>",
        "<bpmn:ioSpecification/>",
        "<bpmn:dataInputAssociation/>",
        "<bpmn:property/>",
    ],
)
def test_marker_inside_a_task_is_refused_not_ignored(content: str) -> None:
    assert problems_around_task(content=content) == [("unsupported-element", "t")]


@pytest.mark.parametrize(
    "element",
    [
        "task userTask manualTask scriptTask businessRuleTask sendTask receiveTask callActivity subProcess transaction",
        "adHocSubProcess parallelGateway inclusiveGateway complexGateway eventBasedGateway intermediateThrowEvent",
        "laneSet dataObject dataObjectReference dataStoreReference somethingNew",
    ],
)
def test_element_that_does_not_run_is_refused_by_id_and_name(element: str) -> None:
    for name in element.split():
        with pytest.raises(DefinitionInvalid) as refused:
            around_task(f'<bpmn:{name} id="x" name="X"/>')
        (problem,) = refused.value.problems
        assert (problem.rule, problem.element_id, problem.element_name) == ("unsupported-element", "x", "X")
        assert "does not run yet" in problem.message


@pytest.mark.parametrize("kind", ["message", "signal", "conditional", "escalation", "compensate", "link", "cancel"])
def test_event_of_another_kind_is_refused_everywhere(kind: str) -> None:
    event = f"<bpmn:{kind}EventDefinition/>"
    assert problems_around_task(
        f'<bpmn:boundaryEvent id="b" attachedToRef="t">{event}</bpmn:boundaryEvent>',
        f'<bpmn:intermediateCatchEvent id="c">{event}</bpmn:intermediateCatchEvent>',
        f'<bpmn:endEvent id="n">{event}</bpmn:endEvent>',
        flow("b", "c"),
        flow("c", "n"),
    ) == [("unsupported-element", "b"), ("unsupported-element", "c"), ("unsupported-element", "n")]
    with pytest.raises(DefinitionInvalid) as refused:
        parse(process(f'<bpmn:startEvent id="s">{event}</bpmn:startEvent>', END, flow("s", "e")), "a.bpmn")
    assert [problem.element_id for problem in refused.value.problems] == ["s"]


def test_comments_groups_pools_and_foreign_extensions_are_harmless() -> None:
    definition = around_task(
        "<bpmn:documentation>why</bpmn:documentation>",
        '<bpmn:textAnnotation id="n"><bpmn:text>note</bpmn:text></bpmn:textAnnotation>',
        '<bpmn:association id="a" sourceRef="t" targetRef="n"/>',
        '<bpmn:group id="g" categoryValueRef="c"/>',
        roots='<bpmn:collaboration id="c0"><bpmn:participant id="pool" processRef="p"/></bpmn:collaboration>'
        '<bpmn:category id="c1"/><bpmn:message id="m"/>',
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


# --- other tools ------------------------------------------------------------------------------------------------


def _graph(definition: ProcessDefinition) -> list[object]:
    """A definition without its bytes, places in the file and identities of compiled expressions."""

    def plain(part: object) -> object:
        if isinstance(part, FlowNode | SequenceFlow):
            slots = [slot for slot in part.__slots__ if slot != "source_line"]
            return type(part).__name__, [(slot, plain(getattr(part, slot))) for slot in slots]
        if isinstance(part, tuple):
            return [plain(each) for each in part]
        if hasattr(part, "__slots__") and not isinstance(part, str):
            return [getattr(part, "text", None) or plain(getattr(part, slot)) for slot in part.__slots__]
        return part

    return [plain(part) for part in (*definition.nodes.values(), *definition.flows.values())]


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
    (definition,) = parse(other.encode(), SHIPPED.name)
    assert _graph(definition) == _graph(shipped())


def _public_files() -> list[Path]:
    return sorted((DATA / "bpmn-miwg").rglob("*.bpmn"))


@pytest.mark.skipif(not _public_files(), reason=f"no BPMN MIWG files below {DATA} (set CONCH_TEST_DATA)")
def test_every_public_reference_file_is_read_or_refused_with_reasons() -> None:
    for path in _public_files():
        definitions, problems = check(path.read_bytes(), path.name, None)
        assert definitions or problems
        for problem in problems:
            assert problem.rule != "not-xml", f"{path}: {problem}"
            assert problem.remedy, f"{path}: {problem}"
