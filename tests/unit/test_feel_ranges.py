"""Relations of ranges and points, and ranges from text, as tables: the standard's rules, open ends, other kinds."""

from __future__ import annotations

from itertools import product

import pytest

from engine.feel import Range
from tests.feel_values import evaluated

RELATIONS = (
    "before",
    "after",
    "meets",
    "met by",
    "overlaps",
    "overlaps before",
    "overlaps after",
    "finishes",
    "finished by",
    "includes",
    "during",
    "starts",
    "started by",
    "coincides",
)
OPPOSITES = {
    "before": "after",
    "meets": "met by",
    "overlaps before": "overlaps after",
    "finishes": "finished by",
    "includes": "during",
    "starts": "started by",
    "overlaps": "overlaps",
    "coincides": "coincides",
}


# Each row: two ranges, and the relations that hold between them in this order.
PAIRS: list[tuple[str, str, set[str]]] = [
    ("[1..3]", "[5..9]", {"before"}),
    ("[1..5]", "[5..9]", {"meets", "overlaps", "overlaps before"}),
    ("[1..5)", "[5..9]", {"before"}),
    ("[1..5]", "(5..9]", {"before"}),
    ("[1..6]", "[5..9]", {"overlaps", "overlaps before"}),
    ("[1..9]", "[5..9]", {"overlaps", "overlaps before", "finished by", "includes"}),
    ("[1..9)", "[5..9]", {"overlaps", "overlaps before"}),
    ("[1..9]", "[5..9)", {"overlaps", "includes"}),
    ("[1..9]", "[2..8]", {"overlaps", "includes"}),
    ("[2..8]", "[2..9]", {"overlaps", "starts", "during"}),
    ("(2..8]", "[2..9]", {"overlaps", "during"}),
    ("[2..8]", "(2..9]", {"overlaps", "overlaps before"}),
    (
        "[1..5]",
        "[1..5]",
        {"overlaps", "finishes", "finished by", "includes", "during", "starts", "started by", "coincides"},
    ),
    ("[1..5)", "[1..5]", {"overlaps", "starts", "during"}),
    ("(1..5)", "[1..5]", {"overlaps", "during"}),
    # An end without a value lies beyond every value.
    ("(< 5)", "[5..9]", {"before"}),
    ("(<= 5)", "[5..9]", {"meets", "overlaps", "overlaps before"}),
    ("(> 9)", "[5..9]", {"after"}),
    ("(>= 9)", "[5..9]", {"met by", "overlaps", "overlaps after"}),
    ("(> 1)", "[5..9]", {"overlaps", "includes"}),
    ("(> 5)", "(> 1)", {"overlaps", "overlaps after", "finishes", "during"}),
    ("(< 5)", "(<= 5)", {"overlaps", "starts", "during"}),
    ("(< 5)", "(> 1)", {"overlaps", "overlaps before"}),
    (
        "(< 5)",
        "(< 5)",
        {"overlaps", "finishes", "finished by", "includes", "during", "starts", "started by", "coincides"},
    ),
    # Every ordered kind.
    ('["a".."c"]', '["d".."f"]', {"before"}),
    ('[@"2024-01-01"..@"2024-01-31"]', '[@"2024-01-31"..@"2024-02-29"]', {"meets", "overlaps", "overlaps before"}),
    ('[@"08:00:00"..@"12:00:00")', '[@"12:00:00"..@"17:00:00"]', {"before"}),
    ('[@"2024-01-01T00:00:00Z"..@"2024-01-02T00:00:00Z"]', '(> @"2024-01-03T00:00:00Z")', {"before"}),
    ('[@"PT1H"..@"PT2H"]', '[@"PT90M"..@"PT3H"]', {"overlaps", "overlaps before"}),
    ('[@"P1Y"..@"P2Y"]', '[@"P12M"..@"P3Y"]', {"overlaps", "starts", "during"}),
]


