"""Owns what each kind of thing can be searched and sorted by, in Camunda's words, and what the values are.
Never searches.
Called by the routes that search.
"""

from __future__ import annotations

from engine.api.camunda.searches import Fields, Kind

_TEXT, _KEY, _NUMBER, _FLAG, _INSTANT = Kind.TEXT, Kind.KEY, Kind.NUMBER, Kind.FLAG, Kind.INSTANT

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
    "state": _TEXT,
    "hasIncident": _FLAG,
    "tenantId": _TEXT,
    "businessId": _TEXT,
}
ELEMENT_INSTANCE: Fields = {
    "elementInstanceKey": _KEY,
    "processInstanceKey": _KEY,
    "processDefinitionKey": _KEY,
    "processDefinitionId": _TEXT,
    "elementId": _TEXT,
    "elementName": _TEXT,
    "type": _TEXT,
    "state": _TEXT,
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
    "state": _TEXT,
    "tenantId": _TEXT,
}
JOB: Fields = {
    "jobKey": _KEY,
    "type": _TEXT,
    "worker": _TEXT,
    "state": _TEXT,
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
    "messageSubscriptionState": _TEXT,
    "messageSubscriptionType": _TEXT,
    "lastUpdatedDate": _INSTANT,
    "tenantId": _TEXT,
}
USER_TASK: Fields = {
    "userTaskKey": _KEY,
    "name": _TEXT,
    "state": _TEXT,
    "assignee": _TEXT,
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
    "version": _NUMBER,
    "decisionRequirementsId": _TEXT,
    "decisionRequirementsKey": _KEY,
    "decisionRequirementsName": _TEXT,
    "decisionRequirementsVersion": _NUMBER,
    "tenantId": _TEXT,
}
