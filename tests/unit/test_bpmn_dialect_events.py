"""What an event means at each place, and why one that cannot run is refused."""

from __future__ import annotations

from typing import Any

import pytest

from engine.bpmn import Static, TimerDefinition, TimerKind
from engine.bpmn.definition import EventDefinition, EventKind
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
    plain,
    problems_of,
    process,
    rules_of,
)

KEYED = '<bpmn:message id="m" name="paid"><bpmn:extensionElements><zeebe:subscription correlationKey="=order"/>'
KEYED += "</bpmn:extensionElements></bpmn:message>"
ROOTS = (
    f'{KEYED}<bpmn:message id="bare" name="bare"/><bpmn:signal id="g" name="alarm"/>'
    '<bpmn:error id="r" errorCode="BROKEN"/><bpmn:escalation id="l" escalationCode="LATE"/>'
)
DEFINITIONS = {
    EventKind.TIMER: "<bpmn:timerEventDefinition><bpmn:timeDate>=at</bpmn:timeDate></bpmn:timerEventDefinition>",
    EventKind.MESSAGE: '<bpmn:messageEventDefinition messageRef="m"/>',
    EventKind.SIGNAL: '<bpmn:signalEventDefinition signalRef="g"/>',
    EventKind.CONDITIONAL: "<bpmn:conditionalEventDefinition><bpmn:condition>=a</bpmn:condition>"
    "</bpmn:conditionalEventDefinition>",
    EventKind.ERROR: '<bpmn:errorEventDefinition errorRef="r"/>',
    EventKind.ESCALATION: '<bpmn:escalationEventDefinition escalationRef="l"/>',
    EventKind.COMPENSATION: "<bpmn:compensateEventDefinition/>",
    EventKind.LINK: '<bpmn:linkEventDefinition name="there"/>',
    EventKind.TERMINATE: "<bpmn:terminateEventDefinition/>",
}
TIMER, MESSAGE, SIGNAL, CONDITIONAL = EventKind.TIMER, EventKind.MESSAGE, EventKind.SIGNAL, EventKind.CONDITIONAL
ERROR, ESCALATION, COMPENSATION = EventKind.ERROR, EventKind.ESCALATION, EventKind.COMPENSATION
LINK, TERMINATE = EventKind.LINK, EventKind.TERMINATE


def boundary(content: str, attributes: str = "", id: str = "x") -> str:
    return element("boundaryEvent", id, content, f'attachedToRef="t" {attributes}')


def reaction(content: str, attributes: str = "") -> str:
    """An event sub-process whose start is `x`."""
    inside = element("startEvent", "x", content, attributes) + element("endEvent", "re") + flow("x", "re")
    return element("subProcess", "sub", inside, 'triggeredByEvent="true"')


def placed(place: str, content: str) -> bytes:
    match place:
        case "start":
            return process(element("startEvent", "x", content), END, flow("x", "e"), roots=ROOTS)
        case "sub-process start":
            inside = element("startEvent", "x", content) + element("endEvent", "re") + flow("x", "re")
            return between(element("subProcess", "sub", inside), roots=ROOTS, id="sub")
        case "event sub-process start":
            return beside(reaction(content), roots=ROOTS)
        case "boundary":
            handled = job("undo", "", 'isForCompensation="true"')
            handled += '<bpmn:association id="tie" sourceRef="x" targetRef="undo"/>'
            return beside(boundary(content), handled if "compensate" in content else flow("x", "e"), roots=ROOTS)
        case "catch":
            other = element("intermediateThrowEvent", "o", DEFINITIONS[LINK]) + flow("s", "o")
            into = other if "link" in content else flow("s", "x")
            return process(
                START, element("intermediateCatchEvent", "x", content), END, flow("x", "e"), into, roots=ROOTS
            )
        case "throw":
            other = element("intermediateCatchEvent", "o", DEFINITIONS[LINK]) + flow("o", "e")
            on = other if "link" in content else flow("x", "e")
            event = element("intermediateThrowEvent", "x", worded(content))
            return process(START, event, END, flow("s", "x"), on, roots=ROOTS)
        case _:
            return process(START, element("endEvent", "x", worded(content)), flow("s", "x"), roots=ROOTS)


