"""Owns the closures that read: variables, local values, properties, filters, context literals.
Never calls a function.
Called by `Compilation.compile` through the table of forms.
"""

from __future__ import annotations

from engine.feel import operations, tree
from engine.feel.border import admit
from engine.feel.closures.code import Code, Compilation, Scope
from engine.feel.environment import UNTESTED, Env
from engine.feel.faults import FeelFault
from engine.feel.numbers import INT_LIMIT, whole
from engine.feel.values import Run, Value, is_number, kind_of

TESTED = "?"
_PLAIN = frozenset((str, bool, type(None)))


def name(compilation: Compilation, node: tree.Name, scope: Scope | None) -> Code:
    slot, items = resolve(compilation, node.name, scope)
    if slot is not None:
        run = _read_slot(slot)
    elif node.name == TESTED:
        run = read_tested(node.position)
    else:
        (compilation.possible_names if items else compilation.names).add(node.name)
        run = read_variable(node.name, node.position)
    for item in reversed(items):
        run = _read_entry(item, node.name, run)
    return Code(run)


def resolve(compilation: Compilation, wanted: str, scope: Scope | None) -> tuple[int | None, list[int]]:
    """The slot that binds the name (None: a variable), and the items of the filters passed on the way, inner first."""
    items: list[int] = []
    while scope is not None:
        if scope.item_slot is not None:
            compilation.slots_read.add(scope.item_slot)
            items.append(scope.item_slot)
        if wanted in scope.slots:
            slot = scope.slots[wanted]
            compilation.slots_read.add(slot)
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
        if env.tested is UNTESTED:
            return variable(env)
        try:
            return admit(env, env.tested)
        except FeelFault as fault:
            return env.warn(position, fault.cause)

    return run


def read_variable(variable: str, position: int) -> Run:
    """The closure that reads a variable of the caller's scope."""

    def run(env: Env) -> Value:
        try:
            value = env.lookup(variable)
        except KeyError:
            return env.warn(position, f"no variable {variable!r}")
        kind = type(value)
        if kind in _PLAIN or (kind is int and -INT_LIMIT < value < INT_LIMIT):
            return value  # type: ignore[no-any-return]  # one of the plain kinds
        return _admitted(env, variable, value, position)

    return run


def _admitted(env: Env, variable: str, value: object, position: int) -> Value:
    if env.admitted is None:
        env.admitted = {}
    elif variable in env.admitted:
        return env.admitted[variable]
    try:
        admitted = admit(env, value)
    except FeelFault as fault:
        admitted = env.warn(position, f"variable {variable!r}: {fault.cause}")
    env.admitted[variable] = admitted
    return admitted


def _read_entry(item_slot: int, key: str, otherwise: Run) -> Run:
    def run(env: Env) -> Value:
        item = env.frame[item_slot]
        if type(item) is dict and key in item:
            return item[key]
        return otherwise(env)

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

    return compilation.folded(run, source)


def context_of(compilation: Compilation, node: tree.ContextOf, scope: Scope | None) -> Code:
    inner = Scope(scope, {})
    codes: list[Code] = []
    steps: list[tuple[str, int, Run]] = []
    for key, entry in node.entries:
        code = compilation.compile(entry, inner)
        slot = inner.slots.get(key, -1)
        inner.slots[key] = slot if slot >= 0 else compilation.new_slot()
        codes.append(code)
        steps.append((key, inner.slots[key], code.run))
    repeated = len(inner.slots) < len(steps)
    position = node.position

    def run(env: Env) -> Value:
        if repeated:
            return env.warn(position, "a key stands twice in the context")
        made: dict[str, Value] = {}
        frame = env.frame
        for key, slot, entry in steps:
            frame[slot] = made[key] = entry(env)
        return made

    if all(code.constant for code in codes) and not repeated:
        values = {key: code.value for (key, _, _), code in zip(steps, codes, strict=True)}
        return compilation.folded(lambda env: values)
    return Code(run, 1 + sum(code.weight for code in codes))


_INDEX = (tree.Arithmetic, tree.Negation)
_CONDITION = (tree.Comparison, tree.Logic, tree.In, tree.Between, tree.InstanceOf, tree.Quantified)


def filter_of(compilation: Compilation, node: tree.Filter, scope: Scope | None) -> Code:
    source = compilation.compile(node.source, scope)
    literal = node.condition
    if isinstance(literal, _INDEX) or (isinstance(literal, tree.Literal) and is_number(literal.value)):
        index = compilation.compile(literal, scope)
        return compilation.folded(_indexed(source.run, index.run, node.position), source, index)
    item_slot = compilation.new_slot()
    condition = compilation.compile(literal, Scope(scope, {"item": item_slot}, item_slot))
    run = _filtered(source.run, condition, item_slot, node.position, isinstance(literal, _CONDITION))
    return Code(run, 1 + source.weight + condition.weight)


def _listed(value: Value) -> list[Value]:
    if isinstance(value, list):
        return value
    if value is None:
        raise FeelFault("cannot filter null")
    return [value]


def element_at(elements: list[Value], index: Value) -> Value:
    """The element at a 1-based index, negative from the end. Raises FeelFault outside the list."""
    if not is_number(index):
        raise FeelFault(f"an index is a whole number, found {kind_of(index)}")
    at = whole(index, "an index")
    if not at or abs(at) > len(elements):
        raise FeelFault(f"index {at} is outside a list of {len(elements)} elements")
    return elements[at - 1 if at > 0 else at]


def _indexed(source: Run, index: Run, position: int) -> Run:
    def run(env: Env) -> Value:
        try:
            return element_at(_listed(source(env)), index(env))
        except FeelFault as fault:
            return env.warn(position, fault.cause)

    return run


def _filtered(source: Run, condition: Code, item_slot: int, position: int, surely_condition: bool) -> Run:
    test, weight = condition.run, condition.weight

    def run(env: Env) -> Value:
        try:
            elements = _listed(source(env))
            kept: list[Value] = []
            for element in elements or ([] if surely_condition else [None]):
                env.spend(weight)
                env.frame[item_slot] = element
                verdict = test(env)
                if verdict is True:
                    kept.append(element)
                elif verdict is not False and is_number(verdict):
                    return element_at(elements, verdict)
            return kept if elements else []
        except FeelFault as fault:
            return env.warn(position, fault.cause)

    return run
