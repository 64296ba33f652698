"""Owns what an expression of a diagram sees, and what its result means where it stands: mapping, condition, timer.
Never parses FEEL, writes a variable or decides what follows from a failure.
Called by the course of an instance and its elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from engine.bpmn.definition import IoMapping, SequenceFlow, Static, TimerDefinition
from engine.core.chance import Chance
from engine.core.due import due_at_us, next_cycle
from engine.feel import EvaluationContext, Expression, FeelLimits, kind_of, to_json
from engine.feel.numbers import number_text


class EvaluationFailed(Exception):
    """An expression gave what its place cannot use; the text says which one and why."""


def context_at(at_us: int, chance: Chance, limits: FeelLimits) -> EvaluationContext:
    """The context of expressions: the engine's instant, chance that replays, and the bounds of the instance."""
    return EvaluationContext(at_us, chance.number, chance.uuid, limits)


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
    """Whether a sequence flow's condition is true. Raises EvaluationFailed for anything but a boolean."""
    return flow.condition is None or truth(flow.condition, visible, context, f"the condition of `{flow.id}`")


def truth(condition: Expression, visible: dict[str, Any], context: EvaluationContext, what: str) -> bool:
    """Whether a condition is true. Raises EvaluationFailed for anything but a boolean."""
    value = condition.evaluate(visible, context)
    if value is True or value is False:
        return value is True
    raise EvaluationFailed(f"{what} is {_a(value)}, not a boolean{_reasons(context)}")


def result(
    expression: Expression | Static, visible: dict[str, Any], context: EvaluationContext, what: str = "the result"
) -> Any:
    """What an expression says, as JSON. Raises EvaluationFailed."""
    value = _value(expression, visible, context)
    try:
        return to_json(value)
    except ValueError as error:
        raise EvaluationFailed(f"{what}: {error}") from error


def collection(expression: Expression, visible: dict[str, Any], context: EvaluationContext) -> list[Any]:
    """The items of a multi-instance activity. Raises EvaluationFailed when it is no list."""
    value = result(expression, visible, context, "the input collection")
    if not isinstance(value, list):
        raise EvaluationFailed(f"the input collection is {_a(value)}, not a list{_reasons(context)}")
    return value


def event_name(source: Expression | Static | None, visible: dict[str, Any], context: EvaluationContext) -> str:
    """The name of a message or signal. Raises EvaluationFailed when it is no text."""
    value = None if source is None else _value(source, visible, context)
    if isinstance(value, str) and value:
        return value
    raise EvaluationFailed(f"the name is {_a(value)}, not a text{_reasons(context)}")


def correlation_key(source: Expression | None, visible: dict[str, Any], context: EvaluationContext) -> str:
    """The text that a message is matched by; a number counts as its text. Raises EvaluationFailed."""
    value = None if source is None else source.evaluate(visible, context)
    if isinstance(value, str):
        return value
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return number_text(value)
    raise EvaluationFailed(f"the correlation key is {_a(value)}, not a text or a number{_reasons(context)}")


def _a(value: Any) -> str:
    kind = kind_of(value)
    return kind if value is None else f"a {kind}"


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


def first_of_cycle(
    timer: TimerDefinition, visible: dict[str, Any], context: EvaluationContext, at_us: int
) -> tuple[Any, int, int | None]:
    """What a cycle says, when it is first due, and how often it fires after that (null: for ever).

    Raises EvaluationFailed.
    """
    value = _value(timer.value, visible, context)
    try:
        return value, *next_cycle(value, at_us)
    except ValueError as error:
        raise EvaluationFailed(f"{error}{_reasons(context)}") from error
