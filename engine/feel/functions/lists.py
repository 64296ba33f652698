"""Owns the built-in functions on lists; positions count from 1, negative ones from the end.
Never changes a list in place.
Called by compiled invocations through the table of built-ins.
"""

from __future__ import annotations

from decimal import Decimal
from functools import cmp_to_key

from engine.feel import operations
from engine.feel.environment import Env
from engine.feel.faults import FeelFault, LimitExceeded, counted
from engine.feel.functions.registry import builtin
from engine.feel.values import FeelFunction, Value, is_number, kind_of

Elements = list[Value]


def _equal(env: Env, left: Value, right: Value) -> bool:
    """Whether two elements are equal; those that cannot be compared are not."""
    try:
        return operations.equals(env, left, right) is True
    except FeelFault:
        return False


@builtin(
    "list contains",
    "list: list, element: any",
    gives="boolean",
    about="Whether an element of the list is equal to the given one",
)
def list_contains(env: Env, list: Elements, element: Value) -> Value:
    env.compare_list(len(list))
    return any(_equal(env, member, element) for member in list)


def _joined(env: Env, lists: Elements) -> Elements:
    joined: Elements = []
    for place, part in enumerate(lists, 1):
        if part is None:
            raise FeelFault(f"argument {place} must be a list, found null")
        elements = part if isinstance(part, list) else [part]
        env.spend(1 + (len(elements) >> 3))
        joined.extend(elements)
        if len(joined) > env.limits.max_list:
            env.check_list(len(joined))
    return joined


@builtin(
    "concatenate",
    "list: list",
    "lists: list",
    variadic=True,
    unwraps=False,
    about="The elements of all the lists, one after the other",
)
def concatenate(env: Env, lists: Elements) -> Value:
    return _joined(env, lists)


@builtin(
    "append",
    "list: list, item: any",
    "list: list, items: any",
    variadic=True,
    unwraps=False,
    about="The list with the items at its end",
)
def append(env: Env, arguments: Elements, *items: Value) -> Value:
    first, added = (arguments, items) if items else (arguments[0], tuple(arguments[1:]))
    if first is None:
        raise FeelFault("'list' must be a list, found null")
    env.check_list(len(first) + len(added) if isinstance(first, list) else len(added))
    return [*(first if isinstance(first, list) else [first]), *added]


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


@builtin("flatten", "list: list", about="The elements of the list and of the lists in it")
def flatten(env: Env, list: Elements) -> Value:
    flat: Elements = []
    _flat(env, list, flat, 0)
    return flat


def _parted(env: Env, elements: Elements) -> tuple[Elements, Elements]:
    """The different elements in their order, and those of them that stand in the list more than once."""
    env.compare_list(len(elements))
    kept: Elements = []
    repeated: dict[int, Value] = {}
    seen: dict[tuple[type, object], int] = {}
    for element in elements:
        if element is None or isinstance(element, bool | int | str | Decimal):
            # Scalars are told apart in constant time; equal numbers of either type have one hash.
            if type(element) is str:
                env.compare_string(len(element))
            key = (Decimal if is_number(element) else type(element), element)
            place = seen.setdefault(key, len(kept))
        else:
            env.spend(len(kept))
            place = next((at for at, member in enumerate(kept) if _equal(env, element, member)), len(kept))
        if place == len(kept):
            kept.append(element)
        else:
            repeated[place] = kept[place]
    return kept, [repeated[place] for place in sorted(repeated)]


@builtin("distinct values", "list: list", about="The list without its repetitions")
def distinct_values(env: Env, list: Elements) -> Value:
    return _parted(env, list)[0]


@builtin(
    "union",
    "list: list",
    "lists: list",
    variadic=True,
    unwraps=False,
    about="The elements of all the lists without repetitions",
)
def union(env: Env, lists: Elements) -> Value:
    return _parted(env, _joined(env, lists))[0]


@builtin("duplicate values", "list: list", about="The elements that the list repeats, each once", origin="Camunda")
def duplicate_values(env: Env, list: Elements) -> Value:
    return _parted(env, list)[1]


