"""Owns the picture of one process instance that every search of it reads: open parts by its state, ended ones by rows.
Never changes an instance or reads anything by itself; state and rows are given.
Called by the searches. What is open in the state and ended in the rows has ended since.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from engine.api.camunda import items
from engine.api.camunda.instance_places import InstancePlaces, Place
from engine.api.camunda.items import Owner
from engine.api.camunda.searches import Item
from engine.bpmn.definition import ElementType, FlowNode, ProcessDefinition
from engine.core.instance import ProcessInstance
from engine.records import USER_TASK_TOPIC, Job, Key, OpenActivity, OpenIncident, Subscription
from engine.store.definitions import StoredDefinition
from engine.store.queries import StoredInstance

PROCESS = ElementType.PROCESS.value
USER_TASK = ElementType.USER_TASK.value
_JOB_STATES = {"completed": "COMPLETED", "failed": "ERROR_THROWN"}  # of its activity; any other: it was stopped

Row = Mapping[str, Any]


class OpenState(NamedTuple):
    """What was open in an instance at one moment. The instance itself goes on while the audit is read."""

    activities: tuple[OpenActivity, ...]
    jobs: tuple[Job, ...]
    incidents: tuple[OpenIncident, ...]
    subscriptions: tuple[Subscription, ...]
    scopes: Mapping[Key, Mapping[str, Any]]  # local variables; of the process instance also when it has ended

    @classmethod
    def of(cls, instance: ProcessInstance) -> OpenState:
        outcome = instance.outcome
        scopes = instance.scopes if outcome is None else {instance.key: outcome.variables}
        return cls(
            instance.open_activities, instance.open_jobs, instance.open_incidents, instance.open_subscriptions, scopes
        )


class Lent(NamedTuple):
    """A job that a worker from outside has."""

    worker: str
    until_us: int


class InstanceView:
    """One process instance with the called ones inside it, in Camunda's words.

    `state` is what was open in memory, or in the instance rebuilt from its commands, before `stored` was read; so
    what is open there and ended in the rows has ended since. `definitions` are its own and those that
    it may call, by key; `processes` are what they mean, by content hash and process id.
    """

    def __init__(
        self,
        stored: StoredInstance,
        state: OpenState,
        definitions: Mapping[Key, StoredDefinition],
        processes: Mapping[tuple[str, str], ProcessDefinition],
    ) -> None:
        self.key = stored.key
        self.stored = stored
        self.state = state
        self._processes = processes
        self._ended_rows = [row for row in stored.facts if row["kind"] == "activity"]
        self._ended_keys = {row["activity_instance_key"] for row in self._ended_rows}
        self._open: dict[Key, OpenActivity] = {
            each.key: each for each in state.activities if each.key not in self._ended_keys
        }
        self._end = next((row for row in stored.facts if row["kind"] == "instance_ended"), None)
        if self._end is not None:
            self._open = {}
        self._failures = {row["job_key"]: row for row in stored.facts if row["kind"] == "job_failed"}
        self._over = {row["incident_key"] for row in stored.facts if row["kind"] == "incident_ended"}
        self.places = InstancePlaces(self.key, stored.start, self._read_places(), definitions)

    @property
    def ended(self) -> bool:
        return self._end is not None

    def _read_places(self) -> dict[Key, Place]:
        places = {
            row["activity_instance_key"]: Place(row["element_id"], row.get("scope_key"), row["element_type"] == PROCESS)
            for row in self._ended_rows
        }
        for each in self._open.values():
            scope_key = None if each.scope_key == self.key else each.scope_key
            places[each.key] = Place(each.element_id, scope_key, each.element_type == PROCESS)
        return places

    # --- process instances and elements -------------------------------------------------------------------------

    def process_instances(self) -> Iterator[Item]:
        """This one first, then the called ones."""
        incidents = {self.places.owner_key(each.activity_instance_key) for each in self._open_incidents()}
        state = "active" if self._end is None else self._end["state"]
        ended_at = None if self._end is None else self._end["ended_at"]
        began = self.stored.started_at
        yield items.instance_item(
            self.places.owner(self.key), state=state, started_at=began, ended_at=ended_at, has_incident=bool(incidents)
        )
        for row in self._ended_rows:
            if row["element_type"] == PROCESS:
                yield self._called(
                    row["activity_instance_key"], row["state"], row["started_at"], row["ended_at"], False
                )
        for each in self._open.values():
            if each.element_type == PROCESS:
                yield self._called(each.key, each.state, each.started_at_us, None, each.key in incidents)

    def _called(self, key: Key, state: str, started_at: Any, ended_at: Any, has_incident: bool) -> Item:
        caller = self.places.caller_key(key)
        return items.instance_item(
            self.places.owner(key),
            state=state,
            started_at=started_at,
            ended_at=ended_at,
            has_incident=has_incident,
            parent_key=self.places.owner_key(caller),
            parent_element_key=caller,
        )

    def elements(self) -> Iterator[Item]:
        """Every element instance; the process itself is one, as in Camunda."""
        owner = self.places.owner(self.key)
        yield items.element_item(
            owner,
            key=self.key,
            element_id=owner.process_id,
            name=owner.name,
            element_type=PROCESS,
            state="active" if self._end is None else self._end["state"],
            started_at=self.stored.started_at,
            ended_at=None if self._end is None else self._end["ended_at"],
            incident_key=None,
            scope_key=None,
        )
        for row in self._ended_rows:
            yield items.element_item(
                self.places.owner_of(row["activity_instance_key"]),
                key=row["activity_instance_key"],
                element_id=row["element_id"],
                name=row["element_name"],
                element_type=row["element_type"],
                state=row["state"],
                started_at=row["started_at"],
                ended_at=row["ended_at"],
                incident_key=None,
                scope_key=row.get("scope_key", self.key),
            )
        for each in self._open.values():
            yield items.element_item(
                self.places.owner_of(each.key),
                key=each.key,
                element_id=each.element_id,
                name=each.element_name,
                element_type=each.element_type,
                state=each.state,
                started_at=each.started_at_us,
                ended_at=None,
                incident_key=each.incident_key,
                scope_key=each.scope_key,
            )

    def taken_flows(self) -> Iterator[tuple[Owner, str]]:
        """Every sequence flow that was taken, in order."""
        for row in self._ended_rows:
            for flow_id in row.get("taken_flow_ids") or ():
                yield self.places.owner_of(row["activity_instance_key"]), flow_id

    # --- variables ----------------------------------------------------------------------------------------------

    def has(self, instance: Item, wanted: Mapping[str, Any]) -> bool:
        """Whether a process instance has these variables, with these values."""
        variables = self.state.scopes.get(int(instance["processInstanceKey"]), {})
        # In Python, but not in JSON, true equals 1.
        return all(
            name in variables
            and variables[name] == value
            and isinstance(variables[name], bool) is isinstance(value, bool)
            for name, value in wanted.items()
        )

    def variables(self) -> Iterator[Item]:
        for scope_key, variables in self.state.scopes.items():
            owner = self.places.owner_of(scope_key)
            for name, value in variables.items():
                yield items.variable_item(
                    owner, key=items.variable_key(scope_key, name), name=name, value=value, scope_key=scope_key
                )

    def seen_from(self, activity_key: Key) -> dict[str, tuple[Key, Any]]:
        """What an activity instance reads, by name: its own variables first, then outwards; each with its scope."""
        seen: dict[str, tuple[Key, Any]] = {}
        scopes = self.state.scopes
        key: Key | None = activity_key
        while key is not None:
            for name, value in scopes.get(key, {}).items():
                seen.setdefault(name, (key, value))
            key = self.places.scope_of(key)
        return seen

    def variables_seen_from(self, activity_key: Key) -> Iterator[Item]:
        for name, (scope_key, value) in self.seen_from(activity_key).items():
            owner = self.places.owner_of(scope_key)
            yield items.variable_item(
                owner, key=items.variable_key(scope_key, name), name=name, value=value, scope_key=scope_key
            )

    # --- incidents ----------------------------------------------------------------------------------------------

    def _open_incidents(self) -> Iterator[OpenIncident]:
        """Those that have not ended since."""
        for each in () if self.ended else self.state.incidents:
            if each.key not in self._over:
                yield each

    def incidents(self) -> Iterator[Item]:
        for each in self._open_incidents():
            yield items.incident_item(
                self.places.owner_of(each.activity_instance_key),
                key=each.key,
                activity_key=each.activity_instance_key,
                element_id=each.element_id,
                error_code=each.error_code,
                message=each.message,
                raised_at=each.raised_at_us,
                job_key=each.job_key,
                state="ACTIVE",
            )
        for row in self.stored.facts:
            if row["kind"] == "incident" and (row["incident_key"] in self._over or self.ended):
                activity_key = row.get("activity_instance_key")
                yield items.incident_item(
                    self.places.owner_of(activity_key),
                    key=row["incident_key"],
                    activity_key=activity_key,
                    element_id=row.get("element_id"),
                    error_code=row["error_code"],
                    message=row.get("message", ""),
                    raised_at=row["recorded_at"],
                    job_key=None,
                    state="RESOLVED",
                )

    # --- work ---------------------------------------------------------------------------------------------------

    def node(self, owner: Owner, element_id: str) -> FlowNode | None:
        ref = self.places.ref(owner.key)
        process = self._processes.get((ref.content_hash, ref.process_id))
        return None if process is None else process.nodes.get(element_id)

    def _open_jobs(self) -> Iterable[Job]:
        """Those whose activity has not ended since."""
        jobs = () if self.ended else self.state.jobs
        return (each for each in jobs if each.activity_instance_key not in self._ended_keys)

    def _ended_jobs(self) -> Iterator[tuple[Row, Owner, FlowNode | None]]:
        for row in self._ended_rows:
            if row.get("job_key") is not None:
                owner = self.places.owner_of(row["activity_instance_key"])
                yield row, owner, self.node(owner, row["element_id"])

    def jobs(self, lent: Mapping[Key, Lent]) -> Iterator[Item]:
        """Every job but those of people; `lent` are those that a worker has at the moment."""
        for job in self._open_jobs():
            if job.topic != USER_TASK_TOPIC:
                activity = self._open.get(job.activity_instance_key)
                loan = lent.get(job.key)
                yield items.job_item(
                    self.places.owner_of(job.activity_instance_key),
                    key=job.key,
                    topic=job.topic,
                    state="CREATED",
                    element_id=job.element_id,
                    activity_key=job.activity_instance_key,
                    headers=job.headers,
                    retries=job.retries,
                    worker="" if loan is None else loan.worker,
                    deadline=None if loan is None else loan.until_us,
                    created_at=None if activity is None else activity.started_at_us,
                )
        yield from self._failed_jobs()
        for row, owner, node in self._ended_jobs():
            if row["element_type"] != USER_TASK and row["job_key"] not in self._failures:
                yield items.job_item(
                    owner,
                    key=row["job_key"],
                    topic="" if node is None else node.topic or "",
                    state=_JOB_STATES.get(row["state"], "CANCELED"),
                    element_id=row["element_id"],
                    activity_key=row["activity_instance_key"],
                    headers={} if node is None else node.headers,
                    retries=0 if node is None else node.retries,
                    created_at=row.get("job_queued_at", row["started_at"]),
                    ended_at=row["ended_at"],
                    error_code=row.get("error_code"),
                    message=row.get("message"),
                )

    def _failed_jobs(self) -> Iterator[Item]:
        """Tries that failed, each a job of its own. An older engine told only of those whose incident is open."""
        for row in self._failures.values():
            owner = self.places.owner_of(row["activity_instance_key"])
            node = self.node(owner, row["element_id"])
            yield items.job_item(
                owner,
                key=row["job_key"],
                topic="" if node is None else node.topic or "",
                state="FAILED",
                element_id=row["element_id"],
                activity_key=row["activity_instance_key"],
                headers={} if node is None else node.headers,
                retries=row["details"]["retries"],
                created_at=row["job_queued_at"],
                ended_at=row["job_finished_at"],
                error_code=row["error_code"],
                message=row.get("message"),
            )
        for incident in self._open_incidents():
            owner = self.places.owner_of(incident.activity_instance_key)
            node = self.node(owner, incident.element_id)
            if incident.job_key is None or incident.job_key in self._failures:
                continue
            if node is not None and node.topic is not None:
                yield items.job_item(
                    owner,
                    key=incident.job_key,
                    topic=node.topic,
                    state="FAILED",
                    element_id=incident.element_id,
                    activity_key=incident.activity_instance_key,
                    headers=node.headers,
                    retries=0,
                    created_at=incident.raised_at_us,
                    error_code=incident.error_code,
                    message=incident.message,
                )

    def user_tasks(self) -> Iterator[Item]:
        """Every task for a person."""
        for job in self._open_jobs():
            if job.topic == USER_TASK_TOPIC:
                activity = self._open.get(job.activity_instance_key)
                yield items.user_task_item(
                    self.places.owner_of(job.activity_instance_key),
                    key=job.key,
                    name=job.element_id if activity is None else activity.element_name,
                    state="CREATED",
                    element_id=job.element_id,
                    activity_key=job.activity_instance_key,
                    created_at=self.stored.started_at if activity is None else activity.started_at_us,
                    **items.user_task_fields(job.headers),
                )
        for row, owner, _ in self._ended_jobs():
            if row["element_type"] == USER_TASK:
                yield items.user_task_item(
                    owner,
                    key=row["job_key"],
                    name=row["element_name"],
                    state="COMPLETED" if row["state"] == "completed" else "CANCELED",
                    element_id=row["element_id"],
                    activity_key=row["activity_instance_key"],
                    created_at=row["started_at"],
                    completed_at=row["ended_at"],
                    **items.user_task_fields({}),
                )

    def subscriptions(self) -> Iterator[Item]:
        """The messages that are waited for."""
        for each in () if self.ended else self.state.subscriptions:
            if each.kind == "message" and each.activity_instance_key not in self._ended_keys:
                activity = self._open.get(each.activity_instance_key)
                yield items.subscription_item(
                    self.places.owner_of(each.activity_instance_key),
                    key=each.key,
                    element_id=each.element_id,
                    activity_key=each.activity_instance_key,
                    name=each.name,
                    correlation_key=each.correlation_key,
                    state="CREATED",
                    updated_at=self.stored.started_at if activity is None else activity.started_at_us,
                )
