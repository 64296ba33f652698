"""Owns the state of one compilation: scopes, slots of the frame, free names, the folding of constants.
Never knows a syntax form; the forms are registered by the modules beside this one.
Called by every module that compiles a form.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from engine.feel.environment import Env, EvaluationContext, FeelLimits, FeelWarning
from engine.feel.faults import FeelFault, LimitExceeded
from engine.feel.tree import Node
from engine.feel.values import Run, Value

Operation: TypeAlias = Callable[..., Value]


@dataclass(frozen=True, slots=True)
class Code:
    """A compiled form: its closure, the number of nodes under it, and its value when that is constant.

    `variable` is the name and the path from it where the form reads a variable of the caller's scope, and nothing else.
    """

    run: Run
    weight: int = 1
    constant: bool = False
    value: Value = None
    variable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Scope:
    """Names bound at one place of the text. `item_slot` marks a filter: the item's entries are names there too."""

    parent: Scope | None
    slots: dict[str, int]
    item_slot: int | None = None


class ConstantTests(NamedTuple):
    """The tests of a cell that reads nothing but its input: ranges, and values that the input is compared with."""

    tests: tuple[Value, ...]
    negated: bool


def constant(value: Value) -> Code:
    """A form whose value is known."""
    return Code(lambda env: value, 1, True, value)


def attempt(env: Env, position: int, operation: Operation, left: Value, right: Value) -> Value:
    """The operation's result, or null and a warning."""
    try:
        return operation(env, left, right)
    except FeelFault as fault:
        return env.warn(position, fault.cause)


_NO_VARIABLES: dict[str, Any] = {}


@dataclass(slots=True)
class Compilation:
    """One text being compiled.

    `declared` are the variables that the caller named, `called` the names that the text calls, `remarks` what is surely
    wrong. `function_places` are where the name of a built-in may stand for the function itself. `steps_left` is what
    evaluating constant parts may still spend, all of them together as much as one evaluation; `slot_names` are the
    names of the slots that are read.
    """

    text: str
    limits: FeelLimits
    forms: dict[type[Node], Callable[[Compilation, Any, Scope | None], Code]]
    declared: frozenset[str] = frozenset()
    called: Collection[str] = ()
    slot_count: int = 0
    names: set[str] = field(default_factory=set)
    possible_names: set[str] = field(default_factory=set)
    slots_read: set[int] = field(default_factory=set)
    slot_names: dict[int, str] = field(default_factory=dict)
    function_places: set[int] = field(default_factory=set)
    constant_tests: ConstantTests | None = None
    remarks: dict[FeelWarning, None] = field(default_factory=dict)
    steps_left: int = field(init=False)

    def __post_init__(self) -> None:
        self.steps_left = self.limits.max_steps

    def compile(self, node: Node, scope: Scope | None) -> Code:
        """The closure of a node in a scope."""
        return self.forms[type(node)](self, node, scope)

    def new_slot(self) -> int:
        """A place of the frame that nothing else uses."""
        self.slot_count += 1
        return self.slot_count - 1

    def remark(self, position: int, cause: str) -> None:
        """Note what is surely wrong in the text; a form may be compiled twice, its remark counts once."""
        self.remarks[FeelWarning(self.text, position, cause)] = None

    def folded(self, run: Run, *children: Code) -> Code:
        """The form `run` over `children`, evaluated now when they are constant and it gives no warning."""
        weight = 1 + sum(child.weight for child in children)
        if all(child.constant for child in children):
            tried = self._tried(run)
            if tried is not None and not tried[1]:
                return constant(tried[0])
            if tried is not None and tried[0] is None:
                self.remarks |= dict.fromkeys(tried[1])
        return Code(run, weight)

    def judged(self, run: Run) -> None:
        """Remark what `run`, which reads no variable, warns of."""
        tried = self._tried(run)
        if tried is not None:
            self.remarks |= dict.fromkeys(tried[1])

    def _tried(self, run: Run) -> tuple[Value, list[FeelWarning]] | None:
        """What a constant part gives, with its warnings; None where there are not as many steps left as it takes."""
        context = EvaluationContext(limits=self.limits)
        env = Env(_NO_VARIABLES, context, self.text)
        env.steps_left = given = self.steps_left
        try:
            value = run(env)
        except LimitExceeded as limit:
            value = env.warn(0, limit.cause)
        self.steps_left = env.steps_left
        ended_early = env.steps_left == 0 and given < self.limits.max_steps and bool(context.warnings)
        return None if ended_early else (value, context.warnings)
