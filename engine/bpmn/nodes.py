"""Owns reading one flow node or one sequence flow: its extension elements, mappings, timers, errors and conditions.
Never looks at how nodes are connected.
Called by the dialect.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from lxml import etree

from engine.bpmn.definition import (
    ElementType,
    EventDefinition,
    EventKind,
    FlowNode,
    IoMapping,
    SequenceFlow,
    Static,
    TimerDefinition,
    TimerKind,
)
from engine.bpmn.findings import Findings, name_of
from engine.bpmn.vocabulary import EVENT_DEFINITIONS, EXECUTED, EXTENSIONS, REFUSED, TEMPLATE_ATTRIBUTES
from engine.bpmn.xml import BPMN, CAMUNDA_7, ZEEBE
from engine.feel import Expression, FeelSyntaxError, compile_expression

_NAME: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_DURATION: Final = re.compile(r"P(?=[\dT])(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?")
_CALENDAR_DURATION: Final = re.compile(r"P\d+[YMW][\dYMWDTHS.]*")
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)(\[[\w/+-]+\])?")

_PLAIN_CHILDREN: Final = frozenset({"documentation", "extensionElements", "incoming", "outgoing"})


class NodeReader:
    """Reads flow nodes and sequence flows of one file; what is wrong goes to `findings`."""

    def __init__(self, findings: Findings, errors: Mapping[str, etree._Element]) -> None:
        self._findings = findings
        self._errors = errors  # bpmn:error elements of the file, by id

    def flow(self, element: etree._Element) -> SequenceFlow:
        self._check_extensions(element)
        condition = None
        text_element = element.find(f"{{{BPMN}}}conditionExpression")
        if text_element is not None:
            condition = self._condition(element, text_element)
        source, target = element.get("sourceRef", ""), element.get("targetRef", "")
        return SequenceFlow(element.get("id", ""), name_of(element), source, target, condition)

    def node(self, element: etree._Element, incoming: tuple[str, ...], outgoing: tuple[str, ...]) -> FlowNode:
        kind = EXECUTED[etree.QName(element).localname]
        self._check_extensions(element)
        events = self._event_definitions(element)
        fields: dict[str, Any] = {}
        match kind:
            case ElementType.SERVICE_TASK:
                fields = self._service_task(element)
            case ElementType.EXCLUSIVE_GATEWAY:
                fields = {"default_flow": element.get("default")}
            case ElementType.START_EVENT | ElementType.END_EVENT:
                self._refuse_events(element, events, kind)
            case ElementType.INTERMEDIATE_CATCH_EVENT:
                fields = self._catch_event(element, events)
            case ElementType.BOUNDARY_EVENT:
                fields = self._boundary_event(element, events)
        if kind is not ElementType.EXCLUSIVE_GATEWAY and element.get("default"):
            self._findings.add(
                element,
                "default-flow-without-gateway",
                "only an exclusive gateway may have a default flow",
                "Draw an exclusive gateway after this element.",
            )
        name, line = name_of(element), element.sourceline or 0
        return FlowNode(element.get("id", ""), name, kind, incoming, outgoing, source_line=line, **fields)

    # --- what stands inside an element ------------------------------------------------------------------------

    def _check_extensions(self, element: etree._Element) -> None:
        """Refuse every zeebe: word that would change what the element does and that does not run."""
        kind = etree.QName(element).localname
        for key in element.attrib:
            name = etree.QName(key)
            if name.namespace == ZEEBE and name.localname not in TEMPLATE_ATTRIBUTES:
                self._refuse_extension(element, f"the attribute zeebe:{name.localname}")
        for extension in element.iterfind(f"{{{BPMN}}}extensionElements/{{{ZEEBE}}}*"):
            name = etree.QName(extension).localname
            if name not in EXTENSIONS[kind]:
                self._refuse_extension(element, f"zeebe:{name}")

    def _refuse_extension(self, element: etree._Element, what: str) -> None:
        self._findings.add(
            element,
            "unsupported-extension",
            f"{what} does not run on this kind of element",
            "Remove it, or draw what it does.",
        )

    def _event_definitions(self, element: etree._Element) -> list[etree._Element]:
        events = []
        for child in element.iterfind(f"{{{BPMN}}}*"):
            name = etree.QName(child).localname
            if name in EVENT_DEFINITIONS:
                events.append(child)
            elif name not in _PLAIN_CHILDREN:
                what, remedy = REFUSED.get(name, (f"bpmn:{name}", "Remove it."))
                self._findings.add(element, "unsupported-element", f"{what} does not run yet", remedy)
        return events

    def _refuse_events(self, element: etree._Element, events: list[etree._Element], kind: ElementType) -> None:
        if events:
            names = " and ".join(EVENT_DEFINITIONS[etree.QName(event).localname] for event in events)
            where = "start" if kind is ElementType.START_EVENT else "end"
            self._findings.add(
                element,
                "unsupported-element",
                f"a {names} {where} event does not run yet",
                f"Use a plain {where} event without a symbol.",
            )

    # --- service task -----------------------------------------------------------------------------------------

    def _service_task(self, element: etree._Element) -> dict[str, Any]:
        if element.get("isForCompensation") == "true":
            self._findings.add(element, "unsupported-element", "compensation does not run yet", "Remove the marker.")
        inputs, outputs = self._mappings(element)
        fields = {"inputs": inputs, "outputs": outputs, "headers": self._headers(element)}
        definitions = element.findall(f"{{{BPMN}}}extensionElements/{{{ZEEBE}}}taskDefinition")
        if len(definitions) == 1:
            return fields | self._task_definition(element, definitions[0])
        if not _is_camunda_7(element):
            found = "none" if not definitions else str(len(definitions))
            self._findings.add(
                element,
                "missing-topic",
                f"a service task needs exactly one zeebe:taskDefinition; it has {found}",
                "Set the task's type (its topic) in the properties panel, or apply an element template.",
            )
        return fields

    def _task_definition(self, element: etree._Element, definition: etree._Element) -> dict[str, Any]:
        topic = definition.get("type", "").strip()
        if not topic or topic.startswith("="):
            found = "an expression" if topic else "empty"
            self._findings.add(
                element,
                "missing-topic",
                f"the task's type is {found}; the topic must be known at deployment",
                "Write the topic's name as the task's type.",
            )
        retries = definition.get("retries", "3").strip()
        if not re.fullmatch(r"\d{1,3}", retries, re.ASCII):
            self._findings.add(
                element,
                "invalid-retries",
                f"retries is `{retries}`; it must be a whole number from 0 to 999",
                'Set it to "1" where the diagram draws the retry.',
            )
            return {"topic": topic}
        return {"topic": topic, "retries": int(retries)}

    def _headers(self, element: etree._Element) -> dict[str, str]:
        headers: dict[str, str] = {}
        for header in element.iterfind(f"{{{BPMN}}}extensionElements/{{{ZEEBE}}}taskHeaders/{{{ZEEBE}}}header"):
            key = header.get("key", "")
            if not key or key in headers:
                problem = f"the header `{key}` is set twice" if key else "a header has no key"
                self._findings.add(element, "invalid-header", problem, "Give every header a key of its own.")
            headers[key] = header.get("value", "")
        return headers

    def _mappings(self, element: etree._Element) -> tuple[tuple[IoMapping, ...], tuple[IoMapping, ...]]:
        path = f"{{{BPMN}}}extensionElements/{{{ZEEBE}}}ioMapping/{{{ZEEBE}}}"
        inputs = [self._mapping(element, each, "input") for each in element.iterfind(path + "input")]
        outputs = [self._mapping(element, each, "output") for each in element.iterfind(path + "output")]
        return tuple(filter(None, inputs)), tuple(filter(None, outputs))

    def _mapping(self, element: etree._Element, mapping: etree._Element, direction: str) -> IoMapping | None:
        target = mapping.get("target", "").strip()
        if not _NAME.fullmatch(target):
            self._findings.add(
                element,
                "invalid-mapping-target",
                f"the {direction} mapping's target `{target}` is not a variable name",
                "Use letters, digits and underscores; a dot writes into an object.",
            )
        source = self._value(element, mapping.get("source", ""), f"the source of the {direction} `{target}`")
        return None if source is None else IoMapping(source, target)

    # --- events -----------------------------------------------------------------------------------------------

    def _catch_event(self, element: etree._Element, events: list[etree._Element]) -> dict[str, Any]:
        if len(events) == 1 and etree.QName(events[0]).localname == "timerEventDefinition":
            return {"event": self._timer_event(element, events[0]), "outputs": self._event_outputs(element)}
        names = " and ".join(EVENT_DEFINITIONS[etree.QName(event).localname] for event in events) or "plain"
        self._findings.add(
            element,
            "unsupported-element",
            f"a {names} intermediate catch event does not run yet",
            "Use a timer, or remove the event.",
        )
        return {}

    def _boundary_event(self, element: etree._Element, events: list[etree._Element]) -> dict[str, Any]:
        interrupting = element.get("cancelActivity", "true") in ("true", "1")
        fields: dict[str, Any] = {"attached_to": element.get("attachedToRef", ""), "interrupting": interrupting}
        kinds = [etree.QName(event).localname for event in events]
        match kinds:
            case ["errorEventDefinition"]:
                fields |= {"event": EventDefinition(EventKind.ERROR, code=self._error_code(element, events[0]))}
            case ["timerEventDefinition"]:
                fields |= {"event": self._timer_event(element, events[0])}
            case _:
                names = " and ".join(EVENT_DEFINITIONS[kind] for kind in kinds) or "plain"
                self._findings.add(
                    element,
                    "unsupported-element",
                    f"a {names} boundary event does not run yet",
                    "Use an error or a timer boundary event.",
                )
        if not interrupting:
            self._findings.add(
                element,
                "non-interrupting-event",
                "a boundary event that does not interrupt its activity does not run yet",
                "Make it interrupting (a solid border).",
            )
        return fields | {"outputs": self._event_outputs(element)}

    def _event_outputs(self, element: etree._Element) -> tuple[IoMapping, ...]:
        inputs, outputs = self._mappings(element)
        if inputs:
            self._findings.add(element, "input-on-event", "an event takes no input mappings", "Remove them.")
        return outputs

    def _error_code(self, element: etree._Element, event: etree._Element) -> str | None:
        """The code that the event catches, or None for every code."""
        reference = event.get("errorRef")
        if reference is None:
            return None
        error = self._errors.get(reference, self._errors.get(reference.rpartition(":")[2]))
        code = "" if error is None else error.get("errorCode", "").strip()
        if error is None or not code or code.startswith("="):
            message = "refers to an error that the file does not define"
            if error is not None:
                message = "refers to an error whose code is " + ("an expression" if code else "empty")
            self._findings.add(
                element,
                "invalid-error-reference",
                f"the error event {message}",
                "Choose an error with a fixed code, or none at all to catch every code.",
            )
            return None
        return code

    def _timer_event(self, element: etree._Element, event: etree._Element) -> EventDefinition | None:
        timer = self._timer(element, event)
        return None if timer is None else EventDefinition(EventKind.TIMER, timer=timer)

    def _timer(self, element: etree._Element, event: etree._Element) -> TimerDefinition | None:
        values = [child for child in event.iterfind(f"{{{BPMN}}}*") if _is_timer_value(child)]
        kinds = [etree.QName(child).localname for child in values]
        if kinds not in (["timeDate"], ["timeDuration"]):
            found = "a cycle" if kinds == ["timeCycle"] else "no single date or duration"
            self._findings.add(
                element,
                "invalid-timer",
                f"the timer has {found}",
                "Give it one date or one duration.",
            )
            return None
        kind = TimerKind.DATE if kinds == ["timeDate"] else TimerKind.DURATION
        value = self._value(element, values[0].text or "", f"the timer's {kind}")
        pattern, example = (_DATE, "2026-01-31T12:00:00Z") if kind is TimerKind.DATE else (_DURATION, "PT0.5S")
        if isinstance(value, Static) and not pattern.fullmatch(value.text):
            what, remedy = f"is not an ISO 8601 {kind}", "start it with = to make it a FEEL expression"
            if kind is TimerKind.DURATION and _CALENDAR_DURATION.fullmatch(value.text):
                what, remedy = "has years, months or weeks, which do not run here", "count it in days"
            self._findings.add(
                element,
                "invalid-timer",
                f"the timer's {kind} `{value.text}` {what}",
                f"Write it like {example}, or {remedy}.",
            )
        return None if value is None else TimerDefinition(kind, value)

    # --- expressions ------------------------------------------------------------------------------------------

    def _condition(self, flow: etree._Element, condition: etree._Element) -> Expression | None:
        text = (condition.text or "").strip()
        if text.startswith("="):
            return self._expression(flow, text, "the condition")
        self._findings.add(
            flow,
            "condition-not-feel",
            f"the condition `{text}` is not a FEEL expression",
            "Start it with =.",
        )
        return None

    def _value(self, element: etree._Element, text: str, where: str) -> Expression | Static | None:
        text = text.strip()
        return self._expression(element, text, where) if text.startswith("=") else Static(text)

    def _expression(self, element: etree._Element, text: str, where: str) -> Expression | None:
        try:
            return compile_expression(text[1:].strip())
        except FeelSyntaxError as error:
            self._findings.add(
                element,
                "feel-syntax",
                f"{where} is not valid FEEL: {error}",
                "Correct the expression at the marked place.",
            )
            return None


def _is_timer_value(element: etree._Element) -> bool:
    return etree.QName(element).localname in ("timeDate", "timeDuration", "timeCycle")


def _is_camunda_7(element: etree._Element) -> bool:
    return any(etree.QName(key).namespace == CAMUNDA_7 for key in element.attrib)
