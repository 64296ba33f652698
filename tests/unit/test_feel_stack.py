"""The deepest texts, calls and values fit on a stack of which the caller has used 400 frames already."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from engine.feel import DEFAULT_LIMITS, EvaluationContext, FeelSyntaxError, compile_expression, to_json

pytestmark = pytest.mark.slow

CALLERS_FRAMES = 400
DEEPEST = DEFAULT_LIMITS.max_value_depth - 1
LEAVES = [
    "string(deep)", "to json(within)", "deep = alike", "is(within, within alike)", "from json(text)", "flatten(deep)",
    "distinct values([deep, alike])", "index of([within], within alike)", "deep in [alike]", "deep",
]  # fmt: skip
WRAPPERS = [
    "{}", "[{}]", "abs({})", "({}).a", "({})[1]", "if {} = 1 then 1 else 2", "(for x in [1] return {})",
    "(some x in [1] satisfies {})", "({}) in [1..2]", "{{a: {}}}", "[1][({}) = 2]", "(function(x) x)({})",
    "({}) instance of number", "-({})", "1 + ({})", "({})", "sort([1, 2], function(a, b) ({}) = 1)",
    "list replace([1, 2], function(a, b) ({}) = 2, 3)",
]  # fmt: skip


def _nested(inner: Callable[[Any], Any]) -> Any:
    value: Any = 1
    for _ in range(DEEPEST):
        value = inner(value)
    return value


SCOPE = {
    "deep": _nested(lambda value: [value]),
    "alike": _nested(lambda value: [value]),
    "within": _nested(lambda value: {"a": value}),
    "within alike": _nested(lambda value: {"a": value}),
    "text": "[" * DEEPEST + "]" * DEEPEST,
}


def far_from_the_top(frames: int, act: Callable[[], Any]) -> Any:
    return act() if frames == 0 else far_from_the_top(frames - 1, act)


def _evaluate(text: str) -> EvaluationContext:
    context = EvaluationContext()
    to_json(compile_expression(text, names=list(SCOPE)).evaluate(SCOPE, context))
    return context


def _deepest_text(leaf: str, wrapper: str) -> str:
    """As many wrappers around the leaf as a text may have."""
    text = leaf
    for _ in range(DEFAULT_LIMITS.max_depth):
        longer = wrapper.format(text)
        try:
            compile_expression(longer, names=list(SCOPE))
        except FeelSyntaxError:
            break
        text = longer
    return text


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_the_deepest_text_fits_on_the_stack(wrapper: str) -> None:
    text = _deepest_text("0", wrapper)
    levels = (len(text) - 1) // max(1, len(wrapper.format("0")) - 1)
    for leaf in LEAVES:
        inner = leaf
        for _ in range(levels - 4):
            inner = wrapper.format(inner)
        far_from_the_top(CALLERS_FRAMES, lambda inner=inner: _evaluate(inner))


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_the_deepest_calls_fit_on_the_stack(wrapper: str) -> None:
    for leaf in LEAVES[::3]:
        body = f"if n = 0 then {leaf} else {wrapper.format('f(n - 1)')}"
        for turns in range(20, 130, 6):
            text = f"{{f: function(n) {body}, r: f({turns})}}.r"
            context = far_from_the_top(CALLERS_FRAMES, lambda text=text: _evaluate(text))
            if any("calls nested deeper" in warning.cause for warning in context.warnings):
                break
        else:
            assert wrapper == "{}", "the limit of calls is never reached"


@pytest.mark.parametrize(
    "opening", ["(", "[", "-", "{a:", "not(", "if a then ", "for x in a return ", "x in (", "f(", "1 + (", "a["]
)
def test_a_text_over_the_depth_is_a_syntax_error_before_the_stack_ends(opening: str) -> None:
    def refused() -> None:
        with pytest.raises(FeelSyntaxError, match="nested"):
            compile_expression(opening * 3_000)

    far_from_the_top(CALLERS_FRAMES, refused)
