"""Owns what each kind of thing can be searched and sorted by, in Camunda's words, and what the values are.
Never searches.
Called by the routes that search.
"""

from __future__ import annotations

from engine.api.camunda.searches import Fields, Kind, Words

_TEXT, _KEY, _NUMBER, _FLAG, _INSTANT = Kind.TEXT, Kind.KEY, Kind.NUMBER, Kind.FLAG, Kind.INSTANT


def _one_of(*words: str) -> Words:
    return Words(frozenset(words))


PROCESS_DEFINITION: Fields = {
    "name": _TEXT,
    "isLatestVersion": _FLAG,
    "resourceName": _TEXT,
    "version": _NUMBER,
    "versionTag": _TEXT,
    "processDefinitionId": _TEXT,
    "tenantId": _TEXT,
    "processDefinitionKey": _KEY,
    "hasStartForm": _FLAG,
    "state": _TEXT,
}
PROCESS_INSTANCE: Fields = {
    "processInstanceKey": _KEY,
    "processDefinitionId": _TEXT,
    "processDefinitionName": _TEXT,
    "processDefinitionVersion": _NUMBER,
    "processDefinitionVersionTag": _TEXT,
    "processDefinitionKey": _KEY,
    "parentProcessInstanceKey": _KEY,
    "parentElementInstanceKey": _KEY,
    "startDate": _INSTANT,
    "endDate": _INSTANT,
    "state": _one_of("ACTIVE", "COMPLETED", "SUSPENDED", "TERMINATED"),
    "hasIncident": _FLAG,
    "tenantId": _TEXT,
    "businessId": _TEXT,
    "tags": Words(of="tags"),
}
ELEMENT_INSTANCE: Fields = {
    "elementInstanceKey": _KEY,
    "processInstanceKey": _KEY,
    "processDefinitionKey": _KEY,
    "processDefinitionId": _TEXT,
    "elementId": _TEXT,
    "elementName": _TEXT,
    "type": _TEXT,
    "state": _one_of("ACTIVE", "COMPLETED", "TERMINATED"),
    "hasIncident": _FLAG,
    "incidentKey": _KEY,
    "tenantId": _TEXT,
    "startDate": _INSTANT,
    "endDate": _INSTANT,
    "elementInstanceScopeKey": _KEY,
}
VARIABLE: Fields = {
    "variableKey": _KEY,
    "name": _TEXT,
    "value": _TEXT,
    "scopeKey": _KEY,
    "processInstanceKey": _KEY,
    "tenantId": _TEXT,
    "isTruncated": _FLAG,
}
INCIDENT: Fields = {
    "incidentKey": _KEY,
    "processInstanceKey": _KEY,
    "processDefinitionKey": _KEY,
    "processDefinitionId": _TEXT,
    "elementInstanceKey": _KEY,
    "elementId": _TEXT,
    "jobKey": _KEY,
    "errorType": _TEXT,
    "errorMessage": _TEXT,
    "creationTime": _INSTANT,
    "state": _one_of("ACTIVE", "MIGRATED", "PENDING", "RESOLVED", "UNKNOWN"),
    "tenantId": _TEXT,
}
JOB: Fields = {
    "jobKey": _KEY,
    "type": _TEXT,
    "worker": _TEXT,
    "state": _one_of(
        "CANCELED",
        "COMPLETED",
        "CREATED",
        "ERROR_THROWN",
        "FAILED",
        "MIGRATED",
        "PRIORITY_UPDATED",
        "RETRIES_UPDATED",
        "TIMED_OUT",
        "TIMEOUT_UPDATED",
    ),
    "kind": _TEXT,
    "listenerEventType": _TEXT,
    "retries": _NUMBER,
    "processInstanceKey": _KEY,
    "processDefinitionKey": _KEY,
    "processDefinitionId": _TEXT,
    "elementId": _TEXT,
    "elementInstanceKey": _KEY,
    "deadline": _INSTANT,
    "endTime": _INSTANT,
    "creationTime": _INSTANT,
    "lastUpdateTime": _INSTANT,
    "businessId": _TEXT,
    "priority": _NUMBER,
    "errorCode": _TEXT,
    "errorMessage": _TEXT,
    "hasFailedWithRetriesLeft": _FLAG,
    "tenantId": _TEXT,
}
MESSAGE_SUBSCRIPTION: Fields = {
    "messageSubscriptionKey": _KEY,
    "processInstanceKey": _KEY,
    "processDefinitionKey": _KEY,
    "processDefinitionId": _TEXT,
    "elementId": _TEXT,
    "elementInstanceKey": _KEY,
    "messageName": _TEXT,
    "correlationKey": _TEXT,
    "messageSubscriptionState": _one_of("CORRELATED", "CREATED", "DELETED", "MIGRATED"),
    "messageSubscriptionType": _one_of("PROCESS_EVENT", "START_EVENT"),
    "lastUpdatedDate": _INSTANT,
    "tenantId": _TEXT,
    "processDefinitionName": _TEXT,
    "processDefinitionVersion": _NUMBER,
    "businessId": _TEXT,
}
USER_TASK: Fields = {
    "userTaskKey": _KEY,
    "name": _TEXT,
    "state": _one_of(
        "ASSIGNING",
        "CANCELED",
        "CANCELING",
        "COMPLETED",
        "COMPLETING",
        "CREATED",
        "CREATING",
        "FAILED",
        "UPDATING",
    ),
    "assignee": _TEXT,
    "candidateGroup": Words(of="candidateGroups"),
    "candidateUser": Words(of="candidateUsers"),
    "businessId": _TEXT,
    "priority": _NUMBER,
    "elementId": _TEXT,
    "elementInstanceKey": _KEY,
    "processInstanceKey": _KEY,
    "processDefinitionKey": _KEY,
    "processDefinitionId": _TEXT,
    "creationDate": _INSTANT,
    "completionDate": _INSTANT,
    "followUpDate": _INSTANT,
    "dueDate": _INSTANT,
    "tenantId": _TEXT,
}
DECISION_DEFINITION: Fields = {
    "decisionDefinitionId": _TEXT,
    "decisionDefinitionKey": _KEY,
    "name": _TEXT,
    "isLatestVersion": _FLAG,
    "version": _NUMBER,
    "decisionRequirementsId": _TEXT,
    "decisionRequirementsKey": _KEY,
    "decisionRequirementsName": _TEXT,
    "decisionRequirementsVersion": _NUMBER,
    "tenantId": _TEXT,
}
DECISION_REQUIREMENTS: Fields = {
    "decisionRequirementsId": _TEXT,
    "decisionRequirementsKey": _KEY,
    "decisionRequirementsName": _TEXT,
    "resourceName": _TEXT,
    "version": _NUMBER,
    "tenantId": _TEXT,
}
DEFINITION_STATISTICS: Fields = {
    "processDefinitionId": _TEXT,
    "processDefinitionKey": _KEY,
    "processDefinitionName": _TEXT,
    "processDefinitionVersion": _NUMBER,
    "latestProcessDefinitionName": _TEXT,
    "hasMultipleVersions": _FLAG,
    "activeInstancesWithIncidentCount": _NUMBER,
    "activeInstancesWithoutIncidentCount": _NUMBER,
    "tenantId": _TEXT,
}
INCIDENT_STATISTICS: Fields = {
    "errorHashCode": _NUMBER,
    "errorMessage": _TEXT,
    "processDefinitionId": _TEXT,
    "processDefinitionKey": _KEY,
    "processDefinitionName": _TEXT,
    "processDefinitionVersion": _NUMBER,
    "activeInstancesWithErrorCount": _NUMBER,
    "tenantId": _TEXT,
}
