"""Random diagrams, random commands, legal and not: replay equals life, and no law of the lifecycle is ever broken."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.bpmn.definition import ProcessDefinition
from engine.bpmn.spiff import Program
from engine.core import InstanceState, ProcessInstance, derive_records, replay
from engine.core.lifecycle import ENDED, ActivityState
from engine.errors import Rejected
from engine.records import (
    Abort,
    ActivityEnded,
    Attempt,
    BpmnErrorThrown,
    Cancel,
    Command,
    IncidentRaised,
    InstanceEnded,
    JobCompleted,
    JobFailed,
    JobReport,
    JobStopped,
    Step,
    TimerFired,
    Usage,
)
from tests.builders import Diagram, start_command

AT = 1_700_000_000_000_000
MOST = 40  # activity instances
REPORT = JobReport(
    AT,
    AT,
    AT,
    (Attempt("a", "p", "m", "1", "grpc", "ok", AT, AT),),
    (),
    (Usage("tokens", Decimal(1), "Tokens", None, None, None, False, True, "m", "a"),),  # type: ignore[arg-type]
)
CODES = ("A", "B", "C")
CONDITIONS = ("=x < 1", "=x > 0", "=true", "=false", "=missing > 1", "=x", "=random number() < 0.5", "=error != null")
DURATIONS = ("PT0.1S", '=duration("PT1S") * (x + 1)', "=missing", "PT0S")
MAPPINGS = ({}, {"x": "=x + 1"}, {"y": "=random number()", "o.p": "=x"}, {"x": "=result"}, {"error": "=null"})


@st.composite
def diagrams(draw: st.DrawFn) -> ProcessDefinition:
    """Tasks with error and timer boundary events, gateways, waits and ends, connected at random, loops included."""
    diagram = Diagram().start()
    tasks = [f"task_{i}" for i in range(draw(st.integers(1, 4)))]
    gateways = [f"gateway_{i}" for i in range(draw(st.integers(0, 2)))]
    waits = [f"wait_{i}" for i in range(draw(st.integers(0, 1)))]
    ends = [f"end_{i}" for i in range(draw(st.integers(1, 2)))]
    sources = ["started", *tasks, *waits]
    for task in tasks:
        mapping = st.sampled_from(MAPPINGS)
        diagram.task(task, retries=draw(st.integers(1, 2)), inputs=draw(mapping), outputs=draw(mapping))
        for i, code in enumerate(draw(st.lists(st.sampled_from([*CODES, None]), max_size=2))):
            diagram.on_error(task, f"{task}_error_{i}", code, outputs=draw(mapping))
            sources.append(f"{task}_error_{i}")
        if draw(st.booleans()):
            diagram.on_timer(task, f"{task}_late", draw(st.sampled_from(DURATIONS)), outputs=draw(mapping))
            sources.append(f"{task}_late")
    for wait in waits:
        diagram.wait(wait, draw(st.sampled_from(DURATIONS)))
    for end in ends:
        diagram.end(end, draw(st.sampled_from([None, None, None, "A"])))
    targets = st.sampled_from([*tasks, *gateways, *waits, *ends])
    for source in sources:
        diagram.flow(source, draw(targets))
    for gateway in gateways:
        diagram.gateway(gateway)
        for i in range(draw(st.integers(1, 3))):
            diagram.flow(gateway, draw(targets), draw(st.sampled_from(CONDITIONS)), id=f"{gateway}_{i}")
        if draw(st.booleans()):
            diagram.flow(gateway, draw(targets), default=True, id=f"{gateway}_default")
    return diagram.build()


VALUES = st.one_of(st.integers(-2, 3), st.none(), st.booleans(), st.floats(0, 1), st.just({"code": "X", "deep": [0.5]}))
VARIABLES = st.dictionaries(st.sampled_from(["x", "y", "o", "result", "error"]), VALUES, max_size=2)


def legal(draw: Any, instance: ProcessInstance) -> Command | None:
    """A command that the instance has to accept; None when it is asked for nothing."""
    key = instance.next_key + draw(st.integers(0, 2))
    commands: list[Command] = []
    for job in instance.open_jobs:
        variables, code = draw(VARIABLES), draw(st.sampled_from(CODES))
        commands += [
            JobCompleted(key, job.key, variables, REPORT),
            JobCompleted(key, job.key, {"x": 1}, REPORT),
            BpmnErrorThrown(key, job.key, code, "thrown", variables, REPORT),
            JobFailed(key, job.key, "TASK_FAULT", "failed", draw(st.booleans()), REPORT),
        ]
    if instance.state is InstanceState.ACTIVE:
        commands += [TimerFired(key, timer.key) for timer in instance.open_timers]
        if draw(st.integers(0, 12)) == 0:
            commands = [Cancel(key, "CANCELLED", "from outside"), Abort(key, "lost")]
    stopping = [activity.job for activity in instance._course.agenda.jobs.values() if activity.is_stopping]
    commands += [JobStopped(key, job.key, REPORT) for job in stopping if job is not None]
    return draw(st.sampled_from(commands)) if commands else None


def illegal(draw: Any, instance: ProcessInstance, definition: ProcessDefinition, log: list[Command]) -> Command:
    """A command that the instance has to refuse: too late, twice, for nothing, with a used key or no JSON."""
    key = instance.next_key
    commands: list[Command] = [
        start_command(definition, key=key),
        JobCompleted(key, key, {}, REPORT),
        JobStopped(key, key, REPORT),
        TimerFired(key, key),
        Abort(key - 1, "used key"),
        *(command for command in log if not isinstance(command, Abort | Cancel)),
    ]
    for job in instance.open_jobs:
        commands += [
            JobCompleted(key, job.key, {"x": object()}, REPORT),
            BpmnErrorThrown(key, job.key, "A", "", {"x": [float("nan")]}, REPORT),
            JobFailed(key - 1, job.key, "X", "used key", True, REPORT),
        ]
    return draw(st.sampled_from(commands))


def check_waiting(instance: ProcessInstance) -> None:
    """An open instance waits for something that has a name."""
    activities = instance._course.open_activities()
    assert activities
    for activity in activities:
        assert activity.job is not None or activity.waits or activity.state is ActivityState.INCIDENT


def check_laws(records: list[Any], steps: list[Step], instance: ProcessInstance) -> None:
    facts = [record.body for record in records if record.position > 0]
    ended = [fact.activity_instance_key for fact in facts if isinstance(fact, ActivityEnded)]
    assert len(ended) == len(set(ended))
    assert [record.position for record in records if record.position > 0] == list(range(1, len(facts) + 1))
    assert all(not isinstance(fact, InstanceEnded) for fact in facts[:-1])
    open_activities = [activity.key for activity in instance._course.open_activities()]
    assert len(ended) + len(open_activities) == instance._course.agenda.visits
    started = [job.key for step in steps for job in step.start]
    armed = [timer.key for step in steps for timer in step.arm]
    disarmed = [key for step in steps for key in step.disarm]
    incidents = [fact.incident_key for fact in facts if isinstance(fact, IncidentRaised)]
    minted = [instance.key, *ended, *open_activities, *started, *armed, *incidents]
    assert len(minted) == len(set(minted))
    assert len(disarmed) == len(set(disarmed))
    assert set(disarmed) <= set(armed)
    stopped = [key for step in steps for key in step.stop]
    assert len(stopped) == len(set(stopped))
    assert set(stopped) <= set(started)
    assert {timer.key for timer in instance.open_timers} <= set(armed) - set(disarmed)
    if instance.state in ENDED:
        assert isinstance(facts[-1], InstanceEnded)
        assert not open_activities
        assert not instance.open_jobs
        assert not instance.open_timers
        assert facts[-1].activities == len(ended)
    else:
        check_waiting(instance)


@settings(max_examples=150, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_replay_equals_life_and_every_law_holds(data: st.DataObject) -> None:
    definition = data.draw(diagrams())
    program = Program(definition)
    instance = ProcessInstance(program)
    log: list[tuple[Command, int]] = []
    records: list[Any] = []
    steps: list[Step] = []
    at_us = AT
    command: Command | None = start_command(
        definition, data.draw(VARIABLES), online=data.draw(st.booleans()), max_activity_instances=MOST
    )
    while command is not None and len(log) < 25:
        steps.append(instance.apply(command, at_us))
        assert instance.fault is None, repr(instance.fault)
        records += steps[-1].records
        log.append((steps[-1].records[0].body, steps[-1].records[0].at_us))  # type: ignore[arg-type]
        check_laws(records, steps, instance)
        again = replay(program, log)
        assert again.snapshot() == instance.snapshot()
        assert list(derive_records(program, log)) == records
        before = instance.snapshot()
        try:
            refused = illegal(data.draw, instance, definition, [entry for entry, _ in log])
            instance.apply(refused, at_us)
        except Rejected:
            assert instance.snapshot() == before
        else:
            raise AssertionError(f"accepted {refused}")
        at_us += data.draw(st.integers(-5, 500_000))
        command = legal(data.draw, instance)
    assert (command is None) or len(log) == 25


@settings(max_examples=60, deadline=None, print_blob=True)
@given(st.data())
def test_instances_of_one_program_do_not_touch_each_other(data: st.DataObject) -> None:
    definition = data.draw(diagrams())
    program = Program(definition)
    shapes = _shapes(program)
    alone = [ProcessInstance(definition) for _ in range(2)]
    together = [ProcessInstance(program) for _ in range(2)]
    for instance, twin in zip(alone, together, strict=True):
        command: Command | None = start_command(
            definition, {"x": data.draw(st.integers(0, 2))}, max_activity_instances=MOST
        )
        for _ in range(6):
            if command is None:
                break
            assert instance.apply(command, AT) == twin.apply(command, AT)
            command = legal(data.draw, instance)
    assert [instance.snapshot() for instance in alone] == [instance.snapshot() for instance in together]
    assert _shapes(program) == shapes


def _shapes(program: Program) -> list[tuple[Any, ...]]:
    specs = program.spec.task_specs.values()
    return [(spec.name, (*spec._inputs,), (*spec._outputs,), spec.successors, {**spec.data}) for spec in specs]
