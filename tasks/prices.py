"""Owns what a call costs: usage quantities to priced lines, in exact decimal dollars.
Never rounds, converts a currency, or turns an unknown price into zero.
Called by admit (an estimate), infer (a line per quantity) and settle (their sum).
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from engine import PriceSettings, Usage

BYTES_PER_TOKEN = 4  # a rough figure for English text, used where the model does not report its tokens
INPUT, OUTPUT, REQUESTS = "input_tokens", "output_tokens", "requests"


def estimated_tokens(size_bytes: int) -> int:
    """About how many tokens a text of so many bytes has, at least 1."""
    return max(1, -(-size_bytes // BYTES_PER_TOKEN))


def usage_lines(
    price: PriceSettings | None,
    model: str,
    replica: str | None,
    input_tokens: int,
    output_tokens: int,
    *,
    estimated: bool,
    billable: bool,
) -> tuple[Usage, ...]:
    """One line per quantity that is not zero. Without a price the cost is None and there is no price id; a part that
    the price does not name has a price id and cost None. Requests count only where they have a price of their own."""
    request_usd = price.request_usd if price else None
    parts = (
        (INPUT, input_tokens, "Tokens", price.input_token_usd if price else None, estimated),
        (OUTPUT, output_tokens, "Tokens", price.output_token_usd if price else None, estimated),
        (REQUESTS, 1 if request_usd is not None else 0, "Requests", request_usd, False),
    )
    return tuple(
        Usage(
            sku=sku,
            quantity=Decimal(quantity),
            unit=unit,
            price_id=price.id if price else None,
            unit_price_usd=usd,
            cost_usd=None if usd is None else usd * quantity,
            estimated=guess,
            billable=billable,
            model=model,
            replica=replica,
        )
        for sku, quantity, unit, usd, guess in parts
        if quantity
    )


def total_cost_usd(lines: Iterable[Usage]) -> Decimal | None:
    """What the billable lines cost together; None when there is none, or one whose model has no price: unknown, not
    free. A part that a price does not name is not charged for."""
    billable = [line for line in lines if line.billable]
    if not billable or any(line.price_id is None for line in billable):
        return None
    return sum((line.cost_usd for line in billable if line.cost_usd is not None), Decimal(0))
