"""Any soup of FEEL's words compiles or is a syntax error that says where; nesting never ends the Python stack."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.feel import (
    EvaluationContext,
    Expression,
    FeelLimits,
    FeelSyntaxError,
    builtins,
    compile_expression,
    compile_unary_tests,
)
from engine.feel.lexer import KEYWORDS
from tests.property.feel_texts import ANY, NAMES, NOISE, SCOPES

LIMITS = FeelLimits(max_steps=20_000, max_list=2_000, max_string=20_000)
WORDS = st.sampled_from([*NOISE, *NAMES, *ANY, *sorted(KEYWORDS), *sorted(builtins())])
SOUP = st.lists(WORDS | st.text(max_size=3), max_size=30).map(" ".join)


def _compiled(text: str, compiler: Callable[[str], Expression]) -> Expression | FeelSyntaxError:
    try:
        return compiler(text)
    except FeelSyntaxError as error:
        return error


@given(SOUP | st.text(max_size=60), SCOPES)
@settings(max_examples=200, deadline=None)
def test_any_text_compiles_or_is_a_syntax_error(text: str, scope: dict[str, Any]) -> None:
    for compiler in (compile_expression, compile_unary_tests):
        compiled = _compiled(text, compiler)
        if isinstance(compiled, Expression):
            compiled.evaluate(scope, EvaluationContext(limits=LIMITS), 1)
            continue
        assert compiled.expected
        assert 1 <= compiled.line <= len(re.split("\r\n|\r|\n", text))
        assert compiled.column >= 1


SHAPES = ["1 + {}", "if a then {} else b", "[{}]", "floor({})", "for x in {} return x", "a in (1, {})", "[1][{}]"]


@given(st.integers(1, 400), st.sampled_from(SHAPES))
@settings(max_examples=40, deadline=None)
def test_what_compiles_evaluates_within_a_fixed_part_of_the_stack(levels: int, shape: str) -> None:
    text = "a"
    for _ in range(levels):
        text = shape.format(text)
    expression = _compiled(text, compile_expression)
    if isinstance(expression, FeelSyntaxError):
        return
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 300)
    try:
        expression.evaluate({"a": True, "b": 1}, EvaluationContext(limits=LIMITS))
    finally:
        sys.setrecursionlimit(limit)
