"""Owns the forms of FEEL that begin with a word: if, for, some, every, function.
Never knows how operators bind: expressions are parsed by the parser that extends it.
Called by the parser.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Container, Mapping

from engine.feel import mistakes, tree
from engine.feel.cursor import Cursor
from engine.feel.environment import FeelLimits
from engine.feel.tree import Node
from engine.feel.type_parser import Accepts, height, parse_type

_FUNCTION = "a function is written function(a, b) a + b"
_LANGUAGES = {"java": "Java", "pmml": "PMML"}


class Phrases(Cursor):
    """The forms that begin with a word."""

    def __init__(
        self,
        text: str,
        names: Collection[str],
        calls: Container[str],
        limits: FeelLimits,
        types: Mapping[str, Accepts] | None = None,
    ) -> None:
        super().__init__(text, names, calls, limits)
        self.types = types or {}

    @abstractmethod
    def expression(self, floor: int = 0) -> Node:
        """An expression of operators that bind tighter than `floor`."""

    def above(self, *nodes: Node, levels: int = 1) -> int:
        """The height of a tree over `nodes`, whose top takes `levels` Python frames to evaluate.

        Raises FeelSyntaxError when it is too high.
        """
        depth = levels + max((node.depth for node in nodes), default=0)
        if depth > self.limits.max_depth:
            raise self.error(f"at most {self.limits.max_depth} nested operations", "split the expression")
        return depth

    def conditional(self) -> Node:
        token = self.advance()
        condition = self.expression()
        self.expect("then", mistakes.IF)
        then = self.expression()
        self.expect("else", mistakes.no_else(self.tokens, self.index))
        otherwise = self.expression()
        return tree.If(token.start, self.above(condition, then, otherwise), condition, then, otherwise)

    def iterators(self, form: str) -> tuple[tree.Iterator, ...]:
        found: list[tree.Iterator] = []
        while not found or self.accept(","):
            name = self.bound_name("a variable name", form, "in")
            self.expect("in", form)
            domain = self.expression()
            end = self.expression() if self.accept("..") else None
            found.append(tree.Iterator(name, domain, end))
        return tuple(found)

    def bound_name(self, what: str, form: str, *closing: str) -> str:
        """A name that the text itself declares; it is known from here on when it has several tokens."""
        name = self.name_until(*closing)
        if name is None:
            if self.token.kind != "name":
                raise self.error(what, form)
            name = self.plain_name(what)
        self.known.learn(name)
        return name

    def iteration(self) -> Node:
        token, outer = self.advance(), len(self.known)
        iterators = self.iterators(mistakes.FOR)
        self.expect("return", mistakes.FOR)
        body = self.expression()
        self.known.forget(outer)
        depth = self.above(body, *_domains(iterators), levels=3 + len(iterators))
        return tree.For(token.start, depth, iterators, body)

    def quantified(self) -> Node:
        token, outer = self.advance(), len(self.known)
        iterators = self.iterators(mistakes.QUANTIFIED)
        self.expect("satisfies", mistakes.QUANTIFIED)
        condition = self.expression()
        self.known.forget(outer)
        depth = self.above(condition, *_domains(iterators), levels=3 + len(iterators))
        return tree.Quantified(token.start, depth, token.text, iterators, condition)

    def function(self) -> Node:
        token, outer = self.advance(), len(self.known)
        if not self.at("("):
            raise self.error("'('", _FUNCTION)
        self.open()
        parameters: list[str] = []
        types: list[tree.TypeOf | None] = []
        while not self.at(")"):
            place = self.token
            name = self.bound_name("a parameter name", _FUNCTION, ":", ",", ")")
            if name in parameters:
                self.jump(self.tokens.index(place) - self.index)
                raise self.error("parameters with different names")
            parameters.append(name)
            types.append(self._declared_type() if self.accept(":") else None)
            if not self.separated(")", "parameters"):
                break
        self.close(")")
        if self.at("external") and self.peek().text == "{":
            self._external()
        body = self.expression()
        self.known.forget(outer)
        depth = self.above(body, levels=2 + max((height(kind) for kind in types if kind is not None), default=0))
        end = self.tokens[self.index - 1].end
        return tree.FunctionOf(token.start, depth, tuple(parameters), body, tuple(types), end)

    def _declared_type(self) -> tree.TypeOf:
        declared = parse_type(self, self.types)
        pending = [declared]
        while pending:
            part = pending.pop()
            if not part.known:
                raise self.no_type(part)
            pending += part.parts()
        return declared

    def no_type(self, unknown: tree.TypeOf) -> Exception:
        """The error of a parameter whose type does not exist."""
        self.index = next(place for place, token in enumerate(self.tokens) if token.start == unknown.position)
        self.token = self.tokens[self.index]
        own = ", ".join(sorted(self.types)[:20])
        return self.error(
            "a type", f"a number, string, boolean, date, list<...> and so on{', or ' + own if own else ''}"
        )

    def _external(self) -> None:
        """Refuse a function of Java or PMML, after reading all of it."""
        place = self.index
        self.advance()
        mapping = self.expression()
        self.index, self.token = place, self.tokens[place]
        written = _written(mapping, "java", "class", "method signature") or _written(
            mapping, "pmml", "document", "model"
        )
        raise self.error("a body in FEEL", f"{written or 'a function outside FEEL'} is not run; {_FUNCTION}")


def _written(mapping: Node, kind: str, first: str, second: str) -> str:
    """What an external function would run, where its context says so in literal texts."""
    outer = dict(mapping.entries) if isinstance(mapping, tree.ContextOf) else {}
    inner = outer.get(kind)
    entries = dict(inner.entries) if isinstance(inner, tree.ContextOf) else {}
    written = [
        str(entry.value) for entry in (entries.get(first), entries.get(second)) if isinstance(entry, tree.Literal)
    ]
    return " ".join((_LANGUAGES[kind], *written)) if written else ""


def _domains(iterators: tuple[tree.Iterator, ...]) -> list[Node]:
    return [node for iterator in iterators for node in (iterator.domain, iterator.end) if node is not None]
