"""Owns what the Camunda 8 routes share: the services behind them as one object, and how a key leads to its instance.
Never reads a request or writes an answer, and opens nothing: every part is handed in.
Called by the Camunda 8 routes; built by the composition root.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from engine.api.camunda.instance_view import InstanceView, Lent, OpenState
from engine.bpmn.definition import ProcessDefinition
from engine.bpmn.spiff import Program
from engine.core.instance import ProcessInstance
from engine.errors import Code, Rejected
from engine.feel import EvaluationContext
from engine.records import Key, Start
from engine.store.command_log import LoggedCommand
from engine.store.definitions import Definitions, StoredDefinition

if TYPE_CHECKING:
    from engine.correlation import Correlation
    from engine.deployments import Deployments
    from engine.linking import Programs
    from engine.runtime import Runtime
    from engine.settings import DefaultSettings
    from engine.store.queries import Queries
    from engine.store.search import Search
    from engine.work import Work

VARIABLES_REMEMBERED = 10_000
DEFINITIONS_REMEMBERED = 1_000
SLICE_S = 0.005  # of rebuilding an instance; then everybody else gets a turn

T = TypeVar("T")


class Services(NamedTuple):
    """Everything behind the Camunda 8 routes. Belongs to one event loop."""

    deployments: Deployments
    definitions: Definitions
    programs: Programs
    runtime: Runtime
    work: Work
    correlation: Correlation
    queries: Queries
    search: Search
    defaults: DefaultSettings
    max_body_bytes: int
    mint: Callable[[], Key]
    now_us: Callable[[], int]
    trial_context: Callable[[], EvaluationContext]
    not_ready_because: Callable[[], list[str]]


class Instances:
    """Finds process instances, wherever they are: in memory, parked, with another gateway, or ended."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._definitions: OrderedDict[Key, StoredDefinition] = OrderedDict()
        self._variables: OrderedDict[Key, Key] = OrderedDict()  # key of a variable that was told -> root instance

    async def root_of(self, key: Key) -> Key | None:
        """The instance that a process instance is, or is part of as a called process; null when there is none."""
        services = self._services
        root = services.runtime.find_scope(key)
        return root if root is not None else await services.search.root_of(key)

    async def view(self, root: Key, *, ended_variables: bool = True) -> InstanceView | None:
        """One instance with the called ones inside it; null when nobody knows it.

        Its state is read first and the audit after it, once all that led to that state is there: so nothing that
        ended is missed. Without `ended_variables`, an instance that has ended shows none: they are what it has to be
        rebuilt for. Raises Rejected with ENGINE_FAULT for an instance whose commands this version cannot read,
        with JOURNAL_UNAVAILABLE while the store is away.
        """
        services = self._services
        instance = await services.runtime.read(root)
        state = None if instance is None else OpenState.of(instance)
        await services.runtime.settled(root)
        try:
            stored = await services.queries.load_instance(root)
        except ValueError as error:
            raise Rejected(Code.ENGINE_FAULT, f"process instance {root} cannot be read: {error}") from None
        if stored is None:
            return None
        program = await services.programs.of_start(services.definitions, stored.start)
        if state is None and not ended_variables and any(row["kind"] == "instance_ended" for row in stored.facts):
            state = OpenState((), (), (), (), {})
        elif state is None:
            state = OpenState.of(await _rebuilt(program, stored.commands))
        return InstanceView(stored, state, await self.definitions_of(stored.start), _processes(program))

    async def found(self, key: Key) -> InstanceView:
        """The instance of a process instance key. Raises Rejected(NOT_FOUND)."""
        root = await self.root_of(key)
        view = None if root is None else await self.view(root)
        if view is None:
            raise not_found("process instance", key)
        return view

    async def definitions_of(self, start: Start) -> dict[Key, StoredDefinition]:
        refs = (start.definition, *(call.target for call in start.calls))
        found = {ref.key: await self.definition(ref.key) for ref in refs}
        return {key: definition for key, definition in found.items() if definition is not None}

    async def definition(self, key: Key) -> StoredDefinition | None:
        """A deployed version. What never changes of it is remembered: all but whether it serves."""
        known = self._definitions.get(key)
        if known is None and (known := await self._services.deployments.definition(key)) is not None:
            _keep(self._definitions, key, known, DEFINITIONS_REMEMBERED)
        return known

    async def root_of_element(self, key: Key) -> Key | None:
        """The instance that a process instance or element instance is part of; null when there is none."""
        root = await self.root_of(key)
        return root if root is not None else await self._services.search.root_of_activity(key)

    async def root_of_job(self, key: Key) -> Key | None:
        """The instance with this job, or user task, open or ended; null when there is none."""
        root = self._services.runtime.find_job(key)
        return root if root is not None else await self._services.search.root_of_job(key)

    def lent(self, root: Key) -> dict[Key, Lent]:
        """The jobs of an instance that workers have at the moment."""
        jobs = self._services.work.jobs(instance_key=root)
        return {
            each.job.key: Lent(each.worker or "", each.deadline_at_us)
            for each in jobs
            if each.deadline_at_us is not None
        }

    def remember(self, variable_key: Key, root: Key) -> None:
        """A client has been told of this variable, and may ask for it by its key."""
        _keep(self._variables, variable_key, root, VARIABLES_REMEMBERED)

    def root_of_variable(self, variable_key: Key) -> Key | None:
        return self._variables.get(variable_key)


def _keep(remembered: OrderedDict[Key, T], key: Key, value: T, most: int) -> None:
    remembered[key] = value
    remembered.move_to_end(key)
    if len(remembered) > most:
        remembered.popitem(last=False)


async def _rebuilt(program: Program, commands: Iterable[LoggedCommand]) -> ProcessInstance:
    """The instance after these commands; everybody else gets a turn now and then, as there may be many.

    Raises Rejected(ENGINE_FAULT) for a command that this version refuses.
    """
    instance = ProcessInstance(program)
    began = perf_counter()
    for logged in commands:
        try:
            instance.apply(logged.command, logged.at_us)
        except Rejected as refused_now:
            told = f"its command {logged.ordinal} is refused by this version: {refused_now}"
            raise Rejected(Code.ENGINE_FAULT, f"process instance {instance.key} cannot be read: {told}") from None
        if perf_counter() - began > SLICE_S:
            await asyncio.sleep(0)
            began = perf_counter()
    return instance


def _processes(program: Program) -> dict[tuple[str, str], ProcessDefinition]:
    """What a program and everything that it calls mean, by content hash and process id."""
    processes: dict[tuple[str, str], ProcessDefinition] = {}
    waiting = [program]
    while waiting:
        each = waiting.pop()
        name = (each.definition.content_hash, each.definition.process_id)
        if name not in processes:
            processes[name] = each.definition
            waiting += each.calls.values()
    return processes


def not_found(what: str, key: Key) -> Rejected:
    return Rejected(Code.NOT_FOUND, f"there is no {what} with the key {key}")


def open_here(services: Services, view: InstanceView) -> None:
    """Raises Rejected(NOT_FOUND) for an instance that has ended, or that another gateway runs: only that one can
    change it."""
    if view.ended:
        raise Rejected(Code.NOT_FOUND, f"the process instance {view.key} has ended already")
    if services.runtime.start_of(view.key) is None:
        told = "is open at another gateway of this database, which alone can change it: send the request there"
        raise Rejected(Code.NOT_FOUND, f"the process instance {view.key} {told}")
