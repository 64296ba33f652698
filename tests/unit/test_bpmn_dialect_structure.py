"""How elements may be connected and nested: the rules that Camunda 8 has for the shape of a process."""

from __future__ import annotations

import pytest

from engine.bpmn import ElementType
from tests.dialect_samples import (
    END,
    START,
    beside,
    between,
    element,
    extended,
    flow,
    job,
    node_of,
    problems_of,
    process,
    read_one,
    rules_of,
)

LINK = '<bpmn:linkEventDefinition name="{}"/>'
UNDO = "<bpmn:compensateEventDefinition/>"
SIGNALS = '<bpmn:signal id="g" name="alarm"/><bpmn:signal id="g2" name="alarm"/>'
SIGNAL = '<bpmn:signalEventDefinition signalRef="g"/>'
ANOTHER = SIGNAL.replace('"g"', '"g2"')
TIMER = "<bpmn:timerEventDefinition><bpmn:timeDuration>PT1S</bpmn:timeDuration></bpmn:timerEventDefinition>"


def sub_process(id: str, *inside: str, attributes: str = "") -> str:
    return element("subProcess", id, "".join(inside), attributes)


def inner(id: str, *more: str) -> str:
    """A sub-process with a start, an end and more inside."""
    start, end = f"{id}.s", f"{id}.e"
    content = element("startEvent", start), element("endEvent", end), flow(start, end)
    return sub_process(id, *content, *more)


def catch(id: str, definition: str) -> str:
    return element("intermediateCatchEvent", id, definition)


# --- sub-processes ----------------------------------------------------------------------------------------------


def test_nodes_of_sub_processes_are_flat_and_know_their_parent() -> None:
    definition = read_one(between(inner("x", inner("y", job("deep"))), job("after")))
    assert [(node.id, node.parent) for node in definition.nodes.values()] == [
        ("s", None),
        ("e", None),
        ("x", None),
        ("x.s", "x"),
        ("x.e", "x"),
        ("y", "x"),
        ("y.s", "y"),
        ("y.e", "y"),
        ("deep", "y"),
        ("after", None),
    ]
    assert [node.id for node in definition.children("y")] == ["y.s", "y.e", "deep"]
    assert definition.nodes["y.s"].outgoing == ("y.s_y.e",)


def test_a_sub_process_that_an_event_starts_is_of_its_own_type() -> None:
    start = element("startEvent", "r", TIMER)
    reaction = sub_process("x", start, attributes='triggeredByEvent="true"')
    assert node_of(beside(reaction)).type is ElementType.EVENT_SUB_PROCESS
    assert node_of(between(inner("x"))).type is ElementType.SUB_PROCESS


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        ("", "one-start-event"),
        (element("startEvent", "a") + element("startEvent", "b"), "one-start-event"),
    ],
)
def test_a_sub_process_has_one_start(content: str, rule: str) -> None:
    assert rules_of(between(sub_process("x", content))) == [(rule, "x")]
    timed = content.replace("></", f">{TIMER}</")
    assert rules_of(beside(sub_process("x", timed, attributes='triggeredByEvent="true"'))) == [(rule, "x")]


def test_an_event_sub_process_stands_alone() -> None:
    start = element("startEvent", "r", TIMER)
    reaction = sub_process("x", start, attributes='triggeredByEvent="true"')
    assert rules_of(between(reaction)) == [("incoming-flow", "x"), ("outgoing-flow", "x")]
    border = element("boundaryEvent", "b", TIMER, 'attachedToRef="x"')
    assert rules_of(beside(reaction, border, flow("b", "e"))) == [("dangling-boundary-event", "b")]


def test_a_flow_may_not_cross_the_border_of_a_sub_process() -> None:
    assert rules_of(between(inner("x"), job("t"), flow("x.s", "t"))) == [("flow-crosses-border", "x.s_t")]
    border = element("boundaryEvent", "b", TIMER, 'attachedToRef="t"')
    moved = between(inner("x", border, flow("b", "x.e")), job("t"))
    assert rules_of(moved) == [("dangling-boundary-event", "b")]


