"""Owns what an evaluation sees that governs nobody: the clock, and randomness that nothing has to repeat.
Never used by an instance, whose evaluations replay.
Called by the routes that try an expression or a decision out, and by `conch feel`.
"""

from __future__ import annotations

import random
import time
import uuid
from decimal import Decimal

from engine.feel import EvaluationContext, FeelLimits


def trial_context(limits: FeelLimits, now_us: int | None = None) -> EvaluationContext:
    """A context for one evaluation, bounded as every other; `now_us` is the wall clock where none is given."""
    at_us = time.time_ns() // 1000 if now_us is None else now_us
    return EvaluationContext(at_us, lambda: Decimal(repr(random.random())), lambda: str(uuid.uuid4()), limits)
