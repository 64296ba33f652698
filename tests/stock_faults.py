"""Owns what stock SpiffWorkflow 3.2 does with a diagram, told as JSON: what ended, what is left, what broke.
Never runs inside another process of the tests, and changes nothing in stock but the watching of states.
Called by the tests of its faults, through `tell`; a question is a diagram with what happens to it, or a name below.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from typing import Any

from tests.stock import BPMN, ROOT, Run, read

ZEEBE = "{http://camunda.org/schema/zeebe/1.0}"


def tell(questions: Sequence[Mapping[str, Any]], *, timeout_s: float = 120) -> list[dict[str, Any]]:
    """Put questions to stock in a process of its own, one after the other."""
    answer = subprocess.run(
        [sys.executable, "-m", "tests.stock_faults"],
        input=json.dumps(questions),
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        timeout=timeout_s,
    )
    if answer.returncode:
        raise RuntimeError(answer.stderr)
    told: list[dict[str, Any]] = json.loads(answer.stdout)
    return told


# --- diagrams ----------------------------------------------------------------------------------------------------


def _in_stock_words(xml: str) -> str:
    """Scripts and multi-instance in the words that stock reads; the expressions here are FEEL and Python alike."""
    from lxml import etree

    document = etree.parse(BytesIO(xml.encode()))
    for script in document.iter(f"{ZEEBE}script"):
        task = script.getparent().getparent()
        text = script.get("expression").lstrip("=")
        etree.SubElement(task, f"{BPMN}script").text = f"{script.get('resultVariable')} = {text}"
    for loop in document.iter(f"{ZEEBE}loopCharacteristics"):
        characteristics = loop.getparent().getparent()
        collection = etree.SubElement(characteristics, f"{BPMN}loopDataInputRef")
        collection.text = loop.get("inputCollection").lstrip("=")
        etree.SubElement(characteristics, f"{BPMN}inputDataItem", id=loop.get("inputElement"))
        if loop.get("outputCollection") is not None:
            etree.SubElement(characteristics, f"{BPMN}loopDataOutputRef").text = loop.get("outputCollection")
            etree.SubElement(characteristics, f"{BPMN}outputDataItem", id=loop.get("outputElement").lstrip("="))
    return etree.tostring(document, encoding="unicode")


def _run(xml: str, variables: Mapping[str, Any], python: Mapping[str, str] | None = None) -> Run:
    spec, inner = read(_in_stock_words(xml), python or {})
    return Run(spec, variables, inner)


def _diagram(question: Mapping[str, Any]) -> dict[str, Any]:
    """The elements that ended, in order (`-id`: cancelled); whether it is completed; what waits; the data."""
    from SpiffWorkflow.task import Task
    from SpiffWorkflow.util.task import TaskState

    passed: list[str] = []
    set_state = Task._set_state

    def observed(task: Any, value: int) -> None:
        set_state(task, value)
        if value in (TaskState.COMPLETED, TaskState.CANCELLED) and task.task_spec.bpmn_id is not None:
            passed.append(("" if value == TaskState.COMPLETED else "-") + task.task_spec.bpmn_id)

    Task._set_state = observed
    told: dict[str, Any] = {"passed": passed, "error": None, "completed": False}
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(question.get("recursion_limit", usual))
    try:
        run = _run(question["xml"], question.get("variables", {}), question.get("python", {}))
        run.workflow.do_engine_steps()
        for happens in question.get("happens", ()):
            _happen(run.workflow, *happens)
            run.workflow.do_engine_steps()
        waiting = run.workflow.get_tasks(state=TaskState.STARTED | TaskState.READY)
        told |= {"completed": run.workflow.is_completed(), "waiting": [task.task_spec.name for task in waiting]}
        told["data"] = {name: str(value) for name, value in run.workflow.last_task.data.items()}
    except Exception as error:  # that it breaks is what is asked
        told["error"], told["said"] = type(error).__name__, str(error)[:300]
    finally:
        Task._set_state = set_state
        sys.setrecursionlimit(usual)
    return told


def _happen(workflow: Any, what: str, name: str, data: Mapping[str, Any]) -> None:
    from SpiffWorkflow.bpmn.specs.event_definitions.item_aware_event import ErrorEventDefinition, SignalEventDefinition
    from SpiffWorkflow.bpmn.util.event import BpmnEvent
    from SpiffWorkflow.util.task import TaskState

    if what == "done":
        task = next(each for each in workflow.get_tasks(state=TaskState.STARTED) if each.task_spec.name == name)
        task.data.update(data)
        task.complete()
    elif what == "error":
        workflow.catch(BpmnEvent(ErrorEventDefinition(name, code=name)))
    elif what == "signal":
        workflow.catch(BpmnEvent(SignalEventDefinition(name)))


# --- questions about what is behind them -------------------------------------------------------------------------


def _steps_of_walking(question: Mapping[str, Any]) -> dict[str, Any]:
    """How often stock looks at a task of its tree while it runs each diagram: a cost that no machine changes."""
    from SpiffWorkflow.util.task import TaskIterator

    looks = 0
    move = TaskIterator._next

    def counted(iterator: Any) -> Any:
        nonlocal looks
        looks += 1
        return move(iterator)

    TaskIterator._next = counted
    told = []
    try:
        for xml in question["xmls"]:
            run = _run(xml, {})
            looks = 0
            run.drive([{}] * 1_000)
            told.append(looks)
    finally:
        TaskIterator._next = move
    return {"looks": told}


def _history_after_a_later_change(question: Mapping[str, Any]) -> dict[str, Any]:
    """A task changes an object that an earlier, finished task has left: what the finished task says now."""
    run = _run(question["xml"], {"order": {"bill": {"paid": False}}})
    run.workflow.do_engine_steps()
    finished = run.workflow.get_tasks(spec_name="started")[0]
    (task,) = run.workflow.get_tasks(spec_name="work")
    task.data["order"]["bill"]["paid"] = True
    return {"paid_at_the_start": finished.data["order"]["bill"]["paid"]}


def _saved_and_read_back(question: Mapping[str, Any]) -> dict[str, Any]:
    """An instance with a variable called `typename`, through stock's own serializer."""
    from SpiffWorkflow.bpmn.serializer import BpmnWorkflowSerializer

    run = _run(question["xml"], {"shape": {"typename": "circle"}})
    serializer = BpmnWorkflowSerializer()
    saved = serializer.serialize_json(run.workflow)
    try:
        serializer.deserialize_json(saved)
    except Exception as error:  # that it breaks is what is asked
        return {"error": type(error).__name__}
    return {"error": None}


