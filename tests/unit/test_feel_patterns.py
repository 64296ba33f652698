"""Regular expressions in FEEL: XPath's grammar and flags, what is refused and why, and what they may cost."""

from __future__ import annotations

import sys
from itertools import pairwise
from unicodedata import category

import pytest

from engine.feel import EvaluationContext, FeelLimits, compile_expression
from engine.feel.faults import FeelFault
from engine.feel.patterns import Meter, classes, compile_pattern, every, search
from engine.feel.patterns.blocks import BLOCKS

MANY = 1_000_000


def fits(text: str, pattern: str, flags: str = "") -> bool:
    return search(compile_pattern(pattern, flags), text, 0, Meter(MANY)) is not None


def all_fits(text: str, pattern: str, flags: str = "") -> list[str]:
    return [text[ends[0] : ends[1]] for ends in every(compile_pattern(pattern, flags), text, Meter(MANY))]


def value(expression: str, variables: dict[str, object] | None = None, **limits: int) -> tuple[object, list[str]]:
    context = EvaluationContext(limits=FeelLimits(**limits))
    variables = variables or {}
    result = compile_expression(expression, names=tuple(variables)).evaluate(variables, context)
    return result, [warning.cause for warning in context.warnings]


@pytest.mark.parametrize(
    ("text", "pattern", "flags", "expected"),
    [
        ("abracadabra", "", "", True),
        ("", "", "", True),
        ("abc", "a||b", "", True),
        ("abc", "^()c|b", "", True),
        ("b", "^(a|)$", "", False),
        # Anchors: without the flag m, a newline that ends the text is no exception.
        ("abc\n", "c$", "", False),
        ("abc\n", "c$", "m", True),
        ("abc\n", "\n$", "m", False),
        ("abc\n", "\n^", "m", False),
        ("abc\nd", "\n^d", "m", True),
        ("abc\nd", "^d", "", False),
        ("abc\rd", "^d", "m", False),
        ("\n", "^$", "m", True),
        ("", "^$", "m", True),
        ("a\n\n", "^$", "m", True),
        ("ab", "^*b", "", True),
        ("foo", "o(?:$|x)", "", True),
        ("foo", "(?:x|$)(?:y|$)", "", True),
        # The dot passes over neither newline nor carriage return.
        ("a\nb", "a.b", "", False),
        ("a\rb", "a.b", "", False),
        ("a\nb", "a.b", "s", True),
        ("a\rb", "a.b", "s", True),
        ("a\u2028b", "a.b", "", True),
        ("a.b", "a[.]b", "", True),
        ("axb", "a[.]b", "", False),
        # Quantifiers.
        ("aab", "^a{2}b", "", True),
        ("ab", "^a{2,}b", "", False),
        ("aaab", "^a{0,2}b", "", False),
        ("b", "^a{0}b$", "", True),
        ("b", "^(?:ab){0,0}b$", "", True),
        ("ababab", "^(?:ab){2,3}$", "", True),
        ("ab", "^(?:ab){2,3}$", "", False),
        ("abababab", "^(?:ab){2,3}$", "", False),
        ("aaaa", "^(?:a?){2,3}$", "", False),
        ("ab", "^(?:a??b)$", "", True),
        # Back-references.
        ("abab", r"^(a)(b)\1\2$", "", True),
        ("abba", r"^(a)(b)\1\2$", "", False),
        ("b", r"^(a)?b\1$", "", True),
        ("aa1", r"^(a)\11$", "", True),
        ("abcdefghijj", r"^(a)(b)(c)(d)(e)(f)(g)(h)(i)(j)\10$", "", True),
        ("aA", r"^(a)\1$", "", False),
        ("ſS", r"^(ſ)\1$", "i", True),
        ("aa bb", r"^(?:(\w)\1 ?)+$", "", True),
        # Classes.
        ("b", "^[a-c-[b]]$", "", False),
        ("c", "^[a-c-[b]]$", "", True),
        ("b", "^[^a-[b]]$", "", False),
        ("b", "^[a-d-[b-c-[b]]]$", "", True),
        ("-", "^[a-]$", "", True),
        ("-", "^[-a]$", "", True),
        ("-", "^[0-9-.]$", "", True),
        ("-", "^[--a]$", "", True),
        ("-", "^[a--[b]]$", "", True),
        ("^", "^[a^]$", "", True),
        ("^", "^[^^]$", "", False),
        ("$", "^[$]$", "", True),
        ("]", r"^[\]]$", "", True),
        ("\\", r"^[\\]$", "", True),
        ("-", r"^[+\--/]$", "", True),
        (".", r"^[\d.]$", "", True),
        ("x", r"^[^\s\d]$", "", True),
        ("5", r"^[^\s\d]$", "", False),
        ("a", "[a-[a]]", "", False),
        ("\U0001f600", "^[\U0001f600-\U0001f64f]$", "", True),
        ("\U0001f600", "^.$", "", True),
        # Escapes of one character and of many.
        ("\t\n\r", r"^\t\n\r$", "", True),
        ("|.?*+(){}-[]^$\\", r"^\|\.\?\*\+\(\)\{\}\-\[\]\^\$\\$", "", True),
        ("\u00a0", r"\s", "", False),
        ("\u0663", r"^\d$", "", True),
        ("\u00b2", r"^\d$", "", False),
        ("_", r"^\w$", "", False),
        ("+", r"^\w$", "", True),
        ("\u0301", r"^\w$", "", True),
        ("-", r"^\W$", "", True),
        (":a-1.b", r"^\i\c*$", "", True),
        ("1", r"^\i$", "", False),
        ("1", r"^\I\C?$", "", True),
        ("É", r"^\p{Lu}$", "", True),
        ("é", r"^\P{Lu}$", "", True),
        ("é", r"^\p{L}$", "", True),
        ("Ω", r"^\p{IsGreekandCoptic}\P{IsBasicLatin}?$", "", True),
        ("Ω", r"^\p{IsGreek}$", "", True),
        ("a", r"^[\P{L}b]$", "", False),
        # Case.
        ("HELLO", "hello", "i", True),
        ("K", "\u212a", "i", True),
        ("ς", "Σ", "i", True),
        ("é", r"^\p{Lu}$", "i", False),
        ("J", "^[h-k]$", "i", True),
        ("j", "^[^H-K]$", "i", False),
        ("_", "^[A-z]$", "i", True),
        ("ß", "^SS$", "i", False),
        # White space of the flag x, and the flag q.
        ("ab", " a b\n\t", "x", True),
        ("a b", "^a[ ]b$", "x", True),
        ("aab", "a {2} b", "x", True),
        ("[a", r"^\[ a$", "x", True),
        ("a]b", r"^a [ \] ] b$", "x", True),
        ("a.b", "a.b", "q", True),
        ("axb", "a.b", "q", False),
        ("A.B", "a.b", "qi", True),
        ("a b", "ab", "qx", False),
        ("a\n^b", "^b", "mq", True),
        ("a", "A", "smixi", True),
    ],
)
def test_a_pattern_fits_as_xpath_says(text: str, pattern: str, flags: str, expected: bool) -> None:
    assert fits(text, pattern, flags) is expected