def test_what_does_not_run_inside_a_sub_process_is_refused_by_its_own_name() -> None:
    refused = element("transaction", "deal", element("task", "inside"))
    found = [*rules_of(between(inner("x", refused, flow("x.s", "deal"), flow("inside", "deal"))))]
    assert found == [("unsupported-element", "deal")]
    assert rules_of(between(inner("x", "<bpmn:standardLoopCharacteristics/>"))) == [("unsupported-element", "x")]


def test_fifty_nested_sub_processes_are_read() -> None:
    content = job("deep")
    for number in range(50):
        content = sub_process(f"n{number}", element("startEvent", f"s{number}"), content)
    definition = read_one(process(START, content))
    assert definition.nodes["deep"].parent == "n0"
    assert definition.nodes["n49"].parent is None


# --- starts -----------------------------------------------------------------------------------------------------


def test_a_process_starts_by_itself_or_by_events() -> None:
    event = element("startEvent", "x", SIGNAL)
    both = read_one(process(event, START, END, flow("s", "e"), flow("x", "e"), roots=SIGNALS))
    assert both.start_id == "s"
    only = read_one(process(event, END, flow("x", "e"), roots=SIGNALS))
    assert only.start_id == ""
    assert rules_of(process(END)) == [("one-start-event", "p")]
    assert rules_of(process(START, element("startEvent", "x"), END, flow("s", "e"), flow("x", "e"))) == [
        ("one-start-event", "p")
    ]


def test_a_start_that_cannot_be_read_is_not_taken_for_a_plain_one() -> None:
    broken = element("startEvent", "x", SIGNAL)
    assert rules_of(process(START, broken, END, flow("s", "e"), flow("x", "e"))) == [("invalid-signal-reference", "x")]


# --- flows and gateways -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("tag", ["exclusiveGateway", "inclusiveGateway"])
def test_conditions_and_a_default_leave_gateways_that_choose(tag: str) -> None:
    condition = "<bpmn:conditionExpression>=a</bpmn:conditionExpression>"
    gateway = element(tag, "x", attributes='default="x_e"')
    definition = read_one(between(gateway, job("t"), flow("x", "t", condition)))
    assert definition.nodes["x"].default_flow == "x_e"
    assert rules_of(between(element(tag, "x", attributes='default="s_x"'))) == [("invalid-default-flow", "x")]


@pytest.mark.parametrize("tag", ["parallelGateway", "task", "intermediateThrowEvent"])
def test_conditions_and_a_default_elsewhere_are_refused(tag: str) -> None:
    condition = "<bpmn:conditionExpression>=a</bpmn:conditionExpression>"
    conditional = between(element(tag, "x"), job("t"), flow("x", "t", condition))
    assert rules_of(conditional) == [("condition-without-gateway", "x")]
    assert rules_of(between(element(tag, "x", attributes='default="x_e"'))) == [("default-flow-without-gateway", "x")]


@pytest.mark.parametrize("tag", ["task", "parallelGateway", "startEvent"])
def test_several_flows_may_leave_any_element(tag: str) -> None:
    if tag == "startEvent":
        definition = read_one(process(START, END, job("t"), flow("s", "e"), flow("s", "t")))
        assert definition.nodes["s"].outgoing == ("s_e", "s_t")
    else:
        definition = read_one(between(element(tag, "x"), job("t"), flow("x", "t")))
        assert definition.nodes["x"].outgoing == ("x_e", "x_t")


def event_gateway(*targets: str, attributes: str = "") -> str:
    return element("eventBasedGateway", "x", attributes=attributes) + "".join(targets)


def test_an_event_based_gateway_leads_to_two_events_that_are_its_own() -> None:
    waits, hears = catch("w", TIMER), catch("h", SIGNAL)
    flows = flow("s", "x"), flow("x", "w"), flow("w", "e")
    hearing = flow("x", "h"), flow("h", "e")
    good = process(START, END, event_gateway(waits, hears), *flows, *hearing, roots=SIGNALS)
    assert node_of(good).outgoing == ("x_w", "x_h")
    alone = process(START, END, event_gateway(waits), *flows)
    to_task = process(START, END, event_gateway(waits, job("h")), *flows, *hearing)
    shared = process(START, END, event_gateway(waits, hears), *flows, *hearing, flow("s", "h"), roots=SIGNALS)
    starting = event_gateway(waits, hears, attributes='instantiate="true"')
    for xml, rule in (
        (alone, "event-based-gateway"),
        (to_task, "event-based-gateway"),
        (shared, "event-based-gateway"),
        (process(START, END, starting, *flows, *hearing, roots=SIGNALS), "unsupported-element"),
    ):
        assert rules_of(xml) == [(rule, "x")]
    twice = process(START, END, event_gateway(catch("w", ANOTHER), hears), *flows, *hearing, roots=SIGNALS)
    assert rules_of(twice) == [("duplicate-catch", "h")]


