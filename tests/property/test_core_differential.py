"""Random diagrams on our stepping and on stock SpiffWorkflow, where stock is right: both take the same way.

Both get the same diagram and the same answers, and an error is delivered to the one event that catches it. Stock copies
variables for each branch and merges them at the join, so that no condition reads what another branch may have written.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from random import Random, SystemRandom
from typing import Any

import pytest

from engine.bpmn.definition import ElementType
from engine.core import ProcessInstance
from engine.core.lifecycle import ENDED
from engine.records import ActivityEnded, BpmnErrorThrown, JobCompleted, Step, TimerFired
from tests.builders import EMPTY_REPORT, Diagram, start_command
from tests.stock import ask

AT = 1_700_000_000_000_000
DIAGRAMS = 60
CODES = ("A", "B")
MOST = 40  # answers to one instance
TYPES = {
    "choice": ElementType.EXCLUSIVE_GATEWAY,
    "fork": ElementType.PARALLEL_GATEWAY,
    "some": ElementType.INCLUSIVE_GATEWAY,
}
JOINED = (ElementType.PARALLEL_GATEWAY, ElementType.INCLUSIVE_GATEWAY)


def free(chance: Random, number: int) -> Diagram:
    """One token: tasks with error boundary events and gateways, flowing forwards anywhere; stock cannot loop."""
    diagram = Diagram(f"free_{number}").start().end("end_0").end("end_1")
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


class Blocks:
    """Blocks within blocks, with one way in and one way out each; several tokens."""

    def __init__(self, chance: Random, number: int) -> None:
        self.chance = chance
        self.diagram = Diagram(f"blocks_{number}").start()
        self.used = 0
        first, last = self.sequence(3)
        self.diagram.end().path("started", first).path(last, "ended")

    def id(self, kind: str) -> str:
        self.used += 1
        return f"{kind}_{self.used}"

    def block(self, depth: int) -> tuple[str, str]:
        simple: list[Callable[[], tuple[str, str]]] = [self.task, self.task, self.guarded, self.wait]
        nested: list[Callable[[int], tuple[str, str]]] = [
            *(self.sequence, self.sub_process),
            *(lambda depth, kind=kind: self.branches(kind, depth) for kind in TYPES),
        ]
        if depth == 0 or self.chance.random() < 0.3:
            return self.chance.choice(simple)()
        return self.chance.choice(nested)(depth - 1)

    def sequence(self, depth: int) -> tuple[str, str]:
        first, last = self.block(depth)
        for _ in range(self.chance.randint(0, 2)):
            then, end = self.block(depth)
            self.diagram.path(last, then)
            last = end
        return first, last

    def plain(self) -> tuple[str, str]:
        """A branch of an inclusive gateway: its join in stock does not wait for a task before another choice."""
        first, last = self.chance.choice([self.task, self.wait])()
        then, end = self.chance.choice([self.task, self.wait])()
        self.diagram.path(last, then)
        return first, end

    def task(self) -> tuple[str, str]:
        name = self.id("task")
        self.diagram.task(name)
        return name, name

    def wait(self) -> tuple[str, str]:
        name = self.id("wait")
        self.diagram.wait(name, "PT1H")
        return name, name

    def guarded(self) -> tuple[str, str]:
        """A task with error boundary events, each with a task of its own."""
        name, merge = self.id("task"), self.id("merge")
        self.diagram.task(name).gateway(merge).path(name, merge)
        for code in self.chance.sample([*CODES, None], self.chance.randint(1, 3)):
            event, repair = self.id(f"caught_{code or 'any'}"), self.id("repair")
            self.diagram.on_error(name, event, code).task(repair).path(event, repair, merge)
        return name, merge

    def branches(self, kind: str, depth: int) -> tuple[str, str]:
        """A split of a kind and its join. Conditions read what the task right before it has written."""
        decide, split, join = self.id("task"), self.id(kind), self.id(f"{kind}_joined")
        self.diagram.task(decide).gateway(split, TYPES[kind]).gateway(join, TYPES[kind]).path(decide, split)
        for at in range(self.chance.randint(2, 3)):
            first, last = self.plain() if kind == "some" else self.block(depth)
            if kind == "fork":
                self.diagram.path(split, first)
            else:
                when = f"={decide} < {self.chance.randint(0, 4)}" if at else None
                self.diagram.flow(split, first, when, default=not at)
            self.diagram.path(last, join)
        return decide, join

    def sub_process(self, depth: int) -> tuple[str, str]:
        name = self.id("inner")
        begin, end = f"{name}_started", f"{name}_ended"
        self.diagram.sub_process(name)
        with self.diagram.inside(name):
            self.diagram.start(begin)
            first, last = self.block(depth)
            self.diagram.end(end).path(begin, first).path(last, end)
        return name, name


def blocks(chance: Random, number: int) -> Diagram:
    return Blocks(chance, number).diagram


class Ours:
    """An instance of ours, with answers of chance, and what the start and each answer led to."""

    def __init__(self, diagram: Diagram, variables: dict[str, Any], chance: Random) -> None:
        self.definition = diagram.build()
        self.instance = ProcessInstance(self.definition)
        self.chance = chance
        self.answers: list[tuple[str, Any]] = []
        self.told: list[dict[str, Any]] = []
        self.note(self.instance.apply(start_command(self.definition, variables), AT))
        while self.instance.state not in ENDED and len(self.answers) < MOST:
            self.note(self.answer())

    def answer(self) -> Step:
        """An error that nothing catches becomes a result: stock would be stuck with it."""
        instance, chance = self.instance, self.chance
        key, open_ = instance.next_key, [*instance.open_jobs, *instance.open_timers]
        chosen = chance.choice(sorted(open_, key=lambda each: each.element_id))
        element_id = chosen.element_id
        if chosen in instance.open_timers:
            self.answers.append((element_id, None))
            return instance.apply(TimerFired(key, chosen.key), AT)
        code = chance.choice(CODES)
        caught = [node.error_code for node in self.definition.nodes.values() if node.attached_to == element_id]
        if chance.random() < 0.4 and (code in caught or None in caught):
            self.answers.append((element_id, code))
            return instance.apply(BpmnErrorThrown(key, chosen.key, code, "", {}, EMPTY_REPORT), AT)
        variables = {"x": chance.randint(0, 4), element_id: chance.randint(0, 4)}
        self.answers.append((element_id, variables))
        return instance.apply(JobCompleted(key, chosen.key, variables, EMPTY_REPORT), AT)

    def note(self, step: Step) -> None:
        assert self.instance.fault is None, repr(self.instance.fault)
        ended = [record.body for record in step.records if isinstance(record.body, ActivityEnded)]
        open_ = [*self.instance.open_jobs, *self.instance.open_timers]
        self.told.append(
            {
                "passed": sorted(fact.element_id for fact in ended if fact.state == "completed"),
                "failed": sorted(fact.element_id for fact in ended if fact.state == "failed"),
                "waiting": sorted(each.element_id for each in open_),
                "completed": self.instance.state in ENDED,
            }
        )


def stock_way(diagram: Diagram, told: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What stock tells, in our words: an arrival at a join that waits is a cancelled task there, and not a visit."""
    nodes = diagram.build().nodes
    tasks = {node.id for node in nodes.values() if node.topic is not None}
    waits = {node.id for node in nodes.values() if node.topic is not None or node.timer is not None}
    return [
        {
            "passed": each["passed"],
            "failed": [name for name in each["cancelled"] if name in tasks],
            "waiting": [name for name in each["waiting"] if name in waits],
            "completed": each["completed"],
        }
        for each in told
    ]


