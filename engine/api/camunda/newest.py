"""Owns which process instances a search looks into when its filter names none: the newest, as many as it says.
Never looks further, and the answer says when there is more.
Called by the searches for element instances, variables and awaited messages.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from engine.api.camunda.instance_view import InstanceView
from engine.api.camunda.searches import Query
from engine.api.camunda.services import Instances, Services
from engine.errors import Code, Rejected
from engine.store.search import InstanceFilter

log = logging.getLogger("conch.api")

LOOKED_INTO = 100  # instances; each is read whole


class Looked(NamedTuple):
    """The instances that a search looks into, newest first, and whether it passes over older ones."""

    views: list[InstanceView]
    capped: bool


async def instances_of(
    services: Services, instances: Instances, query: Query, *keys: str, only_open: bool = False, variables: bool = False
) -> Looked:
    """The one that the filter names by one of `keys`; else the newest, of a process if it names one."""
    for field in keys:
        if (text := query.exact(field)) is not None:
            root = await instances.root_of_element(int(text))
            view = None if root is None else await instances.view(root, ended_variables=variables)
            return Looked([] if view is None else [view], False)
    definition_key = query.exact("processDefinitionKey")
    where = InstanceFilter(
        process_id=query.exact("processDefinitionId"),
        definition_key=None if definition_key is None else int(definition_key),
        states=("active",) if only_open else (),
        online=None if only_open else False,
    )
    found = await services.search.process_instances(where, LOOKED_INTO)
    views = []
    for row in found.rows:
        try:
            views.append(await instances.view(row.key, ended_variables=variables))
        except Rejected as refused:
            if refused.code != Code.ENGINE_FAULT:
                raise
            # One that this version cannot read is told of when it is asked for by its key; it must not hide the others.
            log.warning("passed over in a search", extra={"process_instance_key": row.key, "reason": refused.message})
    return Looked([view for view in views if view is not None], found.capped or len(views) < len(found.rows))
