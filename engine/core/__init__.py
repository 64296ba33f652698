"""Owns the pure engine: one process instance as a function of its commands.
Never does I/O, reads a clock, draws a random number, logs or knows asyncio.
Called by the runtime (live), by recovery, replay and verification (again, from the same commands).
"""

from engine.core.instance import ProcessInstance
from engine.core.lifecycle import ActivityState, InstanceState
from engine.core.replay import derive_records, replay

__all__ = [
    "ActivityState",
    "InstanceState",
    "ProcessInstance",
    "derive_records",
    "replay",
]
