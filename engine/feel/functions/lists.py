"""Owns the built-in functions on lists; positions count from 1, negative ones from the end.
Never changes a list in place.
Called by compiled invocations through the table of built-ins.
"""

from __future__ import annotations

from decimal import Decimal
from functools import cmp_to_key

from engine.feel import numbers, operations
from engine.feel.environment import Env
from engine.feel.faults import FeelFault, LimitExceeded
from engine.feel.functions.registry import builtin
from engine.feel.temporal import DaysTimeDuration, YearsMonthsDuration
from engine.feel.values import FeelFunction, Number, Value, is_number, kind_of

Elements = list[Value]


@builtin("list contains", "list: list, element: any")
def list_contains(env: Env, list: Elements, element: Value) -> Value:
    return any(operations.equals(env, member, element) is True for member in list)


@builtin("count", "list: list")
def count(env: Env, list: Elements) -> Value:
    return len(list)


def _extreme(env: Env, elements: Elements, sign: int) -> Value:
    """The element that is largest by `sign` times the order, the first of equals."""
    if not elements:
        return None
    if all(map(is_number, elements)):
        found = _numbers(elements)
        return min(found) if sign < 0 else max(found)
    env.spend(len(elements))
    best = elements[0]
    operations.order_key(best)
    for element in elements[1:]:
        if operations.compare(element, best) * sign > 0:
            best = element
    return best


@builtin("min", "list: list", variadic=True)
def min_(env: Env, list: Elements) -> Value:
    return _extreme(env, list, -1)


@builtin("max", "list: list", variadic=True)
def max_(env: Env, list: Elements) -> Value:
    return _extreme(env, list, 1)


def _numbers(elements: Elements) -> list[Number]:
    found: list[Number] = []
    for element in elements:
        if not is_number(element):
            raise FeelFault(f"the list holds a {kind_of(element)}, not only numbers")
        found.append(element)
    return found


@builtin("sum", "list: list", variadic=True)
def sum_(env: Env, list: Elements) -> Value:
    if not list:
        return None
    if isinstance(list[0], DaysTimeDuration | YearsMonthsDuration):
        env.spend(len(list))
        total: Value = list[0]
        for element in list[1:]:
            total = operations.add(env, total, element)
        return total
    env.spend(len(list) >> 2)
    result: Number = 0
    for number in _numbers(list):
        result = numbers.add(result, number)
    return result


@builtin("product", "list: list", variadic=True)
def product(env: Env, list: Elements) -> Value:
    if not list:
        return None
    env.spend(len(list) >> 2)
    result: Number = 1
    for number in _numbers(list):
        result = numbers.multiply(result, number)
    return result


@builtin("mean", "list: list", variadic=True)
def mean(env: Env, list: Elements) -> Value:
    if not list:
        return None
    return operations.divide(env, sum_(env, list), len(list))


@builtin("median", "list: list", variadic=True)
def median(env: Env, list: Elements) -> Value:
    ordered = sorted(_numbers(list))
    if not ordered:
        return None
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return numbers.divide(numbers.add(ordered[middle - 1], ordered[middle]), 2)


def _three_valued(elements: Elements, deciding: bool) -> Value:
    unknown = False
    for element in elements:
        if element is deciding:
            return deciding
        unknown = unknown or type(element) is not bool
    return None if unknown else not deciding


@builtin("all", "list: list", variadic=True)
def all_(env: Env, list: Elements) -> Value:
    return _three_valued(list, False)


@builtin("any", "list: list", variadic=True)
def any_(env: Env, list: Elements) -> Value:
    return _three_valued(list, True)


def _joined(env: Env, lists: Elements) -> Elements:
    joined: Elements = []
    for part in lists:
        if part is None:
            raise FeelFault("one of the lists is null")
        joined.extend(part if isinstance(part, list) else [part])
        env.check_list(len(joined))
    return joined


@builtin("concatenate", "list: list", variadic=True, unwraps=False)
def concatenate(env: Env, lists: Elements) -> Value:
    return _joined(env, lists)


@builtin("append", "list: list", variadic=True, unwraps=False)
def append(env: Env, arguments: Elements) -> Value:
    if not arguments or arguments[0] is None:
        raise FeelFault("'list' must be a list, found null")
    first = arguments[0]
    env.check_list(len(first) if isinstance(first, list) else 1)
    return [*(first if isinstance(first, list) else [first]), *arguments[1:]]


def _flat(env: Env, elements: Elements, into: Elements, depth: int) -> None:
    if depth > env.limits.max_value_depth:
        raise LimitExceeded(f"a list nested deeper than {env.limits.max_value_depth} levels")
    env.spend(1 + len(elements))
    for element in elements:
        if isinstance(element, list):
            _flat(env, element, into, depth + 1)
        else:
            into.append(element)
    if len(into) > env.limits.max_list:
        env.check_list(len(into))


@builtin("flatten", "list: list")
def flatten(env: Env, list: Elements) -> Value:
    flat: Elements = []
    _flat(env, list, flat, 0)
    return flat


def _distinct(env: Env, elements: Elements) -> Elements:
    kept: Elements = []
    seen: set[tuple[type, object]] = set()
    for element in elements:
        if element is None or isinstance(element, bool | int | str | Decimal):
            # Scalars are told apart in constant time; equal numbers of either type have one hash.
            key = (Decimal if is_number(element) else type(element), element)
            if key in seen:
                continue
            seen.add(key)
        else:
            env.spend(len(kept))
            if any(operations.equals(env, element, member) is True for member in kept):
                continue
        kept.append(element)
    return kept


@builtin("distinct values", "list: list")
def distinct_values(env: Env, list: Elements) -> Value:
    return _distinct(env, list)


@builtin("union", "list: list", variadic=True, unwraps=False)
def union(env: Env, lists: Elements) -> Value:
    return _distinct(env, _joined(env, lists))


@builtin("sort", "list: list, precedes: function")
def sort(env: Env, list: Elements, precedes: FeelFunction) -> Value:
    if len(precedes.parameters) != 2:
        raise FeelFault("'precedes' must be a function of two parameters")

    def order(left: Value, right: Value) -> int:
        if env.invoke(precedes, [left, right], 0) is True:
            return -1
        return 1 if env.invoke(precedes, [right, left], 0) is True else 0

    return sorted(list, key=cmp_to_key(order))


@builtin("reverse", "list: list")
def reverse(env: Env, list: Elements) -> Value:
    return list[::-1]


@builtin("index of", "list: list, match: any")
def index_of(env: Env, list: Elements, match: Value) -> Value:
    return [place for place, member in enumerate(list, 1) if operations.equals(env, member, match) is True]


def _place(elements: Elements, position: int) -> int:
    if not position or abs(position) > len(elements):
        raise FeelFault(f"position {position} is outside a list of {len(elements)} elements")
    return position - 1 if position > 0 else len(elements) + position


@builtin("sublist", "list: list, start position: integer, length?: integer")
def sublist(env: Env, list: Elements, start: int, length: int | None = None) -> Value:
    first = _place(list, start)
    if length is not None and length < 0:
        raise FeelFault("the length is negative")
    return list[first:] if length is None else list[first : first + length]


@builtin("insert before", "list: list, position: integer, newItem: any")
def insert_before(env: Env, list: Elements, position: int, new_item: Value) -> Value:
    place = _place(list, position)
    return [*list[:place], new_item, *list[place:]]


@builtin("remove", "list: list, position: integer")
def remove(env: Env, list: Elements, position: int) -> Value:
    place = _place(list, position)
    return [*list[:place], *list[place + 1 :]]