def worded(content: str) -> str:
    """A message that is thrown needs a topic."""
    return extended('<zeebe:taskDefinition type="send"/>') + content if "message" in content else content


RUNS: dict[str, set[EventKind | None]] = {
    "start": {None, TIMER, MESSAGE, SIGNAL},
    "sub-process start": {None},
    "event sub-process start": {TIMER, MESSAGE, SIGNAL, CONDITIONAL, ERROR, ESCALATION},
    "boundary": {TIMER, MESSAGE, SIGNAL, CONDITIONAL, ERROR, COMPENSATION},  # escalation: below
    "catch": {TIMER, MESSAGE, SIGNAL, CONDITIONAL, LINK},
    "throw": {None, MESSAGE, SIGNAL, ESCALATION, COMPENSATION, LINK},
    "end": {None, MESSAGE, SIGNAL, ERROR, ESCALATION, COMPENSATION, TERMINATE},
}


@pytest.mark.parametrize("place", RUNS)
@pytest.mark.parametrize("kind", [None, *EventKind], ids=lambda kind: "none" if kind is None else kind.value)
def test_at_each_place_the_kinds_of_camunda_8_run_and_all_others_are_refused(
    place: str, kind: EventKind | None
) -> None:
    xml = placed(place, "" if kind is None else DEFINITIONS[kind])
    if kind in RUNS[place]:
        assert node_of(xml).event_kind is kind
    elif (place, kind) == ("boundary", ESCALATION):
        assert rules_of(xml) == [("dangling-boundary-event", "x")]  # a task cannot escalate
    else:
        assert ("unsupported-element", "x") in rules_of(xml)


@pytest.mark.parametrize("place", RUNS)
@pytest.mark.parametrize(
    "word", ["<bpmn:cancelEventDefinition/>", "<bpmn:eventDefinitionRef>m</bpmn:eventDefinitionRef>"]
)
def test_events_of_transactions_and_shared_definitions_are_refused_everywhere(place: str, word: str) -> None:
    assert ("unsupported-element", "x") in rules_of(placed(place, word))


def test_an_event_with_two_symbols_is_refused_with_what_runs() -> None:
    (problem,) = problems_of(placed("catch", DEFINITIONS[TIMER] + DEFINITIONS[SIGNAL]))
    assert problem.message == "the intermediate catch event with the symbol timer and signal does not run here"
    assert problem.remedy == "What runs there: conditional, link, message, signal, timer."


# --- what each kind says ----------------------------------------------------------------------------------------


def event_of(place: str, kind: EventKind) -> Any:
    event = node_of(placed(place, DEFINITIONS[kind])).event
    assert isinstance(event, EventDefinition)
    return {key: value for key, value in plain(event).items() if value is not None}


def test_a_message_has_a_name_and_to_be_caught_a_key_but_no_key_before_a_process_begins() -> None:
    name = {"text": "paid"}
    keyed = {"kind": MESSAGE, "name": name, "correlation_key": "=order"}
    assert event_of("catch", MESSAGE) == event_of("boundary", MESSAGE) == keyed
    assert event_of("event sub-process start", MESSAGE) == keyed
    assert event_of("start", MESSAGE) == event_of("throw", MESSAGE) == {"kind": MESSAGE, "name": name}


def test_what_else_each_kind_says() -> None:
    assert event_of("catch", SIGNAL) == event_of("end", SIGNAL) == {"kind": SIGNAL, "name": {"text": "alarm"}}
    assert event_of("boundary", ERROR) == event_of("end", ERROR) == {"kind": ERROR, "code": "BROKEN"}
    assert event_of("throw", ESCALATION) == {"kind": ESCALATION, "code": "LATE"}
    assert event_of("catch", CONDITIONAL) == {"kind": CONDITIONAL, "condition": "=a"}
    assert event_of("throw", LINK) == {"kind": LINK, "link": "there"}
    assert event_of("end", TERMINATE) == {"kind": TERMINATE}
    assert event_of("throw", COMPENSATION) == {"kind": COMPENSATION}


