"""Owns what an expression of a diagram sees, and what its result means where it stands: mapping, condition, timer.
Never parses FEEL, writes a variable or decides what follows from a failure.
Called by the course of an instance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.bpmn.definition import IoMapping, SequenceFlow, Static, TimerDefinition
from engine.core.chance import Chance
from engine.core.due import due_at_us
from engine.feel import EvaluationContext, Expression, kind_of, to_json


class EvaluationFailed(Exception):
    """An expression gave what its place cannot use; the text says which one and why."""


def context_at(at_us: int, chance: Chance) -> EvaluationContext:
    """The context of expressions: the engine's instant, and chance that replays."""
    return EvaluationContext(now_us=at_us, random=chance.number, uuid=chance.uuid)


def _value(source: Expression | Static, visible: dict[str, Any], context: EvaluationContext) -> Any:
    return source.text if isinstance(source, Static) else source.evaluate(visible, context)


def _reasons(context: EvaluationContext) -> str:
    return "".join(f"; {warning.cause}" for warning in context.warnings[:3])


def mapped(mappings: Sequence[IoMapping], visible: dict[str, Any], context: EvaluationContext) -> dict[str, Any]:
    """The targets of mappings, each seeing those before it; a dotted target writes into an object.

    Raises EvaluationFailed.
    """
    targets: dict[str, Any] = {}
    for mapping in mappings:
        value = _value(mapping.source, visible, context)
        try:
            value = to_json(value)
        except ValueError as error:
            raise EvaluationFailed(f"the mapping to `{mapping.target}`: {error}") from error
        name, *path = mapping.target.split(".")
        targets[name] = _placed(visible.get(name), path, value)
        visible = {**visible, name: targets[name]}
    return targets


def _placed(present: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    entries = present if isinstance(present, dict) else {}
    return {**entries, path[0]: _placed(entries.get(path[0]), path[1:], value)}


def holds(flow: SequenceFlow, visible: dict[str, Any], context: EvaluationContext) -> bool:
    """Whether a sequence flow's condition is true; null counts as not true, anything else is a fault.

    Raises EvaluationFailed.
    """
    if flow.condition is None:
        return True
    value = _value(flow.condition, visible, context)
    if value is True or value is False or value is None:
        return value is True
    raise EvaluationFailed(f"the condition of `{flow.id}` is a {kind_of(value)}, not a boolean")


def no_flow_holds(context: EvaluationContext) -> str:
    """What to say when no condition is true and there is no default flow."""
    return f"no condition is true and there is no default flow{_reasons(context)}"


def due(timer: TimerDefinition, visible: dict[str, Any], context: EvaluationContext, at_us: int) -> int:
    """The instant at which a timer is due. Raises EvaluationFailed."""
    value = _value(timer.value, visible, context)
    try:
        return due_at_us(timer.kind, value, at_us)
    except ValueError as error:
        raise EvaluationFailed(f"{error}{_reasons(context)}") from error
