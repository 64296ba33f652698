"""Owns what the audit finds across instances: process instances and incidents by what is said of them, roots by keys.
Never looks into one instance (Queries.load_instance and a replay do), and never reads more than it says it does.
Called by the routes that search; they merge what is found with what is open in memory.

Everything comes newest first, in the order of keys, which is that of time. Whoever wants more goes on `before` the
last key. Filters that an index serves narrow at once; the others look at the newest `WINDOW` instances that are left.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, Generic, NamedTuple, TypeVar

from sqlalchemy import text

from engine.records import Key
from engine.store import json_text, partitions
from engine.store.database import Database

T = TypeVar("T")
_Row = TypeVar("_Row", "FoundInstance", "CalledInstance", "FoundIncident")

WINDOW: Final = 10_000
MAX_LIMIT: Final = 10_000
_DAY = timedelta(days=1)
_DAY_OF = "DATE '2024-01-01' + (({key} >> 22) / 86400000)::integer"

_OPEN = f"""
    open_instance o JOIN record s
    ON s.process_instance_key = o.process_instance_key AND s.day = {_DAY_OF.format(key="o.process_instance_key")}
"""
_LAST = """
    LEFT JOIN LATERAL (
        SELECT e.state, e.ended_at, e.error_code, e.message
        FROM (
            SELECT r.kind, r.state, r.ended_at, r.error_code, r.message FROM record r
            WHERE r.process_instance_key = s.process_instance_key AND r.day = s.day
            ORDER BY r.position DESC
            LIMIT 1
        ) e
        WHERE e.kind = 'instance_ended'
    ) l ON true
"""
_FOUND = """
    s.process_instance_key, s.process_id, s.process_version, s.process_definition_key, s.tenant, s.product, s.feature,
    s.priority, s.request_id::text, s.online, s.recorded_at, s.details ->> 'business_id',
    coalesce(l.state, 'active'), l.ended_at, l.error_code, l.message, coalesce(o.open_incidents, 0)
"""
_CALLED = """
    SELECT c.activity_instance_key, c.process_instance_key, c.scope_key, c.element_id, c.state, c.started_at,
        c.ended_at
    FROM record c
    WHERE c.element_type = 'PROCESS' AND c.kind = 'activity' AND c.activity_instance_key < :before
      AND (CAST(:process_id AS text) IS NULL OR c.element_id = :process_id)
    ORDER BY c.activity_instance_key DESC
    LIMIT :limit
"""
_INCIDENTS = """
    SELECT i.incident_key, i.process_instance_key, i.process_id, i.process_version, i.process_definition_key, i.tenant,
        i.activity_instance_key, i.element_id, i.error_code, i.message, i.recorded_at,
        coalesce(e.state, CASE WHEN l.ended_at IS NULL THEN 'open' ELSE 'ended' END),
        coalesce(e.recorded_at, l.ended_at)
    FROM ({incidents}) i
    LEFT JOIN LATERAL (
        SELECT r.state, r.recorded_at FROM record r
        WHERE r.process_instance_key = i.process_instance_key AND r.day = i.day AND r.position > i.position
          AND r.kind = 'incident_ended' AND r.incident_key = i.incident_key
        LIMIT 1
    ) e ON true
"""
_ROOT_OF_INSTANCE = text(f"""
    SELECT process_instance_key FROM record
    WHERE process_instance_key = :key AND position = 1 AND kind = 'instance_started'
      AND day = {_DAY_OF.format(key="CAST(:key AS bigint)")}
    UNION ALL
    SELECT process_instance_key FROM record WHERE activity_instance_key = :key AND element_type = 'PROCESS'
    LIMIT 1
""")
_ROOT_OF_ACTIVITY = text("""
    SELECT process_instance_key FROM record
    WHERE activity_instance_key = :key AND kind = 'activity' AND NOT online
    LIMIT 1
""")
_ROOT_OF_JOB = text("""
    SELECT process_instance_key FROM record
    WHERE job_key = :key AND kind = 'activity' AND NOT online AND job_key IS NOT NULL
    LIMIT 1