def test_a_name_may_be_an_expression_except_before_a_process_begins() -> None:
    named = '<bpmn:signal id="g" name="= &quot;a&quot; + b"/>'
    signal = '<bpmn:signalEventDefinition signalRef="g"/>'
    xml = between(element("intermediateCatchEvent", "x", signal), roots=named)
    assert plain(node_of(xml).event)["name"] == '="a" + b'
    started = process(element("startEvent", "x", signal), END, flow("x", "e"), roots=named)
    assert rules_of(started) == [("invalid-signal-reference", "x")]
    message = '<bpmn:messageEventDefinition messageRef="m"/>'
    started = process(
        element("startEvent", "x", message), END, flow("x", "e"), roots='<bpmn:message id="m" name="=a"/>'
    )
    assert rules_of(started) == [("invalid-message-reference", "x")]


def test_an_event_without_a_code_catches_every_code() -> None:
    assert node_of(beside(boundary("<bpmn:errorEventDefinition/>"), flow("x", "e"))).error_code is None
    node = node_of(beside(reaction("<bpmn:escalationEventDefinition/>")))
    assert node.event == EventDefinition(ESCALATION)


@pytest.mark.parametrize(
    ("word", "kind", "root", "rule"),
    [
        ("message", "intermediateCatchEvent", "", "invalid-message-reference"),
        ("message", "intermediateCatchEvent", '<bpmn:message id="it"/>', "invalid-message-reference"),
        ("message", "intermediateCatchEvent", '<bpmn:message id="it" name="a"/>', "missing-correlation-key"),
        ("message", "intermediateCatchEvent", '<bpmn:message id="it" name="=(("/>', "feel-syntax"),
        ("signal", "intermediateCatchEvent", "", "invalid-signal-reference"),
        ("signal", "intermediateThrowEvent", '<bpmn:signal id="it" name=" "/>', "invalid-signal-reference"),
        ("error", "endEvent", "", "invalid-error-reference"),
        ("error", "endEvent", '<bpmn:error id="it" errorCode="=code"/>', "invalid-error-reference"),
        ("escalation", "endEvent", '<bpmn:escalation id="it"/>', "invalid-escalation-reference"),
        ("escalation", "intermediateThrowEvent", "", "invalid-escalation-reference"),
    ],
)
def test_what_an_event_refers_to_must_be_declared_and_say_enough(word: str, kind: str, root: str, rule: str) -> None:
    for reference in ("", f'{word}Ref="it"'):
        content = f"<bpmn:{word}EventDefinition {reference}/>"
        xml = process(START, element(kind, "x", content), flow("s", "x"), roots=root)
        expected = rule if reference and root else f"invalid-{word}-reference"
        assert (expected, "x") in rules_of(xml)


def test_a_key_that_is_no_expression_is_refused() -> None:
    root = KEYED.replace("=order", "order")
    xml = between(element("intermediateCatchEvent", "x", DEFINITIONS[MESSAGE]), roots=root)
    assert rules_of(xml) == [("expression-not-feel", "x")]


def test_a_filter_of_a_condition_is_refused_not_passed_over() -> None:
    words = extended('<zeebe:conditionalFilter variableNames="a"/>')
    content = DEFINITIONS[CONDITIONAL].replace("<bpmn:condition>", f"{words}<bpmn:condition>")
    assert rules_of(between(element("intermediateCatchEvent", "x", content))) == [("unsupported-extension", "x")]


def test_a_word_at_a_message_that_would_not_run_is_refused_once() -> None:
    root = KEYED.replace("<zeebe:subscription", "<zeebe:publishMessage/><zeebe:subscription")
    events = [element("intermediateCatchEvent", id, DEFINITIONS[MESSAGE]) for id in ("x", "y")]
    assert rules_of(between(*events, flow("x", "y"), roots=root)) == [("unsupported-extension", "m")]


