"""Owns the literals whose text can be wrong: numbers and `@"..."`.
Never evaluates anything else.
Called by the parser.
"""

from __future__ import annotations

from engine.feel import mistakes
from engine.feel.cursor import Cursor
from engine.feel.faults import FeelFault, FeelSyntaxError
from engine.feel.numbers import D34, DIGITS, decimal_result, narrowed
from engine.feel.temporal_text import parse_temporal
from engine.feel.tree import Literal, Node, Undefined


def number(cursor: Cursor) -> Literal:
    """A number; whole ones of at most 34 digits are integers. Raises FeelSyntaxError for one out of range."""
    token = cursor.advance()
    if token.text.isdigit() and len(token.text) <= DIGITS:
        return Literal(token.start, 1, int(token.text))
    try:
        value = decimal_result(D34.create_decimal, token.text)
    except FeelFault as fault:
        raise FeelSyntaxError(cursor.text, token.start, mistakes.found(token), "a number", fault.cause) from fault
    # An exponent says the size of a number, digits behind the point its precision, which `string` shows.
    return Literal(token.start, 1, value if "." in token.text else narrowed(value))


def temporal(cursor: Cursor) -> Node:
    """A date, time or duration; a text that is none has no value. Raises FeelSyntaxError where no text follows."""
    start = cursor.expect("@").start
    token = cursor.token
    if token.kind != "string":
        raise cursor.error('a text in double quotes such as @"PT5S"')
    cursor.advance()
    try:
        return Literal(start, 1, parse_temporal(token.value))
    except FeelFault as fault:
        return Undefined(start, 1, fault.cause)
