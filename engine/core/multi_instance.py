"""Owns multi-instance activities: one inner activity for each item, at once or one after the other, and their outputs.
Never knows what the inner activity does.
Called by the course and the elements of an instance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.core.activity import Activity
from engine.core.evaluation import EvaluationFailed, collection, result, truth
from engine.core.flow_scope import NO_REACTIONS, FlowScope, Items
from engine.errors import Code
from engine.records import Variables

if TYPE_CHECKING:
    from engine.core.course import Course


def enter_body(course: Course, activity: Activity) -> bool | None:
    """Evaluate the collection and start what runs for its items."""
    opened = course.open(activity)
    if opened is not True:
        return opened
    loop, outer = activity.node.loop, activity.outer
    assert loop is not None
    try:
        found = collection(loop.input_collection, activity.scope.visible(), course.context(activity))
    except EvaluationFailed as failure:
        return course.incident(activity, Code.EXPRESSION_FAILED, str(failure))
    items = Items(found, loop.output_collection is not None)
    if not found:
        return course.complete(activity, {} if loop.output_collection is None else {loop.output_collection: []})
    activity.keep({})  # variables that are set at the body are seen by what it runs
    inside = FlowScope(
        activity.key,
        activity,
        outer.program,
        NO_REACTIONS,
        activity.scope,
        outer.process_key,
        course.agenda.at_us,
    )
    inside.fact_process_id = outer.fact_process_id
    inside.items = items
    activity.inside = inside
    spec = outer.program.each_of(activity.node)
    for index in range(1 if loop.sequential else len(found)):
        course.execution.place(spec, inside, index)
        items.next += 1
    return None


def collect(course: Course, activity: Activity, results: Variables) -> None:
    """An inner activity completes: keep its output, and end the others where the completion condition holds.

    Raises EvaluationFailed; then nothing has changed.
    """
    scope, index = activity.outer, activity.index
    items = scope.items
    assert items is not None
    assert index is not None
    assert scope.owner is not None
    loop = scope.owner.node.loop
    assert loop is not None
    visible = {**activity.scope.visible(), **results}
    output = None
    if loop.output_element is not None:
        output = result(loop.output_element, visible, course.context(activity), "the output element")
    if loop.completion_condition is not None:
        counts: dict[str, Any] = {
            "numberOfInstances": items.next,
            "numberOfActiveInstances": scope.tokens - 1,  # all but this one
            "numberOfCompletedInstances": items.completed + 1,
            "numberOfTerminatedInstances": items.terminated,
        }
        if items.outputs is not None and loop.output_collection is not None:
            so_far = [*items.outputs]
            so_far[index] = output
            counts[loop.output_collection] = so_far
        items.satisfied = truth(
            loop.completion_condition, {**visible, **counts}, course.context(activity), "the completion condition"
        )
    items.completed += 1
    if items.outputs is not None:
        items.outputs[index] = output


def go_on(course: Course, scope: FlowScope) -> bool:
    """Start the next item of a sequential body. Whether there was one."""
    items = scope.items
    if items is None or items.satisfied or items.next >= len(items.all) or scope.owner is None:
        return False
    course.execution.place(scope.program.each_of(scope.owner.node), scope, items.next)
    items.next += 1
    return True
