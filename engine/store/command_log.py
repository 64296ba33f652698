"""Owns the stored form of commands: one JSON array each, `[kind, at_us, field, ...]` in the order of the NamedTuple.
Never interprets a command; a field added to a command goes last and has a default, so that old rows stay readable.
Called by the encoder (writing) and by the queries (reading back for replay and recovery).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any, Final, NamedTuple

from engine.records import (
    Abort,
    Attempt,
    BpmnErrorThrown,
    CallTarget,
    Cancel,
    Command,
    Decision,
    DefinitionRef,
    EventReceived,
    IncidentResolved,
    JobCompleted,
    JobFailed,
    JobReport,
    JobStopped,
    RetriesSet,
    Start,
    Tags,
    TimerFired,
    Usage,
    VariablesSet,
)
from engine.store import json_text


class LoggedCommand(NamedTuple):
    """A command as it was applied: `ordinal` counts the commands of its instance from 1."""

    ordinal: int
    at_us: int
    command: Command


KIND_OF: Final[dict[type[Any], str]] = {
    Start: "start",
    JobCompleted: "job_completed",
    JobFailed: "job_failed",
    BpmnErrorThrown: "bpmn_error_thrown",
    JobStopped: "job_stopped",
    TimerFired: "timer_fired",
    EventReceived: "event_received",
    VariablesSet: "variables_set",
    RetriesSet: "retries_set",
    IncidentResolved: "incident_resolved",
    Cancel: "cancel",
    Abort: "abort",
}
_TYPE_OF = {kind: command_type for command_type, kind in KIND_OF.items()}

# How many fields of a command are always written. Those added later are left out while they and all behind them have
# their defaults: the common command stays small, and one stored before they existed is written as it was.
_ALWAYS: Final[dict[type[Any], int]] = {
    Start: Start._fields.index("calls"),
    JobFailed: JobFailed._fields.index("retries"),
}
_USUAL: Final[dict[type[Any], tuple[Any, ...]]] = {
    command_type: tuple(command_type._field_defaults[name] for name in command_type._fields[always:])
    for command_type, always in _ALWAYS.items()
}


def encode(command: Command, at_us: int) -> bytes:
    """One command as JSON in canonical form: read back from jsonb, it gives the same bytes again.

    Raises json_text.Poison for strings that Postgres refuses.
    """
    command_type = type(command)
    always = _ALWAYS.get(command_type)
    written = command if always is None else command[: _written(command, always, _USUAL[command_type])]
    return json_text.dumps((KIND_OF[command_type], at_us, *written))


def _written(command: Command, always: int, usual: tuple[Any, ...]) -> int:
    """How many fields of the command are written; an empty list says as little as an empty tuple."""
    if command[always:] == usual:
        return always
    count = len(command)
    while count > always:
        value, default = command[count - 1], usual[count - 1 - always]
        if value is not None if default is None else value:
            break
        count -= 1
    return count


def pack(commands: Iterable[bytes]) -> bytes:
    """Consecutive encoded commands as the payload of one row."""
    return b"[" + b",".join(commands) + b"]"


def unpack(first_ordinal: int, payload: Iterable[Any]) -> list[LoggedCommand]:
    """The commands of one row, exactly as they were applied. Raises ValueError for a payload that is none."""
    return [
        LoggedCommand(ordinal, int(item[1]), _decode(item[0], item[2:]))
        for ordinal, item in enumerate(payload, first_ordinal)
    ]


def _decode(kind: str, fields: list[Any]) -> Command:
    try:
        command_type = _TYPE_OF[kind]
        command: Command = command_type(*fields)
        if isinstance(command, Start):
            return command._replace(
                definition=DefinitionRef(*command.definition),
                tags=Tags(*command.tags),
                calls=_each(_call_target, command.calls),
                start_element_ids=tuple(command.start_element_ids),
                feel_limits=_each(tuple, command.feel_limits),
            )
        if isinstance(command, (JobCompleted, JobFailed, BpmnErrorThrown, JobStopped)):
            return command._replace(report=_report(command.report))
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise ValueError(f"not a command that this version reads: {kind!r} with {len(fields)} fields") from error
    return command


def _report(fields: Iterable[Any]) -> JobReport:
    queued_at_us, started_at_us, finished_at_us, attempts, decisions, usage = fields
    return JobReport(
        queued_at_us,
        started_at_us,
        finished_at_us,
        attempts=_each(lambda item: Attempt(*item), attempts),
        decisions=_each(lambda item: Decision(*item), decisions),
        usage=_each(_usage, usage),
    )


def _each(build: Callable[[Any], Any], items: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(map(build, items))


def _call_target(fields: Iterable[Any]) -> CallTarget:
    caller, element_id, target = fields
    return CallTarget(caller, element_id, DefinitionRef(*target))


def _usage(fields: Iterable[Any]) -> Usage:
    usage = Usage(*fields)
    return usage._replace(
        quantity=Decimal(usage.quantity),
        unit_price_usd=None if usage.unit_price_usd is None else Decimal(usage.unit_price_usd),
        cost_usd=None if usage.cost_usd is None else Decimal(usage.cost_usd),
    )
