"""Owns the closures of `for`, `some`, `every`, function definitions, `in` and whole unary tests.
Never runs more turns than the step budget of the evaluation allows.
Called by `Compilation.compile` through the table of forms.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable

from engine.feel import operations, tree
from engine.feel.closures.code import Code, Compilation, ConstantTests, Scope
from engine.feel.closures.names import TESTED, read_tested
from engine.feel.closures.operators import ordered
from engine.feel.closures.types import declared, signature
from engine.feel.environment import Env
from engine.feel.faults import FeelFault
from engine.feel.numbers import whole
from engine.feel.temporal import Date, date_from_epoch_days
from engine.feel.values import FeelFunction, Range, Run, Value, is_number, kind_of

Step = Callable[[Env], bool]
Test = Callable[[Env, Value], bool | None]


def _span(env: Env, first: Value, last: Value) -> Iterable[Value]:
    """The values from `first` to `last`, up or down by one."""
    if is_number(first) and is_number(last):
        start = whole(first, "the start of a loop")
        end = whole(last, "the end of a loop")
        days = False
    elif isinstance(first, Date) and isinstance(last, Date):
        start, end, days = first.epoch_days(), last.epoch_days(), True
    else:
        raise FeelFault(f"cannot loop from {kind_of(first)} to {kind_of(last)}")
    env.check_list(abs(end - start) + 1)
    turns = range(start, end + 1) if start <= end else range(start, end - 1, -1)
    return map(date_from_epoch_days, turns) if days else turns


def _turns(env: Env, domain: Value) -> Iterable[Value]:
    """What a loop over the value goes through."""
    if isinstance(domain, list):
        return domain
    if domain is None:
        raise FeelFault("cannot loop over null")
    if isinstance(domain, Range):
        if domain.start is None or domain.end is None:
            raise FeelFault("cannot loop over a range without end")
        if operations.compare(domain.start, domain.end) > 0:
            raise FeelFault("cannot loop over a range that ends before it starts")
        inner = list(_span(env, domain.start, domain.end))
        return inner[0 if domain.start_included else 1 : len(inner) if domain.end_included else len(inner) - 1]
    return (domain,)


def _looped(domain: Run, end: Run | None, slot: int, weight: int, inner: Step) -> Step:
    def step(env: Env) -> bool:
        value = domain(env)
        turns = _turns(env, value) if end is None else _span(env, value, end(env))
        for turn in turns:
            env.spend(weight)
            env.frame[slot] = turn
            if inner(env):
                return True
        return False

    return step


def _bind(
    compilation: Compilation, iterators: tuple[tree.Iterator, ...], scope: Scope | None
) -> tuple[Scope, list[tuple[Code, Code | None, int]]]:
    """The scope inside all iterators, and each one's domain, end and slot."""
    parts: list[tuple[Code, Code | None, int]] = []
    inner = Scope(scope, {})
    for iterator in iterators:
        domain = compilation.compile(iterator.domain, inner)
        end = compilation.compile(iterator.end, inner) if iterator.end is not None else None
        slot = compilation.new_slot()
        inner = Scope(inner, {iterator.name: slot})
        parts.append((domain, end, slot))
    return inner, parts


def _nested(parts: list[tuple[Code, Code | None, int]], body: Code, innermost: Step) -> tuple[Step, int]:
    step, weight = innermost, 1 + body.weight
    for domain, end, slot in reversed(parts):
        step = _looped(domain.run, end.run if end is not None else None, slot, weight, step)
        weight += domain.weight + (end.weight if end is not None else 0)
    return step, weight


def iteration(compilation: Compilation, node: tree.For, scope: Scope | None) -> Code:
    inner, parts = _bind(compilation, node.iterators, scope)
    results, partial = compilation.new_slot(), compilation.new_slot()
    body = compilation.compile(node.body, Scope(inner, {"partial": partial}))
    wants_partial = partial in compilation.slots_read
    body_run = body.run

    def turn(env: Env) -> bool:
        found: list[Value] = env.frame[results]  # type: ignore[assignment]  # set by run below
        if wants_partial:
            env.check_list(len(found))
            env.frame[partial] = found.copy()
        found.append(body_run(env))
        if len(found) > env.limits.max_list:
            env.check_list(len(found))
        return False

    step, weight = _nested(parts, body, turn)
    position = node.position

    def run(env: Env) -> Value:
        found: list[Value] = []
        env.frame[results] = found
        try:
            step(env)
        except FeelFault as fault:
            return env.warn(position, fault.cause)
        return found

    return Code(run, weight)


