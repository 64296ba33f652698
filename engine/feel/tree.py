"""Owns the syntax tree of FEEL: one immutable class for each form of expression.
Never holds behaviour; `position` is the offset in the text, `depth` bounds the Python frames of an evaluation.
Called by the parser, which builds it, and the compiler, which reads it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engine.feel.values import Value


@dataclass(frozen=True, slots=True)
class Node:
    position: int
    depth: int


@dataclass(frozen=True, slots=True)
class Literal(Node):
    value: Value


@dataclass(frozen=True, slots=True)
class Name(Node):
    name: str


@dataclass(frozen=True, slots=True)
class Path(Node):
    source: Node
    name: str


@dataclass(frozen=True, slots=True)
class Filter(Node):
    source: Node
    condition: Node


@dataclass(frozen=True, slots=True)
class ListOf(Node):
    elements: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class ContextOf(Node):
    entries: tuple[tuple[str, Node], ...]


@dataclass(frozen=True, slots=True)
class Interval(Node):
    """A range literal; a missing end is unbounded."""

    start: Node | None
    end: Node | None
    start_included: bool
    end_included: bool


@dataclass(frozen=True, slots=True)
class Negation(Node):
    operand: Node


@dataclass(frozen=True, slots=True)
class Arithmetic(Node):
    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Comparison(Node):
    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Logic(Node):
    """A chain of `and` or of `or`."""

    operator: str
    operands: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Between(Node):
    value: Node
    low: Node
    high: Node


@dataclass(frozen=True, slots=True)
class In(Node):
    """`value in (tests)`; a whole text of unary tests too, then `value` is None: the value under test."""

    value: Node | None
    tests: tuple[Node, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class If(Node):
    condition: Node
    then: Node
    otherwise: Node


@dataclass(frozen=True, slots=True)
class Iterator:
    """`name in domain`, or `name in start..end` when `end` is given."""

    name: str
    domain: Node
    end: Node | None


@dataclass(frozen=True, slots=True)
class For(Node):
    iterators: tuple[Iterator, ...]
    body: Node


@dataclass(frozen=True, slots=True)
class Quantified(Node):
    """`some` or `every`."""

    quantifier: str
    iterators: tuple[Iterator, ...]
    condition: Node


@dataclass(frozen=True, slots=True)
class TypeOf:
    """A type as the text names it, at `position`.

    `element` is that of a list or range, `entries` those of a context, `parameters` and `result` those of a function;
    `accepts` decides for a type that the caller defines. `bare` is a list, context, range or function without its
    parts; a type that is not `known` is a name only. `shape` is what a type of the caller is made of, where it tells.
    """

    name: str
    position: int = 0
    element: TypeOf | None = None
    entries: tuple[tuple[str, TypeOf], ...] = ()
    parameters: tuple[TypeOf, ...] = ()
    result: TypeOf | None = None
    accepts: Callable[[Value], bool] | None = None
    bare: bool = False
    known: bool = True
    shape: TypeOf | None = None

    def parts(self) -> tuple[TypeOf, ...]:
        """The types that this one is made of."""
        ends = tuple(part for part in (self.element, self.result) if part is not None)
        return (*ends, *(part for _, part in self.entries), *self.parameters)


@dataclass(frozen=True, slots=True)
class NamedType:
    """A test of values that also tells the shape of its type, so that functions which name the type can be compared."""

    accepts: Callable[[Value], bool]
    shape: TypeOf

    def __call__(self, value: Value) -> bool:
        return self.accepts(value)


@dataclass(frozen=True, slots=True)
class Undefined(Node):
    """What parses but never has a value: null with a warning."""

    cause: str


@dataclass(frozen=True, slots=True)
class FunctionOf(Node):
    """`types` has one element for each parameter: its declared type, or None; `end` is where the body ends."""

    parameters: tuple[str, ...]
    body: Node
    types: tuple[TypeOf | None, ...]
    end: int


@dataclass(frozen=True, slots=True)
class Call(Node):
    """An invocation; `names` are the parameters' names when they are given, else empty."""

    callee: Node
    arguments: tuple[Node, ...]
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class InstanceOf(Node):
    value: Node
    type: TypeOf