@pytest.mark.parametrize(
    ("pattern", "place", "reason"),
    [
        ("(a", 1, "not closed"),
        ("a(b(c)", 2, "not closed"),
        ("a)", 2, "closes no group"),
        ("*a", 1, "nothing to repeat"),
        ("a|+", 3, "nothing to repeat"),
        ("(?)", 1, "(?:"),
        ("(?=a)", 1, "look-around"),
        ("(?!a)", 1, "look-around"),
        ("(?<=a)", 1, "look-around"),
        ("(?P<n>a)", 1, "named groups"),
        ("(?i)a", 1, "(?:"),
        ("a**", 3, "follows a quantifier"),
        ("a+*", 3, "follows a quantifier"),
        ("a???", 4, "follows a quantifier"),
        ("a{2}{3}", 5, "follows a quantifier"),
        ("a{2,1}", 2, "ends before"),
        ("a{,2}", 3, "whole number"),
        ("a{x}", 3, "whole number"),
        ("a{1", 4, "'}'"),
        ("a{1,", 5, "whole number"),
        ("a{99999999}", 3, "at most"),
        ("a]", 2, "closes nothing"),
        ("a}", 2, "closes nothing"),
        ("{1}", 1, "nothing to repeat"),
        ("[]", 1, "empty"),
        ("[^]", 1, "empty"),
        ("a[bc", 2, "not closed"),
        ("[z-a]", 2, "ends before"),
        (r"[a-\d]", 2, "one character"),
        ("[a[b]]", 3, "'[' in a class"),
        ("[a-[b]c]", 7, "ends its class"),
        ("[-[a]]", 3, "'[' in a class"),
        ("a\\", 2, "backslash"),
        (r"\b", 1, "no escape"),
        (r"\u0041", 1, "no escape"),
        (r"\/", 1, "no escape"),
        (r"\0", 1, "no escape"),
        (r"(a)\2", 4, "does not exist"),
        (r"(a\1)", 3, "not closed yet"),
        (r"\1(a)", 1, "does not exist"),
        (r"(a)[\1]", 5, "no escape"),
        (r"\p", 1, "category"),
        (r"\pL", 1, "category"),
        (r"\p{Xx}", 1, "'Xx'"),
        (r"\p{IsNowhere}", 1, "'IsNowhere'"),
        (r"\p{isBasicLatin}", 1, "'isBasicLatin'"),
        (r"\p{Is Basic Latin}", 1, "'Is Basic Latin'"),
    ],
)
def test_a_wrong_pattern_is_refused_with_its_place_and_reason(pattern: str, place: int, reason: str) -> None:
    with pytest.raises(FeelFault) as refused:
        compile_pattern(pattern)
    assert refused.value.cause.startswith(f"the pattern is wrong at character {place}: ")
    assert reason in refused.value.cause


