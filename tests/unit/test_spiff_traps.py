"""The traps of SpiffWorkflow that the elements we run can meet, one test each."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from engine.bpmn.spiff import Program, Token
from engine.core import ProcessInstance
from engine.records import BpmnErrorThrown, JobCompleted, TimerFired
from tests.builders import EMPTY_REPORT, Diagram, chain, start_command

AT = 1_700_000_000_000_000
ROOMY = 100_000  # activity instances


def run_to_end(program: Program, *, online: bool = True, most: int = ROOMY) -> ProcessInstance:
    """Answer every job with nothing and fire every timer at its instant."""
    instance = ProcessInstance(program)
    step = instance.apply(start_command(program.definition, online=online, max_activity_instances=most), AT)
    while step.outcome is None:
        if step.start:
            step = instance.apply(JobCompleted(step.next_key, step.start[0].key, {}, EMPTY_REPORT), AT)
        else:
            timer = instance.open_timers[0]
            step = instance.apply(TimerFired(step.next_key, timer.key), timer.due_at_us)
    assert instance.fault is None, repr(instance.fault)
    return instance


def tokens_of(instance: ProcessInstance) -> list[Token]:
    return [activity.token for activity in instance._course.open_activities()]


def test_a_straight_chain_of_a_thousand_tasks_is_built_and_runs() -> None:
    instance = run_to_end(Program(chain(1_000).build()))

    assert instance.outcome is not None
    assert instance.outcome[:2] == ("completed", "ended")


def looped(turns: int) -> Diagram:
    """start, then work again until it was entered `turns` times."""
    diagram = Diagram("loop").start().task("work", outputs={"turns": "=turns + 1"}).gateway("again").end()
    diagram.path("started", "work", "again").flow("again", "work", f"=turns < {turns}")
    return diagram.flow("again", "ended", default=True)


def test_a_loop_of_a_thousand_turns_runs_at_the_default_recursion_limit() -> None:
    program = Program(looped(1_000).build())
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(300)
    try:
        instance = ProcessInstance(program)
        step = instance.apply(start_command(program.definition, {"turns": 0}, max_activity_instances=ROOMY), AT)
        while step.outcome is None:
            assert len(tokens_of(instance)) == 1
            (job,) = step.start
            step = instance.apply(JobCompleted(step.next_key, job.key, {}, EMPTY_REPORT), AT)
    finally:
        sys.setrecursionlimit(limit)

    assert job.execution == 1_000
    assert instance.variables == {"turns": 1_000}


def test_a_loop_that_never_waits_does_not_recurse_and_ends_at_the_limit() -> None:
    diagram = Diagram().start().gateway("a").gateway("b").end().path("started", "a")
    diagram.flow("a", "b", "=true").flow("b", "a", "=true").flow("b", "ended", default=True)
    instance = run_to_end(Program(diagram.build()), most=5_000)

    assert instance.outcome is not None
    assert instance.outcome.error is not None
    assert instance.outcome.error["code"] == "LIMIT_EXCEEDED"


def test_a_loop_through_a_boundary_event_runs_past_the_turn_at_which_stock_dies() -> None:
    diagram = Diagram().start().wait("pause", "PT1S").task("work").gateway("again").end()
    diagram.path("started", "work", "again", "ended").on_error("work", "failed").path("failed", "pause", "work")
    program = Program(diagram.build())
    instance = ProcessInstance(program)
    step = instance.apply(start_command(program.definition, max_activity_instances=ROOMY), AT)
    for _ in range(400):
        (job,) = step.start
        step = instance.apply(BpmnErrorThrown(step.next_key, job.key, "X", "", {}, EMPTY_REPORT), AT)
        step = instance.apply(TimerFired(step.next_key, step.arm[0].key), AT)
        assert len(tokens_of(instance)) == 1
    step = instance.apply(JobCompleted(step.next_key, step.start[0].key, {}, EMPTY_REPORT), AT)

    assert step.outcome is not None
    assert step.outcome.state == "completed"


def test_a_flow_straight_back_into_its_own_gateway_does_not_recurse() -> None:
    diagram = Diagram().start().gateway("again").end().path("started", "again")
    diagram.flow("again", "again", "=random number() < 0.9").flow("again", "ended", default=True)

    assert run_to_end(Program(diagram.build())).outcome is not None


@pytest.mark.parametrize("name", ["Start", "End", "Root", "process.EndJoin", "typename"])
def test_an_element_may_be_called_like_one_of_spiff_s_own(name: str) -> None:
    diagram = Diagram().start().task(name).end().path("started", name, "ended")

    assert run_to_end(Program(diagram.build())).outcome is not None


def test_variables_never_enter_a_task_and_a_task_cannot_take_any() -> None:
    program = Program(looped(3).build())
    instance = ProcessInstance(program)
    step = instance.apply(start_command(program.definition, {"turns": 0, "typename": "x"}), AT)
    seen: list[Token] = []
    while step.outcome is None:
        seen += tokens_of(instance)
        step = instance.apply(JobCompleted(step.next_key, step.start[0].key, {"a": [1]}, EMPTY_REPORT), AT)

    assert len(seen) == 3
    for token in seen:
        assert token.data == {}
        with pytest.raises(TypeError):
            token.data["a"] = 1  # type: ignore[index]
        assert token.internal_data == {}


def test_no_clock_no_uuid_and_no_log_is_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    import SpiffWorkflow.task
    import SpiffWorkflow.workflow

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("touched")

    diagram = looped(3).wait("pause", "PT1S").on_timer("work", "late", "PT5S").path("late", "pause", "ended")
    program = Program(diagram.build())
    monkeypatch.setattr(SpiffWorkflow.task, "uuid4", refuse)
    monkeypatch.setattr(SpiffWorkflow.task.time, "time", refuse)
    for module in (SpiffWorkflow.task, SpiffWorkflow.workflow):
        monkeypatch.setattr(module.logger, "info", refuse)
        monkeypatch.setattr(module.logger, "debug", refuse)
    instance = ProcessInstance(program)
    step = instance.apply(start_command(program.definition, {"turns": 0}, max_activity_instances=ROOMY), AT)
    while step.outcome is None:
        assert all(type(token.id) is int for token in tokens_of(instance))
        step = instance.apply(JobCompleted(step.next_key, step.start[0].key, {}, EMPTY_REPORT), AT)

    assert step.outcome.state == "completed"


def test_an_instance_leaves_the_specs_of_its_program_as_they_were() -> None:
    program = Program(looped(5).build())
    before = {name: (list(spec._inputs), list(spec._outputs)) for name, spec in program.spec.task_specs.items()}
    instance = ProcessInstance(program)
    step = instance.apply(start_command(program.definition, {"turns": 0}, max_activity_instances=ROOMY), AT)
    while step.outcome is None:
        step = instance.apply(JobCompleted(step.next_key, step.start[0].key, {}, EMPTY_REPORT), AT)

    after = {name: (list(spec._inputs), list(spec._outputs)) for name, spec in program.spec.task_specs.items()}
    assert before == after
    assert all(event.n_subscribers() == 0 for spec in program.spec.task_specs.values() for event in _events(spec))


def _events(spec: Any) -> list[Any]:
    return [spec.completed_event, spec.ready_event, spec.run_event, spec.cancelled_event, spec.error_event]


def test_only_the_pinned_line_of_spiffworkflow_is_installed() -> None:
    from importlib.metadata import version

    assert version("SpiffWorkflow").startswith("3.2.")


def test_stock_classes_are_left_as_they_are() -> None:
    from SpiffWorkflow.bpmn.workflow import BpmnWorkflow
    from SpiffWorkflow.specs.base import TaskSpec
    from SpiffWorkflow.task import Task

    for stock in (Task, TaskSpec, BpmnWorkflow):
        functions = [value for value in vars(stock).values() if callable(value)]
        assert functions
        assert all(value.__module__.startswith("SpiffWorkflow.") for value in functions if hasattr(value, "__code__"))
    assert Token.run is Task.run
    assert Token.complete is Task.complete
