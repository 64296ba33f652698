"""Patterns of FEEL against Python's own engine, on the grammar that both read alike, and against any text at all."""

from __future__ import annotations

import re
from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.feel import EvaluationContext, FeelLimits, compile_expression
from engine.feel.patterns import Meter, OutOfSteps, compile_pattern, every

LETTERS = "abcA1 \n"
ATOMS = st.sampled_from(
    [
        *"abcA1",
        " ",
        r"\n",
        "[ab]",
        "[^a]",
        "[a-c1]",
        "[^b-c]",
        "[^\\n1]",
        "^",
        "$",
        "(?:)",
        "()",
        "ab",
        "b1",
        "[abcA1 ]",
    ]
)
QUANTIFIERS = st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{0,3}", "{2,}", "*?", "+?", "??", "{1,3}?", "{0}"])


def _joined(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("".join, st.lists(parts, min_size=1, max_size=4)),
        st.builds("|".join, st.lists(parts, min_size=2, max_size=3)),
        st.builds("({})".format, parts),
        st.builds("(?:{})".format, parts),
        st.builds("(?:{}){}".format, parts, QUANTIFIERS),
        st.builds("({}){}".format, parts, QUANTIFIERS),
    )


PATTERNS = st.recursive(
    st.one_of(ATOMS, st.builds("{}{}".format, ATOMS.filter(lambda atom: atom not in ("ab", "b1")), QUANTIFIERS)),
    _joined,
    max_leaves=8,
)
TEXTS = st.text(LETTERS, max_size=14)


def _python(pattern: str) -> re.Pattern[str] | None:
    """Python's reading of the pattern; None where the two say different things about it."""
    try:
        return re.compile(pattern.replace("$", r"\Z"))
    except (re.error, RecursionError):
        return None


def _spans(pattern: re.Pattern[str], text: str) -> list[tuple[int, int]]:
    """All matches; behind one without characters the next one starts a character later."""
    spans: list[tuple[int, int]] = []
    at = 0
    while at <= len(text) and (found := pattern.search(text, at)):
        spans.append(found.span())
        at = found.end() + (found.end() == found.start())
    return spans


@given(PATTERNS, TEXTS)
@settings(max_examples=400, deadline=None)
def test_matches_are_those_that_python_finds(pattern: str, text: str) -> None:
    theirs = _python(pattern)
    if theirs is None:
        return
    with suppress(OutOfSteps):
        ours = [(ends[0], ends[1]) for ends in every(compile_pattern(pattern), text, Meter(20_000))]
        assert ours == _spans(theirs, text)


@given(st.lists(st.sampled_from(["(a|b)", "(a)", "(b|ab)", "c", "(a|ab)", "a", "(a*)", "[bc]"]), max_size=4), TEXTS)
@settings(max_examples=200, deadline=None)
def test_groups_and_references_capture_what_python_says(parts: list[str], text: str) -> None:
    pattern = "".join(parts)
    groups = pattern.count("(")
    pattern += "".join(rf"(?:\{number})" for number in range(1, groups + 1))
    theirs = [[found.span(at) for at in range(groups + 1)] for found in re.finditer(pattern, text)]
    ours = [
        list(zip(ends[::2], ends[1::2], strict=True)) for ends in every(compile_pattern(pattern), text, Meter(20_000))
    ]
    assert ours == theirs


@given(st.text("ab()[]{}*+?|^$\\.-1,:&dwpPIsLnx ", max_size=20), TEXTS, st.text("smixq;", max_size=3))
@settings(max_examples=400, deadline=None)
def test_any_pattern_has_a_value_or_a_warning_within_its_steps(pattern: str, text: str, flags: str) -> None:
    context = EvaluationContext(limits=FeelLimits(max_pattern_steps=2_000))
    variables = {"t": text, "p": pattern, "f": flags}
    for call in ("matches(t, p, f)", "replace(t, p, p, f)", "split(t, p)", "extract(t, p)"):
        context.warnings.clear()
        result = compile_expression(call, names=("t", "p", "f")).evaluate(variables, context)
        assert (result is None) == (len(context.warnings) == 1)


@given(st.text(max_size=6), st.text("abk\u212aKſsSσςΣßẞ", max_size=6))
@settings(max_examples=200, deadline=None)
def test_the_flag_i_finds_each_text_in_other_case(before: str, text: str) -> None:
    for other in (text.lower(), text.upper(), text.swapcase()):
        if len(other) != len(text):
            continue
        program = compile_pattern(text, "iq")
        assert not text or [before + other for _ in every(program, before + other, Meter(2_000))]