# --- two handlers of one event ----------------------------------------------------------------------------------


def test_two_events_at_one_place_may_not_catch_the_same() -> None:
    borders = [element("boundaryEvent", id, each, 'attachedToRef="t"') for id, each in (("a", SIGNAL), ("b", ANOTHER))]
    xml = beside(*borders, flow("a", "e"), flow("b", "e"), roots=SIGNALS)
    assert rules_of(xml) == [("duplicate-catch", "b")]
    starts = [element("startEvent", id, each) for id, each in (("a", SIGNAL), ("b", ANOTHER))]
    assert rules_of(process(*starts, END, flow("a", "e"), flow("b", "e"), roots=SIGNALS)) == [("duplicate-catch", "b")]
    reactions = [
        sub_process(f"{n}{n}", each, attributes='triggeredByEvent="true"') for n, each in zip("ab", starts, strict=True)
    ]
    assert rules_of(beside(*reactions, roots=SIGNALS)) == [("duplicate-catch", "b")]


def test_two_escalations_of_one_code_at_one_place_are_refused_and_one_beside_a_catch_all_is_not() -> None:
    root = '<bpmn:escalation id="l" escalationCode="LATE"/>'
    coded, every = '<bpmn:escalationEventDefinition escalationRef="l"/>', "<bpmn:escalationEventDefinition/>"

    def both(first: str, second: str) -> bytes:
        borders = [
            element("boundaryEvent", id, each, 'attachedToRef="x"') for id, each in (("a", first), ("b", second))
        ]
        return between(inner("x"), *borders, flow("a", "e"), flow("b", "e"), roots=root)

    assert len(read_one(both(coded, every)).nodes) == 7
    assert rules_of(both(coded, coded)) == rules_of(both(every, every)) == [("duplicate-catch", "b")]


# --- links ------------------------------------------------------------------------------------------------------


def linked(*ends: str, more: str = "") -> bytes:
    begin = element("intermediateThrowEvent", "x", LINK.format("there"))
    events = [catch(f"c{n}", LINK.format(name)) + flow(f"c{n}", "e") for n, name in enumerate(ends)]
    return process(START, END, begin, flow("s", "x"), *events, more)


def test_a_link_has_one_end_with_its_name_in_the_same_scope() -> None:
    assert len(read_one(linked("there")).nodes) == 4
    again = element("intermediateThrowEvent", "again", LINK.format("there")) + flow("s", "again")
    assert len(read_one(linked("there", more=again)).nodes) == 5
    assert rules_of(linked()) == [("invalid-link", "x")]
    assert rules_of(linked("there", "there")) == [("invalid-link", "c1")]
    assert rules_of(linked("there", "elsewhere")) == [("invalid-link", "c1")]
    hidden = inner("sub", catch("c", LINK.format("there"))) + flow("s", "sub")
    assert rules_of(linked(more=hidden)) == [("invalid-link", "x"), ("invalid-link", "c")]


def test_no_flow_leads_from_the_beginning_or_to_the_end_of_a_link() -> None:
    assert rules_of(linked("there", more=flow("x", "e") + flow("s", "c0"))) == [
        ("outgoing-flow", "x"),
        ("incoming-flow", "c0"),
    ]


def test_a_link_without_a_name_is_refused() -> None:
    begin = element("intermediateThrowEvent", "x", "<bpmn:linkEventDefinition/>")
    assert rules_of(process(START, begin, flow("s", "x"))) == [("invalid-link", "x")]


# --- compensation -----------------------------------------------------------------------------------------------

BORDER = element("boundaryEvent", "b", UNDO, 'attachedToRef="t"')
HANDLER = job("undo", attributes='isForCompensation="true"')
TIE = '<bpmn:association id="tie" sourceRef="b" targetRef="undo"/>'


