"""Owns the tie between a topic in a diagram and the Python function that does the work, with typed input and output.
Never runs a task, touches the loop or knows what any topic means.
Called by tasks (to declare), the runtime (to call), and the deployment checks (to compare with diagrams).
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from decimal import Decimal
from types import NoneType, UnionType
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, Union, get_args, get_origin, get_type_hints

from engine.bpmn.definition import TopicSpec
from engine.errors import Code, TaskError
from engine.inference import Chunk, InferenceAnswer, InferenceCall
from engine.records import Attempt, Decision, Job, JobReport, Key, Tags, Usage

R = TypeVar("R")


class Delivery(Protocol):
    """Where a task's chunks and answer go: the run that a client waits on."""

    @property
    def call(self) -> InferenceCall: ...
    async def emit(self, chunk: Chunk) -> None: ...
    def deliver(self, answer: InferenceAnswer) -> None: ...
    def defer(self, release: Callable[[], None]) -> None: ...


class TaskContext(Generic[R]):
    """All that a task may see or do beside its variables. One per job; not kept after the job ends."""

    __slots__ = (
        "_attempts",
        "_decisions",
        "_delivery",
        "_usage",
        "deadline_at_us",
        "instance_key",
        "job",
        "now_us",
        "request_id",
        "resources",
        "tags",
    )

    def __init__(
        self,
        job: Job,
        instance_key: Key,
        request_id: str,
        tags: Tags,
        deadline_at_us: int,
        resources: R,
        delivery: Delivery,
        now_us: Callable[[], int],
    ):
        self.job = job
        self.instance_key = instance_key
        self.request_id = request_id
        self.tags = tags
        self.deadline_at_us = deadline_at_us
        self.resources = resources
        self.now_us = now_us  # microseconds since the Unix epoch, from the engine's clock
        self._delivery = delivery
        self._attempts: list[Attempt] = []
        self._decisions: list[Decision] = []
        self._usage: list[Usage] = []

    @property
    def call(self) -> InferenceCall:
        """The payload, beside the engine: never put it, or parts of it, into variables or logs."""
        return self._delivery.call

    @property
    def idempotency_key(self) -> str:
        """Stable over job retries and restarts: the instance and the activity instance."""
        return f"{self.instance_key}-{self.job.activity_instance_key}"

    async def emit(self, chunk: Chunk) -> None:
        """Pass one chunk to the client at once; waits while the client reads more slowly than the model writes."""
        await self._delivery.emit(chunk)

    def deliver(self, answer: InferenceAnswer) -> None:
        """Hand over the final answer; the client gets it after the commit."""
        self._delivery.deliver(answer)

    def defer(self, release: Callable[[], None]) -> None:
        """Call `release` once when the instance leaves memory, however it ends."""
        self._delivery.defer(release)

    def record_attempt(self, attempt: Attempt) -> None:
        self._attempts.append(attempt)

    def record_decision(self, decision: Decision) -> None:
        self._decisions.append(decision)

    def record_usage(self, usage: Usage) -> None:
        self._usage.append(usage)

    def report(self, queued_at_us: int, started_at_us: int, finished_at_us: int) -> JobReport:
        """What the shell sends to the core with the job's result."""
        return JobReport(
            queued_at_us,
            started_at_us,
            finished_at_us,
            tuple(self._attempts),
            tuple(self._decisions),
            tuple(self._usage),
        )


TaskFunction = Callable[[Any, TaskContext[Any]], Any]


class _Field(NamedTuple):
    name: str
    required: bool
    default: Any
    accepts: tuple[type, ...]  # empty: anything


@dataclass(frozen=True, slots=True)
class TaskDefinition:
    """A registered task. `inline`: a plain function that the runtime calls between two applies; it may return an
    awaitable when, this time, it has to wait. `effect`: starts only after the commit of what caused it."""

    topic: str
    function: TaskFunction
    inline: bool
    effect: bool
    timeout_s: float | None
    input_type: type | None
    input_fields: tuple[_Field, ...]
    spec: TopicSpec

    def read(self, variables: Mapping[str, Any]) -> Any:
        """Build the task's typed input from the visible variables.

        Raises TaskError(TASK_FAULT) naming every variable that is missing or of another type.
        """
        if self.input_type is None:
            return None
        values: dict[str, Any] = {}
        problems: list[str] = []
        for name, required, default, accepts in self.input_fields:
            value = variables.get(name, MISSING)
            if type(value) not in accepts:  # what fits at first sight needs no closer look
                if value is MISSING and required:
                    problems.append(f"variable `{name}` is missing")
                    continue
                if value is MISSING:
                    value = default() if callable(default) else default
                elif accepts and not isinstance(value, accepts):
                    wanted = " or ".join(sorted(kind.__name__ for kind in accepts))
                    problems.append(f"variable `{name}` is {type(value).__name__}, wanted {wanted}")
                    continue
            values[name] = value
        if problems:
            raise TaskError(Code.TASK_FAULT, f"task `{self.topic}` cannot read its input: {'; '.join(problems)}")
        return self.input_type(**values)

    def write(self, result: Any) -> dict[str, Any]:
        """The variables that a result stands for: a dataclass's fields, or nothing."""
        if result is None:
            return {}
        return {name: getattr(result, name) for name in self.spec.outputs}