def quantified(compilation: Compilation, node: tree.Quantified, scope: Scope | None) -> Code:
    inner, parts = _bind(compilation, node.iterators, scope)
    condition = compilation.compile(node.condition, inner)
    outcome = compilation.new_slot()
    deciding = node.quantifier == "some"
    condition_run = condition.run

    def turn(env: Env) -> bool:
        verdict = condition_run(env)
        if verdict is deciding:
            env.frame[outcome] = deciding
            return True
        if type(verdict) is not bool:
            env.frame[outcome] = None
        return False

    step, weight = _nested(parts, condition, turn)
    position = node.position

    def run(env: Env) -> Value:
        env.frame[outcome] = not deciding
        try:
            step(env)
        except FeelFault as fault:
            return env.warn(position, fault.cause)
        return env.frame[outcome]

    return Code(run, weight)


def function_of(compilation: Compilation, node: tree.FunctionOf, scope: Scope | None) -> Code:
    slots = {parameter: compilation.new_slot() for parameter in node.parameters}
    body = compilation.compile(node.body, Scope(scope, slots))
    places, weight, depth, kind = tuple(slots.values()), body.weight, node.depth, signature(node)
    body_run = declared(node, places, body.run)

    def run(env: Env) -> Value:
        env.spend(len(env.frame) >> 3)
        frame = env.frame.copy()
        return FeelFunction(node.parameters, places, body_run, depth, weight, frame, env.lookup, env.text, kind)

    return Code(run, 1 + weight)


def membership(compilation: Compilation, node: tree.In, scope: Scope | None) -> Code:
    whole_cell = node.value is None
    value = Code(read_tested(node.position)) if node.value is None else compilation.compile(node.value, scope)
    slot = compilation.new_slot()
    inner = Scope(scope, {TESTED: slot})
    compiled = [_test(compilation, test, inner, whole_cell) for test in node.tests]
    tests = tuple(test for test, _, _ in compiled)
    if whole_cell and all(known for _, _, known in compiled):
        compilation.constant_tests = ConstantTests(tuple(known[0] for _, _, known in compiled), node.negated)
    uses_slot = slot in compilation.slots_read
    value_run, negated = value.run, node.negated

    def run(env: Env) -> Value:
        tested = value_run(env)
        if uses_slot:
            env.frame[slot] = tested
        verdict: bool | None = False
        for test in tests:
            passed = test(env, tested)
            if passed is True:
                return not negated
            if passed is None:
                verdict = None
        return verdict if verdict is None else negated

    return Code(run, 1 + value.weight + sum(weight for _, weight, _ in compiled))


def _test(
    compilation: Compilation, node: tree.Node, scope: Scope, whole_cell: bool
) -> tuple[Test, int, tuple[Value, ...]]:
    """One test, its weight, and what a value is compared with where that is constant, else nothing."""
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
        return _condition_test(code.run, node.position), code.weight, ()
    known = (code.value,) if code.constant else ()
    return _value_test(code.run, node.position, whole_cell), code.weight, known


def _condition_test(condition: Run, position: int) -> Test:
    def test(env: Env, value: Value) -> bool | None:
        verdict = condition(env)
        if type(verdict) is bool:
            return verdict
        if verdict is not None:
            env.warn(position, f"a test that reads '?' gives true or false, not {kind_of(verdict)}")
        return None

    return test


def _value_test(expected: Run, position: int, whole_cell: bool) -> Test:
    def test(env: Env, value: Value) -> bool | None:
        wanted = expected(env)
        if type(value) is type(wanted) and (type(value) is str or type(value) is int or type(value) is bool):
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


def _interval_test(compilation: Compilation, node: tree.Interval, scope: Scope) -> tuple[Test, int, tuple[Value, ...]]:
    position = node.position
    sides: list[tuple[Run, Callable[[int, int], bool]]] = []
    weight = 1
    constant = True
    ends: list[Value] = [None, None]
    if node.start is not None:
        code = compilation.compile(node.start, scope)
        constant, ends[0] = code.value is not None, code.value
        sides.append((code.run, operator.ge if node.start_included else operator.gt))
        weight += code.weight
    if node.end is not None:
        code = compilation.compile(node.end, scope)
        constant, ends[1] = constant and code.value is not None, code.value
        sides.append((code.run, operator.le if node.end_included else operator.lt))
        weight += code.weight

    def test(env: Env, value: Value) -> bool | None:
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

    known = (Range(ends[0], ends[1], node.start_included, node.end_included),) if constant else ()
    return test, weight, known
