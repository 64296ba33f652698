"""Owns the comparison with SpiffWorkflow as its makers ship it: their parser, their specs, their stepping.
Never runs inside another process of the tests: it is started with a question on standard input, answers and ends.
Called by the differential test and by the bench, through `ask`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
BPMN = "{http://www.omg.org/spec/BPMN/20100524/MODEL}"


def ask(question: Mapping[str, Any], *, timeout_s: float = 120) -> Any:
    """Put a question to stock SpiffWorkflow in a process of its own."""
    answer = subprocess.run(
        [sys.executable, "-m", "tests.stock"],
        input=json.dumps(question),
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        timeout=timeout_s,
    )
    if answer.returncode:
        raise RuntimeError(answer.stderr)
    return json.loads(answer.stdout)


def _parsed(xml: str, python: Mapping[str, str]) -> Any:
    """A stock spec. `python` gives the Python text of each condition by flow id, and of each timer by event id."""
    return read(xml, python)[0]


def read(xml: str, python: Mapping[str, str]) -> tuple[Any, Mapping[str, Any]]:
    """As `_parsed`, with the specs of sub-processes by their names."""
    from lxml import etree
    from SpiffWorkflow.bpmn.parser import BpmnParser
    from SpiffWorkflow.bpmn.parser.TaskParser import TaskParser
    from SpiffWorkflow.bpmn.specs.defaults import ServiceTask

    class Started(ServiceTask):  # type: ignore[misc]
        def _run_hook(self, my_task: Any) -> None:
            return None

    class Parser(BpmnParser):  # type: ignore[misc]
        OVERRIDE_PARSER_CLASSES = {BPMN + "serviceTask": (TaskParser, Started)}  # noqa: RUF012

    document = etree.parse(BytesIO(xml.encode()))
    for element in document.iter(BPMN + "extensionElements"):
        element.getparent().remove(element)
    for flow in document.iter(BPMN + "sequenceFlow"):
        for condition in flow.iter(BPMN + "conditionExpression"):
            condition.text = python.get(flow.get("id"), (condition.text or "").lstrip("="))
    for kind in ("timeDate", "timeDuration"):
        for timer in document.iter(BPMN + kind):
            timer.text = python[timer.getparent().getparent().get("id")]
    parser = Parser()
    parser.add_bpmn_xml(document)
    name = next(document.iter(BPMN + "process")).get("id")
    return parser.get_spec(name), parser.get_subprocess_specs(name)


def _throw(task: Any, code: str) -> None:
    """Deliver an error to exactly one boundary event of the task: that of the code, else the catch-all."""
    from SpiffWorkflow.bpmn.specs.mixins.events.intermediate_event import BoundaryEvent
    from SpiffWorkflow.bpmn.util.event import BpmnEvent
    from SpiffWorkflow.util.task import TaskState

    events = [
        sibling
        for sibling in task.parent.children
        if isinstance(sibling.task_spec, BoundaryEvent) and sibling.state == TaskState.WAITING
    ]
    codes = [getattr(sibling.task_spec.event_definition, "code", "") for sibling in events]
    caught = events[codes.index(code)] if code in codes else events[codes.index(None)]
    caught.task_spec.catch(caught, BpmnEvent(caught.task_spec.event_definition))
    caught.task_spec._update(caught)


class Run:
    """One instance on stock SpiffWorkflow, driven by an answer for each service task in order of their start."""

    def __init__(self, spec: Any, variables: Mapping[str, Any], inner: Mapping[str, Any] | None = None) -> None:
        from SpiffWorkflow.bpmn.workflow import BpmnWorkflow

        self.workflow = BpmnWorkflow(spec, dict(inner or {}))
        self.workflow.task_tree.data.update(variables)

    def drive(self, answers: list[Any]) -> bool:
        from SpiffWorkflow.util.task import TaskState

        workflow = self.workflow
        workflow.do_engine_steps()
        for answer in answers:
            started = workflow.get_tasks(state=TaskState.STARTED)
            if not started:
                break
            task = started[0]
            if isinstance(answer, str):
                _throw(task, answer)
            else:
                task.data.update(answer)
                task.complete()
            workflow.do_engine_steps()
        return bool(workflow.is_completed())


def _way(question: Mapping[str, Any]) -> dict[str, Any]:
    """For each run, what the start and each answer led to. An answer is an element, and an error's code, the variables
    of its result, or null for a timer that fires."""
    from SpiffWorkflow.task import Task
    from SpiffWorkflow.util.task import TaskState

    ended: list[tuple[str, bool]] = []
    set_state = Task._set_state

    def observed(task: Any, value: int) -> None:
        set_state(task, value)
        if value in (TaskState.COMPLETED, TaskState.CANCELLED) and task.task_spec.bpmn_id is not None:
            ended.append((task.task_spec.bpmn_id, value == TaskState.COMPLETED))

    Task._set_state = observed
    return {"runs": [_stretches(run, ended) for run in question["runs"]]}


def _stretches(asked: Mapping[str, Any], ended: list[tuple[str, bool]]) -> list[dict[str, Any]]:
    from SpiffWorkflow.bpmn.util.event import BpmnEvent
    from SpiffWorkflow.util.task import TaskState

    spec, inner = read(asked["xml"], asked["python"])
    workflow = Run(spec, asked["variables"], inner).workflow
    told: list[dict[str, Any]] = []

    def go_on() -> None:
        workflow.do_engine_steps()
        waiting = workflow.get_tasks(state=TaskState.STARTED | TaskState.WAITING)
        told.append(
            {
                "passed": sorted(name for name, completed in ended if completed),
                "cancelled": sorted(name for name, completed in ended if not completed),
                "waiting": sorted(task.task_spec.bpmn_id for task in waiting if task.task_spec.bpmn_id is not None),
                "completed": bool(workflow.is_completed()),
            }
        )
        ended.clear()

    ended.clear()
    go_on()
    for element_id, answer in asked["answers"]:
        (task,) = workflow.get_tasks(state=TaskState.STARTED | TaskState.WAITING, spec_name=element_id)
        if answer is None:
            task.task_spec.catch(task, BpmnEvent(task.task_spec.event_definition))
            task.task_spec._update(task)
        elif isinstance(answer, str):
            _throw(task, answer)
        else:
            task.data.update(answer)
            task.complete()
        go_on()
    return told


def _speed(question: Mapping[str, Any]) -> dict[str, Any]:
    """CPU seconds per instance, the best of several batches."""
    spec = _parsed(question["xml"], question["python"])
    best = float("inf")
    for _ in range(question["batches"]):
        began = time.process_time()
        for _ in range(question["instances"]):
            if not Run(spec, question["variables"]).drive(question["answers"]):
                raise SystemExit("the instance did not complete")
        best = min(best, (time.process_time() - began) / question["instances"])
    return {"seconds": best}


def main() -> None:
    sys.setrecursionlimit(20_000)  # stock parses and predicts recursively
    question = json.load(sys.stdin)
    json.dump({"way": _way, "speed": _speed}[question["what"]](question), sys.stdout)


if __name__ == "__main__":
    main()
