"""Owns diagrams: reading them, judging them, drawing them and handing them to SpiffWorkflow.
Never runs a process instance or reads a database.
Called by core (which runs definitions), deployment, `conch check` and the picture of a walked path.
"""

from engine.bpmn.definition import (
    ElementType,
    FlowNode,
    IoMapping,
    ProcessDefinition,
    SequenceFlow,
    Static,
    TimerDefinition,
    TimerKind,
    TopicSpec,
)
from engine.bpmn.dialect import parse
from engine.bpmn.lint import check, check_paths, lint
from engine.bpmn.picture import Walked, draw

__all__ = [
    "ElementType",
    "FlowNode",
    "IoMapping",
    "ProcessDefinition",
    "SequenceFlow",
    "Static",
    "TimerDefinition",
    "TimerKind",
    "TopicSpec",
    "Walked",
    "check",
    "check_paths",
    "draw",
    "lint",
    "parse",
]
