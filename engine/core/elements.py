"""Owns what each element does when a token reaches it.
Never does I/O or keeps anything: what an element remembers is in its activity and its scopes.
Called by the course of an instance, through the table at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias

from engine.bpmn.definition import ElementType, EventKind, FlowNode
from engine.core import catching, containers, multi_instance
from engine.core.activity import Activity, Caught
from engine.core.evaluation import EvaluationFailed, event_name, holds, no_flow_holds, result
from engine.core.jobs import start_job
from engine.dmn import Decision as DecisionLogic
from engine.dmn import DecisionFailed, DecisionResult
from engine.errors import Code
from engine.feel import to_json
from engine.feel.numbers import number_text
from engine.records import Decision, Signal, Variables

if TYPE_CHECKING:
    from engine.core.course import Course

Enter: TypeAlias = "Callable[[Course, Activity], bool | None]"


# --- events -----------------------------------------------------------------------------------------------------


def _start_event(course: Course, activity: Activity) -> bool | None:
    return course.complete(activity, _brought(activity))


def _boundary_event(course: Course, activity: Activity) -> bool | None:
    caught: Caught = activity.token.payload
    activity.started_at_us = caught.at_us
    return course.complete(activity, caught.variables)


def _brought(activity: Activity) -> Variables:
    payload = activity.token.payload
    return payload.variables if isinstance(payload, Caught) else {}


def _catch_event(course: Course, activity: Activity) -> bool | None:
    node = activity.node
    if isinstance(activity.token.payload, Caught) or node.event_kind is EventKind.LINK:
        return course.complete(activity, _brought(activity))
    return _wait_for(course, activity, [node])


def _wait_for(course: Course, activity: Activity, events: Iterable[FlowNode]) -> bool | None:
    armed = catching.arm_all(course, activity, events)
    return None if armed else armed


def _throw_event(course: Course, activity: Activity) -> bool | None:
    if activity.node.event is None:
        return course.complete(activity, {})
    return _THROW[activity.node.event.kind](course, activity)


def _throw_signal(course: Course, activity: Activity) -> bool | None:
    opened = course.open(activity)
    if opened is not True:
        return opened
    event = activity.node.event
    assert event is not None
    try:
        name = event_name(event.name, activity.scope.visible(), course.context(activity))
    except EvaluationFailed as failure:
        return course.incident(activity, Code.EXPRESSION_FAILED, str(failure))
    agenda = course.agenda
    signal = Signal(agenda.mint(), activity.node.id, name, activity.local)
    agenda.broadcast.append(signal)
    agenda.ledger.signal_thrown(activity, signal)
    return course.complete(activity, {})


def _throw_error(course: Course, activity: Activity) -> bool | None:
    code = activity.node.error_code or ""
    return course.throw_error(activity, code, f"thrown by {activity.node.id}", {})


def _throw_escalation(course: Course, activity: Activity) -> bool | None:
    event = activity.node.event
    assert event is not None
    catching.throw_escalation(course, activity, event.code or "")
    if activity.token.activity is not activity:  # it was interrupted by what it threw
        return None
    return course.complete(activity, {})


def _throw_compensation(course: Course, activity: Activity) -> bool | None:
    event = activity.node.event
    assert event is not None
    activity.awaited = containers.compensate(course, activity, event.activity_ref)
    return None if activity.awaited else course.complete(activity, {})


def _throw_link(course: Course, activity: Activity) -> bool | None:
    target = activity.outer.program.structure.link_target(activity.node)
    course.execution.place(activity.outer.program.spec_of(target), activity.outer)
    return course.complete(activity, {})


def _terminate(course: Course, activity: Activity) -> bool | None:
    done = course.complete(activity, {})
    if done:
        activity.outer.interrupted = True
        course.clear(activity.outer, None, f"ended by {activity.node.id}")
    return done


# --- gateways ---------------------------------------------------------------------------------------------------


def _exclusive_gateway(course: Course, activity: Activity) -> bool | None:
    return _choose(course, activity, all_that_hold=False)


def _inclusive_gateway(course: Course, activity: Activity) -> bool | None:
    return _choose(course, activity, all_that_hold=True)


def _choose(course: Course, activity: Activity, *, all_that_hold: bool) -> bool | None:
    """Take the first flow whose condition holds, or all of them; the default flow where none does."""
    node, flows = activity.node, activity.outer.program.definition.flows
    if not node.outgoing:
        return course.complete(activity, {})
    context, visible = course.context(activity), activity.scope.visible()
    taken: tuple[str, ...] = ()
    try:
        for flow_id in node.outgoing:
            if flow_id != node.default_flow and holds(flows[flow_id], visible, context):
                taken = (*taken, flow_id)
                if not all_that_hold:
                    break
    except EvaluationFailed as failure:
        return course.incident(activity, Code.CONDITION_FAILED, str(failure))
    if not taken and node.default_flow is not None:
        taken = (node.default_flow,)
    if not taken:
        return course.incident(activity, Code.CONDITION_FAILED, no_flow_holds(context))
    activity.token.taken = activity.taken_flow_ids = taken
    return course.complete(activity, {})


def _parallel_gateway(course: Course, activity: Activity) -> bool | None:
    return course.complete(activity, {})


def _event_based_gateway(course: Course, activity: Activity) -> bool | None:
    definition = activity.outer.program.definition
    targets = (definition.flows[flow_id].target for flow_id in activity.node.outgoing)
    return _wait_for(course, activity, (definition.nodes[target] for target in targets))


# --- tasks ------------------------------------------------------------------------------------------------------


def _job_task(course: Course, activity: Activity) -> bool | None:
    opened = course.open(activity)
    if opened is not True:
        return opened
    return start_job(course, activity)


def _plain_task(course: Course, activity: Activity) -> bool | None:
    opened = course.open(activity)
    return course.complete(activity, {}) if opened is True else opened


def _receive_task(course: Course, activity: Activity) -> bool | None:
    opened = course.open(activity)
    if opened is not True:
        return opened
    if isinstance(activity.token.payload, Caught):
        return course.complete(activity, _brought(activity))
    return _wait_for(course, activity, [activity.node])


def _script_task(course: Course, activity: Activity) -> bool | None:
    script = activity.node.script
    if script is None:
        return _job_task(course, activity)
    opened = course.open(activity)
    if opened is not True:
        return opened
    try:
        value = result(script.expression, activity.scope.visible(), course.context(activity))
    except EvaluationFailed as failure:
        return course.incident(activity, Code.EXPRESSION_FAILED, str(failure))
    return course.complete(activity, {script.result_variable: value})


def _business_rule_task(course: Course, activity: Activity) -> bool | None:
    called = activity.node.decision
    if called is None:
        return _job_task(course, activity)
    opened = course.open(activity)
    if opened is not True:
        return opened
    decision = activity.outer.program.decisions[activity.node.id]
    try:
        decided = decision.evaluate(activity.scope.visible(), course.context(activity))
        value = to_json(decided.value)
    except (DecisionFailed, ValueError) as failure:
        if isinstance(failure, DecisionFailed) and failure.result is not None:
            reasons = {**failure.result.details(), "failed": failure.result.evaluated[-1].id}
            said = Decision(called.decision_id, None, f"failed: {failure}", reasons)
            course.agenda.ledger.decision_failed(activity, said)
        return course.incident(activity, Code.DECISION_FAILED, f"{called.decision_id}: {failure}")
    details = {**decided.details(), "result": value}
    said = Decision(called.decision_id, _short(value), _reason(decision, decided), details)
    course.agenda.ledger.decided(activity, said)
    return course.complete(activity, {called.result_variable: value})


def _reason(decision: DecisionLogic, decided: DecisionResult) -> str:
    """The rules that matched, where there are any, and why there is no value, where there is none."""
    rules = ", ".join(decided.matched_rule_ids)
    reason = f"matched {rules}" if rules else "no rule matched" if decision.table else "evaluated"
    if decided.value is None and decided.warnings:
        reason += f"; null, first because: {decided.warnings[0].in_one_line()}"
    return reason


def _short(value: Any) -> str | None:
    """A decision's result in one word, where it is one."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | Decimal):
        return number_text(value)
    return value if isinstance(value, str) else None


