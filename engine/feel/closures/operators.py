"""Owns the closures of literals, arithmetic, logic, `if`, lists, unary minus.
Never resolves names.
Called by `Compilation.compile` through the table of forms.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from decimal import Decimal, DecimalException

from engine.feel import operations, tree
from engine.feel.closures.code import Code, Compilation, Operation, Scope, attempt, constant
from engine.feel.environment import Env
from engine.feel.faults import FeelFault
from engine.feel.numbers import D34, INT_LIMIT
from engine.feel.values import Number, Run, Value, kind_of

_NUMBERS = frozenset((int, Decimal))
_OPERATIONS: dict[str, Operation] = {
    "+": operations.add,
    "-": operations.subtract,
    "*": operations.multiply,
    "/": operations.divide,
    "**": operations.power,
}
# What gives the same as the operation for two whole numbers, and for two numbers of which one is a decimal.
_ON_NUMBERS: dict[str, tuple[Callable[[int, int], int], Callable[[Number, Number], Decimal]]] = {
    "+": (operator.add, D34.add),
    "-": (operator.sub, D34.subtract),
    "*": (operator.mul, D34.multiply),
}


def literal(compilation: Compilation, node: tree.Literal, scope: Scope | None) -> Code:
    return constant(node.value)


def arithmetic(compilation: Compilation, node: tree.Arithmetic, scope: Scope | None) -> Code:
    left, right = compilation.compile(node.left, scope), compilation.compile(node.right, scope)
    operation, position = _OPERATIONS[node.operator], node.position
    if node.operator not in _ON_NUMBERS:
        run = _general(operation, left.run, right.run, position)
    elif type(right.value) is int or type(right.value) is Decimal:
        run = _with_constant(*_ON_NUMBERS[node.operator], operation, left.run, right.value, position)
    else:
        run = _on_numbers(*_ON_NUMBERS[node.operator], operation, left.run, right.run, position)
    return compilation.folded(run, left, right)


def _general(operation: Operation, left: Run, right: Run, position: int) -> Run:
    def run(env: Env) -> Value:
        return attempt(env, position, operation, left(env), right(env))

    return run


def _on_numbers(
    on_integers: Callable[[int, int], int],
    on_decimals: Callable[[Number, Number], Decimal],
    operation: Operation,
    left: Run,
    right: Run,
    position: int,
) -> Run:
    def run(env: Env) -> Value:
        a, b = left(env), right(env)
        if type(a) is int and type(b) is int:
            result = on_integers(a, b)
            if -1_000_000_000 < result < 1_000_000_000 or -INT_LIMIT < result < INT_LIMIT:
                return result
        elif type(a) in _NUMBERS and type(b) in _NUMBERS:
            try:
                return on_decimals(a, b)  # type: ignore[arg-type]  # two numbers
            except DecimalException:
                pass  # the operation below finds the same and says why
        return attempt(env, position, operation, a, b)

    return run


def _with_constant(
    on_integers: Callable[[int, int], int],
    on_decimals: Callable[[Number, Number], Decimal],
    operation: Operation,
    left: Run,
    right: Number,
    position: int,
) -> Run:
    integral = type(right) is int

    def run(env: Env) -> Value:
        a = left(env)
        if type(a) is int and integral:
            result = on_integers(a, right)  # type: ignore[arg-type]  # integral
            if -1_000_000_000 < result < 1_000_000_000 or -INT_LIMIT < result < INT_LIMIT:
                return result
        elif type(a) is int or type(a) is Decimal:
            try:
                return on_decimals(a, right)
            except DecimalException:
                pass  # the operation below finds the same and says why
        return attempt(env, position, operation, a, right)

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


def list_of(compilation: Compilation, node: tree.ListOf, scope: Scope | None) -> Code:
    codes = [compilation.compile(element, scope) for element in node.elements]
    elements = tuple(code.run for code in codes)

    def run(env: Env) -> Value:
        return [element(env) for element in elements]

    return compilation.folded(run, *codes)
