"""Random diagrams on our stepping and on stock SpiffWorkflow: both take the same way."""

from __future__ import annotations

import os
from random import Random, SystemRandom
from typing import Any

from engine.core import ProcessInstance
from engine.core.lifecycle import ENDED
from engine.records import ActivityEnded, BpmnErrorThrown, JobCompleted
from tests.builders import EMPTY_REPORT, Diagram, start_command
from tests.stock import ask

AT = 1_700_000_000_000_000
DIAGRAMS = 40
CODES = ("A", "B")


def diagram_of(chance: Random, number: int) -> Diagram:
    """Tasks with error boundary events and gateways, flowing forwards; stock cannot be trusted with loops."""
    diagram = Diagram(f"process_{number}").start().end("end_0").end("end_1")
    names = [f"node_{i}" for i in range(chance.randint(1, 8))]
    targets = [*names, chance.choice(["end_0", "end_1"])]
    diagram.flow("started", targets[0])
    for i, name in enumerate(names):
        later = targets[i + 1 :]
        if chance.random() < 0.3:
            diagram.gateway(name)
            for j in range(chance.randint(1, 2)):
                diagram.flow(name, chance.choice(later), f"=x < {chance.randint(0, 4)}", id=f"{name}_{j}")
            diagram.flow(name, targets[i + 1], default=True, id=f"{name}_default")
            continue
        diagram.task(name).flow(name, targets[i + 1])
        for code in chance.sample([*CODES, None], chance.randint(0, 3)):
            event = f"{name}_{code or 'any'}"
            diagram.on_error(name, event, code).flow(event, chance.choice(later))
    return diagram


def answers_of(chance: Random) -> list[Any]:
    return [chance.choice(CODES) if chance.random() < 0.4 else {"x": chance.randint(0, 4)} for _ in range(12)]


def ours(diagram: Diagram, answers: list[Any]) -> tuple[list[Any], dict[str, Any]]:
    """The way that ours takes. An error that nothing catches becomes a result: stock would be stuck with it."""
    definition = diagram.build()
    instance = ProcessInstance(definition)
    step = instance.apply(start_command(definition, {"x": 1}), AT)
    records, given = [*step.records], []
    for answer in answers:
        if not step.start:
            break
        key, job = step.next_key, step.start[0]
        catching = [n for n in definition.nodes.values() if n.attached_to == job.element_id]
        if isinstance(answer, str) and any(n.error_code in (answer, None) for n in catching):
            step = instance.apply(BpmnErrorThrown(key, job.key, answer, "", {}, EMPTY_REPORT), AT)
        else:
            answer = answer if isinstance(answer, dict) else {"x": 2}
            step = instance.apply(JobCompleted(key, job.key, answer, EMPTY_REPORT), AT)
        given.append(answer)
        records += step.records
    ended = [record.body for record in records if isinstance(record.body, ActivityEnded)]
    passed = [fact.element_id for fact in ended if fact.state == "completed"]
    failed = sorted(fact.element_id for fact in ended if fact.state == "failed")
    return given, {"passed": passed, "failed": failed, "completed": instance.state in ENDED}


def stock_way(diagram: Diagram, run: dict[str, Any]) -> dict[str, Any]:
    tasks = {node.id for node in diagram.build().nodes.values() if node.topic is not None}
    passed = [name for name in run["passed"] if not name.startswith("-")]
    failed = sorted(name[1:] for name in run["passed"] if name.startswith("-") and name[1:] in tasks)
    return {"passed": passed, "failed": failed, "completed": run["completed"]}


def test_ours_takes_the_way_of_stock() -> None:
    seed = int(os.environ.get("CONCH_SEED") or SystemRandom().getrandbits(32))
    print(f"CONCH_SEED={seed}")
    chance = Random(seed)
    diagrams = [diagram_of(chance, number) for number in range(DIAGRAMS)]
    ways = [ours(diagram, answers_of(chance)) for diagram in diagrams]
    runs = [
        {"xml": diagram.to_xml(), "variables": {"x": 1}, "answers": given}
        for diagram, (given, _) in zip(diagrams, ways, strict=True)
    ]
    stock = ask({"what": "path", "runs": runs})["runs"]

    for diagram, (given, way), run in zip(diagrams, ways, stock, strict=True):
        assert way == stock_way(diagram, run), f"{diagram.process_id}, answers {given}"
    assert sum(way["completed"] for _, way in ways) > DIAGRAMS // 2
    assert sum(len(way["failed"]) for _, way in ways) > 0
