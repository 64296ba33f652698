"""Owns the grammar: a Pratt parser from FEEL text to a syntax tree.
Never evaluates and never gives up silently: what does not fit raises FeelSyntaxError at its place.
Called by the compiler's entry points in this package.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from engine.feel import mistakes, operations, tree
from engine.feel.literals import number, temporal
from engine.feel.phrases import Phrases
from engine.feel.tree import Node
from engine.feel.type_parser import height, parse_type

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
_BOUNDS = frozenset(("<", "<=", ">", ">=", "=", "!="))
# After one of these the `[` behind the end of a range closes it; before anything else it opens a filter of that end.
_AFTER_RANGE_TEXT = ") ] } , . .. : = != < <= > >= * / + ** [ and or then else return satisfies between in"
_AFTER_RANGE = frozenset((*_AFTER_RANGE_TEXT.split(), ""))
EXPRESSION = "an expression"
TESTED = "?"


class Parser(Phrases):
    """One parse of one text."""

    @cached_property
    def prefixes(self) -> dict[str, Callable[[], Node]]:
        """What reads the form that begins with a token."""
        return {
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
        if self.at("="):
            raise self.error(EXPRESSION, "leave out the '=' that Modeler writes before an expression")
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
            self.open()
        tests = self.tests()
        if negated:
            self.close(")")
        self.finish()
        return tree.In(0, self.above(*tests, levels=2), None, tests, negated)

    def _closes_at_end(self) -> bool:
        """Whether the bracket after `not` closes at the end of the text; a range may close by another than opens it."""
        opened: list[str] = []
        for place in range(self.index + 1, len(self.tokens) - 1):
            token = self.tokens[place]
            if token.text == "in" and token.kind == "keyword":
                opened[-1] = "in"  # the two dots of a loop make no range
            elif token.text == ".." and opened[-1] != "in":
                opened[-1] = ".."
            elif token.kind == "symbol" and self._closes(opened, token.text, self.tokens[place + 1].text):
                opened.pop()
            elif token.kind == "symbol" and token.text in ("(", "[", "{", "]"):
                opened.append(token.text)
            if not opened:
                return place == len(self.tokens) - 2
        return False

    @staticmethod
    def _closes(opened: list[str], bracket: str, following: str) -> bool:
        if bracket == "]":
            return opened[-1] in ("[", "in", "..")
        return bracket in (")", "}") or (bracket == "[" and opened[-1:] == [".."] and following in _AFTER_RANGE)

    def finish(self) -> None:
        if self.token.kind != "end":
            raise self.error("an operator or the end", mistakes.missing_operator(self.tokens, self.index))

    def expression(self, floor: int = 0) -> Node:
        """An expression of operators that bind tighter than `floor`."""
        self.nesting += 1
        if self.nesting > self.limits.max_depth:
            raise self.error(f"at most {self.limits.max_depth} nested expressions", "split the expression")
        left = self.infixes(self.bound() if not floor and self.token.text in _BOUNDS else self.prefix(), floor)
        self.nesting -= 1
        return left

    def infixes(self, left: Node, floor: int) -> Node:
        """What the operators behind `left` that bind tighter than `floor` make of it."""
        while (power := self.infix_power(left)) > floor:
            left = self.infix(left, power)
        return left

    def infix_power(self, left: Node) -> int:
        token = self.token
        if token.kind in ("symbol", "keyword") or (token.text == "instance" and self.peek().text == "of"):
            if token.text == "[" and self._closes_range(left):
                return 0
            return _INFIX.get(token.text, 0)
        return 0

    def _closes_range(self, end: Node) -> bool:
        """Whether the `[` here closes a range; a literal end has no filter."""
        if not (self.openers and self.openers[-1].range_end):
            return False
        following = self.peek()
        if following.text == "instance":
            return self.peek(2).text == "of"
        return isinstance(end, tree.Literal) or (following.kind != "string" and following.text in _AFTER_RANGE)

    def prefix(self) -> Node:
        token = self.token
        if token.kind == "number":
            return number(self)
        if token.kind == "string":
            self.advance()
            return tree.Literal(token.start, 1, token.value)
        if token.kind == "escaped":
            self.advance()
            return tree.Name(token.start, 1, token.value)
        known = self.known_name() if token.kind in ("name", "keyword", "stray") else None
        if known is not None:
            return tree.Name(token.start, 1, known)
        if token.kind == "name":
            return tree.Name(token.start, 1, self.advance().text)
        if token.kind != "end" and token.text in _CONSTANTS:
            self.advance()
            return tree.Literal(token.start, 1, _CONSTANTS[token.text])
        if token.kind != "end" and token.text in self.prefixes:
            return self.prefixes[token.text]()
        raise self.no_expression(EXPRESSION)

    def infix(self, left: Node, power: int) -> Node:
        token = self.token
        if power == POSTFIX:
            return {".": self.path, "[": self.filter, "(": self.call}[token.text](left)
        self.advance()
        if power == INSTANCE:
            self.expect("of")
            wanted = parse_type(self, self.types)
            return tree.InstanceOf(token.start, self.above(left, levels=1 + height(wanted)), left, wanted)
        if token.text in ("and", "or"):
            return self.logic(left, token.text, power, token.start)
        if token.text == "between":
            low = self.expression(COMPARISON)
            self.expect("and", "written x between a and b")
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

    def negation(self) -> Node:
        token = self.advance()
        if self.token.kind == "number":  # the sign of a numeric literal is a part of it
            positive = number(self).value
            return tree.Literal(token.start, 1, operations.negate(positive))
        operand = self.expression(UNARY - 1)
        return tree.Negation(token.start, self.above(operand), operand)

    def bound(self) -> Node:
        """A range from one side, `< 5`; `= 5` is the range of that value, and `!= 5` the test of `?`."""
        token = self.advance()
        end = self.expression(COMPARISON)
        if token.text == "!=":
            return self._compared(token.start, token.text, end)
        if token.text == "=":
            return tree.Interval(token.start, self.above(end), end, end, True, True)
        included = "=" in token.text
        if token.text[0] == "<":
            return tree.Interval(token.start, self.above(end), None, end, False, included)
        return tree.Interval(token.start, self.above(end), end, None, included, False)

    def _compared(self, position: int, operator: str, value: Node) -> Node:
        tested = tree.Name(position, 1, TESTED)
        return tree.Comparison(position, self.above(tested, value), operator, tested, value)

    def parenthesis(self) -> Node:
        token = self.open()
        inner = self.expression()
        if self.at(".."):
            return self.range_from(token.start, inner, False)
        self.close(")")
        return inner

    def open_range(self) -> Node:
        token = self.open()
        start = self.expression()
        if not self.at(".."):
            raise self.error("'..'", "']' opens a range that excludes its start")
        return self.range_from(token.start, start, False)

    def range_from(self, position: int, start: Node, start_included: bool) -> Node:
        self.expect("..")
        self.openers[-1].range_end = True
        end = self.expression()
        included = self.close("]", ")", "[").text == "]"
        return tree.Interval(position, self.above(start, end), start, end, start_included, included)

    def bracket(self) -> Node:
        token = self.open()
        elements: list[Node] = []
        while not self.ends("]"):
            elements.append(self.expression())
            if self.at("..") and len(elements) == 1:
                return self.range_from(token.start, elements[0], True)
            if not self.separated("]", "elements"):
                break
        self.close("]")
        return tree.ListOf(token.start, self.above(*elements, levels=2), tuple(elements))

    def context(self) -> Node:
        token, outer = self.open(), len(self.known)
        entries: list[tuple[str, Node]] = []
        while not self.at("}"):
            key = self.context_key()
            entries.append((key, self.expression()))
            self.known.learn(key)
            self.members.learn(key)
            if not self.separated("}", "entries"):
                break
        self.close("}")
        self.known.forget(outer)
        # Keys of words alone stay known: a later filter may read them as entries of its items.
        for key, _ in entries:
            if " " in key and key.replace(" ", "").isidentifier():
                self.known.learn(key)
        return tree.ContextOf(token.start, self.above(*(node for _, node in entries)), tuple(entries))

    def context_key(self) -> str:
        """Step over a key and its colon."""
        if self.token.kind == "string" or (self.token.kind == "escaped" and self.peek().text == ":"):
            key = self.advance().value
        else:
            named = self.name_until(":")
            if named is None:
                raise self.error("a key and ':'", mistakes.no_key(self.tokens, self.index))
            key = named
        self.expect(":", "written {key: value}")
        return key

    def path(self, source: Node) -> Node:
        token = self.advance()
        name = self.member_name()
        return tree.Path(token.start, self.above(source), source, name)

    def filter(self, source: Node) -> Node:
        token = self.open()
        condition = self.expression()
        self.close("]")
        return tree.Filter(token.start, self.above(source, condition), source, condition)

    def call(self, callee: Node) -> Node:
        token = self.open()
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
            if not self.separated(")", "arguments"):
                break
        self.close(")")
        if isinstance(callee, tree.Name | tree.Path):
            self.called.add(callee.name)
        depth = self.above(callee, *arguments, levels=2)
        return tree.Call(token.start, depth, callee, tuple(arguments), tuple(names))

    def tests(self) -> tuple[Node, ...]:
        found = [self.test(self.expression())]
        while self.accept(","):
            found.append(self.test(self.expression()))
        return tuple(found)

    def test(self, node: Node) -> Node:
        """A test as it is applied: `= x` compares values without order too; a list of tests is each of them."""
        if isinstance(node, tree.Interval) and node.start is node.end and node.start is not None:
            if isinstance(node.start, tree.Literal):
                return node.start
            return self._compared(node.position, "=", node.start)
        if isinstance(node, tree.ListOf) and any(map(_reads_tested, node.elements)):
            tests = tuple(map(self.test, node.elements))
            tested = tree.Name(node.position, 1, TESTED)
            return tree.In(node.position, self.above(*tests, levels=2), tested, tests)
        return node

    def in_tests(self) -> tuple[Node, ...]:
        """The right side of `in`: one test, or several between round brackets."""
        if not self.at("("):
            return (self.test(self.bound() if self.token.text in _BOUNDS else self.expression(COMPARISON)),)
        token = self.open()
        first = self.expression()
        if self.at(","):
            self.advance()
            tests = (self.test(first), *self.tests())
            self.close(")")
            return tests
        if self.at(".."):
            first = self.range_from(token.start, first, False)
        else:
            self.close(")")
        return (self.test(self.infixes(first, COMPARISON)),)


def _reads_tested(node: Node) -> bool:
    """Whether a form compares the value under test, as `!= x` does."""
    return isinstance(node, tree.Comparison) and isinstance(node.left, tree.Name) and node.left.name == TESTED
