"""Owns calls of built-in functions and the function value that a built-in is where only its name stands.
Never implements a built-in and never looks at scopes.
Called by the closures of invocations and of names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import product

from engine.feel import tree
from engine.feel.closures.code import Compilation
from engine.feel.environment import Env
from engine.feel.faults import FeelFault, LimitExceeded, counted
from engine.feel.functions.registry import BUILTINS, Builtin, Parameter, Signature, unchecked, unwrapped
from engine.feel.tree import TypeOf
from engine.feel.values import FeelFunction, Run, Value

# Levels that a call of a built-in by way of its value nests, in frames of an expression.
_DEPTH = 4
_DURATIONS = "days and time duration or years and months duration"
_ANY_OF = {"point": f"number, string, date, time, date and time or {_DURATIONS}"}
_ANY = TypeOf("Any")
_TYPES = {
    kind: TypeOf(kind)
    for kind in ("string", "number", "boolean", "context", "function", "date", "time", *re.split(" or ", _DURATIONS))
} | {
    "any": _ANY,
    "date and time": TypeOf("date and time"),
    "list": TypeOf("list", element=_ANY),
    "range": TypeOf("range", element=_ANY),
}


def prepared(builtin: Builtin, names: tuple[str, ...], runs: list[Run], position: int) -> Run:
    """The closure of a call with these arguments. Raises FeelFault where no parameter list fits them."""
    if names and builtin.each and _numbered(builtin.each, names):
        names, runs = (), [run for _, run in sorted(zip(names, runs, strict=True), key=lambda pair: int(pair[0][1:]))]
    try:
        if names:
            parameters, runs = _by_name(builtin, names, runs)
        elif builtin.variadic and runs:
            return _variadic_call(builtin, runs, position)
        else:
            parameters = _by_position(builtin, len(runs))
    except FeelFault as fault:
        raise FeelFault(f"{builtin.name}: {fault.cause}") from fault
    return _checked_call(builtin, parameters, runs, position)


def _numbered(each: str, names: tuple[str, ...]) -> bool:
    """Whether the names are those of single elements: n1, n2, n3."""
    return {*names} == {f"{each}{place}" for place in range(1, len(names) + 1)}


def _by_position(builtin: Builtin, count: int) -> Signature:
    for signature in builtin.signatures:
        required = sum(not parameter.optional for parameter in signature)
        if required <= count <= len(signature) and not builtin.variadic:
            return signature[:count]
    raise FeelFault(f"takes {_wanted(builtin)}, found {counted(count, 'argument') if count else 'none'}")


def _wanted(builtin: Builtin) -> str:
    wanted = " or ".join(usage.removeprefix(builtin.name) for usage in builtin.usage)
    return "no arguments" if wanted == "()" else wanted


def _nothing(env: Env) -> Value:
    return None


def _missing(builtin: Builtin, signature: Signature, names: tuple[str, ...]) -> list[Parameter]:
    """The parameters that a call by name leaves out and that null, which they are then, does not fit."""
    return [
        parameter
        for parameter in signature
        if not (parameter.optional or parameter.name in names or (parameter.takes_null and not builtin.variadic))
    ]


def _by_name(builtin: Builtin, names: tuple[str, ...], runs: list[Run]) -> tuple[Signature, list[Run]]:
    given = dict(zip(names, runs, strict=True))
    known = {parameter.name for signature in builtin.declared for parameter in signature}
    unknown = [name for name in names if name not in known]
    if unknown or len(given) < len(names):
        what = f"no parameter {unknown[0]!r}" if unknown else "a parameter that is given twice"
        raise FeelFault(f"has {what}; it takes {_wanted(builtin)}")
    fitting = [each for each in builtin.declared if given.keys() <= {parameter.name for parameter in each}]
    if not fitting:
        raise FeelFault(f"takes {_wanted(builtin)}, found {', '.join(names)}")
    # Two signatures may have the same names in another order, as before(point, range): the order written decides.
    fitting.sort(
        key=lambda signature: (
            len(_missing(builtin, signature, names)),
            sum(parameter.name not in given and not parameter.optional for parameter in signature),
            [parameter.name for parameter in signature if parameter.name in given] != [*names],
        )
    )
    missing = _missing(builtin, fitting[0], names)
    if missing:
        raise FeelFault(f"needs the parameter {missing[0].name!r}; it takes {_wanted(builtin)}")
    return fitting[0], [given.get(parameter.name, _nothing) for parameter in fitting[0]]


def _checked_call(builtin: Builtin, parameters: Signature, runs: list[Run], position: int) -> Run:
    implementation = builtin.implementation
    checked = [
        (place, parameter.check, parameter.name)
        for place, (parameter, given) in enumerate(zip(parameters, runs, strict=True))
        if parameter.check is not unchecked and given is not _nothing
    ]

    if len(runs) == 1 and len(checked) == 1:
        return _call_of_one(builtin, parameters[0], runs[0], position)

    def run(env: Env) -> Value:
        values = [argument(env) for argument in runs]
        try:
            for place, check, name in checked:
                values[place] = check(env, values[place], name)
            return implementation(env, *values)
        except FeelFault as fault:
            return env.warn(position, f"{builtin.name}: {fault.cause}")

    return run


def _call_of_one(builtin: Builtin, parameter: Parameter, argument: Run, position: int) -> Run:
    implementation, check, name = builtin.implementation, parameter.check, parameter.name

    def run(env: Env) -> Value:
        value = argument(env)
        try:
            return implementation(env, check(env, value, name))
        except FeelFault as fault:
            return env.warn(position, f"{builtin.name}: {fault.cause}")

    return run


def _variadic_call(builtin: Builtin, runs: list[Run], position: int) -> Run:
    """The closure of a call with the elements themselves, or with one list of them."""
    implementation, unwraps = builtin.implementation, builtin.unwraps
    if len(runs) == 1 and unwraps:
        return _call_of_one(builtin, builtin.signatures[0][0], runs[0], position)

    def run(env: Env) -> Value:
        values = [argument(env) for argument in runs]
        try:
            env.check_list(len(values))
            return implementation(env, [unwrapped(value) for value in values] if unwraps else values)
        except FeelFault as fault:
            return env.warn(position, f"{builtin.name}: {fault.cause}")

    return run


def expect_functions(compilation: Compilation, *nodes: tree.Node) -> None:
    """Take the names of built-ins in these forms for the functions, where no variable has such a name.

    Elsewhere a name is a variable, and one that is missing has to be told.
    """
    for node in nodes:
        if isinstance(node, tree.Name):
            compilation.function_places.add(node.position)
        elif isinstance(node, tree.If):
            expect_functions(compilation, node.then, node.otherwise)
        elif isinstance(node, tree.ListOf):
            expect_functions(compilation, *node.elements)
        elif isinstance(node, tree.Filter):
            expect_functions(compilation, node.source)


def function_arguments(builtin: Builtin, node: tree.Call) -> list[tree.Node]:
    """The arguments for parameters that are functions."""
    wanted: set[str | int] = set()
    for signature in builtin.declared:
        for place, parameter in enumerate(signature):
            if parameter.kind.startswith("function"):
                wanted |= {place, parameter.name}
    given = node.names or range(len(node.arguments))
    return [argument for key, argument in zip(given, node.arguments, strict=True) if key in wanted]


@dataclass(frozen=True, slots=True)
class BuiltinValue:
    """A built-in as a function value: called as by its name, at the price of any function."""

    builtin: Builtin
    signatures: tuple[TypeOf, ...]

    def takes(self, count: int) -> bool:
        """Whether a call by position may have so many arguments."""
        return self.builtin.fits(count)

    def call(self, env: Env, arguments: list[Value], names: tuple[str, ...], position: int) -> Value:
        """The value of a call, by name where there are names; null and a warning where it has none."""
        env.spend(1 + len(arguments))
        depth, frame = env.depth, env.frame
        if depth + _DEPTH > env.limits.max_call_depth:
            raise LimitExceeded(f"calls nested deeper than {env.limits.max_call_depth} levels")
        env.depth, env.frame = depth + _DEPTH, arguments
        try:
            return _of_frame(self.builtin.name, names, len(arguments), position)(env)
        except FeelFault as fault:
            return env.warn(position, fault.cause)
        finally:
            env.depth, env.frame = depth, frame


@lru_cache(maxsize=1024)
def _of_frame(name: str, names: tuple[str, ...], count: int, position: int) -> Run:
    """The closure of a call whose arguments are the frame. Raises FeelFault where no parameter list fits them."""
    return prepared(BUILTINS[name], names, [_argument(place) for place in range(count)], position)


def _argument(place: int) -> Run:
    return lambda env: env.frame[place]


@cache
def builtin_value(name: str) -> FeelFunction | None:
    """The built-in of this name as a value; its parameters are those of its first parameter list."""
    builtin = BUILTINS.get(name)
    if builtin is None:
        return None
    shapes = ((each, count) for each in builtin.declared for count in _counts(each))
    result = _TYPES.get(builtin.gives)
    native = BuiltinValue(builtin, tuple(kind for each, count in shapes for kind in _types_of(each, count, result)))
    parameters = tuple(parameter.name for parameter in builtin.declared[0])
    return FeelFunction(parameters, (), _nothing, 0, 1, [], {}, "", native.signatures[0], native)


def _counts(signature: Signature) -> range:
    return range(sum(not parameter.optional for parameter in signature), len(signature) + 1)


def _types_of(signature: Signature, count: int, result: TypeOf | None) -> Iterator[TypeOf]:
    """The types of a function with the first `count` parameters, one for each mixture of kinds that these take."""
    for parameters in product(*(map(_TYPES.__getitem__, _kinds(parameter)) for parameter in signature[:count])):
        yield TypeOf("function", parameters=parameters, result=result)


def _kinds(parameter: Parameter) -> list[str]:
    printed = _ANY_OF.get(parameter.kind, parameter.kind)
    return [kind for kind in re.split(", | or ", printed.replace("or duration", f"or {_DURATIONS}")) if kind != "null"]
