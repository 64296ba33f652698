"""Owns the closures of invocations: which function a call means, arguments, `is defined`.
Never implements a built-in.
Called by `Compilation.compile` through the table of forms.
"""

from __future__ import annotations

from engine.feel import operations, tree
from engine.feel.closures.built_ins import expect_functions, function_arguments, prepared
from engine.feel.closures.code import Code, Compilation, Scope
from engine.feel.closures.names import resolve
from engine.feel.environment import Env
from engine.feel.faults import FeelFault
from engine.feel.functions.registry import BUILTINS, Builtin, Judge
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
            codes = _arguments(compilation, builtin, node, scope)
            if callee.name in compilation.declared:
                return _declared_call(compilation, builtin, node, scope, codes)
            return _builtin_call(compilation, builtin, node, codes)
        if not items and callee.name not in compilation.declared:
            expect_functions(compilation, *node.arguments)
            return _unknown_call(compilation, callee, node, scope)
    expect_functions(compilation, callee, *node.arguments)
    return _value_call(compilation, node, scope, [compilation.compile(argument, scope) for argument in node.arguments])


def _unknown_call(compilation: Compilation, callee: tree.Name, node: tree.Call, scope: Scope | None) -> Code:
    """A call of a name that neither the text nor its declared names know: null unless a variable has the name."""
    position, variable = callee.position, callee.name
    cause = unknown_function(variable)
    compilation.remark(position, cause)
    code = _value_call(compilation, node, scope, [compilation.compile(argument, scope) for argument in node.arguments])
    call_run = code.run

    def run(env: Env) -> Value:
        try:
            env.scope[variable]
        except KeyError:
            return env.warn(position, cause)
        return call_run(env)

    return Code(run, code.weight)


def _arguments(compilation: Compilation, builtin: Builtin, node: tree.Call, scope: Scope | None) -> list[Code]:
    declared = builtin.name in compilation.declared
    expect_functions(compilation, *(node.arguments if declared else function_arguments(builtin, node)))
    optional = builtin.name == "get or else"
    return [
        _optional(compilation, argument, scope) if optional and not place else compilation.compile(argument, scope)
        for place, argument in enumerate(node.arguments)
    ]


def _builtin_call(compilation: Compilation, builtin: Builtin, node: tree.Call, codes: list[Code]) -> Code:
    weight, position = 1 + sum(code.weight for code in codes), node.position
    try:
        run = prepared(builtin, node.names, [code.run for code in codes], position)
    except FeelFault as fault:
        cause = fault.cause
        compilation.remark(position, cause)
        return Code(lambda env: env.warn(position, cause), weight)
    if builtin.judge is not None and not all(code.constant for code in codes):
        _judge(compilation, builtin, builtin.judge, node, codes)
    return compilation.folded(run, *codes) if builtin.pure else Code(run, weight)


def _judge(compilation: Compilation, builtin: Builtin, judge: Judge, node: tree.Call, codes: list[Code]) -> None:
    """Remark what the constant arguments of a call make wrong, whatever the others are."""
    names = node.names or [parameter.name for parameter in builtin.declared[0]][: len(codes)]
    constants = {name: code.value for name, code in zip(names, codes, strict=True) if code.constant}

    def run(env: Env) -> Value:
        try:
            judge(env, constants, names)
        except FeelFault as fault:
            return env.warn(node.position, f"{builtin.name}: {fault.cause}")
        return None

    compilation.judged(run)


def _declared_call(
    compilation: Compilation, builtin: Builtin, node: tree.Call, scope: Scope | None, codes: list[Code]
) -> Code:
    """A call of a variable that the caller declares under a built-in's name: where it holds no function, of the other.

    So an input may be called `date` or `count` beside the function.
    """
    remarks = dict(compilation.remarks)
    standard_run = _builtin_call(compilation, builtin, node, codes).run
    compilation.remarks = remarks
    own = _value_call(compilation, node, scope, codes)
    own_run, variable = own.run, builtin.name

    def run(env: Env) -> Value:
        try:
            is_function = isinstance(env.scope[variable], FeelFunction)
        except KeyError:
            is_function = False
        return own_run(env) if is_function else standard_run(env)

    return Code(run, own.weight)


def _value_call(compilation: Compilation, node: tree.Call, scope: Scope | None, codes: list[Code]) -> Code:
    callee = compilation.compile(node.callee, scope)
    callee_run, runs, position, names = callee.run, [code.run for code in codes], node.position, node.names

    def run(env: Env) -> Value:
        function = callee_run(env)
        arguments = [argument(env) for argument in runs]
        if not isinstance(function, FeelFunction):
            return env.warn(position, f"cannot call a {kind_of(function)}")
        if function.native is not None:
            return function.native.call(env, arguments, names, position)
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
