"""Owns what is served: files are judged, stored, linked and then switched to, all of one deployment or nothing.
Never starts an instance, and never touches one that runs: what it started with stays pinned.
Called by the api and the command line (to deploy and to switch), and by the gateway for each request (to read).

A change is linked inside its own transaction, so that nothing is committed that could not be run; what serves here is
replaced at once, after the commit. Other processes hear of it by NOTIFY, and look by themselves now and then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import NamedTuple, NoReturn

import psycopg
from sqlalchemy.exc import SQLAlchemyError

from engine.bpmn.rules import Topics
from engine.errors import Code, DefinitionInvalid, Problem, Rejected
from engine.job import place_of
from engine.linking import DeployedDefinition, Programs, find_wrong_calls
from engine.records import Key
from engine.route_rules import check_route
from engine.store.database import open_raw
from engine.store.definitions import (
    ACTIVATED,
    CHANNEL,
    PROCESS,
    ROLLED_BACK,
    Activation,
    Catalog,
    Change,
    Definitions,
    Deployable,
    StoredDefinition,
)
from engine.uploads import Judged, Resource, judge

log = logging.getLogger("conch.deployments")

CATCH_UP_S = 15.0  # notifications are lost with their connection
RECONNECT_S = 1.0


class DeployedResource(NamedTuple):
    """One process, decision, set of requirements or form.

    `new` is false when that very content was the latest; `switched` is true when it serves and did not before.
    """

    kind: str
    definition: StoredDefinition
    new: bool
    switched: bool


class Deployment(NamedTuple):
    """What one call has deployed; without anything new, the newest deployment that brought one of its files."""

    key: Key
    deployed_at: datetime
    tenant: str
    items: tuple[DeployedResource, ...]
    warnings: tuple[Problem, ...] = ()


class _View(NamedTuple):
    """Who serves after `changes`."""

    changes: tuple[int, int]
    serving: dict[str, DeployedDefinition]
    broken: dict[str, DefinitionInvalid]


Pick = Callable[[Change, Sequence[Deployable]], Awaitable[Sequence[Deployable]]]


class Deployments:
    """The deployed files of one database, and what of them serves here.

    `topics` are the jobs that this process can do; the process `route` governs inference requests, which nobody but
    this process works for, so it is held to them.
    """

    def __init__(
        self,
        definitions: Definitions,
        programs: Programs,
        mint: Callable[[], Key],
        topics: Topics,
        route: str | None = None,
    ) -> None:
        self._definitions = definitions
        self._mint = mint
        self._topics = topics
        self._route = route
        self._programs = programs
        self._lock = asyncio.Lock()
        self._view = _View((-1, -1), {}, {})
        self._revision = 0
        self._changed = asyncio.Event()

    # --- what serves --------------------------------------------------------------------------------------------

    def serving(self, process_id: str) -> DeployedDefinition:
        """The version that instances start with now. Raises Rejected(NOT_FOUND), or DefinitionInvalid when the active
        version cannot be run here."""
        deployed = self._view.serving.get(process_id)
        if deployed is None:
            if process_id in self._view.broken:
                raise DefinitionInvalid(self._view.broken[process_id].problems)
            raise Rejected(Code.NOT_FOUND, f"no process `{process_id}` is deployed")
        return deployed

    @property
    def active(self) -> Mapping[str, DeployedDefinition]:
        """Every version that serves here, by process id."""
        return MappingProxyType(self._view.serving)

    @property
    def revision(self) -> int:
        """Another number after each change of what serves here."""
        return self._revision

    async def changed(self, since: int) -> int:
        """Wait until the revision is another than `since`; returns it."""
        while self._revision == since:
            await self._changed.wait()
        return self._revision

    async def find(
        self,
        *,
        key: Key | None = None,
        process_id: str | None = None,
        version: int | None = None,
        version_tag: str | None = None,
    ) -> DeployedDefinition | None:
        """One version of a process, by key or by id; by id alone the one that serves.

        Null when there is none. Raises DefinitionInvalid when it cannot be run (any more).
        """
        if key is None and process_id is not None and version is None and version_tag is None:
            return self._view.serving.get(process_id)
        for deployed in self._view.serving.values():
            if deployed.ref.key == key or (deployed.ref.process_id == process_id and deployed.ref.version == version):
                return deployed
        async with self._definitions.reading() as catalog:
            stored = await _stored(catalog, key, process_id, version, version_tag)
            if stored is None or stored.kind != PROCESS:
                return None
            return await self._programs.link(catalog, stored)

    # --- questions ----------------------------------------------------------------------------------------------

    async def definition(self, key: Key) -> StoredDefinition | None:
        async with self._definitions.reading() as catalog:
            return await catalog.get(key)

    async def xml(self, key: Key) -> bytes | None:
        """The file of a definition, as it was deployed."""
        async with self._definitions.reading() as catalog:
            return await catalog.xml(key)

    async def search(
        self,
        *,
        kind: str = PROCESS,
        process_id: str | None = None,
        version: int | None = None,
        active_only: bool = False,
    ) -> list[StoredDefinition]:
        """Deployed versions, newest first."""
        async with self._definitions.reading() as catalog:
            return await catalog.search(kind=kind, process_id=process_id, version=version, active_only=active_only)

    async def history(self, process_id: str, kind: str = PROCESS) -> list[Activation]:
        """Which version served from when, and who said so; oldest first."""
        async with self._definitions.reading() as catalog:
            return await catalog.history(kind, process_id)

    # --- changes ------------------------------------------------------------------------------------------------

    async def deploy(self, resources: Sequence[Resource], *, deployed_by: str, tenant: str = "default") -> Deployment:
        """Store the files as new versions and let them serve, all or none.

        What is the latest content already makes no new version; it serves again if it did not.

        Raises DefinitionInvalid with every problem of every file; then nothing has changed.
        """
        judged = await asyncio.to_thread(judge, resources, self._topics, self._route)
        await self._judge_calls(judged)
        deployment = await self._deploy(judged, _everything, deployed_by, tenant)
        assert deployment is not None, "a deployment of no file is refused"
        return deployment

    async def deploy_unknown(self, judged: Judged, *, deployed_by: str) -> Deployment | None:
        """Deploy what was never deployed before, so that no start undoes a deployment or a rollback.

        Null when all of it was. Raises DefinitionInvalid; then nothing has changed.
        """
        await self._judge_calls(judged)
        return await self._deploy(judged, _unknown, deployed_by, "default")

    async def activate(
        self, process_id: str, version: int, *, by: str, reason: str = "", kind: str = PROCESS
    ) -> Activation:
        """Let this version serve from now on; nothing is recorded when it does already.

        Raises Rejected(NOT_FOUND), and DefinitionInvalid when the version cannot be run (any more).
        """
        async with self._lock:
            async with self._definitions.changing() as change:
                stored = await change.version(kind, process_id, version)
                if stored is None:
                    known = await change.search(kind=kind, process_id=process_id)
                    raise _no_version(kind, process_id, version, [each.version for each in known])
                if stored.active:
                    return (await change.history(kind, process_id))[-1]
                turned, view = await self._turn(change, stored, ACTIVATED, by, reason)
            self._adopt(view)
        return turned

    async def rollback(self, process_id: str, *, by: str, reason: str = "", kind: str = PROCESS) -> Activation:
        """Let the version serve that served before the one that serves now; again, the one before that.

        Raises Rejected(NOT_FOUND or INVALID_ARGUMENT), and DefinitionInvalid when it cannot be run (any more).
        """
        async with self._lock:
            async with self._definitions.changing() as change:
                history = await change.history(kind, process_id)
                if not history:
                    raise Rejected(Code.NOT_FOUND, f"no {kind} `{process_id}` is deployed")
                key = served_before(history)
                stored = None if key is None else await change.get(key)
                if stored is None:
                    told = f"no version of `{process_id}` served before version {history[-1].version}"
                    raise Rejected(Code.INVALID_ARGUMENT, f"{told}, so there is nothing to go back to")
                turned, view = await self._turn(change, stored, ROLLED_BACK, by, reason)
            self._adopt(view)
        return turned

    async def _deploy(self, judged: Judged, pick: Pick, deployed_by: str, tenant: str) -> Deployment | None:
        async with self._lock:
            with self._programs.knowing(judged.parts):
                async with self._definitions.changing() as change:
                    deployables = await pick(change, judged.deployables)
                    if not deployables:
                        return None
                    key, deployed = await change.deploy(deployables, self._mint, deployed_by, tenant)
                    view = await self._link(change, [each.definition for each in deployed if each.new or each.switched])
            self._adopt(view)
        items = tuple(DeployedResource(each.definition.kind, *each) for each in deployed)
        deployed_at = max(each.definition.deployed_at for each in items)
        return Deployment(key, deployed_at, tenant, items, judged.findings)

    async def _judge_calls(self, judged: Judged) -> None:
        """Raises DefinitionInvalid: what is wrong with the files, and with their calls too, so that both are told."""
        serving = [deployed.program.definition for deployed in self._view.serving.values()]
        async with self._definitions.reading() as catalog:
            wrong = await find_wrong_calls(catalog, judged.definitions, judged.deployables, serving)
        judged._replace(findings=(*judged.findings, *wrong)).check()

    async def _turn(
        self, change: Change, stored: StoredDefinition, cause: str, by: str, reason: str
    ) -> tuple[Activation, _View]:
        turned = await change.activate(stored, cause, by, reason)
        return turned, await self._link(change, [stored])

    # --- following others ---------------------------------------------------------------------------------------

    async def refresh(self) -> None:
        """Serve what is active in the database now. What cannot be run here is logged, and its predecessor serves on.

        Raises sqlalchemy.exc.OperationalError while Postgres is away.
        """
        async with self._lock:
            async with self._definitions.reading() as catalog:
                if await catalog.changes() == self._view.changes:
                    return
                view = await self._link(catalog, None)
            self._adopt(view)

    async def follow(self) -> NoReturn:
        """Refresh whenever another process has changed something, for ever."""
        while True:
            try:
                connection = await open_raw(self._definitions.database.conninfo)
                async with connection:
                    await connection.execute(f"LISTEN {CHANNEL}")
                    while True:
                        await self.refresh()  # at first for what came before the LISTEN
                        async for _ in connection.notifies(timeout=CATCH_UP_S, stop_after=1):
                            pass
            except (psycopg.Error, SQLAlchemyError, OSError) as error:
                log.warning("deployments not followed", extra={"reason": type(error).__name__})
            except Exception as error:  # follow edge: whatever one deployment breaks, the next has to be heard of
                extra = {"error_type": type(error).__name__, "place": place_of(error)}
                log.critical("deployments not followed", extra=extra)
            await asyncio.sleep(RECONNECT_S)

    async def _link(self, catalog: Catalog, changed: Sequence[StoredDefinition] | None) -> _View:
        """Link everything that is active.

        With `changed`, raises DefinitionInvalid when one of those cannot be run, or one that could be run before.
        """
        view = _View(await catalog.changes(), {}, {})
        problems: dict[Problem, None] = {}
        for stored in changed or ():
            if stored.kind == PROCESS and not stored.active:
                await self._programs.link(catalog, stored)
        keys = {stored.key for stored in changed or ()}
        for stored in await catalog.all_active(PROCESS):
            before = self._view.serving.get(stored.process_id)
            try:
                linked = await self._programs.link(catalog, stored)
                if stored.process_id == self._route:
                    check_route(linked.program, self._topics)
                view.serving[stored.process_id] = linked
            except DefinitionInvalid as invalid:
                view.broken[stored.process_id] = invalid
                if changed is not None and (stored.key in keys or (before and before.ref.key == stored.key)):
                    problems |= dict.fromkeys(invalid.problems)
                elif before is not None:
                    view.serving[stored.process_id] = before
        if problems:
            raise DefinitionInvalid(problems)
        return view

    def _adopt(self, view: _View) -> None:
        for process_id, invalid in view.broken.items():
            if process_id not in self._view.broken:
                extra = {"process_id": process_id, "problems": [str(each) for each in invalid.problems]}
                log.error("the active version cannot be run here", extra=extra)
        switched = view.serving != self._view.serving
        for process_id, deployed in view.serving.items():
            if deployed != self._view.serving.get(process_id):
                log.info("serving", extra={"process_id": process_id, "version": deployed.ref.version})
        self._view = view
        self._programs.serve(view.serving.values())
        if switched:
            self._revision += 1
            self._changed.set()
            self._changed = asyncio.Event()


async def _everything(change: Change, deployables: Sequence[Deployable]) -> Sequence[Deployable]:
    return deployables


async def _unknown(change: Change, deployables: Sequence[Deployable]) -> Sequence[Deployable]:
    """The groups that hold something new. What is not new in them serves on only where it serves already."""
    known = [await change.has_content(each.kind, each.process_id, each.content_hash) for each in deployables]
    groups = {each.group for each, is_known in zip(deployables, known, strict=True) if not is_known}
    picked = []
    for each, is_known in zip(deployables, known, strict=True):
        if each.group in groups:
            active = await change.active(each.kind, each.process_id)
            serves = active is None or active.content_hash == each.content_hash
            picked.append(each._replace(activate=not is_known or serves))
    return picked


async def _stored(
    catalog: Catalog, key: Key | None, process_id: str | None, version: int | None, version_tag: str | None
) -> StoredDefinition | None:
    if key is not None:
        return await catalog.get(key)
    if process_id is None:
        return None
    if version is not None:
        return await catalog.version(PROCESS, process_id, version)
    return await catalog.tagged(PROCESS, process_id, version_tag or "")


def served_before(history: Sequence[Activation]) -> Key | None:
    """The definition that a rollback goes to: each rollback takes back the last turn that is not taken back yet."""
    served: list[Key] = []
    for each in history:
        if each.cause == ROLLED_BACK:
            while served and served[-1] != each.definition_key:
                served.pop()
        if not served or served[-1] != each.definition_key:
            served.append(each.definition_key)
    return served[-2] if len(served) > 1 else None


def _no_version(kind: str, process_id: str, version: int, known: Sequence[int]) -> Rejected:
    if not known:
        return Rejected(Code.NOT_FOUND, f"no {kind} `{process_id}` is deployed")
    told = f"there is no version {version} of `{process_id}`; the newest is {max(known)}"
    return Rejected(Code.NOT_FOUND, told)
