"""Owns the closures that read: variables, local values, properties, context literals.
Never calls a function.
Called by `Compilation.compile` through the table of forms.
"""

from __future__ import annotations

from collections.abc import Hashable

from engine.feel import operations, tree
from engine.feel.border import admit
from engine.feel.closures.built_ins import builtin_value, expect_functions
from engine.feel.closures.code import Code, Compilation, Scope
from engine.feel.environment import UNTESTED, Env
from engine.feel.faults import FeelFault
from engine.feel.functions.registry import BUILTINS
from engine.feel.values import FeelFunction, Run, Value

TESTED = "?"


def name(compilation: Compilation, node: tree.Name, scope: Scope | None) -> Code:
    slot, items = resolve(compilation, node.name, scope)
    if slot is not None:
        run = _read_slot(slot)
    elif node.name == TESTED:
        run = read_tested(node.position)
    else:
        builtin = _builtin(compilation, node)
        (compilation.possible_names if items or builtin else compilation.names).add(node.name)
        run = read_variable(node.name, node.position) if builtin is None else _read_or_builtin(node, builtin)
    if slot is not None and items == [slot]:
        return Code(_read_item(slot, node.name))
    for item in reversed(items):
        run = _read_entry(item, node.name, run)
    of_caller = slot is None and not items and node.name != TESTED
    return Code(run, variable=(node.name,) if of_caller else ())


def resolve(compilation: Compilation, wanted: str, scope: Scope | None) -> tuple[int | None, list[int]]:
    """The slot that binds the name (None: a variable), and the items of the filters passed on the way, inner first."""
    items: list[int] = []
    while scope is not None:
        if scope.item_slot is not None:
            compilation.slots_read.add(scope.item_slot)
            compilation.slot_names.setdefault(scope.item_slot, "item")
            items.append(scope.item_slot)
        if wanted in scope.slots:
            slot = scope.slots[wanted]
            compilation.slots_read.add(slot)
            compilation.slot_names[slot] = wanted
            return slot, items
        scope = scope.parent
    return None, items


def _read_slot(slot: int) -> Run:
    def run(env: Env) -> Value:
        return env.frame[slot]

    return run


def read_tested(position: int) -> Run:
    """The closure that reads the value under test: the one given to the evaluation, else the variable `?`."""
    variable = read_variable(TESTED, position)

    def run(env: Env) -> Value:
        tested = env.tested
        kind = type(tested)
        if kind is str or kind is bool or (kind is int and -1_000_000_000 < tested < 1_000_000_000):
            return tested  # type: ignore[no-any-return]  # one of the plain kinds
        if tested is UNTESTED:
            return variable(env)
        try:
            return admit(env, tested)
        except FeelFault as fault:
            return env.warn(position, fault.cause)

    return run


def read_variable(variable: str, position: int) -> Run:
    """The closure that reads a variable of the caller's scope."""

    def run(env: Env) -> Value:
        try:
            value = env.scope[variable]
        except KeyError:
            return env.warn(position, f"no variable {variable!r}")
        kind = type(value)
        if kind is str or kind is bool or value is None or (kind is int and -1_000_000_000 < value < 1_000_000_000):
            return value  # type: ignore[no-any-return]  # one of the plain kinds
        return _admitted(env, variable, value, position, variable)

    return run


def _builtin(compilation: Compilation, node: tree.Name) -> FeelFunction | None:
    """The built-in that a name means where it is no variable; none where a function is of no use."""
    if node.name in compilation.declared or node.name not in BUILTINS:
        return None
    if node.position in compilation.function_places:
        return builtin_value(node.name)
    if " " in node.name:
        compilation.remark(node.position, f"{node.name!r} is a function: call it with its arguments in brackets")
    return None


def _read_or_builtin(node: tree.Name, builtin: FeelFunction) -> Run:
    """The closure of the name of a built-in: a variable of the caller's scope, else the function."""
    variable = read_variable(node.name, node.position)
    key = node.name

    def run(env: Env) -> Value:
        try:
            env.scope[key]
        except KeyError:
            return builtin
        return variable(env)

    return run