""")
_ROOT_OF_INCIDENT = text("SELECT process_instance_key FROM record WHERE incident_key = :key AND kind = 'incident'")


class Found(NamedTuple, Generic[T]):
    """What was found; `before` goes on from there, and is null when that was all."""

    rows: list[T]
    before: Key | None

    @property
    def capped(self) -> bool:
        """Whether there may be more."""
        return self.before is not None


class InstanceFilter(NamedTuple):
    """Everything that is given must hold; what is null or empty does not matter.

    `states`: active, completed, terminated, aborted. Only `active` alone: operational instances that are open; online
    ones live too short to be asked for. `variables`: names with the value that was last written to them by the start
    or by an activity; what a person has set is no row of its own and only a replay tells.
    """

    keys: Collection[Key] = ()
    process_id: str | None = None
    definition_key: Key | None = None
    version: int | None = None
    states: Collection[str] = ()
    has_incident: bool | None = None
    business_id: str | None = None
    tenant: str | None = None
    online: bool | None = None
    started_from: datetime | None = None
    started_before: datetime | None = None
    ended_from: datetime | None = None
    ended_before: datetime | None = None
    variables: Mapping[str, Any] = {}
    before: Key | None = None


class FoundInstance(NamedTuple):
    """A process instance that was started for itself; one that is called inside another is a CalledInstance."""

    key: Key
    process_id: str
    version: int
    definition_key: Key
    tenant: str
    product: str
    feature: str
    priority: str
    request_id: str | None
    online: bool
    started_at: datetime
    business_id: str | None
    state: str  # active | completed | terminated | aborted
    ended_at: datetime | None
    error_code: str | None
    error_message: str | None
    open_incidents: int  # of an operational instance, those in what it calls included


class CalledInstance(NamedTuple):
    """A called process that has ended."""

    key: Key
    root_key: Key  # the instance that it ran inside
    caller_key: Key | None  # activity instance of the call activity
    process_id: str
    state: str
    started_at: datetime
    ended_at: datetime


class IncidentFilter(NamedTuple):
    """Everything that is given must hold. `states`: open, resolved, ended."""

    keys: Collection[Key] = ()
    process_instance_key: Key | None = None
    process_id: str | None = None
    definition_key: Key | None = None
    element_id: str | None = None
    error_code: str | None = None
    states: Collection[str] = ()
    raised_from: datetime | None = None
    raised_before: datetime | None = None
    before: Key | None = None


class FoundIncident(NamedTuple):
    key: Key
    process_instance_key: Key  # of the instance that was started for itself
    process_id: str  # that instance's
    version: int
    definition_key: Key
    tenant: str
    activity_instance_key: Key | None
    element_id: str | None
    error_code: str
    message: str
    raised_at: datetime
    state: str  # open | resolved | ended
    ended_at: datetime | None


class Search:
    """Searches on pooled connections. Every method raises sqlalchemy.exc.OperationalError while Postgres is away."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def process_instances(self, where: InstanceFilter, limit: int = 100) -> Found[FoundInstance]:
        """Process instances that were started for themselves, newest first."""
        conditions, late, values = _instance_conditions(where)
        limit = min(limit, MAX_LIMIT)
        only_open = set(where.states) == {"active"} or where.has_incident is True
        source = _OPEN if only_open else "record s"
        window = f"""
            SELECT s.* FROM {source}
            WHERE s.position = 1 AND s.kind = 'instance_started' AND {" AND ".join(conditions)}
            ORDER BY s.process_instance_key DESC
            LIMIT :window
        """
        query = f"""
            SELECT {_FOUND}
            FROM ({window}) s
            LEFT JOIN open_instance o USING (process_instance_key)
            {_LAST}
            WHERE {" AND ".join(late) or "true"}
            ORDER BY s.process_instance_key DESC
            LIMIT :limit
        """
        values |= {"window": WINDOW if late else limit + 1, "limit": limit + 1}
        rows = [FoundInstance(*row) for row in await self._rows(query, values)]
        oldest = f"SELECT count(*), min(process_instance_key) FROM ({window}) s" if late else None
        return await self._found(rows, limit, oldest, values)

    async def called_instances(
        self, process_id: str | None = None, before: Key | None = None, limit: int = 100
    ) -> Found[CalledInstance]:
        """Called processes that have ended, newest first."""
        limit = min(limit, MAX_LIMIT)
        values = {"process_id": process_id, "before": _above(before), "limit": limit + 1}
        rows = [CalledInstance(*row) for row in await self._rows(_CALLED, values)]
        return await self._found(rows, limit, None, values)

    async def incidents(self, where: IncidentFilter, limit: int = 100) -> Found[FoundIncident]:
        """Incidents of every instance, newest first."""
        conditions, values = _incident_conditions(where)
        limit = min(limit, MAX_LIMIT)
        source = "record s"
        if set(where.states) == {"open"}:
            source = _OPEN
            conditions.append("o.open_incidents > 0")
        incidents = f"""
            SELECT s.* FROM {source} WHERE s.kind = 'incident' AND {" AND ".join(conditions)}
            ORDER BY s.incident_key DESC
            LIMIT :window
        """
        late = "true"
        if where.states:
            late = "coalesce(e.state, CASE WHEN l.ended_at IS NULL THEN 'open' ELSE 'ended' END) = ANY(:states)"
            values["states"] = list(where.states)
        query = f"""
            {_INCIDENTS.format(incidents=incidents)} {_LAST.replace("s.", "i.")}
            WHERE {late} ORDER BY i.incident_key DESC LIMIT :limit
        """
        values |= {"window": WINDOW if where.states else limit + 1, "limit": limit + 1}
        rows = [FoundIncident(*row) for row in await self._rows(query, values)]
        oldest = f"SELECT count(*), min(incident_key) FROM ({incidents}) s" if where.states else None
        return await self._found(rows, limit, oldest, values)

    async def root_of(self, key: Key) -> Key | None:
        """The instance that a process instance is, or was part of as a called process that has ended."""
        return await self._root(_ROOT_OF_INSTANCE, key)

    async def root_of_activity(self, key: Key) -> Key | None:
        """The operational instance that an activity instance was part of, once that has ended."""
        return await self._root(_ROOT_OF_ACTIVITY, key)

    async def root_of_job(self, key: Key) -> Key | None:
        """The operational instance that a job was part of, once its activity has ended."""
        return await self._root(_ROOT_OF_JOB, key)

    async def root_of_incident(self, key: Key) -> Key | None:
        return await self._root(_ROOT_OF_INCIDENT, key)

    async def _root(self, query: Any, key: Key) -> Key | None:
        async with self._database.engine.connect() as connection:
            return (await connection.execute(query, {"key": key})).scalar_one_or_none()

    async def _found(
        self, rows: list[_Row], limit: int, oldest_of_window: str | None, values: dict[str, Any]
    ) -> Found[_Row]:
        """One page; `oldest_of_window` says how far was looked where that may be less than everything."""
        if len(rows) > limit:
            return Found(rows[:limit], rows[limit - 1].key)
        if oldest_of_window is None:
            return Found(rows, None)
        ((looked_at, oldest),) = await self._rows(oldest_of_window, values)
        return Found(rows, oldest if looked_at == WINDOW else None)

    async def _rows(self, query: str, values: dict[str, Any]) -> list[Any]:
        async with self._database.engine.connect() as connection:
            return list(await connection.execute(text(query), values))


