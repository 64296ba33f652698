"""Owns deployed files: immutable, numbered versions, and the switch that says which version of each serves.
Never parses or judges a file; the caller has, and says what each file holds.
Called by the deployments, which decide; by recovery and replay, which load pinned versions; by the read routes.

Whoever changes something holds one lock until the commit, so that versions have no gaps and the turns of the switch
are numbered in the order in which they count. The same transaction tells the other processes (NOTIFY).
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Select, and_, func, insert, select, text
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.asyncio import AsyncConnection

from engine.records import DefinitionRef, Key
from engine.store.database import Database
from engine.store.schema import activation, deployment, imported_file, process_definition

CHANNEL = "conch_definitions"
PROCESS, DECISION, REQUIREMENTS, FORM = "process", "decision", "requirements", "form"
DEPLOYED, ACTIVATED, ROLLED_BACK = "deployed", "activated", "rolled_back"
MAX_LISTED = 10_000

_LOCK = 0x636F6E6368_02  # deployments and turns of the switch go one after the other
_CHANGES = "SELECT (SELECT coalesce(max(id), 0) FROM activation), (SELECT count(*) FROM deployment)"

_row = process_definition.c
_turn = activation.c


class Deployable(NamedTuple):
    """One process, decision, set of requirements or form of one file."""

    process_id: str
    content_hash: str  # sha256 of the file, hex; where it imports others, of its hash and theirs
    resource_name: str
    xml: bytes
    kind: str = PROCESS
    name: str = ""
    version_tag: str | None = None
    group: int | None = None  # those of one group become new versions together; null: of a group of its own
    activate: bool = True  # false: a new version of it is stored, and the switch stays where it is
    imports: tuple[tuple[str, bytes], ...] = ()  # the files without which it cannot be read, by name


class StoredDefinition(NamedTuple):
    """One deployed version, without its file."""

    key: Key
    process_id: str
    version: int
    version_tag: str | None
    name: str
    resource_name: str
    content_hash: str
    deployed_at: datetime
    deployed_by: str
    deployment_key: Key
    tenant: str
    active: bool
    kind: str = PROCESS

    @property
    def ref(self) -> DefinitionRef:
        return DefinitionRef(self.key, self.process_id, self.version, self.content_hash)


class Deployed(NamedTuple):
    """What became of a Deployable: `new` is false when the latest version has this very content.

    `switched` is true when it serves from now on and did not before.
    """

    definition: StoredDefinition
    new: bool
    switched: bool

    @property
    def ref(self) -> DefinitionRef:
        return self.definition.ref


class LoadedDefinition(NamedTuple):
    definition: StoredDefinition
    xml: bytes

    @property
    def ref(self) -> DefinitionRef:
        return self.definition.ref

    @property
    def resource_name(self) -> str:
        return self.definition.resource_name


class Activation(NamedTuple):
    """One turn of the switch: from then on this version serves."""

    process_id: str
    version: int
    definition_key: Key
    cause: str  # deployed | activated | rolled_back
    activated_at: datetime
    activated_by: str
    reason: str


def _is_active() -> ColumnElement[bool]:
    newest = (
        select(func.max(_turn.id))
        .where(_turn.kind == _row.kind, _turn.process_id == _row.process_id)
        .correlate(process_definition)
        .scalar_subquery()
    )
    # `id` is the switch's own order: the newest turn of a definition's id says whether that definition serves
    return (
        select(_turn.definition_key == _row.key).where(_turn.id == newest).correlate(process_definition)
    ).scalar_subquery()


def _definitions() -> Select[Any]:
    return select(
        _row.key,
        _row.process_id,
        _row.version,
        _row.version_tag,
        _row.name,
        _row.resource_name,
        _row.content_hash,
        _row.deployed_at,
        _row.deployed_by,
        _row.deployment_key,
        deployment.c.tenant,
        func.coalesce(_is_active(), False),
        _row.kind,
    ).join(deployment, deployment.c.key == _row.deployment_key)


class Catalog:
    """What is deployed, as one connection sees it: inside a deployment its own rows too."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def changes(self) -> tuple[int, int]:
        """The last turn of the switch and the number of deployments: another value after each change."""
        turn, deployments = (await self._connection.execute(text(_CHANGES))).one()
        return int(turn), int(deployments)

    async def active(self, kind: str, process_id: str) -> StoredDefinition | None:
        return await self._one(_of(kind, process_id), _is_active())

    async def version(self, kind: str, process_id: str, version: int) -> StoredDefinition | None:
        return await self._one(_of(kind, process_id), _row.version == version)

    async def latest(self, kind: str, process_id: str) -> StoredDefinition | None:
        """The newest version, whether it serves or not."""
        return await self._one(_of(kind, process_id))

    async def tagged(self, kind: str, process_id: str, version_tag: str) -> StoredDefinition | None:
        """The newest version with that tag."""
        return await self._one(_of(kind, process_id), _row.version_tag == version_tag)

    async def deployed_with(self, deployment_key: Key, kind: str, process_id: str) -> StoredDefinition | None:
        return await self._one(_of(kind, process_id), _row.deployment_key == deployment_key)

    async def get(self, key: Key) -> StoredDefinition | None:
        return await self._one(_row.key == key)

    async def has_content(self, kind: str, process_id: str, content_hash: str) -> bool:
        """Whether this very file was ever deployed for that id."""
        return await self._one(_of(kind, process_id), _row.content_hash == content_hash) is not None

    async def all_active(self, *kinds: str) -> list[StoredDefinition]:
        """Every version that serves."""
        query = _definitions().where(_row.kind.in_(kinds), _is_active()).order_by(_row.kind, _row.process_id)
        return [StoredDefinition(*row) for row in await self._connection.execute(query)]

    async def search(
        self,
        *,
        kind: str = PROCESS,
        process_id: str | None = None,
        version: int | None = None,
        active_only: bool = False,
        limit: int = MAX_LISTED,
    ) -> list[StoredDefinition]:
        """Versions by what is asked for, newest deployment first."""
        query = _definitions().where(_row.kind == kind).order_by(_row.key.desc()).limit(min(limit, MAX_LISTED))
        if process_id is not None:
            query = query.where(_row.process_id == process_id)
        if version is not None:
            query = query.where(_row.version == version)
        if active_only:
            query = query.where(_is_active())
        return [StoredDefinition(*row) for row in await self._connection.execute(query)]

    async def xml(self, key: Key) -> bytes | None:
        """The file as it was deployed."""
        xml = (await self._connection.execute(select(_row.xml).where(_row.key == key))).scalar_one_or_none()
        return None if xml is None else bytes(xml)

    async def imports(self, key: Key) -> dict[str, bytes]:
        """The files that the file imports, directly or not, as they were when it was deployed, by name."""
        pinned = (await self._connection.execute(select(_row.imports).where(_row.key == key))).scalar_one_or_none()
        if not pinned:
            return {}
        hashes = {each["content_hash"] for each in pinned}
        rows = await self._connection.execute(
            select(imported_file.c.content_hash, imported_file.c.content).where(
                imported_file.c.content_hash.in_(hashes)
            )
        )
        contents = {content_hash: bytes(content) for content_hash, content in rows}
        return {each["name"]: contents[each["content_hash"]] for each in pinned}

    async def history(self, kind: str, process_id: str) -> list[Activation]:
        """Every turn of the switch of one id, oldest first."""
        query = (
            select(
                _turn.process_id,
                _row.version,
                _turn.definition_key,
                _turn.cause,
                _turn.activated_at,
                _turn.activated_by,
                _turn.reason,
            )
            .join(process_definition, _row.key == _turn.definition_key)
            .where(_turn.kind == kind, _turn.process_id == process_id)
            .order_by(_turn.id)
        )
        return [Activation(*row) for row in await self._connection.execute(query)]

    async def _one(self, *which: ColumnElement[bool]) -> StoredDefinition | None:
        query = _definitions().where(and_(*which)).order_by(_row.version.desc()).limit(1)
        row = (await self._connection.execute(query)).one_or_none()
        return None if row is None else StoredDefinition(*row)


