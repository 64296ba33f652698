"""Owns the tokens of FEEL: text in, tokens with their places out.
Never decides what a run of words means, nor refuses a text: a sign that fits nowhere is a token that the parser meets.
Called by the cursor, and for the names that the parser is told about.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_KEYWORD_TEXT = "null true false if then else for in return some every satisfies and or between function"
KEYWORDS = frozenset(_KEYWORD_TEXT.split())
# Beyond what `\s` covers, the grammar of DMN counts these as white space; they are cut out of the letters below.
_SPACE = r"\s\u180E\u200B\uFEFF"
# The letters of a name, as the grammar of DMN lists them; `?` stands alone.
_START = (
    r"A-Za-z_\u00C0-\u00D6\u00D8-\u00F6\u00F8-\u02FF\u0370-\u037D\u037F-\u167F\u1681-\u180D\u180F-\u1FFF\u200C-\u200D"
    r"\u2070-\u218F\u2C00-\u2FEF\u3001-\uD7FF\uF900-\uFDCF\uFDF0-\uFEFE\uFF00-\uFFFD\U00010000-\U000EFFFF"
)
_TOKEN = re.compile(
    rf"""
      (?P<space>(?:[{_SPACE}]+|//[^\n\v\f\r]*|/\*.*?\*/)+)
    | (?P<number>(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    | (?P<string>"[^"\\]*(?:\\.[^"\\]*)*")
    | (?P<escaped>`[^`\n]+`)
    | (?P<name>[{_START}][{_START}0-9\u00B7\u0300-\u036F\u203F-\u2040]*|\?)
    | (?P<unclosed>".*|/\*.*)
    | (?P<symbol>\*\*|\.\.|->|<=|>=|!=|[-+*/=<>()\[\]{{}},:.@])
    | (?P<stray>&&|\|\||\$\{{|\#\{{|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_SPACES = re.compile(f"[{_SPACE}]+")
_ESCAPE = re.compile(r"\\(?:U([0-9A-Fa-f]{6})|u([0-9A-Fa-f]{4})|(.))", re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")
_SIMPLE = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "'": "'", "\\": "\\"}


class Token(NamedTuple):
    """One token: kind is name, keyword, number, string, escaped, symbol, stray, unclosed or end.

    `value` is the content of a string or of an escaped name. A stray sign has no meaning in FEEL, except in a name
    that is known; an unclosed string or comment reaches to the end of the text.
    """

    kind: str
    text: str
    start: int
    end: int
    value: str = ""


def spaced(name: str) -> str:
    """A name with its inner white space reduced to single spaces."""
    return _SPACES.sub(" ", name).strip()


def unescaped(body: str) -> str:
    """The content of a string literal. An unknown escape stays as written, as Camunda does, for patterns."""
    text = _ESCAPE.sub(_replaced, body) if "\\" in body else body
    if _SURROGATE.search(text) is None:
        return text
    # A pair of surrogates is one character; half a pair is none.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _replaced(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    if code:
        point = int(code, 16)
        return chr(point) if point <= 0x10FFFF else match[0]
    return _SIMPLE.get(match[3], match[0])


def tokenize(text: str) -> list[Token]:
    """All tokens, closed by one of kind `end`."""
    tokens: list[Token] = []
    for match in _TOKEN.finditer(text):
        kind, written = str(match.lastgroup), match[0]
        if kind == "space":
            continue
        if kind == "string":
            tokens.append(Token(kind, written, match.start(), match.end(), unescaped(written[1:-1])))
        elif kind == "escaped":
            tokens.append(Token(kind, written, match.start(), match.end(), written[1:-1]))
        else:
            word = kind == "name" and written in KEYWORDS
            tokens.append(Token("keyword" if word else kind, written, match.start(), match.end()))
    tokens.append(Token("end", "", len(text), len(text)))
    return tokens
