"""What the items of a multi-instance activity see and write, and what its completion condition counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from engine.records import IncidentEnded, JobFailed
from tests.builders import EMPTY_REPORT, Diagram, each, timer
from tests.driven import Driven


def items(**loop: Any) -> Diagram:
    """A task for each of 1, 2 and 3."""
    return (
        Diagram().start().task("work", loop=each("=[1, 2, 3]", "item", **loop)).end().path("started", "work", "ended")
    )


def test_output_mappings_of_an_item_write_its_own_variables_before_those_around() -> None:
    loop = each("=[1, 2]", "item", into="all", result="=doubled")
    diagram = Diagram().start().task("work", loop=loop, outputs={"doubled": "=item * 2", "last": "=item"}).end()
    run = Driven(diagram.path("started", "work", "ended"))
    run.done("work")
    run.done("work")

    assert run.outcome.variables == {"all": [2, 4], "last": 2}
    run.replayed()


@pytest.mark.parametrize(
    ("sequential", "counts"), [(False, [(3, 2, 1), (3, 1, 2), (3, 0, 3)]), (True, [(1, 0, 1), (2, 0, 2), (3, 0, 3)])]
)
def test_the_counts_of_a_completion_condition_add_up(sequential: bool, counts: list[tuple[int, ...]]) -> None:
    seen = []

    def until(variables: Mapping[str, Any], context: Any) -> bool:
        names = ("numberOfInstances", "numberOfActiveInstances", "numberOfCompletedInstances")
        seen.append(tuple(variables[name] for name in names))
        return False

    loop = each("=[1, 2, 3]", sequential=sequential, until=until)
    diagram = Diagram().start().script("work", "=1", "x", loop=loop).end().path("started", "work", "ended")

    assert Driven(diagram).outcome.state == "completed"
    assert seen == counts


def test_a_variable_that_is_set_at_the_body_is_seen_by_the_items_that_follow() -> None:
    run = Driven(items(sequential=True, into="all", result="=item"), online=False)
    body = next(each for each in run.instance.open_activities if each.element_type == "MULTI_INSTANCE_BODY")
    run.set({"price": 1, "all": "mine"}, body.key, local=True)
    assert run.instance.scopes[body.key] == {"price": 1, "all": [None, None, None]}
    run.done("work")
    assert run.job.variables["price"] == 1
    run.done("work")
    run.done("work")

    assert run.outcome.variables == {"all": [1, 2, 3]}
    run.replayed()


def test_the_first_item_is_the_first_execution_of_its_element() -> None:
    run = Driven(items())

    assert [job.execution for job in run.instance.open_jobs] == [1, 2, 3]


def test_a_border_ends_the_items_whose_incidents_are_open() -> None:
    diagram = items().boundary("work", "late", timer("PT1S")).end("given_up").path("late", "given_up")
    run = Driven(diagram, online=False)
    run.do(JobFailed(run.key, run.job_at("work").key, "TASK_FAULT", "a bug", False, EMPTY_REPORT))
    run.fire("late")
    assert [ended.resolved for ended in run.facts(IncidentEnded)] == [False]
    run.stopped("work")
    run.stopped("work")

    assert run.outcome.end_element_id == "given_up"
    run.replayed()


def test_a_completion_condition_that_failed_is_asked_again() -> None:
    run = Driven(items(until="=enough", into="all", result="=item"), online=False)
    run.done("work")
    run.set({"enough": True})
    run.resolve()
    run.stopped("work")
    run.stopped("work")

    assert run.outcome.variables == {"enough": True, "all": [1, None, None]}
    run.replayed()


def test_an_output_of_an_item_that_has_the_name_of_a_result_stays_with_the_item() -> None:
    loop = each("=[1, 2]", "item", into="all", result="=result")
    diagram = Diagram().start().task("work", loop=loop, outputs={"result": "=result + 1", "last": "=item"}).end()
    run = Driven(diagram.path("started", "work", "ended"))
    run.done("work", {"result": 1})
    run.done("work", {"result": 2})

    assert run.outcome.variables == {"all": [2, 3], "last": 2}
    run.replayed()
