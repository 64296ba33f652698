"""Owns types at work: `instance of`, the declared types of parameters with their conversions, conformance of types.
Never parses a type.
Called by `Compilation.compile` through the table of forms, and by the closures of function definitions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from engine.feel import tree
from engine.feel.closures.built_ins import expect_functions
from engine.feel.closures.code import Code, Compilation, Scope
from engine.feel.environment import Env
from engine.feel.faults import FeelFault
from engine.feel.temporal import Date, midnight_utc
from engine.feel.tree import TypeOf
from engine.feel.values import FeelFunction, Range, Run, Value, kind_of

Conforms = Callable[[Env, Value], bool]

ANY = TypeOf("Any")
_PARTS = {
    "list": "write list<Any> for any list",
    "range": "write range<Any> for any range",
    "context": "write context<> for any context",
    "function": "write function<Any, Any> -> Any, with the types of its parameters",
}


def instance_of(compilation: Compilation, node: tree.InstanceOf, scope: Scope | None) -> Code:
    """`instance of`; null where the type does not exist, or is a list, context, range or function without its parts."""
    expect_functions(compilation, node.value)
    value = compilation.compile(node.value, scope)
    value_run, wanted = value.run, node.type
    unfit = _unfit(wanted)
    if unfit is not None:
        position, cause = unfit.position, _why(unfit)
        return compilation.folded(lambda env: env.warn(position, cause))
    conforms, wants_null = conformance(wanted), wanted.name == "Null"

    def run(env: Env) -> Value:
        found = value_run(env)
        return wants_null if found is None else conforms(env, found)

    return compilation.folded(run, value)


def _unfit(wanted: TypeOf) -> TypeOf | None:
    """The part of a type that is no type of the lattice."""
    if wanted.bare or not wanted.known:
        return wanted
    return next(filter(None, map(_unfit, wanted.parts())), None)


def _why(unfit: TypeOf) -> str:
    if unfit.known:
        return f"'{unfit.name}' is a type only with its parts; {_PARTS[unfit.name]}"
    return f"there is no type {unfit.name!r}"


def conformance(wanted: TypeOf) -> Conforms:
    """The test whether a value's type conforms to a type; null conforms to every type."""
    name, accepts = wanted.name, wanted.accepts
    if accepts is not None:
        return lambda env, value: value is None or accepts(value)
    if name == "Any":
        return lambda env, value: True
    if wanted.element is not None:
        element = conformance(wanted.element)
        return _list_conformance(element) if name == "list" else _range_conformance(element)
    if wanted.entries:
        return _context_conformance([(key, conformance(kind)) for key, kind in wanted.entries])
    if wanted.result is not None:
        return lambda env, value: value is None or (isinstance(value, FeelFunction) and is_callable(value, wanted))
    return lambda env, value: value is None or kind_of(value) == name


def _list_conformance(element: Conforms) -> Conforms:
    def conforms(env: Env, value: Value) -> bool:
        if isinstance(value, list):
            env.compare_list(len(value))
            return all(element(env, member) for member in value)
        return value is None

    return conforms


def _range_conformance(element: Conforms) -> Conforms:
    def conforms(env: Env, value: Value) -> bool:
        if isinstance(value, Range):
            return element(env, value.start) and element(env, value.end)
        return value is None

    return conforms


def _context_conformance(entries: list[tuple[str, Conforms]]) -> Conforms:
    def conforms(env: Env, value: Value) -> bool:
        if isinstance(value, dict):
            env.spend(len(entries))
            return all(key in value and inner(env, value[key]) for key, inner in entries)
        return value is None

    return conforms


def is_callable(function: FeelFunction, wanted: TypeOf) -> bool:
    """Whether the function's type conforms to that type of functions."""
    if function.native is not None:
        return any(conforms_to(actual, wanted) for actual in function.native.signatures)
    actual = function.signature
    if actual is None:
        return len(function.parameters) == len(wanted.parameters)
    return conforms_to(actual, wanted)


def conforms_to(actual: TypeOf, wanted: TypeOf) -> bool:
    """Whether one type conforms to another (DMN 1.5, 10.3.2.9.2): parameters contravariant, all else covariant.

    What cannot be decided counts as conforming: a function's result that its body does not tell, and a type of the
    caller that does not tell its shape.
    """
    if wanted.name == "Any" or actual.name == "Null":
        return True
    if actual.accepts is not None or wanted.accepts is not None:
        if actual.accepts is not None and wanted.accepts is not None and actual.name == wanted.name:
            return True
        shapes = [kind if kind.accepts is None else kind.shape for kind in (actual, wanted)]
        return shapes[0] is None or shapes[1] is None or conforms_to(shapes[0], shapes[1])
    if actual.name != wanted.name:
        return False
    if wanted.element is not None:
        return conforms_to(actual.element or ANY, wanted.element)
    if wanted.entries:
        given = dict(actual.entries)
        return all(key in given and conforms_to(given[key], kind) for key, kind in wanted.entries)
    if wanted.result is None:
        return True
    return (
        len(actual.parameters) == len(wanted.parameters)
        and all(map(conforms_to, wanted.parameters, actual.parameters))
        and (actual.result is None or conforms_to(actual.result, wanted.result))
    )


