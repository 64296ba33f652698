"""Owns what the audit finds across instances: process instances and incidents by what is said of them, roots by keys.
Never looks into one instance (Queries.load_instance and a replay do), and never reads more than it says it does.
Called by the routes that search; they merge what is found with what is open in memory.

Everything comes newest first, in the order of keys, which is that of time. Whoever wants more goes on `before` the
last key. Filters that an index serves narrow at once; the others look at the newest `WINDOW` instances that are left.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Generic, NamedTuple, TypeVar

from sqlalchemy import text

from engine.records import Key
from engine.store import json_text, partitions
from engine.store.database import Database

T = TypeVar("T")
_Row = TypeVar("_Row", "FoundInstance", "CalledInstance", "FoundIncident")

WINDOW: Final = 10_000
MAX_LIMIT: Final = 10_000
_NAMED = re.compile(r"(?<!:):(\w+)")
_ABOVE_ALL: Final = 2**63 - 1
_DAY = timedelta(days=1)
_DAY_OF = "DATE '2024-01-01' + (({key} >> 22) / 86400000)::integer"

# From the open instances to their rows and never the other way round, which would read every day: OFFSET 0 forbids
# the planner to turn it about.
_OPEN = f"""
    open_instance o CROSS JOIN LATERAL (
        SELECT r.* FROM record r
        WHERE r.process_instance_key = o.process_instance_key AND r.day = {_DAY_OF.format(key="o.process_instance_key")}
          AND {{rows}}
        OFFSET 0
    ) s
