"""Owns reading events: which kinds run at which place, and what each of them waits for or throws.
Never looks at how events are connected.
Called by the readers of flow nodes and activities.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

from lxml import etree

from engine.bpmn.definition import ElementType, EventDefinition, EventKind, Static, TimerKind
from engine.bpmn.expressions import read_condition, read_expression, read_value
from engine.bpmn.extensions import check_extensions, one_extension
from engine.bpmn.findings import Findings
from engine.bpmn.jobs import read_job, read_mappings
from engine.bpmn.references import References
from engine.bpmn.timers import read_timer
from engine.bpmn.vocabulary import EVENT_DEFINITIONS, EXTENSIONS
from engine.bpmn.xml import BPMN
from engine.feel import Expression


class Place(StrEnum):
    """Where an event stands."""

    PROCESS_START = "start event of a process"
    SUB_PROCESS_START = "start event of a sub-process"
    REACTION_START = "start event of an event sub-process"
    CATCH = "intermediate catch event"
    THROW = "intermediate throw event"
    END = "end event"
    BOUNDARY = "boundary event"


_START_PLACES: Final = {
    ElementType.PROCESS: Place.PROCESS_START,
    ElementType.SUB_PROCESS: Place.SUB_PROCESS_START,
    ElementType.EVENT_SUB_PROCESS: Place.REACTION_START,
}
_PLACES: Final = {
    ElementType.INTERMEDIATE_CATCH_EVENT: Place.CATCH,
    ElementType.INTERMEDIATE_THROW_EVENT: Place.THROW,
    ElementType.END_EVENT: Place.END,
    ElementType.BOUNDARY_EVENT: Place.BOUNDARY,
}
_WAITED_FOR: Final = frozenset({EventKind.TIMER, EventKind.MESSAGE, EventKind.SIGNAL})
_THROWN: Final = frozenset({EventKind.MESSAGE, EventKind.SIGNAL, EventKind.ESCALATION, EventKind.COMPENSATION})
_RAISED: Final = frozenset({EventKind.ERROR, EventKind.ESCALATION, EventKind.CONDITIONAL})

# Null is an event without a symbol.
_RUNS: Final[dict[Place, frozenset[EventKind | None]]] = {
    Place.PROCESS_START: frozenset({None}) | _WAITED_FOR,
    Place.SUB_PROCESS_START: frozenset({None}),
    Place.REACTION_START: _WAITED_FOR | _RAISED,
    Place.CATCH: _WAITED_FOR | {EventKind.CONDITIONAL, EventKind.LINK},
    Place.THROW: frozenset({None}) | _THROWN | {EventKind.LINK},
    Place.END: frozenset({None}) | _THROWN | {EventKind.ERROR, EventKind.TERMINATE},
    Place.BOUNDARY: _WAITED_FOR | _RAISED | {EventKind.COMPENSATION},
}
_MAY_GO_ON: Final = frozenset({Place.BOUNDARY, Place.REACTION_START})  # without interrupting what it is attached to
_CATCHING: Final = frozenset(_RUNS) - {Place.THROW, Place.END}
_UNMAPPED: Final = frozenset({EventKind.LINK, EventKind.ERROR, EventKind.TERMINATE})  # when thrown


def place_of(kind: ElementType, around: ElementType) -> Place:
    """Where an event of that type stands, in a process or sub-process `around` it."""
    return _START_PLACES[around] if kind is ElementType.START_EVENT else _PLACES[kind]


def event_kind(element: etree._Element) -> EventKind | None:
    """The kind of the element's one event definition; null for none, several or one that never runs."""
    definitions = _definitions(element)
    return EVENT_DEFINITIONS[etree.QName(definitions[0]).localname] if len(definitions) == 1 else None


def takes_mappings(place: Place, kind: EventKind | None) -> bool:
    return place in _CATCHING or kind not in _UNMAPPED


def read_event(findings: Findings, references: References, element: etree._Element, place: Place) -> dict[str, Any]:
    """The fields that make an event, beside what every flow node has."""
    fields: dict[str, Any] = {}
    definitions, kind = _definitions(element), event_kind(element)
    if place is Place.BOUNDARY:
        fields["attached_to"] = element.get("attachedToRef", "")
    if place in _MAY_GO_ON:
        fields["interrupting"] = _interrupts(findings, element, place, kind)
    if len(definitions) > 1 or (definitions and kind is None) or kind not in _RUNS[place]:
        _refuse(findings, element, definitions, place)
        return fields | {"event": None if kind is None else EventDefinition(kind)}
    if takes_mappings(place, kind):
        fields |= _mappings(findings, element, place, kind)
    if kind is None:
        return fields
    reader = _Reader(findings, references, element, place, fields.get("interrupting", True))
    fields["event"] = reader.read(kind, definitions[0])
    if kind is EventKind.MESSAGE and place not in _CATCHING:
        fields |= read_job(findings, element, "an event that throws a message")
    return fields


