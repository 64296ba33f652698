"""Owns the second reading: an instance, and every record of it, rebuilt from its commands alone.
Never repairs or skips: a recorded command that the instance refuses is an error of the recording.
Called by recovery (to go on), by `conch replay` and by verification (to compare).
"""

from __future__ import annotations

from collections.abc import Iterable

from engine.bpmn.definition import ProcessDefinition
from engine.bpmn.spiff import Program
from engine.core.instance import ProcessInstance
from engine.records import Command, Record


def replay(program: Program | ProcessDefinition, commands: Iterable[tuple[Command, int]]) -> ProcessInstance:
    """The instance after these commands, each with its instant in microseconds. Raises Rejected."""
    instance = ProcessInstance(program)
    for command, at_us in commands:
        instance.apply(command, at_us)
    return instance


def derive_records(program: Program | ProcessDefinition, commands: Iterable[tuple[Command, int]]) -> tuple[Record, ...]:
    """Every record that these commands mean, commands included, in the order of their making. Raises Rejected."""
    instance = ProcessInstance(program)
    return tuple(record for command, at_us in commands for record in instance.apply(command, at_us).records)
