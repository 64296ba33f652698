"""Owns the surface that tasks may import: how to declare a task, what it sees, how it fails, the payload beside it.
Never exports anything else; a task that imports engine.<module> breaks the import rule's test.
Called by tasks.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.errors import BpmnError, Code, TaskError, meaning_of
    from engine.inference import Chunk, InferenceAnswer, InferenceCall, Operation, Tensor
    from engine.records import Attempt, Decision, Usage
    from engine.registry import TaskContext, task
    from engine.settings import ModelSettings, PriceSettings, ReplicaSettings, Settings
    from engine.telemetry import Telemetry

__version__ = "0.3.0"

__all__ = [
    "Attempt",
    "BpmnError",
    "Chunk",
    "Code",
    "Decision",
    "InferenceAnswer",
    "InferenceCall",
    "ModelSettings",
    "Operation",
    "PriceSettings",
    "ReplicaSettings",
    "Settings",
    "TaskContext",
    "TaskError",
    "Telemetry",
    "Tensor",
    "Usage",
    "__version__",
    "meaning_of",
    "task",
]

_FROM = {
    "errors": ("BpmnError", "Code", "TaskError", "meaning_of"),
    "inference": ("Chunk", "InferenceAnswer", "InferenceCall", "Operation", "Tensor"),
    "records": ("Attempt", "Decision", "Usage"),
    "registry": ("TaskContext", "task"),
    "settings": ("ModelSettings", "PriceSettings", "ReplicaSettings", "Settings"),
    "telemetry": ("Telemetry",),
}

if not TYPE_CHECKING:  # a type checker that sees it takes every name for one of this module

    def __getattr__(name: str) -> Any:
        """A name of the surface, imported when it is used first: `engine.feel` alone needs no other package."""
        module = next((module for module, names in _FROM.items() if name in names), None)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
        return value
