"""Owns what has an inside: sub-processes, event sub-processes, called processes, and the compensation of what is done.
Never decides when a scope ends (the course does).
Called by the course and the elements of an instance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.bpmn.definition import ElementType, FlowNode
from engine.core import catching
from engine.core.activity import Activity, Compensating
from engine.core.evaluation import EvaluationFailed
from engine.core.flow_scope import Compensable, FlowScope
from engine.core.scopes import Scope, copied
from engine.errors import Code
from engine.records import Variables

if TYPE_CHECKING:
    from engine.core.course import Course


def arm_reactions(course: Course, scope: FlowScope) -> str | None:
    """Arm the event sub-processes of a scope that opens. What is wrong, if one cannot be armed."""
    for start in scope.program.structure.awaited_in(scope.scope_id):
        try:
            catching.arm(course, None, scope, start)
        except EvaluationFailed as failure:
            course.agenda.drop_waits(scope)
            return f"{start.id}: {failure}"
    return None


def enter_sub_process(course: Course, activity: Activity) -> bool | None:
    opened = _open(course, activity)
    if opened is True and activity.inside is not None:
        inside = activity.inside
        course.execution.place(inside.program.spec_of(inside.program.structure.start_of(activity.node.id)), inside)
        return None
    return opened


def enter_event_sub_process(course: Course, activity: Activity) -> bool | None:
    start, caught = activity.token.payload
    opened = _open(course, activity)
    if opened is True and activity.inside is not None:
        course.execution.place(activity.inside.program.spec_of(start), activity.inside, caught)
        return None
    return opened


def _open(course: Course, activity: Activity) -> bool | None:
    """Open a sub-process up to where its first token stands. True, or what its incident means for its token."""
    opened = course.open(activity)
    if opened is not True:
        return opened
    outer = activity.outer
    activity.keep({})  # variables that are set inside stay inside where it declares them
    inside = FlowScope(
        activity.key, activity, outer.program, activity.node.id, activity.scope, outer.process_key, course.agenda.at_us
    )
    inside.fact_process_id = outer.fact_process_id
    return _armed(course, activity, inside)


def _armed(course: Course, activity: Activity, inside: FlowScope) -> bool | None:
    problem = arm_reactions(course, inside)
    if problem is not None:
        return course.incident(activity, Code.EXPRESSION_FAILED, problem)
    activity.inside = inside
    return True


def enter_call_activity(course: Course, activity: Activity) -> bool | None:
    opened = course.open(activity)
    if opened is not True:
        return opened
    node = activity.node
    called, program = node.called, activity.outer.program.calls[node.id]
    assert called is not None
    variables = activity.scope.visible() if called.propagate_all_parent_variables else activity.local
    key = course.agenda.mint()
    inside = FlowScope(key, activity, program, None, Scope(None, dict(variables)), key, course.agenda.at_us)
    inside.fact_process_id = program.definition.process_id
    opened = _armed(course, activity, inside)
    if opened is True:
        course.execution.place(program.spec_of(program.structure.start_of(None)), inside)
        return None
    return opened


def is_called(scope: FlowScope) -> bool:
    """Whether this is the inside of a called process."""
    return scope.owner is not None and scope.owner.node.type is ElementType.CALL_ACTIVITY


def results_of(scope: FlowScope, owner: Activity) -> Variables:
    """What a scope that has ended hands to the activity that it is the inside of."""
    called = owner.node.called
    if owner.node.type is ElementType.CALL_ACTIVITY and called is not None:
        wanted = called.propagate_all_child_variables or owner.node.outputs
        return scope.variables.local if wanted else {}
    loop = owner.node.loop
    if scope.items is not None and loop is not None and loop.output_collection is not None:
        return {loop.output_collection: scope.items.outputs}
    return {}


def start_before(course: Course, element_ids: Sequence[str]) -> None:
    """Place tokens before elements, with the sub-processes around them open."""
    insides: dict[str | None, FlowScope] = {None: course.root}
    definition, structure = course.program.definition, course.program.structure
    for element_id in element_ids:
        node = definition.nodes[element_id]
        for sub_process in structure.around(node):
            outer = insides[sub_process.parent]
            if sub_process.id not in insides:
                activity = course.agenda.activate(course.execution.occupy(course.program.spec_of(sub_process), outer))
                if _open(course, activity) is not True or activity.inside is None:
                    _end_unopened(course, activity)
                    return
                insides[sub_process.id] = activity.inside
        course.execution.place(course.program.spec_of(node), insides[node.parent])


def _end_unopened(course: Course, activity: Activity) -> None:
    """No person can mend a scope that was to open for its inside: tried again, it would begin at its start event."""
    if activity.stuck is not None:
        course.end_early(activity.stuck.code, activity.stuck.message, activity.stuck.incident_key)


# --- compensation -----------------------------------------------------------------------------------------------


def remember_compensation(activity: Activity) -> None:
    """Note what can undo an activity that completes: its own handler, else those of what was done inside it."""
    handler = activity.outer.program.structure.handler_of(activity.node.id) if activity.index is None else None
    inside = activity.inside
    inner: tuple[Compensable, ...] = ()
    if handler is None and inside is not None and not is_called(inside):
        inner = tuple(inside.compensable)
    if handler is not None or inner:
        local = copied(activity.local) if inner else {}
        activity.outer.compensable.append(Compensable(activity.node.id, handler, local, inner))


def compensate(course: Course, thrower: Activity, activity_ref: str | None) -> int:
    """Start the handlers of all that is done in the thrower's scope, or of one activity. How many they are.

    Thrown in an event sub-process, it is for the scope around that. All handlers start at once, as in Camunda 8.
    """
    scope = thrower.outer
    while scope.owner is not None and scope.owner.node.type is ElementType.EVENT_SUB_PROCESS:
        scope = scope.owner.outer
    meant = [each for each in scope.compensable if activity_ref in (None, each.element_id)]
    scope.compensable = [each for each in scope.compensable if activity_ref not in (None, each.element_id)]
    handlers = [found for each in meant for found in _handlers(each, {})]
    for handler, local in handlers:
        course.execution.place(scope.program.spec_of(handler), thrower.outer, Compensating(thrower, local))
    return len(handlers)


def _handlers(done: Compensable, local: Variables) -> list[tuple[FlowNode, Variables]]:
    if done.handler is not None:
        return [(done.handler, local)]
    seen = {**local, **done.local}
    return [found for inner in done.inner for found in _handlers(inner, seen)]


def has_compensated(course: Course, activity: Activity) -> None:
    """A compensation handler is over, and so is what its end led to: the throw event goes on after the last one."""
    thrower = activity.compensates
    assert thrower is not None
    thrower.awaited -= 1
    if thrower.awaited == 0 and thrower.token.activity is thrower and not thrower.is_stopping:
        course.finish(thrower, {})
