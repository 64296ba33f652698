"""Owns the closures of `for`, `some`, `every` and function definitions.
Never runs more turns than the step budget of the evaluation allows.
Called by `Compilation.compile` through the table of forms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from engine.feel import operations, tree
from engine.feel.closures.built_ins import expect_functions
from engine.feel.closures.code import Code, Compilation, Scope
from engine.feel.closures.types import declared, signature
from engine.feel.environment import Env
from engine.feel.faults import FeelFault
from engine.feel.numbers import whole
from engine.feel.temporal import Date, date_from_epoch_days
from engine.feel.values import Definition, FeelFunction, Range, Run, Value, is_number, kind_of

Step = Callable[[Env], bool]


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
        frame = env.frame
        for turn in turns:
            env.steps_left -= weight
            if env.steps_left < 0:
                raise env.exhausted()
            frame[slot] = turn
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
        if isinstance(iterator.domain, tree.ListOf):
            expect_functions(compilation, iterator.domain)
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
    if len(parts) == 1 and not wants_partial:
        return Code(_mapped(*parts[0], body, position), weight)

    def run(env: Env) -> Value:
        found: list[Value] = []
        env.frame[results] = found
        try:
            step(env)
        except FeelFault as fault:
            return env.warn(position, fault.cause)
        return found

    return Code(run, weight)


def _mapped(domain: Code, end: Code | None, slot: int, body: Code, position: int) -> Run:
    """`for x in domain return body`, the most usual loop."""
    first, last, body_run, weight = domain.run, None if end is None else end.run, body.run, 1 + body.weight

    def run(env: Env) -> Value:
        found: list[Value] = []
        frame = env.frame
        try:
            turns: Any = first(env)
            if last is not None:
                turns = _span(env, turns, last(env))
            elif type(turns) is not list:
                turns = _turns(env, turns)
            for turn in turns:
                env.steps_left -= weight
                if env.steps_left < 0:
                    raise env.exhausted()
                frame[slot] = turn
                found.append(body_run(env))
        except FeelFault as fault:
            return env.warn(position, fault.cause)
        env.check_list(len(found))
        return found

    return run


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
    slots_outside, read_outside = compilation.slot_count, compilation.slots_read
    slots = {parameter: compilation.new_slot() for parameter in node.parameters}
    compilation.slots_read = set()
    body = compilation.compile(node.body, Scope(scope, slots))
    captured = sorted((compilation.slot_names[slot], slot) for slot in compilation.slots_read if slot < slots_outside)
    definition = Definition(node.position, node.end, tuple(captured))
    compilation.slots_read |= read_outside
    places, weight, depth, kind = tuple(slots.values()), body.weight, node.depth, signature(node)
    body_run = declared(node, places, body.run)

    def run(env: Env) -> Value:
        env.spend(len(env.frame) >> 3)
        frame = env.frame.copy()
        return FeelFunction(
            node.parameters, places, body_run, depth, weight, frame, env.scope, env.text, kind, None, definition
        )

    return Code(run, 1 + weight)
