"""Owns what designers write in the place of FEEL, coming from other languages or a slip, and what to write instead.
Never decides whether a text is FEEL: it is asked when the parser has found that it is not.
Called by the cursor for the hint of an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from unicodedata import name as unicode_name

from engine.feel.lexer import KEYWORDS, Token

MAX_FOUND = 40
_STRAY = {
    "&&": "write 'and'",
    "&": "write 'and'; texts are joined by '+'",
    "||": "write 'or'",
    "|": "write 'or'",
    "!": "write not(...) or !=",
    "${": "a variable stands alone, without ${ and }",
    "#{": "a variable stands alone, without #{ and }",
    "$": "a variable stands alone, without $",
    "'": 'text stands in double quotes: "..."',
    "`": "a name between back quotes ends on its line with a back quote",
    "%": "write modulo(a, b)",
    "^": "write **",
    "~": 'write matches(text, "pattern")',
    ";": "write ',' between elements and ':' after a key",
    "\\": 'a backslash stands in text only: "\\n"',
    "#": "a comment begins with // or stands between /* and */",
}
_STRAY |= dict.fromkeys("“”„‟«»″", 'text stands in straight double quotes: "..."')
_STRAY |= dict.fromkeys("‘’‚‛′´", 'text stands in straight double quotes: "..."')
_STRAY |= {
    "≤": "write <=",
    "≥": "write >=",
    "≠": "write !=",
    "×": "write *",
    "÷": "write /",
    "−": "write -",
    "–": "write -",
}
_STRAY |= {"…": "write ..", "→": "write function(x) x + 1, without an arrow"}
_GLUED = {
    "??": "write get or else(a, b)",
    "==": "equality is a single =",
    "!==": "inequality is !=",
    "<>": "inequality is !=",
    "=>": "write >=; a function is written function(x) x + 1",
    "=<": "write <=",
    "<=>": "FEEL has =, <, <=, > and >=",
    "++": "FEEL changes no variable: write + 1",
    "+=": "FEEL changes no variable: write the new value alone",
    "-=": "FEEL changes no variable: write the new value alone",
    "*=": "FEEL changes no variable: write the new value alone",
    "/=": "inequality is !=",
    "...": "a range has two dots",
}
_WORDS = {
    "is": "equality is =, a type is tested with 'instance of'",
    "not": "write not(...)",
    "eq": "write =",
    "ne": "write !=",
    "lt": "write <",
    "gt": "write >",
    "le": "write <=",
    "ge": "write >=",
    "mod": "write modulo(a, b)",
    "div": "write floor(a / b)",
    "instanceof": "write 'instance of'",
    "like": 'write matches(text, "pattern")',
    "contains": "write contains(text, part) or list contains(list, element)",
    "as": "FEEL has no casts: write number(x), string(x) or date(x)",
    "of": "a loop is written for x in list return ...",
    "elseif": "write else if",
    "elif": "write else if",
    "where": "a filter is written list[condition]",
}
# What other languages call on a value.
METHODS = {
    "length": "string length(x), or count(x) of a list",
    "size": "count(x)",
    "toUpperCase": "upper case(x)",
    "toLowerCase": "lower case(x)",
    "upper": "upper case(x)",
    "lower": "lower case(x)",
    "trim": "trim(x)",
    "substring": "substring(x, 1, 3)",
    "contains": "contains(x, part)",
    "includes": "contains(x, part)",
    "startsWith": "starts with(x, part)",
    "endsWith": "ends with(x, part)",
    "split": 'split(x, ",")',
    "replace": 'replace(x, "pattern", "text")',
    "toString": "string(x)",
    "toFixed": "decimal(x, 2)",
}
_OPERATOR_TEXT = "= != < <= > >= + - * / ** and or in between not then else return satisfies"
_OPERATORS = frozenset(_OPERATOR_TEXT.split())
_CLOSERS = frozenset(")]}")
_ASSIGNING = frozenset(("let", "var", "const", "set", "val"))
IF = "a condition is written if a then b else c"
FOR = "a loop is written for x in list return x + 1"
QUANTIFIED = "written some x in list satisfies x > 1"
_AFTER_EXPRESSION = {
    "..": "a range stands in brackets: [1..10]",
    ",": "several values stand in a list: [1, 2]; the decimal sign is '.'",
    ":": "a context stands in braces: {key: value}",
    "then": IF,
    "else": IF,
    "return": FOR,
    "satisfies": QUANTIFIED,
    "{": "a call is written name(...)",
}
_UNDECLARED = "a name with spaces must be declared, or stand between back quotes"


def found(token: Token) -> str:
    """What stands at the place of an error, in words."""
    if token.kind == "end":
        return "the end"
    if len(token.text) == 1 and not (token.text.isascii() and token.text.isprintable()):
        name = unicode_name(token.text, "a sign without name").lower()
        shown = f"'{token.text}'" if token.text.isprintable() else f"U+{ord(token.text):04X}"
        return f"{shown} ({name})"
    if token.text == "'":
        return '"\'"'
    written = token.text[:1] if token.kind == "unclosed" and token.text[0] == '"' else token.text
    written = "/*" if token.kind == "unclosed" and token.text[0] == "/" else written
    shown = "".join(each if each.isprintable() else " " for each in written[:MAX_FOUND])
    return f"'{shown}{'…' if len(written) > MAX_FOUND else ''}'"


def unclosed(token: Token) -> tuple[str, str]:
    """What was expected, and the hint, for a text or comment without end."""
    if token.text[0] == '"':
        return "a text closed by '\"'", "this text has no closing quote"
    return "a comment closed by '*/'", "this comment has no closing '*/'"


def _around(tokens: Sequence[Token], index: int) -> tuple[Token, Token, Token]:
    """The token before (that of the end when there is none), the token, the token after it."""
    return tokens[index - 1], tokens[index], tokens[min(index + 1, len(tokens) - 1)]


def sign(tokens: Sequence[Token], index: int) -> str:
    """The hint for a token that gives another language away; empty when it does not."""
    before, token, after = _around(tokens, index)
    if token.kind == "stray":
        return _STRAY.get(token.text, "this sign has no meaning in FEEL; a name with it stands between back quotes")
    if token.kind != "symbol" and token.text != "?":
        return ""
    for one, other in ((before, token), (token, after)):
        if one.end == other.start and (hint := _GLUED.get(one.text + other.text)):
            return hint
    if token.text == "->":
        return "leave '->' out: function(x) x + 1"
    if token.text == "?" and before.kind != "end":
        return "a.b is null where a is null: write a.b" if after.text == "." else "write if a then b else c"
    return ""


def missing_operand(tokens: Sequence[Token], index: int) -> str:
    """The hint where an expression should begin and does not."""
    if len(tokens) == 1:
        return "the text is empty"
    before, token, _ = _around(tokens, index)
    if before.text == ",":
        if token.text == ",":
            return "leave one of the commas out, or write null between them"
        if token.text in (")", "]", "}"):
            return "leave the comma before it out"
    if before.text in _OPERATORS and (token.kind == "end" or token.text in _CLOSERS):
        return f"'{before.text}' needs a right side"
    if before.text in ("and", "or") and token.text[:1] in ("<", ">"):
        return f"what is compared stands on both sides: ? > 5 {before.text} ? < 10; a range is (5..10)"
    if before.text in _OPERATORS and token.text in _OPERATORS and token.kind == "symbol":
        return f"'{before.text}' and '{token.text}' follow each other"
    if before.text == ":":
        return "':' needs a value"
    if before.text == "if":
        return f"{IF}; as a name 'if' stands between back quotes: `if`"
    if token.kind == "keyword":
        return f"'{token.text}' is a keyword; as a name it stands between back quotes: `{token.text}`"
    return "a number needs no '+' before it" if token.text == "+" else ""


def missing_operator(tokens: Sequence[Token], index: int) -> str:
    """The hint where an expression has ended and something else follows than may follow it."""
    before, token, _ = _around(tokens, index)
    if token.text in _CLOSERS and token.kind == "symbol":
        return f"no bracket is open for '{token.text}'"
    if token.text in _AFTER_EXPRESSION:
        return _AFTER_EXPRESSION[token.text]
    if token.kind == "number" and token.text[0] == "." and before.kind != "number":
        return f"an element is taken by its place: list[{token.text[1:]}]"
    if before.kind == "number" and (token.kind == "number" or before.end == token.start):
        return "a number has digits and one '.' only; a name begins with a letter"
    if token.kind == "string" and before.kind == "string":
        return "texts are joined by '+'"
    if token.kind not in ("name", "number"):
        return ""
    if token.text.lower() in KEYWORDS:
        return f"keywords are written in lower case: {token.text.lower()}"
    if before.text == "not":
        return "write not(...)"
    if before.text in _ASSIGNING:
        return "a local value is an entry of a context: {x: 1, y: x + 1}.y"
    named = before.kind == "name" or (before.kind == "number" and tokens[index - 2].kind == "name")
    return _WORDS.get(token.text) or (_UNDECLARED if named else "")


def no_else(tokens: Sequence[Token], index: int) -> str:
    """The hint where the `else` of an `if` is missing."""
    return _WORDS.get(tokens[index].text, "FEEL has no if without else; write else null")


def not_closed(tokens: Sequence[Token], index: int) -> str:
    """The hint where a bracket should be closed and something else stands."""
    token = tokens[index]
    other = token.kind == "end" or token.text in _CLOSERS
    return "" if other or token.kind in ("number", "string") else missing_operator(tokens, index)


def no_key(tokens: Sequence[Token], index: int) -> str:
    """The hint where a context has no key with a colon."""
    _, token, after = _around(tokens, index)
    if token.text == ",":
        return "leave one of the commas out"
    if after.text == "=":
        return "an entry is written key: value"
    if token.text == "{":
        return "a context has one pair of braces: {key: value}"
    return (
        "" if token.kind == "end" else "an entry is written key: value; a key with other signs stands in double quotes"
    )