"""
_STARTS = "{row}.position = 1 AND {row}.kind = 'instance_started'"
_OF_KEYS = "AND r.day = ANY(:days)"
_LAST = """
    LEFT JOIN LATERAL (
        SELECT e.state, e.ended_at, e.error_code, e.message
        FROM (
            SELECT r.kind, r.state, r.ended_at, r.error_code, r.message FROM record r
            WHERE r.process_instance_key = s.process_instance_key AND r.day = s.day {days}
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
# What an instance is part of began no later than it did; its own day is a value, so that no other is even planned for.
_IS_ROOT = text("""
    SELECT process_instance_key FROM record
    WHERE process_instance_key = :key AND day = :day AND position = 1 AND kind = 'instance_started'
""")
_ROOT_OF_CALLED = text("""
    SELECT process_instance_key FROM record
    WHERE activity_instance_key = :key AND element_type = 'PROCESS' AND day <= :day
    LIMIT 1
""")
_ROOT_OF_ACTIVITY = text("""
    SELECT process_instance_key FROM record
    WHERE activity_instance_key = :key AND kind = 'activity' AND NOT online AND day <= :day
    LIMIT 1
""")
_ROOT_OF_JOB = text("""
    SELECT process_instance_key FROM record
    WHERE job_key = :key AND kind = 'activity' AND NOT online AND job_key IS NOT NULL AND day <= :day
    UNION SELECT process_instance_key FROM record WHERE job_key = :key AND kind = 'job_failed' AND day <= :day
""")
_ROOT_OF_INCIDENT = text("""
    SELECT process_instance_key FROM record WHERE incident_key = :key AND kind = 'incident' AND day <= :day LIMIT 1
""")


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
    ones live too short to be asked for. `variables`: names with the value that was last written to them by the start,
    by an activity or from outside; what was written local to an activity does not count.
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
        start, late, values = _instance_conditions(where)
        limit = min(limit, MAX_LIMIT)
        only_open = _only_open(where)
        source = _OPEN.format(rows=_STARTS.format(row="r")) if only_open else "record s"
        key = "o.process_instance_key" if only_open else "s.process_instance_key"
        window = f"""
            SELECT s.* FROM {source}
            WHERE {_STARTS.format(row="s")} AND {key} < :before AND {start}
            ORDER BY {key} DESC
            LIMIT :window
        """
        query = f"""
            SELECT {_FOUND}
            FROM ({window}) s
            LEFT JOIN open_instance o USING (process_instance_key)
            {_LAST.format(days=_OF_KEYS if where.keys else "")}
            WHERE {late}
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
        values = {"process_id": process_id, "before": before or _ABOVE_ALL, "limit": limit + 1}
        rows = [CalledInstance(*row) for row in await self._rows(_CALLED, values)]
        return await self._found(rows, limit, None, values)

    async def incidents(self, where: IncidentFilter, limit: int = 100) -> Found[FoundIncident]:
        """Incidents of every instance, newest first."""
        raised, values = _incident_conditions(where)
        limit = min(limit, MAX_LIMIT)
        source = "record s"
        if set(where.states) == {"open"}:
            source = _OPEN.format(rows="r.kind = 'incident'")
            raised.add("o.open_incidents > 0")
        incidents = f"""
            SELECT s.* FROM {source} WHERE s.kind = 'incident' AND s.incident_key < :before AND {raised}
            ORDER BY s.incident_key DESC
            LIMIT :window
        """
        late = "true"
        if where.states:
            late = "coalesce(e.state, CASE WHEN l.ended_at IS NULL THEN 'open' ELSE 'ended' END) = ANY(:states)"
            values["states"] = list(where.states)
        query = f"""
            {_INCIDENTS.format(incidents=incidents)} {_LAST.replace("s.", "i.").format(days="")}
            WHERE {late} ORDER BY i.incident_key DESC LIMIT :limit
        """
        values |= {"window": WINDOW if where.states else limit + 1, "limit": limit + 1}
        rows = [FoundIncident(*row) for row in await self._rows(query, values)]
        oldest = f"SELECT count(*), min(incident_key) FROM ({incidents}) s" if where.states else None
        return await self._found(rows, limit, oldest, values)

    async def root_of(self, key: Key) -> Key | None:
        """The instance that a process instance is, or was part of as a called process that has ended."""
        return await self._root(_IS_ROOT, key) or await self._root(_ROOT_OF_CALLED, key)

    async def root_of_activity(self, key: Key) -> Key | None:
        """The operational instance that an activity instance was part of, once that has ended."""
        return await self._root(_ROOT_OF_ACTIVITY, key)

    async def root_of_job(self, key: Key) -> Key | None:
        """The instance of a job that has failed, or whose activity has ended in an operational instance."""
        return await self._root(_ROOT_OF_JOB, key)

    async def root_of_incident(self, key: Key) -> Key | None:
        return await self._root(_ROOT_OF_INCIDENT, key)

    async def _root(self, query: Any, key: Key) -> Key | None:
        async with self._database.engine.connect() as connection:
            values = {"key": key, "day": partitions.day_of(key)}
            return (await connection.execute(query, values)).scalar_one_or_none()

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


def _only_open(where: InstanceFilter) -> bool:
    """Whether all that is asked for is in the table of open instances."""
    return set(where.states) == {"active"} or where.has_incident is True


class _Conditions:
    """Conditions that all must hold, and the values that they name."""

    def __init__(self, values: dict[str, Any]) -> None:
        self._parts: list[str] = []
        self._values = values

    def add(self, condition: str, value: Any = True) -> None:
        """A condition, with the value that it names last; null does not matter."""
        if value is not None:
            self._parts.append(condition)
            self._values |= dict.fromkeys(_NAMED.findall(condition)[-1:], value)

    def __bool__(self) -> bool:
        return bool(self._parts)

    def __str__(self) -> str:
        return " AND ".join(self._parts) or "true"


def _instance_conditions(where: InstanceFilter) -> tuple[_Conditions, _Conditions, dict[str, Any]]:
    """Conditions on the start, those on what became of it, and the values of both."""
    values: dict[str, Any] = {"before": where.before or _ABOVE_ALL}
    start, late = _Conditions(values), _Conditions(values)
    start.add("s.process_id = :process_id", where.process_id)
    start.add("s.process_definition_key = :definition_key", where.definition_key)
    start.add("s.process_version = :version", where.version)
    start.add("s.tenant = :tenant", where.tenant)
    start.add("s.online = :online", where.online)
    start.add("s.details IS NOT NULL AND s.details ->> 'business_id' = :business_id", where.business_id)
    start.add("s.recorded_at >= :started_from", where.started_from)
    start.add("s.recorded_at < :started_before", where.started_before)
    if where.keys:
        start.add("s.process_instance_key = ANY(:keys)", list(where.keys))
        start.add("s.day = ANY(:days)", sorted({partitions.day_of(key) for key in where.keys}))
    # A day more on both sides: the key that says the day is minted before the start is recorded.
    if where.started_from is not None:
        start.add("s.day >= :first_day", where.started_from.astimezone(UTC).date() - _DAY)
    if where.started_before is not None:
        start.add("s.day <= :last_day", where.started_before.astimezone(UTC).date() + _DAY)
    late.add("l.ended_at >= :ended_from", where.ended_from)
    late.add("l.ended_at < :ended_before", where.ended_before)
    if set(where.states) != {"active"}:
        late.add("coalesce(l.state, 'active') = ANY(:states)", list(where.states) or None)
    if where.has_incident:
        start.add("o.open_incidents > 0")
    elif where.has_incident is False:
        late.add("coalesce(o.open_incidents, 0) = 0")
    for number, (name, value) in enumerate(where.variables.items()):
        values[f"variable_{number}"] = name
        late.add(_last_written(number), json_text.dumps(value).decode())
    return start, late, values


def _incident_conditions(where: IncidentFilter) -> tuple[_Conditions, dict[str, Any]]:
    values: dict[str, Any] = {"before": where.before or _ABOVE_ALL}
    raised = _Conditions(values)
    raised.add("s.process_id = :process_id", where.process_id)
    raised.add("s.process_definition_key = :definition_key", where.definition_key)
    raised.add("s.element_id = :element_id", where.element_id)
    raised.add("s.error_code = :error_code", where.error_code)
    raised.add("s.recorded_at >= :raised_from", where.raised_from)
    raised.add("s.recorded_at < :raised_before", where.raised_before)
    if where.keys:
        raised.add("s.incident_key = ANY(:keys)", list(where.keys))
    if where.process_instance_key is not None:
        raised.add("s.process_instance_key = :process_instance_key", where.process_instance_key)
        raised.add("s.day = :day", partitions.day_of(where.process_instance_key))
    return raised, values


def _last_written(number: int) -> str:
    return f"""(
        SELECT r.variables -> :variable_{number} FROM record r
        WHERE r.process_instance_key = s.process_instance_key AND r.day = s.day AND r.position > 0
          AND (r.kind IN ('instance_started', 'activity') OR r.kind = 'variables_set'
              AND (r.activity_instance_key IS NULL OR r.details IS NULL))
          AND jsonb_exists(r.variables, :variable_{number})
        ORDER BY r.position DESC
        LIMIT 1
    ) = CAST(:value_{number} AS jsonb)"""