def _instance_conditions(where: InstanceFilter) -> tuple[list[str], list[str], dict[str, Any]]:
    """Conditions on the row of the start, those on what became of it, and the values of both."""
    conditions = ["s.process_instance_key < :before"]
    late: list[str] = []
    values: dict[str, Any] = {"before": _above(where.before)}

    def also(to: list[str], condition: str, name: str, value: Any) -> None:
        if value is not None:
            to.append(condition)
            values[name] = value

    also(conditions, "s.process_id = :process_id", "process_id", where.process_id)
    also(conditions, "s.process_definition_key = :definition_key", "definition_key", where.definition_key)
    also(conditions, "s.process_version = :version", "version", where.version)
    also(conditions, "s.tenant = :tenant", "tenant", where.tenant)
    also(conditions, "s.online = :online", "online", where.online)
    also(
        conditions,
        "s.details IS NOT NULL AND s.details ->> 'business_id' = :business_id",
        "business_id",
        where.business_id,
    )
    also(conditions, "s.recorded_at >= :started_from", "started_from", where.started_from)
    also(conditions, "s.recorded_at < :started_before", "started_before", where.started_before)
    _name_keys(conditions, values, "s.process_instance_key", where.keys)
    _name_days(conditions, values, where.started_from, where.started_before)
    also(late, "l.ended_at >= :ended_from", "ended_from", where.ended_from)
    also(late, "l.ended_at < :ended_before", "ended_before", where.ended_before)
    also(late, "coalesce(l.state, 'active') = ANY(:states)", "states", list(where.states) or None)
    if where.has_incident is not None:
        late.append("coalesce(o.open_incidents, 0) > 0" if where.has_incident else "coalesce(o.open_incidents, 0) = 0")
    for number, (name, value) in enumerate(where.variables.items()):
        values |= {f"variable_{number}": name, f"value_{number}": json_text.dumps(value).decode()}
        late.append(_last_written(number))
    return conditions, late, values