def thrown(activity: str = "") -> str:
    reference = f'activityRef="{activity}"' if activity else ""
    return element("endEvent", "x", f"<bpmn:compensateEventDefinition {reference}/>")


def test_compensation_ties_an_activity_to_the_one_that_undoes_it() -> None:
    definition = read_one(beside(BORDER, HANDLER, TIE))
    assert definition.nodes["b"].handler == "undo"
    assert (definition.nodes["undo"].for_compensation, definition.nodes["t"].for_compensation) == (True, False)


@pytest.mark.parametrize(
    "parts",
    [
        (BORDER, HANDLER),
        (BORDER, HANDLER, TIE.replace('"undo"', '"gone"')),
        (BORDER, job("undo"), TIE),
        (BORDER, inner("sub", HANDLER), TIE),
        (HANDLER,),
        (BORDER, HANDLER, TIE, job("undo2", attributes='isForCompensation="true"'), TIE.replace("undo", "undo2")),
        (BORDER, HANDLER, TIE, BORDER.replace('"b"', '"b2"'), TIE.replace('"b"', '"b2"').replace("tie", "tie2")),
    ],
)
def test_compensation_that_leads_nowhere_or_to_several_is_refused(parts: tuple[str, ...]) -> None:
    assert "invalid-compensation" in {problem.rule for problem in problems_of(beside(*parts))}


def test_no_flow_leads_to_or_from_what_compensates_and_nothing_is_attached_to_it() -> None:
    xml = beside(BORDER, HANDLER, TIE, flow("t", "undo"), flow("undo", "e"), flow("b", "e"))
    assert rules_of(xml) == [("outgoing-flow", "b"), ("incoming-flow", "undo"), ("outgoing-flow", "undo")]
    attached = element("boundaryEvent", "late", TIMER, 'attachedToRef="undo"')
    assert rules_of(beside(BORDER, HANDLER, TIE, attached, flow("late", "e"))) == [("dangling-boundary-event", "late")]


@pytest.mark.parametrize(
    ("activity", "good"), [("", True), ("t", True), ("sub", True), ("gone", False), ("other", False), ("deep", False)]
)
def test_compensation_is_thrown_for_an_activity_that_can_be_undone(activity: str, good: bool) -> None:
    more = job("other"), inner("sub", job("deep")), flow("t", "x")
    xml = beside(BORDER, HANDLER, TIE, *more, thrown(activity))
    if good:
        event = node_of(xml).event
        assert event is not None
        assert event.activity_ref == (activity or None)
    else:
        assert rules_of(xml) == [("invalid-compensation", "x")]


def test_compensation_that_is_not_waited_for_is_refused() -> None:
    event = thrown().replace("EventDefinition", 'EventDefinition waitForCompletion="false"', 1)
    assert rules_of(beside(event, flow("t", "x"))) == [("invalid-compensation", "x")]


# --- names and ids in any script --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "審査",
        "проверка",
        "\u05d1\u05d3\u05d9\u05e7\u05d4",
        "\u202eevil\u202c",
        "🛫-🛬",
        "e\u0301",
        "x" * 10_000,
        "a.b-c_d",
    ],
    ids=["han", "cyrillic", "hebrew", "overridden", "emoji", "combining", "long", "marks"],
)
def test_ids_and_names_in_any_script_are_kept_as_they_are(text: str) -> None:
    xml = process(START, END, job(text, attributes=f'name="{text}"'), flow("s", text), flow(text, "e"))
    node = read_one(xml).nodes[text]
    assert (node.id, node.name, node.incoming) == (text, text, (f"s_{text}",))


def test_an_id_that_is_used_twice_is_refused_wherever_it_stands() -> None:
    assert rules_of(between(inner("x", job("s")))) == [("duplicate-id", "s")]
    twice = between(job("x"), sub_process("x", element("startEvent", "inside"), element("transaction", "deal")))
    assert rules_of(twice) == [("duplicate-id", "x"), ("unsupported-element", "deal")]
    words = extended('<zeebe:userTaskForm id="s">{}</zeebe:userTaskForm>')
    assert rules_of(process(words, START, END, flow("s", "e"))) == [("duplicate-id", "s")]
