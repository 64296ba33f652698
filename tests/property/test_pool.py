"""The choice of a replica: shares follow weights, limits hold, the order of candidates does not matter."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.pool import Candidate, Choice, pick


class Balance:
    """In-flight counts and turns over many choices, as the fleet keeps them."""

    def __init__(self, weights: dict[str, int], max_concurrency: int = 1_000) -> None:
        self.weights = weights
        self.max_concurrency = max_concurrency
        self.in_flight = dict.fromkeys(weights, 0)
        self.turns = dict.fromkeys(weights, 0.0)
        self.picked = dict.fromkeys(weights, 0)
        self.running: list[str] = []

    def choose(self, seed: str, tried: tuple[str, ...] = (), order: Random | None = None) -> Choice:
        candidates = [
            Candidate(name, "default", weight, self.in_flight[name], self.max_concurrency, self.turns[name])
            for name, weight in self.weights.items()
        ]
        if order is not None:
            order.shuffle(candidates)
        choice = pick(candidates, tried, seed)
        if choice.picked is not None:
            name = choice.picked.name
            self.picked[name] += 1
            self.in_flight[name] += 1
            self.turns[name] = choice.next_turn
            self.running.append(name)
        return choice

    def release(self, position: int) -> None:
        self.in_flight[self.running.pop(position)] -= 1


def shares(weights: dict[str, int], concurrency: int, seed: int, *, shuffled: bool = False) -> dict[str, int]:
    """How often each replica is picked in 1,000 requests, `concurrency` at a time, ending in random order."""
    dice, balance = Random(seed), Balance(weights)
    for number in range(1_000):
        if len(balance.running) >= concurrency:
            balance.release(dice.randrange(len(balance.running)))
        balance.choose(f"{seed}-{number}", order=dice if shuffled else None)
    return balance.picked


@pytest.mark.parametrize("concurrency", [1, 2, 3, 5, 16, 64])
@pytest.mark.parametrize("seed", range(5))
def test_seventy_to_thirty_holds_at_any_concurrency(concurrency: int, seed: int) -> None:
    assert abs(shares({"a": 70, "b": 30}, concurrency, seed)["a"] - 700) <= 45


@pytest.mark.parametrize("concurrency", [1, 2, 16])
def test_the_order_of_candidates_changes_nothing(concurrency: int) -> None:
    assert abs(shares({"a": 70, "b": 30}, concurrency, 7, shuffled=True)["a"] - 700) <= 45
    balances = [Balance({"a": 70, "b": 30, "c": 1}), Balance({"c": 1, "b": 30, "a": 70})]
    for number in range(200):
        first, second = (balance.choose(str(number)).picked for balance in balances)
        assert first is not None
        assert second is not None
        assert first.name == second.name


def test_a_replica_of_weight_0_gets_nothing() -> None:
    assert shares({"a": 70, "b": 0, "c": 30}, 4, 1)["b"] == 0


def test_when_every_weight_is_0_there_is_no_choice_and_the_reason_says_so() -> None:
    choice = Balance({"a": 0, "b": 0}).choose("x")
    assert choice.picked is None
    assert choice.reason == "of 2 healthy replicas, 2 have weight 0"
    assert choice.filtered == {"weight_0": 2, "at_max_concurrency": 0, "tried_before": 0}


def test_no_candidate_is_no_healthy_replica() -> None:
    assert pick([], (), "x").reason == "no healthy replica"


def test_simultaneous_arrivals_never_exceed_a_replicas_limit() -> None:
    balance = Balance({"a": 50, "b": 50}, max_concurrency=60)
    choices = [balance.choose(str(number)) for number in range(200)]
    assert balance.in_flight == {"a": 60, "b": 60}
    assert [c.picked for c in choices[120:]] == [None] * 80
    assert choices[-1].reason == "of 2 healthy replicas, 2 are at their max_concurrency"


def test_a_replica_that_was_tried_is_avoided_while_another_is_left() -> None:
    balance = Balance({"a": 99, "b": 1})
    names = {choice.picked.name for n in range(50) if (choice := balance.choose(str(n), tried=("a",))).picked}
    assert names == {"b"}
    only = Balance({"a": 1}).choose("x", tried=("a",))
    assert only.picked is not None
    assert "it was tried before, but no other is left" in only.reason


def test_a_stalled_replica_keeps_no_more_than_its_share() -> None:
    dice, balance = Random(3), Balance({"slow": 50, "fast": 50})
    for number in range(1_000):
        fast = [i for i, name in enumerate(balance.running) if name == "fast"]
        if len(balance.running) >= 16:
            balance.release(dice.choice(fast))
        balance.choose(str(number))
    assert balance.in_flight["slow"] <= 9


def test_a_replica_that_returns_is_not_flooded() -> None:
    balance = Balance({"a": 50, "b": 50})
    for number in range(500):
        balance.choose(str(number), tried=("b",))
        balance.release(0)
    before = balance.picked["b"]
    for number in range(20):
        balance.choose(f"again {number}")
        balance.release(0)
    assert balance.picked["b"] - before <= 13


def test_the_reason_and_the_runners_up_tell_what_was_weighed() -> None:
    choice = Balance({"a": 70, "b": 30}).choose("x")
    assert choice.picked is not None
    assert {choice.picked.name, *(c.name for c in choice.runners_up)} == {"a", "b"}
    assert choice.picked.name in choice.reason
    assert "next in turn of 2" in choice.reason


candidates_of_any_kind = st.lists(
    st.builds(
        Candidate,
        name=st.text("abcdefgh", min_size=1, max_size=3),
        pool=st.just("default"),
        weight=st.integers(0, 10_000),
        in_flight=st.integers(0, 100),
        max_concurrency=st.integers(1, 100),
        turn=st.floats(0, 1e6),
    ),
    max_size=8,
    unique_by=lambda c: c.name,
)


@given(candidates_of_any_kind, st.sets(st.text("abcdefgh", min_size=1, max_size=3)), st.text(max_size=5))
def test_any_choice_is_allowed_complete_and_repeatable(candidates: list[Candidate], tried: set[str], seed: str) -> None:
    choice = pick(candidates, tried, seed)
    assert choice == pick(list(reversed(candidates)), tried, seed)
    usable = [c for c in candidates if c.weight > 0 and c.in_flight < c.max_concurrency]
    assert (choice.picked is not None) == bool(usable)
    if choice.picked is not None:
        assert choice.picked in usable
        assert choice.next_turn > choice.picked.turn
        if choice.picked.name in tried:
            assert all(c.name in tried for c in usable)
    kept = len(choice.runners_up) + (choice.picked is not None)
    assert kept + sum(choice.filtered.values()) == len(candidates)