@pytest.mark.parametrize(("first", "second", "holding"), PAIRS)
def test_relations_of_two_ranges(first: str, second: str, holding: set[str]) -> None:
    found = {relation: evaluated(f"{relation}({first}, {second})") for relation in RELATIONS}
    assert found == {relation: (relation in holding, []) for relation in RELATIONS}


@pytest.mark.parametrize(("first", "second", "holding"), PAIRS)
def test_a_relation_and_its_opposite_agree(first: str, second: str, holding: set[str]) -> None:
    for relation, opposite in OPPOSITES.items():
        assert evaluated(f"{relation}({first}, {second}) = {opposite}({second}, {first})") == (True, [])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("before(1, 2)", True),
        ("before(2, 2)", False),
        ("after(2, 1)", True),
        ("coincides(2, 2.0)", True),
        ("coincides(2, 3)", False),
        ("before(1, [1..5])", False),
        ("before(1, (1..5])", True),
        ("before([1..5], 5)", False),
        ("before([1..5), 5)", True),
        ("before(5, (< 9))", False),
        ("after(5, [1..5])", False),
        ("after(5, [1..5))", True),
        ("after([1..5], 1)", False),
        ("after((1..5], 1)", True),
        ("includes([1..5], 5)", True),
        ("includes([1..5), 5)", False),
        ("includes((> 1), 1)", False),
        ("during(1, [1..5])", True),
        ("during(1, (1..5])", False),
        ("during(9, (> 1))", True),
        ("starts(1, [1..5])", True),
        ("starts(1, (1..5])", False),
        ("starts(1, (< 5))", False),
        ("started by([1..5], 1)", True),
        ("started by((1..5], 1)", False),
        ("finishes(5, [1..5])", True),
        ("finishes(5, [1..5))", False),
        ("finished by([1..5], 5)", True),
        ("finished by((> 1), 5)", False),
        ('during("b", ["a".."c"])', True),
        ('during(@"2024-02-29", [@"2024-02-01"..@"2024-03-01"))', True),
        # By name, in each of the forms; lists of one element stand for the element.
        ("before(point1: 1, point2: 2)", True),
        ("before(range: [1..2], point: 3)", True),
        ("before(point: 1, range: [2..3])", True),
        ("before(range2: [3..4], range1: [1..2])", True),
        ("includes(point: 3, range: [1..5])", True),
        ("during(range1: [2..3], range2: [1..5])", True),
        ("before([1], [[2..3]])", True),
    ],
)
def test_relations_with_points(text: str, expected: bool) -> None:
    assert evaluated(text) == (expected, [])


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("before(null, 1)", "found null"),
        ("before([1..5], null)", "found null"),
        ("before(1, true)", "found boolean"),
        ("before(1, {a: 1})", "found context"),
        ('before(1, "a")', "cannot compare number with string"),
        ('before([1..2], ["a".."b"])', "cannot compare number with string"),
        ('before((> 1), (> "b"))', "cannot compare number with string"),
        ('during(@"2024-01-01", [1..5])', "cannot compare date with number"),
        ("includes(1, [1..5])", "'range' must be a range, found number"),
        ("during([1..5], 3)", "'range' must be a range, found number"),
        ("meets(1, [1..5])", "'range1' must be a range, found number"),
        ("meets(point: 1, range: [1..5])", "has no parameter 'point'"),
        ("before(1)", "takes (point1: point, point2: point) or (point: point, range: range)"),
        ("coincides(1, [1..1])", "cannot coincide"),
    ],
)
def test_a_relation_without_an_answer_is_null(text: str, cause: str) -> None:
    value, warnings = evaluated(text)
    assert value is None
    assert [cause in warning for warning in warnings] == [True], warnings


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[18..21)", "[18..21)"),
        ("(18..21]", "(18..21]"),
        ("]18..21[", "(18..21)"),
        (" [ 1.5 .. 2.5 ] ", "[1.5..2.5]"),
        ("[-5..-1]", "[-5..-1]"),
        ("[-.5...5]", "[-.5...5]"),
        ("[2..)", "(>= 2)"),
        ("(2..)", "(> 2)"),
        ("(..2)", "(< 2)"),
        ("(..2]", "(<= 2)"),
        ('["a".."c"]', '["a".."c"]'),
        ('["a..b".."c\\n"]', '["a..b".."c\\n"]'),
        ('[@"2024-01-01"..@"2024-12-31"]', '[@"2024-01-01"..@"2024-12-31"]'),
        ('[date("2024-01-01")..date("2024-12-31")]', '[@"2024-01-01"..@"2024-12-31"]'),
        ("[date(2024, 1, 1)..date(2024, 12, 31))", '[@"2024-01-01"..@"2024-12-31")'),
        ('(time("08:00:00")..time("17:00:00"))', '(@"08:00:00"..@"17:00:00")'),
        (
            '[date and time("2024-01-01T00:00:00Z")..)',
            '(>= @"2024-01-01T00:00:00Z")',
        ),
        ('[date and time(date("2024-01-01"), time("08:00:00"))..)', '(>= @"2024-01-01T08:00:00")'),
        ('(..duration("PT1H")]', '(<= @"PT1H")'),
        ('[@"P1Y"..@"P2Y"]', '[@"P1Y"..@"P2Y"]'),
    ],
)
def test_a_range_from_text_is_the_range_that_the_text_writes(text: str, expected: str) -> None:
    value, warnings = evaluated("range(from: text)", {"text": text})
    wanted, _ = evaluated(expected)
    assert isinstance(value, Range)
    assert warnings == []
    assert (value.start, value.end) == (wanted.start, wanted.end)
    assert value.start_included == (wanted.start_included and wanted.start is not None)
    assert value.end_included == (wanted.end_included and wanted.end is not None)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("", "starts with"),
        (" ", "starts with"),
        ("1..2", "starts with"),
        ("[1..2", "ends with"),
        ("[1]", "two ends"),
        ("[1..2..3]", "two ends"),
        ("[..]", "at least one end"),
        ("(..)", "at least one end"),
        ("[..2]", "write ( or )"),
        ("[2..]", "write ( or )"),
        ("[1..x]", "an end of a range"),
        ("[1..1 + 1]", "an end of a range"),
        ("[null..2]", "an end of a range"),
        ("[true..false]", "an end of a range"),
        ("[1..number(2)]", "an end of a range"),
        ('[1..date("2024-01-01"]', "an end of a range"),
        ("[1..date()]", "an end of a range"),
        ("[1..date(1, 2)]", "date takes"),
        ("[-..2]", "an end of a range"),
        ("[@1..2]", "an end of a range"),
        ('[1.."a"]', "cannot compare"),
        ('[@"2024-01-01"..@"PT1H"]', "cannot compare"),
        ('[date("2024-13-01")..)', "month 13"),
        ('["a..2]', "ends with"),
        ("[1..$]", "an end of a range"),
        ("[" + "1" * 2_000 + "..2]", "at most 1000 characters"),
    ],
)
def test_a_text_that_is_no_range_gives_null(text: str, cause: str) -> None:
    value, warnings = evaluated("range(text)", {"text": text})
    assert value is None
    assert [cause in warning for warning in warnings] == [True], warnings


@pytest.mark.parametrize("text", ["range(null)", "range(1)", "range([1..2])", "range()", 'range(text: "[1..2]")'])
def test_a_range_is_made_of_one_text(text: str) -> None:
    value, warnings = evaluated(text)
    assert (value, len(warnings)) == (None, 1)


def test_before_after_and_overlaps_part_all_pairs_of_ranges() -> None:
    ends = [
        f"{opening}{low}..{high}{closing}"
        for low, high in ((1, 3), (3, 5), (2, 4))
        for opening, closing in product("[(", "])")
    ]
    for first, second in product(ends, ends):
        held = [evaluated(f"{relation}({first}, {second})")[0] for relation in ("before", "after", "overlaps")]
        assert held.count(True) == 1, (first, second, held)
