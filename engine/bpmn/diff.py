"""Owns what a new version of a process changes in its meaning: elements, sequence flows and expressions.
Never compares layout, order or XML, and never judges a change.
Called by `conch process diff`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, NamedTuple

from engine.bpmn.definition import FlowNode, IoMapping, ProcessDefinition, SequenceFlow, Static
from engine.feel import Expression

# what follows from other fields, or is nothing that runs
_SKIPPED = frozenset({"id", "incoming", "outgoing", "source_line"})


class FieldChange(NamedTuple):
    """One value before and after; null where there was or is none."""

    field: str
    before: str | None
    after: str | None


class Change(NamedTuple):
    """One element or flow that was added, removed or changed; or the process itself."""

    what: str  # added | removed | changed
    kind: str  # process | element | flow
    id: str
    name: str
    type: str  # of an element; else ""
    fields: tuple[FieldChange, ...]


def diff(old: ProcessDefinition, new: ProcessDefinition) -> list[Change]:
    """What tells `new` from `old`: the process, then elements, then flows, each in document order of `new`, with what
    was removed at the end. Empty when both mean the same."""
    changes = []
    if changed := _compare(_process(old), _process(new)):
        changes.append(Change("changed", "process", new.process_id, new.name, "", changed))
    changes += _all("element", old.nodes, new.nodes)
    changes += _all("flow", old.flows, new.flows)
    return changes


def _process(definition: ProcessDefinition) -> dict[str, str]:
    said = {"name": definition.name, "version_tag": definition.version_tag}
    if definition.start_variables is not None:
        said["start_variables"] = ", ".join(sorted(definition.start_variables))
    return {name: value for name, value in said.items() if value}


def _all(
    kind: str, old: Mapping[str, FlowNode | SequenceFlow], new: Mapping[str, FlowNode | SequenceFlow]
) -> Iterator[Change]:
    for id, after in new.items():
        before = old.get(id)
        if before is None:
            yield _change("added", kind, after, _compare({}, dict(_flat(after))))
        elif changed := _compare(dict(_flat(before)), dict(_flat(after))):
            yield _change("changed", kind, after, changed)
    for id, before in old.items():
        if id not in new:
            yield _change("removed", kind, before, _compare(dict(_flat(before)), {}))


def _change(what: str, kind: str, each: FlowNode | SequenceFlow, changed: tuple[FieldChange, ...]) -> Change:
    element_type = each.type.value if isinstance(each, FlowNode) else ""
    return Change(what, kind, each.id, each.name, element_type, changed)


def _compare(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[FieldChange, ...]:
    names = dict.fromkeys((*before, *after))
    changes = (FieldChange(name, before.get(name), after.get(name)) for name in names)
    return tuple(change for change in changes if change.before != change.after)


def _flat(value: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Every value that is said, by its path; what is empty is not said."""
    if isinstance(value, Expression):
        yield prefix, f"={value.text}"
    elif isinstance(value, Static):
        yield prefix, value.text
    elif is_dataclass(value):
        for each in fields(value):
            if prefix or each.name not in _SKIPPED:
                yield from _flat(getattr(value, each.name), f"{prefix}.{each.name}" if prefix else each.name)
    elif isinstance(value, Mapping):
        for name, each in value.items():
            yield from _flat(each, f"{prefix}.{name}")
    elif isinstance(value, tuple):
        for each in value:
            assert isinstance(each, IoMapping), f"a tuple of {type(each).__name__}"
            yield from _flat(each.source, f"{prefix}.{each.target}")
    elif isinstance(value, bool):
        yield prefix, "yes" if value else "no"
    elif value is not None and value != "":
        yield prefix, str(value.value if isinstance(value, Enum) else value)
