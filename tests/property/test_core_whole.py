"""Random diagrams over every element, random commands: replay equals life, no token is lost or doubled, and every
instance ends or waits for something that has a name."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

from engine.bpmn.spiff import Program
from engine.core import InstanceState, ProcessInstance, derive_records, replay
from engine.core.instance import _no_start
from engine.core.lifecycle import ENDED, ActivityState
from engine.records import (
    Abort,
    ActivityEnded,
    BpmnErrorThrown,
    Cancel,
    Command,
    EventReceived,
    IncidentEnded,
    IncidentRaised,
    IncidentResolved,
    InstanceEnded,
    JobCompleted,
    JobFailed,
    JobStopped,
    Record,
    RetriesSet,
    Step,
    TimerFired,
    VariablesSet,
)
from tests.builders import EMPTY_REPORT, start_command
from tests.property.whole_diagrams import CODES, structured, unstructured

AT = 1_700_000_000_000_000
MOST = 150  # activity instances
COMMANDS = 30
VARIABLES = st.dictionaries(st.sampled_from(["x", "y"]), st.integers(-1, 3) | st.none(), max_size=2)


def legal(draw: Any, instance: ProcessInstance) -> Command | None:
    """A command that the instance has to accept; None when it is asked for nothing."""
    key = instance.next_key
    commands: list[Command] = []
    agenda = instance._course.agenda
    for job_key, activity in agenda.jobs.items():
        if activity.is_stopping:
            commands.append(JobStopped(key, job_key, EMPTY_REPORT))
        variables, code = draw(VARIABLES), draw(st.sampled_from(CODES))
        commands += [
            *[JobCompleted(key, job_key, variables, EMPTY_REPORT)] * 3,
            BpmnErrorThrown(key, job_key, code, "thrown", variables, EMPTY_REPORT),
            JobFailed(key, job_key, "TASK_FAULT", "failed", draw(st.booleans()), EMPTY_REPORT),
            JobFailed(key, job_key, "TASK_FAULT", "failed", True, EMPTY_REPORT, draw(st.integers(0, 2)), 10, variables),
        ]
    if instance.state is InstanceState.ACTIVE:
        commands += [TimerFired(key, timer.key) for timer in instance.open_timers]
        commands += [EventReceived(key, each.key, 5, draw(VARIABLES)) for each in instance.open_subscriptions]
        commands += [IncidentResolved(key, incident.key) for incident in instance.open_incidents]
        if commands and draw(st.integers(0, 4)) == 0:
            scopes = [instance.key, *(activity.key for activity in instance.open_activities)]
            commands.append(VariablesSet(key, draw(st.sampled_from(scopes)), draw(VARIABLES), draw(st.booleans())))
            commands += [RetriesSet(key, job.key, 3) for job in instance.open_jobs]
        elif draw(st.integers(0, 40)) == 0:
            commands = [Cancel(key, "CANCELLED", "from outside"), Abort(key, "lost")]
        if not commands and instance._course.agenda.conditions:
            commands.append(VariablesSet(key, instance.key, {"x": 2}, False))
    return draw(st.sampled_from(commands)) if commands else None


def begins(draw: Any, program: Program, *, online: bool) -> Command:
    """A Start, now and then before other elements than the start event, and with an element after which to end."""
    command = start_command(program.definition, {"x": 1, "y": 1}, online=online, max_activity_instances=MOST)
    ids = list(program.definition.nodes)
    if draw(st.integers(0, 5)) == 0:
        before = [id for id in ids if not list(_no_start(program, id))]
        command = command._replace(start_element_ids=tuple(draw(st.lists(st.sampled_from(before), max_size=3))))
    if draw(st.integers(0, 5)) == 0:
        command = command._replace(terminate_after_id=draw(st.sampled_from(ids)))
    return command


def check_tokens(instance: ProcessInstance) -> None:
    """At rest every token is in an open activity or parked at a join, and every scope with none has been left."""
    course = instance._course
    assert not course.execution.ready
    assert not course.execution.emptied
    for scope in course.open_scopes():
        assert scope.tokens == len(scope.activities) + scope.parked
        assert scope.parked == sum(len(tokens) for flows in scope.arrivals.values() for tokens in flows.values())
        assert scope.tokens or scope.left
        assert all(activity.token.scope is scope for activity in scope.activities.values())


def check_waiting(instance: ProcessInstance) -> None:
    """Whatever is open waits for something that has a name."""
    course = instance._course
    assert course.root.tokens
    assert course.agenda.jobs or course.agenda.waits or course.agenda.incidents
    for activity in course.open_activities():
        named = activity.job or activity.waits or activity.stuck or activity.inside or activity.awaited
        assert named, f"{activity.node.id} waits for nothing"
        assert (activity.state is ActivityState.INCIDENT) == (activity.stuck is not None)


def check_keys(records: list[Record], steps: list[Step], instance: ProcessInstance) -> None:
    """Everything begins once and ends once."""
    facts = [record.body for record in records if record.position > 0]
    ended = [fact.activity_instance_key for fact in facts if isinstance(fact, ActivityEnded)]
    assert len(ended) == len(set(ended))
    raised = [fact.incident_key for fact in facts if isinstance(fact, IncidentRaised)]
    over = [fact.incident_key for fact in facts if isinstance(fact, IncidentEnded)]
    assert len(raised) == len(set(raised))
    assert len(over) == len(set(over))
    for opened, closed, open_ in (
        ("arm", "disarm", instance.open_timers),
        ("subscribe", "unsubscribe", instance.open_subscriptions),
    ):
        begun = [each.key for step in steps for each in getattr(step, opened)]
        taken_back = [key for step in steps for key in getattr(step, closed)]
        assert len(begun) == len(set(begun))
        assert len(taken_back) == len(set(taken_back))
        assert set(taken_back) <= set(begun)
        assert {each.key for each in open_} <= set(begun) - set(taken_back)
    started = [job.key for step in steps for job in step.start]
    stopped = [key for step in steps for key in step.stop]
    assert len(started) == len(set(started))
    assert len(stopped) == len(set(stopped))
    assert set(stopped) <= set(started)
    around = {fact.activity_instance_key: fact.scope_key for fact in facts if isinstance(fact, ActivityEnded)}
    order = {key: place for place, key in enumerate(around)}
    assert all(order[key] < order[scope] for key, scope in around.items() if scope in order), "inner ends before outer"
    open_keys = {activity.key for activity in instance.open_activities}
    assert not open_keys & set(ended)
    assert {scope for scope in around.values() if scope is not None} <= open_keys | set(ended)
    assert set(instance.scopes) <= open_keys | {instance.key}
    assert {incident.key for incident in instance.open_incidents} <= set(raised) - set(over)
    if instance.state in ENDED:
        assert isinstance(facts[-1], InstanceEnded)
        assert facts[-1].activities == sum(
            isinstance(fact, ActivityEnded) and fact.element_type != "PROCESS" for fact in facts
        )
        assert set(raised) >= set(over)
        assert not instance.open_jobs
        assert not instance.open_timers
        assert not instance.open_subscriptions
        assert not instance.open_activities


def live(data: st.DataObject, program: Program) -> None:
    online = data.draw(st.booleans())
    instance = ProcessInstance(program)
    log: list[tuple[Command, int]] = []
    records: list[Record] = []
    steps: list[Step] = []
    at_us = AT
    command: Command | None = begins(data.draw, program, online=online)
    while command is not None and len(log) < COMMANDS:
        steps.append(instance.apply(command, at_us))
        assert instance.fault is None, repr(instance.fault)
        records += steps[-1].records
        log.append((steps[-1].records[0].body, at_us))  # type: ignore[arg-type]
        check_keys(records, steps, instance)
        if instance.state not in ENDED:
            check_tokens(instance)
            check_waiting(instance)
        again = replay(program, log)  # a restart after this record
        assert again.snapshot() == instance.snapshot()
        instance = again
        at_us += data.draw(st.integers(0, 500_000))
        command = legal(data.draw, instance)
    assert list(derive_records(program, log)) == records
    event(f"{instance.state.value}, {'online' if online else 'operational'}")


EXPLORING = int(os.environ.get("CONCH_EXAMPLES", "0"))  # by hand: many examples, and none of them made small
SETTINGS = settings(
    max_examples=EXPLORING or 120,
    phases=[Phase.explicit, Phase.generate] if EXPLORING else list(Phase),
    deadline=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)


@SETTINGS
@given(st.data())
def test_a_structured_diagram_keeps_every_law_whatever_happens(data: st.DataObject) -> None:
    live(data, data.draw(structured()))


@SETTINGS
@given(st.data())
def test_an_unstructured_diagram_keeps_every_law_whatever_happens(data: st.DataObject) -> None:
    live(data, data.draw(unstructured()))


@pytest.mark.parametrize("most", [1, 2, 5, 20])
@settings(max_examples=25, deadline=None, print_blob=True, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_the_limit_of_activity_instances_ends_any_diagram_at_any_point(most: int, data: st.DataObject) -> None:
    program = data.draw(structured())
    instance = ProcessInstance(program)
    instance.apply(start_command(program.definition, {"x": 1, "y": 1}, max_activity_instances=most), AT)

    assert instance.fault is None, repr(instance.fault)
    assert instance._course.agenda.visits <= most + 1
