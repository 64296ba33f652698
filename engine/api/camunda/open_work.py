"""Owns the items of what is open over all instances of this gateway: jobs, user tasks, awaited messages.
Never loads an instance; what the work and the correlation services know by themselves is enough.
Called by the searches that name no process instance.
"""

from __future__ import annotations

from engine.api.camunda import items
from engine.api.camunda.items import Owner
from engine.api.camunda.searches import Item
from engine.api.camunda.services import Instances, Services
from engine.records import DefinitionRef, Key, Tags


class OpenWork:
    """One look at everything that is open."""

    def __init__(self, services: Services, instances: Instances) -> None:
        self._services = services
        self._instances = instances

    async def jobs(self) -> list[Item]:
        """The jobs that wait for a worker, or are with one."""
        return [
            items.job_item(
                await self._owner(each.job.process_instance_key, each.instance_key, each.definition),
                key=each.job.key,
                topic=each.job.topic,
                state="CREATED",
                element_id=each.job.element_id,
                activity_key=each.job.activity_instance_key,
                headers=each.job.headers,
                retries=each.job.retries,
                worker=each.worker or "",
                deadline=each.deadline_at_us,
                created_at=each.offered_at_us,
            )
            for each in self._services.work.jobs()
        ]

    async def user_tasks(self) -> list[Item]:
        """The tasks that wait for a person."""
        found = []
        for each in self._services.work.user_tasks():
            job = each.job
            owner = await self._owner(job.process_instance_key, each.instance_key, each.definition)
            found.append(
                items.user_task_item(
                    owner,
                    key=job.key,
                    name=await self._name(each.definition, job.element_id),
                    state="CREATED",
                    element_id=job.element_id,
                    activity_key=job.activity_instance_key,
                    created_at=each.offered_at_us,
                    **items.user_task_fields(job.headers),
                )
            )
        return found

    async def _owner(self, key: Key, root: Key, ref: DefinitionRef) -> Owner:
        definition = await self._instances.definition(ref.key)
        start = self._services.runtime.start_of(root)
        return Owner(
            key or root,
            root,
            ref.key,
            ref.process_id,
            ref.version,
            "" if definition is None else definition.name,
            None if definition is None else definition.version_tag,
            None if start is None else start.business_id,
            Tags() if start is None else start.tags,
        )

    async def _name(self, ref: DefinitionRef, element_id: str) -> str:
        """The element's name in its diagram."""
        deployed = await self._services.deployments.find(key=ref.key)
        node = None if deployed is None else deployed.program.definition.nodes.get(element_id)
        return "" if node is None else node.name
