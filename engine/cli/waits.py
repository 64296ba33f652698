"""Owns what an open process instance waits for, in sentences: work, people, events, whoever resolves an incident.
Never changes an instance; the one it reads was rebuilt from the audit's commands.
Called by `conch explain`.
"""

from __future__ import annotations

from collections.abc import Iterator

from engine.api.documents import iso_of_us
from engine.core.instance import ProcessInstance
from engine.records import USER_TASK_TOPIC, Key

MOST_TOLD = 20


def waits(instance: ProcessInstance) -> list[str]:
    """A sentence for each thing that has to happen from outside; of many, the first and how many more there are."""
    told = list(_waits(instance))
    more = len(told) - MOST_TOLD
    return told if more <= 0 else [*told[:MOST_TOLD], f"And {more} more like these."]


def _waits(instance: ProcessInstance) -> Iterator[str]:
    names = {each.key: each.element_name or each.element_id for each in instance.open_activities}

    def name(key: Key | None, element_id: str) -> str:
        return f"“{names.get(key, element_id) if key is not None else element_id}”"

    for incident in instance.open_incidents:
        what = name(incident.activity_instance_key, incident.element_id)
        yield f"{what} is stopped: mend the cause, then POST /v2/incidents/{incident.key}/resolution."
    for job in instance.open_jobs:
        what = name(job.activity_instance_key, job.element_id)
        if job.topic == USER_TASK_TOPIC:
            yield f"{what} waits for a person: user task {job.key}."
        else:
            yield f"{what} waits for a worker: job {job.key} of the type `{job.topic}`."
    for each in instance.open_subscriptions:
        key = f" with the correlation key {each.correlation_key!r}" if each.kind == "message" else ""
        yield f"“{each.element_id}” waits for the {each.kind} `{each.name}`{key}."
    for timer in instance.open_timers:
        yield f"“{timer.element_id}” waits until {iso_of_us(timer.due_at_us)}."
