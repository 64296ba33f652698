"""What designers write in the place of FEEL: each mistake is found at its place and says what to write instead."""

from __future__ import annotations

import pytest

from engine.feel import EvaluationContext, FeelSyntaxError, compile_expression, compile_unary_tests

UNDECLARED = "a name with spaces must be declared, or stand between back quotes"
DIGITS = "a number has digits and one '.' only; a name begins with a letter"
KEYWORD = "'return' is a keyword; as a name it stands between back quotes: `return`"
SIGN = "this sign has no meaning in FEEL; a name with it stands between back quotes"
CASTS = "FEEL has no casts: write number(x), string(x) or date(x)"
QUOTES = 'text stands in straight double quotes: "..."'
CONTEXT = "a local value is an entry of a context: {x: 1, y: x + 1}.y"
IF = "a condition is written if a then b else c"


def refused(text: str) -> FeelSyntaxError:
    with pytest.raises(FeelSyntaxError) as raised:
        compile_expression(text)
    return raised.value


@pytest.mark.parametrize(
    ("text", "column", "found", "expected", "hint"),
    [
        # other languages
        ("a == b", 4, "'='", "an expression", "equality is a single ="),
        ("a === b", 4, "'='", "an expression", "equality is a single ="),
        ("a !== b", 5, "'='", "an expression", "inequality is !="),
        ("a <> b", 4, "'>'", "an expression", "inequality is !="),
        ("a =< b", 4, "'<'", "an expression", "write <="),
        ("a => b", 4, "'>'", "an expression", "write >=; a function is written function(x) x + 1"),
        ("a && b", 3, "'&&'", "an operator or the end", "write 'and'"),
        ("a || b", 3, "'||'", "an operator or the end", "write 'or'"),
        ("!a", 1, "'!'", "an expression", "write not(...) or !="),
        ("'text'", 1, '"\'"', "an expression", 'text stands in double quotes: "..."'),
        ("${x}", 1, "'${'", "an expression", "a variable stands alone, without ${ and }"),
        ("#{x}", 1, "'#{'", "an expression", "a variable stands alone, without #{ and }"),
        ("$x", 1, "'$'", "an expression", "a variable stands alone, without $"),
        ("a ? b : c", 3, "'?'", "an operator or the end", "write if a then b else c"),
        ("a?.b", 2, "'?'", "an operator or the end", "a.b is null where a is null: write a.b"),
        ("a ?? b", 3, "'?'", "an operator or the end", "write get or else(a, b)"),
        ("function(x) -> x", 13, "'->'", "an expression", "leave '->' out: function(x) x + 1"),
        ("x++", 3, "'+'", "an expression", "FEEL changes no variable: write + 1"),
        ("x -= 1", 4, "'='", "an expression", "FEEL changes no variable: write the new value alone"),
        ("x % 2", 3, "'%'", "an operator or the end", "write modulo(a, b)"),
        ("x ^ 2", 3, "'^'", "an operator or the end", "write **"),
        ("a; b", 2, "';'", "an operator or the end", "write ',' between elements and ':' after a key"),
        ("x is null", 3, "'is'", "an operator or the end", "equality is =, a type is tested with 'instance of'"),
        ("not x", 5, "'x'", "an operator or the end", "write not(...)"),
        ("a and not b", 11, "'b'", "an operator or the end", "write not(...)"),
        ("a AND b", 3, "'AND'", "an operator or the end", "keywords are written in lower case: and"),
        ("x mod 2", 3, "'mod'", "an operator or the end", "write modulo(a, b)"),
        ("x as number", 3, "'as'", "an operator or the end", CASTS),
        ("let x = 1", 5, "'x'", "an operator or the end", CONTEXT),
        ("for (x in xs) return x", 5, "'('", "a variable name", "a loop is written for x in list return x + 1"),
        ("a.1", 2, "'.1'", "an operator or the end", "an element is taken by its place: list[1]"),
        ("{'a': 1}", 2, '"\'"', "a key and ':'", 'text stands in double quotes: "..."'),
        ("{a = 1}", 2, "'a'", "a key and ':'", "an entry is written key: value"),
        ("{{a: 1}}", 2, "'{'", "a key and ':'", "a context has one pair of braces: {key: value}"),
        ("[a: 1]", 3, "':'", "',' or ']'", "a context stands in braces: {key: value}; '[' opened at column 1"),
        ("1_000", 2, "'_000'", "an operator or the end", DIGITS),
        ("1,5", 2, "','", "an operator or the end", "several values stand in a list: [1, 2]; the decimal sign is '.'"),
        ("+5", 1, "'+'", "an expression", "a number needs no '+' before it"),
        # signs of word processors
        ("“text”", 1, "'“' (left double quotation mark)", "an expression", QUOTES),
        ("a ≤ b", 3, "'≤' (less-than or equal to)", "an operator or the end", "write <="),
        ("a − b", 3, "'−' (minus sign)", "an operator or the end", "write -"),
        ("a\u00adb", 2, "U+00AD (soft hyphen)", "an operator or the end", SIGN),
        # forms
        ("= x + 1", 1, "'='", "an expression", "leave out the '=' that Modeler writes before an expression"),
        ("if a then b", 12, "the end", "'else'", "FEEL has no if without else; write else null"),
        ("if a b else c", 6, "'b'", "'then'", "a condition is written if a then b else c"),
        ("if a then b elif c", 13, "'elif'", "'else'", "write else if"),
        ("if + 1", 4, "'+'", "an expression", f"{IF}; as a name 'if' stands between back quotes: `if`"),
        ("for x in xs", 12, "the end", "'return'", "a loop is written for x in list return x + 1"),
        ("some x in xs", 13, "the end", "'satisfies'", "written some x in list satisfies x > 1"),
        ("x between 1 or 2", 13, "'or'", "'and'", "written x between a and b"),
        ("function x", 10, "'x'", "'('", "a function is written function(a, b) a + b"),
        ("for + 1", 5, "'+'", "a variable name", "a loop is written for x in list return x + 1"),
        ("1 + return", 5, "'return'", "an expression", KEYWORD),
        ("1..10", 2, "'..'", "an operator or the end", "a range stands in brackets: [1..10]"),
        ("1 +", 4, "the end", "an expression", "'+' needs a right side"),
        ("1 + * 2", 5, "'*'", "an expression", "'+' and '*' follow each other"),
        ('"a" "b"', 5, "'\"b\"'", "an operator or the end", "texts are joined by '+'"),
        ("first name", 7, "'name'", "an operator or the end", UNDECLARED),
        ('"abc', 1, "'\"'", "a text closed by '\"'", "this text has no closing quote"),
        ("1 + /* c", 5, "'/*'", "a comment closed by '*/'", "this comment has no closing '*/'"),
        ("`abc", 1, "'`'", "an expression", "a name between back quotes ends on its line with a back quote"),
        # brackets and commas
        ("(1 + 2", 7, "the end", "')'", "'(' opened at column 1"),
        ("f(1, (2 + 3)", 13, "the end", "',' or ')'", "'(' opened at column 2"),
        ("if (a then b else c", 7, "'then'", "')'", f"{IF}; '(' opened at column 4"),
        ("[1, 2)", 6, "')'", "',' or ']'", "'[' opened at column 1"),
        ("[1..2", 6, "the end", "']', ')' or '['", "'[' opened at column 1"),
        ("[1 2]", 4, "'2'", "',' or ']'", "',' separates elements; '[' opened at column 1"),
        ("{a: 1 b: 2}", 7, "'b'", "',' or '}'", "',' separates entries; '{' opened at column 1"),
        ("a)", 2, "')'", "an operator or the end", "no bracket is open for ')'"),
        ("[1,,2]", 4, "','", "an expression", "leave one of the commas out, or write null between them"),
        ("[1,]", 4, "']'", "another of the elements", "leave the comma before it out"),
        ("f(1,)", 5, "')'", "another of the arguments", "leave the comma before it out"),
        ("{a: }", 5, "'}'", "an expression", "':' needs a value"),
        ("x[", 3, "the end", "an expression", "'[' opened at column 2"),
        # types
        ("x instance of", 14, "the end", "a type", ""),
        ("x instance of list<>", 20, "'>'", "a type", ""),
        ("x instance of list<number", 26, "the end", "'>'", "'<' opened at column 19"),
        ("x instance of function<number>", 31, "the end", "'->'", "function<number, string> -> boolean"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_place_and_its_remedy(
    text: str, column: int, found: str, expected: str, hint: str
) -> None:
    error = refused(text)
    assert (error.line, error.column, error.found, error.expected) == (1, column, found, expected)
    assert error.hint == hint


@pytest.mark.parametrize(
    ("text", "column", "hint"),
    [
        ("> 5 and < 10", 9, "what is compared stands on both sides: ? > 5 and ? < 10; a range is (5..10)"),
        ("5..6", 2, "a range stands in brackets: [1..10]"),
        ("1,,2", 3, "leave one of the commas out, or write null between them"),
        ("not(1, 2", 9, "'(' opened at column 4"),
        ("-, 1", 2, ""),
    ],
)
def test_a_mistake_in_a_cell_is_named(text: str, column: int, hint: str) -> None:
    with pytest.raises(FeelSyntaxError) as raised:
        compile_unary_tests(text)
    assert (raised.value.column, raised.value.hint) == (column, hint)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (
            'function(a) external {java: {class: "java.lang.Math", method signature: "abs(int)"}}',
            "Java java.lang.Math abs(int) is not run",
        ),
        ('function(a) external {pmml: {document: "model.pmml", model: "m"}}', "PMML model.pmml m is not run"),
        ('function(a) external {pmml: {document: "model.pmml"}}', "PMML model.pmml is not run"),
        ('function(a: number) external {java: {"class": "C"}}', "Java C is not run"),
        ("function(a) external {}", "a function outside FEEL is not run"),
    ],
)
def test_a_function_outside_feel_is_refused_with_what_it_would_run(text: str, what: str) -> None:
    error = refused(text)
    assert (error.position, error.found, error.expected) == (text.index("external"), "'external'", "a body in FEEL")
    assert error.hint == f"{what}; a function is written function(a, b) a + b"


def test_an_external_function_that_is_no_feel_is_refused_where_it_is_wrong() -> None:
    assert refused("function(a) external {java: }").column == 29


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("f(1, 2", ["  f(1, 2", "   -    ^"]),
        ("\tx + )", ["   x + )", "       ^"]),
        ("a +\r\n  * 2\r\n", ["    * 2", "    ^"]),
        ("字段 + )", ["  字段 + )", "         ^"]),
        ("e\u0301e\u0301 + )", ["  e\u0301e\u0301 + )", "       ^"]),
        ("a" * 200 + " b" + "c" * 200, [f"  …{'a' * 59} b{'c' * 39}…", f"  {' ' * 61}^"]),
        ("{\n  a: [1,\n  2\n}", ["  }", "  ^"]),
    ],
)
def test_the_caret_stands_below_the_place(text: str, lines: list[str]) -> None:
    assert str(refused(text)).split("\n")[1:] == lines


