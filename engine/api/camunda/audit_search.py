"""Owns searches over all instances: a query of Camunda's becomes one of the audit's, and rows become items.
Never looks into an instance, so it finds those that were started for themselves and not those that they called.
Called by the searches that name no process instance.

A search reads the newest `READ` rows that an index narrows to, or as many as the page asks for, and then applies the
rest of the filter and the sort to them; the answer says when there are more.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from engine.api.camunda import items
from engine.api.camunda.items import Owner
from engine.api.camunda.searches import Item, Query
from engine.api.camunda.services import Instances, Services
from engine.records import Key, Tags
from engine.store.search import FoundIncident, FoundInstance, IncidentFilter, InstanceFilter

READ = 1_000
_INSTANCE_STATES = {"ACTIVE": ("active",), "COMPLETED": ("completed",), "TERMINATED": ("terminated", "aborted")}
_INCIDENT_STATES = {"ACTIVE": ("open",), "RESOLVED": ("resolved", "ended")}
_A_LITTLE = timedelta(microseconds=1)


class AuditSearch:
    """One search."""

    def __init__(self, services: Services, instances: Instances, query: Query) -> None:
        self._services = services
        self._instances = instances
        self._query = query

    async def instances(self, variables: Mapping[str, Any]) -> tuple[list[Item], bool]:
        """Process instances that may match and have these variables, newest first, and whether there are more."""
        query = self._query
        state = query.exact("state")
        has_incident = query.exact("hasIncident")
        started_from, started_before = _period(query, "startDate")
        ended_from, ended_before = _period(query, "endDate")
        where = InstanceFilter(
            keys=query.keys("processInstanceKey"),
            process_id=query.exact("processDefinitionId"),
            definition_key=_number(query, "processDefinitionKey"),
            version=_number(query, "processDefinitionVersion"),
            states=() if state is None else _INSTANCE_STATES.get(state, (state,)),
            has_incident=None if has_incident is None else has_incident == "True",
            business_id=query.exact("businessId"),
            started_from=started_from,
            started_before=started_before,
            ended_from=ended_from,
            ended_before=ended_before,
            variables=variables,
        )
        found = await self._services.search.process_instances(where, self._limit)
        return [await self._instance(each) for each in found.rows], found.capped

    async def incidents(self) -> tuple[list[Item], bool]:
        """Incidents that may match, newest first, and whether there are more."""
        query = self._query
        state = query.exact("state")
        raised_from, raised_before = _period(query, "creationTime")
        where = IncidentFilter(
            keys=query.keys("incidentKey"),
            process_id=query.exact("processDefinitionId"),
            definition_key=_number(query, "processDefinitionKey"),
            element_id=query.exact("elementId"),
            states=() if state is None else _INCIDENT_STATES.get(state, (state,)),
            raised_from=raised_from,
            raised_before=raised_before,
        )
        found = await self._services.search.incidents(where, self._limit)
        return [await self._incident(each) for each in found.rows], found.capped

    @property
    def _limit(self) -> int:
        return max(READ, self._query.offset + self._query.limit)

    async def _instance(self, row: FoundInstance) -> Item:
        tags = Tags(row.tenant, row.product, row.feature, row.priority)
        owner = await self._owner(row.key, row.definition_key, row.process_id, row.version, row.business_id, tags)
        return items.instance_item(
            owner,
            state=row.state,
            started_at=row.started_at,
            ended_at=row.ended_at,
            has_incident=row.open_incidents > 0,
        )

    async def _incident(self, row: FoundIncident) -> Item:
        key = row.process_instance_key
        owner = await self._owner(key, row.definition_key, row.process_id, row.version, None, Tags(row.tenant))
        return items.incident_item(
            owner,
            key=row.key,
            activity_key=row.activity_instance_key,
            element_id=row.element_id,
            error_code=row.error_code,
            message=row.message,
            raised_at=row.raised_at,
            job_key=None,
            state="ACTIVE" if row.state == "open" else "RESOLVED",
        )

    async def _owner(
        self, key: Key, definition_key: Key, process_id: str, version: int, business_id: str | None, tags: Tags
    ) -> Owner:
        definition = await self._instances.definition(definition_key)
        name, tag = ("", None) if definition is None else (definition.name, definition.version_tag)
        return Owner(key, key, definition_key, process_id, version, name, tag, business_id, tags)


def _number(query: Query, field: str) -> int | None:
    text = query.exact(field)
    return None if text is None else int(text)


def _period(query: Query, field: str) -> tuple[datetime | None, datetime | None]:
    """The instants that `field` lies from and before, at most; the query itself decides at the edges."""
    earliest: list[datetime] = []
    latest: list[datetime] = []
    for condition in query.conditions:
        if condition.field == field:
            if condition.operator in ("$eq", "$gt", "$gte"):
                earliest.append(condition.operand)
            if condition.operator in ("$eq", "$lt", "$lte"):
                latest.append(condition.operand + _A_LITTLE)
    return max(earliest, default=None), min(latest, default=None)
