"""Owns the words of the dialect: which BPMN elements run, which only draw, how each other one is refused, and what
replaces each word of Camunda 7.
Never reads a file or builds anything.
Called by the readers of the dialect.
"""

from __future__ import annotations

from typing import Final

from engine.bpmn.definition import ElementType, EventKind

EXECUTED: Final = {
    "startEvent": ElementType.START_EVENT,
    "endEvent": ElementType.END_EVENT,
    "intermediateCatchEvent": ElementType.INTERMEDIATE_CATCH_EVENT,
    "intermediateThrowEvent": ElementType.INTERMEDIATE_THROW_EVENT,
    "boundaryEvent": ElementType.BOUNDARY_EVENT,
    "task": ElementType.TASK,
    "manualTask": ElementType.MANUAL_TASK,
    "serviceTask": ElementType.SERVICE_TASK,
    "businessRuleTask": ElementType.BUSINESS_RULE_TASK,
    "scriptTask": ElementType.SCRIPT_TASK,
    "sendTask": ElementType.SEND_TASK,
    "receiveTask": ElementType.RECEIVE_TASK,
    "userTask": ElementType.USER_TASK,
    "callActivity": ElementType.CALL_ACTIVITY,
    "subProcess": ElementType.SUB_PROCESS,  # or EVENT_SUB_PROCESS
    "exclusiveGateway": ElementType.EXCLUSIVE_GATEWAY,
    "inclusiveGateway": ElementType.INCLUSIVE_GATEWAY,
    "parallelGateway": ElementType.PARALLEL_GATEWAY,
    "eventBasedGateway": ElementType.EVENT_BASED_GATEWAY,
}

GATEWAYS: Final = frozenset(
    {ElementType.EXCLUSIVE_GATEWAY, ElementType.INCLUSIVE_GATEWAY}
    | {ElementType.PARALLEL_GATEWAY, ElementType.EVENT_BASED_GATEWAY}
)
EVENTS: Final = frozenset(
    {ElementType.START_EVENT, ElementType.END_EVENT, ElementType.BOUNDARY_EVENT}
    | {ElementType.INTERMEDIATE_CATCH_EVENT, ElementType.INTERMEDIATE_THROW_EVENT}
)
ACTIVITIES: Final = frozenset(EXECUTED.values()) - GATEWAYS - EVENTS  # what a boundary event can be attached to

# Drawing and notes: they mean nothing for execution, here as in Camunda 8.
HARMLESS: Final = frozenset(
    {"documentation", "extensionElements", "textAnnotation", "association", "group", "laneSet", "category"}
    | {"dataObject", "dataObjectReference", "dataStoreReference", "ioSpecification", "property"}
    | {"dataInput", "dataOutput", "inputSet", "outputSet", "dataInputAssociation", "dataOutputAssociation"}
    | {"incoming", "outgoing"}
)

_RESPONSIBLE: Final = "Remove it; say who is responsible with zeebe:assignmentDefinition at a user task."

# Known BPMN elements that do not run: what to call them and what to draw instead.
REFUSED: Final = {
    "adHocSubProcess": ("an ad-hoc sub-process", "Draw its content in an ordinary sub-process."),
    "transaction": ("a transaction", "Use a sub-process, and compensation to undo what it did."),
    "complexGateway": ("a complex gateway", "Use an inclusive gateway with conditions."),
    "implicitThrowEvent": ("an implicit throw event", "Use an intermediate throw event."),
    "event": ("an abstract event", "Replace it by a start, end or intermediate event."),
    "standardLoopCharacteristics": ("a loop marker", "Draw the loop with an exclusive gateway."),
    "assignment": ("an assignment of data", "Use input and output mappings."),
    "transformation": ("a transformation of data", "Use input and output mappings."),
    "script": ("an inline script", "Write the script in FEEL as zeebe:script, or use a task definition."),
    "resourceRole": ("a resource role", _RESPONSIBLE),
    "performer": ("a performer", _RESPONSIBLE),
    "potentialOwner": ("a potential owner", _RESPONSIBLE),
    "humanPerformer": ("a human performer", _RESPONSIBLE),
    "choreography": ("a choreography", "Draw a process."),
    "globalChoreographyTask": ("a choreography", "Draw a process."),
    "globalTask": ("a global task", "Use a call activity that calls a process."),
    "globalUserTask": ("a global task", "Use a call activity that calls a process."),
    "globalManualTask": ("a global task", "Use a call activity that calls a process."),
    "globalScriptTask": ("a global task", "Use a call activity that calls a process."),
    "globalBusinessRuleTask": ("a global task", "Use a call activity that calls a process."),
    "correlationSubscription": ("a correlation subscription", "Write the correlation key as zeebe:subscription."),
    "auditing": ("auditing", "Remove it; every step is audited anyway."),
    "monitoring": ("monitoring", "Remove it; every step is measured anyway."),
}