@pytest.mark.parametrize("text", ["", "  ", "\n\n"])
def test_a_text_without_anything_in_it_is_told_in_one_line(text: str) -> None:
    assert str(refused(text)).endswith("expected an expression, found the end (the text is empty)")


def test_a_sign_that_cannot_be_seen_is_told_by_its_number() -> None:
    assert refused("1 \x01 2").found == "U+0001 (a sign without name)"
    assert refused("1 \u202e 2").found == "U+202E (right-to-left override)"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ('"a" & "b"', "write 'and'; texts are joined by '+'"),
    ],
)
def test_operators_of_other_languages_are_told_in_feel(text: str, hint: str) -> None:
    assert refused(text).hint == hint


def test_an_index_outside_a_list_says_where_counting_begins() -> None:
    context = EvaluationContext()
    compile_expression("[7][x]").evaluate({"x": 0}, context)
    compile_expression("[7][x]").evaluate({"x": 2}, context)
    assert [each.cause for each in context.warnings] == [
        "index 0 is outside a list of 1 element; the first element has the index 1",
        "index 2 is outside a list of 1 element",
    ]


def test_a_bracket_opened_on_another_line_is_named_with_its_line() -> None:
    assert refused("{\n  a: [1,\n  2\n}").hint == "'[' opened at line 2, column 6"


def test_an_error_shows_no_sign_that_would_disturb_a_terminal() -> None:
    assert all(part.isprintable() for part in str(refused("a \u202e\x1b[31m b")).split("\n"))


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ('"abc".length', "a string has no entry 'length'; write string length(x), or count(x) of a list"),
        ('"abc".toUpperCase()', "a string has no entry 'toUpperCase'; write upper case(x)"),
    ],
)
def test_a_method_of_another_language_is_null_and_says_what_to_write(text: str, cause: str) -> None:
    context = EvaluationContext()
    assert compile_expression(text).evaluate({}, context) is None
    assert context.warnings[0].cause == cause
    assert compile_expression("a.length").evaluate({"a": {"length": 3}}) == 3
