"""Owns the closures of invocations: built-ins, function values, `is defined`.
Never implements a built-in.
Called by `Compilation.compile` through the table of forms.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.feel import operations, tree
from engine.feel.closures.code import Code, Compilation, Scope
from engine.feel.closures.names import resolve
from engine.feel.environment import Env
from engine.feel.faults import FeelFault, counted
from engine.feel.functions.registry import BUILTINS, Builtin, Parameter, unchecked
from engine.feel.functions.spelling import unknown_function
from engine.feel.values import FeelFunction, Run, Value, kind_of


def call(compilation: Compilation, node: tree.Call, scope: Scope | None) -> Code:
    callee = node.callee
    slot, items = resolve(compilation, callee.name, scope) if isinstance(callee, tree.Name) else (None, [])
    if isinstance(callee, tree.Name) and slot is None:
        if callee.name == "is defined" and len(node.arguments) == 1:
            return Code(_defined(compilation, node.arguments[0], scope), 1 + node.depth)
        builtin = BUILTINS.get(callee.name)
        if builtin is not None:
            return _builtin_call(compilation, builtin, node, scope)
        if not items and callee.name not in compilation.declared:
            compilation.remark(callee.position, unknown_function(callee.name))
    return _value_call(compilation, node, scope)


def _builtin_call(compilation: Compilation, builtin: Builtin, node: tree.Call, scope: Scope | None) -> Code:
    optional = builtin.name == "get or else"
    codes = [
        _optional(compilation, argument, scope) if optional and not place else compilation.compile(argument, scope)
        for place, argument in enumerate(node.arguments)
    ]
    runs = [code.run for code in codes]
    position = node.position
    try:
        if node.names:
            parameters, runs = _by_name(builtin, node.names, runs)
        elif builtin.variadic and not runs:
            raise FeelFault("needs an argument")
        elif builtin.variadic:
            return _finished(compilation, builtin, _variadic_call(builtin, runs, position), codes)
        else:
            parameters = _by_position(builtin, len(runs))
    except FeelFault as fault:
        cause = f"{builtin.name}: {fault.cause}"
        compilation.remark(position, cause)
        return Code(lambda env: env.warn(position, cause), 1 + sum(code.weight for code in codes))
    return _finished(compilation, builtin, _checked_call(builtin, parameters, runs, position), codes)


def _finished(compilation: Compilation, builtin: Builtin, run: Run, codes: Sequence[Code]) -> Code:
    if builtin.pure:
        return compilation.folded(run, *codes)
    return Code(run, 1 + sum(code.weight for code in codes))


def _by_position(builtin: Builtin, count: int) -> tuple[Parameter, ...]:
    for signature in builtin.signatures:
        required = sum(not parameter.optional for parameter in signature)
        if required <= count <= len(signature):
            return signature[:count]
    raise FeelFault(f"takes {_wanted(builtin)}, found {counted(count, 'argument')}")


def _wanted(builtin: Builtin) -> str:
    return " or ".join(usage.removeprefix(builtin.name) for usage in builtin.usage)


def _nothing(env: Env) -> Value:
    return None


def _has(signature: tuple[Parameter, ...], names: tuple[str, ...]) -> bool:
    given = set(names)
    known = {parameter.name for parameter in signature}
    required = {parameter.name for parameter in signature if not parameter.optional}
    return required <= given <= known and len(given) == len(names)


def _by_name(builtin: Builtin, names: tuple[str, ...], runs: list[Run]) -> tuple[tuple[Parameter, ...], list[Run]]:
    given = dict(zip(names, runs, strict=True))
    fitting = [signature for signature in builtin.signatures if _has(signature, names)]
    # Two signatures may have the same names in another order, as before(point, range): the order written decides.
    fitting.sort(
        key=lambda signature: [parameter.name for parameter in signature if parameter.name in given] != [*names]
    )
    if fitting:
        return fitting[0], [given.get(parameter.name, _nothing) for parameter in fitting[0]]
    raise FeelFault(f"has no parameters named {', '.join(names)}; it takes {_wanted(builtin)}")


def _checked_call(builtin: Builtin, parameters: tuple[Parameter, ...], runs: list[Run], position: int) -> Run:
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
    implementation = builtin.implementation
    if len(runs) == 1 and builtin.unwraps:
        return _call_of_one(builtin, builtin.signatures[0][0], runs[0], position)

    def run(env: Env) -> Value:
        values = [argument(env) for argument in runs]
        try:
            env.check_list(len(values))
            return implementation(env, values)
        except FeelFault as fault:
            return env.warn(position, f"{builtin.name}: {fault.cause}")

    return run


def _value_call(compilation: Compilation, node: tree.Call, scope: Scope | None) -> Code:
    callee = compilation.compile(node.callee, scope)
    codes = [compilation.compile(argument, scope) for argument in node.arguments]
    callee_run, runs, position, names = callee.run, [code.run for code in codes], node.position, node.names

    def run(env: Env) -> Value:
        function = callee_run(env)
        arguments = [argument(env) for argument in runs]
        if not isinstance(function, FeelFunction):
            return env.warn(position, f"cannot call a {kind_of(function)}")
        if names:
            given = dict(zip(names, arguments, strict=True))
            if not given.keys() <= set(function.parameters) or len(given) < len(names):
                return env.warn(position, f"the function has the parameters {', '.join(function.parameters)}")
            arguments = [given.get(parameter) for parameter in function.parameters]
        return env.invoke(function, arguments, position)

    return Code(run, 1 + callee.weight + sum(code.weight for code in codes))


def _optional(compilation: Compilation, node: tree.Node, scope: Scope | None) -> Code:
    """A form whose variables need not exist."""
    certain = set(compilation.names)
    code = compilation.compile(node, scope)
    compilation.possible_names |= compilation.names - certain
    compilation.names &= certain
    return code


def _defined(compilation: Compilation, node: tree.Node, scope: Scope | None) -> Run:
    """`is defined`: whether a variable or a context entry is there, also when it is null."""
    if isinstance(node, tree.Name):
        return _name_defined(compilation, node.name, scope)
    if not isinstance(node, tree.Path):
        run = compilation.compile(node, scope).run
        return lambda env: run(env) is not None or isinstance(node, tree.Literal)
    source_defined = _defined(compilation, node.source, scope)
    source = _optional(compilation, node.source, scope).run
    key = node.name

    def run_path(env: Env) -> Value:
        if source_defined(env) is not True:
            return False
        value = source(env)
        if value is None:
            return False
        try:
            return isinstance(value, list) or key in operations.properties(value)
        except FeelFault:
            return False

    return run_path


def _name_defined(compilation: Compilation, name: str, scope: Scope | None) -> Run:
    slot, items = resolve(compilation, name, scope)
    if slot is None:
        compilation.possible_names.add(name)

    def run(env: Env) -> Value:
        if slot is not None:
            return True
        for item in items:
            element = env.frame[item]
            if isinstance(element, dict) and name in element:
                return True
        try:
            env.scope[name]
        except KeyError:
            return False
        return True

    return run