# --- interrupting or not ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [TIMER, MESSAGE, SIGNAL, CONDITIONAL])
def test_what_is_waited_for_may_go_on_beside_its_activity_or_scope(kind: EventKind) -> None:
    content = DEFINITIONS[kind]
    for interrupting, border, start in (
        (True, "", ""),
        (True, 'cancelActivity="true"', 'isInterrupting="true"'),
        (False, 'cancelActivity="false"', 'isInterrupting="false"'),
    ):
        on_border = node_of(beside(boundary(content, border), flow("x", "e"), roots=ROOTS))
        assert (on_border.attached_to, on_border.interrupting) == ("t", interrupting)
        assert node_of(beside(reaction(content, start), roots=ROOTS)).interrupting is interrupting


def test_an_error_always_interrupts() -> None:
    content = DEFINITIONS[ERROR]
    on_border = beside(boundary(content, 'cancelActivity="false"'), flow("x", "e"), roots=ROOTS)
    in_scope = beside(reaction(content, 'isInterrupting="false"'), roots=ROOTS)
    assert rules_of(on_border) == rules_of(in_scope) == [("non-interrupting-event", "x")]


# --- timers -----------------------------------------------------------------------------------------------------


def timed(kind: str, text: str) -> str:
    return f"<bpmn:timerEventDefinition><bpmn:{kind}>{text}</bpmn:{kind}></bpmn:timerEventDefinition>"


@pytest.mark.parametrize(
    ("kind", "text", "good"),
    [
        ("timeDuration", "PT0.05S", True),
        ("timeDuration", "P1DT2H3M4S", True),
        ("timeDuration", "P1M", False),
        ("timeDuration", "P", False),
        ("timeDuration", "PT", False),
        ("timeDuration", "-PT1S", False),
        ("timeDuration", "5 seconds", False),
        ("timeDuration", "", False),
        ("timeDate", "2026-01-31T12:00:00Z", True),
        ("timeDate", "2026-01-31T12:00:00.250+01:00", True),
        ("timeDate", "2026-01-31T12:00:00", False),
        ("timeDate", "2026-13-31T12:00:00Z", False),
        ("timeDate", "tomorrow", False),
        ("timeCycle", "R3/PT1S", True),
        ("timeCycle", "R/PT1S", True),
        ("timeCycle", "R/P1M", True),
        ("timeCycle", "R2/P2W", True),
        ("timeCycle", "R3/2026-01-31T12:00:00Z/PT1S", True),
        ("timeCycle", "0 0 9 * * MON-FRI", True),
        ("timeCycle", "0 */15 * 1,L 1-6 ?", True),
        ("timeCycle", "@daily", True),
        ("timeCycle", "R0/PT1S", False),
        ("timeCycle", "R3/PT0S", False),
        ("timeCycle", "R3/P0W", False),
        ("timeCycle", "R3/today/PT1S", False),
        ("timeCycle", "3/PT1S", False),
        ("timeCycle", "PT1S", False),
        ("timeCycle", "0 9 * * MON-FRI", False),
        ("timeCycle", "0 0 25 * * *", False),
        ("timeCycle", "@sometimes", False),
    ],
)
def test_a_constant_of_a_timer_must_be_able_to_come_due(kind: str, text: str, good: bool) -> None:
    xml = beside(boundary(timed(kind, text), 'cancelActivity="false"'), flow("x", "e"))
    if good:
        expected = TimerDefinition(TimerKind(kind.removeprefix("time").lower()), Static(text))
        assert node_of(xml).timer == expected
    else:
        assert rules_of(xml) == [("invalid-timer", "x")]


@pytest.mark.parametrize("text", ["P1Y", "P1W", "P1M", "P1Y2M3DT4H"])
def test_a_calendar_duration_is_not_called_malformed(text: str) -> None:
    (problem,) = problems_of(between(element("intermediateCatchEvent", "x", timed("timeDuration", text))))
    assert "has years, months or weeks, which do not run here" in problem.message


