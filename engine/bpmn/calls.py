"""Owns the rules about processes that call each other: calls of unknown processes and versions, and calls in a circle.
Never reads what is stored: the caller says what is deployed already.
Called by lint, by deployment and by whoever activates an older version.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from engine.bpmn.definition import Binding, CalledElement, FlowNode, ProcessDefinition
from engine.bpmn.rules import problem_at
from engine.bpmn.tokens import cycles, reachable
from engine.errors import Problem


class Stored(NamedTuple):
    """What is deployed already under one process id."""

    calls: frozenset[str]  # process ids that its newest version calls
    version_tags: frozenset[str] = frozenset()  # of all its versions


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


def lint_calls(
    definitions: Sequence[ProcessDefinition], stored: Mapping[str, Stored] | None = None
) -> Iterator[Problem]:
    """What is wrong with the calls of processes that are deployed together, beside what is `stored` already.

    Null for `stored` means that nobody knows: a call that leaves the given processes is a warning then. A circle is
    reported at each call activity of the given processes that is part of it.
    """
    together = {definition.process_id: definition for definition in definitions}
    calls: dict[str, Collection[str]] = {process_id: each.calls for process_id, each in (stored or {}).items()}
    calls |= {process_id: called_processes(each) for process_id, each in together.items()}
    circle_of = {call: circle for circle in circles(calls) for call in pairwise(circle)}
    for definition in definitions:
        for node in definition.nodes.values():
            if node.called is None:
                continue
            yield from _check_called(definition, node, node.called, together, stored)
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
    definition: ProcessDefinition,
    node: FlowNode,
    called: CalledElement,
    together: Mapping[str, ProcessDefinition],
    stored: Mapping[str, Stored] | None,
) -> Iterator[Problem]:
    process_id, here = called.process_id, together.get(called.process_id)
    elsewhere = None if stored is None else stored.get(process_id)
    if called.binding is Binding.DEPLOYMENT:
        if here is None:
            yield problem_at(
                definition,
                node,
                "unknown-process",
                f"the called process `{process_id}` is not deployed together with this one, as its binding demands",
                "Deploy both at once, or bind the call to the latest version.",
            )
    elif here is None and elsewhere is None:
        yield problem_at(
            definition,
            node,
            "unknown-process",
            f"there is no process `{process_id}` to call" + (" among these files" if stored is None else ""),
            "Correct the process id, or deploy that process first or together with this one.",
            "warning" if stored is None else "error",
        )
    elif called.binding is Binding.VERSION_TAG:
        tags = set() if elsewhere is None else set(elsewhere.version_tags)
        tags |= {here.version_tag} if here is not None and here.version_tag is not None else set()
        if called.version_tag not in tags:
            known = ", ".join(f"`{tag}`" for tag in sorted(tags)) or "none"
            yield problem_at(
                definition,
                node,
                "unknown-version-tag",
                f"no version of `{process_id}` has the tag `{called.version_tag}`",
                f"Use one of its tags ({known}), or bind the call to the latest version.",
                "warning" if stored is None else "error",
            )
