"""Owns the tokens of FEEL: text in, tokens with their places out.
Never decides what a run of words means: names with spaces are the parser's business.
Called by the parser, and for the names that the parser is told about.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from engine.feel.faults import FeelSyntaxError

_KEYWORD_TEXT = "null true false if then else for in return some every satisfies and or between function"
KEYWORDS = frozenset(_KEYWORD_TEXT.split())
# The letters of a name, as the grammar of DMN lists them; `?` stands alone.
_START = (
    r"A-Za-z_\u00B7\u00C0-\u00D6\u00D8-\u00F6\u00F8-\u02FF\u0370-\u037D\u037F-\u1FFF\u200C-\u200D\u2070-\u218F"
    r"\u2C00-\u2FEF\u3001-\uD7FF\uF900-\uFDCF\uFDF0-\uFFFD\U00010000-\U000EFFFF"
)
_TOKEN = re.compile(
    rf"""
      (?P<space>(?:\s+|//[^\n]*|/\*.*?\*/)+)
    | (?P<number>(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    | (?P<string>"(?:[^"\\]|\\.)*")
    | (?P<escaped>`[^`\n]+`)
    | (?P<name>[{_START}][{_START}0-9\u0300-\u036F\u203F-\u2040]*|\?)
    | (?P<symbol>\*\*|\.\.|->|<=|>=|!=|[-+*/=<>()\[\]{{}},:.@])
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:U([0-9A-Fa-f]{6})|u([0-9A-Fa-f]{4})|(.))", re.DOTALL)
_SIMPLE = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "'": "'", "\\": "\\"}
_HINTS = {
    "'": "text stands in double quotes",
    '"': "this text has no closing quote",
    "&": "write 'and'",
    "|": "write 'or'",
    "!": "write not(...) or !=",
    "%": "write modulo(a, b)",
    "^": "write **",
    ";": "write ',' or ':'",
}


class Token(NamedTuple):
    """One token: kind is `name`, `keyword`, `number`, `string`, `symbol` or `end`; `value` is a string's content."""

    kind: str
    text: str
    start: int
    end: int
    value: str = ""


def unescaped(body: str) -> str:
    """The content of a string literal. An unknown escape stays as written, as Camunda does, for patterns."""
    if "\\" not in body:
        return body
    text = _ESCAPE.sub(_replaced, body)
    # A pair of \u surrogates is one character.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if "\\u" in body else text


def _replaced(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    if code:
        point = int(code, 16)
        return chr(point) if point <= 0x10FFFF else match[0]
    return _SIMPLE.get(match[3], match[0])


def tokenize(text: str) -> list[Token]:
    """All tokens, closed by one of kind `end`. Raises FeelSyntaxError at the first character that fits nowhere."""
    tokens: list[Token] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None or (text.startswith("/*", position) and match.lastgroup == "symbol"):
            raise _unexpected(text, position)
        kind = str(match.lastgroup)
        end = match.end()
        if kind == "string":
            tokens.append(Token(kind, match[0], position, end, unescaped(match[0][1:-1])))
        elif kind == "escaped":
            tokens.append(Token(kind, match[0], position, end, match[0][1:-1]))
        elif kind != "space":
            word = kind == "name" and match[0] in KEYWORDS
            tokens.append(Token("keyword" if word else kind, match[0], position, end))
        position = end
    tokens.append(Token("end", "", len(text), len(text)))
    return tokens


def _unexpected(text: str, position: int) -> FeelSyntaxError:
    character = text[position]
    if text.startswith("/*", position):
        return FeelSyntaxError(text, position, "'/*'", "a comment closed by '*/'")
    return FeelSyntaxError(text, position, repr(character), "an expression", _HINTS.get(character, ""))
