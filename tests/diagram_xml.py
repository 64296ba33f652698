"""Owns writing a process definition as a BPMN file of the Camunda 8 dialect.
Never lays out a picture and never judges the definition.
Called by tests.builders.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from engine.bpmn.definition import (
    CalledDecision,
    CalledElement,
    ElementType,
    EventDefinition,
    EventKind,
    FlowNode,
    MultiInstance,
    ProcessDefinition,
    SequenceFlow,
    Static,
    TimerKind,
    UserTask,
)

_TAGS = {
    ElementType.SUB_PROCESS: "subProcess",
    ElementType.EVENT_SUB_PROCESS: "subProcess",
    ElementType.CALL_ACTIVITY: "callActivity",
    ElementType.TASK: "task",
    ElementType.SERVICE_TASK: "serviceTask",
    ElementType.BUSINESS_RULE_TASK: "businessRuleTask",
    ElementType.SCRIPT_TASK: "scriptTask",
    ElementType.SEND_TASK: "sendTask",
    ElementType.RECEIVE_TASK: "receiveTask",
    ElementType.USER_TASK: "userTask",
    ElementType.MANUAL_TASK: "manualTask",
    ElementType.EXCLUSIVE_GATEWAY: "exclusiveGateway",
    ElementType.INCLUSIVE_GATEWAY: "inclusiveGateway",
    ElementType.PARALLEL_GATEWAY: "parallelGateway",
    ElementType.EVENT_BASED_GATEWAY: "eventBasedGateway",
    ElementType.START_EVENT: "startEvent",
    ElementType.END_EVENT: "endEvent",
    ElementType.INTERMEDIATE_CATCH_EVENT: "intermediateCatchEvent",
    ElementType.INTERMEDIATE_THROW_EVENT: "intermediateThrowEvent",
    ElementType.BOUNDARY_EVENT: "boundaryEvent",
}
_TIMER_TAGS = {TimerKind.DATE: "timeDate", TimerKind.DURATION: "timeDuration", TimerKind.CYCLE: "timeCycle"}


def xml_of(definition: ProcessDefinition) -> str:
    """The definition as a BPMN file; every expression must have a text."""
    process = _Writer(definition).process()
    return (
        '<bpmn:definitions xmlns:bpmn="http://www.omg.org/spec/BPMN/20100524/MODEL"'
        ' xmlns:zeebe="http://camunda.org/schema/zeebe/1.0" id="definitions" targetNamespace="tests">'
        f"{process}</bpmn:definitions>"
    )


def _text(source: Any) -> str:
    """An expression or constant as the dialect spells it."""
    return source.text if isinstance(source, Static) else f"={source.text}"


def _tag(tag: str, body: str = "", /, **attributes: str | None) -> str:
    given = "".join(f" {key}={quoteattr(value)}" for key, value in attributes.items() if value is not None)
    return f"<{tag}{given}>{body}</{tag}>" if body else f"<{tag}{given}/>"


def _lower(flag: bool) -> str:
    return "true" if flag else "false"


def _only(value: Any) -> str | None:
    return None if value is None else _text(value)


class _Writer:
    def __init__(self, definition: ProcessDefinition) -> None:
        self._definition = definition
        self._roots: dict[tuple[str, str, str], str] = {}  # messages, signals, errors, escalations: to their ids
        self._children: dict[str | None, list[FlowNode]] = {}
        for node in definition.nodes.values():
            self._children.setdefault(node.parent, []).append(node)
        self._flows: dict[str | None, list[SequenceFlow]] = {}
        for flow in definition.flows.values():
            source = definition.nodes.get(flow.source)
            self._flows.setdefault(None if source is None else source.parent, []).append(flow)

    def process(self) -> str:
        tag = self._definition.version_tag
        extensions = _extensions([] if tag is None else [_tag("zeebe:versionTag", value=tag)])
        body = extensions + self._scope(None)
        process = f'<bpmn:process id={quoteattr(self._definition.process_id)} isExecutable="true">{body}</bpmn:process>'
        return process + "".join(self._root_elements())

    def _scope(self, parent: str | None) -> str:
        parts = [self._node(node) for node in self._children.get(parent, ())]
        for flow in self._flows.get(parent, ()):
            body = ""
            if flow.condition is not None:
                body = f"<bpmn:conditionExpression>{escape(_text(flow.condition))}</bpmn:conditionExpression>"
            ends: dict[str, str | None] = {"sourceRef": flow.source, "targetRef": flow.target}
            parts.append(_tag("bpmn:sequenceFlow", body, id=flow.id, name=flow.name or None, **ends))
        for node in self._children.get(parent, ()):
            if node.handler is not None:
                ends = {"sourceRef": node.id, "targetRef": node.handler}
                parts.append(_tag("bpmn:association", id=f"{node.id}_association", associationDirection="One", **ends))
        return "".join(parts)

    def _node(self, node: FlowNode) -> str:
        body = _extensions(_words(node) + self._example(node))
        body += "".join(f"<bpmn:incoming>{escape(flow)}</bpmn:incoming>" for flow in node.incoming)
        body += "".join(f"<bpmn:outgoing>{escape(flow)}</bpmn:outgoing>" for flow in node.outgoing)
        attributes: dict[str, str | None] = {"id": node.id, "name": node.name, "default": node.default_flow}
        attributes |= _flags(node)
        is_task = node.type in (ElementType.RECEIVE_TASK, ElementType.SEND_TASK)
        if node.event is not None and is_task:
            attributes["messageRef"] = self._root("message", node.event)
        elif node.event is not None:
            body += self._event(node.event)
        if node.loop is not None:
            body += _loop(node.loop)
        return _tag(f"bpmn:{_TAGS[node.type]}", body + self._scope(node.id), **attributes)

    def _example(self, node: FlowNode) -> list[str]:
        names = self._definition.start_variables
        if names is None or node.id != self._definition.start_id:
            return []
        example = json.dumps(dict.fromkeys(sorted(names)))
        note = _tag("zeebe:property", name="camundaModeler:exampleOutputJson", value=example)
        return [_tag("zeebe:properties", note)]

    # --- events -----------------------------------------------------------------------------------------------

    def _event(self, event: EventDefinition) -> str:
        match event.kind:
            case EventKind.TIMER:
                assert event.timer is not None
                tag = f"bpmn:{_TIMER_TAGS[event.timer.kind]}"
                return _tag("bpmn:timerEventDefinition", _tag(tag, escape(_text(event.timer.value))))
            case EventKind.CONDITIONAL:
                condition = _tag("bpmn:condition", escape(_text(event.condition)))
                return _tag("bpmn:conditionalEventDefinition", condition)
            case EventKind.LINK:
                return _tag("bpmn:linkEventDefinition", name=event.link)
            case EventKind.COMPENSATION:
                return _tag("bpmn:compensateEventDefinition", activityRef=event.activity_ref)
            case EventKind.TERMINATE:
                return _tag("bpmn:terminateEventDefinition")
            case _:
                word = event.kind.value.lower()
                return _tag(f"bpmn:{word}EventDefinition", **{f"{word}Ref": self._root(word, event)})

    def _root(self, word: str, event: EventDefinition) -> str | None:
        """The id of the message, signal, error or escalation that the event refers to, if it refers to any."""
        name = event.code if event.name is None else _text(event.name)
        if name is None:
            return None
        key = (word, name, "" if event.correlation_key is None else _text(event.correlation_key))
        return self._roots.setdefault(key, f"{word}_{len(self._roots) + 1}")

    def _root_elements(self) -> Iterator[str]:
        for (word, name, correlation_key), id in self._roots.items():
            code: dict[str, str | None] = {f"{word}Code": name} if word in ("error", "escalation") else {}
            subscription = [_tag("zeebe:subscription", correlationKey=correlation_key)] if correlation_key else []
            yield _tag(f"bpmn:{word}", _extensions(subscription), id=id, name=name, **code)


# --- extension elements -----------------------------------------------------------------------------------------


def _extensions(words: list[str]) -> str:
    return _tag("bpmn:extensionElements", "".join(words)) if words else ""


def _flags(node: FlowNode) -> dict[str, str | None]:
    flags: dict[str, str | None] = {"attachedToRef": node.attached_to}
    if node.type is ElementType.EVENT_SUB_PROCESS:
        flags["triggeredByEvent"] = "true"
    if node.for_compensation:
        flags["isForCompensation"] = "true"
    if not node.interrupting:
        flags["isInterrupting" if node.type is ElementType.START_EVENT else "cancelActivity"] = "false"
    return flags


def _words(node: FlowNode) -> list[str]:
    words = []
    if node.topic is not None:
        words.append(_tag("zeebe:taskDefinition", type=node.topic, retries=str(node.retries)))
    if node.script is not None:
        expression, result = _text(node.script.expression), node.script.result_variable
        words.append(_tag("zeebe:script", expression=expression, resultVariable=result))
    if node.called is not None:
        words.append(_called_element(node.called))
    if node.decision is not None:
        words.append(_called_decision(node.decision))
    if node.user_task is not None:
        words += _user_task(node.user_task)
    if node.inputs or node.outputs:
        inputs = [_tag("zeebe:input", source=_text(each.source), target=each.target) for each in node.inputs]
        outputs = [_tag("zeebe:output", source=_text(each.source), target=each.target) for each in node.outputs]
        words.append(_tag("zeebe:ioMapping", "".join(inputs + outputs)))
    if node.headers:
        headers = "".join(_tag("zeebe:header", key=key, value=value) for key, value in node.headers.items())
        words.append(_tag("zeebe:taskHeaders", headers))
    return words


def _called_element(called: CalledElement) -> str:
    return _tag(
        "zeebe:calledElement",
        processId=called.process_id,
        bindingType=called.binding.value,
        versionTag=called.version_tag,
        propagateAllParentVariables=_lower(called.propagate_all_parent_variables),
        propagateAllChildVariables=_lower(called.propagate_all_child_variables),
    )


def _called_decision(called: CalledDecision) -> str:
    return _tag(
        "zeebe:calledDecision",
        decisionId=called.decision_id,
        resultVariable=called.result_variable,
        bindingType=called.binding.value,
        versionTag=called.version_tag,
    )


def _user_task(task: UserTask) -> list[str]:
    words = [_tag("zeebe:userTask")]
    if task.assignee or task.candidate_groups or task.candidate_users:
        groups, users = _only(task.candidate_groups), _only(task.candidate_users)
        whose = {"assignee": _only(task.assignee), "candidateGroups": groups, "candidateUsers": users}
        words.append(_tag("zeebe:assignmentDefinition", **whose))
    if task.due_date or task.follow_up_date:
        dates = {"dueDate": _only(task.due_date), "followUpDate": _only(task.follow_up_date)}
        words.append(_tag("zeebe:taskSchedule", **dates))
    if task.priority:
        words.append(_tag("zeebe:priorityDefinition", priority=_only(task.priority)))
    if task.form_key:
        words.append(_tag("zeebe:formDefinition", formKey=task.form_key))
    return words


def _loop(loop: MultiInstance) -> str:
    words = _tag(
        "zeebe:loopCharacteristics",
        inputCollection=_text(loop.input_collection),
        inputElement=loop.input_element,
        outputCollection=loop.output_collection,
        outputElement=_only(loop.output_element),
    )
    body = _extensions([words])
    if loop.completion_condition is not None:
        body += _tag("bpmn:completionCondition", escape(_text(loop.completion_condition)))
    sequential = "true" if loop.sequential else None
    return _tag("bpmn:multiInstanceLoopCharacteristics", body, isSequential=sequential)
