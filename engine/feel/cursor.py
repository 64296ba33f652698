"""Owns the place in the tokens of one text: looking ahead, expecting, gathering names that contain spaces.
Never builds syntax trees.
Called by the parser, which extends it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from engine.feel.environment import FeelLimits
from engine.feel.faults import FeelSyntaxError
from engine.feel.lexer import Token, tokenize

_NAME_SYMBOLS = frozenset("+-*/.")
MAX_SPACED_NAMES = 500
MAX_NAME_TOKENS = 60
MAX_NAME_LENGTH = 200
_WORDS = frozenset(("name", "keyword", "number"))


def spaced(name: str) -> str:
    """A name with its inner white space reduced to single spaces."""
    return " ".join(name.split())


def _needs_help(name: str) -> bool:
    """Whether a name is more than one token, so that the parser must know it to recognise it."""
    try:
        return len(tokenize(name)) > 2
    except FeelSyntaxError:
        return False  # only reachable between back quotes


class Cursor:
    """Tokens of a text and the names of several tokens that are known at the present place."""

    def __init__(self, text: str, names: Collection[str], calls: Iterable[str], limits: FeelLimits) -> None:
        if len(text) > limits.max_text:
            raise FeelSyntaxError(text, limits.max_text, "more", f"at most {limits.max_text} characters")
        self.text = text
        self.limits = limits
        self.tokens = tokenize(text)
        self.index = 0
        self.token = self.tokens[0]
        self.known: list[str] = []
        self._counts: Counter[str] = Counter()
        for name in names:
            if _needs_help(name):
                self.learn(spaced(name))
        self.calls = frozenset(name for name in calls if " " in name)
        self.nesting = 0

    def learn(self, name: str) -> None:
        """Know a name of several tokens from here on."""
        if len(self.known) >= MAX_SPACED_NAMES:
            raise self.error(f"at most {MAX_SPACED_NAMES} names with spaces or operators")
        self.known.append(name)
        self._counts[name] += 1

    def forget(self, mark: int) -> None:
        """Know no more than when `known` had `mark` names."""
        for name in self.known[mark:]:
            self._counts[name] -= 1
            if not self._counts[name]:
                del self._counts[name]
        del self.known[mark:]

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

    def error(self, expected: str, hint: str = "") -> FeelSyntaxError:
        """The error that the present token does not fit."""
        found = "the end" if self.token.kind == "end" else f"'{self.token.text[:40]}'"
        return FeelSyntaxError(self.text, self.token.start, found, expected, hint)

    def _slice(self, first: int, count: int) -> str:
        return spaced(self.text[self.tokens[first].start : self.tokens[first + count - 1].end])

    def _known_tokens(self) -> int:
        """The tokens of the longest known name that begins here, 0 when none does."""
        longest = 0
        for count in range(2, min(MAX_NAME_TOKENS, len(self.tokens) - self.index) if self.known else 2):
            written = self._slice(self.index, count)
            if len(written) > MAX_NAME_LENGTH:
                break
            if written in self._counts:
                longest = count
        return longest

    def _jump(self, count: int) -> str:
        name = self._slice(self.index, count)
        self.index += count
        self.token = self.tokens[self.index]
        return name

    def known_name(self) -> str | None:
        """Step over the longest known name of several tokens that begins here."""
        count = max(self._known_tokens(), self._called_tokens())
        return self._jump(count) if count else None

    def _called_tokens(self) -> int:
        """The tokens of a built-in's name that begins here and is followed by `(`."""
        count = 0
        while count < MAX_NAME_TOKENS and self.peek(count).kind in _WORDS:
            count += 1
        if count < 2 or self.peek(count).text != "(":
            return 0
        return count if self._slice(self.index, count) in self.calls else 0

    def plain_name(self, what: str) -> str:
        """Step over one or more words that make a name, up to a keyword or symbol."""
        if self.token.kind == "escaped":
            return self.advance().value
        if self.token.kind != "name":
            raise self.error(what)
        count = 1
        while self.peek(count).kind in ("name", "number") and not self._type_test(count):
            count += 1
        return self._jump(count)

    def _type_test(self, ahead: int) -> bool:
        return self.peek(ahead).text == "instance" and self.peek(ahead + 1).text == "of"

    def name_until(self, closing: str) -> str | None:
        """Step over a name that may contain keywords, numbers and + - * / . and ends before `closing`."""
        if self.token.kind == "escaped" and self.peek().text == closing:
            return self.advance().value
        if self.token.kind not in ("name", "keyword"):
            return None
        count = 0
        while count < MAX_NAME_TOKENS and (self.peek(count).kind in _WORDS or self.peek(count).text in _NAME_SYMBOLS):
            count += 1
        if self.peek(count).text != closing or self.peek(count).kind != "symbol":
            return None
        return self._jump(count)