def _last_written(number: int) -> str:
    return f"""(
        SELECT r.variables -> :variable_{number} FROM record r
        WHERE r.process_instance_key = s.process_instance_key AND r.day = s.day AND r.position > 0
          AND jsonb_exists(r.variables, :variable_{number})
        ORDER BY r.position DESC
        LIMIT 1
    ) = CAST(:value_{number} AS jsonb)"""


def _incident_conditions(where: IncidentFilter) -> tuple[list[str], dict[str, Any]]:
    conditions = ["s.incident_key < :before"]
    values: dict[str, Any] = {"before": _above(where.before)}
    for condition, name, value in (
        ("s.process_id = :process_id", "process_id", where.process_id),
        ("s.process_definition_key = :definition_key", "definition_key", where.definition_key),
        ("s.element_id = :element_id", "element_id", where.element_id),
        ("s.error_code = :error_code", "error_code", where.error_code),
        ("s.recorded_at >= :raised_from", "raised_from", where.raised_from),
        ("s.recorded_at < :raised_before", "raised_before", where.raised_before),
    ):
        if value is not None:
            conditions.append(condition)
            values[name] = value
    if where.keys:
        conditions.append("s.incident_key = ANY(CAST(:keys AS bigint[]))")
        values["keys"] = list(where.keys)
    if where.process_instance_key is not None:
        conditions.append("s.process_instance_key = :process_instance_key AND s.day = :day")
        values |= {"process_instance_key": where.process_instance_key, "day": _day_of(where.process_instance_key)}
    return conditions, values


def _name_keys(conditions: list[str], values: dict[str, Any], column: str, keys: Collection[Key]) -> None:
    """Only these keys, in only their days' partitions."""
    if keys:
        conditions.append(f"{column} = ANY(CAST(:keys AS bigint[])) AND s.day = ANY(CAST(:days AS date[]))")
        values |= {"keys": list(keys), "days": sorted({_day_of(key) for key in keys})}


def _name_days(
    conditions: list[str], values: dict[str, Any], started_from: datetime | None, started_before: datetime | None
) -> None:
    """A day more on both sides: the key that says the day is minted before the start is recorded."""
    if started_from is not None:
        conditions.append("s.day >= :first_day")
        values["first_day"] = started_from.astimezone(UTC).date() - _DAY
    if started_before is not None:
        conditions.append("s.day <= :last_day")
        values["last_day"] = started_before.astimezone(UTC).date() + _DAY


def _above(before: Key | None) -> Key:
    return 2**63 - 1 if before is None else before


def _day_of(key: Key) -> date:
    return partitions.day_of(key)