def _admitted(env: Env, place: Hashable, value: object, position: int, variable: str) -> Value:
    """What is read at a place of the caller's scope, a variable or a path from one, as FEEL knows it."""
    if env.admitted is None:
        env.admitted = {}
    elif place in env.admitted:
        return env.admitted[place]
    try:
        admitted = admit(env, value)
    except FeelFault as fault:
        admitted = env.warn(position, f"variable {variable!r}: {fault.cause}")
    env.admitted[place] = admitted
    return admitted


def _read_entry(item_slot: int, key: str, otherwise: Run) -> Run:
    def run(env: Env) -> Value:
        item = env.frame[item_slot]
        if type(item) is dict and key in item:
            return item[key]
        return otherwise(env)

    return run


def _read_item(slot: int, key: str) -> Run:
    """The closure of `item` in its own filter, unless the item has an entry of that name."""

    def run(env: Env) -> Value:
        item = env.frame[slot]
        return item[key] if type(item) is dict and key in item else item

    return run


def path(compilation: Compilation, node: tree.Path, scope: Scope | None) -> Code:
    source = compilation.compile(node.source, scope)
    source_run, key, position = source.run, node.name, node.position

    def run(env: Env) -> Value:
        value = source_run(env)
        if type(value) is dict and key in value:
            return value[key]
        try:
            return operations.property_of(env, value, key)
        except FeelFault as fault:
            return env.warn(position, fault.cause)

    if source.variable:
        steps = (*source.variable, key)
        return Code(_read_path(steps, position, run), 1 + source.weight, variable=steps)
    return compilation.folded(run, source)


def _read_path(steps: tuple[str, ...], position: int, otherwise: Run) -> Run:
    """The closure of `a.b.c` where `a` is a variable: it looks at no more of a large value than it reads."""
    variable, *keys = steps

    def run(env: Env) -> Value:
        try:
            value = env.scope[variable]
            for key in keys:
                if type(value) is not dict:
                    return otherwise(env)
                value = value[key]
        except KeyError:
            return otherwise(env)
        kind = type(value)
        if kind is str or kind is bool or value is None or (kind is int and -1_000_000_000 < value < 1_000_000_000):
            return value  # type: ignore[no-any-return]  # one of the plain kinds
        return _admitted(env, steps, value, position, variable)

    return run


def context_of(compilation: Compilation, node: tree.ContextOf, scope: Scope | None) -> Code:
    inner = Scope(scope, {})
    codes: list[Code] = []
    steps: list[tuple[str, int, Run]] = []
    for key, entry in node.entries:
        if key in compilation.called and not (isinstance(entry, tree.Name) and entry.name == key):
            expect_functions(compilation, entry)
        if isinstance(entry, tree.FunctionOf) and key not in inner.slots:
            slot = compilation.new_slot()
            code = _recursive(compilation.compile(entry, Scope(inner, {key: slot})), slot)
        else:
            code = compilation.compile(entry, inner)
            slot = inner.slots[key] if key in inner.slots else compilation.new_slot()
        inner.slots[key] = slot
        codes.append(code)
        steps.append((key, slot, code.run))
    position = node.position
    if len(inner.slots) < len(steps):
        compilation.remark(position, "a key stands twice in the context")
        return Code(lambda env: env.warn(position, "a key stands twice in the context"), 1)

    def run(env: Env) -> Value:
        made: dict[str, Value] = {}
        frame = env.frame
        for key, slot, entry in steps:
            frame[slot] = made[key] = entry(env)
        return made

    if all(code.constant for code in codes):
        values = {key: code.value for (key, _, _), code in zip(steps, codes, strict=True)}
        return compilation.folded(lambda env: values)
    return Code(run, 1 + sum(code.weight for code in codes))


def _recursive(function: Code, slot: int) -> Code:
    """A function that is an entry of a context: its body may call it by the key."""
    made = function.run

    def run(env: Env) -> Value:
        value = made(env)
        if type(value) is FeelFunction:
            value.frame[slot] = value
        return value

    return Code(run, function.weight)