def read_message(findings: Findings, references: References, element: etree._Element) -> EventDefinition:
    """The message that a receive task waits for."""
    return _Reader(findings, references, element, Place.CATCH, interrupting=True).message(element)


def read_sent_message(findings: Findings, references: References, element: etree._Element) -> EventDefinition | None:
    """The message that a send task names, which is for readers: its topic says what is sent."""
    if element.get("messageRef") is None:
        return None
    return _Reader(findings, references, element, Place.THROW, interrupting=True).message(element)


def _definitions(element: etree._Element) -> list[etree._Element]:
    return [child for child in element.iterfind(f"{{{BPMN}}}*") if etree.QName(child).localname in EVENT_DEFINITIONS]


def _refuse(findings: Findings, element: etree._Element, definitions: list[etree._Element], place: Place) -> None:
    words = [etree.QName(each).localname.removesuffix("Definition").removesuffix("Event") for each in definitions]
    found = " and ".join("reference to a definition" if word == "eventDefinitionRef" else word for word in words)
    runs = sorted("none" if kind is None else kind.value.lower() for kind in _RUNS[place])
    findings.add(
        element,
        "unsupported-element",
        f"the {place} with {f'the symbol {found}' if found else 'no symbol'} does not run here",
        f"What runs there: {', '.join(runs)}.",
    )


def _interrupts(findings: Findings, element: etree._Element, place: Place, kind: EventKind | None) -> bool:
    attribute = "cancelActivity" if place is Place.BOUNDARY else "isInterrupting"
    interrupting = element.get(attribute, "true") in ("true", "1")
    if not interrupting and kind in (EventKind.ERROR, EventKind.COMPENSATION):
        findings.add(
            element,
            "non-interrupting-event",
            f"an {kind.value.lower()} event always interrupts"
            if kind is EventKind.ERROR
            else "compensation has no form that goes on beside its activity",
            "Make it interrupting (a solid border).",
        )
    return interrupting


def _mappings(findings: Findings, element: etree._Element, place: Place, kind: EventKind | None) -> dict[str, Any]:
    mappings = read_mappings(findings, element)
    if mappings["inputs"] and (place in _CATCHING or kind not in (EventKind.MESSAGE, EventKind.SIGNAL)):
        findings.add(element, "input-on-event", f"this {place} takes no input mappings", "Remove them.")
        return mappings | {"inputs": ()}
    return mappings


