"""Owns reading activities: tasks of every kind, call activities, and what all of them share.
Never looks at how activities are connected, nor into a sub-process.
Called by the reader of flow nodes.
"""

from __future__ import annotations

from typing import Any, Final

from lxml import etree

from engine.bpmn.definition import (
    Binding,
    CalledDecision,
    CalledElement,
    ElementType,
    Script,
    Static,
    UserTask,
)
from engine.bpmn.events import read_message, read_sent_message
from engine.bpmn.expressions import VARIABLE, read_expression, read_value
from engine.bpmn.extensions import extensions, one_extension
from engine.bpmn.findings import Findings
from engine.bpmn.jobs import read_headers, read_job, read_mappings
from engine.bpmn.loops import read_loop
from engine.bpmn.references import References
from engine.bpmn.timers import is_instant
from engine.feel import Expression

_UNMAPPED: Final = frozenset({ElementType.TASK, ElementType.MANUAL_TASK})  # Camunda 8 passes through them
# What a task does instead of being a job.
_INSTEAD: Final = {ElementType.BUSINESS_RULE_TASK: "calledDecision", ElementType.SCRIPT_TASK: "script"}


def read_activity(
    findings: Findings, references: References, element: etree._Element, kind: ElementType
) -> dict[str, Any]:
    """The fields that make an activity, beside what every flow node has."""
    fields: dict[str, Any] = {} if kind in _UNMAPPED else dict(read_mappings(findings, element))
    if kind is not ElementType.EVENT_SUB_PROCESS:
        fields["loop"] = read_loop(findings, element)
        fields["for_compensation"] = element.get("isForCompensation") in ("true", "1")
    match kind:
        case ElementType.SERVICE_TASK:
            fields |= read_job(findings, element, "a service task")
        case ElementType.SEND_TASK:
            fields |= read_job(findings, element, "a send task")
            fields["event"] = read_sent_message(findings, references, element)
        case ElementType.RECEIVE_TASK:
            fields |= _receive_task(findings, references, element)
        case ElementType.BUSINESS_RULE_TASK | ElementType.SCRIPT_TASK:
            fields |= _evaluated_task(findings, element, kind)
        case ElementType.USER_TASK:
            fields |= {"user_task": _user_task(findings, element), "headers": read_headers(findings, element)}
        case ElementType.CALL_ACTIVITY:
            fields["called"] = _called_element(findings, element)
    return fields


def _receive_task(findings: Findings, references: References, element: etree._Element) -> dict[str, Any]:
    if element.get("instantiate") in ("true", "1"):
        findings.add(
            element,
            "unsupported-element",
            "a receive task that starts the process does not run here",
            "Start the process with a message start event.",
        )
    return {"event": read_message(findings, references, element)}


# --- business rule and script -----------------------------------------------------------------------------------


def _evaluated_task(findings: Findings, element: etree._Element, kind: ElementType) -> dict[str, Any]:
    """A task that the engine evaluates itself, or that is a job."""
    word = _INSTEAD[kind]
    evaluated, is_job = one_extension(findings, element, word), bool(extensions(element, "taskDefinition"))
    if evaluated is not None and is_job:
        findings.add(
            element,
            "two-implementations",
            f"the task has both zeebe:{word} and zeebe:taskDefinition, and only one of them could run",
            "Remove one of the two.",
        )
    if evaluated is None:
        what = "a business rule task without zeebe:calledDecision"
        return read_job(
            findings, element, what if kind is ElementType.BUSINESS_RULE_TASK else "a script task without zeebe:script"
        )
    if kind is ElementType.SCRIPT_TASK:
        return {"script": _script(findings, element, evaluated)}
    return {"decision": _called_decision(findings, element, evaluated)}


def _script(findings: Findings, element: etree._Element, script: etree._Element) -> Script | None:
    result = _result_variable(findings, element, script)
    expression = read_expression(findings, element, script.get("expression", ""), "the script")
    return None if expression is None or result is None else Script(expression, result)


def _called_decision(findings: Findings, element: etree._Element, called: etree._Element) -> CalledDecision | None:
    decision_id = _static_id(findings, element, called, "decisionId", "decision")
    result = _result_variable(findings, element, called)
    binding, version_tag = _binding(findings, element, called)
    if decision_id is None or result is None:
        return None
    return CalledDecision(decision_id, result, binding, version_tag)


def _result_variable(findings: Findings, element: etree._Element, extension: etree._Element) -> str | None:
    name: str = extension.get("resultVariable", "").strip()
    if VARIABLE.fullmatch(name):
        return name
    findings.add(
        element,
        "invalid-result-variable",
        f"the result variable `{name}` is not a variable name" if name else "there is no result variable",
        "Name the variable that takes the result: letters, digits and underscores.",
    )
    return None


