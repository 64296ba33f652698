"""What `conch explain` says of money: only what is paid for is a cost."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from engine.api.narrative import _usage
from engine.store.queries import StoredInstance


def usage(quantity: int, cost_usd: str | None, *, billable: bool) -> dict[str, Any]:
    fact = {"kind": "usage", "sku": "input_tokens", "quantity": Decimal(quantity), "billable": billable}
    return fact if cost_usd is None else fact | {"cost_usd": Decimal(cost_usd)}


def told(*facts: dict[str, Any]) -> list[str]:
    nothing: Any = None
    return list(_usage(StoredInstance(1, nothing, nothing, (), facts)))


def test_a_failed_attempt_that_nobody_pays_for_is_no_part_of_the_cost() -> None:
    assert told(usage(9, "0.9", billable=False), usage(4, "0.4", billable=True)) == [
        "Used: 4 input tokens; it cost 0.4 USD.",
        "Used by attempts that nobody pays for: 9 input tokens.",
    ]
    assert told(usage(9, "0.9", billable=False)) == [
        "Nothing billable was used.",
        "Used by attempts that nobody pays for: 9 input tokens.",
    ]


def test_an_unknown_price_is_not_a_cost_of_nothing() -> None:
    assert told(usage(4, None, billable=True)) == ["Used: 4 input tokens; it has no price."]
    assert told(usage(4, None, billable=True), usage(1, "0.1", billable=True)) == [
        "Used: 5 input tokens; it cost 0.1 USD, 1 line without a price."
    ]
    assert told() == ["Nothing billable was used."]
