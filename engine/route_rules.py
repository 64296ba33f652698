"""Owns what the process that governs inference requests must not hold, because a client waits for its end.
Never reads a file or chooses a version.
Called by the deployments, for the linked program of that process, whoever of its parts has changed.
"""

from __future__ import annotations

from collections.abc import Iterator

from engine.bpmn.definition import ElementType, FlowNode, ProcessDefinition
from engine.bpmn.rules import Topics
from engine.bpmn.spiff import Program
from engine.errors import DefinitionInvalid, Problem
from engine.records import USER_TASK_TOPIC


def check_route(program: Program, topics: Topics) -> None:
    """Raises DefinitionInvalid with every reason why inference requests cannot be governed by `program`.

    `topics` are the jobs that the gateway does itself: nobody else is there to do one while a client waits.
    """
    problems = [*_judge_start(program.definition)]
    for definition in _all_called(program):
        for node in definition.nodes.values():
            problems += _judge_node(definition, node, topics)
    if problems:
        raise DefinitionInvalid(problems)


def _all_called(program: Program) -> Iterator[ProcessDefinition]:
    """The definition of a program and of everything that it calls, each once."""
    waiting, seen = [program], {id(program)}
    while waiting:
        each = waiting.pop(0)
        yield each.definition
        for called in each.calls.values():
            if id(called) not in seen:
                seen.add(id(called))
                waiting.append(called)


def _judge_start(definition: ProcessDefinition) -> Iterator[Problem]:
    if not definition.start_id:
        yield Problem(
            definition.resource_name,
            definition.process_id,
            definition.name,
            "no-none-start-event",
            "inference requests begin at a start event without a symbol, and the process has none",
            "Draw one.",
        )


def _judge_node(definition: ProcessDefinition, node: FlowNode, topics: Topics) -> Iterator[Problem]:
    where = (definition.resource_name, node.id, node.name)
    if node.type is ElementType.USER_TASK:
        yield Problem(
            *where,
            "person-in-request",
            "an inference request never waits for a person",
            "Remove the user task, or keep it in a process that no inference request runs through.",
        )
    elif node.topic is not None and node.topic != USER_TASK_TOPIC and node.topic not in topics:
        yield Problem(
            *where,
            "unknown-topic",
            f"the topic `{node.topic}` is none of this gateway's tasks, and no inference request waits for a worker",
            f"Use one of {', '.join(f'`{topic}`' for topic in sorted(topics)) or 'none'}.",
        )
