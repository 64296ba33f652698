"""One word everywhere: element id, topic, Python function, step name and metric label of a service task are the same.

Spans come with tracing; they will be the sixth place.
"""

from __future__ import annotations

import asyncio
import importlib
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from engine.inference import InferenceCall, Operation
from engine.meter import Meter
from engine.records import ActivityEnded, Job
from engine.registry import REGISTRY
from engine.run import Run
from engine.telemetry import Telemetry
from tests.driven import Driven
from tests.unit.test_core_inference_request import DEFINITION, FILE, START, failure

_BPMN = "{http://www.omg.org/spec/BPMN/20100524/MODEL}"
_ZEEBE = "{http://camunda.org/schema/zeebe/1.0}"
_TASKS = list(etree.parse(FILE).iter(f"{_BPMN}serviceTask"))
WORDS = [element.get("id") for element in _TASKS]


class Walk:
    """A request that passes every service task of the diagram: it fails once and falls back."""

    def __init__(self) -> None:
        importlib.import_module("tasks")
        self.jobs: dict[str, Job] = {}
        run = Driven(DEFINITION, START)
        results: dict[str, dict[str, Any]] = {
            "admit": {"fallback_model": "chat-small"},
            "check_health": {"candidates": ["a"], "unhealthy": []},
            "route": {"replica": "a", "pool": "default", "route_reason": "the only one"},
            "infer": {"error": None, "attempts": 1},
            "fall_back": {"model": "chat-small", "degraded": True, "attempts": 0},
            "settle": {},
        }
        while run.step.outcome is None:
            first_try = run.job.element_id == "infer" and "infer" not in self.jobs
            self.jobs[run.job.element_id] = run.job
            if first_try:
                run.throw("REPLICA_ERROR", failure(1, "REPLICA_ERROR", retryable=False))
            else:
                run.complete(results[run.job.element_id])
        self.steps = {ended.element_id: ended for ended in run.facts(ActivityEnded)}
        self.labels = asyncio.run(_labels(run))


async def _labels(run: Driven) -> dict[str, set[str]]:
    """What the steps' metrics are labelled with."""
    telemetry = Telemetry()
    call = InferenceCall(Operation.GENERATE, "chat", "", "")
    Meter(telemetry).count(Run(1, call, lambda key, code, message: None, 1.0), tuple(run.records))
    labels: dict[str, set[str]] = {}
    for family in (*telemetry.steps.collect(), *telemetry.step_seconds.collect()):
        labels[family.name] = {sample.labels["element"] for sample in family.samples}
    return labels


@pytest.fixture(scope="module")
def walk() -> Walk:
    return Walk()


def test_the_diagram_has_the_words_of_the_design() -> None:
    assert WORDS == ["admit", "check_health", "route", "infer", "settle", "fall_back"]


@pytest.mark.parametrize("element", _TASKS, ids=WORDS)
def test_a_service_task_has_one_word_in_every_place(walk: Walk, element: Any) -> None:
    word = element.get("id")
    assert element.find(f".//{_ZEEBE}taskDefinition").get("type") == word
    definition = REGISTRY[word]
    assert definition.function.__name__ == word
    assert getattr(importlib.import_module(f"tasks.{word}"), word) is definition.function
    assert walk.jobs[word].topic == word
    assert walk.steps[word].element_id == word
    assert all(word in labels for labels in walk.labels.values())
    assert element.get(f"{_ZEEBE}modelerTemplate") == f"conch.{word}"


def test_there_is_a_module_for_each_word_and_none_besides_that_declares_a_topic() -> None:
    folder = Path(__file__).parents[2] / "tasks"
    declaring = {file.stem for file in folder.glob("*.py") if "\n@task(" in file.read_text(encoding="utf-8")}
    assert declaring == set(WORDS) == set(REGISTRY.specs)
