"""Owns the surface that tasks may import: how to declare a task, what it sees, how it fails, the payload beside it.
Never exports anything else; a task that imports engine.<module> breaks the import rule's test.
Called by tasks.
"""

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
