"""Owns evaluating a FEEL text for tests: its value, and the causes of its warnings."""

from __future__ import annotations

from typing import Any

from engine.feel import EvaluationContext, compile_expression


def evaluated(text: str, scope: dict[str, Any] | None = None) -> tuple[Any, list[str]]:
    """The value, and why parts of it are null."""
    context = EvaluationContext()
    result = compile_expression(text).evaluate(scope or {}, context)
    return result, [warning.cause for warning in context.warnings]