@builtin("sort", "list: list, precedes?: function|null", about="The list in the order of `precedes`, else ascending")
def sort(env: Env, list: Elements, precedes: FeelFunction | None = None) -> Value:
    if precedes is None:
        return _ascending(env, list)
    _check_of_two(precedes, "precedes")

    def precede(left: Value, right: Value) -> bool:
        return _verdict(env, precedes, "precedes", left, right)

    def order(left: Value, right: Value) -> int:
        return -1 if precede(left, right) else int(precede(right, left))

    return sorted(list, key=cmp_to_key(order))


def _check_of_two(function: FeelFunction, name: str) -> None:
    if not function.takes(2):
        raise FeelFault(f"'{name}' must be a function of two parameters, found one of {len(function.parameters)}")


def _verdict(env: Env, function: FeelFunction, name: str, left: Value, right: Value) -> bool:
    verdict = env.invoke(function, [left, right], 0)
    if type(verdict) is not bool:
        raise FeelFault(f"'{name}' must give true or false, found {kind_of(verdict)}")
    return verdict


def _ascending(env: Env, elements: Elements) -> Elements:
    """Sorted by the order of their kind. Raises FeelFault for elements without a common order."""
    texts = sum(len(element) for element in elements if type(element) is str)
    env.spend(2 * len(elements) + (texts >> 8) * len(elements).bit_length())
    try:
        for element in elements:
            operations.compare(element, elements[0])
    except FeelFault as fault:
        raise FeelFault(f"'list' must hold values of one kind with an order: {fault.cause}") from fault
    return sorted(elements, key=operations.order_key)


@builtin("reverse", "list: list", about="The list from its end to its start")
def reverse(env: Env, list: Elements) -> Value:
    return list[::-1]


@builtin("index of", "list: list, match: any", about="The positions of the elements that are equal to the given one")
def index_of(env: Env, list: Elements, match: Value) -> Value:
    env.compare_list(len(list))
    return [place for place, member in enumerate(list, 1) if _equal(env, member, match)]


def _place(elements: Elements, position: int, name: str = "position") -> int:
    if not position or abs(position) > len(elements):
        raise FeelFault(f"'{name}' {position} is outside a list of {counted(len(elements), 'element')}")
    return position - 1 if position > 0 else len(elements) + position


@builtin(
    "sublist",
    "list: list, start position: position, length?: position|null",
    about="The elements from a position on, a negative one counted from the end",
)
def sublist(env: Env, list: Elements, start: int, length: int | None = None) -> Value:
    first = _place(list, start, "start position")
    if length is not None and length < 1:
        raise FeelFault(f"'length' must be at least 1, found {length}")
    return list[first:] if length is None else list[first : first + length]


@builtin(
    "insert before", "list: list, position: position, newItem: any", about="The list with an item before a position"
)
def insert_before(env: Env, list: Elements, position: int, new_item: Value) -> Value:
    place = _place(list, position)
    return [*list[:place], new_item, *list[place:]]


@builtin("remove", "list: list, position: position", about="The list without the element at a position")
def remove(env: Env, list: Elements, position: int) -> Value:
    place = _place(list, position)
    return [*list[:place], *list[place + 1 :]]


@builtin(
    "list replace",
    "list: list, position: position, newItem: any",
    "list: list, match: function, newItem: any",
    about="The list with the item in one place, or in all where match(element, newItem) is true",
)
def list_replace(env: Env, list: Elements, where: int | FeelFunction, new_item: Value) -> Value:
    if isinstance(where, int):
        place = _place(list, where)
        return [*list[:place], new_item, *list[place + 1 :]]
    _check_of_two(where, "match")
    return [new_item if _verdict(env, where, "match", element, new_item) else element for element in list]


@builtin("partition", "list: list, size: position", about="The list cut into lists of a size", origin="Camunda")
def partition(env: Env, list: Elements, size: int) -> Value:
    if size < 1:
        raise FeelFault(f"'size' must be at least 1, found {size}")
    env.spend(len(list) // size)
    return [list[start : start + size] for start in range(0, len(list), size)]