class _Reader:
    """Reads the definition of one event."""

    def __init__(
        self,
        findings: Findings,
        references: References,
        element: etree._Element,
        place: Place,
        interrupting: bool,
    ) -> None:
        self._findings = findings
        self._references = references
        self._element = element
        self._place = place
        self._interrupting = interrupting

    def read(self, kind: EventKind, event: etree._Element) -> EventDefinition:
        match kind:
            case EventKind.TIMER:
                return read_timer(self._findings, self._element, event, self._timer_kinds())
            case EventKind.MESSAGE:
                return self.message(event)
            case EventKind.SIGNAL:
                return self._signal(event)
            case EventKind.ERROR | EventKind.ESCALATION:
                return EventDefinition(kind, code=self._code(kind.value.lower(), event))
            case EventKind.CONDITIONAL:
                return self._conditional(event)
            case EventKind.LINK:
                return self._link(event)
            case EventKind.COMPENSATION:
                return self._compensation(event)
            case EventKind.TERMINATE:
                return EventDefinition(kind)

    def _timer_kinds(self) -> frozenset[TimerKind]:
        """A process cannot begin some time after its own beginning, and what interrupts cannot do so again."""
        if self._place is Place.PROCESS_START:
            return frozenset({TimerKind.DATE, TimerKind.CYCLE})
        once = frozenset({TimerKind.DATE, TimerKind.DURATION})
        return once if self._interrupting else once | {TimerKind.CYCLE}

    # --- what is declared beside the process ------------------------------------------------------------------

    def message(self, holder: etree._Element) -> EventDefinition:
        """The message that `holder`, an event definition or a task, refers to."""
        reference = holder.get("messageRef", "")
        declared = self._declared("message", reference)
        catching = self._place in _CATCHING
        if declared is None:
            if catching:
                self._lost("message", reference)
            return EventDefinition(EventKind.MESSAGE)
        name = self._name("message", declared)
        key = None
        if catching and self._place is not Place.PROCESS_START:
            key = self._correlation_key(declared)
        return EventDefinition(EventKind.MESSAGE, name=name, correlation_key=key)

    def _declared(self, word: str, reference: str) -> etree._Element | None:
        declared = self._references.find(word, reference)
        if declared is not None:
            check_extensions(self._findings, declared, EXTENSIONS[word])
        return declared

    def _correlation_key(self, message: etree._Element) -> Expression | None:
        subscription = one_extension(self._findings, self._element, "subscription", message)
        key = "" if subscription is None else subscription.get("correlationKey", "").strip()
        if not key:
            self._findings.add(
                self._element,
                "missing-correlation-key",
                f"the message `{message.get('name', '')}` has no correlation key, so nothing can tell whom it is for",
                "Set its subscription correlation key: a FEEL expression.",
            )
            return None
        return read_expression(self._findings, self._element, key, "the correlation key")

    def _signal(self, event: etree._Element) -> EventDefinition:
        reference = event.get("signalRef", "")
        declared = self._declared("signal", reference)
        if declared is None:
            self._lost("signal", reference)
            return EventDefinition(EventKind.SIGNAL)
        return EventDefinition(EventKind.SIGNAL, name=self._name("signal", declared))

    def _name(self, word: str, declared: etree._Element) -> Expression | Static | None:
        text = declared.get("name", "").strip()
        if not text:
            self._findings.add(self._element, f"invalid-{word}-reference", f"the {word} has no name", "Name it.")
            return None
        if text.startswith("=") and self._place is Place.PROCESS_START:
            self._findings.add(
                self._element,
                f"invalid-{word}-reference",
                f"the {word}'s name is an expression, but before a process starts there are no variables",
                "Write a constant name, without =.",
            )
            return None
        return read_value(self._findings, self._element, text, f"the {word}'s name")

    def _lost(self, word: str, reference: str) -> None:
        found = f"refers to the {word} `{reference}`, which the file does not define" if reference else f"has no {word}"
        article = "an" if word[0] in "aeiou" else "a"
        self._findings.add(
            self._element, f"invalid-{word}-reference", f"the event {found}", f"Choose or create {article} {word}."
        )

    def _code(self, word: str, event: etree._Element) -> str | None:
        """The code that an error or escalation event throws; or catches, null meaning every code."""
        reference = event.get(f"{word}Ref")
        if reference is None and self._place in _CATCHING:
            return None
        declared = None if reference is None else self._declared(word, reference)
        if declared is None:
            self._lost(word, reference or "")
            return None
        code: str = declared.get(f"{word}Code", "").strip()
        if not code or code.startswith("="):
            found = "an expression; it must be known at deployment" if code else "empty"
            remedy = "Write the code as a constant"
            if self._place in _CATCHING:
                remedy += f", or choose no {word} at all to catch every code"
            self._findings.add(
                self._element, f"invalid-{word}-reference", f"the code of the {word} is {found}", f"{remedy}."
            )
            return None
        return code

    # --- what stands in the definition itself -----------------------------------------------------------------

    def _conditional(self, event: etree._Element) -> EventDefinition:
        check_extensions(self._findings, self._element, EXTENSIONS["conditionalEventDefinition"], event)
        condition = event.find(f"{{{BPMN}}}condition")
        text = "" if condition is None else condition.text or ""
        return EventDefinition(EventKind.CONDITIONAL, condition=read_condition(self._findings, self._element, text))

    def _link(self, event: etree._Element) -> EventDefinition:
        name = event.get("name", "").strip()
        if not name:
            message, remedy = "the link has no name", "Give both ends of the link the same name."
            self._findings.add(self._element, "invalid-link", message, remedy, hole=True)
        return EventDefinition(EventKind.LINK, link=name or None)

    def _compensation(self, event: etree._Element) -> EventDefinition:
        if event.get("waitForCompletion", "true") not in ("true", "1"):
            self._findings.add(
                self._element,
                "invalid-compensation",
                "compensation that is not waited for does not run here",
                "Remove waitForCompletion.",
            )
        return EventDefinition(EventKind.COMPENSATION, activity_ref=event.get("activityRef") or None)