class Change(Catalog):
    """A deployment or a turn of the switch under way: seen by nobody before its transaction is committed."""

    async def deploy(
        self, deployables: Sequence[Deployable], mint: Callable[[], Key], deployed_by: str, tenant: str = "default"
    ) -> tuple[Key, list[Deployed]]:
        """Every group becomes new versions, unless the latest version of each of its members is this very content.

        A group whose members come from several deployments becomes new too, so that "the version in the same
        deployment" is there for each. Returns the deployment's key as well: without a new version, that of the newest
        deployment that brought one of them. Raises ValueError when two claim the same id.
        """
        ids = [(each.kind, each.process_id) for each in deployables]
        if twice := sorted({process_id for kind, process_id in ids if ids.count((kind, process_id)) > 1}):
            raise ValueError(f"deployed twice in one call: {', '.join(twice)}")
        latest = [await self.latest(each.kind, each.process_id) for each in deployables]
        changed = _changed_groups(deployables, latest)
        deployment_key: Key | None = None
        deployed: list[Deployed] = []
        for index, (each, known) in enumerate(zip(deployables, latest, strict=True)):
            if known is not None and _group(index, each) not in changed:
                deployed.append(await self._known(each, known, deployed_by))
                continue
            if deployment_key is None:
                deployment_key = mint()
                values = {"key": deployment_key, "deployed_by": deployed_by, "tenant": tenant}
                await self._connection.execute(insert(deployment).values(values))
            version = 1 if known is None else known.version + 1
            deployed.append(await self._insert(each, version, mint(), deployment_key, deployed_by))
        if any(each.new or each.switched for each in deployed):
            await self._tell()
        return deployment_key or max(each.definition.deployment_key for each in deployed), deployed

    async def _known(self, each: Deployable, known: StoredDefinition, deployed_by: str) -> Deployed:
        """Whoever deploys a content wants it to serve, after a rollback as well."""
        if known.active or not each.activate:
            return Deployed(known, False, False)
        await self._turn(each.kind, each.process_id, known.key, DEPLOYED, deployed_by, "")
        return Deployed(known._replace(active=True), False, True)

    async def _insert(
        self, each: Deployable, version: int, key: Key, deployment_key: Key, deployed_by: str
    ) -> Deployed:
        fields = each._asdict()
        activate, _ = fields.pop("activate"), fields.pop("group")
        fields["imports"] = await self._keep(fields.pop("imports"))
        fields |= {"key": key, "version": version, "deployment_key": deployment_key, "deployed_by": deployed_by}
        await self._connection.execute(insert(process_definition).values(fields))
        if activate:
            await self._turn(each.kind, each.process_id, key, DEPLOYED, deployed_by, "")
        stored = await self.get(key)
        assert stored is not None, "inserted a moment ago"
        return Deployed(stored, True, activate)

    async def _keep(self, imports: Sequence[tuple[str, bytes]]) -> list[dict[str, str]] | None:
        """Store the files that are not stored yet; returns how a definition is pinned to them, null for none."""
        pinned = []
        for name, content in imports:
            content_hash = hashlib.sha256(content).hexdigest()
            values = {"content_hash": content_hash, "content": content}
            await self._connection.execute(postgresql.insert(imported_file).values(values).on_conflict_do_nothing())
            pinned.append({"name": name, "content_hash": content_hash})
        return pinned or None

    async def activate(self, definition: StoredDefinition, cause: str, by: str, reason: str) -> Activation:
        """Let this version serve from the commit on."""
        await self._turn(definition.kind, definition.process_id, definition.key, cause, by, reason)
        await self._tell()
        return (await self.history(definition.kind, definition.process_id))[-1]

    async def _turn(self, kind: str, process_id: str, key: Key, cause: str, by: str, reason: str) -> None:
        await self._connection.execute(
            insert(activation).values(
                kind=kind, process_id=process_id, definition_key=key, cause=cause, activated_by=by, reason=reason
            )
        )

    async def _tell(self) -> None:
        await self._connection.execute(text("SELECT pg_notify(:channel, '')"), {"channel": CHANNEL})