def test_places_count_the_white_space_that_the_flag_x_takes_out() -> None:
    with pytest.raises(FeelFault, match="character 6: "):
        compile_pattern(" a  b**"[:5] + "(", "x")


@pytest.mark.parametrize("pattern", ["(?:(?:abc){40}){60}", "((((a?b?){1,8}){1,8}){1,8}){1,8}", "a" * 4_001])
def test_a_pattern_that_unfolds_to_too_much_is_refused(pattern: str) -> None:
    with pytest.raises(FeelFault, match=r"too large|more than"):
        compile_pattern(pattern)


def test_classes_of_many_ranges_are_counted_and_paid_for() -> None:
    assert fits("a-b", r"^(?:[\w-[!]]-?){2}$")
    with pytest.raises(FeelFault, match="more than 20 classes"):
        compile_pattern(r"[\w-[\w]]" * 21)
    context = EvaluationContext()
    compile_expression('for i in 1..100 return matches(t, "[^" + string(i) + p)', names=("t", "p")).evaluate(
        {"t": "x", "p": r"\w]"}, context
    )
    assert "evaluation steps" in context.warnings[-1].cause


@pytest.mark.parametrize("length", [0, 1, 255, 256, 257, 1024, 5_000])
def test_a_run_is_found_back_from_what_follows_it(length: int) -> None:
    text = "?@ " + "a" * length + "@b @c"
    runs = ["a" * length + "@"] if length else []
    assert all_fits(text, r"\w+@") == runs
    assert all_fits(text, r"(\w*)@\w") == ["a" * length + "@b", "@c"]
    assert all_fits(text, r"a{2,}@") == ([] if length < 2 else runs)


def test_words_in_any_case_are_found_in_one_scan() -> None:
    meter = Meter(MANY)
    words = compile_pattern("secret|password|token|[Kk]ey|pass phrase", "i")
    text = "Some prose to pass, kept short. " * 3_000
    assert search(words, text, 0, meter) is None
    assert meter.most - meter.left < 20_000
    found = search(words, text + "ToKeN", 0, meter)
    assert found is not None
    assert found[:2] == [len(text), len(text) + 5]


def test_a_scan_that_the_steps_cannot_pay_for_is_not_run() -> None:
    many = compile_pattern("|".join(f"aaaaaa{letter}{other}" for letter in "bcdefghij" for other in "klmnopqrst"))
    with pytest.raises(FeelFault, match="more than 1000 steps"):
        search(many, "a" * 1_000_000, 0, Meter(1_000))


def test_groups_and_classes_nest_only_so_deep() -> None:
    assert fits("a", "(" * 40 + "a" + ")" * 40)
    for pattern in ("(" * 41 + "a" + ")" * 41, "[a-" * 42 + "[a" + "]" * 43):
        with pytest.raises(FeelFault, match="deeper"):
            compile_pattern(pattern)


