"""Owns the choice of one replica out of many: filter, score, pick, and the reason in words.
Never keeps state, calls a replica or draws a random number; everything it weighs is handed in.
Called by route.

Least in flight for the weight decides who may be picked: a replica whose in-flight share, this request counted, is
below its weight's share. At least one always is. Among those the one whose weighted turn comes next is picked (stride
scheduling), because least in flight alone sends everything to the heaviest replica while the fleet is idle and splits
evenly under two requests at a time: with turns the shares follow the weights at any load.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from hashlib import blake2b
from typing import NamedTuple

MAX_LAG_TURNS = 4.0  # a replica that was out catches up at most so many of its own turns when it returns


class Candidate(NamedTuple):
    """One replica as it is now. `turn` grows by 1/weight with each pick: the smallest is next."""

    name: str
    pool: str
    weight: int
    in_flight: int
    max_concurrency: int
    turn: float = 0.0


class Choice(NamedTuple):
    """`picked` is None when every candidate was filtered out; `next_turn` is the picked one's turn from now on."""

    picked: Candidate | None
    reason: str
    next_turn: float
    runners_up: tuple[Candidate, ...]
    filtered: dict[str, int]  # rule -> how many candidates it took out


def pick(candidates: Sequence[Candidate], tried: Container[str], seed: str) -> Choice:
    """The replica for one request. `tried` are avoided while others are left; `seed` breaks ties, so that the same
    request on the same fleet is routed alike whatever the order of `candidates`."""
    weighted = [c for c in candidates if c.weight > 0]
    free = [c for c in weighted if c.in_flight < c.max_concurrency]
    fresh = [c for c in free if c.name not in tried]
    left = fresh or free
    filtered = {
        "weight_0": len(candidates) - len(weighted),
        "at_max_concurrency": len(weighted) - len(free),
        "tried_before": len(free) - len(left),
    }
    if not left:
        return Choice(None, _why_none(candidates, filtered), 0.0, (), filtered)
    weight = sum([c.weight for c in left])
    total = sum([c.in_flight for c in left]) + 1
    newest = max([c.turn for c in left])
    ranked = sorted([(c.in_flight * weight >= c.weight * total, _turn(c, newest), c.name, c) for c in left])
    first = ranked[0]
    equals = [row for row in ranked if row[:2] == first[:2]]
    if len(equals) > 1:
        first = min(equals, key=lambda row: _tie(seed, row[2]))
    picked = first[3]
    below = [row[0] for row in ranked].count(False)
    reason = _why(picked, weight, len(left), below, bool(free) and not fresh)
    runners_up = tuple([row[3] for row in ranked if row is not first])
    return Choice(picked, reason, first[1] + 1 / picked.weight, runners_up, filtered)


def _turn(candidate: Candidate, newest: float) -> float:
    return max(candidate.turn, newest - MAX_LAG_TURNS / candidate.weight)


def _tie(seed: str, name: str) -> bytes:
    return blake2b(f"{seed}/{name}".encode(), digest_size=8).digest()


def _why(picked: Candidate, weight: int, left: int, below: int, repeated: bool) -> str:
    if left == 1:
        reason = f"{picked.name} is the only replica left, with {picked.in_flight} in flight"
    else:
        rule = "the only one" if below == 1 else f"next in turn of {below}"
        reason = (
            f"{picked.name} has {picked.in_flight} in flight, below its weighted share of "
            f"{100 * picked.weight / weight:.0f} %, and is {rule} of which that is true"
        )
    return f"{reason}; it was tried before, but no other is left" if repeated else reason


def _why_none(candidates: Sequence[Candidate], filtered: dict[str, int]) -> str:
    if not candidates:
        return "no healthy replica"
    words = {"weight_0": "have weight 0", "at_max_concurrency": "are at their max_concurrency"}
    parts = [f"{filtered[rule]} {text}" for rule, text in words.items() if filtered[rule]]
    return f"of {len(candidates)} healthy replicas, {' and '.join(parts)}"
