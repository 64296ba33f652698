"""The index of keys by owner says what a dictionary of sets would."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.owned import Owned

KEYS = st.integers(1, 4)


@given(st.lists(st.tuples(st.booleans(), KEYS, KEYS), max_size=40))
def test_it_holds_what_was_added_and_not_discarded(changes: list[tuple[bool, int, int]]) -> None:
    owned, model = Owned(), {owner: set[int]() for owner in range(1, 5)}
    for adds, owner, key in changes:
        (owned.add if adds else owned.discard)(owner, key)
        (model[owner].add if adds else model[owner].discard)(key)
        assert {owner: set(owned.of(owner)) for owner in model} == model