@pytest.mark.parametrize(
    ("text", "pattern", "expected"),
    [
        ("aab", "a*", ["aa", "", ""]),
        ("aabab", "a*?b", ["aab", "ab"]),
        ("<a><b>", "<.*>", ["<a><b>"]),
        ("<a><b>", "<.*?>", ["<a>", "<b>"]),
        ("a,,b", ",", [",", ","]),
        ("one two", r"\w+", ["one", "two"]),
        ("key=1;k=2", r"\w+=", ["key=", "k="]),
        ("aXbbX", "[a-z]+X", ["aX", "bbX"]),
        ("error war", "error|warn|war", ["error", "war"]),
        ("abcabd", "ab(?:c|d)", ["abc", "abd"]),
        ("a\nb\n", "^.", ["a"]),
        ("2024-01-02", r"\d{2}", ["20", "24", "01", "02"]),
        ("aaa", "a{1,2}", ["aa", "a"]),
        ("aaa", "a{1,2}?", ["a", "a", "a"]),
        ("xaxbx", "x(.*?)x", ["xax"]),
    ],
)
def test_matches_go_from_left_to_right_without_overlap(text: str, pattern: str, expected: list[str]) -> None:
    assert all_fits(text, pattern) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (r'matches("foobar", "^fo*b")', True),
        ('matches("foobar", "^bar")', False),
        ('matches("FOO", "foo", "i")', True),
        ('matches("foo", "foo", null)', True),
        ('matches(pattern: "o", input: "foo")', True),
        ('matches(flags: "i", pattern: "O", input: "foo")', True),
        ('replace("abcd", "(ab)|(a)", "[1=$1][2=$2]")', "[1=ab][2=]cd"),
        ('replace("Banana", "A", "o", "i")', "Bonono"),
        (r'replace("abc", "b", "\\$")', "a$c"),
        (r'replace("abc", "b", "\\\\")', "a\\c"),
        ('replace("abc", "b", "$0$0")', "abbc"),
        ('replace("abc", "(b)", "$12")', "ab2c"),
        ('replace("abc", "(b)", "$01")', "abc"),
        ('replace("abc", "(b)", "<$2>")', "a<>c"),
        ('replace("abc", "b", "$1")', "ac"),
        (r'replace("a.c", ".", "$1\\", "q")', "a$1\\c"),
        ('replace("abc", "x", "y")', "abc"),
        ('replace("", "x", "y")', ""),
        ('replace(input: "abc", pattern: "b", replacement: "-", flags: "")', "a-c"),
        (r'replace("one two", "(\w+) (\w+)", "$2 $1")', "two one"),
        ('replace("Hello, World!", "[^a-z0-9]+", "-", "i")', "Hello-World-"),
        (r'split("a1b22c", "\d+")', ["a", "b", "c"]),
        ('split(",a,,b,", ",")', ["", "a", "", "b", ""]),
        ('split("abc", "x")', ["abc"]),
        ('split("", ",")', [""]),
        (r'split("a.b", "\.")', ["a", "b"]),
        (r'split("a, b ,c", "\s*,\s*")', ["a", "b", "c"]),
        ('split(delimiter: ";", string: "a;b")', ["a", "b"]),
        ('extract("references are 1234, 1256, 1378", "12[0-9]*")', ["1234", "1256"]),
        ('extract("abc", "x")', []),
        (r'extract("k=1, l=2", "(\w)=(\d)")', ["k=1", "l=2"]),
    ],
)
def test_the_functions_give_what_the_standard_says(expression: str, expected: object) -> None:
    assert value(expression) == (expected, [])


@pytest.mark.parametrize(
    ("expression", "cause"),
    [
        ('matches(null, "a")', "found null"),
        ('matches("a", null)', "found null"),
        ('matches("a", 1)', "found number"),
        ('matches("a", "a", 1)', "'flags' must be a string"),
        ('matches("a", "a", [])', "'flags' must be a string"),
        ('matches("a", "a", " ")', "no flag ' '"),
        ('matches("a", "a", "I")', "no flag 'I'"),
        ('matches("a", "(")', "character 1"),
        ('replace(null, "a", "b")', "found null"),
        ('replace("a", "a", null)', "found null"),
        ('replace("a", "", "b")', "without characters"),
        ('replace("a", "x*", "b")', "without characters"),
        ('replace("a", "^", "b")', "without characters"),
        ('replace("a", "^$", "b", "m")', "without characters"),
        ('replace("a", "a", "$")', "replacement is wrong at character 1"),
        ('replace("a", "a", "b$x")', "replacement is wrong at character 2"),
        (r'replace("a", "a", "b\\")', "replacement is wrong at character 2"),
        (r'replace("a", "a", "\\n")', "replacement is wrong"),
        ('replace("a", "a", "b", "z")', "no flag 'z'"),
        ('split(null, ",")', "found null"),
        ('split("a", null)', "found null"),
        ('split("a", "")', "without characters"),
        ('split("a", ",*")', "without characters"),
        ('extract(null, "a")', "found null"),
        ('extract("a", "[")', "not closed"),
    ],
)
def test_what_has_no_value_is_null_with_a_warning(expression: str, cause: str) -> None:
    result, causes = value(expression)
    assert result is None
    assert len(causes) == 1
    assert cause in causes[0]


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("a" * 30 + "!", "(a+)+$"),
        ("a" * 60 + "!", "^(a|aa)+$"),
        ("a" * 100_000, "(.*)*x"),
        ("a" * 100_000, "([a-z]+)*="),
        ("a" * 1_000, r"(a*)*\1b"),
        ("x" * 1_000, "(x+x+)+y"),
        ("a" * 29, "(?:a?){30}a{30}"),
        ("ab" * 50_000 + "c", "^(?:a|b|ab)*$"),
        ("a" * 100_000, r"(.*)\1[bc]$"),
    ],
)
def test_a_catastrophic_pattern_is_null_within_its_steps(text: str, pattern: str) -> None:
    context = EvaluationContext()
    expression = compile_expression("matches(text, pattern)", names=("text", "pattern"))
    assert expression.evaluate({"text": text, "pattern": pattern}, context) is None
    most = context.limits.max_pattern_steps
    assert [each.cause for each in context.warnings] == [
        f"matches: the pattern needs more than {most} steps on this text"
    ]
    assert most <= context.steps_spent < most + 5_000


