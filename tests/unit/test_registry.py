"""The registry: one function per topic, its name the topic, its types what the diagram may read and write."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest

from engine import TaskContext, TaskError, task
from engine.registry import REGISTRY, Registry


@dataclass(frozen=True, slots=True)
class Wanted:
    model: str
    limit: int = 3
    price: Decimal | None = None
    tried: list[str] = field(default_factory=list)
    extra: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Found:
    replica: str
    cost_usd: Decimal | None


def declared(**options: Any) -> Registry:
    registry = Registry()

    @task("look", registry=registry, **options)
    async def look(wanted: Wanted, ctx: TaskContext[Any]) -> Found:
        return Found(wanted.model, None)

    return registry


def test_a_topic_says_what_it_reads_and_writes() -> None:
    spec = declared().specs["look"]
    assert spec.inputs == {"model", "limit", "price", "tried", "extra"}
    assert spec.required == {"model"}
    assert spec.outputs == {"replica", "cost_usd"}


def test_variables_become_typed_input_and_a_result_becomes_variables() -> None:
    definition = declared()["look"]
    read = definition.read({"model": "chat", "price": Decimal("0.1"), "unrelated": object()})
    assert read == Wanted("chat", 3, Decimal("0.1"), [])
    assert definition.write(Found("a", Decimal(2))) == {"replica": "a", "cost_usd": Decimal(2)}
    assert definition.write(None) == {}
    assert definition.read({"model": "a"}).tried is not definition.read({"model": "a"}).tried


def test_every_variable_that_is_missing_or_of_another_type_is_named() -> None:
    with pytest.raises(TaskError) as caught:
        declared()["look"].read({"limit": "three", "tried": {"a": 1}, "extra": 7})
    assert caught.value.code == "TASK_FAULT"
    for words in ("`model` is missing", "`limit` is str", "`tried` is dict", "`extra` is int"):
        assert words in caught.value.message


@pytest.mark.parametrize("value", [3, Decimal("3")])
def test_a_decimal_may_be_a_whole_number(value: object) -> None:
    assert declared()["look"].read({"model": "a", "price": value}).price == value


def test_a_topic_has_one_function() -> None:
    registry = declared()
    with pytest.raises(ValueError, match="`look` is declared twice"):

        @task("look", registry=registry)
        async def look(wanted: Wanted, ctx: TaskContext[Any]) -> None:
            return None


def test_the_function_has_the_name_of_its_topic() -> None:
    with pytest.raises(TypeError, match="must have that name, not `seek`"):

        @task("look", registry=Registry())
        async def seek(wanted: Wanted, ctx: TaskContext[Any]) -> None:
            return None


def test_input_and_result_are_dataclasses_or_nothing() -> None:
    with pytest.raises(TypeError, match="input of task `look`"):

        @task("look", registry=Registry())
        async def look(wanted: str, ctx: TaskContext[Any]) -> None:
            return None

    with pytest.raises(TypeError, match="result of task `see`"):

        @task("see", registry=Registry())
        async def see(_: None, ctx: TaskContext[Any]) -> dict[str, int]:
            return {}


def test_an_inline_task_is_a_plain_function_that_may_return_something_to_wait_for() -> None:
    registry = Registry()

    @task("look", inline=True, registry=registry)
    def look(_: None, ctx: TaskContext[Any]) -> Found | Awaitable[Found]:
        return Found("a", None)

    assert registry["look"].inline
    assert registry.specs["look"].outputs == {"replica", "cost_usd"}
    with pytest.raises(TypeError, match="is inline"):

        @task("wait", inline=True, registry=registry)
        async def wait(_: None, ctx: TaskContext[Any]) -> None:
            return None

    with pytest.raises(TypeError, match="must be an async function"):

        @task("stay", registry=registry)
        def stay(_: None, ctx: TaskContext[Any]) -> None:
            return None


def test_the_shipped_tasks_are_those_of_the_shipped_diagram() -> None:
    import tasks

    assert set(REGISTRY.specs) == {"admit", "check_health", "route", "infer", "fall_back", "settle"}
    assert {definition.topic for definition in REGISTRY if definition.inline} == set(REGISTRY.specs) - {"infer"}
    assert tasks.__all__
