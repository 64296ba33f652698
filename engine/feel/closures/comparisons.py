"""Owns the closures that compare: equality, order, `between`, ranges.
Never decides what is equal or ordered beyond whole numbers, texts and booleans; the operations do.
Called by `Compilation.compile` through the table of forms, and by membership for its tests.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

from engine.feel import operations, tree
from engine.feel.closures.code import Code, Compilation, Scope
from engine.feel.environment import Env
from engine.feel.faults import FeelFault
from engine.feel.values import Range, Run, Value, kind_of

Order = Callable[[int, int], bool]

_ORDER: dict[str, Order] = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def comparison(compilation: Compilation, node: tree.Comparison, scope: Scope | None) -> Code:
    left, right = compilation.compile(node.left, scope), compilation.compile(node.right, scope)
    if node.operator in ("=", "!="):
        run = _equality(left.run, right.run, node.operator == "=", node.position)
        if type(right.value) is str:
            run = _equality_to(left.run, right.value, node.operator == "=", node.position)
        return compilation.folded(run, left, right)
    holds = _ORDER[node.operator]
    run = _order(left.run, right.run, holds, node.position)
    if len(left.variable) == len(right.variable) == 1:
        run = _order_of_variables(left.variable[0], right.variable[0], holds, run)
    elif type(right.value) is int:
        run = _order_to(left.run, right.value, holds, node.position)
    return compilation.folded(run, left, right)


def _equality(left: Run, right: Run, wanted: bool, position: int) -> Run:
    def run(env: Env) -> Value:
        a, b = left(env), right(env)
        kind = type(a)
        if kind is type(b):
            if kind is int or kind is bool:
                return (a == b) is wanted
            if kind is str:
                env.compare_string(len(a))  # type: ignore[arg-type]  # a str
                return (a == b) is wanted
        return _equal(env, position, a, b, wanted)

    return run


def _equal(env: Env, position: int, a: Value, b: Value, wanted: bool) -> Value:
    try:
        result = operations.equals(env, a, b)
    except FeelFault as fault:
        return env.warn(position, fault.cause)
    if result is None:
        return env.warn(position, f"cannot compare {kind_of(a)} with {kind_of(b)}")
    return result is wanted


def _equality_to(left: Run, constant: str, wanted: bool, position: int) -> Run:
    def run(env: Env) -> Value:
        value = left(env)
        if type(value) is str:
            return (value == constant) is wanted
        return _equal(env, position, value, constant, wanted)

    return run


def ordered(env: Env, position: int, a: Value, b: Value, holds: Order) -> bool | None:
    """Whether the order of `a` and `b` is the wanted one; null and a warning for values without an order."""
    if type(a) is str:
        env.compare_string(len(a))
    try:
        return holds(operations.compare(a, b), 0)
    except FeelFault as fault:
        env.warn(position, fault.cause)
        return None


def _order(left: Run, right: Run, holds: Order, position: int) -> Run:
    def run(env: Env) -> Value:
        a, b = left(env), right(env)
        if type(a) is int and type(b) is int:
            return holds(a, b)
        return ordered(env, position, a, b, holds)

    return run


def _order_of_variables(left: str, right: str, holds: Order, otherwise: Run) -> Run:
    # Two whole numbers of which one is small are in the order that they have after rounding to 34 digits.
    def run(env: Env) -> Value:
        scope = env.scope
        try:
            a, b = scope[left], scope[right]
        except KeyError:
            return otherwise(env)
        if type(a) is int and type(b) is int and -1_000_000_000 < a < 1_000_000_000:
            return holds(a, b)
        return otherwise(env)

    return run


def _order_to(left: Run, bound: int, holds: Order, position: int) -> Run:
    def run(env: Env) -> Value:
        value = left(env)
        if type(value) is int:
            return holds(value, bound)
        return ordered(env, position, value, bound, holds)

    return run


def between(compilation: Compilation, node: tree.Between, scope: Scope | None) -> Code:
    codes = [compilation.compile(part, scope) for part in (node.value, node.low, node.high)]
    tested, low, high = (code.run for code in codes)
    position = node.position

    def run(env: Env) -> Value:
        value, lowest, highest = tested(env), low(env), high(env)
        if type(value) is int and type(lowest) is int and type(highest) is int:
            return lowest <= value <= highest
        above = ordered(env, position, value, lowest, operator.ge)
        below = ordered(env, position, value, highest, operator.le)
        if above is False or below is False:
            return False
        return None if above is None or below is None else True

    return compilation.folded(run, *codes)


def interval(compilation: Compilation, node: tree.Interval, scope: Scope | None) -> Code:
    ends = [compilation.compile(end, scope) for end in (node.start, node.end) if end is not None]
    start = ends[0].run if node.start is not None else None
    end = ends[-1].run if node.end is not None else None
    position = node.position

    def run(env: Env) -> Value:
        first = start(env) if start is not None else None
        last = end(env) if end is not None else None
        try:
            return range_of(first, last, node)
        except FeelFault as fault:
            return env.warn(position, f"no range: {fault.cause}")

    return compilation.folded(run, *ends)


def range_of(first: Value, last: Value, node: tree.Interval) -> Range:
    """The range from `first` to `last` as its literal bounds it.

    Raises FeelFault for ends without an order, and for a start after the end.
    """
    if node.start is not None:
        operations.order_key(first)
    if node.end is not None:
        operations.order_key(last)
    if node.start is not None and node.end is not None and operations.compare(first, last) > 0:
        raise FeelFault("it ends before it starts")
    return Range(first, last, node.start_included, node.end_included)