def test_the_limit_of_steps_is_a_setting_of_the_evaluation() -> None:
    assert value('matches(t, "(a+)+$")', {"t": "a" * 11 + "!"}, max_pattern_steps=1_000)[1] == [
        "matches: the pattern needs more than 1000 steps on this text"
    ]
    assert value('matches(t, "(a+)+$")', {"t": "a" * 11 + "!"}) == (False, [])


def test_the_steps_of_patterns_are_steps_of_the_evaluation() -> None:
    result, causes = value('for i in 1..20 return matches(t, "(a+)+$")', {"t": "a" * 40 + "!"})
    assert result is None
    assert "evaluation steps" in causes[-1]


@pytest.mark.parametrize(
    ("pattern", "most"),
    [
        ("error", 4_000),
        (r"\w+@", 4_000),
        ("[a-z]+[0-9]", 8_000),
        ("(?:error|warn)", 4_000),
        ("^ipsum", 10),
        (".*x$", 4_000),
    ],
)
def test_looking_for_a_usual_pattern_in_a_long_text_takes_few_steps(pattern: str, most: int) -> None:
    meter = Meter(MANY)
    assert search(compile_pattern(pattern), "lorem ipsum dolor " * 5_555, 0, meter) is None
    assert meter.most - meter.left <= most


def test_a_million_characters_need_no_stack() -> None:
    text = "a" * 1_000_000
    assert fits(text, "^(a*)$")
    assert fits(text, "a*?$")
    assert value('string length(replace(t, "[a]+", "b"))', {"t": text}) == (1, [])
    assert value('matches(t, "(?:a|b)*$")', {"t": text})[0] is None or fits(text, "(?:a|b)*$")


def test_results_are_bounded() -> None:
    assert value('split(t, ",")', {"t": "," * 2_000}, max_list=1_000)[0] is None
    assert value('extract(t, "a")', {"t": "a" * 2_000}, max_list=1_000)[0] is None
    assert value('replace(t, "a", t)', {"t": "a" * 900}, max_string=10_000)[0] is None


def test_the_table_of_case_knows_every_character_that_has_one() -> None:
    start = 0
    for low, high in (*classes.CASED, (sys.maxunicode + 1, 0)):
        outside = "".join(map(chr, range(start, low)))
        assert outside == outside.lower() == outside.upper()
        start = high + 1


def test_the_spans_said_to_be_uniform_are() -> None:
    for low, high in classes.UNIFORM:
        assert len(set(map(category, map(chr, range(low, high + 1))))) == 1


def test_categories_cover_every_character_once() -> None:
    text = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Zs Zl Zp Sm Sc Sk So Cc Cf Co Cn"
    names = text.split()
    sizes = [sum(high - low + 1 for low, high in classes.in_category(name) or ()) for name in names]
    assert sum(sizes) == sys.maxunicode + 1 - 2048
    assert classes.union(*(classes.in_category(name) or () for name in "LMNPZSC")) == classes.EVERYTHING


def test_blocks_do_not_overlap_and_have_names_without_spaces() -> None:
    spans = sorted({span for spans in BLOCKS.values() for span in spans})
    assert all(before[1] < after[0] for before, after in pairwise(spans))
    assert {"BasicLatin", "Latin-1Supplement", "GreekandCoptic", "CombiningMarksforSymbols", "PrivateUse"} <= set(
        BLOCKS
    )