class Registry:
    """The tasks that diagrams may name. Built once at start; read-only afterwards."""

    def __init__(self) -> None:
        self._tasks: dict[str, TaskDefinition] = {}

    def add(self, definition: TaskDefinition) -> None:
        """Raises ValueError when the topic is taken."""
        if definition.topic in self._tasks:
            raise ValueError(f"topic `{definition.topic}` is declared twice")
        self._tasks[definition.topic] = definition

    def __getitem__(self, topic: str) -> TaskDefinition:
        return self._tasks[topic]

    def get(self, topic: str) -> TaskDefinition | None:
        return self._tasks.get(topic)

    def __iter__(self) -> Any:
        return iter(self._tasks.values())

    @property
    def specs(self) -> dict[str, TopicSpec]:
        """Every topic with what it reads and writes, for lint."""
        return {definition.topic: definition.spec for definition in self._tasks.values()}


REGISTRY = Registry()

F = TypeVar("F", bound=TaskFunction)


def task(
    topic: str,
    *,
    inline: bool = False,
    effect: bool = False,
    timeout_s: float | None = None,
    registry: Registry = REGISTRY,
) -> Callable[[F], F]:
    """Declare the function behind a topic. It takes (input, context); the input is a frozen dataclass whose fields are
    variable names (or None for no input), the result a dataclass whose fields become variables (or None).

    Raises TypeError when the function's name is not the topic or its types are not as above.
    """

    def declare(function: F) -> F:
        registry.add(_define(topic, function, inline, effect, timeout_s))
        return function

    return declare


def _define(topic: str, function: TaskFunction, inline: bool, effect: bool, timeout_s: float | None) -> TaskDefinition:
    if function.__name__ != topic:
        raise TypeError(f"the function behind topic `{topic}` must have that name, not `{function.__name__}`")
    if inline and inspect.iscoroutinefunction(function):
        raise TypeError(f"task `{topic}` is inline, so it must be a plain function (it may return an awaitable)")
    if not inline and not inspect.iscoroutinefunction(function):
        raise TypeError(f"task `{topic}` must be an async function, or be declared inline")
    hints = get_type_hints(function)
    input_name = next(iter(inspect.signature(function).parameters))
    input_type = _dataclass_or_none(topic, "input", hints.get(input_name, NoneType))
    output_type = _dataclass_or_none(topic, "result", _unwrap_awaitable(hints.get("return", NoneType)))
    input_fields = _fields_of(input_type) if input_type else ()
    outputs = frozenset(f.name for f in fields(output_type)) if output_type else frozenset[str]()
    names = frozenset(f.name for f in input_fields)
    required = frozenset(f.name for f in input_fields if f.required)
    spec = TopicSpec(names, required, outputs)
    return TaskDefinition(topic, function, inline, effect, timeout_s, input_type, input_fields, spec)


def _unwrap_awaitable(hint: Any) -> Any:
    """`Result | Awaitable[Result]` declares Result."""
    if get_origin(hint) in (Union, UnionType):
        plain = [arm for arm in get_args(hint) if get_origin(arm) is not _AWAITABLE_ORIGIN]
        if len(plain) == 1:
            return plain[0]
    return hint


_AWAITABLE_ORIGIN = get_origin(Awaitable[int])


def _dataclass_or_none(topic: str, role: str, hint: Any) -> type | None:
    if hint is NoneType or hint is None:
        return None
    if isinstance(hint, type) and is_dataclass(hint):
        return hint
    raise TypeError(f"the {role} of task `{topic}` must be a dataclass or None, not {hint!r}")


_ACCEPTED: dict[Any, tuple[type, ...]] = {
    str: (str,),
    int: (int,),
    bool: (bool,),
    float: (int, Decimal),
    Decimal: (int, Decimal),
    dict: (dict,),
    list: (list, tuple),
    tuple: (list, tuple),
    Mapping: (Mapping,),
    NoneType: (NoneType,),
}


def _accepted_types(hint: Any) -> tuple[type, ...]:
    if get_origin(hint) in (Union, UnionType):
        arms = [_accepted_types(arm) for arm in get_args(hint)]
        return () if any(not arm for arm in arms) else tuple({kind for arm in arms for kind in arm})
    return _ACCEPTED.get(get_origin(hint) or hint, _ACCEPTED.get(hint, ()))


def _fields_of(input_type: type) -> tuple[_Field, ...]:
    hints = get_type_hints(input_type)
    described = []
    for each in fields(input_type):
        required = each.default is MISSING and each.default_factory is MISSING
        default = each.default if each.default is not MISSING else each.default_factory
        described.append(_Field(each.name, required, default, _accepted_types(hints[each.name])))
    return tuple(described)