def _error_of_a_service(question: Mapping[str, Any]) -> dict[str, Any]:
    """What a failing service call raises."""
    from SpiffWorkflow.bpmn.script_engine import PythonScriptEngine

    class Environment(type(PythonScriptEngine().environment)):  # type: ignore[misc]
        def call_service(self, *_: Any, **__: Any) -> None:
            raise ConnectionError("refused")

    run = _run(question["xml"], {})
    try:
        PythonScriptEngine(Environment()).call_service(run.workflow.task_tree)
    except Exception as error:  # which one is what is asked
        return {"error": type(error).__name__}
    return {"error": None}


def _listeners_of_a_shared_spec(question: Mapping[str, Any]) -> dict[str, Any]:
    """How many callbacks the specs of one definition hold after each of some instances has ended."""
    spec, inner = read(_in_stock_words(question["xml"]), {})
    told = []
    for _ in range(3):
        Run(spec, {"items": [1, 2]}, inner).drive([])
        told.append(sum(each.completed_event.n_subscribers() for each in spec.task_specs.values()))
    return {"listeners": told}


_NAMED: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "diagram": _diagram,
    "looks": _steps_of_walking,
    "history": _history_after_a_later_change,
    "saved": _saved_and_read_back,
    "service": _error_of_a_service,
    "listeners": _listeners_of_a_shared_spec,
}


def main() -> None:
    questions = json.load(sys.stdin)
    json.dump([_NAMED[question.get("what", "diagram")](question) for question in questions], sys.stdout)


if __name__ == "__main__":
    main()