# --- call activity ----------------------------------------------------------------------------------------------


def _called_element(findings: Findings, element: etree._Element) -> CalledElement | None:
    called = one_extension(findings, element, "calledElement")
    if called is None:
        findings.add(
            element,
            "invalid-call",
            "the call activity calls nothing: it has no zeebe:calledElement",
            "Set the id of the called process in the properties panel.",
        )
        return None
    if called.get("businessId"):
        findings.add(
            element, "invalid-call", "a business id of the called process does not run here", "Remove businessId."
        )
    process_id = _static_id(findings, element, called, "processId", "process")
    binding, version_tag = _binding(findings, element, called)
    if process_id is None:
        return None
    return CalledElement(
        process_id,
        binding,
        version_tag,
        propagate_all_parent_variables=_flag(called, "propagateAllParentVariables"),
        propagate_all_child_variables=_flag(called, "propagateAllChildVariables"),
    )


def _flag(called: etree._Element, attribute: str) -> bool:
    return called.get(attribute, "true") in ("true", "1")


def _static_id(
    findings: Findings, element: etree._Element, called: etree._Element, attribute: str, what: str
) -> str | None:
    text: str = called.get(attribute, "").strip()
    if text and not text.startswith("="):
        return text
    findings.add(
        element,
        "invalid-call",
        f"the id of the called {what} is an expression; it must be known when the instance starts, which pins it"
        if text
        else f"the id of the called {what} is missing",
        f"Write the {what}'s id as a constant.",
    )
    return None


def _binding(findings: Findings, element: etree._Element, called: etree._Element) -> tuple[Binding, str | None]:
    text = called.get("bindingType", Binding.LATEST).strip()
    version_tag = called.get("versionTag", "").strip() or None
    if text not in list(Binding):
        names = ", ".join(Binding)
        findings.add(element, "invalid-call", f"the binding `{text}` does not exist", f"Use one of: {names}.")
        return Binding.LATEST, None
    binding = Binding(text)
    if binding is Binding.VERSION_TAG and (version_tag is None or version_tag.startswith("=")):
        found = "an expression" if version_tag else "missing"
        findings.add(element, "invalid-call", f"the version tag is {found}", "Write the version tag as a constant.")
    return binding, version_tag if binding is Binding.VERSION_TAG else None


# --- user task --------------------------------------------------------------------------------------------------


def _user_task(findings: Findings, element: etree._Element) -> UserTask:
    def value(extension: str, attribute: str, what: str) -> Expression | Static | None:
        found = one_extension(findings, element, extension)
        text = "" if found is None else found.get(attribute, "").strip()
        return read_value(findings, element, text, what) if text else None

    task = UserTask(
        assignee=value("assignmentDefinition", "assignee", "the assignee"),
        candidate_groups=value("assignmentDefinition", "candidateGroups", "the candidate groups"),
        candidate_users=value("assignmentDefinition", "candidateUsers", "the candidate users"),
        due_date=value("taskSchedule", "dueDate", "the due date"),
        follow_up_date=value("taskSchedule", "followUpDate", "the follow-up date"),
        priority=value("priorityDefinition", "priority", "the priority"),
        form_key=_form_key(findings, element),
    )
    for what, date in (("due date", task.due_date), ("follow-up date", task.follow_up_date)):
        if isinstance(date, Static) and not is_instant(date.text):
            remedy = "Write it like 2026-01-31T12:00:00Z, or start it with =."
            findings.add(element, "invalid-user-task", f"the {what} `{date.text}` is no date and time", remedy)
    if isinstance(task.priority, Static) and not _is_priority(task.priority.text):
        message = f"the priority `{task.priority.text}` is not a whole number from 0 to 100"
        findings.add(element, "invalid-user-task", message, "Write such a number, or start it with =.")
    return task


def _is_priority(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 3 and int(text) <= 100


def _form_key(findings: Findings, element: etree._Element) -> str | None:
    form = one_extension(findings, element, "formDefinition")
    if form is None:
        return None
    keys: list[str] = [form.get(attribute, "").strip() for attribute in ("formId", "formKey", "externalReference")]
    given = [key for key in keys if key]
    if len(given) != 1 or given[0].startswith("="):
        found = "an expression" if len(given) == 1 else f"given {len(given)} times"
        findings.add(
            element,
            "invalid-user-task",
            f"the key of the form is {found}",
            "Set exactly one of form id, form key and external reference, as a constant.",
        )
        return None
    return given[0]
