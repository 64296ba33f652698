"""Owns how each thing that Camunda 8 clients read is written: every field that a typed client demands, in its words.
Never looks anything up; what is written is given.
Called by the instance view and the routes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from engine.api.camunda.reading import DEFAULT_TENANT
from engine.api.camunda.searches import Item
from engine.api.documents import iso_of_us
from engine.errors import Code
from engine.records import Key, Tags
from engine.store import json_text
from engine.store.definitions import StoredDefinition

_HEADER = "io.camunda.zeebe:"  # of what the engine adds to a user task's headers
TRUNCATED_CHARS = 8_191  # of a variable's value in a search, as Camunda cuts it

ELEMENT_STATES = {
    "active": "ACTIVE",
    "incident": "ACTIVE",
    "terminating": "ACTIVE",
    "completed": "COMPLETED",
    "terminated": "TERMINATED",
    "failed": "TERMINATED",
    "aborted": "TERMINATED",
}
ERROR_TYPES: dict[str, str] = {
    Code.NO_RETRIES_LEFT: "JOB_NO_RETRIES",
    Code.TASK_FAULT: "JOB_NO_RETRIES",
    Code.UNHANDLED_BPMN_ERROR: "UNHANDLED_ERROR_EVENT",
    Code.CONDITION_FAILED: "CONDITION_ERROR",
    Code.EXPRESSION_FAILED: "EXTRACT_VALUE_ERROR",
    Code.DECISION_FAILED: "DECISION_EVALUATION_ERROR",
}


def key_text(key: Key | None) -> str | None:
    return None if key is None else str(key)


def iso(at: datetime | int | None) -> str | None:
    """An instant, as datetime or as microseconds since the Unix epoch, in ISO 8601."""
    if at is None:
        return None
    if isinstance(at, int):
        return iso_of_us(at)
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def tags_of(tags: Tags) -> list[str]:
    """The tags that a start named; see `read_tags` of the process instance routes."""
    known = {"product": tags.product, "feature": tags.feature, "priority": tags.priority}
    return [f"{name}:{value}" for name, value in known.items() if value != Tags._field_defaults[name]]


def variable_key(scope_key: Key, name: str) -> Key:
    """A variable has no key of its own here: 63 bits of a hash of its scope and name."""
    return int.from_bytes(hashlib.blake2b(f"{scope_key}:{name}".encode(), digest_size=8).digest()) >> 1 | 1


def definition_item(definition: StoredDefinition) -> Item:
    return {
        "name": definition.name or None,
        "resourceName": definition.resource_name,
        "version": definition.version,
        "versionTag": definition.version_tag,
        "processDefinitionId": definition.process_id,
        "tenantId": DEFAULT_TENANT,
        "processDefinitionKey": str(definition.key),
        "hasStartForm": False,
        "state": "ACTIVE",
    }


class Owner(NamedTuple):
    """The process instance that something is part of: the root, or one that a call activity started inside it."""

    key: Key
    root_key: Key
    definition_key: Key
    process_id: str
    version: int
    name: str
    version_tag: str | None
    business_id: str | None
    tags: Tags

    @property
    def fields(self) -> Item:
        """What nearly every item says of it."""
        return {
            "processInstanceKey": str(self.key),
            "rootProcessInstanceKey": str(self.root_key),
            "processDefinitionKey": str(self.definition_key),
            "processDefinitionId": self.process_id,
            "tenantId": DEFAULT_TENANT,
        }


def instance_item(
    owner: Owner,
    *,
    state: str,
    started_at: datetime | int,
    ended_at: datetime | int | None,
    has_incident: bool,
    parent_key: Key | None = None,
    parent_element_key: Key | None = None,
) -> Item:
    return {
        **owner.fields,
        "processDefinitionName": owner.name or None,
        "processDefinitionVersion": owner.version,
        "processDefinitionVersionTag": owner.version_tag,
        "startDate": iso(started_at),
        "endDate": iso(ended_at),
        "state": ELEMENT_STATES[state],
        "suspendedDate": None,
        "hasIncident": has_incident,
        "parentProcessInstanceKey": key_text(parent_key),
        "parentElementInstanceKey": key_text(parent_element_key),
        "parentFlowNodeInstanceKey": key_text(parent_element_key),
        "tags": tags_of(owner.tags),
        "businessId": owner.business_id,
    }


def element_item(
    owner: Owner,
    *,
    key: Key,
    element_id: str,
    name: str,
    element_type: str,
    state: str,
    started_at: datetime | int,
    ended_at: datetime | int | None,
    incident_key: Key | None,
    scope_key: Key | None,
) -> Item:
    return {
        **owner.fields,
        "elementInstanceKey": str(key),
        "elementId": element_id,
        "elementName": name or element_id,
        "type": element_type,
        "state": ELEMENT_STATES[state],
        "startDate": iso(started_at),
        "endDate": iso(ended_at),
        "hasIncident": incident_key is not None,
        "incidentKey": key_text(incident_key),
        "elementInstanceScopeKey": key_text(scope_key),
    }


def variable_item(owner: Owner, *, key: Key, name: str, value: Any, scope_key: Key) -> Item:
    """With its whole value, as JSON text."""
    return {
        "variableKey": str(key),
        "name": name,
        "value": json_text.dumps(value).decode(),
        "isTruncated": False,
        "scopeKey": str(scope_key),
        "processInstanceKey": str(owner.key),
        "rootProcessInstanceKey": str(owner.root_key),
        "tenantId": DEFAULT_TENANT,
    }


def truncated(variable: Item) -> Item:
    """The variable with its value cut, where it is long."""
    if len(variable["value"]) <= TRUNCATED_CHARS:
        return variable
    return {**variable, "value": variable["value"][:TRUNCATED_CHARS], "isTruncated": True}


def with_code(error_code: str, message: str) -> str:
    """A message with its code before it, once; the codes that led to it may stand in the message itself."""
    return message if message.startswith(f"{error_code}: ") else f"{error_code}: {message}"


def incident_item(
    owner: Owner,
    *,
    key: Key,
    activity_key: Key | None,
    element_id: str | None,
    error_code: str,
    message: str,
    raised_at: datetime | int,
    job_key: Key | None,
    state: str,
) -> Item:
    error_type = ERROR_TYPES.get(error_code, "UNKNOWN")
    return {
        **owner.fields,
        "incidentKey": str(key),
        "elementInstanceKey": str(activity_key if activity_key is not None else owner.key),
        "elementId": element_id or owner.process_id,
        "errorType": error_type,
        "errorMessage": with_code(error_code, message),
        "creationTime": iso(raised_at),
        "jobKey": key_text(job_key),
        "state": state,
    }


def job_item(
    owner: Owner,
    *,
    key: Key,
    topic: str,
    state: str,
    element_id: str,
    activity_key: Key,
    headers: Mapping[str, str],
    retries: int,
    worker: str = "",
    deadline: datetime | int | None = None,
    created_at: datetime | int | None = None,
    ended_at: datetime | int | None = None,
    error_code: str | None = None,
    message: str | None = None,
) -> Item:
    return {
        **owner.fields,
        "jobKey": str(key),
        "type": topic,
        "worker": worker,
        "state": state,
        "kind": "BPMN_ELEMENT",
        "listenerEventType": "UNSPECIFIED",
        "retries": retries,
        "elementId": element_id,
        "elementInstanceKey": str(activity_key),
        "customHeaders": dict(headers),
        "deadline": iso(deadline),
        "creationTime": iso(created_at),
        "lastUpdateTime": iso(ended_at) or iso(created_at),
        "endTime": iso(ended_at),
        "errorCode": error_code,
        "errorMessage": message,
        "hasFailedWithRetriesLeft": state == "FAILED" and retries > 0,
        "isDenied": None,
        "deniedReason": None,
        "businessId": owner.business_id,
        "priority": 0,
    }


def subscription_item(
    owner: Owner,
    *,
    key: Key,
    element_id: str,
    activity_key: Key | None,
    name: str,
    correlation_key: str | None,
    state: str,
    updated_at: datetime | int,
) -> Item:
    return {
        **owner.fields,
        "messageSubscriptionKey": str(key),
        "elementId": element_id,
        "elementInstanceKey": key_text(activity_key),
        "messageName": name,
        "correlationKey": correlation_key,
        "messageSubscriptionState": state,
        "messageSubscriptionType": "PROCESS_EVENT",
        "lastUpdatedDate": iso(updated_at),
        "processDefinitionName": owner.name or None,
        "processDefinitionVersion": owner.version,
        "businessId": owner.business_id,
        "toolName": None,
        "toolProperties": {},
        "inboundConnectorType": None,
    }


def user_task_item(
    owner: Owner,
    *,
    key: Key,
    name: str,
    state: str,
    element_id: str,
    activity_key: Key,
    headers: Mapping[str, str],
    created_at: datetime | int,
    completed_at: datetime | int | None = None,
    assignee: str | None = None,
    candidate_groups: Iterable[str] = (),
    candidate_users: Iterable[str] = (),
    due_date: str | None = None,
    follow_up_date: str | None = None,
    priority: int = 50,
    form_key: str | None = None,
) -> Item:
    return {
        **owner.fields,
        "userTaskKey": str(key),
        "name": name or None,
        "state": state,
        "assignee": assignee,
        "elementId": element_id,
        "elementInstanceKey": str(activity_key),
        "candidateGroups": list(candidate_groups),
        "candidateUsers": list(candidate_users),
        "creationDate": iso(created_at),
        "completionDate": iso(completed_at),
        "followUpDate": follow_up_date,
        "dueDate": due_date,
        "externalFormReference": form_key,
        "formKey": None,
        "processDefinitionVersion": owner.version,
        "processName": owner.name or None,
        "customHeaders": dict(headers),
        "priority": priority,
        "businessId": owner.business_id,
        "tags": tags_of(owner.tags),
    }


def user_task_fields(headers: Mapping[str, str]) -> dict[str, Any]:
    """Whose task it is and until when, as the engine puts it into a user task's headers; the rest is the designer's."""
    said = {name.removeprefix(_HEADER): value for name, value in headers.items() if name.startswith(_HEADER)}
    priority = said.get("priority", "")
    return {
        "headers": {name: value for name, value in headers.items() if not name.startswith(_HEADER)},
        "assignee": said.get("assignee") or None,
        "candidate_groups": _names(said.get("candidateGroups")),
        "candidate_users": _names(said.get("candidateUsers")),
        "due_date": said.get("dueDate"),
        "follow_up_date": said.get("followUpDate"),
        "priority": int(priority) if priority.isdigit() else 50,
        "form_key": said.get("formKey"),
    }


def _names(text: str | None) -> list[str]:
    return [name for each in (text or "").split(",") if (name := each.strip())]
