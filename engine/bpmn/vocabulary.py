"""Owns the words of the dialect: which BPMN elements run, which are harmless, how each other one is refused, and what
replaces each word of Camunda 7.
Never reads a file or builds anything.
Called by the dialect and the flow-node reader.
"""

from __future__ import annotations

from typing import Final

from engine.bpmn.definition import ElementType

EXECUTED: Final = {
    "startEvent": ElementType.START_EVENT,
    "endEvent": ElementType.END_EVENT,
    "serviceTask": ElementType.SERVICE_TASK,
    "exclusiveGateway": ElementType.EXCLUSIVE_GATEWAY,
    "intermediateCatchEvent": ElementType.INTERMEDIATE_CATCH_EVENT,
    "boundaryEvent": ElementType.BOUNDARY_EVENT,
}

# They carry no meaning for execution: comments and drawing.
HARMLESS: Final = frozenset({"documentation", "extensionElements", "textAnnotation", "association", "group"})

HARMLESS_ROOTS: Final = frozenset(
    {"collaboration", "category", "documentation", "error", "escalation", "extensionElements", "import"}
    | {"itemDefinition", "message", "process", "signal"}
)

_SERVICE_TASK: Final = "Use a service task whose topic does this work."
_FLOW_NODES_INSIDE: Final = "Draw its content in this process."
_GATEWAY: Final = "Use an exclusive gateway with conditions, or draw the steps one after the other."

# Known BPMN elements that do not run yet: what to call them and what to draw instead.
REFUSED: Final = {
    "task": ("an undefined task", _SERVICE_TASK),
    "userTask": ("a user task", "An online request cannot wait for a person; remove it or use a service task."),
    "manualTask": ("a manual task", "An online request cannot wait for a person; remove it."),
    "scriptTask": ("a script task", "Put the FEEL expression into an output mapping, or use a service task."),
    "businessRuleTask": ("a business rule task", "Draw the decision with exclusive gateways."),
    "sendTask": ("a send task", _SERVICE_TASK),
    "receiveTask": ("a receive task", "Messages do not run yet; remove it."),
    "callActivity": ("a call activity", "Draw the called process in this process."),
    "subProcess": ("a sub-process", _FLOW_NODES_INSIDE),
    "adHocSubProcess": ("an ad-hoc sub-process", _FLOW_NODES_INSIDE),
    "transaction": ("a transaction", _FLOW_NODES_INSIDE),
    "parallelGateway": ("a parallel gateway", _GATEWAY),
    "inclusiveGateway": ("an inclusive gateway", _GATEWAY),
    "complexGateway": ("a complex gateway", _GATEWAY),
    "eventBasedGateway": ("an event-based gateway", "Use a boundary event on the service task that waits."),
    "intermediateThrowEvent": ("an intermediate throw event", "Remove it, or use a service task."),
    "implicitThrowEvent": ("an implicit throw event", "Remove it."),
    "event": ("an abstract event", "Replace it by a start, end or intermediate catch event."),
    "laneSet": ("lanes", "Remove the lanes; say who is responsible in a text annotation."),
    "dataObject": ("a data object", "Remove it, or write a text annotation."),
    "dataObjectReference": ("a data object", "Remove it, or write a text annotation."),
    "dataStore": ("a data store", "Remove it, or write a text annotation."),
    "dataStoreReference": ("a data store", "Remove it, or write a text annotation."),
    "multiInstanceLoopCharacteristics": ("a multi-instance marker", "Remove the marker."),
    "standardLoopCharacteristics": ("a loop marker", "Draw the loop with an exclusive gateway."),
    "ioSpecification": ("a data input or output", "Use input and output mappings."),
    "property": ("a property", "Use variables."),
    "dataInputAssociation": ("a data association", "Use input mappings."),
    "dataOutputAssociation": ("a data association", "Use output mappings."),
    "resourceRole": ("a resource role", "Remove it."),
    "performer": ("a performer", "Remove it."),
    "potentialOwner": ("a potential owner", "Remove it."),
    "humanPerformer": ("a human performer", "Remove it."),
    "choreography": ("a choreography", "Draw a process."),
    "globalTask": ("a global task", _SERVICE_TASK),
    "correlationSubscription": ("a correlation subscription", "Messages do not run yet; remove it."),
    "auditing": ("auditing", "Remove it; every step is audited anyway."),
    "monitoring": ("monitoring", "Remove it; every step is measured anyway."),
}

EVENT_DEFINITIONS: Final = {
    "cancelEventDefinition": "cancel",
    "compensateEventDefinition": "compensation",
    "conditionalEventDefinition": "conditional",
    "errorEventDefinition": "error",
    "escalationEventDefinition": "escalation",
    "linkEventDefinition": "link",
    "messageEventDefinition": "message",
    "signalEventDefinition": "signal",
    "terminateEventDefinition": "terminate",
    "timerEventDefinition": "timer",
    "eventDefinitionRef": "referenced",
}

TEMPLATE_ATTRIBUTES: Final = frozenset({"modelerTemplate", "modelerTemplateVersion", "modelerTemplateIcon"})

# zeebe: extension elements that mean something on each element that runs; `properties` are notes for tools.
EXTENSIONS: Final = {
    "process": frozenset({"versionTag", "properties"}),
    "sequenceFlow": frozenset({"properties"}),
    "startEvent": frozenset({"properties"}),
    "endEvent": frozenset({"properties"}),
    "exclusiveGateway": frozenset({"properties"}),
    "intermediateCatchEvent": frozenset({"ioMapping", "properties"}),
    "boundaryEvent": frozenset({"ioMapping", "properties"}),
    "serviceTask": frozenset({"taskDefinition", "ioMapping", "taskHeaders", "properties"}),
}

_MAPPING: Final = "zeebe:ioMapping"
_TASK: Final = "zeebe:taskDefinition (its type is the topic)"
_ALWAYS: Final = "nothing: remove it"

# What replaces each attribute or extension element of Camunda 7.
CAMUNDA_8_EQUIVALENTS: Final = {
    "type": _TASK,
    "topic": _TASK,
    "class": _TASK,
    "delegateExpression": _TASK,
    "expression": _TASK,
    "connector": "an element template",
    "taskPriority": _ALWAYS,
    "jobPriority": _ALWAYS,
    "asyncBefore": _ALWAYS,
    "asyncAfter": _ALWAYS,
    "exclusive": _ALWAYS,
    "historyTimeToLive": _ALWAYS,
    "isStartableInTasklist": _ALWAYS,
    "candidateStarterGroups": _ALWAYS,
    "candidateStarterUsers": _ALWAYS,
    "failedJobRetryTimeCycle": "the retries of zeebe:taskDefinition",
    "resultVariable": _MAPPING,
    "inputOutput": _MAPPING,
    "in": _MAPPING,
    "out": _MAPPING,
    "errorCodeVariable": _MAPPING,
    "errorMessageVariable": _MAPPING,
    "errorEventDefinition": "an error boundary event",
    "field": "zeebe:taskHeaders",
    "properties": "zeebe:properties",
    "versionTag": "zeebe:versionTag",
    "executionListener": "zeebe:executionListeners",
    "taskListener": "zeebe:taskListeners",
    "formKey": "zeebe:formDefinition",
    "formData": "zeebe:formDefinition",
    "assignee": "zeebe:assignmentDefinition",
    "candidateGroups": "zeebe:assignmentDefinition",
    "candidateUsers": "zeebe:assignmentDefinition",
    "decisionRef": "zeebe:calledDecision",
    "collection": "zeebe:loopCharacteristics",
    "elementVariable": "zeebe:loopCharacteristics",
}
