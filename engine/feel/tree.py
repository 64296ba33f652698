"""Owns the syntax tree of FEEL: one immutable class for each form of expression.
Never holds behaviour; `position` is the offset in the text, `depth` bounds the Python frames of an evaluation.
Called by the parser, which builds it, and the compiler, which reads it.
"""

from __future__ import annotations

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
class FunctionOf(Node):
    parameters: tuple[str, ...]
    body: Node


@dataclass(frozen=True, slots=True)
class Call(Node):
    """An invocation; `names` are the parameters' names when they are given, else empty."""

    callee: Node
    arguments: tuple[Node, ...]
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TypeOf:
    """A type as `instance of` names it: a simple name, or list, context, range, function with their parts."""

    name: str
    element: TypeOf | None = None
    entries: tuple[tuple[str, TypeOf], ...] = ()


@dataclass(frozen=True, slots=True)
class InstanceOf(Node):
    value: Node
    type: TypeOf
