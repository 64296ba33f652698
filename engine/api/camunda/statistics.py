"""Owns the routes that count: open instances by process and by version, and those that incidents stop.
Never counts what has ended, and says when there is more than it read.
Called by Camunda 8 clients; dashboards of operators.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

from fastapi import APIRouter, Request
from starlette.responses import Response

from engine.api.camunda import fields
from engine.api.camunda.answers import json_answer
from engine.api.camunda.items import with_code
from engine.api.camunda.problems import refused
from engine.api.camunda.reading import DEFAULT_TENANT, read_json
from engine.api.camunda.searches import Item, SearchBody, described_search, page_of, read_query
from engine.api.camunda.services import Instances, Services
from engine.records import Key
from engine.store.search import MAX_LIMIT, FoundIncident, FoundInstance, IncidentFilter, InstanceFilter

K = TypeVar("K", bound=Hashable)


def add(router: APIRouter, services: Services, instances: Instances) -> None:
    _of_definitions(router, services, instances)
    _of_incidents(router, services, instances)


def _of_definitions(router: APIRouter, services: Services, instances: Instances) -> None:
    @router.post(
        "/process-definitions/statistics/process-instances",
        summary="Open instances of each process, with and without incidents",
        openapi_extra=described_search(fields.DEFINITION_STATISTICS),
    )
    async def by_process(request: Request) -> Response:
        query = read_query(await read_json(request, SearchBody), fields.DEFINITION_STATISTICS)
        found = await services.search.process_instances(InstanceFilter(states=("active",)), MAX_LIMIT)
        counted = _counted(found.rows, lambda row: row.process_id)
        items = []
        for process_id, counts in counted.items():
            newest = max(each.definition_key for each in found.rows if each.process_id == process_id)
            definition = await instances.definition(newest)
            versions = {each.version for each in found.rows if each.process_id == process_id}
            said = {
                "processDefinitionId": process_id,
                "tenantId": DEFAULT_TENANT,
                "latestProcessDefinitionName": None if definition is None else definition.name or None,
                "hasMultipleVersions": len(versions) > 1,
            }
            items.append(said | counts)
        return json_answer(page_of(items, query, "processDefinitionId", capped=found.capped))

    @router.post(
        "/process-definitions/statistics/process-instances-by-version",
        summary="Open instances of each version of one process (filter.processDefinitionId)",
        openapi_extra=described_search(fields.DEFINITION_STATISTICS),
    )
    async def by_version(request: Request) -> Response:
        query = read_query(await read_json(request, SearchBody), fields.DEFINITION_STATISTICS)
        process_id = query.exact("processDefinitionId")
        if process_id is None:
            raise refused(["filter.processDefinitionId is missing: the versions of one process are counted"])
        where = InstanceFilter(states=("active",), process_id=process_id)
        found = await services.search.process_instances(where, MAX_LIMIT)
        items = [
            await _version(instances, key) | counts
            for key, counts in _counted(found.rows, lambda row: row.definition_key).items()
        ]
        return json_answer(page_of(items, query, "processDefinitionKey", capped=found.capped))


def _of_incidents(router: APIRouter, services: Services, instances: Instances) -> None:
    @router.post(
        "/incidents/statistics/process-instances-by-error",
        summary="Instances that are stopped, by what stops them",
        openapi_extra=described_search(fields.INCIDENT_STATISTICS),
    )
    async def by_error(request: Request) -> Response:
        query = read_query(await read_json(request, SearchBody), fields.INCIDENT_STATISTICS)
        found = await services.search.incidents(IncidentFilter(states=("open",)), MAX_LIMIT)
        stopped: defaultdict[str, set[Key]] = defaultdict(set)
        for row in found.rows:
            stopped[_told(row)].add(row.process_instance_key)
        items = [
            {
                "errorHashCode": error_hash(told),
                "errorMessage": told,
                "activeInstancesWithErrorCount": len(keys),
            }
            for told, keys in stopped.items()
        ]
        return json_answer(page_of(items, query, "errorHashCode", capped=found.capped))

    @router.post(
        "/incidents/statistics/process-instances-by-definition",
        summary="Instances that one error stops, by version (filter.errorHashCode)",
        openapi_extra=described_search(fields.INCIDENT_STATISTICS),
    )
    async def by_definition(request: Request) -> Response:
        query = read_query(await read_json(request, SearchBody), fields.INCIDENT_STATISTICS)
        error = query.exact("errorHashCode")
        if error is None:
            raise refused(["filter.errorHashCode is missing: process-instances-by-error tells it"])
        found = await services.search.incidents(IncidentFilter(states=("open",)), MAX_LIMIT)
        stopped: defaultdict[Key, set[Key]] = defaultdict(set)
        for row in found.rows:
            if error_hash(_told(row)) == int(error):
                stopped[row.definition_key].add(row.process_instance_key)
        items = [
            await _version(instances, key)
            | {"errorHashCode": int(error), "activeInstancesWithErrorCount": len(stopped_keys)}
            for key, stopped_keys in stopped.items()
        ]
        answer = page_of(items, query, "processDefinitionKey", capped=found.capped)
        for item in answer["items"]:
            del item["errorHashCode"]
        return json_answer(answer)


def error_hash(message: str) -> int:
    """A number for an error's message that is the same at every gateway, in the 31 bits that clients read."""
    return zlib.crc32(message.encode()) >> 1


def _told(row: FoundIncident) -> str:
    """As the incident itself says it."""
    return with_code(row.error_code, row.message)


def _counted(rows: Iterable[FoundInstance], group: Callable[[FoundInstance], K]) -> dict[K, Item]:
    """For each group the instances with and without incidents."""
    counts: dict[K, Item] = {}
    for row in rows:
        count = counts.setdefault(
            group(row), {"activeInstancesWithIncidentCount": 0, "activeInstancesWithoutIncidentCount": 0}
        )
        count[f"activeInstancesWith{'' if row.open_incidents else 'out'}IncidentCount"] += 1
    return counts


async def _version(instances: Instances, key: Key) -> Item:
    definition = await instances.definition(key)
    return {
        "processDefinitionId": "" if definition is None else definition.process_id,
        "processDefinitionKey": str(key),
        "processDefinitionName": "" if definition is None else definition.name or definition.process_id,
        "processDefinitionVersion": 0 if definition is None else definition.version,
        "tenantId": DEFAULT_TENANT,
    }
