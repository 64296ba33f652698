"""Owns the place in the tokens of one text: looking ahead, expecting, open brackets, gathering names with spaces.
Never builds syntax trees.
Called by the parser, which extends it.
"""

from __future__ import annotations

from collections.abc import Collection, Container

from engine.feel import mistakes
from engine.feel.environment import FeelLimits
from engine.feel.faults import FeelSyntaxError
from engine.feel.lexer import Token, tokenize
from engine.feel.vocabulary import Vocabulary, joined, longer, vocabulary_of

_NAME_SYMBOLS = frozenset("+-*/.'’")
MAX_NAME_TOKENS = 60
MAX_CALLED_WORDS = 8
_WORDS = frozenset(("name", "keyword", "number"))
_BEGINNINGS = frozenset(("name", "number", "string", "escaped"))


class Opener:
    """A bracket that is open: its token, and whether it is a range of which the end is being read."""

    __slots__ = ("range_end", "token")

    def __init__(self, token: Token) -> None:
        self.token = token
        self.range_end = False


class Cursor:
    """Tokens of a text, the brackets open at the present place, and the names of several tokens known there.

    `members` are the names that any context of the text has had so far: a path may end in one of them. `called` are the
    names that the text has called so far.
    """

    def __init__(self, text: str, names: Collection[str], calls: Container[str], limits: FeelLimits) -> None:
        if len(text) > limits.max_text:
            raise FeelSyntaxError(text, limits.max_text, "more", f"at most {limits.max_text} characters")
        self.text = text
        self.limits = limits
        self.tokens = tokenize(text)
        self.index = 0
        self.token = self.tokens[0]
        self.known = Vocabulary(vocabulary_of(frozenset(names)))
        self.members = Vocabulary()
        self.calls = calls
        self.openers: list[Opener] = []
        self.nesting = 0
        self.called: set[str] = set()

    def advance(self) -> Token:
        """Step over the present token and return it."""
        token = self.token
        if token.kind != "end":
            self.index += 1
            self.token = self.tokens[self.index]
        return token

    def peek(self, ahead: int = 1) -> Token:
        """The token `ahead` of the present one; the last one is of kind `end`."""
        return self.tokens[min(self.index + ahead, len(self.tokens) - 1)]

    def at(self, text: str) -> bool:
        """Whether the present token is this symbol, keyword or word."""
        return self.token.text == text and self.token.kind in ("symbol", "keyword", "name")

    def accept(self, text: str) -> bool:
        """Step over the present token if it is `text`."""
        if self.at(text):
            self.advance()
            return True
        return False

    def expect(self, text: str, hint: str = "") -> Token:
        """Step over `text`. Raises FeelSyntaxError when something else stands here."""
        if not self.at(text):
            raise self.error(f"'{text}'", hint)
        return self.advance()

    def open(self) -> Token:
        """Step over an opening bracket."""
        self.openers.append(Opener(self.token))
        return self.advance()

    def close(self, *closers: str, hint: str = "") -> Token:
        """Step over the bracket that closes the one opened last. Raises FeelSyntaxError when none stands here."""
        if not any(map(self.at, closers)):
            *others, last = (f"'{closer}'" for closer in closers)
            raise self.unclosed(f"{', '.join(others)} or {last}" if others else last, hint)
        self.openers.pop()
        return self.advance()

    def ends(self, closer: str) -> bool:
        """Whether the present token closes a bracket; a `]` with a value behind it opens a range."""
        if not self.at(closer):
            return False
        following = self.peek()
        begins = following.kind in _BEGINNINGS or following.text == "@"
        return closer != "]" or not begins or (following.text == "instance" and self.peek(2).text == "of")

    def separated(self, closer: str, what: str) -> bool:
        """Step over a comma between two of `what`; False before `closer`. Raises FeelSyntaxError at anything else."""
        if self.ends(closer):
            return False
        if not self.accept(","):
            comes = self.token.kind in ("name", "number", "string", "escaped") or self.token.text in ("(", "[", "{")
            raise self.unclosed(f"',' or '{closer}'", f"',' separates {what}" if comes else "")
        if self.ends(closer):
            raise self.error(f"another of the {what}", mistakes.missing_operand(self.tokens, self.index))
        return True

    def unclosed(self, expected: str, hint: str = "") -> FeelSyntaxError:
        """The error that the bracket opened last is not closed here."""
        told = mistakes.not_closed(self.tokens, self.index)
        return self.error(expected, "; ".join(filter(None, (hint, told))), self.openers[-1].token.start)

    def no_expression(self, expected: str) -> FeelSyntaxError:
        """The error that an expression or a name should begin here."""
        hint = "" if self._in_type() else mistakes.missing_operand(self.tokens, self.index)
        ended = self.token.kind == "end" and self.openers
        return self.error(expected, hint, self.openers[-1].token.start if ended else None)

    def error(self, expected: str, hint: str = "", opener: int | None = None) -> FeelSyntaxError:
        """The error that the present token does not fit."""
        token = self.token
        if token.kind == "unclosed":
            expected, hint = mistakes.unclosed(token)
            opener = None
        elif not self._in_type():
            told = mistakes.sign(self.tokens, self.index)
            hint, opener = (told, None) if told else (hint, opener)
        return FeelSyntaxError(self.text, token.start, mistakes.found(token), expected, hint, opener)

    def _in_type(self) -> bool:
        """Whether the bracket opened last is that of a type, which is no operator."""
        return bool(self.openers) and self.openers[-1].token.text == "<"

    def jump(self, count: int) -> None:
        """Step over `count` tokens."""
        self.index += count
        self.token = self.tokens[self.index]

    def part_bracket(self) -> None:
        """Inside the brackets of a type, take `>=` for the bracket that closes it and the sign behind it."""
        token = self.token
        if token.text == ">=" and self._in_type():
            bracket = Token("symbol", ">", token.start, token.start + 1)
            self.tokens[self.index : self.index + 1] = bracket, Token("symbol", "=", bracket.end, token.end)
            self.token = bracket

    def known_name(self) -> str | None:
        """Step over the longest known name of several tokens that begins here."""
        count, name = self.known.longest(self.tokens, self.index)
        called = self._called_tokens()
        if called > count:
            count, name = called, joined(self.tokens, self.index, called)
        if not count:
            return None
        self.jump(count)
        return name

    def _called_tokens(self) -> int:
        """The tokens of a built-in's name that begins here and is followed by `(`, or by the end of an operand."""
        count = 0
        while count < MAX_CALLED_WORDS and self.peek(count).kind in _WORDS:
            count += 1
            ends = self.peek(count)
            alone = ends.text == "instance" or ends.kind in ("symbol", "end")
            if count > 1 and alone and joined(self.tokens, self.index, count) in self.calls:
                # `date and time` that nothing calls is whether both are true.
                return 0 if ends.text != "(" and count == 3 and self.peek().text == "and" else count
        return 0

    def member_name(self) -> str:
        """Step over the name after a dot: a known one, a keyword, or all words that follow."""
        count, name = max(
            self.known.longest(self.tokens, self.index), self.members.longest(self.tokens, self.index), key=longer
        )
        if self.token.kind == "keyword" and not count:
            return self.advance().text
        plain = self._plain_tokens() if self.token.kind == "name" else 0
        if count and count >= plain:
            self.jump(count)
            return name
        return self.plain_name("a name after '.'")

    def plain_name(self, what: str) -> str:
        """Step over one or more words that make a name, up to a keyword or symbol."""
        if self.token.kind == "escaped":
            return self.advance().value
        if self.token.kind != "name":
            raise self.no_expression(what)
        return self._gathered(self._plain_tokens())

    def _plain_tokens(self) -> int:
        count = 1
        while self.peek(count).kind in ("name", "number") and self.peek(count).text != "?":
            if self.peek(count).text == "instance" and self.peek(count + 1).text == "of":
                break
            count += 1
        return count

    def _gathered(self, count: int) -> str:
        name = joined(self.tokens, self.index, count)
        self.jump(count)
        return name

    def name_until(self, *closing: str) -> str | None:
        """Step over a name that may contain keywords, numbers and + - * / . ' and ends before one of `closing`."""
        if self.token.kind == "escaped" and self.peek().text in closing:
            return self.advance().value
        if self.token.kind not in ("name", "keyword"):
            return None
        count = 0
        while count < MAX_NAME_TOKENS and self._in_name(count) and (not count or self.peek(count).text not in closing):
            count += 1
        if self.peek(count).text not in closing or self.peek(count).kind not in ("symbol", "keyword"):
            return None
        return self._gathered(count)

    def _in_name(self, ahead: int) -> bool:
        return self.peek(ahead).kind in _WORDS or self.peek(ahead).text in _NAME_SYMBOLS