class Definitions:
    """The deployed files of one database."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[Catalog]:
        """One connection for several questions."""
        async with self.database.engine.connect() as connection:
            yield Catalog(connection)

    @asynccontextmanager
    async def changing(self) -> AsyncIterator[Change]:
        """One transaction; whoever else wants to change something waits. An exception undoes everything."""
        async with self.database.begin() as connection:
            await connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
            yield Change(connection)

    async def deploy(
        self, deployables: Sequence[Deployable], mint: Callable[[], Key], deployed_by: str
    ) -> list[Deployed]:
        """One deployment as a transaction of its own; see Change.deploy."""
        async with self.changing() as change:
            return (await change.deploy(deployables, mint, deployed_by))[1]

    async def latest(self, process_id: str, kind: str = PROCESS) -> LoadedDefinition | None:
        """The newest version, whether it serves or not; null when there is none."""
        async with self.reading() as catalog:
            return await _loaded(catalog, await catalog.latest(kind, process_id))

    async def load(self, key: Key) -> LoadedDefinition | None:
        """The very version that an instance is pinned to; null when it was never deployed here."""
        async with self.reading() as catalog:
            return await _loaded(catalog, await catalog.get(key))


def _group(index: int, deployable: Deployable) -> int:
    return -1 - index if deployable.group is None else deployable.group


def _changed_groups(deployables: Sequence[Deployable], latest: Sequence[StoredDefinition | None]) -> set[int]:
    changed: set[int] = set()
    origins: dict[int, Key] = {}
    for index, (each, known) in enumerate(zip(deployables, latest, strict=True)):
        group = _group(index, each)
        origin = 0 if known is None else known.deployment_key
        same = known is not None and known.content_hash == each.content_hash
        if not same or origins.setdefault(group, origin) != origin:
            changed.add(group)
    return changed


async def _loaded(catalog: Catalog, stored: StoredDefinition | None) -> LoadedDefinition | None:
    xml = None if stored is None else await catalog.xml(stored.key)
    return None if stored is None or xml is None else LoadedDefinition(stored, xml)


def _of(kind: str, process_id: str) -> ColumnElement[bool]:
    return and_(_row.kind == kind, _row.process_id == process_id)
