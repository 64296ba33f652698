"""Owns the closures of filters: an element by its place, the elements for which a condition holds.
Never resolves names; the entries of an item are names inside its filter.
Called by `Compilation.compile` through the table of forms.
"""

from __future__ import annotations

from engine.feel import tree
from engine.feel.closures.code import Code, Compilation, Scope
from engine.feel.environment import Env
from engine.feel.faults import FeelFault, counted
from engine.feel.numbers import whole
from engine.feel.values import Run, Value, is_number, kind_of

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
        start = "" if at else "; the first element has the index 1"
        raise FeelFault(f"index {at} is outside a list of {counted(len(elements), 'element')}{start}")
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
    # An empty list has no item for the filter to be tried on, but the filter may still be an index.
    nothing: list[Value] = [] if surely_condition else [None]

    def run(env: Env) -> Value:
        try:
            elements, frame = _listed(source(env)), env.frame
            kept: list[Value] = []
            for element in elements or nothing:
                env.steps_left -= weight
                if env.steps_left < 0:
                    raise env.exhausted()
                frame[item_slot] = element
                verdict = test(env)
                if verdict is True:
                    kept.append(element)
                elif verdict is not False and verdict is not None:
                    return _placed(elements, verdict)
            return kept if elements else []
        except FeelFault as fault:
            return env.warn(position, fault.cause)

    return run


def _placed(elements: list[Value], verdict: Value) -> Value:
    if is_number(verdict):
        return element_at(elements, verdict)
    raise FeelFault(f"a filter gives true, false or a number, found {kind_of(verdict)}")
