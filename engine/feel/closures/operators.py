"""Owns the closures of literals, arithmetic, comparison, logic, `if`, `between`, ranges, lists, unary minus.
Never resolves names.
Called by `Compilation.compile` through the table of forms.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

from engine.feel import operations, tree
from engine.feel.closures.code import Code, Compilation, Operation, Scope, attempt, constant
from engine.feel.environment import Env
from engine.feel.faults import FeelFault
from engine.feel.numbers import INT_LIMIT
from engine.feel.values import Range, Run, Value, kind_of

_ORDER: dict[str, Callable[[int, int], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_ARITHMETIC: dict[str, tuple[Operation, Callable[[int, int], int] | None]] = {
    "+": (operations.add, operator.add),
    "-": (operations.subtract, operator.sub),
    "*": (operations.multiply, operator.mul),
    "/": (operations.divide, None),
    "**": (operations.power, None),
}
_SIMPLE = frozenset((int, str, bool))


def literal(compilation: Compilation, node: tree.Literal, scope: Scope | None) -> Code:
    return constant(node.value)


def arithmetic(compilation: Compilation, node: tree.Arithmetic, scope: Scope | None) -> Code:
    left, right = compilation.compile(node.left, scope), compilation.compile(node.right, scope)
    operation, on_integers = _ARITHMETIC[node.operator]
    if on_integers is None:
        return compilation.folded(_general(operation, left.run, right.run, node.position), left, right)
    return compilation.folded(_integral(operation, on_integers, left.run, right.run, node.position), left, right)


def _general(operation: Operation, left: Run, right: Run, position: int) -> Run:
    def run(env: Env) -> Value:
        return attempt(env, position, operation, left(env), right(env))

    return run


def _integral(
    operation: Operation, on_integers: Callable[[int, int], int], left: Run, right: Run, position: int
) -> Run:
    def run(env: Env) -> Value:
        a, b = left(env), right(env)
        if type(a) is int and type(b) is int:
            result = on_integers(a, b)
            if -INT_LIMIT < result < INT_LIMIT:
                return result
        return attempt(env, position, operation, a, b)

    return run


def negation(compilation: Compilation, node: tree.Negation, scope: Scope | None) -> Code:
    operand = compilation.compile(node.operand, scope)
    position = node.position

    def run(env: Env) -> Value:
        try:
            return operations.negate(operand.run(env))
        except FeelFault as fault:
            return env.warn(position, fault.cause)

    return compilation.folded(run, operand)


def comparison(compilation: Compilation, node: tree.Comparison, scope: Scope | None) -> Code:
    left, right = compilation.compile(node.left, scope), compilation.compile(node.right, scope)
    if node.operator in ("=", "!="):
        return compilation.folded(_equality(left.run, right.run, node.operator == "=", node.position), left, right)
    holds = _ORDER[node.operator]
    if type(right.value) is int and right.constant:
        return compilation.folded(_order_to(left.run, right.value, holds, node.position), left, right)
    return compilation.folded(_order(left.run, right.run, holds, node.position), left, right)


def _equality(left: Run, right: Run, wanted: bool, position: int) -> Run:
    def run(env: Env) -> Value:
        a, b = left(env), right(env)
        if type(a) is type(b) and type(a) in _SIMPLE:
            return (a == b) is wanted
        try:
            result = operations.equals(env, a, b)
        except FeelFault as fault:
            return env.warn(position, fault.cause)
        if result is None:
            return env.warn(position, f"cannot compare {kind_of(a)} with {kind_of(b)}")
        return result is wanted

    return run


def ordered(env: Env, position: int, a: Value, b: Value, holds: Callable[[int, int], bool]) -> bool | None:
    """Whether the order of `a` and `b` is the wanted one; null and a warning for values without an order."""
    try:
        return holds(operations.compare(a, b), 0)
    except FeelFault as fault:
        env.warn(position, fault.cause)
        return None


def _order(left: Run, right: Run, holds: Callable[[int, int], bool], position: int) -> Run:
    def run(env: Env) -> Value:
        a, b = left(env), right(env)
        if type(a) is int and type(b) is int:
            return holds(a, b)
        return ordered(env, position, a, b, holds)

    return run


def _order_to(left: Run, bound: int, holds: Callable[[int, int], bool], position: int) -> Run:
    def run(env: Env) -> Value:
        a = left(env)
        if type(a) is int:
            return holds(a, bound)
        return ordered(env, position, a, bound, holds)

    return run


def logic(compilation: Compilation, node: tree.Logic, scope: Scope | None) -> Code:
    codes = [compilation.compile(operand, scope) for operand in node.operands]
    operands = tuple(code.run for code in codes)
    deciding = node.operator == "or"
    position = node.position

    def run(env: Env) -> Value:
        unknown = False
        for operand in operands:
            value = operand(env)
            if value is deciding:
                return deciding
            if type(value) is not bool:
                unknown = True
                if value is not None:
                    env.warn(position, f"'{node.operator}' needs booleans, found {kind_of(value)}")
        return None if unknown else not deciding

    return compilation.folded(run, *codes)


def conditional(compilation: Compilation, node: tree.If, scope: Scope | None) -> Code:
    codes = [compilation.compile(part, scope) for part in (node.condition, node.then, node.otherwise)]
    condition, then, otherwise = (code.run for code in codes)
    position = node.position

    def run(env: Env) -> Value:
        value = condition(env)
        if value is True:
            return then(env)
        if type(value) is not bool:
            env.warn(position, f"the condition of 'if' is {kind_of(value)}, not true or false")
        return otherwise(env)

    return compilation.folded(run, *codes)


def between(compilation: Compilation, node: tree.Between, scope: Scope | None) -> Code:
    codes = [compilation.compile(part, scope) for part in (node.value, node.low, node.high)]
    tested, low, high = (code.run for code in codes)
    position = node.position

    def run(env: Env) -> Value:
        value = tested(env)
        above = ordered(env, position, value, low(env), operator.ge)
        below = ordered(env, position, value, high(env), operator.le)
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
            if start is not None:
                operations.order_key(first)
            if end is not None:
                operations.order_key(last)
            if start is not None and end is not None:
                operations.compare(first, last)
        except FeelFault as fault:
            return env.warn(position, f"no range: {fault.cause}")
        return Range(first, last, node.start_included, node.end_included)

    return compilation.folded(run, *ends)


def list_of(compilation: Compilation, node: tree.ListOf, scope: Scope | None) -> Code:
    codes = [compilation.compile(element, scope) for element in node.elements]
    elements = tuple(code.run for code in codes)

    def run(env: Env) -> Value:
        return [element(env) for element in elements]

    return compilation.folded(run, *codes)
