"""Owns the closures of `in` and of whole unary tests.
Never evaluates a test after one that the value has passed.
Called by `Compilation.compile` through the table of forms.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass

from engine.feel import operations, tree
from engine.feel.closures.code import Code, Compilation, ConstantTests, Scope
from engine.feel.closures.comparisons import Order, ordered, range_of
from engine.feel.closures.names import TESTED, read_tested
from engine.feel.environment import Env
from engine.feel.faults import FeelFault
from engine.feel.values import Range, Run, Value, kind_of

Verdict = Callable[[Env, Value], bool | None]


@dataclass(frozen=True, slots=True)
class Test:
    """One test: its closure, the number of nodes under it, and what a value is compared with where that is constant."""

    verdict: Verdict
    weight: int
    known: tuple[Value, ...] = ()


def membership(compilation: Compilation, node: tree.In, scope: Scope | None) -> Code:
    whole_cell = node.value is None
    value = Code(read_tested(node.position)) if node.value is None else compilation.compile(node.value, scope)
    slot = compilation.new_slot()
    inner = Scope(scope, {TESTED: slot})
    tests = [_test(compilation, test, inner, whole_cell) for test in node.tests]
    if whole_cell and all(test.known for test in tests):
        compilation.constant_tests = ConstantTests(tuple(test.known[0] for test in tests), node.negated)
    weight = 1 + value.weight + sum(test.weight for test in tests)
    if slot in compilation.slots_read:
        return Code(_tested_in_slot(value.run, slot, _passing([test.verdict for test in tests], node.negated)), weight)
    run = _passing([test.verdict for test in tests], node.negated)
    value_run = value.run
    return Code(lambda env: run(env, value_run(env)), weight)


def _tested_in_slot(value: Run, slot: int, verdict: Verdict) -> Run:
    def run(env: Env) -> Value:
        tested = env.frame[slot] = value(env)
        return verdict(env, tested)

    return run


def _passing(verdicts: list[Verdict], negated: bool) -> Verdict:
    """Whether a value passes one of the tests: null where none is passed and one has no verdict."""
    if len(verdicts) == 1 and not negated:
        return verdicts[0]
    tests = tuple(verdicts)

    def passing(env: Env, value: Value) -> bool | None:
        verdict: bool | None = False
        for test in tests:
            passed = test(env, value)
            if passed is True:
                return not negated
            if passed is None:
                verdict = None
        return verdict if verdict is None else negated

    return passing


def _test(compilation: Compilation, node: tree.Node, scope: Scope, whole_cell: bool) -> Test:
    if isinstance(node, tree.Interval):
        return _interval_test(compilation, node, scope)
    slot = scope.slots[TESTED]
    read_before = slot in compilation.slots_read
    compilation.slots_read.discard(slot)
    code = compilation.compile(node, scope)
    reads = slot in compilation.slots_read
    if read_before:
        compilation.slots_read.add(slot)
    if reads:
        return Test(_condition_test(code.run, node.position), code.weight)
    # What is always true says nothing about the value: as a literal it is what the value has to be.
    verdict = _value_test(code.run, node.position, whole_cell and not code.constant)
    if code.constant and type(code.value) is str:
        verdict = _is(code.value, verdict)
    return Test(verdict, code.weight, (code.value,) if code.constant else ())


def _condition_test(condition: Run, position: int) -> Verdict:
    def test(env: Env, value: Value) -> bool | None:
        verdict = condition(env)
        if type(verdict) is bool:
            return verdict
        if verdict is not None:
            env.warn(position, f"a test that reads '?' gives true or false, not {kind_of(verdict)}")
        return None

    return test


def _is(wanted: str, otherwise: Verdict) -> Verdict:
    def test(env: Env, value: Value) -> bool | None:
        return value == wanted if type(value) is str else otherwise(env, value)

    return test


def _value_test(expected: Run, position: int, whole_cell: bool) -> Verdict:
    def test(env: Env, value: Value) -> bool | None:
        wanted = expected(env)
        if type(value) is type(wanted) and (type(value) is int or type(value) is bool):
            return value == wanted
        if whole_cell and type(wanted) is bool and type(value) is not bool:
            return wanted
        try:
            verdict = operations.satisfies(env, value, wanted)
        except FeelFault as fault:
            env.warn(position, fault.cause)
            return None
        if verdict is None:
            env.warn(position, f"cannot compare {kind_of(value)} with {kind_of(wanted)}")
        return verdict

    return test


def _interval_test(compilation: Compilation, node: tree.Interval, scope: Scope) -> Test:
    nodes = (node.start, node.end)
    start, end = (None if each is None else compilation.compile(each, scope) for each in nodes)
    sides: list[tuple[Run, Order]] = []
    if start is not None:
        sides.append((start.run, operator.ge if node.start_included else operator.gt))
    if end is not None:
        sides.append((end.run, operator.le if node.end_included else operator.lt))
    codes = [code for code in (start, end) if code is not None]
    weight = 1 + sum(code.weight for code in codes)
    verdict = _bounded(tuple(sides), node)
    if not all(code.constant and code.value is not None for code in codes):
        return Test(verdict, weight)
    low, high = (None if code is None else code.value for code in (start, end))
    if type(low) is int and type(high) is int:
        verdict = _between_integers(low, high, node, verdict)
    return Test(verdict, weight, (Range(low, high, node.start_included, node.end_included),))


def _bounded(sides: tuple[tuple[Run, Order], ...], node: tree.Interval) -> Verdict:
    position = node.position

    def test(env: Env, value: Value) -> bool | None:
        if type(value) is Range:
            return _same_range(env, value, [end(env) for end, _ in sides], node)
        verdict: bool | None = True
        for end, holds in sides:
            bound = end(env)
            inside = (
                holds(value, bound)
                if type(value) is int and type(bound) is int
                else ordered(env, position, value, bound, holds)
            )
            if inside is False:
                return False
            if inside is None:
                verdict = None
        return verdict

    return test


def _same_range(env: Env, value: Range, ends: list[Value], node: tree.Interval) -> bool | None:
    first = ends[0] if node.start is not None else None
    last = ends[-1] if node.end is not None else None
    try:
        return operations.equals(env, value, range_of(first, last, node))
    except FeelFault as fault:
        env.warn(node.position, fault.cause)
        return None


def _between_integers(first: int, last: int, node: tree.Interval, otherwise: Verdict) -> Verdict:
    """Whether a whole number lies between two, whose bounds are moved inwards so that both are included."""
    low = first if node.start_included else first + 1
    high = last if node.end_included else last - 1

    def test(env: Env, value: Value) -> bool | None:
        return low <= value <= high if type(value) is int else otherwise(env, value)

    return test
