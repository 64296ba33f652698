"""Owns what one evaluation sees and may spend: scope, frame of local values, context of the caller, limits.
Never shared between two evaluations and never reads a clock or a random source of its own.
Called by `Expression.evaluate`, which makes it; every compiled closure takes one `Env`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, NamedTuple

from engine.feel.faults import LimitExceeded, counted, place, pointed
from engine.feel.values import FeelFunction, Value

_SHOWN_OF_EXPRESSION = 60
# A cause quotes what it is about, which may be a text of any length.
_MAX_CAUSE = 1_000


class FeelWarning(NamedTuple):
    """Why a part became null: the whole expression, the offset in it, the reason.

    Where a value outside of expressions is the matter, `expression` says in words which one, and the offset is -1.
    """

    expression: str
    position: int
    cause: str

    @property
    def line(self) -> int:
        """The line of the place, counted from 1."""
        return place(self.expression, self.position)[0]

    @property
    def column(self) -> int:
        """The column of the place, counted from 1."""
        return place(self.expression, self.position)[1]

    def __str__(self) -> str:
        if self.position < 0:
            return self.in_one_line()
        return f"line {self.line}, column {self.column}: {self.cause}\n{pointed(self.expression, self.position)}"

    def in_one_line(self) -> str:
        """The reason and its place, for lists: `cannot add number and null (line 1, column 3 of a + b)`."""
        if self.position < 0 or not self.expression:
            return self.cause if self.expression in self.cause else f"{self.expression}: {self.cause}"
        text = " ".join(self.expression.split())
        shown = text if len(text) <= _SHOWN_OF_EXPRESSION else text[:_SHOWN_OF_EXPRESSION] + "…"
        return f"{self.cause} (line {self.line}, column {self.column} of {shown})"


@dataclass(frozen=True, slots=True)
class FeelLimits:
    """Bounds of one compilation and one evaluation.

    A step is a node of one turn of a loop, about a microsecond of work on a list, or 128 characters of a text that is
    read or made. It is paid before the work, so that the steps bound time and memory: values made in one evaluation
    take at most some 500 bytes for each, texts included.
    """

    max_text: int = 65_536
    max_depth: int = 120
    max_call_depth: int = 500
    max_steps: int = 250_000
    max_list: int = 100_000
    max_string: int = 1_000_000
    max_value_depth: int = 64
    max_warnings: int = 100
    max_pattern_steps: int = 50_000

    def but(self, others: Iterable[tuple[str, int]]) -> FeelLimits:
        """These limits with others for an evaluation, by name. Raises ValueError for what is no such limit."""
        changed = dict(others)
        unfit = [name for name, most in changed.items() if name not in PER_EVALUATION or type(most) is not int]
        unfit += [name for name in changed.keys() - unfit if changed[name] < 1]
        if unfit:
            raise ValueError(f"not limits of an evaluation: {', '.join(sorted(unfit))}")
        return replace(self, **changed)


DEFAULT_LIMITS = FeelLimits()
# What an evaluation may spend; the others bound the texts, which are judged when they are deployed.
PER_EVALUATION = frozenset(
    ("max_steps", "max_call_depth", "max_list", "max_string", "max_value_depth", "max_pattern_steps")
)


@dataclass(slots=True)
class EvaluationContext:
    """What the caller lends to an evaluation, and where the warnings go.

    `now_us` is the engine's clock in microseconds since the epoch, UTC; `random` gives a number in [0, 1), `uuid` a
    UUID text. Where one of them is None, the built-ins that need it give null and a warning. `steps_spent` grows by
    what each evaluation spent, for a caller that bounds several evaluations together.
    """

    now_us: int | None = None
    random: Callable[[], Decimal] | None = None
    uuid: Callable[[], str] | None = None
    limits: FeelLimits = DEFAULT_LIMITS
    warnings: list[FeelWarning] = field(default_factory=list)
    steps_spent: int = 0


class _Untested:
    """The type of UNTESTED: there is no value that unary tests are applied to."""


UNTESTED = _Untested()
NO_FRAME: list[Value] = []


class _Called:
    """A function from a name to its value, to be read like a mapping."""

    __slots__ = ("_value_of",)

    def __init__(self, value_of: Callable[[str], Any]) -> None:
        self._value_of = value_of

    def __getitem__(self, name: str) -> Any:
        return self._value_of(name)


def readable(scope: Mapping[str, Any] | Callable[[str], Any]) -> Mapping[str, Any]:
    """The scope as something that gives the value of a name in square brackets, or raises KeyError."""
    return scope if hasattr(scope, "__getitem__") else _Called(scope)  # type: ignore[return-value]  # one of the two


class Env:
    """The one argument of compiled closures.

    What most evaluations leave as it is belongs to the class: making an instance is a third of a small evaluation.
    """

    context: EvaluationContext | None = None
    limits: FeelLimits = DEFAULT_LIMITS
    depth: int = 0
    frame: list[Value] = NO_FRAME
    tested: Any = UNTESTED
    # Values that came in through the border, by name or path, so that each is looked at once.
    admitted: dict[Hashable, Value] | None = None
    # Regular expressions by pattern and flags, so that compiling each is paid for once.
    patterns: dict[tuple[str, str], Any] | None = None
    scope: Mapping[str, Any]
    text: str
    steps_left: int

    def __init__(
        self,
        scope: Mapping[str, Any] | Callable[[str], Any],
        context: EvaluationContext | None,
        text: str,
        frame: list[Value] = NO_FRAME,
        tested: Any = UNTESTED,
    ) -> None:
        self.scope = readable(scope)
        self.text = text
        self.frame = frame
        self.tested = tested
        if context is not None:
            self.context = context
            self.limits = context.limits
        self.steps_left = self.limits.max_steps

    def warn(self, position: int, cause: str) -> Value:
        """Record why a part became null; the value of the call is that null."""
        context = self.context
        if context is not None and len(context.warnings) < self.limits.max_warnings:
            shown = cause if len(cause) <= _MAX_CAUSE else cause[: _MAX_CAUSE - 1] + "…"
            context.warnings.append(FeelWarning(self.text, position, shown))
        return None

    def spend(self, steps: int) -> None:
        """Take steps from the budget, before the work. Raises LimitExceeded when there are not as many left."""
        self.steps_left -= steps
        if self.steps_left < 0:
            raise self.exhausted()

    def exhausted(self) -> LimitExceeded:
        """What those raise that count their steps themselves. No step is left then, nor are there less than none."""
        self.steps_left = 0
        return LimitExceeded(f"more than {self.limits.max_steps} evaluation steps")

    def check_list(self, length: int) -> None:
        """Refuse a list that is too long, and pay for one that is not."""
        if length > self.limits.max_list:
            raise LimitExceeded(f"a list of more than {self.limits.max_list} elements")
        if length > 7:
            self.spend(length >> 3)

    def check_string(self, length: int) -> None:
        """Refuse a string that is too long, and pay for one that is not."""
        if length > self.limits.max_string:
            raise LimitExceeded(f"a string of more than {self.limits.max_string} characters")
        if length > 127:
            self.spend(length >> 7)

    def compare_list(self, length: int) -> None:
        """Refuse a list that is too long, and pay for comparing each element of one that is not."""
        self.check_list(length)
        self.spend((length + 1) >> 1)

    def compare_string(self, length: int) -> None:
        """Pay for comparing a string of the caller, which may be of any length."""
        if length > 255:
            self.spend(length >> 8)

    def invoke(self, function: FeelFunction, arguments: list[Value], position: int) -> Value:
        """Call a function value; another number of arguments than it has parameters gives null and a warning."""
        if function.native is not None:
            return function.native.call(self, arguments, (), position)
        if len(arguments) != len(function.parameters):
            count = len(function.parameters)
            wanted = counted(count, "argument")
            return self.warn(position, f"the function takes {wanted}, not {len(arguments)}")
        depth = self.depth + function.depth
        if depth > self.limits.max_call_depth:
            raise LimitExceeded(f"calls nested deeper than {self.limits.max_call_depth} levels")
        frame = function.frame.copy()
        self.spend(function.weight + (len(frame) >> 3))
        for slot, argument in zip(function.slots, arguments, strict=True):
            frame[slot] = argument
        saved = self.frame, self.scope, self.text, self.depth, self.admitted
        self.frame, self.scope, self.text, self.depth = frame, function.scope, function.text, depth
        self.admitted = self.admitted if function.scope is saved[1] else None
        try:
            return function.body(self)
        finally:
            self.frame, self.scope, self.text, self.depth, self.admitted = saved