def _user_task(course: Course, activity: Activity) -> bool | None:
    if activity.node.user_task is None:
        return _job_task(course, activity)
    if course.online:
        message = "a person would have to complete this task, and an online request cannot wait for one"
        return course.incident(activity, Code.PERSON_NEEDED, message)
    opened = course.open(activity)
    if opened is not True:
        return opened
    return start_job(course, activity)


_THROW: Mapping[EventKind, Enter] = {
    EventKind.MESSAGE: _job_task,
    EventKind.SIGNAL: _throw_signal,
    EventKind.ERROR: _throw_error,
    EventKind.ESCALATION: _throw_escalation,
    EventKind.COMPENSATION: _throw_compensation,
    EventKind.LINK: _throw_link,
    EventKind.TERMINATE: _terminate,
}

ENTER: Mapping[ElementType, Enter] = {
    ElementType.START_EVENT: _start_event,
    ElementType.END_EVENT: _throw_event,
    ElementType.INTERMEDIATE_CATCH_EVENT: _catch_event,
    ElementType.INTERMEDIATE_THROW_EVENT: _throw_event,
    ElementType.BOUNDARY_EVENT: _boundary_event,
    ElementType.EXCLUSIVE_GATEWAY: _exclusive_gateway,
    ElementType.INCLUSIVE_GATEWAY: _inclusive_gateway,
    ElementType.PARALLEL_GATEWAY: _parallel_gateway,
    ElementType.EVENT_BASED_GATEWAY: _event_based_gateway,
    ElementType.TASK: _plain_task,
    ElementType.MANUAL_TASK: _plain_task,
    ElementType.SERVICE_TASK: _job_task,
    ElementType.SEND_TASK: _job_task,
    ElementType.RECEIVE_TASK: _receive_task,
    ElementType.SCRIPT_TASK: _script_task,
    ElementType.BUSINESS_RULE_TASK: _business_rule_task,
    ElementType.USER_TASK: _user_task,
    ElementType.SUB_PROCESS: containers.enter_sub_process,
    ElementType.EVENT_SUB_PROCESS: containers.enter_event_sub_process,
    ElementType.CALL_ACTIVITY: containers.enter_call_activity,
    ElementType.MULTI_INSTANCE_BODY: multi_instance.enter_body,
}
