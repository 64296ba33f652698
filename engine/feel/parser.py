"""Owns the grammar: a Pratt parser from FEEL text to a syntax tree.
Never evaluates and never gives up silently: what does not fit raises FeelSyntaxError at its place.
Called by the compiler's entry points in this package.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from engine.feel import tree
from engine.feel.cursor import Cursor, spaced
from engine.feel.environment import FeelLimits
from engine.feel.literals import number, temporal
from engine.feel.tree import Node
from engine.feel.type_parser import parse_type
from engine.feel.values import is_number

OR, AND, COMPARISON, SUM, PRODUCT, POWER, UNARY, INSTANCE, POSTFIX = range(1, 10)
_INFIX = {
    "or": OR,
    "and": AND,
    "=": COMPARISON,
    "!=": COMPARISON,
    "<": COMPARISON,
    "<=": COMPARISON,
    ">": COMPARISON,
    ">=": COMPARISON,
    "between": COMPARISON,
    "in": COMPARISON,
    "+": SUM,
    "-": SUM,
    "*": PRODUCT,
    "/": PRODUCT,
    "**": POWER,
    "instance": INSTANCE,
    ".": POSTFIX,
    "[": POSTFIX,
    "(": POSTFIX,
}
_CONSTANTS = {"null": None, "true": True, "false": False}
_BOUNDS = ("<", "<=", ">", ">=")
# After one of these a `[` closed a range; anywhere else it opens a filter.
_AFTER_RANGE = frozenset((")", "]", "}", ",", "and", "or", "then", "else", "return", "satisfies", ""))
EXPRESSION = "an expression"


class Parser(Cursor):
    """One parse of one text."""

    def __init__(self, text: str, names: Collection[str], calls: Iterable[str], limits: FeelLimits) -> None:
        super().__init__(text, names, calls, limits)
        self.prefixes: dict[str, Callable[[], Node]] = {
            "if": self.conditional,
            "for": self.iteration,
            "some": self.quantified,
            "every": self.quantified,
            "function": self.function,
            "(": self.parenthesis,
            "[": self.bracket,
            "]": self.open_range,
            "{": self.context,
            "-": self.negation,
            "@": lambda: temporal(self),
        }

    def whole_expression(self) -> Node:
        """The whole text as one expression."""
        node = self.expression()
        self.finish()
        return node

    def whole_unary_tests(self) -> Node:
        """The whole text as the tests of one decision table cell."""
        if self.at("-") and self.peek().kind == "end":
            return tree.Literal(0, 1, True)
        negated = self.at("not") and self.peek().text == "(" and self._closes_at_end()
        if negated:
            self.advance()
            self.advance()
        tests = self.tests()
        if negated:
            self.expect(")")
        self.finish()
        return tree.In(0, self.above(*tests, levels=2), None, tests, negated)

    def _closes_at_end(self) -> bool:
        """Whether the bracket after `not` closes at the end of the text."""
        open_brackets = 0
        for token in self.tokens[self.index + 1 : -1]:
            if token.kind == "symbol":
                open_brackets += (token.text == "(") - (token.text == ")")
            if not open_brackets:
                return token is self.tokens[-2]
        return False

    def finish(self) -> None:
        if self.token.kind != "end":
            words = self.token.kind in ("name", "number")
            hint = "a name with spaces must be declared, or stand between back quotes" if words else ""
            raise self.error("an operator or the end", hint)

    def above(self, *nodes: Node, levels: int = 1) -> int:
        """The height of a tree over `nodes`, whose top takes `levels` Python frames to evaluate.

        Raises FeelSyntaxError when it is too high.
        """
        depth = levels + max((node.depth for node in nodes), default=0)
        if depth > self.limits.max_depth:
            raise self.error(f"at most {self.limits.max_depth} nested operations", "split the expression")
        return depth

    def expression(self, floor: int = 0) -> Node:
        """An expression of operators that bind tighter than `floor`."""
        self.nesting += 1
        if self.nesting > self.limits.max_depth:
            raise self.error(f"at most {self.limits.max_depth} nested expressions", "split the expression")
        left = self.prefix()
        while (power := self.infix_power()) > floor:
            left = self.infix(left, power)
        self.nesting -= 1
        return left

    def infix_power(self) -> int:
        token = self.token
        if token.kind in ("symbol", "keyword") or (token.text == "instance" and self.peek().text == "of"):
            if token.text == "[" and self.peek().text in _AFTER_RANGE and self.peek().kind != "string":
                return 0
            return _INFIX.get(token.text, 0)
        return 0

    def prefix(self) -> Node:
        token = self.token
        if token.kind == "number":
            return number(self)
        if token.kind == "string":
            self.advance()
            return tree.Literal(token.start, 1, token.value)
        if token.kind in ("name", "escaped"):
            return self.name()
        if token.kind != "end":
            known = self.known_name() if token.kind == "keyword" else None
            if known is not None:
                return tree.Name(token.start, 1, known)
            if token.text in _CONSTANTS:
                self.advance()
                return tree.Literal(token.start, 1, _CONSTANTS[token.text])
            if token.text in self.prefixes:
                return self.prefixes[token.text]()
            if token.text in _BOUNDS:
                return self.bound()
        doubled = token.text == "=" and self.text[token.start - 1] == "="
        raise self.error(EXPRESSION, "equality is a single =" if doubled else "")

    def infix(self, left: Node, power: int) -> Node:
        token = self.token
        if power == POSTFIX:
            return {".": self.path, "[": self.filter, "(": self.call}[token.text](left)
        self.advance()
        if power == INSTANCE:
            self.expect("of")
            return tree.InstanceOf(token.start, self.above(left), left, parse_type(self))
        if token.text in ("and", "or"):
            return self.logic(left, token.text, power, token.start)
        if token.text == "between":
            low = self.expression(COMPARISON)
            self.expect("and", "between a and b")
            high = self.expression(COMPARISON)
            return tree.Between(token.start, self.above(left, low, high), left, low, high)
        if token.text == "in":
            tests = self.in_tests()
            return tree.In(token.start, self.above(left, *tests, levels=2), left, tests)
        right = self.expression(power)
        form = tree.Comparison if power == COMPARISON else tree.Arithmetic
        return form(token.start, self.above(left, right), token.text, left, right)

    def logic(self, left: Node, operator: str, power: int, position: int) -> Node:
        operands = [left, self.expression(power)]
        while self.accept(operator):
            operands.append(self.expression(power))
        return tree.Logic(position, self.above(*operands), operator, tuple(operands))

    def name(self) -> Node:
        token = self.token
        if token.kind == "escaped":
            self.advance()
            return tree.Name(token.start, 1, token.value)
        known = self.known_name()
        return tree.Name(token.start, 1, known if known is not None else self.advance().text)

    def negation(self) -> Node:
        token = self.advance()
        operand = self.expression(UNARY - 1)
        if isinstance(operand, tree.Literal) and is_number(operand.value):
            return tree.Literal(token.start, 1, -operand.value)
        return tree.Negation(token.start, self.above(operand), operand)

    def bound(self) -> Node:
        token = self.advance()
        end = self.expression(COMPARISON)
        included = "=" in token.text
        if token.text[0] == "<":
            return tree.Interval(token.start, self.above(end), None, end, False, included)
        return tree.Interval(token.start, self.above(end), end, None, included, False)

    def parenthesis(self) -> Node:
        token = self.advance()
        inner = self.expression()
        if self.at(".."):
            return self.range_from(token.start, inner, False)
        self.expect(")")
        return inner

    def open_range(self) -> Node:
        token = self.advance()
        start = self.expression()
        if not self.at(".."):
            raise self.error("'..'", "']' opens a range that excludes its start")
        return self.range_from(token.start, start, False)

    def range_from(self, position: int, start: Node, start_included: bool) -> Node:
        self.expect("..")
        end = self.expression()
        included = self.at("]")
        if not (included or self.at(")") or self.at("[")):
            raise self.error("']', ')' or '[' at the end of a range")
        self.advance()
        return tree.Interval(position, self.above(start, end), start, end, start_included, included)

    def bracket(self) -> Node:
        token = self.advance()
        elements: list[Node] = []
        if not self.at("]"):
            elements.append(self.expression())
            if self.at(".."):
                return self.range_from(token.start, elements[0], True)
            while self.accept(","):
                elements.append(self.expression())
        self.expect("]")
        return tree.ListOf(token.start, self.above(*elements, levels=2), tuple(elements))

    def context(self) -> Node:
        token = self.advance()
        entries: list[tuple[str, Node]] = []
        outer = len(self.known)
        while not self.at("}"):
            key = self.context_key()
            self.expect(":")
            entries.append((key, self.expression()))
            if " " in key or not key.isidentifier():
                self.learn(key)
            if not self.at("}"):
                self.expect(",")
                if self.at("}"):
                    raise self.error("an entry")
        self.advance()
        self.forget(outer)
        # Keys of words alone stay known: a later filter or path may read them.
        for key, _ in entries:
            if " " in key and key.replace(" ", "").isidentifier() and key not in self.known:
                self.learn(key)
        return tree.ContextOf(token.start, self.above(*(node for _, node in entries)), tuple(entries))

    def context_key(self) -> str:
        if self.token.kind == "string":
            return self.advance().value
        key = self.name_until(":")
        if key is None:
            raise self.error("a key and ':'")
        return key

    def conditional(self) -> Node:
        token = self.advance()
        condition = self.expression()
        self.expect("then")
        then = self.expression()
        self.expect("else", "FEEL has no if without else")
        otherwise = self.expression()
        return tree.If(token.start, self.above(condition, then, otherwise), condition, then, otherwise)

    def iterators(self) -> tuple[tree.Iterator, ...]:
        found: list[tree.Iterator] = []
        while not found or self.accept(","):
            name = self.bound_name("a variable name", "in")
            self.expect("in")
            domain = self.expression()
            end = self.expression() if self.accept("..") else None
            found.append(tree.Iterator(name, domain, end))
        return tuple(found)

    def bound_name(self, what: str, closing: str) -> str:
        """A name that the text itself declares; it is known from here on when it has several words."""
        name = self.plain_name(what)
        if " " in name:
            self.learn(name)
        return name

    def iteration(self) -> Node:
        token, outer = self.advance(), len(self.known)
        iterators = self.iterators()
        self.expect("return")
        body = self.expression()
        self.forget(outer)
        depth = self.above(body, *_domains(iterators), levels=3 + len(iterators))
        return tree.For(token.start, depth, iterators, body)

    def quantified(self) -> Node:
        token, outer = self.advance(), len(self.known)
        iterators = self.iterators()
        self.expect("satisfies")
        condition = self.expression()
        self.forget(outer)
        depth = self.above(condition, *_domains(iterators), levels=3 + len(iterators))
        return tree.Quantified(token.start, depth, token.text, iterators, condition)

    def function(self) -> Node:
        token, outer = self.advance(), len(self.known)
        self.expect("(")
        parameters: list[str] = []
        while not self.at(")"):
            parameters.append(self.bound_name("a parameter name", ")"))
            if self.accept(":"):
                parse_type(self)
            if not self.at(")"):
                self.expect(",")
        self.advance()
        if self.at("external"):
            raise self.error("a body in FEEL", "external functions are not run")
        if len(set(parameters)) < len(parameters):
            raise self.error("parameters with different names")
        body = self.expression()
        self.forget(outer)
        return tree.FunctionOf(token.start, self.above(body, levels=2), tuple(parameters), body)

    def path(self, source: Node) -> Node:
        token = self.advance()
        if self.token.kind == "keyword":
            name = self.advance().text
        else:
            name = self.known_name() or self.plain_name("a name after '.'")
        return tree.Path(token.start, self.above(source), source, spaced(name))

    def filter(self, source: Node) -> Node:
        token = self.advance()
        condition = self.expression()
        self.expect("]")
        return tree.Filter(token.start, self.above(source, condition), source, condition)

    def call(self, callee: Node) -> Node:
        token = self.advance()
        arguments: list[Node] = []
        names: list[str] = []
        while not self.at(")"):
            name = self.name_until(":")
            if arguments and (name is None) == bool(names):
                raise self.error("all arguments with a name or none")
            if name is not None:
                self.expect(":")
                names.append(name)
            arguments.append(self.expression())
            if not self.at(")"):
                self.expect(",")
        self.advance()
        depth = self.above(callee, *arguments, levels=2)
        return tree.Call(token.start, depth, callee, tuple(arguments), tuple(names))

    def tests(self) -> tuple[Node, ...]:
        found = [self.expression()]
        while self.accept(","):
            found.append(self.expression())
        return tuple(found)

    def in_tests(self) -> tuple[Node, ...]:
        """The right side of `in`: one test, or several between round brackets."""
        if not self.at("("):
            return (self.expression(COMPARISON),)
        token = self.advance()
        first = self.expression()
        if self.at(".."):
            return (self.range_from(token.start, first, False),)
        found = [first]
        while self.accept(","):
            found.append(self.expression())
        self.expect(")")
        return tuple(found)


def _domains(iterators: tuple[tree.Iterator, ...]) -> list[Node]:
    return [node for iterator in iterators for node in (iterator.domain, iterator.end) if node is not None]
