"""Owns the rules about processes that call each other: calls of unknown processes and versions, and calls in a circle.
Never knows what is deployed already.
Called by lint, and by whoever links what is stored (for circles).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from engine.bpmn.definition import Binding, CalledElement, FlowNode, ProcessDefinition
from engine.bpmn.rules import problem_at
from engine.bpmn.tokens import cycles, reachable
from engine.errors import Problem


def called_processes(definition: ProcessDefinition) -> frozenset[str]:
    """The ids of the processes that this one calls itself."""
    return frozenset(node.called.process_id for node in definition.nodes.values() if node.called is not None)


def called_transitively(starts: Iterable[str], calls: Mapping[str, Collection[str]]) -> set[str]:
    """These processes, and all that they call directly or through others."""
    return reachable(starts, {process_id: list(called) for process_id, called in calls.items()})


def circles(calls: Mapping[str, Collection[str]]) -> list[tuple[str, ...]]:
    """Every process that calls itself, directly or through others: the shortest circle through each call that closes
    one, whole, first and last id the same; no circle twice."""
    graph = {caller: sorted(each for each in called if each in calls) for caller, called in calls.items()}
    found: list[tuple[str, ...]] = []
    told: set[tuple[str, str]] = set()
    for part in sorted(map(sorted, cycles(graph))):
        inside = set(part)
        for caller in part:
            for called in graph[caller]:
                if called in inside and (caller, called) not in told:
                    circle = (caller, *_way(called, caller, graph, inside))
                    told.update(pairwise(circle))
                    found.append(circle)
    return found


def _way(start: str, end: str, graph: Mapping[str, Sequence[str]], inside: set[str]) -> tuple[str, ...]:
    """The shortest way from one process to another of the same part, both included."""
    before: dict[str, str] = {start: start}
    waiting = [start]
    for process_id in waiting:
        for called in graph[process_id]:
            if called in inside and called not in before:
                before[called] = process_id
                waiting.append(called)
    way = [end]
    while way[-1] != start:
        way.append(before[way[-1]])
    return tuple(reversed(way))


def lint_calls(definitions: Sequence[ProcessDefinition]) -> Iterator[Problem]:
    """What is wrong with the calls of processes that are judged together.

    A call that leaves them is a warning, because its process may be deployed already. A circle is reported at each call
    activity that is part of it.
    """
    tags: dict[str, set[str | None]] = {}
    calls: dict[str, Collection[str]] = {}
    for definition in definitions:
        tags.setdefault(definition.process_id, set()).add(definition.version_tag)
        calls[definition.process_id] = called_processes(definition)
    circle_of = {call: circle for circle in circles(calls) for call in pairwise(circle)}
    for definition in definitions:
        for node in definition.nodes.values():
            if node.called is None:
                continue
            yield from _check_called(definition, node, node.called, tags)
            circle = circle_of.get((definition.process_id, node.called.process_id))
            if circle is not None:
                yield problem_at(
                    definition,
                    node,
                    "cyclic-call",
                    f"processes call each other in a circle: {' -> '.join(f'`{each}`' for each in circle)}",
                    "Draw the repetition as a loop or as multi-instance: a start fixes the version of every call.",
                )


def _check_called(
    definition: ProcessDefinition, node: FlowNode, called: CalledElement, tags: Mapping[str, set[str | None]]
) -> Iterator[Problem]:
    if called.process_id not in tags:
        together = " together with this one" if called.binding is Binding.DEPLOYMENT else ""
        yield problem_at(
            definition,
            node,
            "unknown-process",
            f"there is no process `{called.process_id}` to call among these files",
            f"Correct the process id, or see that that process is deployed{together or ' before'}.",
            "warning",
        )
    elif called.binding is Binding.VERSION_TAG and called.version_tag not in tags[called.process_id]:
        yield problem_at(
            definition,
            node,
            "unknown-version-tag",
            f"the process `{called.process_id}` among these files does not have the tag `{called.version_tag}`",
            "Correct the tag, or see that a version with this tag is deployed before.",
            "warning",
        )