@pytest.mark.parametrize(
    ("place", "kinds"),
    [
        ("start", {"timeDate", "timeCycle"}),
        ("catch", {"timeDate", "timeDuration"}),
        ("boundary", {"timeDate", "timeDuration"}),
        ("event sub-process start", {"timeDate", "timeDuration"}),
        ("boundary that goes on", {"timeDate", "timeDuration", "timeCycle"}),
        ("event sub-process start that goes on", {"timeDate", "timeDuration", "timeCycle"}),
    ],
)
def test_only_what_goes_on_or_begins_a_process_repeats(place: str, kinds: set[str]) -> None:
    for kind in ("timeDate", "timeDuration", "timeCycle"):
        content = timed(kind, "=when")
        match place:
            case "boundary that goes on":
                xml = beside(boundary(content, 'cancelActivity="false"'), flow("x", "e"))
            case "event sub-process start that goes on":
                xml = beside(reaction(content, 'isInterrupting="false"'))
            case _:
                xml = placed(place, content)
        if kind in kinds:
            assert plain(node_of(xml).timer)["value"] == "=when"
        else:
            assert rules_of(xml) == [("invalid-timer", "x")]


def test_a_timer_needs_exactly_one_value() -> None:
    two = "<bpmn:timeDate>=a</bpmn:timeDate><bpmn:timeDuration>=b</bpmn:timeDuration>"
    for values in ("", two):
        content = f"<bpmn:timerEventDefinition>{values}</bpmn:timerEventDefinition>"
        assert rules_of(between(element("intermediateCatchEvent", "x", content))) == [("invalid-timer", "x")]


# --- jobs and mappings ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["throw", "end"])
def test_a_thrown_message_is_a_job(place: str) -> None:
    assert node_of(placed(place, DEFINITIONS[MESSAGE])).topic == "send"
    assert rules_of(placed(place, DEFINITIONS[MESSAGE]).replace(b'type="send"', b'type="=a"')) == [
        ("missing-topic", "x")
    ]
    bare = placed(place, DEFINITIONS[MESSAGE]).replace(b'<zeebe:taskDefinition type="send"/>', b"")
    assert rules_of(bare) == [("missing-topic", "x")]


MAPPED = '<zeebe:ioMapping>{}<zeebe:output source="=b" target="b"/></zeebe:ioMapping>'
INPUT = '<zeebe:input source="=a" target="a"/>'


@pytest.mark.parametrize(
    ("place", "kind", "refused"),
    [
        ("start", None, "input-on-event"),
        ("catch", MESSAGE, "input-on-event"),
        ("boundary", ERROR, "input-on-event"),
        ("event sub-process start", SIGNAL, "input-on-event"),
        ("throw", None, "input-on-event"),
        ("throw", ESCALATION, "input-on-event"),
        ("throw", SIGNAL, None),
        ("end", None, "input-on-event"),
        ("end", SIGNAL, None),
        ("end", ERROR, "unsupported-extension"),
        ("end", TERMINATE, "unsupported-extension"),
        ("throw", LINK, "unsupported-extension"),
    ],
)
def test_mappings_run_where_camunda_8_runs_them(place: str, kind: EventKind | None, refused: str | None) -> None:
    content = "" if kind is None else DEFINITIONS[kind]
    both = placed(place, extended(MAPPED.format(INPUT)) + content)
    if refused is None:
        node = node_of(both)
        assert [mapping.target for mapping in (*node.inputs, *node.outputs)] == ["a", "b"]
        return
    assert rules_of(both) == [(refused, "x")]
    if refused == "input-on-event":
        node = node_of(placed(place, extended(MAPPED.format("")) + content))
        assert [mapping.target for mapping in node.outputs] == ["b"]


def test_a_topic_is_refused_on_an_event_that_is_no_job() -> None:
    words = extended('<zeebe:taskDefinition type="send"/>')
    assert rules_of(placed("throw", words + DEFINITIONS[SIGNAL])) == [("unsupported-extension", "x")]
    assert rules_of(placed("catch", words + DEFINITIONS[MESSAGE])) == [("unsupported-extension", "x")]