@pytest.mark.parametrize("shape", [free, blocks])
def test_ours_takes_the_way_of_stock(shape: Callable[[Random, int], Diagram]) -> None:
    seed = int(os.environ.get("CONCH_SEED") or SystemRandom().getrandbits(32))
    print(f"CONCH_SEED={seed}")
    chance = Random(seed)
    diagrams = [shape(chance, number) for number in range(DIAGRAMS)]
    variables = [{"x": 1, **dict.fromkeys(diagram.build().nodes, 0)} for diagram in diagrams]
    lives = [Ours(diagram, given, chance) for diagram, given in zip(diagrams, variables, strict=True)]
    runs = [
        {
            "xml": diagram.to_xml(),
            "python": {node.id: '"PT1H"' for node in life.definition.nodes.values() if node.timer is not None},
            "variables": given,
            "answers": life.answers,
        }
        for diagram, given, life in zip(diagrams, variables, lives, strict=True)
    ]
    stock = ask({"what": "way", "runs": runs})["runs"]

    for diagram, life, told in zip(diagrams, lives, stock, strict=True):
        assert life.told == stock_way(diagram, told), f"{diagram.process_id}, answers {life.answers}"
    ended = [life for life in lives if life.told[-1]["completed"]]
    assert len(ended) > DIAGRAMS // 2
    assert any(each["failed"] for life in lives for each in life.told)
    if shape is blocks:
        passed = {name.split("_")[0] for life in lives for each in life.told for name in each["passed"]}
        assert passed >= {"task", "wait", "caught", "choice", "fork", "some", "inner"}
        assert any(len(each["waiting"]) > 1 for life in lives for each in life.told)
