"""Filters, sorting and pages of Camunda 8 searches."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.api.camunda.searches import Fields, Kind, Query, SearchBody, Words, page_of, read_query
from engine.errors import Rejected

FIELDS: Fields = {
    "key": Kind.KEY,
    "name": Kind.TEXT,
    "version": Kind.NUMBER,
    "open": Kind.FLAG,
    "startDate": Kind.INSTANT,
    "state": Words(frozenset(("ACTIVE", "COMPLETED"))),
    "tags": Words(of="tags"),
}
ITEMS: list[dict[str, Any]] = [
    {"key": "9", "name": "alpha", "version": 1, "open": True, "startDate": "2026-01-01T00:00:00.000000Z"},
    {"key": "10", "name": "beta*", "version": 2, "open": False, "startDate": "2026-01-02T00:00:00.000000Z"},
    {"key": "11", "name": None, "version": 2, "open": False, "startDate": "2026-01-03T00:00:00.000000Z"},
]


def query(**body: Any) -> Query:
    return read_query(SearchBody.model_validate(body), FIELDS)


def keys(**body: Any) -> list[str]:
    return [item["key"] for item in page_of(ITEMS, query(**body), "key")["items"]]


TAGGED: list[dict[str, Any]] = [
    {"key": "1", "tags": ["a", "b"]},
    {"key": "2", "tags": ["a"]},
    {"key": "3", "tags": []},
]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("a", ["1", "2"]),
        (["a", "b"], ["1"]),
        ({"$in": ["b", "c"]}, ["1"]),
        ({"$neq": "b"}, ["2", "3"]),
        ({"$notIn": ["a"]}, ["3"]),
        ({"$exists": False}, ["3"]),
        ({"$like": "?"}, ["1", "2"]),
    ],
)
def test_a_list_is_found_by_one_of_its_texts(wanted: Any, found: list[str]) -> None:
    answer = page_of(TAGGED, query(filter={"tags": wanted}), "key")
    assert [item["key"] for item in answer["items"]] == found


def test_a_word_that_no_item_can_hold_is_refused() -> None:
    for wanted in ("ACTIV", {"$in": ["ACTIVE", "gone"]}, 7):
        with pytest.raises(Rejected) as caught:
            query(filter={"state": wanted})
        assert "filter.state must be one of ACTIVE, COMPLETED" in caught.value.message
    assert query(filter={"state": "ACTIVE"}).exact("state") == "ACTIVE"


@pytest.mark.parametrize(
    ("filter_", "found"),
    [
        ({}, ["9", "10", "11"]),
        ({"key": "10"}, ["10"]),
        ({"key": 10}, ["10"]),
        ({"key": {"$in": ["9", "11"]}}, ["9", "11"]),
        ({"key": {"$gt": "9"}}, ["10", "11"]),
        ({"version": 2, "open": False}, ["10", "11"]),
        ({"version": {"$gte": 1, "$lt": 2}}, ["9"]),
        ({"name": {"$exists": False}}, ["11"]),
        ({"name": {"$like": "?lph*"}}, ["9"]),
        ({"name": {"$like": r"*\*"}}, ["10"]),
        ({"name": {"$neq": "alpha"}}, ["10", "11"]),
        ({"name": {"$notIn": ["alpha", "beta*"]}}, ["11"]),
        ({"startDate": {"$lte": "2026-01-02T01:00:00+01:00"}}, ["9", "10"]),
        ({"$or": [{"name": "alpha"}, {"key": "11"}]}, ["9", "11"]),
        ({"version": 2, "$or": [{"name": "alpha"}, {"key": "11"}]}, ["11"]),
    ],
)
def test_a_filter_finds_what_it_describes(filter_: dict[str, Any], found: list[str]) -> None:
    assert keys(filter=filter_) == found


def test_keys_are_sorted_as_numbers_and_absent_values_first() -> None:
    assert keys(sort=[{"field": "key", "order": "desc"}]) == ["11", "10", "9"]
    assert keys(sort=[{"field": "name"}]) == ["11", "9", "10"]
    assert keys(sort=[{"field": "version", "order": "DESC"}, {"field": "startDate", "order": "DESC"}]) == [
        "11",
        "10",
        "9",
    ]


def test_pages_follow_each_other_by_cursor_and_back() -> None:
    first = page_of(ITEMS, query(page={"limit": 2}), "key")
    assert [item["key"] for item in first["items"]] == ["9", "10"]
    assert first["page"]["totalItems"] == 3
    second = page_of(ITEMS, query(page={"limit": 2, "after": first["page"]["endCursor"]}), "key")
    assert [item["key"] for item in second["items"]] == ["11"]
    back = page_of(ITEMS, query(page={"limit": 2, "before": second["page"]["startCursor"]}), "key")
    assert [item["key"] for item in back["items"]] == ["9", "10"]
    assert keys(page={"from": 1, "limit": 1}) == ["10"]


def test_a_cursor_goes_on_behind_an_item_that_is_not_found_any_more() -> None:
    cursor = page_of(ITEMS, query(page={"limit": 2}), "key")["page"]["endCursor"]
    rest = [ITEMS[0], ITEMS[2]]
    page = page_of(rest, query(page={"limit": 2, "after": cursor}), "key")
    assert [item["key"] for item in page["items"]] == ["11"]


def test_an_empty_page_has_no_cursors() -> None:
    assert page_of([], query(), "key") == {
        "items": [],
        "page": {"totalItems": 0, "hasMoreTotalItems": False, "startCursor": None, "endCursor": None},
    }


def test_everything_wrong_with_a_search_is_said_at_once() -> None:
    with pytest.raises(Rejected) as caught:
        query(
            filter={"colour": "red", "version": "2", "key": {"$near": "9"}, "open": {"$in": True}, "$or": [3]},
            sort=[{"field": "colour"}, {"field": "key", "order": "up"}],
            page={"limit": 100_000, "from": -1, "after": "???"},
        )
    lines = caught.value.message.split("\n")
    for part in (
        "filter.colour is not a field to filter by",
        "filter.version must be a whole number",
        "filter.key has no operator `$near`",
        "filter.open $in must be a list",
        "filter.$or must be a list of filters",
        "sort[0].field must be one of",
        "sort[1].order must be ASC or DESC",
        "page.limit must be a whole number from 0 to 10000",
        "page.from must be a whole number from 0",
        "page.after must be a cursor that a search gave",
    ):
        assert [line for line in lines if part in line], part
    assert len(lines) == 10


def test_the_one_wanted_value_of_a_field_is_known() -> None:
    assert query(filter={"key": "9"}).exact("key") == "9"
    assert query(filter={"key": {"$in": [9]}}).exact("key") == "9"
    assert query(filter={"key": {"$in": ["9", "10"]}}).exact("key") is None
    assert query(filter={"key": {"$gt": "9"}}).exact("key") is None


def test_a_pattern_of_many_stars_is_matched_quickly() -> None:
    items = [{"key": "1", "name": "a" * 2_000}]
    assert page_of(items, query(filter={"name": {"$like": "*a" * 200 + "b"}}), "key")["items"] == []


@given(value=st.text(alphabet="ab*?", max_size=8), pattern=st.text(alphabet="ab", max_size=4))
def test_a_value_fits_a_pattern_of_stars_around_its_part(value: str, pattern: str) -> None:
    found = page_of([{"key": "1", "name": value}], query(filter={"name": {"$like": f"*{pattern}*"}}), "key")["items"]
    assert bool(found) is (pattern in value)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=4),
        lambda c: (
            st.lists(c)
            | st.dictionaries(st.sampled_from(["$or", "key", "name", "version", "$in", "$like", "startDate"]), c)
        ),
        max_leaves=8,
    )
)
def test_any_filter_is_read_or_refused(filter_: Any) -> None:
    body = SearchBody.model_construct(filter=filter_ if isinstance(filter_, dict) else {"name": filter_})
    with suppress(Rejected):
        assert page_of(ITEMS, read_query(body, FIELDS), "key")["page"]["totalItems"] <= len(ITEMS)
