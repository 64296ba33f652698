"""Owns the picture of one process instance that every search of it reads: open parts by its state, ended ones by rows.
Never changes an instance or reads anything by itself; state and rows are given.
Called by the searches. What is open in the state and ended in the rows has ended since.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from engine.api.camunda import items
from engine.api.camunda.items import Owner
from engine.api.camunda.searches import Item
from engine.bpmn.definition import ElementType, FlowNode, ProcessDefinition
from engine.core.instance import ProcessInstance
from engine.records import USER_TASK_TOPIC, Job, Key, OpenActivity, OpenIncident
from engine.store.definitions import StoredDefinition
from engine.store.queries import StoredInstance

PROCESS = ElementType.PROCESS.value
USER_TASK = ElementType.USER_TASK.value

Row = Mapping[str, Any]


class Lent(NamedTuple):
    """A job that a worker from outside has."""

    worker: str
    until_us: int


class _Place(NamedTuple):
    """Where an activity instance is: what is around it, and whether it is a called process itself."""

    scope_key: Key | None
    process_id: str | None  # of a called process that it is; null for everything else


class InstanceView:
    """One process instance with the called ones inside it, in Camunda's words.

    `state` is the instance as it is in memory, or rebuilt from its commands. `definitions` are its own and those that
    it may call, by key; `processes` are what they mean, by process id.
    """

    def __init__(
        self,
        stored: StoredInstance,
        state: ProcessInstance,
        definitions: Mapping[Key, StoredDefinition],
        processes: Mapping[str, ProcessDefinition],
    ) -> None:
        self.key = stored.key
        self.stored = stored
        self.state = state
        self._definitions = definitions
        self._processes = processes
        self._ended_rows = [row for row in stored.facts if row["kind"] == "activity"]
        self._ended_keys = {row["activity_instance_key"] for row in self._ended_rows}
        self._open: dict[Key, OpenActivity] = {
            each.key: each for each in state.open_activities if each.key not in self._ended_keys
        }
        self._end = next((row for row in stored.facts if row["kind"] == "instance_ended"), None)
        if self._end is not None:
            self._open = {}
        self._over = {row["incident_key"] for row in stored.facts if row["kind"] == "incident_ended"}
        self._places = self._read_places()
        self._owners: dict[Key, Owner] = {}

    @property
    def ended(self) -> bool:
        return self._end is not None

    def _read_places(self) -> dict[Key, _Place]:
        places = {
            row["activity_instance_key"]: _Place(
                row.get("scope_key"), row["element_id"] if row["element_type"] == PROCESS else None
            )
            for row in self._ended_rows
        }
        for each in self._open.values():
            scope_key = None if each.scope_key == self.key else each.scope_key
            places[each.key] = _Place(scope_key, each.element_id if each.element_type == PROCESS else None)
        return places

    def owner_key(self, key: Key | None) -> Key:
        """The process instance that the activity instance `key` is part of; a called process is its own."""
        while key is not None and key in self._places:
            place = self._places[key]
            if place.process_id is not None:
                return key
            key = place.scope_key
        return self.key

    def owner(self, key: Key) -> Owner:
        """What is said of the process instance `key`: this one, or a called one."""
        known = self._owners.get(key)
        if known is None:
            known = self._owners[key] = self._make_owner(key)
        return known

    def _make_owner(self, key: Key) -> Owner:
        start = self.stored.start
        ref = start.definition
        business_id = start.business_id
        if key != self.key:
            process_id = self._places[key].process_id
            # Two versions of one called process in one instance are told apart by the caller alone; take the first.
            called = (each.target for each in start.calls if each.target.process_id == process_id)
            ref = next(called, ref)
            business_id = None
        definition = self._definitions.get(ref.key)
        name, tag = ("", None) if definition is None else (definition.name, definition.version_tag)
        return Owner(key, self.key, ref.key, ref.process_id, ref.version, name, tag, business_id, start.tags)

    def _owner_of(self, activity_key: Key | None) -> Owner:
        return self.owner(self.owner_key(activity_key))

    def within(self, key: Key) -> set[Key]:
        """`key` and every activity instance inside it."""
        if key == self.key:
            return {key, *self._places}
        inside = {key}
        for each in self._places:
            path = []
            at: Key | None = each
            while at is not None and at not in inside:
                path.append(at)
                place = self._places.get(at)
                at = None if place is None else place.scope_key
            if at is not None:
                inside.update(path)
        return inside

    # --- process instances and elements -------------------------------------------------------------------------

    def process_instances(self) -> Iterator[Item]:
        """This one first, then the called ones."""
        incidents = {self.owner_key(each.activity_instance_key) for each in self._open_incidents()}
        state = "active" if self._end is None else self._end["state"]
        ended_at = None if self._end is None else self._end["ended_at"]
        began = self.stored.started_at
        yield items.instance_item(
            self.owner(self.key), state=state, started_at=began, ended_at=ended_at, has_incident=bool(incidents)
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
        caller = self._places[key].scope_key
        return items.instance_item(
            self.owner(key),
            state=state,
            started_at=started_at,
            ended_at=ended_at,
            has_incident=has_incident,
            parent_key=self.owner_key(caller),
            parent_element_key=caller,
        )

    def elements(self) -> Iterator[Item]:
        """Every element instance; the process itself is one, as in Camunda."""
        owner = self.owner(self.key)
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
                self._owner_of(row["activity_instance_key"]),
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
                self._owner_of(each.key),
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
                yield self._owner_of(row["activity_instance_key"]), flow_id

    # --- variables ----------------------------------------------------------------------------------------------

    def scopes(self) -> Mapping[Key, Mapping[str, Any]]:
        """Local variables by scope: of the process instance also when it has ended, of the rest while it is open."""
        if self.state.outcome is not None:
            return {self.key: self.state.outcome.variables}
        return self.state.scopes

    def variables(self) -> Iterator[Item]:
        for scope_key, variables in self.scopes().items():
            owner = self._owner_of(scope_key)
            for name, value in variables.items():
                yield items.variable_item(
                    owner, key=items.variable_key(scope_key, name), name=name, value=value, scope_key=scope_key
                )

    def seen_from(self, activity_key: Key) -> dict[str, tuple[Key, Any]]:
        """What an activity instance reads, by name: its own variables first, then outwards; each with its scope."""
        seen: dict[str, tuple[Key, Any]] = {}
        scopes = self.scopes()
        key: Key | None = activity_key
        while key is not None:
            for name, value in scopes.get(key, {}).items():
                seen.setdefault(name, (key, value))
            place = self._places.get(key)
            if place is None or place.process_id is not None:  # a called process sees nothing of its caller
                return seen
            key = self.key if place.scope_key is None else place.scope_key
        return seen

    def variables_seen_from(self, activity_key: Key) -> Iterator[Item]:
        for name, (scope_key, value) in self.seen_from(activity_key).items():
            owner = self._owner_of(scope_key)
            yield items.variable_item(
                owner, key=items.variable_key(scope_key, name), name=name, value=value, scope_key=scope_key
            )

    # --- incidents ----------------------------------------------------------------------------------------------

    def _open_incidents(self) -> Iterator[OpenIncident]:
        """Those that have not ended since."""
        for each in () if self.ended else self.state.open_incidents:
            if each.key not in self._over:
                yield each

    def incidents(self) -> Iterator[Item]:
        for each in self._open_incidents():
            yield items.incident_item(
                self._owner_of(each.activity_instance_key),
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
                    self._owner_of(activity_key),
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
        process = self._processes.get(owner.process_id)
        return None if process is None else process.nodes.get(element_id)

    def _open_jobs(self) -> Iterable[Job]:
        """Those whose activity has not ended since."""
        jobs = () if self.ended else self.state.open_jobs
        return (each for each in jobs if each.activity_instance_key not in self._ended_keys)

    def _ended_jobs(self) -> Iterator[tuple[Row, Owner, FlowNode | None]]:
        for row in self._ended_rows:
            if row.get("job_key") is not None:
                owner = self._owner_of(row["activity_instance_key"])
                yield row, owner, self.node(owner, row["element_id"])

    def jobs(self, lent: Mapping[Key, Lent]) -> Iterator[Item]:
        """Every job but those of people; `lent` are those that a worker has at the moment."""
        for job in self._open_jobs():
            if job.topic != USER_TASK_TOPIC:
                activity = self._open.get(job.activity_instance_key)
                loan = lent.get(job.key)
                yield items.job_item(
                    self._owner_of(job.activity_instance_key),
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
            if node is None or node.topic is not None:
                thrown = row.get("error_code")
                yield items.job_item(
                    owner,
                    key=row["job_key"],
                    topic="" if node is None else node.topic or "",
                    state="COMPLETED" if row["state"] == "completed" else "ERROR_THROWN" if thrown else "CANCELED",
                    element_id=row["element_id"],
                    activity_key=row["activity_instance_key"],
                    headers={} if node is None else node.headers,
                    retries=0 if node is None else node.retries,
                    created_at=row.get("job_queued_at", row["started_at"]),
                    ended_at=row["ended_at"],
                    error_code=thrown,
                    message=row.get("message"),
                )

    def _failed_jobs(self) -> Iterator[Item]:
        """Those whose tries are spent: their incident waits for a person."""
        for incident in self._open_incidents():
            owner = self._owner_of(incident.activity_instance_key)
            node = self.node(owner, incident.element_id)
            if incident.job_key is not None and node is not None and node.topic is not None:
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
                    self._owner_of(job.activity_instance_key),
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
        for each in () if self.ended else self.state.open_subscriptions:
            if each.kind == "message":
                activity = self._open.get(each.activity_instance_key)
                yield items.subscription_item(
                    self._owner_of(each.activity_instance_key),
                    key=each.key,
                    element_id=each.element_id,
                    activity_key=each.activity_instance_key,
                    name=each.name,
                    correlation_key=each.correlation_key,
                    state="CREATED",
                    updated_at=self.stored.started_at if activity is None else activity.started_at_us,
                )