def signature(node: tree.FunctionOf) -> TypeOf:
    """The type of a function definition; its result is None where the body does not tell."""
    declared = tuple(kind or ANY for kind in node.types)
    parameters = dict(zip(node.parameters, declared, strict=True))
    return TypeOf("function", node.position, parameters=declared, result=_type_of(node.body, parameters))


_BOOLEAN_FORMS = (tree.Comparison, tree.Logic, tree.Between, tree.In, tree.InstanceOf, tree.Quantified)


def _type_of(node: tree.Node, names: Mapping[str, TypeOf]) -> TypeOf | None:
    """The type that an expression surely has, as far as its form tells."""
    if isinstance(node, _BOOLEAN_FORMS):
        return TypeOf("boolean")
    if isinstance(node, tree.Literal):
        kind = kind_of(node.value)
        return TypeOf("Null" if kind == "null" else kind)
    if isinstance(node, tree.Name):
        known = names.get(node.name)
        return None if known is None or known.name == "Any" else known
    if isinstance(node, tree.FunctionOf):
        return signature(node)
    if isinstance(node, tree.If):
        then, otherwise = _type_of(node.then, names), _type_of(node.otherwise, names)
        return then if then == otherwise else None
    if isinstance(node, tree.ListOf):
        return _list_of([_type_of(element, names) for element in node.elements])
    if isinstance(node, tree.For):
        inner = {name: kind for name, kind in names.items() if name not in [each.name for each in node.iterators]}
        return _list_of([_type_of(node.body, inner)])
    if isinstance(node, tree.Interval):
        kinds = [_type_of(end, names) for end in (node.start, node.end) if end is not None]
        return None if kinds[0] is None else TypeOf("range", element=kinds[0])
    if isinstance(node, tree.Negation):
        return _type_of(node.operand, names)
    if isinstance(node, tree.ContextOf):
        entries = [(key, _type_of(entry, {})) for key, entry in node.entries]
        known_entries = tuple((key, kind) for key, kind in entries if kind is not None)
        return TypeOf("context", entries=known_entries) if len(known_entries) == len(entries) else None
    if isinstance(node, tree.Arithmetic):
        sides = [kind.name if kind else "" for kind in (_type_of(node.left, names), _type_of(node.right, names))]
        # A number is added to nothing but a number, a string to nothing but a string; all else may be a duration.
        if node.operator == "**" or sides == ["number", "number"] or (node.operator in "+-" and "number" in sides):
            return TypeOf("number")
        return TypeOf("string") if node.operator == "+" and "string" in sides else None
    return None


def _list_of(kinds: list[TypeOf | None]) -> TypeOf | None:
    """The type of a list whose elements have these types."""
    known = [kind for kind in kinds if kind is not None]
    if len(known) < len(kinds):
        return None
    values = [kind for kind in known if kind.name != "Null"]
    element = values[0] if values else TypeOf("Null")
    alike = all(conforms_to(kind, element) and conforms_to(element, kind) for kind in values)
    return TypeOf("list", element=element if alike else ANY)


def declared(node: tree.FunctionOf, slots: tuple[int, ...], body: Run) -> Run:
    """The body of a function after its arguments are made to conform to their declared types.

    An argument that does not conform, also after the implicit conversions of DMN 1.5, 10.3.2.9.4, makes the result
    null with a warning.
    """
    checks = [
        (slot, name, kind, conformance(kind))
        for slot, name, kind in zip(slots, node.parameters, node.types, strict=True)
        if kind is not None and kind.name != "Any"
    ]
    if not checks:
        return body

    def run(env: Env) -> Value:
        frame = env.frame
        for slot, name, kind, conforms in checks:
            value = frame[slot]
            if not conforms(env, value):
                try:
                    frame[slot] = _converted(env, value, conforms)
                except FeelFault:
                    cause = f"the argument {name!r} is a {kind_of(value)}, not a {type_text(kind)}"
                    return env.warn(kind.position, cause)
        return body(env)

    return run


def _converted(env: Env, value: Value, conforms: Conforms) -> Value:
    """The value after the implicit conversion that makes it conform. Raises FeelFault when none does."""
    candidates: list[Value] = []
    if isinstance(value, list):
        candidates = value if len(value) == 1 else []
    elif isinstance(value, Date):
        candidates = [midnight_utc(value), [value]]
    else:
        candidates = [[value]]
    for candidate in candidates:
        if conforms(env, candidate):
            return candidate
    raise FeelFault("no conversion")


def type_text(kind: TypeOf) -> str:
    """A type as FEEL writes it."""
    if kind.element is not None:
        return f"{kind.name}<{type_text(kind.element)}>"
    if kind.entries:
        return f"context<{', '.join(f'{key}: {type_text(entry)}' for key, entry in kind.entries)}>"
    if kind.name == "function" and not kind.bare:
        return f"function<{', '.join(map(type_text, kind.parameters))}> -> {type_text(kind.result or ANY)}"
    return kind.name


def undefined(compilation: Compilation, node: tree.Undefined, scope: Scope | None) -> Code:
    """What parses but has no value."""
    position, cause = node.position, node.cause
    return compilation.folded(lambda env: env.warn(position, cause))
