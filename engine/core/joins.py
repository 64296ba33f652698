"""Owns gateways at which tokens wait for each other: parallel joins, inclusive joins, and joins that can never go on.
Never evaluates a condition.
Called by the course of an instance.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from engine.bpmn.definition import ElementType, FlowNode
from engine.bpmn.spiff import Token
from engine.core.flow_scope import FlowScope
from engine.errors import Code

if TYPE_CHECKING:
    from engine.core.course import Course


def arrive(course: Course, token: Token) -> bool:
    """A token has reached a join. Whether it goes on, for all that have arrived; else it is parked."""
    node, scope = token.node, token.scope
    if not token.came_by:  # the instance was started here
        return True
    flows = scope.arrivals.setdefault(node.id, {})
    if node.type is ElementType.PARALLEL_GATEWAY and len(flows) + (token.came_by not in flows) == len(node.incoming):
        waiting = [flow_id for flow_id in flows if flow_id != token.came_by]
        _merge(course, scope, node, waiting)
        return True
    flows.setdefault(token.came_by, deque()).append(token)
    scope.parked += 1
    course.agenda.stirred[scope.key] = scope
    return False


def _merge(course: Course, scope: FlowScope, node: FlowNode, flow_ids: list[str]) -> None:
    """Take one token of each of these flows away: another one goes on for them."""
    flows = scope.arrivals[node.id]
    for flow_id in flow_ids:
        _taken(scope, node, flow_id).cancel()
    if not flows:
        del scope.arrivals[node.id]


def _taken(scope: FlowScope, node: FlowNode, flow_id: str) -> Token:
    waiting = scope.arrivals[node.id][flow_id]
    token = waiting.popleft()
    scope.parked -= 1
    if not waiting:
        del scope.arrivals[node.id][flow_id]
    return token


def forget(course: Course, scope: FlowScope) -> None:
    """Cancel every token that is parked in a scope."""
    course.agenda.stirred.pop(scope.key, None)
    for flows in scope.arrivals.values():
        for tokens in flows.values():
            for token in tokens:
                token.cancel()
    scope.arrivals.clear()
    scope.parked = 0


def settle(course: Course) -> bool:
    """No token is ready: let an inclusive join go on that waits for nothing any more. Whether there was one."""
    stirred = course.agenda.stirred
    for key, scope in list(stirred.items()):
        for node in _inclusive(scope):
            if not _is_awaiting(scope, node):
                _go_on(course, scope, node)
                return True
        del stirred[key]
    return False


def _inclusive(scope: FlowScope) -> list[FlowNode]:
    """The inclusive joins of a scope at which tokens wait."""
    nodes = (scope.program.definition.nodes[node_id] for node_id in scope.arrivals)
    return [node for node in nodes if node.type is ElementType.INCLUSIVE_GATEWAY]


def unstick(course: Course) -> bool:
    """Nothing in the instance can move but tokens at joins. Whether one goes on now, or an incident reports it."""
    scopes = course.open_scopes()
    for scope in scopes:
        for node in _inclusive(scope):  # those that wait for each other
            _go_on(course, scope, node)
            return True
    for scope in scopes:
        for node_id in scope.arrivals:
            _report(course, scope, scope.program.definition.nodes[node_id])
            return True
    return False


def _is_awaiting(scope: FlowScope, node: FlowNode) -> bool:
    """Whether a token may still come to an inclusive join over a flow that has none.

    As in Camunda 8: a token that may also come over a flow that has one is waited for as well, where BPMN 2.0.2, 13.4.3
    goes on without it, and once more when it comes.
    """
    arrived, reaching = scope.arrivals[node.id], scope.program.structure.reaching
    places = {activity.node.id for activity in scope.activities.values()}.union(scope.arrivals)
    return any(not places.isdisjoint(reaching(node.id, flow)) for flow in node.incoming if flow not in arrived)


def _go_on(course: Course, scope: FlowScope, node: FlowNode) -> None:
    first, *others = list(scope.arrivals[node.id])
    token = _taken(scope, node, first)
    _merge(course, scope, node, others)
    if course.visit(token):
        token.complete()


def _report(course: Course, scope: FlowScope, node: FlowNode) -> None:
    """An incident at a join that waits for tokens that nothing can bring any more."""
    arrived = list(scope.arrivals[node.id])
    missing = ", ".join(f"`{flow_id}`" for flow_id in node.incoming if flow_id not in arrived)
    token = _taken(scope, node, arrived[0])
    _merge(course, scope, node, arrived[1:])
    activity = course.agenda.activate(token)
    message = f"nothing that still runs can bring a token over {missing}; resolved, it goes on without"
    course.incident(activity, Code.JOIN_STUCK, message)