# Those of them that flows may lead to.
REFUSED_NODES: Final = frozenset({"adHocSubProcess", "transaction", "complexGateway", "implicitThrowEvent", "event"})

HARMLESS_ROOTS: Final = frozenset(
    {"collaboration", "category", "documentation", "error", "escalation", "extensionElements", "import"}
    | {"itemDefinition", "message", "process", "signal", "dataStore"}
)

EVENT_DEFINITIONS: Final[dict[str, EventKind | None]] = {
    "cancelEventDefinition": None,
    "compensateEventDefinition": EventKind.COMPENSATION,
    "conditionalEventDefinition": EventKind.CONDITIONAL,
    "errorEventDefinition": EventKind.ERROR,
    "escalationEventDefinition": EventKind.ESCALATION,
    "linkEventDefinition": EventKind.LINK,
    "messageEventDefinition": EventKind.MESSAGE,
    "signalEventDefinition": EventKind.SIGNAL,
    "terminateEventDefinition": EventKind.TERMINATE,
    "timerEventDefinition": EventKind.TIMER,
    "eventDefinitionRef": None,
}

TEMPLATE_ATTRIBUTES: Final = frozenset({"modelerTemplate", "modelerTemplateVersion", "modelerTemplateIcon"})

_NOTES: Final = frozenset({"properties"})  # notes for tools
_MAPPED: Final = _NOTES | {"ioMapping"}
_JOB: Final = _MAPPED | {"taskDefinition", "taskHeaders"}

# zeebe: extension elements that mean something on each element that runs.
EXTENSIONS: Final = {
    "process": _NOTES | {"versionTag", "userTaskForm"},
    "sequenceFlow": _NOTES,
    "startEvent": _MAPPED | {"formDefinition"},
    "endEvent": _MAPPED,
    "intermediateCatchEvent": _MAPPED,
    "intermediateThrowEvent": _MAPPED,
    "boundaryEvent": _MAPPED,
    "task": _NOTES,
    "manualTask": _NOTES,
    "serviceTask": _JOB,
    "sendTask": _JOB,
    "businessRuleTask": _JOB | {"calledDecision"},
    "scriptTask": _JOB | {"script"},
    "receiveTask": _MAPPED,
    "userTask": _MAPPED
    | {"userTask", "assignmentDefinition", "taskSchedule", "priorityDefinition", "formDefinition", "taskHeaders"},
    "callActivity": _MAPPED | {"calledElement"},
    "subProcess": _MAPPED,
    "exclusiveGateway": _NOTES,
    "inclusiveGateway": _NOTES,
    "parallelGateway": _NOTES,
    "eventBasedGateway": _NOTES,
    "multiInstanceLoopCharacteristics": frozenset({"loopCharacteristics"}),
    "message": _NOTES | {"subscription"},
    "signal": _NOTES,
    "error": _NOTES,
    "escalation": _NOTES,
    "conditionalEventDefinition": _NOTES,
}
MESSAGE_THROW_EXTENSIONS: Final = _JOB
UNMAPPED_EVENT_EXTENSIONS: Final = _NOTES

# zeebe: words of Camunda 8 that run nowhere here, and what to do instead.
REFUSED_EXTENSIONS: Final = {
    "executionListeners": "Draw what the listeners do as tasks of their own.",
    "taskListeners": "Draw what the listeners do as tasks before and after this one.",
    "linkedResources": "Remove it; pass what the task needs as an input or a header.",
    "conditionalFilter": "Remove the filter; the condition is asked whenever a variable changes that it reads.",
    "jobPriorityDefinition": "Remove it; the priority of a request comes from its tags.",
    "publishMessage": "Set a task definition whose topic sends the message.",
    "adHoc": "Draw an ordinary sub-process.",
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
