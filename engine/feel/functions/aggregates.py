"""Owns the built-in functions that make one value of a whole list: sums, extremes, averages, all and any.
Never counts an empty list as zero: it has no sum.
Called by compiled invocations through the table of built-ins.
"""

from __future__ import annotations

from collections import Counter
from decimal import Decimal

from engine.feel import numbers, operations
from engine.feel.environment import Env
from engine.feel.faults import FeelFault
from engine.feel.functions.registry import builtin
from engine.feel.temporal import DaysTimeDuration, YearsMonthsDuration
from engine.feel.values import Number, Value, is_number, kind_of

Elements = list[Value]


@builtin("count", "list: list", gives="number", about="How many elements a list has")
def count(env: Env, list: Elements) -> Value:
    return len(list)


def _extreme(env: Env, elements: Elements, sign: int) -> Value:
    """The element that is largest by `sign` times the order, the first of equals."""
    if not elements:
        return None
    env.spend(len(elements) >> 2)
    if all(map(is_number, elements)):
        found = _numbers(elements)
        return min(found) if sign < 0 else max(found)
    env.spend(len(elements) + (sum(len(element) for element in elements if type(element) is str) >> 8))
    best = elements[0]
    try:
        operations.order_key(best)
        for element in elements[1:]:
            if operations.compare(element, best) * sign > 0:
                best = element
    except FeelFault as fault:
        raise FeelFault(f"'list' must hold values of one kind with an order: {fault.cause}") from fault
    return best


@builtin("min", "list: list", variadic=True, each="c", about="The smallest element")
def min_(env: Env, list: Elements) -> Value:
    return _extreme(env, list, -1)


@builtin("max", "list: list", variadic=True, each="c", about="The largest element")
def max_(env: Env, list: Elements) -> Value:
    return _extreme(env, list, 1)


def _numbers(elements: Elements) -> list[Number]:
    found: list[Number] = []
    for place, element in enumerate(elements, 1):
        if not is_number(element):
            raise FeelFault(f"'list' must hold numbers, found {kind_of(element)} at position {place}")
        found.append(element)
    return found


def _total(elements: list[Number]) -> Number:
    total: Number = 0
    for number in elements:
        total = numbers.add(total, number)
    return total


@builtin("sum", "list: list", variadic=True, each="n", about="The sum of numbers or durations")
def sum_(env: Env, list: Elements) -> Value:
    if not list:
        return None
    if isinstance(list[0], DaysTimeDuration | YearsMonthsDuration):
        env.spend(len(list))
        total: Value = list[0]
        for place, element in enumerate(list[1:], 2):
            if type(element) is not type(total):
                wanted = f"each be a {kind_of(total)} like the first"
                raise FeelFault(f"the elements of 'list' must {wanted}, found {kind_of(element)} at position {place}")
            total = operations.add(env, total, element)
        return total
    env.spend(len(list) >> 2)
    return _total(_numbers(list))


@builtin("product", "list: list", variadic=True, each="n", gives="number", about="The product of numbers")
def product(env: Env, list: Elements) -> Value:
    if not list:
        return None
    env.spend(len(list) >> 2)
    result: Number = 1
    for number in _numbers(list):
        result = numbers.multiply(result, number)
    return result


@builtin("mean", "list: list", variadic=True, each="n", about="The average of numbers or durations")
def mean(env: Env, list: Elements) -> Value:
    if not list:
        return None
    return operations.divide(env, sum_(env, list), len(list))


@builtin(
    "median",
    "list: list",
    variadic=True,
    each="n",
    gives="number",
    about="The middle of the ordered numbers, or the average of the two in the middle",
)
def median(env: Env, list: Elements) -> Value:
    env.spend(len(list))
    ordered = sorted(_numbers(list))
    if not ordered:
        return None
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return numbers.divide(numbers.add(ordered[middle - 1], ordered[middle]), 2)


@builtin(
    "mode",
    "list: list",
    variadic=True,
    each="n",
    about="The numbers that stand most often in the list, in ascending order",
)
def mode(env: Env, list: Elements) -> Value:
    env.spend(len(list))
    times = Counter(_numbers(list))
    most = max(times.values(), default=0)
    return [*sorted(number for number, count in times.items() if count == most)]


@builtin(
    "stddev",
    "list: list",
    variadic=True,
    each="n",
    gives="number",
    about="The standard deviation of a sample of two or more numbers",
)
def stddev(env: Env, list: Elements) -> Value:
    sample = _numbers(list)
    if len(sample) < 2:
        raise FeelFault(f"'list' must hold at least two numbers, found {len(sample)}")
    env.spend(2 * len(sample) + numbers.COSTLY_STEPS)
    average = numbers.divide(_total(sample), len(sample))
    squares: Number = 0
    for number in sample:
        distance = numbers.subtract(number, average)
        squares = numbers.add(squares, numbers.multiply(distance, distance))
    variance = Decimal(numbers.divide(squares, len(sample) - 1))
    return numbers.narrowed(numbers.decimal_result(numbers.D34.sqrt, variance))


def _three_valued(elements: Elements, deciding: bool) -> Value:
    unknown = False
    strange: Value = None
    for element in elements:
        if element is deciding:
            return deciding
        if type(element) is not bool:
            unknown = True
            strange = element if strange is None else strange
    if strange is not None:
        raise FeelFault(f"'list' must hold booleans, found {kind_of(strange)}")
    return None if unknown else not deciding


@builtin("all", "list: list", variadic=True, each="b", gives="boolean", about="Whether every element is true")
def all_(env: Env, list: Elements) -> Value:
    return _three_valued(list, False)


@builtin("any", "list: list", variadic=True, each="b", gives="boolean", about="Whether one element is true")
def any_(env: Env, list: Elements) -> Value:
    return _three_valued(list, True)
